//! Sanitizes server text for a model (TOOL-3): no hidden characters, no control sequences, one
//! spelling for text that looks the same.
//!
//! Plain ASCII, the common case, is scanned once and returned unchanged.

mod escape;
mod filter;
mod json;
mod kind;
mod shown;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

pub(crate) use filter::is_part_of_emoji;
pub(crate) use json::{sanitize_item, sanitize_schema, strip_hidden_json};
pub use json::{sanitize_json, sanitize_value};
pub use kind::Removed;
pub(crate) use shown::shared;
pub use shown::{MAX_SHOWN, one_line, shown};

use filter::strip;
pub(crate) use filter::strip as strip_hidden;

/// Removes invisible characters, normalizes to NFKC, and reports the removed characters.
///
/// Removes control characters except line feed and tab, terminal escape sequences, zero-width and
/// bidirectional controls, tag characters, variation selectors, private-use characters and
/// noncharacters. All line ends become line feeds. Emoji keep their joiners and selectors.
///
/// ```
/// let (text, removed) = trunkline::text::sanitize("Adds\u{200b} two \u{1b}[8mnumbers\u{1b}[0m");
/// assert_eq!(text, "Adds two numbers");
/// assert_eq!(removed.total(), 3);
/// ```
pub fn sanitize(text: &str) -> (Cow<'_, str>, Removed) {
    let mut removed = Removed::default();
    let mut text = strip(text, &mut removed);
    while let Some(normalized) = normalized(&text) {
        // Normalizing may separate a selector from its emoji, so strip again.
        text = Cow::Owned(strip(&normalized, &mut removed).into_owned());
    }
    (text, removed)
}

