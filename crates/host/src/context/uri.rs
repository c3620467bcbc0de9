//! URIs of resources: sent to their server verbatim, or not at all.

use crate::call::{CallError, Cause};

/// The maximum length of a URI in bytes (SEC-4).
pub(crate) const MAX_URI: usize = 8 * 1024;

/// Checks that a URI can be sent. Its meaning is up to the server: `..`, `file://` and the like are
/// not interpreted here.
pub(super) fn check(uri: &str) -> Result<(), CallError> {
    let reason = if uri.is_empty() {
        "it is empty"
    } else if uri.len() > MAX_URI {
        "it is too long"
    } else if uri.chars().any(char::is_control) {
        "it holds control characters"
    } else {
        return Ok(());
    };
    Err(CallError::from(Cause::InvalidUri { reason }))
}

/// Returns the length of the scheme and its colon at the start of a text; 0 if there is none.
pub(super) fn scheme(text: &str) -> usize {
    let Some(colon) = text.find(':') else {
        return 0;
    };
    let mut bytes = text[..colon].bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if begins && goes_on { colon + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_passed_on_is_an_address() {
        for uri in ["a:1", "file:///etc/../passwd", "demo://x y/é", "no scheme"] {
            assert!(check(uri).is_ok(), "{uri}");
        }
        for uri in [
            "",
            "a:\n",
            "a:\u{1b}[0m",
            "a:\u{7f}",
            &"x".repeat(MAX_URI + 1),
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn schemes_are_told_from_other_words() {
        for (text, length) in [
            ("https://x", 6),
            ("a+b-1.c:x", 8),
            ("1a:x", 0),
            ("x", 0),
            (":x", 0),
            ("é:x", 0),
        ] {
            assert_eq!(scheme(text), length, "{text}");
        }
    }
}
