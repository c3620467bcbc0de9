//! Reads and follows logs.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::LogStore;
use super::file::{self, LogFile};
use super::lines::{LogKind, MAX_LINE};
use super::time::{STAMP_LEN, is_stamp, stamp};

/// Maximum number of bytes read for one line.
const MAX_LINE_READ: usize = 4 * MAX_LINE;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// RFC 3339 time; texts sort like times.
    pub time: String,
    /// The server.
    pub server: String,
    /// The kind.
    pub kind: LogKind,
    /// The text; untrusted.
    pub text: String,
}

/// The earliest time of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since(String);

impl Since {
    /// Returns the time `period` ago.
    pub fn ago(period: Duration) -> Self {
        let then = SystemTime::now().checked_sub(period);
        Self(stamp(then.unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Parses `90s`, `10m`, `2h`, `7d`, or a time such as `2026-11-16` or `2026-11-16T02:03`.
    ///
    /// ```
    /// use trunkline::log::Since;
    ///
    /// assert!(Since::parse("10m").is_some() && Since::parse("2026-11-16T02:03Z").is_some());
    /// assert!(Since::parse("soon").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((number, unit)) = text.split_at_checked(text.len().saturating_sub(1))
            && let Ok(number) = number.parse::<u64>()
        {
            let seconds = match unit {
                "s" => 1,
                "m" => 60,
                "h" => 60 * 60,
                "d" => 24 * 60 * 60,
                _ => return None,
            };
            return Some(Self::ago(Duration::from_secs(
                number.saturating_mul(seconds),
            )));
        }
        // A prefix of a time sorts before every time that starts with it.
        let moment = text
            .strip_suffix(['Z', 'z'])
            .unwrap_or(text)
            .replace(' ', "T");
        let filled = "0000-01-01T00:00:00.000Z";
        let whole = format!("{moment}{}", filled.get(moment.len()..)?);
        (moment.len() >= "2026-11-16".len() && is_stamp(&whole)).then_some(Self(moment))
    }
}

impl LogStore {
    /// Returns the servers that have logs, sorted by name.
    pub fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> = file::list(self.dir()).iter().map(server_name).collect();
        names.sort();
        names
    }

    /// Returns whether a server has a log.
    pub fn has(&self, server: &str) -> bool {
        let path = file::log_path(self.dir(), server);
        path.exists() || file::rotated_path(&path).exists()
    }

    /// Returns the newest lines of one server or of all, sorted by time. May block.
    pub fn read(
        &self,
        server: Option<&str>,
        newest: Option<usize>,
        since: Option<&Since>,
    ) -> Vec<LogLine> {
        let newest = newest.unwrap_or(usize::MAX);
        let mut lines = Vec::new();
        for (name, path) in self.files(server) {
            lines.extend(read_newest(&name, &path, newest, since));
        }
        newest_sorted(lines, newest)
    }

    /// Like [`LogStore::read`], with a handle that yields later lines, also of servers that appear
    /// later. Yields every line exactly once.
    pub fn follow(
        &self,
        server: Option<&str>,
        newest: Option<usize>,
        since: Option<&Since>,
    ) -> (Vec<LogLine>, Follow) {
        let newest = newest.unwrap_or(usize::MAX);
        let mut follow = Follow {
            store: self.clone(),
            server: server.map(str::to_owned),
            files: BTreeMap::new(),
        };
        let mut lines = Vec::new();
        for (name, path) in self.files(server) {
            if let Some(old) = open(&file::rotated_path(&path)) {
                Tail::of(name.clone()).take(&mut &old, &mut lines);
            }
            let mut tail = Tail::of(name);
            tail.poll(&path, &mut lines);
            follow.files.insert(path, tail);
        }
        lines.retain(|line| since.is_none_or(|since| line.time >= since.0));
        (newest_sorted(lines, newest), follow)
    }

    pub(crate) fn files(&self, server: Option<&str>) -> Vec<(String, PathBuf)> {
        match server {
            Some(server) => vec![(server.to_owned(), file::log_path(self.dir(), server))],
            None => file::list(self.dir())
                .into_iter()
                .map(|found| (server_name(&found), found.path))
                .collect(),
        }
    }
}

/// Returns the newest lines, sorted by time.
fn newest_sorted(mut lines: Vec<LogLine>, newest: usize) -> Vec<LogLine> {
    lines.sort_by(|one, other| one.time.cmp(&other.time));
    lines.drain(..lines.len().saturating_sub(newest));
    lines
}

/// Returns the server's name of a log.
fn server_name(found: &LogFile) -> String {
    if found.is_plain_name {
        return found.stem.clone();
    }
    let old = file::rotated_path(&found.path);
    let heading = [found.path.as_path(), &old].into_iter().find_map(|path| {
        let mut lines = BoundedLines::new(BufReader::new(open(path)?));
        heading(&parse(&found.stem, &lines.next()?)?)
    });
    heading.unwrap_or_else(|| found.stem.clone())
}

/// Returns the server's name if the line is a heading. Lines from a server have another kind.
fn heading(line: &LogLine) -> Option<String> {
    (line.kind == LogKind::Notice).then(|| file::server_in_heading(&line.text))?
}

/// Returns the newest lines of one server, oldest first.
fn read_newest(name: &str, path: &Path, newest: usize, since: Option<&Since>) -> VecDeque<LogLine> {
    let mut kept: VecDeque<LogLine> = VecDeque::new();
    for path in [file::rotated_path(path), path.to_owned()] {
        let Some(file) = open(&path) else {
            continue;
        };
        for line in BoundedLines::new(BufReader::new(file)) {
            let Some(line) = parse(name, &line) else {
                continue;
            };
            let is_heading = heading(&line).is_some_and(|named| named == name);
            if since.is_some_and(|since| line.time < since.0) || is_heading {
                continue;
            }
            if kept.len() == newest {
                kept.pop_front();
            }
            if newest > 0 {
                kept.push_back(line);
            }
        }
    }
    kept
}

/// Opens a regular file; other files could block.
fn open(path: &Path) -> Option<File> {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| File::open(path).ok()).flatten()
}

