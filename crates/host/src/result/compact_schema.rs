//! Describes JSON in one line (RES-5): `{name: string, items: [{id: number, …}]}`.
//!
//! Reads only the beginning of a large text, without building a tree: a model only needs to know
//! how to query parts.

use std::fmt::Write as _;

use trunkline_wire::Json;
use trunkline_wire::scan::{Token, Tokens};

/// The default number of object levels.
pub(super) const DEPTH: usize = 2;

/// The number of bytes to read.
pub(super) const HEAD: usize = 1024 * 1024;

/// The maximum number of levels; each is a step of recursion.
const DEEPEST: usize = 8;

/// The maximum number of members per object.
const MAX_MEMBERS: usize = 12;

/// The maximum length of a key.
const MAX_KEY: usize = 60;

/// The maximum length of a description, in bytes.
const MAX_LENGTH: usize = 2000;

/// Describes a JSON value in one line: its members and their types, up to `depth` levels of
/// objects. The elements of an array are merged; `?` marks members that only some of them have, and
/// `…` marks omissions.
///
/// ```
/// let text = r#"{"name": "x", "items": [{"id": 1}, {"id": 2, "tag": null}]}"#;
/// let value = trunkline::Json::parse(text)?;
/// let shape = trunkline::result::infer_compact_schema(&value, 2);
/// assert_eq!(shape, "{name: string, items: [{id: number, tag?: null}]}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn infer_compact_schema(value: &Json, depth: usize) -> String {
    describe(value.as_str(), depth).unwrap_or_else(|| "…".to_owned())
}

/// As [`infer_compact_schema`], for any text; `None` if its beginning is not JSON.
pub(super) fn describe(text: &str, depth: usize) -> Option<String> {
    let head = &text[..text.floor_char_boundary(HEAD)];
    describe_head(head, head.len() < text.len(), depth)
}

/// Describes a text that starts with `head`; `goes_on` if there is more of it.
pub(super) fn describe_head(head: &str, goes_on: bool, depth: usize) -> Option<String> {
    let mut shape = CompactSchema::default();
    let mut reader = Reader {
        tokens: Tokens::new(head),
    };
    let read = reader
        .value(depth.min(DEEPEST), &mut shape)
        .and_then(|()| reader.end());
    match read {
        Ok(()) => {}
        Err(Stop::Cut) if goes_on => {}
        Err(_) => return None,
    }
    let mut text = String::new();
    shape.write(&mut text);
    if text.len() > MAX_LENGTH {
        text.truncate(text.floor_char_boundary(MAX_LENGTH));
        text.push('…');
    }
    Some(text)
}

/// Whether a text can be JSON worth describing: an object or an array.
pub(super) fn may_be_json(head: &str) -> bool {
    let first = head.trim_start_matches([' ', '\t', '\r', '\n']);
    first.starts_with(['{', '['])
}

/// What all values in one place have been so far.
#[derive(Default)]
struct CompactSchema {
    object: Option<Members>,
    /// The elements of all arrays together.
    array: Option<Box<CompactSchema>>,
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    /// There are some that were not looked into.
    hidden: Option<&'static str>,
}

#[derive(Default)]
struct Members {
    known: Vec<Member>,
    /// There are more than are kept.
    more: bool,
    /// How many objects they were in.
    objects: usize,
}

struct Member {
    key: String,
    shape: CompactSchema,
    objects: usize,
}

impl CompactSchema {
    fn write(&self, out: &mut String) {
        let start = out.len();
        let next = |out: &mut String| {
            if out.len() > start {
                out.push_str(" | ");
            }
        };
        if let Some(members) = &self.object {
            next(out);
            members.write(out);
        }
        if let Some(elements) = &self.array {
            next(out);
            out.push('[');
            elements.write(out);
            out.push(']');
        }
        let words = [
            (self.string, "string"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.null, "null"),
            (self.hidden.is_some(), self.hidden.unwrap_or_default()),
        ];
        for (_, word) in words.iter().filter(|(found, _)| *found) {
            next(out);
            out.push_str(word);
        }
    }
}

impl Members {
    /// The member with this key; none if there are too many already.
    fn get(&mut self, key: String) -> Option<&mut CompactSchema> {
        let at = match self.known.iter().position(|member| member.key == key) {
            Some(at) => at,
            None if self.known.len() < MAX_MEMBERS => {
                self.known.push(Member {
                    key,
                    shape: CompactSchema::default(),
                    objects: 0,
                });
                self.known.len() - 1
            }
            None => {
                self.more = true;
                return None;
            }
        };
        let member = self.known.get_mut(at)?;
        member.objects += 1;
        Some(&mut member.shape)
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        for (index, member) in self.known.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write_key(out, &member.key);
            out.push_str(if member.objects < self.objects {
                "?: "
            } else {
                ": "
            });
            let before = out.len();
            member.shape.write(out);
            if out.len() == before {
                // The text ended before its value.
                out.push('…');
            }
        }
        if self.more {
            out.push_str(", …");
        }
        out.push('}');
    }
}

