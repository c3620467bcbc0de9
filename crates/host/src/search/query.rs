//! What somebody looks for.

use super::words::{is_stop_word, stem, words};

/// How many words of a query count.
const MAX_TERMS: usize = 32;

/// Before the names of tools that are wanted whatever they do.
const SELECT: &str = "select:";

/// A query, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// These tools, by their names.
    Select(Vec<String>),
    /// The tools that fit best.
    Find {
        /// What they should be about, as stems.
        terms: Vec<String>,
        /// What must be in their names, in small letters.
        required: Vec<String>,
    },
}

impl Query {
    /// `select:a,b`, or words, those with a `+` being required.
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
            // Somebody who asks for "the" means it.
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