/// Parses a line; `None` if it is not ours.
pub(super) fn parse(server: &str, line: &str) -> Option<LogLine> {
    let (time, rest) = line.split_at_checked(STAMP_LEN)?;
    let (kind, text) = rest.strip_prefix(' ')?.split_at_checked(6)?;
    let kind = LogKind::of(kind.trim_end())?;
    is_stamp(time).then(|| LogLine {
        time: time.to_owned(),
        server: server.to_owned(),
        kind,
        text: text.strip_prefix(' ').unwrap_or(text).to_owned(),
    })
}

/// Reads lines of bounded length.
struct BoundedLines<R> {
    reader: R,
}

impl<R: BufRead> BoundedLines<R> {
    fn new(reader: R) -> Self {
        Self { reader }
    }
}

impl<R: BufRead> Iterator for BoundedLines<R> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let limit = MAX_LINE_READ as u64;
        let read = self
            .reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return None;
        }
        if line.last() != Some(&b'\n') {
            let _ = self.reader.skip_until(b'\n');
        }
        let line = String::from_utf8_lossy(&line);
        Some(line.trim_end_matches('\n').to_owned())
    }
}

/// Follows logs; see [`Follow::poll`].
pub struct Follow {
    store: LogStore,
    server: Option<String>,
    files: BTreeMap<PathBuf, Tail>,
}

/// The read position in a growing file.
struct Tail {
    name: String,
    file: Option<File>,
    /// The rotated file, which may still receive writes.
    before: Option<File>,
    /// A partial line.
    partial: Vec<u8>,
    /// Whether the next line is the first of its file, which may be the heading.
    first: bool,
}

impl Follow {
    /// Returns the lines added since the last call, sorted by time. May block briefly.
    pub fn poll(&mut self) -> Vec<LogLine> {
        if self.server.is_none() {
            for found in file::list(self.store.dir()) {
                let file = self.files.entry(found.path.clone());
                file.or_insert_with(|| Tail::of(server_name(&found)));
            }
        }
        let mut lines = Vec::new();
        for (path, tail) in &mut self.files {
            tail.poll(path, &mut lines);
        }
        lines.sort_by(|one, other| one.time.cmp(&other.time));
        lines
    }
}

impl Tail {
    fn of(name: String) -> Self {
        Self {
            name,
            file: None,
            before: None,
            partial: Vec::new(),
            first: true,
        }
    }

    fn poll(&mut self, path: &Path, lines: &mut Vec<LogLine>) {
        if let Some(mut before) = self.before.take() {
            self.take(&mut before, lines);
        }
        let Some(mut file) = self.file.take() else {
            if let Some(mut file) = open(path) {
                self.take(&mut file, lines);
                self.file = Some(file);
            }
            return;
        };
        // The file was truncated: start over.
        let size = file.metadata().map_or(0, |found| found.len());
        if file.stream_position().is_ok_and(|at| at > size) {
            let _ = file.rewind();
            self.partial.clear();
            self.first = true;
        }
        self.take(&mut file, lines);
        match open(path) {
            Some(now) if !is_same_file(&now, &file) => {
                self.before = Some(file);
                let mut now = now;
                self.first = true;
                self.take(&mut now, lines);
                self.file = Some(now);
            }
            _ => self.file = Some(file),
        }
    }

    /// Reads new lines from a file.
    fn take(&mut self, file: &mut impl Read, lines: &mut Vec<LogLine>) {
        let mut new = Vec::new();
        let _ = file.read_to_end(&mut new);
        for piece in new.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() < MAX_LINE_READ {
                self.partial.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.partial);
                let line = parse(&self.name, line.trim_end_matches('\n'));
                match line.as_ref().and_then(heading) {
                    Some(name) if self.first => self.name = name,
                    Some(name) if name == self.name => {}
                    _ => lines.extend(line),
                }
                self.first = false;
                self.partial.clear();
            }
        }
    }
}

/// Returns whether two handles refer to the same file.
#[cfg(unix)]
fn is_same_file(one: &File, other: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino()));
    id(one) == id(other)
}

/// Returns whether two handles refer to the same file, judging by the creation time.
#[cfg(not(unix))]
fn is_same_file(one: &File, other: &File) -> bool {
    let made = |file: &File| file.metadata().and_then(|found| found.created()).ok();
    made(one) == made(other)
}