/// Writes a key as it is, or in quotes where it is no word.
fn write_key(out: &mut String, key: &str) {
    let word = |c: char| c.is_alphanumeric() || "_$-".contains(c);
    if !key.is_empty() && key.chars().all(word) {
        out.push_str(key);
    } else {
        let _ = write!(out, "{:?}", crate::text::harmless(key));
    }
}

/// Why reading ended early.
#[derive(Debug)]
enum Stop {
    /// The text is over.
    Cut,
    /// It is not JSON.
    Bad,
}

/// Reads text that may be invalid or truncated, so it checks the order of the tokens itself.
struct Reader<'t> {
    tokens: Tokens<'t>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Token<'t>, Stop> {
        self.tokens.next().ok_or(Stop::Cut)
    }

    fn is_at_end(&self) -> bool {
        let rest = self.tokens.rest();
        rest.trim_start_matches([' ', '\t', '\r', '\n']).is_empty()
    }

    /// Returns [`Stop::Cut`] at the end of the text.
    fn stop(&self) -> Stop {
        if self.is_at_end() {
            Stop::Cut
        } else {
            Stop::Bad
        }
    }

    /// Adds the next value to `shape`, with `depth` levels of objects.
    fn value(&mut self, depth: usize, shape: &mut CompactSchema) -> Result<(), Stop> {
        let first = self.next()?;
        self.value_from(first, depth, shape)
    }

    fn value_from(
        &mut self,
        first: Token<'t>,
        depth: usize,
        shape: &mut CompactSchema,
    ) -> Result<(), Stop> {
        match first {
            Token::ObjectStart if depth == 0 => {
                shape.hidden = Some("{…}");
                self.skip_container()
            }
            Token::ObjectStart => self.object(depth - 1, shape.object.get_or_insert_default()),
            Token::ArrayStart => self.array(depth, shape.array.get_or_insert_default()),
            Token::String(_) => {
                shape.string = true;
                Ok(())
            }
            Token::Scalar(raw) => {
                let (seen, word) = match raw.as_bytes().first() {
                    Some(b'-' | b'0'..=b'9') => {
                        shape.number = true;
                        return check_scalar(raw);
                    }
                    Some(b't') => (&mut shape.boolean, "true"),
                    Some(b'f') => (&mut shape.boolean, "false"),
                    Some(b'n') => (&mut shape.null, "null"),
                    _ => return Err(Stop::Bad),
                };
                *seen = true;
                match word {
                    word if word == raw => Ok(()),
                    word if word.starts_with(raw) => Err(self.stop()),
                    _ => Err(Stop::Bad),
                }
            }
            _ => Err(Stop::Bad),
        }
    }

    fn object(&mut self, depth: usize, members: &mut Members) -> Result<(), Stop> {
        let mut token = self.next()?;
        if token == Token::ObjectEnd {
            members.objects += 1;
            return Ok(());
        }
        loop {
            let key = match token {
                Token::Key(raw) => decoded(raw),
                // A key at the end of the text lacks its colon.
                Token::String(_) => return Err(self.stop()),
                _ => return Err(Stop::Bad),
            };
            if self.next()? != Token::Colon {
                return Err(Stop::Bad);
            }
            match members.get(key) {
                Some(shape) => self.value(depth, shape)?,
                None => self.skip()?,
            }
            match self.next()? {
                Token::ObjectEnd => {
                    members.objects += 1;
                    return Ok(());
                }
                Token::Comma => token = self.next()?,
                _ => return Err(Stop::Bad),
            }
        }
    }

    fn array(&mut self, depth: usize, elements: &mut CompactSchema) -> Result<(), Stop> {
        let mut token = self.next()?;
        if token == Token::ArrayEnd {
            return Ok(());
        }
        loop {
            // A nested array costs a level, which bounds the recursion.
            match token {
                Token::ArrayStart if depth == 0 => {
                    elements.hidden = Some("[…]");
                    self.skip_container()?;
                }
                Token::ArrayStart => self.value_from(token, depth - 1, elements)?,
                _ => self.value_from(token, depth, elements)?,
            }
            match self.next()? {
                Token::ArrayEnd => return Ok(()),
                Token::Comma => token = self.next()?,
                _ => return Err(Stop::Bad),
            }
        }
    }

    fn end(&self) -> Result<(), Stop> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(Stop::Bad)
        }
    }

    /// Skips a value.
    fn skip(&mut self) -> Result<(), Stop> {
        match self.next()? {
            Token::ObjectStart | Token::ArrayStart => self.skip_container(),
            Token::String(_) => Ok(()),
            Token::Scalar(raw) => check_scalar(raw),
            _ => Err(Stop::Bad),
        }
    }

    /// Skips the rest of a container. Counts the brackets without matching them.
    fn skip_container(&mut self) -> Result<(), Stop> {
        let mut open = 1_usize;
        while open > 0 {
            match self.next()? {
                Token::ObjectStart | Token::ArrayStart => open += 1,
                Token::ObjectEnd | Token::ArrayEnd => open -= 1,
                Token::Scalar(raw) => check_scalar(raw)?,
                Token::Colon | Token::Comma | Token::Key(_) | Token::String(_) => {}
            }
        }
        Ok(())
    }
}

