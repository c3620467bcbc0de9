//! Text for the terminal, in which foreign text cannot pass for ours (SEC-3).
//!
//! Foreign text comes in two forms. *Inline* text is part of one of our lines: its line breaks are
//! escaped, and its length is bounded. A *block* has several lines, each behind the mark `| `. Long
//! lines are wrapped here with an indentation, so that foreign text never starts a row of the
//! screen.

use std::fmt::{self, Write as _};

use trunkline::text::harmless;
use trunkline_config::redact::redact_text;
use unicode_width::UnicodeWidthChar;

/// The longest inline text, in characters.
const MAX_INLINE: usize = 4000;

/// The longest name, in characters.
const MAX_NAME: usize = 80;

/// The most lines of a block, and the most characters of one of them.
const MAX_BLOCK_LINES: usize = 200;
const MAX_BLOCK_LINE: usize = 2000;

/// The mark in front of each line of a block.
const MARK: &str = "| ";

/// The maximum indentation that a continuation keeps.
const MAX_INDENT: usize = 12;

/// The extra indentation of a continuation.
const CONTINUATION: usize = 4;

/// Lines of ours that may contain foreign text. Only [`Lines::push`] starts a line.
///
/// A `&'static str` converts to lines, because it cannot contain foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(String);

impl Lines {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates a single line.
    pub(crate) fn one(line: impl fmt::Display) -> Self {
        let mut lines = Self::new();
        lines.push(line);
        lines
    }

    /// Adds a line. Line breaks and terminal controls in it are escaped.
    pub(crate) fn push(&mut self, line: impl fmt::Display) {
        self.0 += escape(&line.to_string()).trim_end_matches(' ');
        self.0.push('\n');
    }

    /// Adds a line of any length: in an approval prompt, nothing may hide behind a `…`.
    pub(crate) fn push_whole(&mut self, line: impl fmt::Display) {
        self.0 += escape_whole(&line.to_string()).trim_end_matches(' ');
        self.0.push('\n');
    }

