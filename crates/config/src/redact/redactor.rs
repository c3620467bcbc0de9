//! Finds secrets by their value.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use memchr::memmem::Finder;
use serde_json::Value;

use super::encodings::{
    MAX_ESCAPE, MAX_LAYERS, Unescaped, base64_parts, form_spaces, is_base64, json_escaped,
    may_have_escapes,
};
use super::patterns::{merged, redact_text, replace_ranges};
use crate::secret::HIDDEN;

/// Shorter values are not masked: they occur everywhere, and masking would reveal them.
const SHORTEST: usize = 4;

/// Values that are never secrets, whatever their name.
const PLAIN: [&str; 6] = ["true", "false", "null", "none", "info", "debug"];

/// The length of the pieces in which a text is unescaped, which takes many times their memory.
const PIECE: usize = 256 * 1024;

/// Masks the secrets of one server, by value and by shape. Clones share their secrets.
///
/// A secret is recognized in every spelling that programs use: escaped for JSON, URLs or HTML, in
/// whole or in part, and in Base64. Only a whole one: masking a part would tell whoever chose the
/// text that the guess is right. Texts are masked before they are cut.
///
/// ```
/// use trunkline_config::redact::Redactor;
///
/// let redactor = Redactor::default();
/// redactor.hide("hunter2/x");
/// assert_eq!(redactor.text("it said hunter2/x and hunter2%2Fx"), "it said *** and ***");
/// ```
#[derive(Clone, Default)]
pub struct Redactor(Arc<ArcSwap<KnownSecrets>>);

#[derive(Default)]
struct KnownSecrets {
    /// All registered values, also those that are not masked.
    values: BTreeSet<String>,
    finders: Vec<SecretFinder>,
    /// The length of the longest value to find.
    longest: usize,
}

struct SecretFinder {
    finder: Finder<'static>,
    kind: SpellingKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpellingKind {
    Plain,
    /// Part of a Base64 text: the characters around it hold bits of the secret, too.
    Base64,
}

impl KnownSecrets {
    /// Adds secrets.
    fn and(&self, secrets: &[&str]) -> Self {
        let mut values = self.values.clone();
        for secret in secrets {
            values.insert((*secret).to_owned());
            // A multi-line key may be printed line by line.
            for part in secret.lines().chain([*secret]) {
                values.insert(part.trim().to_owned());
            }
        }
        let is_secret = |value: &&String| {
            value.chars().count() >= SHORTEST && !PLAIN.contains(&value.to_lowercase().as_str())
        };
        let (mut plain, mut base64) = (BTreeSet::new(), BTreeSet::new());
        for value in values.iter().filter(is_secret) {
            base64.extend(base64_parts(value));
            // A value with escapes of its own would not be found in a text without them.
            plain.insert(json_escaped(value));
            plain.insert(form_spaces(value).into_owned());
            plain.insert(value.clone());
        }
        let longest = plain.iter().chain(&base64).map(String::len).max();
        let finders = |spellings: BTreeSet<String>, kind| {
            spellings.into_iter().map(move |value| SecretFinder {
                finder: Finder::new(value.as_bytes()).into_owned(),
                kind,
            })
        };
        let base64 = finders(base64, SpellingKind::Base64);
        Self {
            finders: finders(plain, SpellingKind::Plain).chain(base64).collect(),
            longest: longest.unwrap_or_default(),
            values,
        }
    }

    /// Calls `found` with the place of each secret in a text.
    fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        for SecretFinder { finder, kind } in &self.finders {
            let length = finder.needle().len();
            for start in finder.find_iter(text) {
                let (mut start, mut end) = (start, start + length);
                if *kind == SpellingKind::Base64 {
                    start -= usize::from(start > 0 && is_base64(text[start - 1]));
                    let rest = text[end..].iter();
                    end += rest.take(3).take_while(|byte| is_base64(**byte)).count();
                }
                found(start, end);
            }
        }
    }

    /// The places of the secrets in a text, however they are spelt.
    fn ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let bytes = text.as_bytes();
        self.find(bytes, |start, end| ranges.push(start..end));
        if self.finders.is_empty() || !may_have_escapes(bytes) {
            return ranges;
        }
        // A secret may begin at the end of one piece; pieces overlap by the longest spelling.
        let overlap = self.longest * MAX_ESCAPE + MAX_ESCAPE;
        let piece = PIECE.max(4 * overlap);
        let mut from = 0;
        loop {
            let end = bytes.len().min(from + piece);
            let mut unescaped = Unescaped::new(&bytes[from..end]);
            for _ in 0..MAX_LAYERS {
                if !may_have_escapes(&unescaped.bytes) {
                    break;
                }
                unescaped = unescaped.layer();
                self.find(&unescaped.bytes, |start, end| {
                    let range = unescaped.original(start, end);
                    ranges.push(range.start + from..range.end + from);
                });
            }
            if end == bytes.len() {
                break;
            }
            from = end - overlap;
        }
        // An escape of a part of a character is no place to cut.
        ranges
            .retain(|range| text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
        ranges
    }
}