/// Checks that a scalar has only the characters of numbers and words.
fn check_scalar(raw: &str) -> Result<(), Stop> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    if raw.bytes().all(is_part) {
        Ok(())
    } else {
        Err(Stop::Bad)
    }
}

/// A key without its quotes, not longer than is shown.
fn decoded(raw: &str) -> String {
    // An escape is twelve bytes at most.
    let inner = raw.get(1..raw.len() - 1).unwrap_or_default();
    let few = inner.len() <= MAX_KEY * 12;
    let whole = few.then(|| serde_json::from_str::<String>(raw).ok());
    let key = whole.flatten().unwrap_or_else(|| inner.to_owned());
    match key.char_indices().nth(MAX_KEY) {
        Some((at, _)) => format!("{}…", &key[..at]),
        None => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_described_in_one_line() {
        let cases = [
            ("null", "null"),
            ("7", "number"),
            ("-1.5e3", "number"),
            ("true", "boolean"),
            (r#""x""#, "string"),
            ("{}", "{}"),
            ("[]", "[]"),
            (
                r#"{"name":"x","items":[{"id":1,"deep":{"a":1}}]}"#,
                "{name: string, items: [{id: number, deep: {…}}]}",
            ),
            (
                r#"[{"a":1},{"a":"x","b":null}]"#,
                "[{a: string | number, b?: null}]",
            ),
            (r#"[1,"a",null,true]"#, "[string | number | boolean | null]"),
            ("[[1,2],[3]]", "[[number]]"),
            ("[[[[1]]]]", "[[[[…]]]]"),
            (r#"{"a":{"b":{"c":1}}}"#, "{a: {b: {…}}}"),
            (
                r#"{"a b":1,"":2,"é":3,"\u0061":4}"#,
                "{\"a b\": number, \"\": number, é: number, a: number}",
            ),
            (r#" { "a" : [ ] , "b" : false } "#, "{a: [], b: boolean}"),
        ];
        for (text, expected) in cases {
            assert_eq!(describe(text, 2).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(describe(r#"{"a":{"b":1}}"#, 1).unwrap(), "{a: {…}}");
        assert_eq!(describe(r#"{"a":1}"#, 0).unwrap(), "{…}");
    }

    #[test]
    fn much_is_shown_in_short() {
        let many: Vec<String> = (0..50).map(|n| format!("\"k{n}\":1")).collect();
        let shape = describe(&format!("{{{}}}", many.join(",")), 2).unwrap();
        assert!(shape.ends_with("k11: number, …}"), "{shape}");
        let long = format!(r#"{{"{}":1}}"#, "k".repeat(1000));
        assert_eq!(
            describe(&long, 2).unwrap(),
            format!("{{\"{}…\": number}}", "k".repeat(60))
        );
        let wide = |inner: &str| {
            let members: Vec<String> = (0..12)
                .map(|n| format!("\"{}{n}\":{inner}", "k".repeat(50)))
                .collect();
            format!("{{{}}}", members.join(","))
        };
        let shape = describe(&wide(&wide("1")), 2).unwrap();
        assert!(
            shape.len() <= MAX_LENGTH + 3 && shape.ends_with('…'),
            "{}",
            shape.len()
        );
    }

    #[test]
    fn what_is_not_json_is_not_described() {
        for text in [
            "",
            "{",
            "[1",
            "[INFO] started",
            "{a:1}",
            "[1,]",
            "{\"a\" 1}",
            "[1] [2]",
            "tru",
            "truth",
            "\"",
            "}",
            "{\"a\":1}\n{\"a\":2}",
        ] {
            assert_eq!(describe(text, 2), None, "{text}");
        }
    }

    #[test]
    fn of_a_large_text_the_beginning_is_described() {
        let rows = |n: usize| vec![r#"{"id":1,"name":"x"}"#; n].join(",");
        let text = format!(r#"{{"total":2,"rows":[{}],"last":1}}"#, rows(200_000));
        assert!(text.len() > 2 * HEAD);
        assert_eq!(
            describe(&text, 2).unwrap(),
            "{total: number, rows: [{id: number, name: string}]}"
        );
        for end in 1..200 {
            let head = &text[..end];
            assert!(describe_head(head, true, 2).is_some(), "{head}");
        }
    }

    #[test]
    fn a_text_with_any_byte_missing_or_doubled_is_survived() {
        let text = r#" {"a" : [1, -2.5e3, {"é\"": [true, false, null]}, [[]]], "中": {"x": "y\\"}, "z": []} "#;
        for (at, c) in text.char_indices() {
            let (before, behind) = text.split_at(at);
            let without = &behind[c.len_utf8()..];
            for odd in [
                format!("{before}{without}"),
                format!("{before}{c}{behind}"),
                before.to_owned(),
            ] {
                for depth in 0..4 {
                    describe_head(&odd, true, depth);
                    describe_head(&odd, false, depth);
                }
            }
        }
    }

    #[test]
    fn any_depth_is_survived() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let text = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            assert!(describe(&text, 2).unwrap().len() < 50);
            assert!(describe(&text, usize::MAX).unwrap().len() < 500);
        }
    }
}