    /// Adds a line of coloured parts. The caller bounds its length.
    pub(crate) fn push_painted(&mut self, parts: &[(&'static str, &str)]) {
        for (colour, text) in parts {
            self.0 += colour;
            self.0 += &escape_whole(text);
        }
        self.0.push('\n');
    }

    /// Adds foreign text, each line behind a mark.
    pub(crate) fn push_block(&mut self, indent: &str, text: &str) {
        let mut lines = text.lines();
        for line in lines.by_ref().take(MAX_BLOCK_LINES) {
            let shown = bounded(&harmless(line), MAX_BLOCK_LINE);
            let _ = writeln!(self.0, "{}", format!("{indent}{MARK}{shown}").trim_end());
        }
        let more = lines.count();
        if more > 0 {
            let _ = writeln!(self.0, "{indent}{MARK}… ({more} more lines)");
        }
    }

    /// Adds lines.
    pub(crate) fn append(&mut self, lines: impl Into<Self>) {
        self.0 += &lines.into().0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text for a pipe or file.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text wrapped for a terminal.
    pub(crate) fn wrapped(&self, width: usize) -> String {
        let mut text = String::with_capacity(self.0.len());
        for line in self.0.split_inclusive('\n') {
            wrap(line, width, &mut text);
        }
        text
    }
}

impl From<&'static str> for Lines {
    fn from(own: &'static str) -> Self {
        let mut lines = Self::new();
        for line in own.lines() {
            lines.push(line);
        }
        lines
    }
}

impl From<&Self> for Lines {
    fn from(lines: &Self) -> Self {
        lines.clone()
    }
}

/// Prepares foreign text for a line: escaped, bounded, with secrets masked.
pub(crate) fn inline(text: &str) -> String {
    escape(&redact_text(text.trim()))
}

/// Prepares a foreign name for a line: short, and quoted if it could pass for a message.
pub(crate) fn name(text: &str) -> String {
    let shown = bounded(&escape(text), MAX_NAME);
    let is_odd =
        shown.is_empty() || shown.starts_with(' ') || shown.ends_with(':') || shown.contains(": ");
    if is_odd {
        format!("\"{shown}\"")
    } else {
        shown
    }
}

/// Escapes line breaks and terminal controls, and bounds the length.
fn escape(text: &str) -> String {
    bounded(&escape_whole(text), MAX_INLINE)
}

/// As [`escape`], for any length.
fn escape_whole(text: &str) -> String {
    let escaped = trunkline::text::harmless_with(text, |c, shown| {
        let _ = match c {
            '\n' => shown.write_str("\\n"),
            '\r' => shown.write_str("\\r"),
            c => write!(shown, "{}", c.escape_unicode()),
        };
    });
    escaped.replace('\t', " ")
}

/// Truncates a text to a number of characters.
pub(super) fn bounded(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Wraps a line at spaces, and not inside backquotes, so that a command in a hint can be pasted.
fn wrap(line: &str, width: usize, text: &mut String) {
    let body = line.trim_end_matches('\n');
    let indent = body.len() - body.trim_start_matches(' ').len();
    let indent = indent.min(MAX_INDENT);
    let marked = body[indent..].starts_with(MARK);
    let next = if marked {
        format!("{}{MARK}", " ".repeat(indent))
    } else {
        " ".repeat(indent + CONTINUATION)
    };
    // Leave wrapping to a terminal that is too narrow.
    if cells(body) <= width || width < next.len() + 20 {
        text.push_str(line);
        return;
    }
    let mut rest = body;
    let mut room = width;
    loop {
        let end = break_at(rest, room);
        if end == rest.len() {
            break;
        }
        text.push_str(rest[..end].trim_end_matches(' '));
        text.push('\n');
        text.push_str(&next);
        rest = rest[end..].trim_start_matches(' ');
        room = width - next.len();
    }
    text.push_str(rest);
    text.push_str(&line[body.len()..]);
}

/// Returns where to break a text that is wider than `room` cells.
fn break_at(text: &str, room: usize) -> usize {
    let mut used = 0;
    let mut space = None;
    let mut quoted = false;
    let mut escape = false;
    for (at, c) in text.char_indices() {
        // Our colours take no cells.
        match c {
            '\u{1b}' => escape = true,
            'm' if escape => {
                escape = false;
                continue;
            }
            _ => {}
        }
        if escape {
            continue;
        }
        used += c.width().unwrap_or(0);
        if used > room {
            return space.unwrap_or(at.max(c.len_utf8()));
        }
        match c {
            '`' => quoted = !quoted,
            // Never break inside the indentation or the mark.
            ' ' if !quoted && text[..at].contains(|c| !matches!(c, ' ' | '|')) => space = Some(at),
            _ => {}
        }
    }
    text.len()
}

/// Returns the width of a text in cells, without colours.
fn cells(text: &str) -> usize {
    let mut escape = false;
    text.chars()
        .map(|c| match c {
            '\u{1b}' => {
                escape = true;
                0
            }
            'm' if escape => {
                escape = false;
                0
            }
            _ if escape => 0,
            c => c.width().unwrap_or(0),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_push_starts_a_line() {
        let mut lines = Lines::from("ours\ntoo");
        lines.push(format!(
            "server \"{}\"",
            "a\nerror: b\r\u{2028}c\u{1b}[2Jd\u{85}e"
        ));
        lines.push_block("  ", "one\n| two\nerror: three\r\nfour\u{2028}five");
        assert_eq!(
            lines.as_str(),
            "ours\ntoo\nserver \"a\\nerror: b\\r\\u{2028}c\\u{1b}[2Jd\\u{85}e\"\n  \
             | one\n  | | two\n  | error: three\n  | four\\u{2028}five\n"
        );
    }

    #[test]
    fn lengths_are_bounded() {
        let lines = Lines::one("x".repeat(10_000));
        assert_eq!(lines.as_str().chars().count(), MAX_INLINE + 2);
        let mut lines = Lines::new();
        lines.push_block("", &"x\n".repeat(1000));
        assert!(lines.as_str().ends_with("| … (800 more lines)\n"));
        assert_eq!(name(&"x".repeat(100)).chars().count(), MAX_NAME + 1);
        let mut lines = Lines::new();
        lines.push_whole("x".repeat(10_000));
        assert_eq!(lines.as_str().len(), 10_001);
    }

    #[test]
    fn wrapped_foreign_text_starts_no_row() {
        for (line, expected) in [
            ("short", "short\n"),
            (
                "error: server \"aaaaaaaaaaaaaaaaaaa error: forged\"",
                "error: server \"aaaaaaaaaaaaaaaaaaa\n    error: forged\"\n",
            ),
            (
                "  hint: try this, `trunkline approve something-long`",
                "  hint: try this,\n      `trunkline approve something-long`\n",
            ),
            (
                "| aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b",
                "| aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n| aaaaaaaaaaa b\n",
            ),
            (
                "宽字符宽字符宽字符宽字符宽字符宽字符宽字符",
                "宽字符宽字符宽字符宽字符宽字符宽字符宽字\n    符\n",
            ),
        ] {
            assert_eq!(Lines::one(line).wrapped(40), expected);
        }
        // Wrapping takes linear time.
        let mut long = Lines::new();
        long.push_whole("x".repeat(1 << 20));
        assert!(long.wrapped(40).len() > 1 << 20);
        let mut painted = Lines::new();
        painted.push_painted(&[("\u{1b}[2m", "12345"), ("\u{1b}[0m", &" 12345".repeat(6))]);
        assert_eq!(painted.wrapped(40).lines().count(), 2);
    }

    #[test]
    fn names_that_could_pass_for_messages_are_quoted() {
        for (given, shown) in [
            ("github", "github"),
            ("My Server", "My Server"),
            ("plugin:a:b", "plugin:a:b"),
            ("", "\"\""),
            ("error: x", "\"error: x\""),
            ("hint:", "\"hint:\""),
            ("  hint", "\"  hint\""),
        ] {
            assert_eq!(name(given), shown);
        }
    }

    #[test]
    fn inline_text_is_redacted() {
        assert_eq!(inline(" a\nTOKEN=abc "), "a\\nTOKEN=***");
    }
}
