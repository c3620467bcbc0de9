//! Walks through JSON that a parser has accepted, at the speed of finding quotes and brackets.
//!
//! The envelope checks a message once, whole; what looks into a payload afterwards can trust its shape and only needs to
//! know where things begin and end. On text that is not JSON the walks end early and never panic; see the fuzz target.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use crate::check::quote_or_backslash;
use crate::json::decode_string;

/// Calls `visit` with the key and the raw text of each member of the object in `text`; false if it is not an object.
pub(crate) fn members<'a>(text: &'a str, mut visit: impl FnMut(&str, &'a str)) -> bool {
    let mut scanner = Scanner { text, at: 0 };
    scanner.members(|scanner, key| {
        let value = scanner.value();
        if !value.is_empty() {
            visit(key, value);
        }
        !value.is_empty()
    })
}

/// As [`members`], but the member `list` is gone through element by element where it stands, not skipped first: it is most
/// of the text. The second value tells whether there was such a member and whether it was an array; if it was none, or comes
/// again, it is a member like any other.
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

/// Calls `visit` with the raw text of each element of the array in `text`; false if it is not an array.
pub(crate) fn elements<'a>(text: &'a str, mut visit: impl FnMut(&'a str)) -> bool {
    Scanner { text, at: 0 }.elements(&mut visit)
}

/// The string that `raw` spells; empty when it is not one.
pub(crate) fn unquote(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        Some(inner) if memchr(b'\\', inner.as_bytes()).is_none() => Cow::Borrowed(inner),
        _ => Cow::Owned(decode_string(raw)),
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Calls `member` at the value of each member, with its key; it goes past the value, or says false to end the walk.
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

    /// Goes past an array, calling `visit` with each of its elements; false, and no step taken, if there is none.
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

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        self.at += blank;
        rest.get(blank).copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The next value's raw text; empty when there is none.
    fn value(&mut self) -> &'a str {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => self.skip_container(),
            Some(b'}' | b']' | b',' | b':') | None => {}
            Some(_) => {
                let scalar = |byte: &u8| {
                    !matches!(byte, b',' | b'}' | b']' | b':') && !byte.is_ascii_whitespace()
                };
                self.at += self.rest().iter().take_while(|byte| scalar(byte)).count();
            }
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// From an opening quote to behind the closing one.
    fn skip_string(&mut self) {
        self.at += 1;
        let rest = self.rest();
        let Some(first) = quote_or_backslash(rest) else {
            self.at = self.text.len();
            return;
        };
        if rest.get(first) == Some(&b'"') {
            self.at += first + 1;
            return;
        }
        // From here on only quotes are looked for, since most escapes are of something else. One is the end unless the backslash
        // before it is not itself escaped.
        let rest = &rest[first..];
        for quote in memchr_iter(b'"', rest) {
            let before = rest[..quote].iter().rev();
            if before.take_while(|byte| **byte == b'\\').count() % 2 == 0 {
                self.at += first + quote + 1;
                return;
            }
        }
        self.at = self.text.len();
    }

    /// From an opening bracket to behind the one that closes it.
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
    fn members_come_with_their_raw_values() {
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
    fn elements_come_raw() {
        let mut list = Vec::new();
        assert!(elements(
            r#" [1, "a,]" ,[2,[3]],{"x":[]},true] "#,
            |value| list.push(value)
        ));
        assert_eq!(list, ["1", r#""a,]""#, "[2,[3]]", r#"{"x":[]}"#, "true"]);
        assert!(elements("[]", |_| panic!("there is none")));
        assert!(!elements("{}", |_| {}));
    }

    #[test]
    fn a_list_among_members_is_gone_through_in_place() {
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
        fn a_walk_agrees_with_the_parser(value in any_json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let parse = |raw: &str| serde_json::from_str::<Value>(raw).unwrap();
            let mut walked = serde_json::Map::new();
            if members(&text, |key, raw| { walked.insert(key.to_owned(), parse(raw)); }) {
                prop_assert_eq!(&value, &Value::Object(walked));
            }
            let mut walked = Vec::new();
            if elements(&text, |raw| walked.push(parse(raw))) {
                prop_assert_eq!(&value, &Value::Array(walked));
            }
        }

        #[test]
        fn a_walk_through_anything_ends(text in ".{0,80}", prefix in "[\\[{]?") {
            let text = prefix + &text;
            members(&text, |_, _| {});
            elements(&text, |_| {});
        }
    }
}
