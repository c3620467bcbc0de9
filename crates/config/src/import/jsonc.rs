//! Turns JSON with comments and trailing commas into plain JSON of the same length.
//!
//! Every byte keeps its offset, so that positions in the plain text are those in the file.

/// Replaces comments and trailing commas by spaces. Other errors stay.
pub(crate) fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut comma = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        match (byte, bytes.get(at + 1).copied()) {
            (b'"', _) => {
                comma = None;
                at = after_string(&bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => {
                let rest = bytes.iter_mut().skip(at);
                at += blank(rest.take_while(|byte| **byte != b'\n'));
                continue;
            }
            (b'/', Some(b'*')) => {
                // An unterminated comment stays, so that the parser reports its position.
                let end = bytes.windows(2).skip(at + 2).position(|pair| pair == b"*/");
                let Some(length) = end.map(|end| end + 4) else {
                    break;
                };
                at += blank(bytes.iter_mut().skip(at).take(length));
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            _ => comma = None,
        }
        at += 1;
    }
    // Only whole characters were replaced, so this is still UTF-8.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The content of a text that has only whitespace, comments and perhaps a comma.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Blanks {
    /// The offset of the first comma.
    pub(crate) comma: Option<usize>,
    /// Whether the text ends in a line comment.
    pub(crate) ends_in_line_comment: bool,
}

/// Finds the first comma outside of comments, and the kind of the last comment.
pub(crate) fn blanks(text: &str) -> Blanks {
    let mut found = Blanks::default();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            found.ends_in_line_comment = length == rest.len();
            length
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            if rest.starts_with(',') {
                found.comma.get_or_insert(at);
            }
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += length;
    }
    found
}

/// Keeps line breaks, so that line numbers stay the same.
fn blank<'a>(bytes: impl Iterator<Item = &'a mut u8>) -> usize {
    bytes
        .map(|byte| {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        })
        .count()
}

/// The offset after the string that begins at `start`.
fn after_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_spaces_of_the_same_length() {
        let cases = [
            (r#"{"a":1}"#, r#"{"a":1}"#),
            ("{\"a\":1,}", "{\"a\":1 }"),
            ("[1, /* é */ ]", "[1           ]"),
            ("{// x\n\"a\":1 // y\r\n}", "{    \n\"a\":1     \r\n}"),
            (r#"{"u":"http://x/*y*/,]"}"#, r#"{"u":"http://x/*y*/,]"}"#),
            (r#"{"q":"\"//",}"#, r#"{"q":"\"//" }"#),
            ("{} /* open", "{} /* open"),
            ("/*/ [1,]", "/*/ [1,]"),
            ("/**/[[1,],]", "    [[1 ] ]"),
            ("\"open", "\"open"),
            ("\"\\", "\"\\"),
        ];
        for (given, expected) in cases {
            assert_eq!(plain(given), expected, "{given}");
            assert_eq!(plain(given).len(), given.len(), "{given}");
        }
    }
}
