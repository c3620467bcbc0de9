//! One line of text in styles.
//!
//! A line holds escaped text and, apart from it, the styles of its parts. Only [`Line::render`]
//! makes escape sequences, so foreign text cannot carry any (SEC-3), and every width is that of the
//! text as it is shown. There are no tabs in it: their width depends on the terminal. Where
//! terminals disagree on a width, a line is wrapped by the widest.

use std::fmt::{self, Write as _};
use std::ops::Range;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::lines::{MARK, MAX_INLINE, bounded, escape_whole};
use super::style::{Status, Style, ellipsis};

/// The maximum indentation that a continuation keeps.
const MAX_INDENT: usize = 12;

/// The extra indentation of a continuation.
const CONTINUATION: usize = 4;

/// The fewest cells that a continuation needs; a narrower terminal wraps on its own.
const MIN_ROOM: usize = 20;

/// A line of ours that may contain foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    text: String,
    /// The styles of the text, each with its end.
    runs: Vec<(usize, Style)>,
    /// The indentation of continuations; by default a little more than that of the line.
    hang: Option<usize>,
    /// Whether only the terminal may wrap it: code, and text as a tool wrote it.
    verbatim: bool,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates a line of one style.
    pub(crate) fn of(style: Style, text: impl fmt::Display) -> Self {
        Self::new().and(style, text)
    }

    /// Creates a plain line.
    pub(crate) fn plain(text: impl fmt::Display) -> Self {
        Self::of(Style::Plain, text)
    }

    /// Creates a line that starts with a glyph.
    pub(crate) fn status(status: Status) -> Self {
        Self::of(status.style(), status.glyph()).and(Style::Plain, " ")
    }

    /// Appends text. Line breaks and terminal controls are escaped, and the length is bounded.
    #[must_use]
    pub(crate) fn and(mut self, style: Style, text: impl fmt::Display) -> Self {
        self.push(style, text);
        self
    }

    /// As [`Line::and`].
    pub(crate) fn push(&mut self, style: Style, text: impl fmt::Display) {
        self.add(
            style,
            &bounded(&escape_whole(&text.to_string()), MAX_INLINE),
        );
    }

    /// As [`Line::push`], for text of any length.
    pub(crate) fn push_whole(&mut self, style: Style, text: impl fmt::Display) {
        self.add(style, &escape_whole(&text.to_string()));
    }

    /// Appends a text of ours in which commands are in backquotes.
    pub(crate) fn push_prose(&mut self, text: &str) {
        for (at, part) in text.split('`').enumerate() {
            // The quotes stay: they delimit the command where there are no colours.
            match at % 2 {
                0 => self.push(Style::Plain, part),
                _ => self.push(Style::Literal, format_args!("`{part}`")),
            }
        }
    }

    /// Appends another line.
    pub(crate) fn append(&mut self, other: &Self) {
        let mut start = 0;
        for (end, style) in &other.runs {
            self.add(*style, &other.text[start..*end]);
            start = *end;
        }
    }

    /// Appends spaces up to a width.
    pub(crate) fn pad(&mut self, width: usize) {
        let missing = width.saturating_sub(self.width());
        self.add(Style::Plain, &" ".repeat(missing));
    }

    /// Sets the indentation of continuations.
    #[must_use]
    pub(crate) fn hang(mut self, cells: usize) -> Self {
        self.hang = Some(cells);
        self
    }

    /// Leaves wrapping to the terminal.
    #[must_use]
    pub(crate) fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }

    /// Returns the line behind the mark of foreign text, to be wrapped like one.
    pub(super) fn marked(&self) -> Self {
        let mut marked = Self::of(Style::Dim, MARK);
        marked.append(self);
        marked.hang = self.hang;
        marked.trim_end();
        marked
    }

    /// Returns the text without styles.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the width in cells.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }

    fn add(&mut self, style: Style, escaped: &str) {
        if escaped.is_empty() {
            return;
        }
        // Nothing that moves the cursor by an unknown width gets past here.
        if escaped.contains('\t') {
            self.text += &escaped.replace('\t', " ");
        } else {
            self.text += escaped;
        }
        let end = self.text.len();
        match self.runs.last_mut() {
            Some((last, known)) if *known == style => *last = end,
            _ => self.runs.push((end, style)),
        }
    }

    pub(super) fn trim_end(&mut self) {
        let end = self.text.trim_end_matches(' ').len();
        if end < self.text.len() {
            *self = self.part(0..end);
        }
    }

    /// Returns a part of the line.
    fn part(&self, range: Range<usize>) -> Self {
        let mut part = Self {
            hang: self.hang,
            verbatim: self.verbatim,
            ..Self::default()
        };
        let mut start = 0;
        for (end, style) in &self.runs {
            let (from, to) = (start.max(range.start), (*end).min(range.end));
            if from < to {
                part.add(*style, &self.text[from..to]);
            }
            start = *end;
        }
        part
    }

    /// Cuts the line to a width, at a word if there is one.
    #[must_use]
    pub(crate) fn cut(&self, width: usize) -> Self {
        if fits(&self.text, width) {
            return self.clone();
        }
        let room = width.saturating_sub(ellipsis().width());
        let end = fitting(&self.text, room);
        let head = &self.text[..end];
        let is_between = self.text[end..].starts_with(' ');
        let word = head.rfind(' ').filter(|_| !is_between);
        // A single long word is cut anywhere.
        let end = match word.map(|at| head[..at].trim_end_matches([' ', ',', ';', ':']).len()) {
            Some(at) if head[..at].width() * 2 >= room => at,
            _ => head.trim_end_matches(' ').len(),
        };
        let mut cut = self.part(0..end);
        let style = cut.runs.last().map_or(Style::Plain, |(_, style)| *style);
        if width >= ellipsis().width() {
            cut.add(style, ellipsis());
        }
        cut
    }

    /// Wraps the line at spaces, and not inside backquotes, so that a command in a hint can be
    /// pasted. Foreign text never starts a row: continuations are indented or marked.
    pub(crate) fn wrapped(&self, width: usize) -> Vec<Self> {
        let body = self.text.as_str();
        let indent = body.len() - body.trim_start_matches(' ').len();
        let indent = indent.min(MAX_INDENT);
        let marked = body[indent..].starts_with(MARK);
        let mut next = Self::new();
        // A wide hang must not keep a narrow terminal from being wrapped for.
        let most = width.saturating_sub(MIN_ROOM);
        if marked {
            next.add(Style::Plain, &" ".repeat(indent));
            next.add(Style::Dim, MARK);
            let hang = self.hang.unwrap_or(0);
            let hang = hang.min(most.saturating_sub(next.width()));
            next.add(Style::Plain, &" ".repeat(hang));
        } else {
            let least = indent + CONTINUATION;
            let hang = self.hang.unwrap_or(least).min(most.max(least));
            next.add(Style::Plain, &" ".repeat(hang));
        }
        let next_width = next.width();
        // Leave wrapping to a terminal that is too narrow.
        if self.verbatim || fits(body, width) || width < next_width + MIN_ROOM {
            return vec![self.clone()];
        }
        let mut rows = Vec::new();
        let (mut start, mut room) = (0, width);
        loop {
            let end = start + break_at(&body[start..], room, start == 0);
            let mut row = if start == 0 {
                Self::new()
            } else {
                next.clone()
            };
            let shown = body[start..end].trim_end_matches(' ').len();
            row.append(&self.part(start..start + shown));
            rows.push(row);
            if end == body.len() {
                return rows;
            }
            let rest = &body[end..];
            start = end + rest.len() - rest.trim_start_matches(' ').len();
            if start == body.len() {
                return rows;
            }
            room = width - next_width;
        }
    }

    /// Writes the line, with the sequences of its styles if `coloured`.
    pub(crate) fn render(&self, coloured: bool, text: &mut String) {
        if !coloured {
            text.push_str(&self.text);
            return;
        }
        let mut start = 0;
        for (end, style) in &self.runs {
            let (part, ansi) = (&self.text[start..*end], style.ansi());
            let _ = write!(text, "{ansi}{part}{ansi:#}");
            start = *end;
        }
    }
}

