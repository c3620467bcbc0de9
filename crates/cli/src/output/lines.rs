//! Text for the terminal, in which foreign text cannot pass for ours (SEC-3).
//!
//! Foreign text comes in two forms. *Inline* text is part of one of our lines: its line breaks are
//! escaped, and its length is bounded. A *block* has several lines, each behind the mark `| `. Long
//! lines are wrapped here with an indentation, so that foreign text never starts a row of the
//! screen.

use std::fmt::{self, Write as _};

use trunkline::text::harmless;
use trunkline_config::redact::redact_text;

use super::line::Line;
use super::style::Style;

/// The longest inline text, in characters.
pub(super) const MAX_INLINE: usize = 4000;

/// The longest name, in characters.
const MAX_NAME: usize = 80;

/// The most lines of a block, and the most characters of one of them.
const MAX_BLOCK_LINES: usize = 200;
const MAX_BLOCK_LINE: usize = 2000;

/// The mark in front of each line of a block.
pub(super) const MARK: &str = "| ";

/// Lines of ours that may contain foreign text. Only [`Lines::push`] and its kin start a line.
///
/// A `&'static str` converts to lines, because it cannot contain foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(Vec<Line>);

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
        self.push_line(Line::plain(line));
    }

    /// Adds a line of any length: in an approval prompt, nothing may hide behind a `…`.
    pub(crate) fn push_whole(&mut self, line: impl fmt::Display) {
        let mut whole = Line::new();
        whole.push_whole(Style::Plain, line);
        self.push_line(whole);
    }

    /// Adds a line in styles.
    pub(crate) fn push_line(&mut self, mut line: Line) {
        line.trim_end();
        self.0.push(line);
    }

    /// Adds a heading.
    pub(crate) fn push_heading(&mut self, text: impl fmt::Display) {
        self.push_line(Line::of(Style::Name, text));
    }

    /// Adds a hint, with its commands in backquotes.
    pub(crate) fn push_hint(&mut self, indent: &str, text: &str) {
        let mut line = Line::plain(indent).and(Style::Literal, "hint:");
        line.push_prose(&format!(" {text}"));
        self.push_line(line);
    }

    /// Adds an empty line.
    pub(crate) fn push_gap(&mut self) {
        self.0.push(Line::new());
    }

    /// Adds foreign text, each line behind a mark.
    pub(crate) fn push_block(&mut self, indent: &str, text: &str) {
        let mut lines = text.lines();
        let marked = || Line::plain(indent).and(Style::Dim, MARK);
        for line in lines.by_ref().take(MAX_BLOCK_LINES) {
            let mut shown = marked();
            shown.push_whole(Style::Plain, bounded(&harmless(line), MAX_BLOCK_LINE));
            self.push_line(shown);
        }
        let more = lines.count();
        if more > 0 {
            let more = format!("… ({more} more lines)");
            self.push_line(marked().and(Style::Dim, more));
        }
    }

    /// Puts the mark of foreign text in front of every line. Long lines are wrapped behind it.
    #[must_use]
    pub(crate) fn marked(self) -> Self {
        Self(self.0.iter().map(Line::marked).collect())
    }

    /// Adds lines.
    pub(crate) fn append(&mut self, lines: impl Into<Self>) {
        self.0.append(&mut lines.into().0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the lines, wrapped for a terminal of this width.
    pub(crate) fn rows(&self, width: Option<usize>) -> Vec<Line> {
        match width {
            Some(width) => self.0.iter().flat_map(|line| line.wrapped(width)).collect(),
            None => self.0.clone(),
        }
    }

    /// Returns the text for a terminal of this width, or for a pipe.
    pub(crate) fn render(&self, width: Option<usize>, coloured: bool) -> String {
        let mut text = String::new();
        for row in self.rows(width) {
            row.render(coloured, &mut text);
            text.push('\n');
        }
        text
    }

    /// Returns the text without colours.
    #[cfg(test)]
    pub(crate) fn to_plain(&self) -> String {
        self.render(None, false)
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

impl From<Line> for Lines {
    fn from(line: Line) -> Self {
        let mut lines = Self::new();
        lines.push_line(line);
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
pub(super) fn escape_whole(text: &str) -> String {
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
            lines.to_plain(),
            "ours\ntoo\nserver \"a\\nerror: b\\r\\u{2028}c\\u{1b}[2Jd\\u{85}e\"\n  \
             | one\n  | | two\n  | error: three\n  | four\\u{2028}five\n"
        );
    }

    #[test]
    fn marked_text_starts_no_row() {
        let mut lines = Lines::new();
        lines.push_line(Line::plain("error: forged").verbatim());
        lines.push_gap();
        lines.push_line(Line::plain(format_args!("{}error: forged", "x".repeat(38))).verbatim());
        lines.push_line(Line::plain("- one two three four five six seven eight").hang(2));
        assert_eq!(
            lines.marked().render(Some(40), false),
            format!(
                "| error: forged\n|\n| {}\n| error: forged\n\
                 | - one two three four five six seven\n|   eight\n",
                "x".repeat(38)
            )
        );
    }

    #[test]
    fn lengths_are_bounded() {
        let lines = Lines::one("x".repeat(10_000));
        assert_eq!(lines.to_plain().chars().count(), MAX_INLINE + 2);
        let mut lines = Lines::new();
        lines.push_block("", &"x\n".repeat(1000));
        assert!(lines.to_plain().ends_with("| … (800 more lines)\n"));
        assert_eq!(name(&"x".repeat(100)).chars().count(), MAX_NAME + 1);
        let mut lines = Lines::new();
        lines.push_whole("x".repeat(10_000));
        assert_eq!(lines.to_plain().len(), 10_001);
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
            assert_eq!(Lines::one(line).render(Some(40), false), expected);
        }
        // Wrapping takes linear time.
        let mut long = Lines::new();
        long.push_whole("x".repeat(1 << 20));
        assert!(long.render(Some(40), false).len() > 1 << 20);
        let mut styled = Lines::new();
        styled.push_line(Line::of(Style::Dim, "12345").and(Style::Plain, " 12345".repeat(6)));
        assert_eq!(styled.render(Some(40), true).lines().count(), 2);
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
