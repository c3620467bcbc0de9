//! Reads and verifies the audit log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use trunkline_wire::Json;

use super::chain::{LineProblem, Link, START};
use super::file::{self, Head};
use super::record::HEAD_MISSING;

/// The longest line that counts as one, in bytes.
const MAX_LINE: u64 = 1024 * 1024;

/// The number of problems in a report.
const MAX_PROBLEMS: usize = 100;

/// How often [`AuditFollow`] looks for new records.
const POLL: Duration = Duration::from_millis(200);

/// The result of [`verify`].
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditReport {
    /// The number of intact records.
    pub records: u64,
    /// The number of files.
    pub files: usize,
    /// The number of the first record; larger than 0 once old files have been removed.
    pub first: Option<u64>,
    /// The number of the last record.
    pub last: Option<u64>,
    /// Its hash: kept elsewhere, it proves later that nothing before it was changed.
    pub hash: Option<String>,
    /// What is wrong; empty if the log is intact.
    pub problems: Vec<AuditProblem>,
}

/// Something that is wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditProblem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` for the file as a whole.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: String,
}

/// Checks that no record was changed, removed or inserted. The check finds every change except one
/// that recomputes all later records and the head.
///
/// # Errors
///
/// The log cannot be read.
pub fn verify(dir: impl AsRef<Path>) -> io::Result<AuditReport> {
    let dir = dir.as_ref();
    let Snapshot { files, head } = Snapshot::take(dir)?;
    let mut report = AuditReport {
        files: files.len(),
        ..AuditReport::default()
    };
    let mut link = None;
    let mut head_hash = None;
    for (path, len) in &files {
        let mut lines = Lines::new(path, *len)?;
        while let Some(line) = lines.next()? {
            let text = line.unwrap_or_default();
            // The first line that is kept begins the chain.
            let link = link.get_or_insert_with(|| first_link(head.as_ref(), &text));
            let before = link.clone();
            let followed = link.follow(&text);
            if !matches!(
                followed,
                Err(LineProblem::Malformed | LineProblem::Altered { .. })
            ) {
                report.records += 1;
                let seq = link.seq - 1;
                report.first.get_or_insert(seq);
                report.last = Some(seq);
                report.hash = Some(link.prev.clone());
                if head.as_ref().is_some_and(|head| head.next() == seq + 1) {
                    head_hash = Some(link.prev.clone());
                }
            } else if let Err(LineProblem::Altered { seq }) = followed {
                // The next line is compared with what was written, not with what is there now.
                *link = Link {
                    seq: seq.saturating_add(1).max(before.seq),
                    prev: String::new(),
                };
            }
            if is_head_missing(&text) {
                let problem = "the file head was missing when this was written, so records \
                               before it may be missing, too";
                report.add(path, Some(lines.number), problem.to_owned());
            }
            if let Err(problem) = followed {
                // The line after an altered one cannot be attached to it.
                let is_echo =
                    before.prev.is_empty() && matches!(problem, LineProblem::Detached { .. });
                if !is_echo {
                    report.add(path, Some(lines.number), problem.to_string());
                }
            }
        }
    }
    report.compare(dir, head.as_ref(), link.as_ref(), head_hash.as_deref());
    Ok(report)
}

/// Whether a line says that the head had been removed.
fn is_head_missing(line: &str) -> bool {
    let named = |line: Json| line.field::<String>("event");
    line.contains(HEAD_MISSING)
        && Json::parse(line.to_owned()).ok().and_then(named).as_deref() == Some(HEAD_MISSING)
}

/// The place in the chain of the first line that is kept.
fn first_link(head: Option<&Head>, line: &str) -> Link {
    let oldest = head.map_or(0, |head| head.oldest);
    if oldest == 0 {
        return Link::start();
    }
    let prev = Link::read(line).map_or(START, |line| line.prev);
    Link {
        seq: oldest,
        prev: prev.to_owned(),
    }
}

impl AuditReport {
    fn add(&mut self, file: &Path, line: Option<u64>, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(AuditProblem {
                file: file.to_owned(),
                line,
                problem,
            });
        }
    }

    /// Compares the end of the chain with the head.
    fn compare(
        &mut self,
        dir: &Path,
        head: Option<&Head>,
        link: Option<&Link>,
        hash: Option<&str>,
    ) {
        let next = link.map_or(0, |link| link.seq);
        match head {
            None if next > 0 => {
                let problem = "it is missing, so records may be missing at the end";
                self.add(&dir.join("head"), None, problem.to_owned());
            }
            Some(head) if head.next() > next => {
                let problem = format!("records {next} to {} are missing at the end", head.seq);
                self.add(&dir.join(&head.file), None, problem);
            }
            Some(head) if hash.is_some_and(|hash| hash != head.hash) => {
                let problem = format!("record {} is not the one that was written", head.seq);
                self.add(&dir.join(&head.file), None, problem);
            }
            _ => {}
        }
    }
}

