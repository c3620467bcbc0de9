//! Text that somebody else wrote, fit for a terminal (SEC-3).

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line, with everything in it that could steer a terminal shown instead of sent.
///
/// ```
/// assert_eq!(trunkline::harmless("\u{1b}[31mred"), "\\u{1b}[31mred");
/// ```
pub fn harmless(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if plain || !text.chars().any(is_harmful) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Control characters, and those that are invisible, break lines, or turn the direction of writing.
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
    fn what_could_steer_a_terminal_is_shown_instead() {
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
}
