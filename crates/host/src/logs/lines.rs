//! Splits a server's bytes into log lines, redacted and safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::SystemTime;

use super::redact::Redactor;
use super::time::stamp;
use crate::harmless::harmless;

/// Maximum length of a line in bytes.
pub(super) const MAX_LINE: usize = 8 * 1024;

/// Maximum length that is searched for secrets before truncation.
const MAX_LINE_INPUT: usize = 64 * 1024;

/// The kind of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogKind {
    /// The server's stderr.
    Stderr,
    /// A protocol problem, or a log message from the server.
    Notice,
    /// A state change of the connection.
    State,
}

impl LogKind {
    /// Returns the name used in files and in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Notice => "notice",
            Self::State => "state",
        }
    }

    /// Parses a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        [Self::Stderr, Self::Notice, Self::State]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Splits bytes into lines and buffers a partial line.
#[derive(Default)]
pub(super) struct LineBuffer {
    partial: Vec<u8>,
    /// Whether the partial line exceeds the limit; the rest of it is skipped.
    truncated: bool,
}

impl LineBuffer {
    /// Returns whether there is no partial line.
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty() && !self.truncated
    }

    /// Adds bytes from stderr and appends completed lines to `out`.
    pub(super) fn push_stderr(
        &mut self,
        time: SystemTime,
        bytes: &[u8],
        redactor: &Redactor,
        out: &mut String,
    ) {
        let stamp = stamp(time);
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.push(&rest[..end]);
            rest = &rest[end + 1..];
            self.flush_line(&stamp, redactor, out);
        }
        self.push(rest);
    }

    /// Completes the partial line.
    pub(super) fn finish_line(&mut self, time: SystemTime, redactor: &Redactor, out: &mut String) {
        if !self.is_empty() {
            self.flush_line(&stamp(time), redactor, out);
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_INPUT.saturating_sub(self.partial.len());
        self.truncated |= bytes.len() > room;
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn flush_line(&mut self, stamp: &str, redactor: &Redactor, out: &mut String) {
        let text = String::from_utf8_lossy(&self.partial);
        let text = strip_colours(text.trim_end());
        if !text.is_empty() {
            write_line(stamp, LogKind::Stderr, &text, self.truncated, redactor, out);
        }
        self.truncated = false;
        self.partial.clear();
        self.partial.shrink_to(4 * 1024);
    }
}

/// Prefix of continuation lines; only foreign text spans several lines.
const CONTINUATION: &str = "| ";

/// Appends a line of our own. Line breaks in it become marked continuation lines, which cannot pass
/// for ours.
pub(super) fn write_text(
    time: SystemTime,
    kind: LogKind,
    text: &str,
    redactor: &Redactor,
    out: &mut String,
) {
    let stamp = stamp(time);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    for (number, line) in lines.enumerate() {
        let line = match number {
            0 => Cow::Borrowed(line),
            _ => Cow::Owned(format!("{CONTINUATION}{line}")),
        };
        write_line(&stamp, kind, &line, false, redactor, out);
    }
}

fn write_line(
    stamp: &str,
    kind: LogKind,
    text: &str,
    cut: bool,
    redactor: &Redactor,
    out: &mut String,
) {
    let text = redactor.text(text);
    let text = harmless(&text);
    let end = text.floor_char_boundary(MAX_LINE);
    let more = if cut || end < text.len() { "…" } else { "" };
    let _ = writeln!(out, "{stamp} {:<6} {}{more}", kind.name(), &text[..end]);
}

/// Removes colour sequences, which many servers write.
fn strip_colours(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find("\u{1b}[") else {
        return text.into();
    };
    let mut plain = text[..first].to_owned();
    let mut rest = &text[first..];
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':');
        rest = match end {
            Some(end) if sequence[end..].starts_with('m') => &sequence[end + 1..],
            // Other sequences stay and are escaped.
            _ => {
                plain.push_str("\u{1b}[");
                sequence
            }
        };
    }
    plain.push_str(rest);
    plain.into()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    /// Returns the lines of these chunks of stderr, without timestamps.
    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut out) = (LineBuffer::default(), String::new());
        let redactor = Redactor::default();
        redactor.hide("hunter2x");
        for chunk in chunks {
            lines.push_stderr(UNIX_EPOCH, chunk, &redactor, &mut out);
        }
        lines.finish_line(UNIX_EPOCH, &redactor, &mut out);
        assert!(lines.is_empty());
        out.lines()
            .map(|line| {
                line.strip_prefix("1970-01-01T00:00:00.000Z stderr ")
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn lines_are_assembled_from_chunks() {
        assert_eq!(lines(&[b"a\nb", b"c", b"\r\n\n  \nd"]), ["a", "bc", "d"]);
        assert_eq!(lines(&[b"", b"\n"]), [""; 0]);
    }

    #[test]
    fn lines_are_escaped_and_redacted() {
        assert_eq!(
            lines(&[
                b"\x1b[1;31mred\x1b[0m \x1b]0;t\x07\r\x1b[2J\x1b[",
                b"\xff \xc2\x9b\n"
            ]),
            ["red \\u{1b}]0;t\\u{7}\\u{d}\\u{1b}[2J\\u{1b}[\u{fffd} \\u{9b}"]
        );
        assert_eq!(lines(&[b"key hunt", b"er2x!\n"]), ["key ***!"]);
        // Colour inside a secret does not hide it.
        assert_eq!(lines(&[b"hunt\x1b[1mer2x\n"]), ["***"]);
    }

    #[test]
    fn long_lines_are_truncated_with_bounded_memory() {
        let long = "é".repeat(MAX_LINE);
        let shown = lines(&[long.as_bytes(), b"\nnext\n"]);
        assert_eq!(shown.len(), 2);
        assert!(shown[0].len() <= MAX_LINE + 3 && shown[0].ends_with("é…"));
        assert_eq!(shown[1], "next");

        let mut endless = LineBuffer::default();
        let mut out = String::new();
        for _ in 0..1000 {
            endless.push_stderr(UNIX_EPOCH, &[b'x'; 4096], &Redactor::default(), &mut out);
        }
        assert_eq!((endless.partial.len(), out.len()), (MAX_LINE_INPUT, 0));
    }

    #[test]
    fn continuation_lines_are_marked() {
        let mut out = String::new();
        let redactor = Redactor::default();
        write_text(
            UNIX_EPOCH,
            LogKind::State,
            "failed\n\nwhy",
            &redactor,
            &mut out,
        );
        assert_eq!(
            out,
            "1970-01-01T00:00:00.000Z state  failed\n1970-01-01T00:00:00.000Z state  | why\n"
        );
    }
}
