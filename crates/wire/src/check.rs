//! Validates JSON text and finds the members of the outermost object in one pass.
//!
//! Every incoming message goes through here, so this is written for speed: strings, which make up
//! most of a large message, are checked a block at a time. It accepts exactly what `serde_json`
//! accepts, which a property test and a fuzz target verify, but without a nesting limit, because it
//! does not recurse.

use std::fmt;

/// The position and cause of a syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    at: usize,
    message: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.at + 1)
    }
}

/// Validates `text` as one object. Calls `visit` with the raw key, quotes included, and the raw
/// value of each member, in order.
pub(crate) fn object<'a>(
    text: &'a str,
    mut visit: impl FnMut(&'a str, &'a str),
) -> Result<(), SyntaxError> {
    let mut checker = Checker::new(text);
    checker.expect(b'{', "expected an object")?;
    if checker.peek() == Some(b'}') {
        checker.at += 1;
        return checker.end();
    }
    loop {
        checker.skip_whitespace();
        let key = checker.at;
        checker.string()?;
        let key = &text[key..checker.at];
        checker.expect(b':', "expected `:`")?;
        checker.skip_whitespace();
        let value = checker.at;
        checker.value()?;
        visit(key, &text[value..checker.at]);
        if !checker.has_next(b'}')? {
            return checker.end();
        }
    }
}

/// Validates `text` as one array. Calls `visit` with each element.
pub(crate) fn array<'a>(text: &'a str, mut visit: impl FnMut(&'a str)) -> Result<(), SyntaxError> {
    let mut checker = Checker::new(text);
    checker.expect(b'[', "expected an array")?;
    if checker.peek() == Some(b']') {
        checker.at += 1;
        return checker.end();
    }
    loop {
        checker.skip_whitespace();
        let value = checker.at;
        checker.value()?;
        visit(&text[value..checker.at]);
        if !checker.has_next(b']')? {
            return checker.end();
        }
    }
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Checker<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    fn invalid<T>(&self, message: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            at: self.at,
            message,
        })
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Returns the next byte after whitespace.
    fn peek(&mut self) -> Option<u8> {
        self.skip_whitespace();
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, wanted: u8, message: &'static str) -> Result<(), SyntaxError> {
        if self.peek() != Some(wanted) {
            return self.invalid(message);
        }
        self.at += 1;
        Ok(())
    }

    /// Returns true if another member follows and false if the container closes.
    fn has_next(&mut self, close: u8) -> Result<bool, SyntaxError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(found) if found == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.invalid("expected `,` or a closing bracket"),
        }
    }

    fn end(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.invalid("trailing characters"),
        }
    }

    /// Validates one value. A stack with one bit per container replaces recursion.
    fn value(&mut self) -> Result<(), SyntaxError> {
        let mut open = Nesting::default();
        loop {
            // A value starts here.
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    if self.peek() != Some(b'}') {
                        open.push(true);
                        self.key()?;
                        continue;
                    }
                    self.at += 1;
                }
                Some(b'[') => {
                    self.at += 1;
                    if self.peek() != Some(b']') {
                        open.push(false);
                        continue;
                    }
                    self.at += 1;
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return self.invalid("expected a value"),
            }
            // A value has ended, and possibly the containers around it.
            loop {
                let Some(in_object) = open.innermost() else {
                    return Ok(());
                };
                if self.has_next(if in_object { b'}' } else { b']' })? {
                    if in_object {
                        self.key()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        self.skip_whitespace();
        self.string()?;
        self.expect(b':', "expected `:`")
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), SyntaxError> {
        if !self.bytes[self.at..].starts_with(word) {
            return self.invalid("expected a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            // Only a fraction or an exponent may follow a leading zero.
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start {
            return self.invalid("expected a digit");
        }
        Ok(())
    }

    /// Validates a string, starting at its opening quote.
    fn string(&mut self) -> Result<(), SyntaxError> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return self.invalid("expected a string");
        }
        self.at += 1;
        loop {
            self.at += plain_prefix(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.invalid("control character in a string"),
                None => return self.invalid("unterminated string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return self.invalid("invalid \\u escape");
                }
                6
            }
            _ => return self.invalid("invalid escape"),
        };
        self.at += length;
        Ok(())
    }
}

/// Returns the number of bytes before the first quote, backslash or control character.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    const SMALL: usize = 32;
    const LARGE: usize = 128;
    // Most strings are short, and a large block would be wasted on them.
    let mut plain = plain_blocks::<SMALL>(&bytes[..bytes.len().min(LARGE)]);
    if plain == LARGE {
        plain += plain_blocks::<LARGE>(&bytes[LARGE..]);
        plain += plain_blocks::<SMALL>(&bytes[plain..]);
    }
    plain
        + words::find(&bytes[plain..], |word| {
            words::below_space(word) | words::equal(word, b'"') | words::equal(word, b'\\')
        })
}

/// Returns the length of the leading blocks that contain no special byte. The compiler vectorizes a
/// block of this size only if its body has no branches.
fn plain_blocks<const BLOCK: usize>(bytes: &[u8]) -> usize {
    let special =
        |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let is_plain =
        |block: &&[u8; BLOCK]| block.iter().fold(0, |found, byte| found | special(*byte)) == 0;
    blocks.iter().take_while(is_plain).count() * BLOCK
}

/// Returns the position of the first quote or backslash in validated text.
pub(crate) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    /// For shorter text, a search by words is faster than the setup of `memchr`.
    const SHORT: usize = 16;
    let start = &bytes[..bytes.len().min(SHORT)];
    let found = words::find(start, |word| {
        words::equal(word, b'"') | words::equal(word, b'\\')
    });
    if found < start.len() {
        return Some(found);
    }
    memchr::memchr2(b'"', b'\\', &bytes[found..]).map(|at| found + at)
}

