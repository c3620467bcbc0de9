//! Parses search queries.

use super::words::{is_stop_word, stem, words};

/// Maximum number of words in a query.
const MAX_TERMS: usize = 32;

/// Prefix of queries for tools by name.
const SELECT: &str = "select:";

/// A parsed query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// Tools by name.
    Select(Vec<String>),
    /// Tools by relevance.
    Find {
        /// Stems to match.
        terms: Vec<String>,
        /// Lowercase words that the name must contain.
        required: Vec<String>,
    },
}

impl Query {
    /// Parses `select:a,b`, or words of which those with a `+` are required.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        let begins = text.get(..SELECT.len());
        if begins.is_some_and(|begins| begins.eq_ignore_ascii_case(SELECT)) {
            let names = text[SELECT.len()..].split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            return Self::Select(names.take(MAX_TERMS).map(str::to_owned).collect());
        }
        let mut required = Vec::new();
        for word in text.split_whitespace() {
            let word = word.strip_prefix('+').unwrap_or_default();
            if !word.is_empty() && required.len() < MAX_TERMS {
                required.push(word.to_lowercase());
            }
        }
        let mut terms = stems(text, is_stop_word);
        if terms.is_empty() {
            // A query of stop words only is taken literally.
            terms = stems(text, |_| false);
        }
        Self::Find { terms, required }
    }
}

fn stems(text: &str, skip: impl Fn(&str) -> bool) -> Vec<String> {
    let mut stems: Vec<String> = Vec::new();
    words(text, |word| {
        let stem = stem(word);
        if stems.len() < MAX_TERMS && !skip(word) && !stems.iter().any(|known| known == stem) {
            stems.push(stem.to_owned());
        }
    });
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_selects_names_or_searches_words() {
        let find = |terms: &[&str], required: &[&str]| Query::Find {
            terms: terms.iter().copied().map(str::to_owned).collect(),
            required: required.iter().copied().map(str::to_owned).collect(),
        };
        let select =
            |names: &[&str]| Query::Select(names.iter().copied().map(str::to_owned).collect());
        for (text, expected) in [
            ("select:a, b,,", select(&["a", "b"])),
            (" SELECT:x", select(&["x"])),
            ("reading the files", find(&["read", "fil"], &[])),
            (
                "+Slack send message",
                find(&["slack", "send", "messag"], &["slack"]),
            ),
            ("files file", find(&["fil"], &[])),
            ("the", find(&["the"], &[])),
            ("+ ", find(&[], &[])),
            ("", find(&[], &[])),
            ("é", find(&["é"], &[])),
        ] {
            assert_eq!(Query::parse(text), expected, "{text}");
        }
        let many: Vec<_> = (0..100).map(|n| format!("w{n}x")).collect();
        let Query::Find { terms, .. } = Query::parse(&many.join(" ")) else {
            panic!("not a search");
        };
        assert_eq!(terms.len(), MAX_TERMS);
    }
}
