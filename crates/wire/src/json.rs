//! JSON values kept as the text in which they arrived.

use std::fmt;

use bytestring::ByteString;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::check::plain_prefix;
use crate::{scan, unescape};

/// The maximum number of values in a tree and of elements in a list (SEC-4): two bytes of text
/// become up to a hundred in memory.
pub const MAX_VALUES: usize = 500_000;

/// The text of one JSON value, validated once, then shared and sliced without copies.
///
/// ```
/// use trunkline_wire::Json;
///
/// let json = Json::parse(r#"{"a": [1, 2]}"#)?;
/// assert_eq!(json.as_str(), r#"{"a": [1, 2]}"#);
/// assert_eq!(json.get("a").unwrap().as_str(), "[1, 2]");
/// # Ok::<(), trunkline_wire::InvalidJson>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(ByteString);

/// The error for text that is not valid JSON.
#[derive(Debug, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct InvalidJson(#[from] serde_json::Error);

impl Json {
    /// Parses one JSON value and keeps its text.
    pub fn parse(text: impl Into<ByteString>) -> Result<Self, InvalidJson> {
        let text = text.into();
        let trimmed = serde_json::from_str::<&RawValue>(&text)?.get();
        Ok(Self(text.slice_ref(trimmed)))
    }

    /// Serializes a value to JSON text.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidJson> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// Returns the empty object.
    pub fn empty_object() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self(ByteString::from_static("null"))
    }

    /// Wraps text that a JSON parser has accepted or that [`ObjectWriter`] has written.
    pub(crate) fn from_checked(text: impl Into<ByteString>) -> Self {
        Self(text.into())
    }

    /// Returns `part`, which must be a slice of this text, sharing its memory.
    fn share(&self, part: &str) -> Self {
        Self(self.0.slice_ref(part))
    }

    /// Copies the text, so that the message it belongs to can be freed.
    pub(crate) fn to_unshared(&self) -> Self {
        Self(self.as_str().to_owned().into())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the JSON text, sharing its memory.
    pub fn to_text(&self) -> ByteString {
        self.0.clone()
    }

    /// Deserializes the value. More than [`MAX_VALUES`] values, keys included, are an error.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, InvalidJson> {
        if scan::has_more_values(&self.0, MAX_VALUES) {
            let error = format!("it has more than {MAX_VALUES} values");
            return Err(InvalidJson(serde::de::Error::custom(error)));
        }
        Ok(serde_json::from_str(&self.0)?)
    }

    /// Parses the value into a tree. Nesting deeper than 128 levels is an error, and so are more
    /// than [`MAX_VALUES`] values.
    pub fn to_value(&self) -> Result<serde_json::Value, InvalidJson> {
        self.decode()
    }

    /// Returns the member `key` of an object. The last one wins if the key is repeated.
    pub fn get(&self, key: &str) -> Option<Self> {
        let mut found = None;
        scan::members(&self.0, |name, value| {
            if name == key {
                found = Some(value);
            }
        });
        found.map(|value| self.share(value))
    }

    /// Deserializes the member `key`. Returns `None` if it is absent or has another type.
    pub fn field<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.get(key)?.decode().ok()
    }

    /// Calls `visit` with the key and value of each member, in order. Returns false if this is not
    /// an object.
    pub fn members(&self, mut visit: impl FnMut(&str, Self)) -> bool {
        scan::members(&self.0, |key, value| visit(key, self.share(value)))
    }

    /// Calls `visit` with each element, in order. Returns false if this is not an array.
    pub fn elements(&self, mut visit: impl FnMut(Self)) -> bool {
        scan::elements(&self.0, |element| visit(self.share(element)))
    }

    /// Calls `element` for each element of the member `list`, and `visit` for every other member.
    /// Returns whether this is an object, and whether `list` is present and an array. `visit` also
    /// gets `list` if it is not an array, and any repetition of it.
    pub(crate) fn members_and_list(
        &self,
        list: &str,
        mut visit: impl FnMut(&str, Self),
        mut element: impl FnMut(Self),
    ) -> (bool, Option<bool>) {
        scan::members_and_list(
            &self.0,
            list,
            |key, value| visit(key, self.share(value)),
            |value| element(self.share(value)),
        )
    }

    /// Returns the elements of an array of at most [`MAX_VALUES`] elements.
    pub fn to_elements(&self) -> Option<Vec<Self>> {
        let (mut elements, mut count) = (Vec::new(), 0_usize);
        let is_list = self.elements(|element| {
            count += 1;
            if count <= MAX_VALUES {
                elements.push(element);
            }
        });
        (is_list && count <= MAX_VALUES).then_some(elements)
    }

    /// Returns true for `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Returns true for an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Returns a string value. It shares memory unless the string has escapes.
    pub fn as_string(&self) -> Option<ByteString> {
        decode_string_in(&self.0, self.as_str())
    }

    /// Calls `visit` with a string value in decoded chunks, without holding a decoded copy in
    /// memory. Stops at the first error. Returns false if this is not a string.
    pub fn string_chunks<E>(&self, visit: impl FnMut(&str) -> Result<(), E>) -> Result<bool, E> {
        match strip_quotes(self.as_str()) {
            Some(inner) => unescape::chunks(inner, visit).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Returns the text between the quotes of a string.
fn strip_quotes(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// Decodes a string with escapes. A lone surrogate, which some servers leave when they truncate
/// text, becomes U+FFFD.
pub(crate) fn decode_string(raw: &str) -> String {
    if let Ok(text) = serde_json::from_str(raw) {
        return text;
    }
    serde_json::from_str::<LossyString>(raw)
        .map(|text| text.0)
        .unwrap_or_default()
}

/// A string decoded through `deserialize_bytes`, which accepts lone surrogates.
struct LossyString(String);

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                let mut text = String::with_capacity(bytes.len());
                for chunk in bytes.utf8_chunks() {
                    text.push_str(chunk.valid());
                    // The three bytes of a lone surrogate arrive as three chunks.
                    let continues = chunk.valid().is_empty() && text.ends_with('\u{fffd}');
                    if !chunk.invalid().is_empty() && !continues {
                        text.push('\u{fffd}');
                    }
                }
                Ok(LossyString(text))
            }
        }

        deserializer.deserialize_bytes(Reader)
    }
}

