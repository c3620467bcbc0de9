//! The last catalog of each server, kept on disk from one run to the next (LIF-13).
//!
//! It only saves time: what cannot be read counts as absent, what cannot be written is not kept, and neither does harm. Files
//! are written by one job at a time, off the runtime's threads.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tokio::sync::watch;
use trunkline_wire::{Json, ObjectWriter};

use super::snapshot::{self, MAX_BYTES};
use super::{Catalog, Offer};
use crate::disk::{Care, UNFINISHED, private_dir, write_whole};

/// What the files look like; another number is another version's.
const FORMAT: u64 = 1;

/// How many catalogs are kept.
const MAX_FILES: usize = 1000;

/// How old a file becomes before it is written again although nothing has changed, so that what is in use does not count as old.
const RENEWED_AFTER: Duration = Duration::from_hours(24);

/// After this time, a file that was being written never will be.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

/// How long the end of a host waits for what is still to be written.
const PATIENCE: Duration = Duration::from_secs(1);

const EXTENSION: &str = "json";

/// Where the last catalog of each server is kept.
///
/// ```
/// # let cache_dir = std::env::temp_dir();
/// let store = trunkline::storage::CatalogStore::at(cache_dir.join("my-agent").join("catalogs"));
/// let builder = trunkline::Host::builder().catalogs(store);
/// # drop(builder);
/// ```
pub struct CatalogStore(Arc<Files>);

/// Which catalog: of which entry, for whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String);

struct Files {
    directory: PathBuf,
    waiting: Mutex<Waiting>,
    busy: watch::Sender<bool>,
}

#[derive(Default)]
struct Waiting {
    /// The newest of each.
    catalogs: BTreeMap<Key, Arc<Catalog>>,
    /// Somebody is at work on them.
    working: bool,
}

impl Key {
    /// The catalog of the entry with this hash, for the identity that is signed in.
    pub(crate) fn new(hash: &str, identity: Option<&str>) -> Self {
        let mut digest = Sha256::new();
        digest.update(hash);
        if let Some(identity) = identity {
            digest.update("\n");
            digest.update(identity);
        }
        let digest = digest.finalize();
        let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex = nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16));
        Self(hex.collect())
    }

    /// The file in `directory` that holds it.
    pub(crate) fn path(&self, directory: &Path) -> PathBuf {
        directory.join(&self.0).with_extension(EXTENSION)
    }

    /// Whether a file may hold a catalog.
    pub(crate) fn is_of(path: &Path) -> bool {
        is_key(path)
    }
}

impl CatalogStore {
    /// Keeps catalogs in `directory`, which need not exist. They hold what servers say about themselves, which may be meant for
    /// one user only: a directory that others may write to is not used.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Files {
            directory: directory.into(),
            waiting: Mutex::default(),
            busy: watch::Sender::new(false),
        }))
    }

    /// The catalog as it was kept, if it was.
    pub(crate) fn load(&self, key: &Key, offer: Offer) -> Option<Catalog> {
        if !self.0.is_ours() {
            return None;
        }
        let kept = Kept::read(&self.0.path(key), key)?;
        snapshot::read(offer, &kept.catalog)
    }

    /// Keeps a catalog, soon. Must be called on a Tokio runtime.
    pub(crate) fn save(&self, key: Key, catalog: Arc<Catalog>) {
        let mut waiting = self.0.lock();
        waiting.catalogs.insert(key, catalog);
        if !waiting.working {
            waiting.working = true;
            self.0.busy.send_replace(true);
            let files = Arc::clone(&self.0);
            tokio::task::spawn_blocking(move || files.work());
        }
    }

    /// Waits until everything is written, but not for ever.
    pub(crate) async fn written(&self) {
        let mut busy = self.0.busy.subscribe();
        let idle = busy.wait_for(|busy| !busy);
        let _ = tokio::time::timeout(PATIENCE, idle).await;
    }
}

impl Files {
    fn path(&self, key: &Key) -> PathBuf {
        key.path(&self.directory)
    }

    /// Writes what is waiting until nothing is.
    fn work(&self) {
        loop {
            let next = {
                let mut waiting = self.lock();
                let next = waiting.catalogs.pop_first();
                if next.is_none() {
                    waiting.working = false;
                    self.busy.send_replace(false);
                }
                next
            };
            let Some((key, catalog)) = next else {
                return;
            };
            // A disk that is full or read-only costs the next start some time, and nothing else.
            let _ = self.keep(&key, &catalog);
        }
    }

    fn keep(&self, key: &Key, catalog: &Catalog) -> io::Result<()> {
        let path = self.path(key);
        let Some(text) = snapshot::write(catalog) else {
            // What is kept is no longer true, and the truth is too large.
            return fs::remove_file(path);
        };
        let now = SystemTime::now();
        let old = Kept::read(&path, key);
        if old.is_some_and(|old| old.catalog.as_str() == text && old.is_recent(now)) {
            return Ok(());
        }
        private_dir(&self.directory)?;
        if !self.is_ours() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let is_new = !path.exists();
        let text = Kept::text(key, now, text)?;
        write_whole(&path, text.as_str().as_bytes(), Care::Little)?;
        if is_new {
            self.tidy_up(now, MAX_FILES)?;
        }
        Ok(())
    }

