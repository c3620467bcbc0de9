//! The files of the audit log: one chain in one directory, which all processes of a user share.
//!
//! Every batch is written under a lock of the directory. One chain for all processes, rather than
//! one for each, finds a removed file, not only a removed line, and orders the records of all of
//! them. The lock is held for one write; a process that keeps it makes the others fail within a
//! bound.
//!
//! `head` names the last line. It shows that lines are missing at the end, and saves reading the
//! last file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::chain::{Link, START};
use super::{AuditEvent, AuditRecord};
use crate::disk::{create_private_dir, no_follow, private_options};

/// Maximum wait for another process's write.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest part of a file that is read to find its last line.
const MAX_TAIL: u64 = 4 * 1024 * 1024;

const LOCK: &str = ".lock";
const HEAD: &str = "head";
const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";

/// The last line, stored beside the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The number of the first line that is kept.
    pub(super) oldest: u64,
    /// The number of the last line.
    pub(super) seq: u64,
    /// Its hash.
    pub(super) hash: String,
    /// Its file.
    pub(super) file: String,
    /// The length of that file.
    pub(super) len: u64,
    /// Whether there was none, although there are lines.
    #[serde(skip)]
    pub(super) is_lost: bool,
}

impl Head {
    /// The head before the first line.
    fn before(file: &str) -> Self {
        Self {
            oldest: 0,
            seq: 0,
            hash: START.to_owned(),
            file: file.to_owned(),
            len: 0,
            is_lost: false,
        }
    }

    /// The number of the line after the last one.
    pub(super) fn next(&self) -> u64 {
        if self.hash == START { 0 } else { self.seq + 1 }
    }
}

/// Limits of the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) file_bytes: u64,
    pub(super) files: usize,
}

/// Appends the records, JSON objects, to the log. Syncs the file if `sync`.
pub(super) fn append(
    dir: &Path,
    records: &[impl AsRef<str>],
    limits: Limits,
    sync: bool,
) -> io::Result<()> {
    create_dir(dir)?;
    let _lock = lock(dir)?;
    let (mut head, mut link) = resume(dir)?;
    let first = link.seq;
    let mut lines = String::new();
    if head.as_ref().is_some_and(|head| head.is_lost) {
        let note = AuditRecord::now(AuditEvent::HeadMissing);
        link.append(&serde_json::to_string(&note)?, &mut lines);
    }
    for record in records {
        link.append(record.as_ref(), &mut lines);
    }
    let mut file = match &head {
        Some(head) if head.len + lines.len() as u64 <= limits.file_bytes || head.len == 0 => {
            open_append(&dir.join(&head.file))?
        }
        _ => {
            let name = format!("{PREFIX}{first:012}{SUFFIX}");
            if head.is_none() && link.is_first(first) {
                // From now on, a log without a head has lost it.
                write_head(dir, &Head::before(&name))?;
            }
            let file = open_append(&dir.join(&name))?;
            let oldest = prune(dir, limits.files, first)?;
            head = Some(Head {
                oldest,
                seq: 0,
                hash: START.to_owned(),
                len: file.metadata()?.len(),
                file: name,
                is_lost: false,
            });
            file
        }
    };
    let Some(mut head) = head else {
        return Ok(());
    };
    if let Err(error) = file.write_all(lines.as_bytes()) {
        // No half of a line stays behind.
        let _ = file.set_len(head.len);
        return Err(error);
    }
    if sync {
        file.sync_data()?;
    }
    head.seq = link.seq.saturating_sub(1);
    head.hash = link.prev;
    head.is_lost = false;
    head.len += lines.len() as u64;
    write_head(dir, &head)
}

/// Creates the directory of the log. A link in its place is refused: whoever planted it would
/// choose where the log is, and what is removed as an old file of it.
pub(super) fn create_dir(dir: &Path) -> io::Result<()> {
    create_private_dir(dir)?;
    check_dir(dir)
}

fn check_dir(dir: &Path) -> io::Result<()> {
    if fs::symlink_metadata(dir)?.is_symlink() {
        let message = "it is a link; name the directory that it leads to";
        return Err(io::Error::other(message));
    }
    Ok(())
}

/// Waits until everything that was written is on disk.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    match read_head(dir) {
        Some(head) => open_append(&dir.join(head.file))?.sync_data(),
        None => Ok(()),
    }
}

