//! The directory for parts of results that are too large or of no use for a model (RES-3, RES-4,
//! RES-7).
//!
//! It must belong to the user: a directory that others can write to, that belongs to another user,
//! or that is a symbolic link is not used. File names are made here; no part of them is a server's
//! path.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use trunkline_config::normalize_name;

use crate::logs::stamp;

/// How long files are kept (RES-7).
pub(super) const KEEP_FOR: Duration = Duration::from_hours(7 * 24);

/// The interval of cleanups in a running process.
const CLEANUP_INTERVAL: Duration = Duration::from_hours(24);

/// The length of a server's and a tool's name in a file name.
const MAX_NAME: usize = 40;

/// The prefix of all file names.
const PREFIX: &str = "mcp-";

/// The number of random digits in a file name.
const RANDOM: usize = 8;

/// The number of attempts to find a free name.
const TRIES: usize = 8;

/// The directory for files, and how long they are kept.
#[derive(Clone, Debug)]
pub(super) struct Store {
    /// `None` saves nothing.
    pub(super) dir: Option<PathBuf>,
    pub(super) keep_for: Duration,
    /// The time of this process's last cleanup.
    tidied: Arc<Mutex<Option<Instant>>>,
}

/// A file in writing, removed on drop unless finished.
pub(super) struct SavingFile {
    file: File,
    path: PathBuf,
    size: u64,
    finished: bool,
}