    /// Removes what nobody will finish, and the oldest catalogs if there are too many. What is not ours is left alone.
    fn tidy_up(&self, now: SystemTime, most: usize) -> io::Result<()> {
        let mut kept = Vec::new();
        for file in fs::read_dir(&self.directory)?.flatten() {
            let path = file.path();
            let of_kind = |kind: &str| path.extension().is_some_and(|found| found == kind);
            let Ok(changed) = file.metadata().and_then(|found| found.modified()) else {
                continue;
            };
            if !is_key(&path) {
                continue;
            }
            if of_kind(EXTENSION) {
                kept.push((changed, path));
            } else if of_kind(UNFINISHED)
                && now.duration_since(changed).unwrap_or_default() > ABANDONED_AFTER
            {
                let _ = fs::remove_file(path);
            }
        }
        kept.sort();
        let too_many = kept.len().saturating_sub(most);
        for (_, path) in kept.into_iter().take(too_many) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Whether nobody else can have put anything there.
    fn is_ours(&self) -> bool {
        fs::metadata(&self.directory).is_ok_and(|found| found.is_dir() && is_private(&found))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the file's name begins like one of ours.
fn is_key(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let key = name.and_then(|name| name.split('.').next());
    key.is_some_and(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What stands in a file.
struct Kept {
    fetched: SystemTime,
    catalog: Json,
}

impl Kept {
    /// What the file says; nothing if it is no file, too large to be ours, broken, or another's.
    fn read(path: &Path, key: &Key) -> Option<Self> {
        // A little more than the catalog stands in it.
        let limit = u64::try_from(MAX_BYTES).ok()? + 1024;
        let found = fs::symlink_metadata(path).ok()?;
        if !found.is_file() || found.len() > limit {
            return None;
        }
        let text = String::from_utf8(fs::read(path).ok()?).ok()?;
        let whole = Json::parse(text).ok()?;
        let ours = whole.field::<u64>("format") == Some(FORMAT)
            && whole.field::<String>("key").as_ref() == Some(&key.0);
        if !ours {
            return None;
        }
        let fetched = Duration::from_millis(whole.field("fetchedAt")?);
        Some(Self {
            fetched: SystemTime::UNIX_EPOCH.checked_add(fetched)?,
            catalog: whole.get("catalog")?,
        })
    }

    fn text(key: &Key, fetched: SystemTime, catalog: String) -> io::Result<Json> {
        let fetched = fetched.duration_since(SystemTime::UNIX_EPOCH);
        let fetched = fetched.unwrap_or_default().as_millis();
        let mut whole = ObjectWriter::with_capacity(catalog.len() + 256);
        whole
            .integer("format", FORMAT)
            .string("key", &key.0)
            .integer("fetchedAt", u64::try_from(fetched).unwrap_or_default())
            .raw("catalog", &Json::parse(catalog).map_err(io::Error::other)?);
        Ok(whole.finish())
    }

    fn is_recent(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.fetched);
        age.is_ok_and(|age| age < RENEWED_AFTER)
    }
}

#[cfg(unix)]
fn is_private(found: &fs::Metadata) -> bool {
    let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
    mode & 0o022 == 0
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    const CATALOG: &str = r#"{"protocolVersion":"2025-11-25","serverInfo":null,"instructions":null,"capabilities":{},"tools":{"ttlMs":null,"items":[{"name":"t"}]},"resources":{"ttlMs":null,"items":[]},"resourceTemplates":{"ttlMs":null,"items":[]},"prompts":{"ttlMs":null,"items":[]}}"#;

    struct Lab {
        scratch: tempfile::TempDir,
        store: CatalogStore,
    }

    impl Lab {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let store = CatalogStore::at(scratch.path().join("deep/catalogs"));
            Self { scratch, store }
        }

        fn load(&self, key: &Key) -> Option<Catalog> {
            self.store.load(key, offer(&"s".into()))
        }

        fn path(&self, key: &Key) -> PathBuf {
            self.store.0.path(key)
        }

        fn keep(&self, key: &Key, catalog: &Catalog) {
            self.store.0.keep(key, catalog).unwrap();
        }

        fn files(&self) -> usize {
            fs::read_dir(&self.store.0.directory).unwrap().count()
        }
    }

    fn offer(server: &Arc<str>) -> Offer<'_> {
        Offer::plain(server)
    }

    fn catalog(tool: &str) -> Catalog {
        let text = CATALOG.replace(r#""t""#, &format!("\"{tool}\""));
        snapshot::read(offer(&"s".into()), &Json::parse(text).unwrap()).unwrap()
    }

    fn tools(catalog: Option<Catalog>) -> Vec<String> {
        let tools = catalog.map(|catalog| catalog.tools().to_vec());
        let names = tools.into_iter().flatten();
        names.map(|tool| tool.tool.name.to_string()).collect()
    }

    #[test]
    fn a_catalog_is_kept_for_its_entry_and_its_identity() {
        let lab = Lab::new();
        let (one, mine, yours) = (
            Key::new("a", None),
            Key::new("a", Some("me")),
            Key::new("a", Some("you")),
        );
        assert!(lab.load(&one).is_none());
        lab.keep(&one, &catalog("x"));
        lab.keep(&mine, &catalog("y"));
        assert_eq!(tools(lab.load(&one)), ["x"]);
        assert_eq!(tools(lab.load(&mine)), ["y"]);
        assert!(lab.load(&yours).is_none());
        lab.keep(&one, &catalog("z"));
        assert_eq!(tools(lab.load(&one)), ["z"]);
        assert_eq!(lab.files(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it_and_what_others_can_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;

        let lab = Lab::new();
        let key = Key::new("a", None);
        lab.keep(&key, &catalog("x"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let directory = &lab.store.0.directory;
        assert_eq!((mode(directory), mode(&lab.path(&key))), (0o700, 0o600));
        assert_eq!(mode(&lab.scratch.path().join("deep")), 0o700);
        fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(lab.load(&key).is_none());
        assert!(lab.store.0.keep(&key, &catalog("y")).is_err());
    }

    #[test]
    fn what_is_not_a_catalog_of_ours_counts_as_absent_and_is_replaced() {
        let lab = Lab::new();
        let key = Key::new("a", None);
        lab.keep(&key, &catalog("x"));
        let good = fs::read_to_string(lab.path(&key)).unwrap();
        for broken in [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace(r#""format":1"#, r#""format":2"#),
            good.replace(&key.0, &Key::new("b", None).0),
            good.replace(r#""name""#, r#""nome""#),
            "[]".to_owned(),
        ] {
            assert_ne!(broken, good);
            fs::write(lab.path(&key), &broken).unwrap();
            assert!(lab.load(&key).is_none(), "{broken}");
            lab.keep(&key, &catalog("y"));
            assert_eq!(tools(lab.load(&key)), ["y"]);
        }
        fs::write(lab.path(&key), b"\xff\xfe").unwrap();
        assert!(lab.load(&key).is_none());
        fs::remove_file(lab.path(&key)).unwrap();
        fs::create_dir(lab.path(&key)).unwrap();
        assert!(lab.load(&key).is_none());
    }

    #[test]
    fn what_has_not_changed_is_written_again_only_after_a_while() {
        let lab = Lab::new();
        let key = Key::new("a", None);
        lab.keep(&key, &catalog("x"));
        let before = fs::read_to_string(lab.path(&key)).unwrap();
        lab.keep(&key, &catalog("x"));
        assert_eq!(fs::read_to_string(lab.path(&key)).unwrap(), before);
        let old = SystemTime::now() - RENEWED_AFTER;
        let text = Kept::text(&key, old, snapshot::write(&catalog("x")).unwrap()).unwrap();
        fs::write(lab.path(&key), text.as_str()).unwrap();
        lab.keep(&key, &catalog("x"));
        assert_ne!(fs::read_to_string(lab.path(&key)).unwrap(), text.as_str());
    }

    #[test]
    fn of_too_many_the_oldest_go_and_what_is_not_ours_stays() {
        let lab = Lab::new();
        let keys: Vec<_> = (0..5).map(|n| Key::new(&n.to_string(), None)).collect();
        let now = SystemTime::now();
        let aged = |path: &Path, age: u64| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        };
        for (key, age) in keys.iter().zip([50, 10, 40, 20, 30]) {
            lab.keep(key, &catalog("x"));
            aged(&lab.path(key), age);
        }
        let abandoned = lab.path(&keys[0]).with_extension("1-0.tmp");
        let unfinished = lab.path(&keys[0]).with_extension("1-1.tmp");
        let foreign = lab.store.0.directory.join("notes.json");
        aged(&abandoned, 2 * ABANDONED_AFTER.as_secs());
        aged(&unfinished, 1);
        aged(&foreign, 1_000_000);
        lab.store.0.tidy_up(now, 3).unwrap();
        let left: Vec<_> = keys.iter().map(|key| lab.load(key).is_some()).collect();
        assert_eq!(left, [false, true, false, true, true]);
        assert!(unfinished.exists() && foreign.exists() && !abandoned.exists());
    }

    #[tokio::test]
    async fn the_newest_catalog_of_a_burst_is_the_one_that_is_kept() {
        let lab = Lab::new();
        let key = Key::new("a", None);
        for n in 0..100 {
            lab.store
                .save(key.clone(), Arc::new(catalog(&n.to_string())));
        }
        lab.store.written().await;
        assert_eq!(tools(lab.load(&key)), ["99"]);
    }
}
