//! Text for the terminal, built so that text from outside cannot pass for ours (SEC-3).
//!
//! Foreign text comes in two forms. *Inline* text is part of one of our lines: line breaks in it are escaped, and its
//! length is bounded. A *block* shows several lines, each behind the mark `| `. Lines that a terminal would wrap are
//! wrapped here, with the continuation indented, so that foreign text never starts a row of the screen.

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

/// The deepest indentation that a continuation keeps.
const MAX_INDENT: usize = 12;

/// How far the continuation of a wrapped line is indented, on top of the line's own indentation.
const CONTINUATION: usize = 4;

/// Lines of our own, with foreign text inside them. Only [`Lines::push`] starts a line.
///
/// A `&'static str` converts to lines, because it cannot hold foreign text; any other text is pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(String);

impl Lines {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A single line.
    pub(crate) fn one(line: impl fmt::Display) -> Self {
        let mut lines = Self::new();
        lines.push(line);
        lines
    }

    /// Adds one line. Anything in it that would break it or steer a terminal is escaped.
    pub(crate) fn push(&mut self, line: impl fmt::Display) {
        self.0 += escape(&line.to_string()).trim_end_matches(' ');
        self.0.push('\n');
    }

    /// Adds one line as [`Lines::push`] does, however long it is: where a person decides, nothing may hide behind a `…`.
    pub(crate) fn push_whole(&mut self, line: impl fmt::Display) {
        self.0 += escape_whole(&line.to_string()).trim_end_matches(' ');
        self.0.push('\n');
    }

    /// Adds one line made of parts, each behind a colour of ours. Its length is the caller's to bound.
    pub(crate) fn push_painted(&mut self, parts: &[(&'static str, &str)]) {
        for (colour, text) in parts {
            self.0 += colour;
            self.0 += &escape_whole(text);
        }
        self.0.push('\n');
    }

    /// Adds a foreign text of several lines, each behind a mark.
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

    /// The lines as text, for a pipe or a file.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The lines as text, for a terminal of that width.
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

/// A foreign text as part of a line: without line breaks, bounded, and with everything masked that looks like a secret.
pub(crate) fn inline(text: &str) -> String {
    escape(&redact_text(text.trim()))
}

/// A foreign name as part of a line: short, and in quotes where it could pass for the beginning of a message.
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

/// The text on one line, with line breaks and whatever could steer a terminal escaped, and of bounded length.
fn escape(text: &str) -> String {
    bounded(&escape_whole(text), MAX_INLINE)
}

/// As [`escape`], of any length.
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

/// As many characters of a text as are allowed.
pub(super) fn bounded(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Writes a line, broken where it is wider than the terminal. It breaks at spaces where it can, and not inside of
/// backquotes: a command in a hint stays fit to be pasted.
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
    // A terminal that is too narrow for anything wraps by itself.
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

/// Where to break a text that is wider than `room` cells.
fn break_at(text: &str, room: usize) -> usize {
    let mut used = 0;
    let mut space = None;
    let mut quoted = false;
    let mut escape = false;
    for (at, c) in text.char_indices() {
        // Colours, which are ours, take no room.
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
            // The indentation and the mark are no place to break.
            ' ' if !quoted && text[..at].contains(|c| !matches!(c, ' ' | '|')) => space = Some(at),
            _ => {}
        }
    }
    text.len()
}

/// How many cells a text takes, colours aside.
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
    fn no_text_starts_a_line_but_a_pushed_one() {
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
    fn long_lines_are_wrapped_and_foreign_text_starts_no_row() {
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
        // Each row is looked at once, however long the line is.
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
