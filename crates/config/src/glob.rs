//! Globs with `*`, which matches any sequence of characters.

/// A glob pattern.
///
/// ```
/// let glob = trunkline_config::Glob::new("https://*.example.com/*");
/// assert!(glob.matches("https://mcp.example.com/a/b"));
/// assert!(!glob.matches("https://example.com/"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Creates a glob from a text with or without `*`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        matches(&self.0, text)
    }
}

/// Whether `pattern` matches all of `text`. The worst case is proportional to the product of their
/// lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(mut part) = parts.next() else {
        return rest.is_empty();
    };
    // Between two stars the earliest match is as good as any; the last part must end the text.
    for next in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        part = next;
    }
    rest.ends_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("**a**", "xay", true),
            ("é*ü", "é…ü", true),
            ("*aab", "aaab", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
