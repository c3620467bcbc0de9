//! Truncates texts for a model (LIF-7).

use std::borrow::Cow;

use trunkline_wire::ByteString;

use super::{Removed, sanitize};

/// Maximum number of characters of descriptions and instructions (LIF-7).
pub const MAX_SHOWN: usize = 2048;

/// The end of a truncated text.
const TRUNCATED: &str = "… [truncated]";

/// Maximum number of bytes processed. Hidden text could otherwise cost any amount of work and,
/// normalized, ten times its size.
const MAX_INPUT: usize = 64 * 1024;

/// Sanitizes a description or instructions and truncates them to [`MAX_SHOWN`] characters.
///
/// ```
/// let (text, removed) = trunkline::text::shown("Use it\u{200b} with care");
/// assert_eq!((&*text, removed.total()), ("Use it with care", 1));
/// ```
pub fn shown(text: &str) -> (Cow<'_, str>, Removed) {
    let looked_at = &text[..text.floor_char_boundary(MAX_INPUT)];
    let (clean, removed) = sanitize(looked_at);
    let end = char_limit(&clean, MAX_SHOWN);
    if end == clean.len() && looked_at.len() == text.len() {
        return (clean, removed);
    }
    (format!("{}{TRUNCATED}", &clean[..end]).into(), removed)
}

/// Like [`shown`], on one line with folded white space.
pub fn one_line(text: &str) -> (Cow<'_, str>, Removed) {
    let (clean, removed) = shown(text);
    let is_folded =
        !clean.contains(['\n', '\t']) && !clean.contains("  ") && clean.trim().len() == clean.len();
    if is_folded {
        return (clean, removed);
    }
    let folded = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    (folded.into(), removed)
}

/// Converts sanitized text, sharing the memory of `text` where unchanged.
pub(crate) fn shared(text: &ByteString, sanitized: Cow<str>) -> ByteString {
    match sanitized {
        Cow::Borrowed(same) => text.slice_ref(same),
        Cow::Owned(other) => other.into(),
    }
}

/// Returns the length in bytes of at most `most` characters.
fn char_limit(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    text.char_indices()
        .nth(most)
        .map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        shown(text).0.into_owned()
    }

    #[test]
    fn long_text_is_truncated_at_a_character_boundary() {
        for unit in ["x", "é", "漢", "😀"] {
            let fits = unit.repeat(MAX_SHOWN);
            assert_eq!(show(&fits), fits);
            assert_eq!(
                show(&format!("{fits}{unit}")),
                format!("{fits}… [truncated]")
            );
        }
        let hidden = format!("{}end", "\u{200b}".repeat(3000));
        assert_eq!(show(&hidden), "end");
    }

    #[test]
    fn only_a_bounded_prefix_is_processed() {
        let long = "\u{200b}".repeat(1_000_000);
        let (text, removed) = shown(&long);
        assert_eq!((&*text, removed.total()), (TRUNCATED, MAX_INPUT / 3));
        assert!(show(&"ﷺ".repeat(60_000)).chars().count() <= MAX_SHOWN + TRUNCATED.chars().count());
    }

    #[test]
    fn clean_text_is_shared() {
        let text: ByteString = "Adds two numbers".to_owned().into();
        assert_eq!(shared(&text, shown(&text).0).as_ptr(), text.as_ptr());
        assert_eq!(shared(&text, one_line(&text).0).as_ptr(), text.as_ptr());
    }

    #[test]
    fn one_line_folds_white_space() {
        for (text, line) in [
            ("find \n  things\t", "find things"),
            (" a", "a"),
            ("a\u{a0}\u{a0}b\r\nc", "a b c"),
            ("", ""),
        ] {
            assert_eq!(&*one_line(text).0, line);
        }
    }
}