/// Decodes the string `raw`, a slice of `whole`. Returns `None` if it is not a string.
pub(crate) fn decode_string_in(whole: &ByteString, raw: &str) -> Option<ByteString> {
    let inner = strip_quotes(raw)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_some() {
        Some(decode_string(raw).into())
    } else {
        Some(whole.slice_ref(inner))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(String::from(Box::<str>::from(raw)).into()))
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        let mut text = String::with_capacity(128);
        push_value(&mut text, value);
        Self(text.into())
    }
}

/// Appends a tree. Arguments arrive as trees; this is several times faster than `Display`.
fn push_value(out: &mut String, value: &serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => out.push_str(itoa::Buffer::new().format(integer)),
            None => out.push_str(&number.to_string()),
        },
        Value::String(text) => push_string(out, text),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_value(out, element);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_string(out, key);
                out.push(':');
                push_value(out, value);
            }
            out.push('}');
        }
    }
}

/// Writes a JSON object member by member, without an intermediate tree.
///
/// ```
/// use trunkline_wire::{Json, ObjectWriter};
///
/// let mut object = ObjectWriter::new();
/// object.string("name", "a \"quoted\" word").raw("arguments", &Json::empty_object());
/// assert_eq!(object.finish().as_str(), r#"{"name":"a \"quoted\" word","arguments":{}}"#);
/// ```
pub struct ObjectWriter {
    text: String,
}

impl Default for ObjectWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ObjectWriter {
    /// Creates an object without members.
    pub fn new() -> Self {
        Self::with_capacity(64)
    }