/// Returns the cells that a character takes on the terminals that give it most: some do not join
/// emoji, and some show a flag as two letters in boxes.
fn cells(c: char) -> usize {
    match c {
        // It makes the character before it wide.
        '\u{fe0f}' => 1,
        '\u{1f1e6}'..='\u{1f1ff}' => 2,
        c => c.width().unwrap_or(0),
    }
}

/// Returns whether a text fits into a width on every terminal.
fn fits(text: &str, width: usize) -> bool {
    if text.is_ascii() {
        return text.len() <= width;
    }
    fitting(text, width) == text.len()
}

/// Returns where a text exceeds `room` cells.
pub(super) fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += cells(c);
        if used > room {
            return at;
        }
    }
    text.len()
}

/// Returns where to break a text that may be wider than `room` cells.
fn break_at(text: &str, room: usize, is_first: bool) -> usize {
    let mut used = 0;
    let mut space = None;
    let mut quoted = false;
    let mut is_inside = !is_first;
    for (at, c) in text.char_indices() {
        used += cells(c);
        if used > room {
            return space.unwrap_or(at.max(c.len_utf8()));
        }
        match c {
            '`' => quoted = !quoted,
            // Never break inside the indentation or the mark.
            ' ' if !quoted && is_inside => space = Some(at),
            _ => {}
        }
        is_inside |= !matches!(c, ' ' | '|');
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rendering_makes_escape_sequences() {
        let line = Line::of(Style::Name, "a\u{1b}[31mb\n\u{9b}2J").and(Style::Dim, " x");
        assert_eq!(line.as_str(), "a\\u{1b}[31mb\\n\\u{9b}2J x");
        let mut shown = String::new();
        line.render(true, &mut shown);
        assert_eq!(
            shown,
            "\u{1b}[1ma\\u{1b}[31mb\\n\\u{9b}2J\u{1b}[0m\u{1b}[2m x\u{1b}[0m"
        );
        let mut plain = String::new();
        line.render(false, &mut plain);
        assert_eq!(plain, line.as_str());
    }

    #[test]
    fn nothing_in_a_line_is_wider_than_counted() {
        let mut line = Line::plain("a\tb");
        line.push_whole(Style::Dim, "\tc");
        line.append(&Line::plain("\td"));
        assert_eq!(line.as_str(), "a b c d");
        // Some terminals show these as several characters.
        for sequence in ["👩\u{200d}👩\u{200d}👧", "🇩🇪", "❤\u{fe0f}", "👍🏽"] {
            let most: usize = sequence.chars().map(cells).sum();
            let line = Line::plain(format_args!("{}error: x", sequence.repeat(38)));
            for row in line.wrapped(79) {
                let shown: usize = row.as_str().chars().map(cells).sum();
                assert!(shown <= 79, "{sequence} takes up to {most} cells");
            }
            assert!(line.wrapped(79).len() > 1, "{sequence}");
        }
    }

    #[test]
    fn a_line_is_cut_at_a_word() {
        for (text, width, cut) in [
            ("short", 5, "short"),
            ("the quick brown fox", 12, "the quick..."),
            ("the quick brown fox", 13, "the quick..."),
            ("abcdefghijklmnop", 8, "abcde..."),
            ("a bcdefghijklmnop", 8, "a bcd..."),
            ("宽字符宽字符", 8, "宽字..."),
            ("e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}", 4, "e\u{301}..."),
        ] {
            let ascii = cut.replace("...", ellipsis());
            let room = width - 3 + ellipsis().width();
            let shown = Line::plain(text).cut(if cut == text { width } else { room });
            assert_eq!(shown.as_str(), ascii);
        }
    }

    #[test]
    fn wrapped_styles_continue() {
        let line = Line::of(Style::Name, "name  ")
            .and(Style::Dim, "one two three four five six seven")
            .hang(6);
        let rows = line.wrapped(30);
        let shown: Vec<_> = rows.iter().map(Line::as_str).collect();
        assert_eq!(shown, ["name  one two three four five", "      six seven"]);
        assert_eq!(rows[1].runs, [(6, Style::Plain), (15, Style::Dim)]);
    }

    #[test]
    fn commands_in_prose_are_literal() {
        let mut line = Line::new();
        line.push_prose("run `trunkline list` now");
        assert_eq!(line.as_str(), "run `trunkline list` now");
        assert_eq!(line.runs[1], (20, Style::Literal));
    }
}
