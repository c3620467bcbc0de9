//! Makes untrusted text safe for a terminal (SEC-3).

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::sanitize::is_part_of_emoji;

/// Escapes every character of a line that could control a terminal. Emoji sequences are preserved;
/// characters that look like a space become one.
///
/// ```
/// assert_eq!(trunkline::text::harmless("\u{1b}[31mred"), "\\u{1b}[31mred");
/// ```
pub fn harmless(text: &str) -> Cow<'_, str> {
    harmless_with(text, |c, shown| {
        let _ = write!(shown, "{}", c.escape_unicode());
    })
}

/// Like [`harmless`], but `show` writes each unsafe character.
pub fn harmless_with(text: &str, mut show: impl FnMut(char, &mut String)) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if plain || !text.chars().any(|c| is_harmful(c) || is_blank(c)) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let behind = &text[at + c.len_utf8()..];
        if is_blank(c) {
            // Lines wrap at spaces; others could fill rows, and push the rest off the screen.
            shown.push(' ');
        } else if !is_harmful(c) || is_part_of_emoji(c, &text[..at], behind) {
            shown.push(c);
        } else {
            show(c, &mut shown);
        }
    }
    shown.into()
}

/// Returns whether a character looks like a space without being one.
fn is_blank(c: char) -> bool {
    !c.is_ascii() && (c == '\u{2800}' || (c.is_whitespace() && !is_harmful(c)))
}

/// Returns whether a character is a control character, invisible, a line break, or changes the text
/// direction.
pub fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e01ef}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(harmless("plain é\tx"), "plain é\tx");
        assert_eq!(harmless("\x1b[31mred\r"), "\\u{1b}[31mred\\u{d}");
        assert_eq!(harmless("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
        for c in [
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{2028}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{e0100}',
        ] {
            assert!(harmless(&c.to_string()).starts_with("\\u{"), "{c:?}");
        }
    }

    #[test]
    fn blank_characters_become_spaces() {
        for c in ['\u{a0}', '\u{2003}', '\u{202f}', '\u{3000}', '\u{2800}'] {
            assert_eq!(harmless(&format!("a{c}{c}b")), "a  b", "{c:?}");
        }
        assert_eq!(harmless("a\u{85}b\u{2028}"), "a\\u{85}b\\u{2028}");
    }

    #[test]
    fn emoji_sequences_are_preserved_and_stray_parts_escaped() {
        for whole in [
            "ok ✔\u{fe0f}",
            "⚠\u{fe0f} careful",
            "ℹ\u{fe0f}",
            "🅰\u{fe0f}",
            "👩\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "👩🏽\u{200d}💻",
            "1\u{fe0f}\u{20e3}",
        ] {
            assert_eq!(harmless(whole), whole);
        }
        for (text, shown) in [
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("✔\u{fe0f}\u{fe0f}", "✔\u{fe0f}\\u{fe0f}"),
            ("1\u{fe0f}", "1\\u{fe0f}"),
            ("👩\u{200d}a", "👩\\u{200d}a"),
            ("a\u{200d}👩", "a\\u{200d}👩"),
            ("👩\u{200d}\u{200d}👩", "👩\\u{200d}\\u{200d}👩"),
            ("👩\u{200b}👩", "👩\\u{200b}👩"),
            ("✔\u{202e}", "✔\\u{202e}"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }
}