/// Returns the last `count` records that `keep` accepts, oldest first.
///
/// # Errors
///
/// The log cannot be read.
pub fn records(
    dir: impl AsRef<Path>,
    count: usize,
    mut keep: impl FnMut(&Json) -> bool,
) -> io::Result<Vec<Json>> {
    let snapshot = Snapshot::take(dir.as_ref())?;
    let mut found: Vec<Json> = Vec::new();
    for (path, len) in snapshot.files.iter().rev() {
        let mut lines = Lines::new(path, *len)?;
        let mut here = Vec::new();
        while let Some(line) = lines.next()? {
            let record = line.and_then(|line| Json::parse(line).ok());
            here.extend(record.filter(&mut keep));
            // Of this file, no more than the last ones count.
            if here.len() >= 2 * count.max(1) {
                here.drain(..here.len() - count);
            }
        }
        let missing = count - found.len();
        here.drain(..here.len().saturating_sub(missing));
        here.append(&mut found);
        found = here;
        if found.len() >= count {
            break;
        }
    }
    Ok(found)
}

/// Follows the log from its end on.
///
/// # Errors
///
/// The log cannot be read.
pub fn follow(dir: impl AsRef<Path>) -> io::Result<AuditFollow> {
    let snapshot = Snapshot::take(dir.as_ref())?;
    Ok(AuditFollow {
        dir: dir.as_ref().to_owned(),
        at: snapshot.files.last().cloned(),
    })
}

/// New records of a log, as they are written; see [`follow`].
#[derive(Debug)]
pub struct AuditFollow {
    dir: PathBuf,
    /// The file that is read, and how far.
    at: Option<(PathBuf, u64)>,
}

impl AuditFollow {
    /// Waits for new records. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub async fn next(&mut self) -> io::Result<Vec<Json>> {
        loop {
            let (dir, at) = (self.dir.clone(), self.at.clone());
            let read = tokio::task::spawn_blocking(move || read_after(&dir, at)).await;
            let (found, at) = read.map_err(io::Error::other)??;
            self.at = at;
            if !found.is_empty() {
                return Ok(found);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// A file, and a place in it.
type Place = Option<(PathBuf, u64)>;

/// Reads the whole lines after a place.
fn read_after(dir: &Path, at: Place) -> io::Result<(Vec<Json>, Place)> {
    let mut found = Vec::new();
    let files = file::list(dir)?;
    let (current, from) = match at {
        Some(at) => at,
        None => match files.first() {
            Some(first) => (first.clone(), 0),
            None => return Ok((found, None)),
        },
    };
    let newer = files.iter().filter(|path| **path > current).cloned();
    let places = [(current.clone(), from)]
        .into_iter()
        .chain(newer.map(|path| (path, 0)));
    let mut last = (current.clone(), from);
    for (path, from) in places {
        // An old file may have been removed meanwhile.
        let Ok(mut file) = file::open_read(&path) else {
            continue;
        };
        file.seek(SeekFrom::Start(from))?;
        let mut lines = Lines::of(file, u64::MAX - from);
        let mut read = from;
        while let Some(line) = lines.next()? {
            if !lines.is_whole {
                break;
            }
            read = from + lines.read;
            found.extend(line.and_then(|line| Json::parse(line).ok()));
        }
        last = (path, read);
    }
    Ok((found, Some(last)))
}

/// The files at one time, with their lengths.
struct Snapshot {
    files: Vec<(PathBuf, u64)>,
    head: Option<Head>,
}

impl Snapshot {
    fn take(dir: &Path) -> io::Result<Self> {
        if !dir.try_exists()? {
            return Ok(Self {
                files: Vec::new(),
                head: None,
            });
        }
        // Somebody who may only read the log cannot lock it.
        let _lock = file::lock(dir).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => File::open(dir),
            _ => Err(error),
        })?;
        let mut files = Vec::new();
        for path in file::list(dir)? {
            let len = file::open_read(&path)?.metadata()?.len();
            files.push((path, len));
        }
        Ok(Self {
            files,
            head: file::read_head(dir),
        })
    }
}

/// The lines of a file, each of bounded length.
struct Lines {
    reader: io::Take<BufReader<File>>,
    /// The number of the last line.
    number: u64,
    /// The bytes that were read.
    read: u64,
    /// Whether the last line has an end.
    is_whole: bool,
}

impl Lines {
    fn new(path: &Path, len: u64) -> io::Result<Self> {
        Ok(Self::of(file::open_read(path)?, len))
    }

    fn of(file: File, len: u64) -> Self {
        Self {
            reader: BufReader::new(file).take(len),
            number: 0,
            read: 0,
            is_whole: false,
        }
    }

    /// The next line, `Some(None)` if it is too long or no text.
    #[expect(
        clippy::option_option,
        reason = "the end of the file, and a line that is none"
    )]
    fn next(&mut self) -> io::Result<Option<Option<String>>> {
        let mut line = Vec::new();
        let count = (&mut self.reader)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)? as u64;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.read += count;
        self.is_whole = line.last() == Some(&b'\n');
        if self.is_whole {
            line.pop();
            return Ok(Some(String::from_utf8(line).ok()));
        }
        if count < MAX_LINE {
            return Ok(Some(String::from_utf8(line).ok()));
        }
        // Skip the rest of it.
        loop {
            let mut rest = Vec::new();
            let count = (&mut self.reader)
                .take(MAX_LINE)
                .read_until(b'\n', &mut rest)? as u64;
            self.read += count;
            if count == 0 || rest.last() == Some(&b'\n') {
                return Ok(Some(None));
            }
        }
    }
}
