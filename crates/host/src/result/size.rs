//! The size of text for a model (RES-4).
//!
//! Tokens are estimated: four ASCII characters count as one token, two characters with two bytes
//! (accented Latin, Greek, Cyrillic, Hebrew, Arabic) as one, and every other character (Chinese,
//! Japanese, Korean, emoji) as one.

/// The size of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) chars: u64,
    /// Line feeds.
    pub(super) lines: u64,
    /// Quarters of a token.
    quarters: u64,
}

impl Size {
    pub(super) fn of(text: &str) -> Self {
        let mut size = Self::default();
        size.add(text);
        size
    }

    /// Adds a chunk of the text.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        self.bytes += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if text.is_ascii() {
            self.chars += bytes.len() as u64;
            self.quarters += bytes.len() as u64;
            return;
        }
        // In blocks whose counts fit into a byte, so that the compiler can vectorize the loop.
        for block in bytes.chunks(32) {
            let (mut chars, mut quarters) = (0_u8, 0_u8);
            for byte in block {
                let goes_on = byte & 0xc0 == 0x80;
                chars += u8::from(!goes_on);
                quarters += match byte {
                    0..0x80 => 1,
                    0x80..0xc0 => 0,
                    0xc0..0xe0 => 2,
                    0xe0.. => 4,
                };
            }
            self.chars += u64::from(chars);
            self.quarters += u64::from(quarters);
        }
    }

    /// Adds another text.
    pub(super) fn join(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.chars += other.chars;
        self.lines += other.lines;
        self.quarters += other.quarters;
    }

    /// Returns the estimated number of tokens.
    pub(super) fn tokens(&self) -> u64 {
        self.quarters.div_ceil(4)
    }
}

/// The maximum size of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) chars: u64,
    pub(super) tokens: u64,
}

impl Limit {
    pub(super) fn allows(&self, size: &Size) -> bool {
        size.chars <= self.chars && size.tokens() <= self.tokens
    }

    /// True if any text of so many bytes fits: a byte is at most a third of a token.
    pub(super) fn allows_any(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        bytes <= self.chars && bytes.div_ceil(3) <= self.tokens
    }

    /// Returns the beginning of `text` that fits after `there`, and adds it to that.
    pub(super) fn cut<'t>(&self, text: &'t str, there: &mut Size) -> &'t str {
        let mut end = 0;
        for (at, c) in text.char_indices() {
            let mut next = *there;
            next.add(c.encode_utf8(&mut [0; 4]));
            if !self.allows(&next) {
                break;
            }
            *there = next;
            end = at + c.len_utf8();
        }
        &text[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_in_characters_tokens_and_lines() {
        let cases = [
            ("", (0, 0, 0, 0)),
            ("abcd", (4, 4, 1, 0)),
            ("abcde", (5, 5, 2, 0)),
            ("a\nb\n", (4, 4, 1, 2)),
            ("éé", (4, 2, 1, 0)),
            ("жжж", (6, 3, 2, 0)),
            ("中文", (6, 2, 2, 0)),
            ("😀", (4, 1, 1, 0)),
            ("ab中\n", (6, 4, 2, 1)),
        ];
        for (text, (bytes, chars, tokens, lines)) in cases {
            let size = Size::of(text);
            assert_eq!(
                (size.bytes, size.chars, size.tokens(), size.lines),
                (bytes, chars, tokens, lines),
                "{text:?}"
            );
        }
    }

    #[test]
    fn it_does_not_matter_in_which_pieces_a_text_is_counted() {
        let text = "plain, é, 中文, 😀\n".repeat(50);
        let mut size = Size::default();
        text.chars()
            .for_each(|c| size.add(c.encode_utf8(&mut [0; 4])));
        assert_eq!(size, Size::of(&text));
        assert_eq!(size.chars, text.chars().count() as u64);
    }

    #[test]
    fn what_any_text_of_that_length_may_be_is_allowed() {
        let limit = Limit {
            chars: 100,
            tokens: 25,
        };
        assert!(limit.allows_any(75) && !limit.allows_any(76));
        assert!(limit.allows(&Size::of(&"中".repeat(25))));
        assert!(!limit.allows(&Size::of(&"中".repeat(26))));
        assert!(limit.allows(&Size::of(&"a".repeat(100))));
        assert!(!limit.allows(&Size::of(&"a".repeat(101))));
    }

    #[test]
    fn a_cut_is_between_characters() {
        let limit = Limit {
            chars: 5,
            tokens: 3,
        };
        let cut = |texts: &[&'static str]| {
            let mut there = Size::default();
            let cut = |text: &&'static str| limit.cut(text, &mut there);
            texts.iter().map(cut).collect::<Vec<_>>().join("|")
        };
        assert_eq!(cut(&["abcdefg"]), "abcde");
        assert_eq!(cut(&["中文中文"]), "中文中");
        assert_eq!(cut(&["a中bcde中"]), "a中bcd");
        assert_eq!(cut(&["abc", "defg", "h"]), "abc|de|");
    }
}
