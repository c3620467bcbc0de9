//! Decodes JSON strings in chunks, so that a large string is never in memory twice.

use crate::check::quote_or_backslash;

/// The size of a chunk. Escapes are often only a few bytes apart, so decoded text is collected up
/// to a size that is worth a write.
const CHUNK_SIZE: usize = 64 * 1024;

/// Calls `visit` with the decoded chunks of `inner`, the text between the quotes of a string. A
/// lone surrogate becomes U+FFFD.
pub(crate) fn chunks<E>(
    inner: &str,
    mut visit: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = inner;
    let mut chunk = String::new();
    // In a checked string, a quote is always escaped.
    while let Some(at) = quote_or_backslash(rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        if chunk.len() + plain.len() > CHUNK_SIZE {
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

/// Passes long text on without a copy, and collects short text.
fn visit_long<E>(
    plain: &str,
    chunk: &mut String,
    visit: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    if plain.len() > CHUNK_SIZE {
        return visit(plain);
    }
    chunk.push_str(plain);
    Ok(())
}

/// Decodes one escape. Returns the character and the length of the escape.
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

/// Decodes `\uXXXX`, or a surrogate pair.
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

/// Returns the code unit of the escape `\uXXXX` at the start of `text`.
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
        let visited = chunks::<Infallible>(inner, |chunk| {
            assert!(!chunk.is_empty());
            text.push_str(chunk);
            Ok(())
        });
        visited.unwrap();
        text
    }

    #[test]
    fn chunks_join_to_the_decoded_text() {
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
    fn short_text_is_collected_and_long_text_is_passed_on() {
        let (long, line) = ("x".repeat(3 * CHUNK_SIZE), r"a line\n");
        let inner = format!("{long}{}{long}", line.repeat(2 * CHUNK_SIZE));
        let mut lengths = Vec::new();
        let visited = chunks::<Infallible>(&inner, |chunk| {
            lengths.push(chunk.len());
            Ok(())
        });
        visited.unwrap();
        // The chunk also holds the first line, up to its line break.
        assert_eq!(lengths[0], long.len() + "a line".len());
        assert_eq!(lengths.last(), Some(&long.len()));
        assert_eq!(
            lengths.iter().sum::<usize>(),
            2 * long.len() + 7 * 2 * CHUNK_SIZE
        );
        assert!(lengths.len() < 20, "{lengths:?}");
        assert!(joined(&inner) == inner.replace("\\n", "\n"));
    }

    #[test]
    fn an_error_stops_the_decoding() {
        let mut count = 0;
        let inner = r"a\n".repeat(CHUNK_SIZE * 5);
        let ended = chunks(&inner, |_| {
            count += 1;
            if count == 2 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((ended, count), (Err("enough"), 2));
    }

    proptest! {
        #[test]
        fn chunks_agree_with_the_decoder(inner in r#"([a-zé中😀]{0,9}|\\["\\/bfnrt]|\\u[0-9a-f]{4}|\\ud[89ab][0-9a-f]{2}|\\ud[cdef][0-9a-f]{2}){0,12}"#) {
            let whole = Json::parse(format!("\"{inner}\"")).unwrap().as_string().unwrap();
            // The decoder merges adjacent lone surrogates into fewer U+FFFD.
            let once = |text: &str| { let mut marks = text.to_owned(); while marks.contains("\u{fffd}\u{fffd}") { marks = marks.replace("\u{fffd}\u{fffd}", "\u{fffd}"); } marks };
            prop_assert_eq!(once(&joined(&inner)), once(&whole));
        }

        #[test]
        fn any_input_terminates(inner in r"([a-zé]|\\|u|[0-9a-f]){0,40}") {
            joined(&inner);
        }
    }
}
