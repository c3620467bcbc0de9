//! Removes invisible characters.

use std::borrow::Cow;

use super::escape;
use super::kind::{self, HiddenKind, Removed};

const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// Requests the emoji form of the preceding character.
const EMOJI_SELECTOR: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// Bytes checked at once.
const BLOCK: usize = 64;

/// Removes hidden characters and keeps the spelling.
pub(crate) fn strip<'t>(text: &'t str, removed: &mut Removed) -> Cow<'t, str> {
    let clean = clean_prefix(text);
    if clean == text.len() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..clean]);
    let mut rest = &text[clean..];
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        if let Some(after) = escape::after(c, after) {
            removed.count(HiddenKind::Escape);
            rest = after;
        } else if let Some(after) = after_line_end(c, after) {
            out.push('\n');
            rest = after;
        } else {
            match kind::of(c) {
                Some(kind) if !is_emoji_part(c, out.chars(), after) => removed.count(kind),
                _ => out.push(c),
            }
        }
    }
    Cow::Owned(out)
}

/// Returns whether there is nothing to remove.
pub(super) fn is_clean(text: &str) -> bool {
    clean_prefix(text) == text.len()
}

/// Returns the length of the prefix that needs no change.
fn clean_prefix(text: &str) -> usize {
    let plain = plain_prefix(text.as_bytes());
    for (at, c) in text[plain..].char_indices() {
        let at = plain + at;
        let harmless = match kind::of(c) {
            Some(_) => is_emoji_part(c, text[..at].chars(), &text[at + c.len_utf8()..]),
            None => !matches!(c, '\u{2028}' | '\u{2029}'),
        };
        if !harmless {
            return at;
        }
    }
    text.len()
}

/// Returns the length of the prefix of printable ASCII, line feeds and tabs, in whole blocks.
fn plain_prefix(bytes: &[u8]) -> usize {
    let is_odd = |byte: u8| !matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let mut at = 0;
    for block in bytes.chunks(BLOCK) {
        // No early exit inside the block, so it is vectorized.
        let odd = block.iter().fold(false, |odd, byte| odd | is_odd(*byte));
        if odd {
            return at;
        }
        at += block.len();
    }
    at
}

/// Returns the text after a line end that starts with `c`.
fn after_line_end(c: char, after: &str) -> Option<&str> {
    match c {
        '\r' => Some(after.strip_prefix('\n').unwrap_or(after)),
        '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(after),
        _ => None,
    }
}

/// Returns whether an otherwise hidden character is part of an emoji.
fn is_emoji_part(c: char, before: impl DoubleEndedIterator<Item = char>, after: &str) -> bool {
    let mut before = before.rev();
    let next = after.chars().next();
    match (c, before.next()) {
        (ZERO_WIDTH_JOINER, Some(last)) => {
            let drawn = match last {
                EMOJI_SELECTOR => before.next().is_some_and(is_pictograph),
                last => is_pictograph(last),
            };
            drawn && next.is_some_and(is_pictograph)
        }
        (EMOJI_SELECTOR, Some('0'..='9' | '#' | '*')) => next == Some(KEYCAP),
        (EMOJI_SELECTOR, Some(last)) => is_pictograph(last),
        _ => false,
    }
}

/// Like [`is_emoji_part`], but also accepts letters and signs with an emoji form that NFKC would
/// replace.
pub(crate) fn is_part_of_emoji(c: char, before: &str, after: &str) -> bool {
    let coloured = |last: char| {
        matches!(
            last,
            '\u{203c}'
                | '\u{2049}'
                | '\u{2122}'
                | '\u{2139}'
                | '\u{24c2}'
                | '\u{3297}'
                | '\u{3299}'
                | '\u{1f100}'..='\u{1f2ff}'
        )
    };
    is_emoji_part(c, before.chars(), after)
        || (c == EMOJI_SELECTOR && before.chars().next_back().is_some_and(coloured))
}

/// Returns whether a character is a pictograph or skin tone: roughly Unicode's
/// `Extended_Pictographic`, without those that NFKC turns into letters.
fn is_pictograph(c: char) -> bool {
    matches!(
        c,
        '\u{a9}'
            | '\u{ae}'
            | '\u{2194}'..='\u{21aa}'
            | '\u{2300}'..='\u{23ff}'
            | '\u{25aa}'..='\u{25fe}'
            | '\u{2600}'..='\u{27bf}'
            | '\u{2934}'
            | '\u{2935}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{1f000}'..='\u{1f0ff}'
            | '\u{1f300}'..='\u{1faff}'
    )
}