impl Store {
    pub(super) fn new(dir: Option<PathBuf>) -> Self {
        // The path in a note must hold in every working directory.
        let dir = dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir));
        Self {
            dir,
            keep_for: KEEP_FOR,
            tidied: Arc::default(),
        }
    }

    /// The user's directory below the system's directory for temporary files.
    pub(super) fn temporary() -> Self {
        Self::new(Some(
            std::env::temp_dir().join(format!("trunkline-results{}", user_suffix())),
        ))
    }

    /// Creates a file for a result of `tool` on `server`.
    pub(super) fn create(
        &self,
        server: &str,
        tool: &str,
        extension: &str,
    ) -> io::Result<SavingFile> {
        let dir = self.usable()?;
        self.clean_up_daily(dir);
        let mut taken = None;
        for _ in 0..TRIES {
            let name = file_name(server, tool, SystemTime::now(), random(), extension);
            let path = dir.join(name);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => {
                    return Ok(SavingFile {
                        file,
                        path,
                        size: 0,
                        finished: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = Some(error),
                Err(error) => return Err(explained(&error, dir)),
            }
        }
        Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Returns the directory, created if needed.
    fn usable(&self) -> io::Result<&Path> {
        let Some(dir) = &self.dir else {
            return Err(io::Error::other("results are not saved here"));
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(dir)
            .map_err(|error| explained(&error, dir))?;
        let found = fs::symlink_metadata(dir).map_err(|error| explained(&error, dir))?;
        match unusable_reason(&found) {
            Some(why) => Err(io::Error::other(format!(
                "{} is not used, because {why}",
                dir.display()
            ))),
            None => Ok(dir),
        }
    }

    /// Removes old files on a thread: on first use, then daily.
    fn clean_up_daily(&self, dir: &Path) {
        if !self.is_due(Instant::now()) {
            return;
        }
        let (dir, keep_for) = (dir.to_owned(), self.keep_for);
        let work = move || clean_up(&dir, keep_for, SystemTime::now());
        // If no thread can start, another process will do it.
        let _ = std::thread::Builder::new()
            .name("old results".to_owned())
            .spawn(work);
    }

    /// True if a cleanup is due; records that it is done.
    fn is_due(&self, now: Instant) -> bool {
        let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tidied.is_none_or(|last| now.saturating_duration_since(last) >= CLEANUP_INTERVAL);
        if due {
            *tidied = Some(now);
        }
        due
    }
}

impl SavingFile {
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.file
            .write_all(data)
            .map_err(|error| explained(&error, &self.path))?;
        self.size += data.len() as u64;
        Ok(())
    }

    /// Returns the path and the size.
    pub(super) fn finish(mut self) -> (PathBuf, u64) {
        self.finished = true;
        (std::mem::take(&mut self.path), self.size)
    }
}

impl Drop for SavingFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes our files that are older than `keep_for`. Several processes may do so at the same time.
fn clean_up(dir: &Path, keep_for: Duration, now: SystemTime) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(is_our_file);
        // Of the entry itself, not of a link's target.
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let age = found
            .modified()
            .ok()
            .and_then(|time| now.duration_since(time).ok());
        if ours && found.is_file() && age.is_some_and(|age| age > keep_for) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// `mcp-<server>-<tool>-<time>-<random>.<extension>` (RES-7).
fn file_name(server: &str, tool: &str, time: SystemTime, random: u64, extension: &str) -> String {
    let part = |name: &str| {
        let name = normalize_name(name);
        name[..name.len().min(MAX_NAME)].to_owned()
    };
    // To the second, without separators.
    let time: String = stamp(time)
        .chars()
        .take_while(|c| *c != '.')
        .filter(|c| c.is_ascii_digit() || *c == 'T')
        .collect();
    let random = format!("{random:016x}");
    format!(
        "{PREFIX}{}-{}-{time}-{}.{extension}",
        part(server),
        part(tool),
        &random[..RANDOM]
    )
}

/// True if the name of a saved file is that of a server's result.
pub(crate) fn is_result_of(name: &str, server: &str) -> bool {
    let server = normalize_name(server);
    let server = &server[..server.len().min(MAX_NAME)];
    let rest = name.strip_prefix(PREFIX);
    let rest = rest.and_then(|rest| rest.strip_prefix(server));
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// True if [`file_name`] made this name.
pub(crate) fn is_our_file(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let mut parts = stem.rsplitn(3, '-');
    let random = parts.next().unwrap_or_default();
    let time = parts.next().unwrap_or_default();
    let front = parts.next().unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = time.split_once('T').is_some_and(|(day, time)| {
        day.len() == 8 && time.len() == 6 && digits(day) && digits(time)
    });
    front.starts_with(PREFIX)
        && is_time
        && random.len() == RANDOM
        && random.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !extension.is_empty()
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Adds the path to an error.
fn explained(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns why a directory cannot be used.
#[cfg(unix)]
fn unusable_reason(found: &fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;

    if found.is_symlink() {
        Some("it is a symbolic link")
    } else if !found.is_dir() {
        Some("it is not a directory")
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        Some("others may write to it")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn unusable_reason(found: &fs::Metadata) -> Option<&'static str> {
    if found.is_symlink() {
        Some("it is a symbolic link")
    } else if !found.is_dir() {
        Some("it is not a directory")
    } else {
        None
    }
}

/// Tells users apart who share a directory.
#[cfg(unix)]
fn user_suffix() -> String {
    format!("-{}", rustix::process::geteuid().as_raw())
}

/// Every user has their own directory.
#[cfg(not(unix))]
fn user_suffix() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::new(Some(scratch.path().join("deep/results")));
        (scratch, store)
    }

    fn save(store: &Store, text: &str) -> io::Result<PathBuf> {
        let mut saving = store.create("s", "t", "txt")?;
        saving.write(text.as_bytes())?;
        Ok(saving.finish().0)
    }

    #[test]
    fn names_say_whose_and_when_and_are_safe_and_short() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_794_584_567);
        let name =
            |server: &str, tool: &str| file_name(server, tool, time, 0x1a2b_3c4d_0000_0000, "json");
        let cases = [
            (
                "github",
                "get_issue",
                "mcp-github-get_issue-20261116T020304-1a2b3c4d.json",
            ),
            (
                "../../etc",
                "a/b\\c",
                "mcp-______etc-a_b_c-20261116T020304-1a2b3c4d.json",
            ),
            (
                "ünï\u{202e}",
                "\0",
                "mcp-_n__-_-20261116T020304-1a2b3c4d.json",
            ),
            ("", "", "mcp---20261116T020304-1a2b3c4d.json"),
        ];
        for (server, tool, expected) in cases {
            assert_eq!(name(server, tool), expected);
            assert!(is_our_file(expected));
        }
        let long = name(&"s".repeat(500), &"t".repeat(500));
        assert!(long.len() < 128 && is_our_file(&long), "{long}");
    }

    #[test]
    fn only_names_of_ours_are_ours() {
        for name in [
            "notes.txt",
            "mcp-a-b-20261116T020304-1a2b3c4d",
            "mcp-a-b-20261116T020304-1a2b3c4.txt",
            "mcp-a-b-20261116T02030-1a2b3c4d.txt",
            "mcp-a-b-2026111T6020304-1a2b3c4d.txt",
            "mcp-a-b-20261116T020304-1a2b3c4g.txt",
            "a-b-20261116T020304-1a2b3c4d.txt",
            ".mcp-a-b-20261116T020304-1a2b3c4d.txt",
        ] {
            assert!(!is_our_file(name), "{name}");
        }
    }

    #[test]
    fn a_file_is_there_once_it_is_finished_and_gone_if_it_never_is() {
        let (_scratch, store) = store();
        let path = save(&store, "hello").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        assert!(path.is_absolute());
        let mut saving = store.create("s", "t", "txt").unwrap();
        saving.write(b"half").unwrap();
        drop(saving);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_read_a_file_or_see_it() {
        use std::os::unix::fs::PermissionsExt;

        let (_scratch, store) = store();
        let path = save(&store, "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_not_ours_alone_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let scratch = tempfile::tempdir().unwrap();
        let real = scratch.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = scratch.path().join("link");
        symlink(&real, &link).unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        let open = scratch.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        for (dir, why) in [
            (&link, "it is a symbolic link"),
            (&open, "others may write to it"),
        ] {
            let error = save(&Store::new(Some(dir.clone())), "x").unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{} is not used, because {why}", dir.display())
            );
        }
        assert!(save(&Store::new(Some(file)), "x").is_err());
        let never = save(&Store::new(None), "x").unwrap_err();
        assert_eq!(never.to_string(), "results are not saved here");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
    }

    #[test]
    fn old_files_of_ours_are_removed_and_nothing_else() {
        let (_scratch, store) = store();
        let now = SystemTime::now();
        let (old, new) = (save(&store, "old").unwrap(), save(&store, "new").unwrap());
        let dir = old.parent().unwrap().to_owned();
        let foreign = dir.join("notes.txt");
        let directory = dir.join("mcp-a-b-20261116T020304-1a2b3c4d.txt");
        fs::write(&foreign, "").unwrap();
        fs::create_dir(&directory).unwrap();
        let long_ago = now - KEEP_FOR - Duration::from_secs(1);
        for path in [&old, &foreign] {
            let file = OpenOptions::new().append(true).open(path).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        #[cfg(unix)]
        let link = {
            let link = dir.join("mcp-a-b-20261116T020304-1a2b3c4e.txt");
            std::os::unix::fs::symlink(&foreign, &link).unwrap();
            link
        };
        clean_up(&dir, KEEP_FOR, now);
        assert!(!old.exists() && new.exists() && foreign.exists() && directory.exists());
        #[cfg(unix)]
        assert!(link.is_symlink());
        clean_up(&dir.join("missing"), KEEP_FOR, now);
    }

    #[test]
    fn old_files_are_looked_for_once_a_day() {
        let (_scratch, store) = store();
        let start = Instant::now();
        let hours = [0, 1, 23, 24, 25, 47, 48];
        let due = hours.map(|hours| store.is_due(start + Duration::from_hours(hours)));
        assert_eq!(due, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn the_first_file_of_a_process_makes_old_ones_go() {
        let (scratch, store) = store();
        let old = save(&store, "old").unwrap();
        let file = OpenOptions::new().append(true).open(&old).unwrap();
        file.set_modified(SystemTime::now() - 2 * KEEP_FOR).unwrap();
        let next_process = Store::new(Some(scratch.path().join("deep/results")));
        let new = save(&next_process, "new").unwrap();
        let started = std::time::Instant::now();
        while old.exists() {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(new.exists());
    }
}