impl Redactor {
    /// Registers secrets.
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

    /// Masks the registered secrets in every text of a value, but not in the names of its members.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(shown) = self.known(text) {
                    *text = shown;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|member| self.mask_value(member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks only the registered secrets in a text.
    pub fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let ranges = merged(self.0.load().ranges(text));
        replace_ranges(text, &ranges, &mut |_| HIDDEN.to_owned())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
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
    fn secrets_are_found_behind_escapes() {
        check(
            &["Zx9/qW+e7Rt=", "a\\b%2Fc", "Grüße&Co", "two words"],
            &[
                ("k Zx9/qW+e7Rt= k", "k *** k"),
                ("k=Zx9/qW%2Be7Rt%3D&n=1", "k=***&n=1"),
                ("Zx9%2fqW%2be7Rt%3d!", "***!"),
                ("%5a%78%39%2f%71%57%2b%65%37%52%74%3d.", "***."),
                ("{\"k\":\"Zx9\\/qW+e7Rt=\"}", "{\"k\":\"***\"}"),
                ("Zx9/qW\\u002be7Rt\\u003d.", "***."),
                ("Zx9\\u002FqW\\u002Be7Rt\\u003D.", "***."),
                ("Zx9&#x2F;qW&plus;e7Rt&#61;.", "***."),
                ("Zx9&#x2f;qW&#43;e7Rt&equals;.", "***."),
                // A URL within a URL, JSON within JSON, and both.
                ("u=Zx9%252FqW%252Be7Rt%253D.", "u=***."),
                ("Zx9\\\\/qW\\\\u002be7Rt=.", "***."),
                ("Zx9\\u00252FqW%2Be7Rt%3D.", "***."),
                // Escapes that are the secret's own.
                ("a\\b%2Fc a\\\\b%2Fc a%5Cb%252Fc.", "*** *** ***."),
                ("Gr%C3%BC%C3%9Fe%26Co Gr\\u00fc\\u00dfe&amp;Co.", "*** ***."),
                ("two+words two%20words.", "*** ***."),
                // Half a secret, or no escapes at all.
                ("Zx9/qW 100% of \\ & a%zz &;", "Zx9/qW 100% of \\ & a%zz &;"),
            ],
        );
    }

    #[test]
    fn secrets_are_found_in_base64() {
        // Secrets with both kinds of characters in which the alphabets differ.
        check(
            &["Zx9/qW+e7Rt=", "k?>~k?>~k?>~"],
            &[
                ("got Wng5L3FXK2U3UnQ9 back", "got *** back"),
                // `user:`, `me:` and `root:` before it, as in Basic authentication.
                ("x dXNlcjpaeDkvcVcrZTdSdD0=.", "x dXNlcj***."),
                ("x bWU6Wng5L3FXK2U3UnQ9.", "x bWU***."),
                ("x cm9vdDpaeDkvcVcrZTdSdD0=.", "x cm9vdD***."),
                // `Bearer ` before it.
                ("x QmVhcmVyIFp4OS9xVytlN1J0PQ==.", "x QmVhcmVyI***."),
                ("x az8-fms_Pn5rPz5-.", "x ***."),
                ("x az8+fms/Pn5rPz5+.", "x ***."),
                // Escaped once more.
                ("x az8%2Bfms%2FPn5rPz5%2B.", "x ***."),
                ("x az8+fms\\/Pn5rPz5+.", "x ***."),
                ("dXNlcjpub3RoaW5nIGhlcmU=", "dXNlcjpub3RoaW5nIGhlcmU="),
            ],
        );
    }

    #[test]
    fn a_part_of_a_secret_is_not_masked() {
        // Else a guess could be told from a miss, one character after the other.
        for text in ["Zx9/qW…", "Zx9/qX…", "…7Rt=", "Zx9/qW+e7Rt"] {
            check(&["Zx9/qW+e7Rt="], &[(text, text)]);
        }
    }

    #[test]
    fn a_secret_across_two_pieces_is_found() {
        let redactor = Redactor::default();
        redactor.hide("Zx9/qW+e7Rt=");
        for before in PIECE - 40..PIECE + 4 {
            let text = format!("{}Zx9%2fqW\\u002be7Rt&#61;.", "a".repeat(before));
            let shown = redactor.known(&text);
            assert_eq!(shown.len(), before + HIDDEN.len() + 1, "{before}");
        }
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
