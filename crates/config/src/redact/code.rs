//! Keeps code readable for the user who approves it.

use std::ops::Range;
use std::path::Path;

use super::classify::{is_path, is_words};
use super::ranges::scheme_end;
use crate::approval::has_code_extension;

/// How far back to search for the start of a quoted text.
const MAX_BACK: usize = 200;

/// The ranges that consist of a single token and cannot be code.
pub(super) fn without_code(text: &str, ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let tokens = ranges.into_iter();
    tokens.filter_map(|range| token(text, range)).collect()
}

/// The token in a range, possibly in quotes or after `Bearer`.
fn token(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let value = &text[range.clone()];
    let inner = unquoted(value);
    let is_quoted = inner.len() < value.len();
    let word = &inner[scheme_end(inner)..];
    let is_token = !word.is_empty() && word.chars().all(is_token_part) && !names_code(word);
    if !is_token || !ends_word(text, &range, is_quoted) {
        return None;
    }
    if word.len() == inner.len() {
        return Some(range);
    }
    let end = range.end - usize::from(is_quoted);
    Some(end - word.len()..end)
}

fn is_token_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._~+/=@%:-".contains(c)
}

/// A text without surrounding quotes.
fn unquoted(text: &str) -> &str {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// Whether a word is a path or has an extension of code.
fn names_code(word: &str) -> bool {
    is_path(word) || (word.contains('/') && is_words(word)) || has_code_extension(Path::new(word))
}

/// Whether a range ends a word, rather than being the start of one: `load` in `load'./x.rb'`.
fn ends_word(text: &str, range: &Range<usize>, is_quoted: bool) -> bool {
    let mut rest = text[range.end..].chars();
    let is_end = |c: char| c.is_whitespace() || ",;&#)}]".contains(c);
    match rest.next() {
        None => true,
        Some(quote @ ('"' | '\'')) => {
            let closed = |c: char| is_end(c) || "\"'|".contains(c);
            rest.next().is_none_or(closed) && is_within(&text[..range.start], quote)
        }
        // A quoted text within a text: `{\"token\":\"abc\"}`.
        Some('\\') => rest.next() == Some('"') && text[..range.start].ends_with("\\\""),
        Some(c) => is_end(c) || (!is_quoted && is_token_part(c)),
    }
}

/// Whether a text ends inside a quoted text of words.
fn is_within(text: &str, quote: char) -> bool {
    let mut back = text.chars().rev().take(MAX_BACK);
    let open = back.find(|c| !is_token_part(*c) && !" _?&".contains(*c));
    open == Some(quote)
}
