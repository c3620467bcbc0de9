//! Log files: one per server, rotated by size, shared by all processes of a user.
//!
//! The file is opened for every write, so rotation by another process or deletion needs no
//! handling. Each write appends whole lines in one call, which the system keeps intact.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};

use crate::disk::{hex, no_follow, private_options};

/// Size limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Size of one file; the rotated file may be as large again.
    pub(super) file: u64,
    /// Total size of all files.
    pub(super) total: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file: 4 * 1024 * 1024,
            total: 128 * 1024 * 1024,
        }
    }
}

/// Maximum wait for another process's rotation.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Extensions of the current and the rotated file.
const EXTENSION: &str = ".log";
const ROTATED_EXTENSION: &str = ".log.1";

/// Prefix of the server's name in the first line of a file that is not named after it.
const HEADING: &str = "log of the server ";

/// Returns the log file of a server. A plain name is used as is; any other name is made safe and
/// gets a hash, so servers never share a file, even on case-insensitive file systems.
pub(crate) fn log_path(dir: &Path, server: &str) -> PathBuf {
    dir.join(format!("{}{EXTENSION}", file_stem(server)))
}

/// Returns the path of the rotated file.
pub(crate) fn rotated_path(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

fn file_stem(server: &str) -> String {
    const LONGEST: usize = 64;
    if is_plain(server) {
        return server.to_owned();
    }
    let lowered = server.to_lowercase();
    let made: String = lowered
        .chars()
        .take(LONGEST)
        .map(|c| if is_safe(c) { c } else { '_' })
        .collect();
    let hash = Sha256::digest(server.as_bytes());
    // Plain names never contain a tilde.
    format!("{}~{}", made.trim_start_matches('.'), hex(&hash[..6]))
}

fn is_safe(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c)
}

/// Returns whether a server's name can be a file name.
fn is_plain(server: &str) -> bool {
    // Device names reserved by Windows, with any extension.
    let first = server.split('.').next().unwrap_or_default();
    let device = matches!(first, "con" | "prn" | "aux" | "nul")
        || (first.len() == 4 && (first.starts_with("com") || first.starts_with("lpt")));
    (1..=64).contains(&server.len())
        && server.chars().all(is_safe)
        && !server.starts_with('.')
        && !device
}

/// Returns the first line of a file that is not named after its server; empty otherwise.
pub(super) fn heading(server: &str, stamp: &str) -> String {
    if is_plain(server) {
        return String::new();
    }
    let name = serde_json::to_string(server).unwrap_or_default();
    format!("{stamp} notice {HEADING}{name}\n")
}

/// Returns the server's name if the text is a heading.
pub(super) fn server_in_heading(text: &str) -> Option<String> {
    serde_json::from_str(text.strip_prefix(HEADING)?).ok()
}

/// A server's log in the directory.
pub(super) struct LogFile {
    pub(super) stem: String,
    /// Whether the stem is the server's name rather than derived from it.
    pub(super) is_plain_name: bool,
    pub(super) path: PathBuf,
}

/// Lists all logs in the directory.
pub(super) fn list(dir: &Path) -> Vec<LogFile> {
    let mut found: Vec<LogFile> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let stem = name
                .strip_suffix(EXTENSION)
                .or_else(|| name.strip_suffix(ROTATED_EXTENSION))?;
            (!stem.is_empty() && !stem.starts_with('.')).then(|| LogFile {
                is_plain_name: is_plain(stem),
                path: dir.join(format!("{stem}{EXTENSION}")),
                stem: stem.to_owned(),
            })
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    found
}

/// Appends whole lines to a server's file, rotating it first if they do not fit.
pub(super) fn append(
    path: &Path,
    heading: &str,
    lines: &[u8],
    limits: Limits,
) -> Result<(), AppendError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let (mut file, mut size) = open(path)?;
    if size > 0 && size + lines.len() as u64 > limits.file {
        rotate(dir, path, limits)?;
        (file, size) = open(path)?;
        // A file that cannot be rotated must not grow without bound.
        if size > 2 * limits.file {
            return Err(io::Error::other(
                "the file is too large and another process holds the lock",
            )
            .into());
        }
    }
    if size == 0 && !heading.is_empty() {
        file.write_all(heading.as_bytes())?;
    }
    if size == 0 {
        prune(dir, path, limits);
    }
    write_whole(&mut file, lines)
}

/// Why lines were not appended.
#[derive(Debug)]
pub(super) struct AppendError {
    pub(super) error: io::Error,
    /// Some lines were written, possibly with a partial last line.
    pub(super) is_torn: bool,
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        Self {
            error,
            is_torn: false,
        }
    }
}

