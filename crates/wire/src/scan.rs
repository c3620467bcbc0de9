//! A scanner for validated JSON, about as fast as finding quotes and brackets.
//!
//! A message is validated once, when its envelope is decoded. Later readers of its payload trust
//! the structure and only need to know where values start and end: [`members`] and [`elements`]
//! visit the children of one value, [`Tokens`] everything at any depth. Nothing here recurses, and
//! only the decoding of escapes allocates.
//!
//! A scan of text that is not valid JSON ends early. It never panics; see the fuzz target.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use crate::check::quote_or_backslash;
use crate::json::decode_string;

/// Calls `visit` with the decoded key and the raw value of each member, in order. Returns false if
/// `text` is not an object.
///
/// ```
/// let mut found = Vec::new();
/// trunkline_wire::scan::members(r#"{"a": [1, 2], "b": "x"}"#, |key, value| {
///     found.push(format!("{key}={value}"));
/// });
/// assert_eq!(found, ["a=[1, 2]", r#"b="x""#]);
/// ```
pub fn members<'a>(text: &'a str, mut visit: impl FnMut(&str, &'a str)) -> bool {
    let mut scanner = Scanner { text, at: 0 };
    scanner.members(|scanner, key| {
        let value = scanner.value();
        if !value.is_empty() {
            visit(key, value);
        }
        !value.is_empty()
    })
}

/// Calls `visit` with the raw text of each element, in order. Returns false if `text` is not an
/// array.
pub fn elements<'a>(text: &'a str, mut visit: impl FnMut(&'a str)) -> bool {
    Scanner { text, at: 0 }.elements(&mut visit)
}

/// Like [`members`], but visits the elements of the member `list`, which is most of the text, in
/// the same pass. Also returns whether `list` is present and an array. If it is not an array, or is
/// repeated, it is visited as a member.
pub(crate) fn members_and_list<'a>(
    text: &'a str,
    list: &str,
    mut visit: impl FnMut(&str, &'a str),
    mut element: impl FnMut(&'a str),
) -> (bool, Option<bool>) {
    let mut found = None;
    let mut scanner = Scanner { text, at: 0 };
    let object = scanner.members(|scanner, key| {
        if key == list && found.is_none() {
            let array = scanner.elements(&mut element);
            found = Some(array);
            if array {
                return true;
            }
        }
        let value = scanner.value();
        if !value.is_empty() {
            visit(key, value);
        }
        !value.is_empty()
    });
    (object, found)
}

/// Returns whether the text has more than `limit` values at any depth, keys included. Reads no more
/// of it than needed; a short text is not read at all.
///
/// ```
/// use trunkline_wire::scan::has_more_values;
///
/// assert!(has_more_values(r#"{"a": [1, 2]}"#, 4));
/// assert!(!has_more_values(r#"{"a": [1, 2]}"#, 5));
/// ```
pub fn has_more_values(text: &str, limit: usize) -> bool {
    // Each value takes a byte, and another to separate it or to close it.
    text.len() / 2 >= limit && count_values(text, limit + 1) > limit
}

/// Counts the values at any depth, keys included, and stops at `limit`.
pub fn count_values(text: &str, limit: usize) -> usize {
    let is_value = |token: &Token| {
        !matches!(
            token,
            Token::ObjectEnd | Token::ArrayEnd | Token::Colon | Token::Comma
        )
    };
    Tokens::new(text).filter(is_value).take(limit).count()
}

/// Decodes a string, given with its quotes. Returns an empty string for any other value.
pub fn unquote(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        Some(inner) if memchr(b'\\', inner.as_bytes()).is_none() => Cow::Borrowed(inner),
        _ => Cow::Owned(decode_string(raw)),
    }
}