/// Searches eight bytes at a time.
mod words {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    /// Returns the index of the first byte for which `marks` sets the high bit, or the length.
    /// Marks after the first one may be wrong.
    pub(super) fn find(bytes: &[u8], marks: impl Fn(u64) -> u64) -> usize {
        let (words, rest) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let found = marks(u64::from_le_bytes(*word));
            if found != 0 {
                return index * 8 + found.trailing_zeros() as usize / 8;
            }
        }
        let mut last = [b' '; 8];
        last[..rest.len()].copy_from_slice(rest);
        let found = marks(u64::from_le_bytes(last));
        let at = found.trailing_zeros() as usize / 8;
        words.len() * 8 + at.min(rest.len())
    }

    /// Marks the bytes equal to `byte`.
    pub(super) fn equal(word: u64, byte: u8) -> u64 {
        let difference = word ^ (ONES * u64::from(byte));
        difference.wrapping_sub(ONES) & !difference & HIGH
    }

    /// Marks the bytes below 0x20.
    pub(super) fn below_space(word: u64) -> u64 {
        word.wrapping_sub(ONES * 0x20) & !word & HIGH
    }
}

/// The open containers, innermost last, with one bit each: 1 for an object.
#[derive(Default)]
struct Nesting {
    bits: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn accepts(text: &str) -> bool {
        array(&format!("[{text}]"), |_| {}).is_ok()
    }

    fn parser_accepts(text: &str) -> bool {
        serde_json::from_str::<Vec<&RawValue>>(&format!("[{text}]")).is_ok()
    }

    #[test]
    fn accepts_exactly_what_the_parser_accepts() {
        let texts = [
            "1",
            "-0",
            "01",
            "1.",
            ".5",
            "-",
            "1.5e+3",
            "1e",
            "1e999",
            "--1",
            "+1",
            "0x1",
            "1,2",
            "1,,2",
            ",",
            "",
            "true",
            "tru",
            "nullx",
            "null",
            "\"a\"",
            "\"",
            "\"\\",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\x\"",
            "\"\n\"",
            "\"\u{7f}é\"",
            "{}",
            "{\"a\":1}",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "{,}",
            "[]",
            "[1,]",
            "[[],[{}]]",
            "[}",
            "{]",
            "[",
            "{\"a\":[{\"b\":[1,{}]}],\"c\":null}",
            " 1 ",
            "\u{a0}1",
            "[1 2]",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
        ];
        for text in texts {
            assert_eq!(accepts(text), parser_accepts(text), "{text:?}");
        }
    }

    #[test]
    fn nesting_works_beyond_one_word_of_bits() {
        for depth in [1, 63, 64, 65, 128, 129, 1000] {
            let mut text = String::new();
            let mut close = String::new();
            for level in 0..depth {
                text += if level % 3 == 0 { "{\"k\":" } else { "[" };
                close.insert(0, if level % 3 == 0 { '}' } else { ']' });
            }
            text += "1";
            assert!(accepts(&format!("{text}{close}")), "{depth}");
            let wrong = close.replacen('}', "]", 1);
            assert!(!accepts(&format!("{text}{wrong}")), "{depth}");
        }
    }

    #[test]
    fn a_plain_prefix_ends_at_the_first_special_byte() {
        for length in 0..100 {
            let plain = "x".repeat(length);
            for special in ["\"", "\\", "\n", "\u{0}"] {
                assert_eq!(
                    plain_prefix(format!("{plain}{special}tail").as_bytes()),
                    length
                );
            }
            assert_eq!(plain_prefix(plain.as_bytes()), length);
        }
    }

    proptest! {
        #[test]
        fn special_bytes_are_found_at_the_same_position_as_by_a_plain_search(bytes in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..120)) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(plain_prefix(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
            let end = |byte: &u8| *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(quote_or_backslash(&bytes), bytes.iter().position(end));
        }

        #[test]
        fn agrees_with_the_parser_on_almost_json(text in r#"([\[\]{},:" \\]|"[a-z\\u0-9]{0,4}"|-?[0-9]{1,3}|[.eE+-]|true|false|null){0,16}"#) {
            prop_assert_eq!(accepts(&text), parser_accepts(&text), "{}", text);
        }
    }
}
