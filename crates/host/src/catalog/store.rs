//! Stores the last catalog of each server on disk between runs (LIF-13).
//!
//! The store is an optimization: unreadable files count as absent, and write errors are ignored.
//! One blocking task writes the files.

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
use super::{Catalog, ToolOptions};
use crate::disk::{Durability, TEMP_EXTENSION, create_private_dir, hex, write_atomic};

/// Version of the file format.
const FORMAT: u64 = 1;

/// Maximum number of stored catalogs.
const MAX_FILES: usize = 1000;

/// Unchanged files are rewritten after this time, so files in use do not look old.
const REWRITE_AFTER: Duration = Duration::from_hours(24);

/// Temporary files older than this are abandoned.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

/// Maximum time that shutdown waits for pending writes.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

const EXTENSION: &str = "json";

/// Stores the last catalog of each server.
///
/// ```
/// # let cache_dir = std::env::temp_dir();
/// let store = trunkline::storage::CatalogStore::at(cache_dir.join("my-agent").join("catalogs"));
/// let builder = trunkline::Host::builder().catalogs(store);
/// # drop(builder);
/// ```
pub struct CatalogStore(Arc<Inner>);

/// Identifies a catalog by its entry and the signed-in identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CatalogKey(String);

struct Inner {
    directory: PathBuf,
    queue: Mutex<WriteQueue>,
    busy: watch::Sender<bool>,
}

#[derive(Default)]
struct WriteQueue {
    /// The newest catalog per key.
    catalogs: BTreeMap<CatalogKey, Arc<Catalog>>,
    /// Whether a task is writing.
    is_running: bool,
}

impl CatalogKey {
    /// Returns the key for an entry's hash and the signed-in identity.
    pub(crate) fn new(hash: &str, identity: Option<&str>) -> Self {
        let mut digest = Sha256::new();
        digest.update(hash);
        if let Some(identity) = identity {
            digest.update("\n");
            digest.update(identity);
        }
        Self(hex(&digest.finalize()))
    }

    /// Returns the catalog's file in `directory`.
    pub(crate) fn path(&self, directory: &Path) -> PathBuf {
        directory.join(&self.0).with_extension(EXTENSION)
    }

    /// Returns whether the file name starts with a key.
    pub(crate) fn is_of(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        let key = name.and_then(|name| name.split('.').next());
        key.is_some_and(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}

impl CatalogStore {
    /// Creates a store in `directory`, which need not exist. Catalogs may be private to one user,
    /// so a directory that others can write to is not used.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Inner {
            directory: directory.into(),
            queue: Mutex::default(),
            busy: watch::Sender::new(false),
        }))
    }

    /// Loads a stored catalog.
    pub(crate) fn load(&self, key: &CatalogKey, options: ToolOptions) -> Option<Catalog> {
        if !self.0.is_trusted() {
            return None;
        }
        let stored = StoredCatalog::read(&self.0.path(key), key)?;
        let catalog = snapshot::read(options, &stored.catalog)?;
        Some(Catalog {
            cached_at: Some(stored.confirmed),
            ..catalog
        })
    }

    /// Queues a catalog for writing. Must be called on a Tokio runtime.
    pub(crate) fn save(&self, key: CatalogKey, catalog: Arc<Catalog>) {
        let mut queue = self.0.lock();
        queue.catalogs.insert(key, catalog);
        if !queue.is_running {
            queue.is_running = true;
            self.0.busy.send_replace(true);
            let inner = Arc::clone(&self.0);
            tokio::task::spawn_blocking(move || inner.drain());
        }
    }

    /// Waits, for a limited time, until all catalogs are written.
    pub(crate) async fn flush(&self) {
        let mut busy = self.0.busy.subscribe();
        let idle = busy.wait_for(|busy| !busy);
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, idle).await;
    }
}

impl Inner {
    fn path(&self, key: &CatalogKey) -> PathBuf {
        key.path(&self.directory)
    }

    /// Writes queued catalogs until the queue is empty.
    fn drain(&self) {
        loop {
            let next = {
                let mut queue = self.lock();
                let next = queue.catalogs.pop_first();
                if next.is_none() {
                    queue.is_running = false;
                    self.busy.send_replace(false);
                }
                next
            };
            let Some((key, catalog)) = next else {
                return;
            };
            // A full or read-only disk only makes the next start slower.
            let _ = self.write(&key, &catalog);
        }
    }