/// A token. Strings and scalars are raw text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// The key of a member, with its quotes.
    Key(&'a str),
    /// A string value, with its quotes.
    String(&'a str),
    /// A number, `true`, `false` or `null`.
    Scalar(&'a str),
}

/// The tokens of a text, in order. Ends at an unterminated string.
///
/// ```
/// use trunkline_wire::scan::{Token, Tokens};
///
/// let keys = Tokens::new(r#"{"a": {"b": "c"}}"#).filter(|token| matches!(token, Token::Key(_)));
/// assert_eq!(keys.collect::<Vec<_>>(), [Token::Key("\"a\""), Token::Key("\"b\"")]);
/// ```
#[derive(Clone)]
pub struct Tokens<'a>(Scanner<'a>);

impl<'a> Tokens<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a str) -> Self {
        Self(Scanner { text, at: 0 })
    }

    /// Returns the text after the last token.
    pub fn rest(&self) -> &'a str {
        self.0.text.get(self.0.at..).unwrap_or_default()
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let scanner = &mut self.0;
        let first = scanner.peek()?;
        let start = scanner.at;
        let punctuation = match first {
            b'{' => Token::ObjectStart,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayStart,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => {
                if !scanner.skip_string() {
                    scanner.at = start;
                    return None;
                }
                let raw = scanner.text.get(start..scanner.at)?;
                return Some(if scanner.is_before_colon() {
                    Token::Key(raw)
                } else {
                    Token::String(raw)
                });
            }
            _ => {
                scanner.skip_scalar();
                return scanner.text.get(start..scanner.at).map(Token::Scalar);
            }
        };
        scanner.at += 1;
        Some(punctuation)
    }
}

