//! References to variables in a text. They are not secrets.

use std::ops::Range;

/// The ranges without the references in them: an entry must not hide which secret it sends.
pub(super) fn without_references(text: &str, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let references = references(text);
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        let first = references.partition_point(|reference| reference.end <= start);
        for reference in &references[first..] {
            if reference.start >= range.end {
                break;
            }
            left.push(start..reference.start.max(start));
            start = reference.end;
        }
        left.push(start..range.end.max(start));
    }
    left.retain(|range| !range.is_empty());
    left
}

/// The references in a text: `${NAME}`, `$NAME`, and `${NAME:-default}` without the default.
pub(super) fn references(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Set once no closing brace is left, so that the search is not repeated.
    let mut open = false;
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$') {
        let start = at + dollar;
        let rest = &text[start + 1..];
        at = start + 1;
        if let Some(inside) = rest.strip_prefix('{') {
            let Some(length) = Some(inside).filter(|_| !open).and_then(|it| it.find('}')) else {
                open = true;
                continue;
            };
            let end = start + 2 + length + 1;
            match inside[..length].find(":-") {
                Some(default) => {
                    found.push(start..start + 2 + default + 2);
                    found.push(end - 1..end);
                }
                None => found.push(start..end),
            }
            at = end;
        } else {
            // A lower-case name is more likely part of a password.
            let is_name = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let is_end = !rest[length..].starts_with(|c: char| c.is_alphanumeric());
            if length > 0 && is_end && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                found.push(start..start + 1 + length);
                at = start + 1 + length;
            }
        }
    }
    found
}

/// Whether a shell would treat a text as more than one word.
pub(super) fn has_shell_syntax(text: &str) -> bool {
    let references = references(text);
    let is_reference = |at: usize| {
        let next = references.partition_point(|reference| reference.end <= at);
        references
            .get(next)
            .is_some_and(|range| range.contains(&at))
    };
    let is_syntax = |c: char| c.is_whitespace() || "`;|&<>(){}\\".contains(c);
    text.char_indices()
        .any(|(at, c)| is_syntax(c) && !is_reference(at))
}