    /// Creates an object with capacity for about `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        Self { text }
    }

    /// Adds a string member.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        push_string(&mut self.text, value);
        self
    }

    /// Adds an integer member.
    pub fn integer(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        self.text.push_str(itoa::Buffer::new().format(value));
        self
    }

    /// Adds a member with a JSON value.
    pub fn raw(&mut self, key: &str, value: &Json) -> &mut Self {
        self.key(key);
        self.text.push_str(value.as_str());
        self
    }

    /// Adds a member from a tree.
    pub fn value(&mut self, key: &str, value: &serde_json::Value) -> &mut Self {
        self.key(key);
        push_value(&mut self.text, value);
        self
    }

    /// Adds an object member. `write` adds its members.
    pub fn object(&mut self, key: &str, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key);
        self.text.push('{');
        write(self);
        self.text.push('}');
        self
    }

    /// Adds members prepared by [`ObjectWriter::into_fragment`], such as `"a":1,"b":2`.
    pub(crate) fn fragment(&mut self, members: &str) -> &mut Self {
        if !members.is_empty() {
            self.comma();
            self.text.push_str(members);
        }
        self
    }

    /// Returns the members without the braces, for [`ObjectWriter::fragment`].
    pub(crate) fn into_fragment(mut self) -> String {
        self.text.remove(0);
        self.text
    }

    /// Returns the finished object.
    pub fn finish(mut self) -> Json {
        self.text.push('}');
        Json::from_checked(self.text)
    }

    fn comma(&mut self) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        push_string(&mut self.text, key);
        self.text.push(':');
    }
}

/// Appends `value` as a JSON string.
pub(crate) fn push_string(out: &mut String, value: &str) {
    if plain_prefix(value.as_bytes()) == value.len() {
        out.reserve(value.len() + 2);
        out.push('"');
        out.push_str(value);
        out.push('"');
    } else {
        // Serializing a string cannot fail; an empty string would still be valid JSON.
        out.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "\"\"".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_unescaped_key_and_the_last_wins() {
        let cases = [
            (r#"{"a":1}"#, Some("1")),
            (r#"{"\u0061":2}"#, Some("2")),
            (r#"{"a":1,"a":3}"#, Some("3")),
            (r#"{"b":{"a":1}}"#, None),
            ("[1]", None),
            (r#""a""#, None),
        ];
        for (text, expected) in cases {
            let found = Json::parse(text).unwrap().get("a");
            assert_eq!(found.as_ref().map(Json::as_str), expected, "{text}");
        }
    }

    #[test]
    fn a_string_without_escapes_is_shared_and_one_with_escapes_is_decoded() {
        let plain = Json::parse(r#""plain""#).unwrap();
        assert_eq!(
            plain.as_string().unwrap().as_ptr(),
            plain.as_str()[1..].as_ptr()
        );
        let escaped = Json::parse(r#""a\n\u00e9""#).unwrap();
        assert_eq!(&*escaped.as_string().unwrap(), "a\né");
        assert_eq!(Json::parse("1").unwrap().as_string(), None);
    }

    #[test]
    fn a_lone_surrogate_becomes_one_replacement_character() {
        let cases = [
            (r#""cut \ud83d""#, "cut \u{fffd}"),
            (r#""\udc00 é\n""#, "\u{fffd} é\n"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
        ];
        for (text, expected) in cases {
            assert_eq!(
                &*Json::parse(text).unwrap().as_string().unwrap(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn parse_rejects_anything_but_one_value() {
        for text in ["", "{", "1 2", "{}x", "nul"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert_eq!(Json::parse(" [1] ").unwrap().as_str(), "[1]");
    }

    #[test]
    fn a_tree_is_written_as_serde_json_writes_it() {
        let value = serde_json::json!({
            "a\"": [null, true, false, 0, -5, u64::MAX, 1.5, 1e300, "", "x\ny", "é".repeat(100), {}, []],
            "long": format!("{}\\", "x".repeat(200)),
        });
        assert_eq!(Json::from(&value).as_str(), value.to_string());
    }

    #[test]
    fn the_writer_escapes_keys_and_strings() {
        let mut object = ObjectWriter::new();
        object.string("q\"", "line\n\u{1}").integer("n", 7);
        object.fragment("").fragment(r#""x":null"#);
        let json = object.finish();
        let value: serde_json::Value = serde_json::from_str(json.as_str()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"q\"": "line\n\u{1}", "n": 7, "x": null})
        );
    }
}