    fn write(&self, key: &CatalogKey, catalog: &Catalog) -> io::Result<()> {
        let path = self.path(key);
        let Some(text) = snapshot::write(catalog) else {
            // The stored catalog is outdated and the new one too large.
            return fs::remove_file(path);
        };
        let now = SystemTime::now();
        let old = StoredCatalog::read(&path, key);
        if old.is_some_and(|old| old.catalog.as_str() == text && old.is_recent(now)) {
            // The time of the file says when the server last confirmed it.
            return fs::File::options()
                .append(true)
                .open(&path)?
                .set_modified(now);
        }
        create_private_dir(&self.directory)?;
        if !self.is_trusted() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let is_new = !path.exists();
        let text = StoredCatalog::text(key, now, text)?;
        write_atomic(&path, text.as_str().as_bytes(), Durability::BestEffort)?;
        if is_new {
            self.prune(now, MAX_FILES)?;
        }
        Ok(())
    }

    /// Removes abandoned temporary files, and the oldest catalogs beyond `most`. Foreign files are
    /// left alone.
    fn prune(&self, now: SystemTime, most: usize) -> io::Result<()> {
        let mut stored = Vec::new();
        for file in fs::read_dir(&self.directory)?.flatten() {
            let path = file.path();
            let of_kind = |kind: &str| path.extension().is_some_and(|found| found == kind);
            let Ok(changed) = file.metadata().and_then(|found| found.modified()) else {
                continue;
            };
            if !CatalogKey::is_of(&path) {
                continue;
            }
            if of_kind(EXTENSION) {
                stored.push((changed, path));
            } else if of_kind(TEMP_EXTENSION)
                && now.duration_since(changed).unwrap_or_default() > ABANDONED_AFTER
            {
                let _ = fs::remove_file(path);
            }
        }
        stored.sort();
        let too_many = stored.len().saturating_sub(most);
        for (_, path) in stored.into_iter().take(too_many) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Returns whether only the owner can write to the directory.
    fn is_trusted(&self) -> bool {
        fs::metadata(&self.directory).is_ok_and(|found| found.is_dir() && is_private(&found))
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The contents of a file.
struct StoredCatalog {
    fetched: SystemTime,
    /// When the server last confirmed the catalog.
    confirmed: SystemTime,
    catalog: Json,
}

impl StoredCatalog {
    /// Reads a file; `None` if it is not a file, too large, invalid, or belongs to another key.
    fn read(path: &Path, key: &CatalogKey) -> Option<Self> {
        // The file holds a little more than the catalog.
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
        let fetched = SystemTime::UNIX_EPOCH.checked_add(fetched)?;
        Some(Self {
            fetched,
            confirmed: found.modified().unwrap_or(fetched).max(fetched),
            catalog: whole.get("catalog")?,
        })
    }

    fn text(key: &CatalogKey, fetched: SystemTime, catalog: String) -> io::Result<Json> {
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
        age.is_ok_and(|age| age < REWRITE_AFTER)
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

    struct Fixture {
        scratch: tempfile::TempDir,
        store: CatalogStore,
    }

    impl Fixture {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let store = CatalogStore::at(scratch.path().join("deep/catalogs"));
            Self { scratch, store }
        }

        fn load(&self, key: &CatalogKey) -> Option<Catalog> {
            self.store.load(key, options(&"s".into()))
        }

        fn path(&self, key: &CatalogKey) -> PathBuf {
            self.store.0.path(key)
        }

        fn write(&self, key: &CatalogKey, catalog: &Catalog) {
            self.store.0.write(key, catalog).unwrap();
        }

        fn file_count(&self) -> usize {
            fs::read_dir(&self.store.0.directory).unwrap().count()
        }
    }

    fn options(server: &Arc<str>) -> ToolOptions<'_> {
        ToolOptions::plain(server)
    }

    fn catalog(tool: &str) -> Catalog {
        let text = CATALOG.replace(r#""t""#, &format!("\"{tool}\""));
        snapshot::read(options(&"s".into()), &Json::parse(text).unwrap()).unwrap()
    }

    fn tools(catalog: Option<Catalog>) -> Vec<String> {
        let tools = catalog.map(|catalog| catalog.tools().to_vec());
        let names = tools.into_iter().flatten();
        names.map(|tool| tool.tool.name.to_string()).collect()
    }

    #[test]
    fn catalogs_are_stored_per_entry_and_identity() {
        let fixture = Fixture::new();
        let (one, mine, yours) = (
            CatalogKey::new("a", None),
            CatalogKey::new("a", Some("me")),
            CatalogKey::new("a", Some("you")),
        );
        assert!(fixture.load(&one).is_none());
        fixture.write(&one, &catalog("x"));
        fixture.write(&mine, &catalog("y"));
        assert_eq!(tools(fixture.load(&one)), ["x"]);
        assert_eq!(tools(fixture.load(&mine)), ["y"]);
        assert!(fixture.load(&yours).is_none());
        fixture.write(&one, &catalog("z"));
        assert_eq!(tools(fixture.load(&one)), ["z"]);
        assert_eq!(fixture.file_count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_and_a_writable_directory_is_not_used() {
        use std::os::unix::fs::PermissionsExt;

        let fixture = Fixture::new();
        let key = CatalogKey::new("a", None);
        fixture.write(&key, &catalog("x"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let directory = &fixture.store.0.directory;
        assert_eq!((mode(directory), mode(&fixture.path(&key))), (0o700, 0o600));
        assert_eq!(mode(&fixture.scratch.path().join("deep")), 0o700);
        fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(fixture.load(&key).is_none());
        assert!(fixture.store.0.write(&key, &catalog("y")).is_err());
    }

    #[test]
    fn invalid_file_is_ignored_and_replaced() {
        let fixture = Fixture::new();
        let key = CatalogKey::new("a", None);
        fixture.write(&key, &catalog("x"));
        let good = fs::read_to_string(fixture.path(&key)).unwrap();
        for broken in [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace(r#""format":1"#, r#""format":2"#),
            good.replace(&key.0, &CatalogKey::new("b", None).0),
            good.replace(r#""name""#, r#""nome""#),
            "[]".to_owned(),
        ] {
            assert_ne!(broken, good);
            fs::write(fixture.path(&key), &broken).unwrap();
            assert!(fixture.load(&key).is_none(), "{broken}");
            fixture.write(&key, &catalog("y"));
            assert_eq!(tools(fixture.load(&key)), ["y"]);
        }
        fs::write(fixture.path(&key), b"\xff\xfe").unwrap();
        assert!(fixture.load(&key).is_none());
        fs::remove_file(fixture.path(&key)).unwrap();
        fs::create_dir(fixture.path(&key)).unwrap();
        assert!(fixture.load(&key).is_none());
    }

    #[test]
    fn unchanged_catalog_is_rewritten_only_when_old() {
        let fixture = Fixture::new();
        let key = CatalogKey::new("a", None);
        fixture.write(&key, &catalog("x"));
        let before = fs::read_to_string(fixture.path(&key)).unwrap();
        let file = OpenOptions::new().append(true).open(fixture.path(&key));
        let past = SystemTime::now() - Duration::from_mins(10);
        file.unwrap().set_modified(past).unwrap();
        fixture.write(&key, &catalog("x"));
        assert_eq!(fs::read_to_string(fixture.path(&key)).unwrap(), before);
        // It counts as confirmed, though.
        let confirmed = fixture.load(&key).and_then(|catalog| catalog.cached_at);
        assert!(confirmed.unwrap() > past + Duration::from_mins(9));
        let old = SystemTime::now() - REWRITE_AFTER;
        let text = StoredCatalog::text(&key, old, snapshot::write(&catalog("x")).unwrap()).unwrap();
        fs::write(fixture.path(&key), text.as_str()).unwrap();
        fixture.write(&key, &catalog("x"));
        assert_ne!(
            fs::read_to_string(fixture.path(&key)).unwrap(),
            text.as_str()
        );
    }

    #[test]
    fn pruning_removes_the_oldest_and_leaves_foreign_files() {
        let fixture = Fixture::new();
        let keys: Vec<_> = (0..5)
            .map(|n| CatalogKey::new(&n.to_string(), None))
            .collect();
        let now = SystemTime::now();
        let aged = |path: &Path, age: u64| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        };
        for (key, age) in keys.iter().zip([50, 10, 40, 20, 30]) {
            fixture.write(key, &catalog("x"));
            aged(&fixture.path(key), age);
        }
        let abandoned = fixture.path(&keys[0]).with_extension("1-0.tmp");
        let unfinished = fixture.path(&keys[0]).with_extension("1-1.tmp");
        let foreign = fixture.store.0.directory.join("notes.json");
        aged(&abandoned, 2 * ABANDONED_AFTER.as_secs());
        aged(&unfinished, 1);
        aged(&foreign, 1_000_000);
        fixture.store.0.prune(now, 3).unwrap();
        let left: Vec<_> = keys.iter().map(|key| fixture.load(key).is_some()).collect();
        assert_eq!(left, [false, true, false, true, true]);
        assert!(unfinished.exists() && foreign.exists() && !abandoned.exists());
    }

    #[tokio::test]
    async fn newest_catalog_of_a_burst_is_stored() {
        let fixture = Fixture::new();
        let key = CatalogKey::new("a", None);
        for n in 0..100 {
            fixture
                .store
                .save(key.clone(), Arc::new(catalog(&n.to_string())));
        }
        fixture.store.flush().await;
        assert_eq!(tools(fixture.load(&key)), ["99"]);
    }
}
