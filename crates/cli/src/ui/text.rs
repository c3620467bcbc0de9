//! Foreign text in cells of the screen: escaped, measured, cut and wrapped (SEC-3).

pub(super) use crate::commands::list::count;
use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The longest text in one line, in characters.
const MAX_LINE: usize = 2000;

/// Prepares foreign text for one line: controls and line breaks are escaped, the length is bounded.
pub(super) fn line(text: &str) -> String {
    let end = text.char_indices().nth(MAX_LINE).map(|(end, _)| end);
    let text = end.map_or(text, |end| &text[..end]);
    let escaped = trunkline::text::harmless_with(text, |c, shown| {
        let _ = match c {
            '\n' => shown.write_str("\\n"),
            '\r' => shown.write_str("\\r"),
            '\t' => shown.write_str(" "),
            c => write!(shown, "{}", c.escape_unicode()),
        };
    });
    let mut escaped = escaped.replace('\t', " ");
    if end.is_some() {
        escaped.push('…');
    }
    escaped
}

/// Prepares foreign text for several lines.
pub(super) fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|text| {
        let escaped = trunkline::text::harmless(text);
        escaped.replace('\t', "    ")
    })
}

/// Returns the first line of a text that is not empty, for a summary.
pub(super) fn first_line(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    line(first.unwrap_or_default())
}

/// Returns the width of a text in cells.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to a width, with `…` in place of the rest.
pub(super) fn fit(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room {
        return text.into();
    }
    let mut used = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used >= room.max(1) {
            end = at;
            break;
        }
    }
    if room == 0 {
        return "".into();
    }
    format!("{}…", text[..end].trim_end()).into()
}

/// Cuts or pads a text to exactly this width.
pub(super) fn cell(text: &str, room: usize) -> String {
    let text = fit(text, room);
    let missing = room.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Wraps a line at spaces, or anywhere in a word that is too long.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(4);
    let mut rows = Vec::new();
    let mut rest = text;
    loop {
        // Only the prefix that fills the row is measured: a text may be very long.
        let (mut used, mut space, mut end) = (0, None, None);
        for (at, c) in rest.char_indices() {
            used += c.width().unwrap_or(0);
            if used > room {
                end = Some(at);
                break;
            }
            if c == ' ' && at > 0 {
                space = Some(at);
            }
        }
        let Some(end) = end else {
            break;
        };
        // A break that leaves most of the row empty helps nobody.
        let at = space
            .filter(|at| *at * 3 > end || rest[end..].starts_with(' '))
            .unwrap_or(end);
        let at = if rest[end..].starts_with(' ') {
            end
        } else {
            at
        };
        let at = at.max(rest.chars().next().map_or(1, char::len_utf8));
        rows.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start_matches(' ');
    }
    if !rest.is_empty() || rows.is_empty() {
        rows.push(rest.to_owned());
    }
    rows
}

/// Formats a duration for people: `38ms`, `4.2s`, `3m 5s`.
pub(super) fn duration(time: std::time::Duration) -> String {
    let millis = time.as_millis();
    if millis < 1000 {
        format!("{millis}ms")
    } else if millis < 60_000 {
        format!("{}.{}s", millis / 1000, millis % 1000 / 100)
    } else {
        format!("{}m {}s", millis / 60_000, millis / 1000 % 60)
    }
}

/// Formats a size for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes}B"),
        1000..1_000_000 => format!("{}kB", bytes / 1000),
        _ => format!("{}.{}MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line() {
        assert_eq!(line("a\nb\r\u{1b}[2J\tc"), "a\\nb\\r\\u{1b}[2J c");
        assert_eq!(line(&"x".repeat(3000)).chars().count(), MAX_LINE + 1);
        let block: Vec<_> = lines("one\n\u{1b}[31mtwo\u{202e}").collect();
        assert_eq!(block, ["one", "\\u{1b}[31mtwo\\u{202e}"]);
    }

    #[test]
    fn text_is_cut_by_cells() {
        for (text, room, expected) in [
            ("short", 10, "short"),
            ("a longer text", 8, "a longe…"),
            ("宽字符宽", 5, "宽字…"),
            ("e\u{301}e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, room), expected);
            assert!(width(&fit(text, room)) <= room.max(1));
        }
        assert_eq!(cell("宽", 4), "宽  ");
    }

    #[test]
    fn text_wraps_at_spaces_and_within_long_words() {
        for (text, room, expected) in [
            ("one two three", 8, vec!["one two", "three"]),
            ("onetwothree", 5, vec!["onetw", "othre", "e"]),
            ("宽字符宽字", 4, vec!["宽字", "符宽", "字"]),
            ("a bcdefghijklm", 8, vec!["a bcdefg", "hijklm"]),
            ("", 8, vec![""]),
        ] {
            assert_eq!(wrap(text, room), expected, "{text}");
        }
        // Quadratic work would take minutes.
        assert_eq!(wrap(&"x".repeat(4_000_000), 40).len(), 100_000);
    }
}
