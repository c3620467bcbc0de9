//! Finds the end of terminal escape sequences (ECMA-48), whose contents are invisible on a
//! terminal.

/// Returns the text after the escape sequence that starts with `introducer`, or `None` if it starts
/// none. An unterminated sequence ends with its line.
pub(super) fn after(introducer: char, rest: &str) -> Option<&str> {
    match introducer {
        '\u{1b}' => {
            let Some(next) = rest.chars().next().filter(char::is_ascii) else {
                return Some(rest);
            };
            match next {
                '[' => Some(after_control(&rest[1..])),
                ']' | 'P' | 'X' | '^' | '_' => Some(after_string(&rest[1..])),
                ' '..='/' => Some(after_plain(rest)),
                '0'..='~' => Some(&rest[1..]),
                // A lone escape, or one before a control character.
                _ => Some(rest),
            }
        }
        '\u{9b}' => Some(after_control(rest)),
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Some(after_string(rest)),
        _ => None,
    }
}

/// Parameters, intermediates, one final byte.
fn after_control(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c| matches!(c, '0'..='?'));
    let rest = rest.trim_start_matches(|c| matches!(c, ' '..='/'));
    rest.strip_prefix(|c| matches!(c, '@'..='~'))
        .unwrap_or(rest)
}

/// Intermediates, one final byte.
fn after_plain(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c| matches!(c, ' '..='/'));
    rest.strip_prefix(|c| matches!(c, '0'..='~'))
        .unwrap_or(rest)
}

/// Anything up to the terminator.
fn after_string(rest: &str) -> &str {
    let Some(end) = rest.find(['\u{7}', '\u{9c}', '\u{1b}', '\n']) else {
        return "";
    };
    let ended = &rest[end..];
    match ended.chars().next() {
        Some('\u{1b}') => ended.strip_prefix("\u{1b}\\").unwrap_or(ended),
        Some('\n') | None => ended,
        Some(terminator) => &ended[terminator.len_utf8()..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_skipped_whole() {
        for (sequence, left) in [
            ("\u{1b}[0m.", "."),
            ("\u{1b}[38;2;1;2;3m.", "."),
            ("\u{1b}[?25l.", "."),
            ("\u{1b}[1 q.", "."),
            ("\u{1b}[", ""),
            ("\u{1b}[3é", "é"),
            ("\u{1b}c.", "."),
            ("\u{1b}(B.", "."),
            ("\u{1b}]0;title\u{7}.", "."),
            ("\u{1b}]0;title\u{1b}\\.", "."),
            ("\u{1b}]0;title\u{9c}.", "."),
            ("\u{1b}]0;title\u{1b}[1m.", "\u{1b}[1m."),
            ("\u{1b}Pq#0\u{1b}\\.", "."),
            ("\u{1b}]0;title", ""),
            ("\u{1b}]0;title\n.", "\n."),
            ("\u{9b}1m.", "."),
            ("\u{9d}0;x\u{9c}.", "."),
            ("\u{1b}é", "é"),
            ("\u{1b}", ""),
        ] {
            let mut rest = sequence.chars();
            let introducer = rest.next().unwrap();
            assert_eq!(after(introducer, rest.as_str()), Some(left), "{sequence:?}");
        }
        assert_eq!(after('x', "[0m"), None);
        assert_eq!(after('\u{7}', "[0m"), None);
    }
}
