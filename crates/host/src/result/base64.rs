//! Decodes Base64 in chunks: with or without line breaks and padding, in either alphabet, and after
//! a `data:…,` prefix.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, DecodeSliceError, Engine};
use trunkline_wire::Json;

/// The chunk size; a multiple of four.
const CHUNK: usize = 64 * 1024;

/// Longer than any MIME type with its parameters.
const MAX_PREFIX: usize = 256;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The error of decoding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Base64Error<E> {
    /// The input is not Base64; with the reason.
    Broken(String),
    /// The sink failed.
    Sink(E),
}

/// Calls `sink` with the data of a JSON string, in order; all chunks but the last have the same
/// length.
pub(super) fn decode<E>(
    data: &Json,
    sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Base64Error<E>> {
    let mut decoder = Decoder {
        sink,
        prefix: Prefix::Unknown,
        buffer: Vec::with_capacity(CHUNK.min(data.as_str().len())),
        out: Vec::new(),
        decoded: 0,
        ended: false,
    };
    let is_string = data.string_chunks(|piece| decoder.text(piece))?;
    if !is_string {
        return Err(Base64Error::Broken("it is not a text".to_owned()));
    }
    decoder.flush()
}

/// Decodes all data of a JSON string.
pub(super) fn decode_whole(data: &Json) -> Result<Vec<u8>, String> {
    let mut whole = Vec::with_capacity(data.as_str().len() / 4 * 3);
    let decoded = decode(data, |piece| {
        whole.extend_from_slice(piece);
        Ok::<_, std::convert::Infallible>(())
    });
    match decoded {
        Ok(()) => Ok(whole),
        Err(Base64Error::Broken(why)) => Err(why),
        Err(Base64Error::Sink(never)) => match never {},
    }
}

/// Encodes data.
pub(super) fn encode(data: &[u8]) -> String {
    LENIENT.encode(data)
}

/// Returns the length of so many bytes in Base64.
pub(super) fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// The state of the `data:` prefix.
enum Prefix {
    /// No input yet.
    Unknown,
    /// Inside the prefix, after so many characters.
    Inside(usize),
    Over,
}

struct Decoder<S> {
    sink: S,
    prefix: Prefix,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// The number of characters decoded, for messages.
    decoded: usize,
    /// There was padding: nothing may follow.
    ended: bool,
}

impl<E, S: FnMut(&[u8]) -> Result<(), E>> Decoder<S> {
    fn text(&mut self, piece: &str) -> Result<(), Base64Error<E>> {
        let mut rest = self.behind_prefix(piece)?.as_bytes();
        while !rest.is_empty() {
            let room = CHUNK - self.buffer.len();
            let (now, later) = rest.split_at(rest.len().min(room));
            // No branch per byte, so that the compiler can vectorize the loop.
            if now
                .iter()
                .fold(0, |any, byte| any | u8::from(*byte <= b' '))
                != 0
            {
                let solid = now.iter().filter(|byte| !byte.is_ascii_whitespace());
                self.buffer.extend(solid);
            } else {
                self.buffer.extend_from_slice(now);
            }
            if self.buffer.len() == CHUNK {
                self.flush()?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Returns the part of a chunk after the prefix.
    fn behind_prefix<'p>(&mut self, piece: &'p str) -> Result<&'p str, Base64Error<E>> {
        if let Prefix::Unknown = self.prefix {
            self.prefix = if piece.starts_with("data:") {
                Prefix::Inside(0)
            } else {
                Prefix::Over
            };
        }
        let Prefix::Inside(seen) = self.prefix else {
            return Ok(piece);
        };
        if let Some((_, data)) = piece.split_once(',') {
            self.prefix = Prefix::Over;
            return Ok(data);
        }
        let seen = seen + piece.len();
        if seen > MAX_PREFIX {
            return Err(Base64Error::Broken(
                "it begins like a data URL without data".to_owned(),
            ));
        }
        self.prefix = Prefix::Inside(seen);
        Ok("")
    }

    fn flush(&mut self) -> Result<(), Base64Error<E>> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.ended {
            return Err(Base64Error::Broken(format!(
                "something follows its end at character {}",
                self.decoded
            )));
        }
        if let Some(first) = memchr::memchr2(b'-', b'_', &self.buffer) {
            for byte in &mut self.buffer[first..] {
                match byte {
                    b'-' => *byte = b'+',
                    b'_' => *byte = b'/',
                    _ => {}
                }
            }
        }
        self.ended = self.buffer.last() == Some(&b'=');
        self.out.resize(CHUNK / 4 * 3, 0);
        let length = LENIENT
            .decode_slice(&self.buffer, &mut self.out)
            .map_err(|error| Base64Error::Broken(self.explain(&error)))?;
        self.decoded += self.buffer.len();
        self.buffer.clear();
        (self.sink)(&self.out[..length]).map_err(Base64Error::Sink)
    }

    fn explain(&self, error: &DecodeSliceError) -> String {
        match error {
            DecodeSliceError::DecodeError(DecodeError::InvalidByte(at, byte)) => {
                let shown = char::from(*byte).escape_default();
                format!("character {} is '{shown}'", self.decoded + at + 1)
            }
            _ => "it ends in the middle".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Vec<u8>, String> {
        decode_whole(&Json::from(serde_json::json!(text)))
    }

    #[test]
    fn base64_is_read_however_it_is_written() {
        let cases = [
            ("", ""),
            ("aGVsbG8=", "hello"),
            ("aGVsbG8", "hello"),
            ("aGVs\nbG8=\n", "hello"),
            (" aGVs bG8= ", "hello"),
            ("Pz8/Pz8+", "?????>"),
            ("Pz8_Pz8-", "?????>"),
            ("data:text/plain;base64,aGVsbG8=", "hello"),
        ];
        for (text, expected) in cases {
            assert_eq!(decoded(text).unwrap(), expected.as_bytes(), "{text}");
        }
        let slash = Json::parse(r#""data:text\/plain;base64,Pz8\/\u0050z8+""#).unwrap();
        assert_eq!(decode_whole(&slash).unwrap(), b"?????>");
    }

    #[test]
    fn what_is_not_base64_is_refused_with_the_place() {
        let many = "A".repeat(CHUNK);
        let cases = [
            ("not base64!".to_owned(), "character 10 is '!'"),
            ("aGVsbG8=aGVs".to_owned(), "character 8 is '='"),
            ("aGVsb".to_owned(), "it ends in the middle"),
            (format!("{many}é"), "character 65537 is '\\u{c3}'"),
            (
                format!("{}=AAAA", &many[1..]),
                "something follows its end at character 65536",
            ),
            (
                format!("data:{}", "x".repeat(300)),
                "it begins like a data URL without data",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(decoded(&text).unwrap_err(), expected, "{text:.40}");
        }
        let number = decode_whole(&Json::parse("7").unwrap());
        assert_eq!(number.unwrap_err(), "it is not a text");
    }

    #[test]
    fn large_data_comes_in_pieces_and_whole() {
        let data: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let text = Json::from(serde_json::json!(encode(&data)));
        assert_eq!(text.as_str().len(), encoded_len(data.len()) + 2);
        let mut pieces = Vec::new();
        let decoded = decode(&text, |piece| {
            pieces.push(piece.to_vec());
            Ok::<_, ()>(())
        });
        assert_eq!(decoded, Ok(()));
        assert!(pieces.len() > 3 && pieces.concat() == data);
        let refused = decode(&text, |_| Err("full"));
        assert_eq!(refused, Err(Base64Error::Sink("full")));
    }
}
