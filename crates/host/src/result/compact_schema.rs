//! What JSON is like, in one line (RES-5): `{name: string, items: [{id: number, …}]}`.
//!
//! Only the beginning of a large text is looked at, without making a tree of it: what a model needs is an idea of how to ask for
//! parts.

use std::fmt::Write as _;

use memchr::memchr2;
use trunkline_wire::Json;

/// How many levels of objects are shown, where nobody says otherwise.
pub(super) const DEPTH: usize = 2;

/// How much of a text is looked at.
pub(super) const HEAD: usize = 1024 * 1024;

/// How many levels can be asked for; each is a step of recursion.
const DEEPEST: usize = 8;

/// How many members of one object are shown.
const MAX_MEMBERS: usize = 12;

/// How much of a key is shown.
const MAX_KEY: usize = 60;

/// How long a description may be, in bytes.
const MAX_LENGTH: usize = 2000;

/// Describes a JSON value in one line: its members and their types, `depth` levels of objects deep. Of an array, all elements are
/// taken together; a member that only some of them have is marked with `?`, and `…` stands for what is not shown.
///
/// ```
/// let value = trunkline::Json::parse(r#"{"name": "x", "items": [{"id": 1}, {"id": 2, "tag": null}]}"#)?;
/// let shape = trunkline::result::infer_compact_schema(&value, 2);
/// assert_eq!(shape, "{name: string, items: [{id: number, tag?: null}]}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn infer_compact_schema(value: &Json, depth: usize) -> String {
    describe(value.as_str(), depth).unwrap_or_else(|| "…".to_owned())
}

/// As [`infer_compact_schema`], for a text that may be anything; `None` if it is not JSON, as far as its beginning tells.
pub(super) fn describe(text: &str, depth: usize) -> Option<String> {
    let head = &text[..text.floor_char_boundary(HEAD)];
    describe_head(head, head.len() < text.len(), depth)
}

/// Describes what begins like `head`; `goes_on` says that there is more of it.
pub(super) fn describe_head(head: &str, goes_on: bool, depth: usize) -> Option<String> {
    let mut shape = CompactSchema::default();
    let mut reader = Reader { text: head, at: 0 };
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

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Adds the next value to `shape`, looking into `depth` levels of objects.
    fn value(&mut self, depth: usize, shape: &mut CompactSchema) -> Result<(), Stop> {
        match self.peek()? {
            b'{' if depth == 0 => {
                shape.hidden = Some("{…}");
                self.skip()
            }
            b'{' => self.object(depth - 1, shape.object.get_or_insert_default()),
            b'[' => self.array(depth, shape.array.get_or_insert_default()),
            b'"' => {
                shape.string = true;
                self.string().map(drop)
            }
            b'-' | b'0'..=b'9' => {
                shape.number = true;
                self.skip()
            }
            b't' => {
                shape.boolean = true;
                self.word("true")
            }
            b'f' => {
                shape.boolean = true;
                self.word("false")
            }
            b'n' => {
                shape.null = true;
                self.word("null")
            }
            _ => Err(Stop::Bad),
        }
    }

    fn object(&mut self, depth: usize, members: &mut Members) -> Result<(), Stop> {
        self.at += 1;
        if self.eat(b'}')? {
            members.objects += 1;
            return Ok(());
        }
        loop {
            if self.peek()? != b'"' {
                return Err(Stop::Bad);
            }
            let key = decoded(self.string()?);
            if !self.eat(b':')? {
                return Err(Stop::Bad);
            }
            match members.get(key) {
                Some(shape) => self.value(depth, shape)?,
                None => self.skip()?,
            }
            if self.eat(b'}')? {
                members.objects += 1;
                return Ok(());
            }
            if !self.eat(b',')? {
                return Err(Stop::Bad);
            }
        }
    }

    fn array(&mut self, depth: usize, elements: &mut CompactSchema) -> Result<(), Stop> {
        self.at += 1;
        if self.eat(b']')? {
            return Ok(());
        }
        loop {
            // An array in an array costs a level, so that nothing is without end.
            match self.peek()? {
                b'[' if depth == 0 => {
                    elements.hidden = Some("[…]");
                    self.skip()?;
                }
                b'[' => self.value(depth - 1, elements)?,
                _ => self.value(depth, elements)?,
            }
            if self.eat(b']')? {
                return Ok(());
            }
            if !self.eat(b',')? {
                return Err(Stop::Bad);
            }
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Result<u8, Stop> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.at += rest.iter().take_while(blank).count();
        let next = self.text.as_bytes().get(self.at).copied();
        next.ok_or(Stop::Cut)
    }

    fn eat(&mut self, wanted: u8) -> Result<bool, Stop> {
        let found = self.peek()? == wanted;
        self.at += usize::from(found);
        Ok(found)
    }

    fn end(&mut self) -> Result<(), Stop> {
        match self.peek() {
            Err(_) => Ok(()),
            Ok(_) => Err(Stop::Bad),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(if word.starts_with(rest) {
            Stop::Cut
        } else {
            Stop::Bad
        })
    }

    /// A string with its quotes.
    fn string(&mut self) -> Result<&'t str, Stop> {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..).ok_or(Stop::Cut)?;
            let found = memchr2(b'"', b'\\', rest).ok_or(Stop::Cut)?;
            if rest.get(found) == Some(&b'"') {
                self.at += found + 1;
                return self.text.get(start..self.at).ok_or(Stop::Bad);
            }
            self.at += found + 2;
        }
    }

    /// Goes past a value without looking into it. Brackets are counted, not kept.
    fn skip(&mut self) -> Result<(), Stop> {
        let mut open = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    self.at += 1;
                    open += 1;
                    continue;
                }
                b'}' | b']' if open > 0 => {
                    self.at += 1;
                    open -= 1;
                }
                b',' | b':' if open > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => self.scalar()?,
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// A number or a word.
    fn scalar(&mut self) -> Result<(), Stop> {
        let rest = &self.text.as_bytes()[self.at..];
        let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let length = rest.iter().take_while(part).count();
        self.at += length;
        if length == 0 { Err(Stop::Bad) } else { Ok(()) }
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
