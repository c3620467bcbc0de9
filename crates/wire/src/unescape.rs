//! Reads a JSON string piece by piece, so that a large one need never be in memory a second time.

use crate::check::quote_or_backslash;

/// How much is put together before it is handed on: escapes are often only a few bytes apart. It is worth a write of its own.
const CHUNK: usize = 64 * 1024;

/// Calls `visit` with what `inner`, the text between a string's quotes, spells, piece by piece and in order. As where it is
/// decoded at once, half of a surrogate pair becomes U+FFFD.
pub(crate) fn pieces<E>(
    inner: &str,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = inner;
    let mut chunk = String::new();
    // Inside a checked string, a quote only stands behind a backslash.
    while let Some(at) = quote_or_backslash(rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        if chunk.len() + plain.len() > CHUNK {
            if !chunk.is_empty() {
                visit(&chunk)?;
                chunk.clear();
            }
            visit_long(plain, &mut chunk, &mut visit)?;
        } else {
            chunk.push_str(plain);
        }
        let (c, length) = escaped(escape);
        chunk.push(c);
        rest = escape.get(length..).unwrap_or_default();
    }
    if !chunk.is_empty() {
        visit(&chunk)?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    visit(rest)
}

/// Hands on what is long where it stands, and keeps what is short.
fn visit_long<E>(
    plain: &str,
    chunk: &mut String,
    visit: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    if plain.len() > CHUNK {
        return visit(plain);
    }
    chunk.push_str(plain);
    Ok(())
}

/// The character that an escape spells, and how long the escape is.
fn escaped(escape: &str) -> (char, usize) {
    if escape.starts_with('"') {
        return ('"', 1);
    }
    let c = match escape.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode(escape),
        // A quote, a backslash or a slash stands for itself.
        Some(plain) if plain.is_ascii() => char::from(*plain),
        _ => return (char::REPLACEMENT_CHARACTER, escape.len()),
    };
    (c, 2)
}

/// `\uXXXX`, or two of them that are one character together.
fn unicode(escape: &str) -> (char, usize) {
    const ONE: usize = 6;
    let Some(first) = unit(escape) else {
        return (char::REPLACEMENT_CHARACTER, escape.len());
    };
    let second = escape.get(ONE..).and_then(unit);
    let one = || (char::REPLACEMENT_CHARACTER, ONE);
    match (first, second) {
        (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
            let both = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            char::from_u32(both).map_or_else(one, |c| (c, 2 * ONE))
        }
        _ => char::from_u32(first).map_or_else(one, |c| (c, ONE)),
    }
}

/// The number in an escape `\uXXXX` at the beginning of `text`.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use crate::Json;

    use super::*;

    fn joined(inner: &str) -> String {
        let mut text = String::new();
        let visited = pieces::<Infallible>(inner, |piece| {
            assert!(!piece.is_empty());
            text.push_str(piece);
            Ok(())
        });
        visited.unwrap();
        text
    }

    #[test]
    fn pieces_spell_the_text() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            (r#"\"a\\b\/\n\t\r\b\f"#, "\"a\\b/\n\t\r\u{8}\u{c}"),
            (r"\u00e9\u4e2dé", "é中é"),
            (r"\ud83d\ude00!", "\u{1f600}!"),
            (r"cut \ud83d", "cut \u{fffd}"),
            (r"\ud83dx\udc00", "\u{fffd}x\u{fffd}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        ];
        for (inner, expected) in cases {
            assert_eq!(joined(inner), expected, "{inner}");
        }
    }

    #[test]
    fn pieces_are_neither_tiny_nor_copies_of_what_is_long() {
        let (long, line) = ("x".repeat(3 * CHUNK), r"a line\n");
        let inner = format!("{long}{}{long}", line.repeat(2 * CHUNK));
        let mut lengths = Vec::new();
        let visited = pieces::<Infallible>(&inner, |piece| {
            lengths.push(piece.len());
            Ok(())
        });
        visited.unwrap();
        // The first line goes with it, up to its end.
        assert_eq!(lengths[0], long.len() + "a line".len());
        assert_eq!(lengths.last(), Some(&long.len()));
        assert_eq!(
            lengths.iter().sum::<usize>(),
            2 * long.len() + 7 * 2 * CHUNK
        );
        assert!(lengths.len() < 20, "{lengths:?}");
        assert!(joined(&inner) == inner.replace("\\n", "\n"));
    }

    #[test]
    fn who_has_heard_enough_ends_it() {
        let mut heard = 0;
        let inner = r"a\n".repeat(CHUNK * 5);
        let ended = pieces(&inner, |_| {
            heard += 1;
            if heard == 2 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((ended, heard), (Err("enough"), 2));
    }

    proptest! {
        #[test]
        fn pieces_agree_with_the_decoder(inner in r#"([a-zé中😀]{0,9}|\\["\\/bfnrt]|\\u[0-9a-f]{4}|\\ud[89ab][0-9a-f]{2}|\\ud[cdef][0-9a-f]{2}){0,12}"#) {
            let whole = Json::parse(format!("\"{inner}\"")).unwrap().as_string().unwrap();
            // Where several halves stand together the decoder makes fewer marks of them.
            let once = |text: &str| { let mut marks = text.to_owned(); while marks.contains("\u{fffd}\u{fffd}") { marks = marks.replace("\u{fffd}\u{fffd}", "\u{fffd}"); } marks };
            prop_assert_eq!(once(&joined(&inner)), once(&whole));
        }

        #[test]
        fn anything_ends(inner in r"([a-zé]|\\|u|[0-9a-f]){0,40}") {
            joined(&inner);
        }
    }
}
