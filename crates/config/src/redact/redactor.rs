//! Finds secrets by their value.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use arc_swap::ArcSwap;
use memchr::memmem::Finder;

use super::patterns::redact_text;
use crate::secret::HIDDEN;

/// Shorter values are not masked: they occur everywhere, and masking would reveal them.
const SHORTEST: usize = 4;

/// Values that are never secrets, whatever their name.
const PLAIN: [&str; 6] = ["true", "false", "null", "none", "info", "debug"];

/// Masks the secrets of one server, by value and by shape. Clones share their secrets.
///
/// ```
/// use trunkline_config::redact::Redactor;
///
/// let redactor = Redactor::default();
/// redactor.hide("hunter2x");
/// assert_eq!(redactor.text("it said hunter2x"), "it said ***");
/// ```
#[derive(Clone, Default)]
pub struct Redactor(Arc<ArcSwap<KnownSecrets>>);

#[derive(Default)]
struct KnownSecrets {
    values: BTreeSet<String>,
    /// Longest first, so that a secret that begins with another is masked completely.
    finders: Vec<Finder<'static>>,
}

impl KnownSecrets {
    /// Adds secrets.
    fn and(&self, secrets: &[&str]) -> Self {
        let mut values = self.values.clone();
        for secret in secrets {
            // A multi-line key may be printed line by line.
            for part in secret.lines().chain([*secret]) {
                let part = part.trim();
                values.extend([part.to_owned(), json_escaped(part), percent_encoded(part)]);
            }
        }
        values.retain(|value| {
            value.chars().count() >= SHORTEST && !PLAIN.contains(&value.to_lowercase().as_str())
        });
        let mut longest: Vec<&String> = values.iter().collect();
        longest.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let finders = longest
            .into_iter()
            .map(|value| Finder::new(value.as_bytes()).into_owned())
            .collect();
        Self { values, finders }
    }
}

impl Redactor {
    /// Registers secrets, in their plain, JSON-escaped and percent-encoded forms.
    pub fn hide_all<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let secrets: Vec<&str> = secrets.into_iter().collect();
        let is_new =
            |known: &KnownSecrets| secrets.iter().any(|secret| !known.values.contains(*secret));
        // A token is registered again with every request.
        if is_new(&self.0.load()) {
            // Another thread may register a secret at the same time.
            self.0.rcu(|known| known.and(&secrets));
        }
    }

    /// Registers one secret.
    pub fn hide(&self, secret: &str) {
        self.hide_all([secret]);
    }

    /// Masks the secrets in a text, by value and by shape.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.known(text) {
            Cow::Borrowed(text) => redact_text(text),
            Cow::Owned(text) => redact_text(&text).into_owned().into(),
        }
    }

    /// Masks only the registered secrets in a text.
    pub fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.load();
        let mut shown = Cow::Borrowed(text);
        for finder in &known.finders {
            if finder.find(shown.as_bytes()).is_some() {
                let value = String::from_utf8_lossy(finder.needle());
                shown = shown.replace(&*value, HIDDEN).into();
            }
        }
        shown
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// A secret as escaped in a JSON string.
fn json_escaped(secret: &str) -> String {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

/// A secret as encoded in a query.
fn percent_encoded(secret: &str) -> String {
    let mut encoded = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], cases: &[(&str, &str)]) {
        let redactor = Redactor::default();
        redactor.hide_all(secrets.iter().copied());
        for (text, expected) in cases {
            assert_eq!(redactor.text(text), *expected, "{text}");
        }
    }

    #[test]
    fn known_secrets_are_found_in_every_spelling() {
        check(
            &[
                "abc\"d e",
                "abcd",
                "abcdefgh",
                "line one\nline two",
                "x",
                "true",
            ],
            &[
                ("nothing here", "nothing here"),
                ("abcd and abcdefgh!", "*** and ***!"),
                ("abc\"d e abc\\\"d e abc%22d%20e", "*** *** ***"),
                ("then line two came", "then *** came"),
                // Too short, or too common.
                ("x is true", "x is true"),
            ],
        );
    }

    #[test]
    fn later_secrets_are_learned_by_all_clones() {
        let redactor = Redactor::default();
        let other = redactor.clone();
        assert_eq!(redactor.text("a fresh-token"), "a fresh-token");
        other.hide("fresh-token");
        assert_eq!(redactor.text("a fresh-token"), "a ***");
    }
}
