//! Keeps code readable for the user who approves it.

use std::ops::Range;
use std::path::Path;

use super::classify::{is_path, is_words};
use super::code_words::CodeWords;
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

/// Whether a word has no syntax of a shell or of JSON, and is no URL, whose host stays readable.
pub(super) fn is_token(word: &str) -> bool {
    word.chars().all(is_token_part) && !word.contains("://")
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

/// The ranges of a command line that are not part of a word that decides which code runs.
pub(super) fn without_code_words(text: &str, mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut code = Vec::new();
    code_words(text, 0, 3, &mut code);
    let overlaps = |range: &Range<usize>, word: &Range<usize>| {
        range.start < word.end && word.start < range.end
    };
    ranges.retain(|range| !code.iter().any(|word| overlaps(range, word)));
    ranges
}

/// Finds the words that decide which code runs in a command line, which begins at `offset`.
fn code_words(text: &str, offset: usize, depth: u8, found: &mut Vec<Range<usize>>) {
    let is_operator = |c: char| ";|&(`".contains(c);
    let mut walk = CodeWords::new();
    for range in words(text) {
        let word = &text[range.clone()];
        let inner = unquoted(word);
        let plain = word.trim_matches(|c: char| "\"'`$();|&".contains(c));
        // A program follows an operator.
        if word.starts_with(is_operator) || word.starts_with("$(") {
            walk = CodeWords::new();
        }
        let decides = !plain.is_empty() && walk.next(plain) && is_token(plain);
        if inner.len() < word.len() && inner.contains(char::is_whitespace) {
            // `sh -c '…'`
            if depth > 0 {
                code_words(inner, offset + range.start + 1, depth - 1, found);
            }
        } else if decides {
            found.push(range.start + offset..range.end + offset);
        }
        if word.ends_with(is_operator) {
            walk = CodeWords::new();
        }
    }
}

/// The ranges between white space outside of quotes.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut quote = None;
    let mut start = None;
    for (at, c) in text.char_indices() {
        match quote {
            None if c.is_whitespace() => words.extend(start.take().map(|start| start..at)),
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
        if !c.is_whitespace() || quote.is_some() {
            start.get_or_insert(at);
        }
    }
    words.extend(start.map(|start| start..text.len()));
    words
}