/// The files of the log, oldest first.
pub(super) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if first_seq(&path).is_some() {
            found.push(path);
        }
    }
    found.sort_by_key(|path| first_seq(path));
    Ok(found)
}

/// The number of a file's first line, by its name.
pub(super) fn first_seq(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_number = digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

pub(super) fn read_head(dir: &Path) -> Option<Head> {
    let mut text = String::new();
    let file = open_read(&dir.join(HEAD)).ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    let head: Head = serde_json::from_str(text.trim_end()).ok()?;
    // Its file is in this directory.
    first_seq(Path::new(&head.file)).map(|_| head)
}

/// Opens a file of the log for reading. A link or a pipe is refused.
pub(super) fn open_read(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    no_follow(&mut options);
    regular(options.open(path)?)
}

fn open_append(path: &Path) -> io::Result<File> {
    let mut options = private_options();
    options.append(true).create(true);
    no_follow(&mut options);
    regular(options.open(path)?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a regular file"))
}

/// Locks the directory.
pub(super) fn lock(dir: &Path) -> io::Result<File> {
    check_dir(dir)?;
    let mut options = private_options();
    options.write(true).create(true).truncate(false);
    no_follow(&mut options);
    let file = regular(options.open(dir.join(LOCK))?)?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => {
                let message = "another process holds its lock";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Finds the end of the chain. A crash may have left lines without a head, or half of a line; lines
/// that the head knows and the file does not have stay missing, for `verify` to find.
fn resume(dir: &Path) -> io::Result<(Option<Head>, Link)> {
    let stored = read_head(dir);
    let newest = list(dir)?.pop();
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let Some(newest) = newest else {
        // All files are gone: the next line still tells how many there were.
        let link = stored.map_or_else(Link::start, |head| Link {
            seq: head.next(),
            prev: head.hash,
        });
        return Ok((None, link));
    };
    let len = fs::symlink_metadata(&newest)?.len();
    if let Some(head) = &stored
        && head.file == name(&newest)
        && head.len == len
    {
        let link = Link {
            seq: head.next(),
            prev: head.hash.clone(),
        };
        return Ok((stored, link));
    }
    let (last, len) = repair_end(&newest)?;
    let mut link = match (last, first_seq(&newest)) {
        (Some(link), _) => link,
        (None, Some(seq)) => Link {
            seq,
            prev: START.to_owned(),
        },
        (None, None) => Link::start(),
    };
    if let Some(head) = &stored
        && head.next() > link.seq
    {
        link = Link {
            seq: head.next(),
            prev: head.hash.clone(),
        };
    }
    let head = Head {
        is_lost: stored.is_none(),
        oldest: stored.map_or(0, |head| head.oldest),
        seq: link.seq.saturating_sub(1),
        hash: link.prev.clone(),
        file: name(&newest),
        len,
    };
    Ok((Some(head), link))
}

/// Returns the link after a file's last intact line, and the file's length. Half of a line is
/// ended, so that the next one begins on a line of its own.
fn repair_end(path: &Path) -> io::Result<(Option<Link>, u64)> {
    let mut file = open_read(path)?;
    let mut len = file.metadata()?.len();
    let from = len.saturating_sub(MAX_TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(MAX_TAIL).read_to_end(&mut tail)?;
    if !tail.is_empty() && !tail.ends_with(b"\n") {
        open_append(path)?.write_all(b"\n")?;
        len += 1;
    }
    let tail = String::from_utf8_lossy(&tail);
    let last = tail.lines().rev().find_map(|line| Link::read(line).ok());
    let link = last.map(|line| Link {
        seq: line.seq + 1,
        prev: line.hash.to_owned(),
    });
    Ok((link, len))
}

/// Removes the oldest files so that one more fits. Returns the number of the first line that is
/// left.
fn prune(dir: &Path, keep: usize, newest: u64) -> io::Result<u64> {
    let mut files = list(dir)?;
    while files.len() > keep {
        let oldest = files.remove(0);
        fs::remove_file(oldest)?;
    }
    Ok(files
        .first()
        .and_then(|path| first_seq(path))
        .unwrap_or(newest))
}

fn write_head(dir: &Path, head: &Head) -> io::Result<()> {
    let mut options = private_options();
    options.write(true).create(true).truncate(false);
    no_follow(&mut options);
    let mut file = regular(options.open(dir.join(HEAD))?)?;
    // Always as long, so that one write replaces it.
    let text = format!("{:<255}\n", serde_json::to_string(head)?);
    file.write_all(text.as_bytes())
}