/// Writes all lines in one call, which keeps them intact among several writers. A short write is an
/// error.
fn write_whole(file: &mut File, lines: &[u8]) -> Result<(), AppendError> {
    let mut rest = lines;
    while !rest.is_empty() {
        let is_torn = rest.len() < lines.len();
        match file.write(rest) {
            Ok(0) => {
                let error = io::ErrorKind::WriteZero.into();
                return Err(AppendError { error, is_torn });
            }
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AppendError { error, is_torn }),
        }
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = private_options().append(true).create(true).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Renames a full file over the previously rotated one. Among several processes, one does it.
fn rotate(dir: &Path, path: &Path, limits: Limits) -> io::Result<()> {
    let Some(_lock) = lock(dir)? else {
        // Another process is rotating, or stuck.
        return Ok(());
    };
    // Another process may have rotated already; keep its new file.
    let size = fs::metadata(path).map_or(0, |found| found.len());
    if size > limits.file / 2 {
        fs::rename(path, rotated_path(path))?;
    }
    Ok(())
}

/// Locks the directory; `None` if another process holds the lock.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let mut options = private_options();
    options.write(true).create(true).truncate(false);
    no_follow(&mut options);
    let file = options.open(dir.join(".lock"))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Without file locks a double rotation only loses old lines.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(file)),
        }
    }
}

/// Deletes the least recently written files, except `keep`, until the total size is within the
/// limit.
fn prune(dir: &Path, keep: &Path, limits: Limits) {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.ends_with(EXTENSION) || name.ends_with(ROTATED_EXTENSION)
        })
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            let modified = found.modified().ok()?;
            Some((modified, found.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in files {
        if total <= limits.total {
            return;
        }
        if path != keep && fs::remove_file(&path).is_ok() {
            total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_unique_and_stay_inside_the_directory() {
        let names = [
            "github",
            "GitHub",
            "GITHUB",
            "my server",
            "my_server",
            "my-server",
            "my/server",
            "a.b",
            "..",
            ".",
            "",
            ".hidden",
            "../../etc/passwd",
            "con",
            "nul.txt",
            "com1",
            "x.log.1",
            "x.log",
            "x",
            "plugin:a:b",
            "claude.ai Mail",
            "é",
            "e\u{301}",
            "\0\n\u{1b}",
            &"long".repeat(100),
            &"long".repeat(101),
        ];
        let dir = Path::new("/logs");
        let mut files = std::collections::BTreeSet::new();
        for name in names {
            let path = log_path(dir, name);
            assert_eq!(path.parent(), Some(dir), "{name:?}");
            let file = path.file_name().unwrap().to_str().unwrap();
            assert!(
                file.len() < 100 && file.is_ascii() && !file.starts_with('.'),
                "{file}"
            );
            assert!(!file.chars().any(|c| c.is_control() || c == '/'), "{file}");
            // As seen by case-insensitive file systems, and rotated.
            assert!(files.insert(file.to_lowercase()), "{file}");
            let old = rotated_path(&path)
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            assert!(files.insert(old.to_lowercase()), "{old}");
        }
        assert_eq!(log_path(dir, "github"), dir.join("github.log"));
        assert_eq!(rotated_path(&dir.join("a.b.log")), dir.join("a.b.log.1"));
    }

    #[test]
    fn heading_stores_names_that_are_not_file_names() {
        assert_eq!(heading("github", "T"), "");
        let line = heading("my \"server\"\n", "T");
        let text = line.strip_prefix("T notice ").unwrap().trim_end();
        assert_eq!(server_in_heading(text).unwrap(), "my \"server\"\n");
        assert_eq!(server_in_heading("log of the server x"), None);
    }

    #[test]
    fn full_file_is_rotated_and_total_size_is_bounded() {
        let scratch = tempfile::tempdir().unwrap();
        let limits = Limits {
            file: 1000,
            total: 4000,
        };
        let line = [b'x'; 100];
        let mut paths = Vec::new();
        for server in ["a", "b", "c"] {
            let path = log_path(scratch.path(), server);
            for _ in 0..25 {
                append(&path, "", &line, limits).unwrap();
            }
            assert_eq!(fs::metadata(&path).unwrap().len(), 500);
            assert_eq!(fs::metadata(rotated_path(&path)).unwrap().len(), 1000);
            paths.push(path);
        }
        let oldest = File::options()
            .write(true)
            .open(rotated_path(&paths[0]))
            .unwrap();
        oldest.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        // A new file evicts the oldest one.
        append(&log_path(scratch.path(), "d"), "", &line, limits).unwrap();
        assert!(!rotated_path(&paths[0]).exists());
        assert!(paths.iter().all(|path| path.exists()) && rotated_path(&paths[2]).exists());
        let all = list(scratch.path());
        let stems: Vec<&str> = all.iter().map(|found| found.stem.as_str()).collect();
        assert_eq!(stems, ["a", "b", "c", "d"]);
    }

    #[test]
    fn held_lock_neither_blocks_nor_allows_unbounded_growth() {
        let scratch = tempfile::tempdir().unwrap();
        let limits = Limits {
            file: 1000,
            total: 4000,
        };
        let _kept = lock(scratch.path()).unwrap().unwrap();
        let path = log_path(scratch.path(), "a");
        let outcomes: Vec<_> = (0..30)
            .map(|_| append(&path, "", &[b'x'; 100], limits))
            .collect();
        assert!(outcomes[0].is_ok() && outcomes[29].is_err());
        assert!(fs::metadata(&path).unwrap().len() <= 2200);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let path = log_path(scratch.path(), "a");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let error = append(&path, "", b"line\n", Limits::default()).unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
        assert!(!error.is_torn);
    }
}
