//! The spellings in which programs repeat a secret: escapes of JSON, URLs and HTML in any mixture,
//! and Base64.

use std::borrow::Cow;

/// A text is unescaped this many times: JSON inside JSON, a URL inside a URL.
pub(super) const MAX_LAYERS: usize = 3;

/// The longest escape, `&equals;`, with room for the escapes of its own characters.
pub(super) const MAX_ESCAPE: usize = 12;

/// Shorter secrets are not searched for in Base64: they would be found everywhere.
const SHORTEST_IN_BASE64: usize = 6;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Named characters of HTML that occur in secrets.
const ENTITIES: [(&str, u8); 34] = [
    ("amp", b'&'),
    ("apos", b'\''),
    ("ast", b'*'),
    ("bsol", b'\\'),
    ("colon", b':'),
    ("comma", b','),
    ("commat", b'@'),
    ("dollar", b'$'),
    ("equals", b'='),
    ("excl", b'!'),
    ("grave", b'`'),
    ("gt", b'>'),
    ("Hat", b'^'),
    ("lbrace", b'{'),
    ("lbrack", b'['),
    ("lcub", b'{'),
    ("lowbar", b'_'),
    ("lpar", b'('),
    ("lsqb", b'['),
    ("lt", b'<'),
    ("num", b'#'),
    ("percnt", b'%'),
    ("period", b'.'),
    ("plus", b'+'),
    ("quest", b'?'),
    ("quot", b'"'),
    ("rbrace", b'}'),
    ("rbrack", b']'),
    ("rcub", b'}'),
    ("rpar", b')'),
    ("rsqb", b']'),
    ("semi", b';'),
    ("sol", b'/'),
    ("vert", b'|'),
];

/// Whether a text may contain an escape.
pub(super) fn may_have_escapes(text: &[u8]) -> bool {
    memchr::memchr3(b'%', b'\\', b'&', text).is_some()
}

/// A text without its escapes.
pub(super) struct Unescaped {
    pub(super) bytes: Vec<u8>,
    /// The offset in the original text of each byte, and of the end.
    offsets: Vec<usize>,
}

impl Unescaped {
    /// A text as it is.
    pub(super) fn new(text: &[u8]) -> Self {
        Self {
            bytes: text.to_vec(),
            offsets: (0..=text.len()).collect(),
        }
    }

    /// Removes one layer of escapes.
    pub(super) fn layer(&self) -> Self {
        let mut next = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            offsets: Vec::with_capacity(self.offsets.len()),
        };
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let (length, plain) = match escape(&self.bytes[at..]) {
                Some((length, c)) => (length, c),
                None => (1, Plain::Byte(*byte)),
            };
            match plain {
                Plain::Byte(byte) => next.bytes.push(byte),
                Plain::Char(c) => {
                    let encoded = c.encode_utf8(&mut [0; 4]).len();
                    next.bytes.resize(next.bytes.len() + encoded, 0);
                    let start = next.bytes.len() - encoded;
                    c.encode_utf8(&mut next.bytes[start..]);
                }
            }
            next.offsets.resize(next.bytes.len(), self.offsets[at]);
            at += length;
        }
        next.offsets.extend(self.offsets.last());
        next
    }

    /// The range of the original text from which these bytes come.
    pub(super) fn original(&self, start: usize, end: usize) -> std::ops::Range<usize> {
        self.offsets[start]..self.offsets[end]
    }
}

enum Plain {
    Byte(u8),
    Char(char),
}

/// The escape at the start of a text: its length and its meaning.
fn escape(text: &[u8]) -> Option<(usize, Plain)> {
    match text.first()? {
        b'%' => {
            let byte = hex(text.get(1..3)?)?;
            Some((3, Plain::Byte(u8::try_from(byte).ok()?)))
        }
        b'\\' => match text.get(1)? {
            b'u' => {
                let unit = hex(text.get(2..6)?)?;
                if let Some(c) = char::from_u32(unit) {
                    return Some((6, Plain::Char(c)));
                }
                let low = hex(text
                    .get(6..12)
                    .filter(|rest| rest.starts_with(b"\\u"))?
                    .get(2..)?)?;
                let units = [u16::try_from(unit).ok()?, u16::try_from(low).ok()?];
                let c = char::decode_utf16(units).next()?.ok()?;
                Some((12, Plain::Char(c)))
            }
            b'x' => {
                let byte = hex(text.get(2..4)?)?;
                Some((4, Plain::Byte(u8::try_from(byte).ok()?)))
            }
            b'n' => Some((2, Plain::Byte(b'\n'))),
            b'r' => Some((2, Plain::Byte(b'\r'))),
            b't' => Some((2, Plain::Byte(b'\t'))),
            escaped if escaped.is_ascii_punctuation() => Some((2, Plain::Byte(*escaped))),
            _ => None,
        },
        b'&' => {
            let name = &text[1..text.len().min(MAX_ESCAPE)];
            let name = &name[..memchr::memchr(b';', name)?];
            let plain = if let Some(number) = name.strip_prefix(b"#") {
                let number = std::str::from_utf8(number).ok()?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                Plain::Char(char::from_u32(code)?)
            } else {
                let known = ENTITIES.iter().find(|(known, _)| known.as_bytes() == name);
                Plain::Byte(known?.1)
            };
            Some((name.len() + 2, plain))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    // A sign is no digit.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

/// The Base64 of a secret within a longer text, in both alphabets: three strings each, by the
/// number of bytes before it modulo three. Characters that depend on the neighbours are left out.
pub(super) fn base64_parts(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST_IN_BASE64 {
        return Vec::new();
    }
    let mut parts = Vec::with_capacity(6);
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for alphabet in [STANDARD, URL_SAFE] {
            let part: String = (first..end)
                .map(|at| sextet(&bytes, at, alphabet))
                .collect();
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    parts
}

/// The character of Base64 at an index.
fn sextet(bytes: &[u8], index: usize, alphabet: &[u8; 64]) -> char {
    let bit = index * 6;
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or_default());
    let pair = byte(bit / 8) << 8 | byte(bit / 8 + 1);
    let value = pair >> (10 - bit % 8) & 63;
    char::from(alphabet[usize::from(value)])
}

/// Whether a byte belongs to Base64, in either alphabet.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)
}

/// A secret as escaped in a JSON string.
pub(super) fn json_escaped(secret: &str) -> String {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

/// A secret as written by a form, where a space is a plus sign.
pub(super) fn form_spaces(secret: &str) -> Cow<'_, str> {
    if secret.contains(' ') {
        secret.replace(' ', "+").into()
    } else {
        secret.into()
    }
}