#[derive(Clone)]
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Calls `member` with each key, positioned at the value. `member` skips the value, or returns
    /// false to stop.
    fn members(&mut self, mut member: impl FnMut(&mut Self, &str) -> bool) -> bool {
        if !self.eat(b'{') {
            return false;
        }
        while self.peek() == Some(b'"') {
            let key = self.value();
            self.eat(b':');
            if !member(self, &unquote(key)) {
                break;
            }
            self.eat(b',');
        }
        true
    }

    /// Skips an array and calls `visit` with each element. Returns false, without moving, if the
    /// next value is not an array.
    fn elements(&mut self, visit: &mut impl FnMut(&'a str)) -> bool {
        if !self.eat(b'[') {
            return false;
        }
        while self.peek().is_some_and(|next| next != b']') {
            let value = self.value();
            if value.is_empty() {
                return true;
            }
            visit(value);
            self.eat(b',');
        }
        self.eat(b']');
        true
    }

    /// Skips whitespace and returns the next byte.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = rest.iter().take_while(|byte| is_whitespace(**byte)).count();
        self.at += blank;
        rest.get(blank).copied()
    }

    #[inline]
    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips the next value and returns its raw text, which is empty if there is none.
    fn value(&mut self) -> &'a str {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => {
                self.skip_string();
            }
            Some(b'{' | b'[') => self.skip_container(),
            Some(b'}' | b']' | b',' | b':') | None => {}
            Some(_) => self.skip_scalar(),
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Skips a string. Returns false, at the end of the text, if it is unterminated.
    fn skip_string(&mut self) -> bool {
        self.at += 1;
        let rest = self.rest();
        let Some(first) = quote_or_backslash(rest) else {
            self.at = self.text.len();
            return false;
        };
        if rest.get(first) == Some(&b'"') {
            self.at += first + 1;
            return true;
        }
        // From here on, search for quotes only, because most escapes are of other characters. A
        // quote is escaped if an odd number of backslashes precedes it.
        let rest = &rest[first..];
        for quote in memchr_iter(b'"', rest) {
            let before = rest[..quote].iter().rev();
            if before.take_while(|byte| **byte == b'\\').count() % 2 == 0 {
                self.at += first + quote + 1;
                return true;
            }
        }
        self.at = self.text.len();
        false
    }

    /// Skips an object or array, from its opening bracket.
    fn skip_container(&mut self) {
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            let Some(offset) = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))
            else {
                self.at = self.text.len();
                return;
            };
            self.at += offset;
            match rest.get(offset) {
                Some(b'"') => {
                    self.skip_string();
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                _ => depth -= 1,
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips a number, `true`, `false` or `null`.
    fn skip_scalar(&mut self) {
        let is_part = |byte: &u8| {
            !matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[') && !is_whitespace(*byte)
        };
        self.at += self.rest().iter().take_while(|byte| is_part(byte)).count();
    }

    fn is_before_colon(&self) -> bool {
        let mut rest = self.rest().iter();
        rest.find(|byte| !is_whitespace(**byte)) == Some(&b':')
    }
}

fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn member_list(text: &str) -> Vec<(String, String)> {
        let mut list = Vec::new();
        members(text, |key, value| {
            list.push((key.to_owned(), value.to_owned()));
        });
        list
    }

    #[test]
    fn members_are_visited_with_their_raw_values() {
        let text = r#" { "a" : 1 , "b\n":"x\"},{", "c":[{"d":"]"}], "e":{"f":{}} ,"g":null} "#;
        let expected = [
            ("a", "1"),
            ("b\n", r#""x\"},{""#),
            ("c", r#"[{"d":"]"}]"#),
            ("e", r#"{"f":{}}"#),
            ("g", "null"),
        ];
        let expected: Vec<_> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(member_list(text), expected);
        assert!(member_list("{}").is_empty());
        assert!(!members("[]", |_, _| {}));
    }

    #[test]
    fn elements_are_visited_raw() {
        let mut list = Vec::new();
        assert!(elements(
            r#" [1, "a,]" ,[2,[3]],{"x":[]},true] "#,
            |value| list.push(value)
        ));
        assert_eq!(list, ["1", r#""a,]""#, "[2,[3]]", r#"{"x":[]}"#, "true"]);
        assert!(elements("[]", |_| panic!("an empty array has no elements")));
        assert!(!elements("{}", |_| {}));
    }

    #[test]
    fn a_list_among_members_is_visited_in_the_same_pass() {
        let scanner = |text: &str| {
            let (mut others, mut entries) = (Vec::new(), Vec::new());
            let other = |key: &str, value: &str| others.push(format!("{key}={value}"));
            let found = members_and_list(text, "l", other, |entry| entries.push(entry.to_owned()));
            (found, others.join(" "), entries.join(" "))
        };
        let cases = [
            (
                r#"{"a":1,"l":[1, {"l":[]} ],"b":2}"#,
                ((true, Some(true)), "a=1 b=2", r#"1 {"l":[]}"#),
            ),
            (
                r#"{"l":{"x":1},"b":2}"#,
                ((true, Some(false)), r#"l={"x":1} b=2"#, ""),
            ),
            (r#"{"l":[1],"l":[2]}"#, ((true, Some(true)), "l=[2]", "1")),
            (r#"{"b":2}"#, ((true, None), "b=2", "")),
            ("[]", ((false, None), "", "")),
        ];
        for (text, (found, others, entries)) in cases {
            assert_eq!(
                scanner(text),
                (found, others.to_owned(), entries.to_owned()),
                "{text}"
            );
        }
    }

    fn raw(token: Token<'_>) -> &str {
        match token {
            Token::ObjectStart => "{",
            Token::ObjectEnd => "}",
            Token::ArrayStart => "[",
            Token::ArrayEnd => "]",
            Token::Colon => ":",
            Token::Comma => ",",
            Token::Key(raw) | Token::String(raw) | Token::Scalar(raw) => raw,
        }
    }

    #[test]
    fn tokens_tell_keys_from_strings_and_end_at_an_unterminated_string() {
        let mut tokens = Tokens::new(r#" {"a\"" : "b:", "c":[-1.5e3,null]} "open\""#);
        let expected = [
            Token::ObjectStart,
            Token::Key(r#""a\"""#),
            Token::Colon,
            Token::String(r#""b:""#),
            Token::Comma,
            Token::Key(r#""c""#),
            Token::Colon,
            Token::ArrayStart,
            Token::Scalar("-1.5e3"),
            Token::Comma,
            Token::Scalar("null"),
            Token::ArrayEnd,
            Token::ObjectEnd,
        ];
        assert_eq!(tokens.by_ref().collect::<Vec<_>>(), expected);
        assert_eq!(tokens.rest(), r#""open\""#);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_scan_agrees_with_the_parser(value in any_json(), pretty: bool) {
            let text = if pretty {
                serde_json::to_string_pretty(&value)
            } else {
                serde_json::to_string(&value)
            };
            let text = text.unwrap();
            let parse = |raw: &str| serde_json::from_str::<Value>(raw).unwrap();
            let mut found = serde_json::Map::new();
            if members(&text, |key, raw| { found.insert(key.to_owned(), parse(raw)); }) {
                prop_assert_eq!(&value, &Value::Object(found));
            }
            let mut found = Vec::new();
            if elements(&text, |raw| found.push(parse(raw))) {
                prop_assert_eq!(&value, &Value::Array(found));
            }
        }

        #[test]
        fn a_scan_of_any_text_terminates(text in ".{0,80}", prefix in "[\\[{]?") {
            let text = prefix + &text;
            members(&text, |_, _| {});
            elements(&text, |_| {});
            let mut tokens = Tokens::new(&text);
            while tokens.next().is_some() {}
            prop_assert!(tokens.next().is_none());
        }

        #[test]
        fn tokens_join_to_the_text_without_whitespace(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let joined: String = Tokens::new(&pretty).map(raw).collect();
            prop_assert_eq!(joined, value.to_string());
        }
    }
}