/// Returns the NFKC form if it differs.
fn normalized(text: &str) -> Option<String> {
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return None;
    }
    let normalized: String = text.nfkc().collect();
    (normalized != text).then_some(normalized)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::kind::HiddenKind;
    use super::*;

    fn clean(text: &str) -> String {
        sanitize(text).0.into_owned()
    }

    #[test]
    fn invisible_characters_are_removed() {
        for (text, expected) in [
            ("", ""),
            ("plain ASCII\n\tand more ~", "plain ASCII\n\tand more ~"),
            ("naïve Größe 漢字 עברית", "naïve Größe 漢字 עברית"),
            ("a\u{0}b\u{7}c\u{7f}d\u{84}e", "abcde"),
            (
                "a\r\nb\rc\u{b}d\u{c}e\u{85}f\u{2028}g\u{2029}h",
                "a\nb\nc\nd\ne\nf\ng\nh",
            ),
            ("\u{1b}[31;1mred\u{1b}[0m \u{9b}2Jx", "red x"),
            (
                "\u{1b}]8;;https://evil\u{7}link\u{1b}]8;;\u{1b}\\ end",
                "link end",
            ),
            ("\u{1b}]0;never ended\nnext", "\nnext"),
            (
                "a\u{200b}b\u{200c}c\u{200d}d\u{2060}e\u{feff}f\u{ad}g\u{34f}h",
                "abcdefgh",
            ),
            (
                "\u{202e}gnp.exe\u{202c} \u{2066}x\u{2069}\u{61c}\u{200e}",
                "gnp.exe x",
            ),
            ("say\u{e0001}\u{e0068}\u{e0069}\u{e007f}!", "say!"),
            ("p\u{e000}q\u{f8ff}r\u{f0000}s\u{10fffd}t", "pqrst"),
            (
                "x\u{fe00}y\u{fe01}\u{fe0e}\u{e0100}\u{e01ef}z\u{180b}",
                "xyz",
            ),
            ("\u{fdd0}n\u{ffff}o\u{1fffe}", "no"),
            ("\u{3164}\u{115f}\u{1160}\u{ffa0}blank", "blank"),
            ("cut \u{fffd}", "cut \u{fffd}"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn text_is_normalized_to_nfkc() {
        for (text, expected) in [
            ("ｄｅｌｅｔｅ", "delete"),
            ("𝐝𝐞𝐥𝐞𝐭𝐞", "delete"),
            ("ﬁle", "file"),
            ("e\u{301}", "é"),
            ("x\u{a0}y", "x y"),
            ("™️", "TM"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn emoji_keep_only_their_own_joiners_and_selectors() {
        for same in ["👩‍👩‍👧", "👩🏽‍💻", "❤️", "❤️‍🔥", "🏳️‍🌈", "1️⃣", "🇩🇪", "✅"]
        {
            assert_eq!(clean(same), same);
        }
        for (text, expected) in [
            ("👩\u{200d}x", "👩x"),
            ("x\u{200d}👩", "x👩"),
            ("👩\u{200d}\u{200d}👧", "👩\u{200d}👧"),
            ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}"),
            ("✅\u{e0100}\u{e0101}", "✅"),
            ("1\u{fe0f}2", "12"),
            // The flag of England uses tag characters, which could carry a message.
            ("🏴\u{e0067}\u{e0062}\u{e007f}", "🏴"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn removed_characters_are_counted_by_kind() {
        let (_, removed) =
            sanitize("\u{1b}[1mA\u{200b}\u{200b}\u{202e}\u{e0041}\u{e000}\u{1}x\u{fe00}");
        assert_eq!(removed.total(), 8);
        let counts = HiddenKind::ALL.map(|kind| removed.of(kind));
        assert_eq!(counts.iter().sum::<usize>(), 8);
        assert_eq!(removed.of(HiddenKind::ZeroWidth), 2);
        assert_eq!(
            removed.to_string(),
            "8 hidden characters (1 control, 1 escape, 2 zero-width, 1 bidirectional, 1 tag, 1 variation selector, 1 private use)"
        );
        let (_, one) = sanitize("a\u{200b}");
        assert_eq!(one.to_string(), "1 hidden character (1 zero-width)");
        // Normalizing hides nothing.
        assert!(sanitize("ﬁ\r\n").1.is_empty());
    }

    #[test]
    fn clean_text_is_not_copied() {
        for text in ["plain", "Größe — 漢字", "👩‍💻 ✅"] {
            assert!(matches!(sanitize(text).0, Cow::Borrowed(_)), "{text}");
        }
    }

    /// Text with many special characters.
    fn any_text() -> impl Strategy<Value = String> {
        let special = prop::sample::select(
            "\u{1b}[]\\m;\u{7}\u{9b}\u{9d}\u{9c}\r\n\t\u{200b}\u{200d}\u{fe0f}\u{fe0e}\u{e0100}\u{e0041}\u{202e}\u{e000}❤👩™①#1\u{20e3}\u{34f}\u{301}\u{323}eﷺ\u{1160}\u{1100}\u{1161}\u{3164}ｶﾞ\u{2028}"
                .chars()
                .collect::<Vec<_>>(),
        );
        prop::collection::vec(prop_oneof![3 => special, 1 => any::<char>()], 0..40)
            .prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn sanitizing_is_complete_and_idempotent(text in any_text()) {
            let (once, removed) = sanitize(&text);
            let (twice, more) = sanitize(&once);
            prop_assert_eq!(&twice, &once);
            prop_assert!(more.is_empty());
            let mut left = once.chars().filter(|c| {
                kind::of(*c).is_some_and(|kind| !matches!(*c, '\u{200d}' | '\u{fe0f}') || kind == HiddenKind::Control)
            });
            prop_assert_eq!(left.next(), None);
            if removed.is_empty() {
                prop_assert!(!once.is_empty() || text.is_empty());
            }
        }

        #[test]
        fn printable_ascii_is_unchanged(text in "[ -~\n\t]{0,80}") {
            let (same, removed) = sanitize(&text);
            prop_assert!(matches!(same, Cow::Borrowed(_)) && removed.is_empty());
        }
    }
}
