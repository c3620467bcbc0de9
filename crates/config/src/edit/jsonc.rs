//! Edits JSON that may have comments and trailing commas, and keeps them.
//!
//! Members are located in the plain text, where comments and trailing commas are spaces of the same
//! length; the edits apply to the text itself. On a text without comments, [`set`] does what
//! [`splice::set`](super::splice::set) does.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::json_layout::{Container, JsonLayout};
use super::splice::{SpliceError, nested, object, parse, without_mark};
use super::text_edit::{TextEdit, apply};
use crate::import::jsonc::{blanks, plain};
use crate::locate::offset;

/// Whether a file may have comments and trailing commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Plain JSON.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
}

impl Dialect {
    fn plain(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Json => Cow::Borrowed(text),
            Self::Jsonc => Cow::Owned(plain(text)),
        }
    }
}

/// The value at `path`, if it is there.
pub(crate) fn get(
    text: &str,
    path: &[&str],
    dialect: Dialect,
) -> Result<Option<Value>, SpliceError> {
    let plain = dialect.plain(text);
    let found = super::splice::get(&plain, path)?;
    Ok(found.and_then(|raw| serde_json::from_str(raw.get()).ok()))
}

/// The edits that set the member at `path`. Missing objects are appended to their parents.
pub(crate) fn set(
    text: &str,
    path: &[&str],
    value: &Value,
    dialect: Dialect,
) -> Result<Vec<TextEdit>, SpliceError> {
    let plain = dialect.plain(text);
    let mut layout = JsonLayout::of_file(text);
    let Some(root) = parse(&plain)? else {
        return Ok(vec![whole_document(text, &layout, &nested(path, value))]);
    };
    let mut at = root;
    let mut indent = String::new();
    for (depth, key) in path.iter().enumerate() {
        let object = object(&plain, at, &path[..depth])?;
        let (own, inner) = layout.within(&object, &indent);
        let Some(found) = object.items.iter().rfind(|item| item.is_called(key)) else {
            let value = nested(&path[depth + 1..], value);
            let member = own.member(&object, key, &value, &inner);
            let place = Place {
                text,
                start: offset(&plain, object.raw),
                object: &object,
                layout: &own,
                indent: &indent,
                inner: &inner,
            };
            return Ok(place.append(&member));
        };
        (at, layout, indent) = (found.value, own, inner);
    }
    Ok(replaced(&plain, at, value, layout, &indent))
}

/// The edit of a file without a value: blank, or with nothing but comments.
fn whole_document(text: &str, layout: &JsonLayout, value: &Value) -> TextEdit {
    let mut new = String::new();
    layout.write(value, "", &mut new);
    new.push_str(layout.newline);
    let body = without_mark(text);
    let mark = text.len() - body.len();
    let comments = body.trim_end().len();
    if comments > 0 {
        new.insert_str(0, layout.newline);
    }
    TextEdit::replace(mark + comments, body.len() - comments, new)
}

/// The edit that replaces a value in its own layout; none if it is equal already.
fn replaced(
    plain: &str,
    old: &RawValue,
    value: &Value,
    mut layout: JsonLayout,
    indent: &str,
) -> Vec<TextEdit> {
    if serde_json::from_str::<Value>(old.get()).is_ok_and(|old| old == *value) {
        return Vec::new();
    }
    if let Some(container) = Container::read(old) {
        (layout, _) = layout.within(&container, indent);
    }
    let mut new = String::new();
    layout.write(value, indent, &mut new);
    let start = offset(plain, old.get());
    vec![TextEdit::replace(start, old.get().len(), new)]
}

/// An object to append a member to.
struct Place<'a> {
    text: &'a str,
    /// The offset of the object.
    start: usize,
    object: &'a Container<'a>,
    layout: &'a JsonLayout,
    indent: &'a str,
    inner: &'a str,
}

impl Place<'_> {
    /// The edits that append a member after everything in the object, comments included.
    fn append(&self, member: &str) -> Vec<TextEdit> {
        let close = self.start + self.object.raw.len() - 1;
        let last = self.object.items.len().checked_sub(1);
        let from = last.map_or(self.start + 1, |last| self.start + self.object.end(last));
        let tail = &self.text[from..close];
        let kept = tail.trim_end();
        let at = from + kept.len();
        let rest = blanks(kept);
        let mut new = self
            .layout
            .separator(last.is_some(), rest.ends_in_line_comment, self.inner);
        new.push_str(member);
        if last.is_none() {
            // The whitespace before the closing brace belongs to the member.
            new.push_str(&self.layout.closing(self.indent));
            return vec![TextEdit::replace(at, close - at, new)];
        }
        if rest.comma.is_some() {
            // The style of the file.
            new.push(',');
            return vec![TextEdit::insert(at, new)];
        }
        if kept.is_empty() {
            new.insert(0, ',');
            return vec![TextEdit::insert(from, new)];
        }
        vec![TextEdit::insert(from, ","), TextEdit::insert(at, new)]
    }
}

/// The text without the member at `path`, including repeated ones; `None` if there is none.
pub(crate) fn remove(
    text: &str,
    path: &[&str],
    dialect: Dialect,
) -> Result<Option<String>, SpliceError> {
    let mut text = Cow::Borrowed(text);
    let mut found = false;
    while let Some(edits) = remove_last(&text, path, dialect)? {
        let Some(new) = apply(&text, &edits) else {
            break;
        };
        found = true;
        text = Cow::Owned(new);
    }
    Ok(found.then(|| text.into_owned()))
}

/// The edits that remove the last member at `path`.
fn remove_last(
    text: &str,
    path: &[&str],
    dialect: Dialect,
) -> Result<Option<Vec<TextEdit>>, SpliceError> {
    let Some((key, parents)) = path.split_last() else {
        return Ok(None);
    };
    let plain = dialect.plain(text);
    let Some(parent) = super::splice::get(&plain, parents)? else {
        return Ok(None);
    };
    let object = object(&plain, parent, parents)?;
    let Some(item) = object.items.iter().rposition(|item| item.is_called(key)) else {
        return Ok(None);
    };
    let base = offset(&plain, object.raw);
    let inner = (base + 1, base + object.raw.len() - 1);
    let (start, mut end) = (base + object.start(item), base + object.end(item));
    let comma = blanks(&text[end..inner.1]).comma;
    let mut edits = Vec::new();
    if let Some(comma) = comma {
        end += comma + 1;
    } else if let Some(before) = item.checked_sub(1) {
        let from = base + object.end(before);
        if let Some(comma) = blanks(&text[from..start]).comma {
            edits.push(TextEdit::remove(from + comma, 1));
        }
    }
    let (start, end) = with_whitespace(text, start, end, inner);
    if text[inner.0..start].trim().is_empty() && text[end..inner.1].trim().is_empty() {
        return Ok(Some(vec![TextEdit::remove(inner.0, inner.1 - inner.0)]));
    }
    edits.push(TextEdit::remove(start, end - start));
    Ok(Some(edits))
}

/// Widens a range to whole lines if nothing else is on them, and otherwise by the spaces that
/// separate it from what follows.
fn with_whitespace(
    text: &str,
    start: usize,
    end: usize,
    (from, to): (usize, usize),
) -> (usize, usize) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let bytes = text.as_bytes();
    let before = bytes[from..start]
        .iter()
        .rev()
        .take_while(|b| is_space(b))
        .count();
    let after = bytes[end..to].iter().take_while(|b| is_space(b)).count();
    let begins_line = bytes[from..start - before].last() == Some(&b'\n');
    let ends_line = bytes.get(end + after) == Some(&b'\n') && end + after < to;
    match (begins_line, ends_line) {
        (true, true) => (start - before, end + after + 1),
        // The last item of a single line keeps the padding of the closing brace.
        (false, _) if end + after == to => (start - before, end),
        _ => (start, end + after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::edit::text_edit::inverse;

    fn check_set(text: &str, path: &[&str], expected: &str) {
        let edits = set(text, path, &json!(1), Dialect::Jsonc).unwrap();
        let new = apply(text, &edits).unwrap();
        assert_eq!(new, expected, "{text}");
        let back = inverse(text, &edits).unwrap();
        assert_eq!(apply(&new, &back).as_deref(), Some(text), "{text}");
        let value = get(&new, path, Dialect::Jsonc).unwrap();
        assert_eq!(value, Some(json!(1)), "{new}");
    }

    #[test]
    fn a_member_is_added_after_the_comments_and_in_the_style_of_the_file() {
        for (text, path, expected) in [
            (
                "{\n  \"a\": 0 // why\n}\n",
                &["b"][..],
                "{\n  \"a\": 0, // why\n  \"b\": 1\n}\n",
            ),
            (
                "{\n  \"a\": 0, // why\n}\n",
                &["b"],
                "{\n  \"a\": 0, // why\n  \"b\": 1,\n}\n",
            ),
            (
                "{\n  \"a\": 0\n  // end\n}",
                &["b"],
                "{\n  \"a\": 0,\n  // end\n  \"b\": 1\n}",
            ),
            ("{\"a\": 0 /* c */}", &["b"], "{\"a\": 0, /* c */ \"b\": 1}"),
            ("{\"a\": 0 // c\n}", &["b"], "{\"a\": 0, // c\n\"b\": 1\n}"),
            ("{\"a\": 0,}", &["b"], "{\"a\": 0, \"b\": 1,}"),
            (
                "{\n  // empty\n}\n",
                &["b"],
                "{\n  // empty\n  \"b\": 1\n}\n",
            ),
            (
                "// head\n{}\n// foot\n",
                &["b"],
                "// head\n{\n  \"b\": 1\n}\n// foot\n",
            ),
            ("// only\n", &["b"], "// only\n{\n  \"b\": 1\n}\n"),
            ("", &["b"], "{\n  \"b\": 1\n}\n"),
            ("\u{feff}{}", &["b"], "\u{feff}{\n  \"b\": 1\n}"),
            (
                "{\n  \"m\": {\n    // first\n    \"a\": {}, // one\n  },\n}",
                &["m", "b"],
                "{\n  \"m\": {\n    // first\n    \"a\": {}, // one\n    \"b\": 1,\n  },\n}",
            ),
            (
                "{\r\n\t\"a\": 0 // c\r\n}\r\n",
                &["m", "b"],
                "{\r\n\t\"a\": 0, // c\r\n\t\"m\": {\r\n\t\t\"b\": 1\r\n\t}\r\n}\r\n",
            ),
            ("{\"u\": \"//,}\"}", &["b"], "{\"u\": \"//,}\", \"b\": 1}"),
            ("{\"b\": 2 /* x */}", &["b"], "{\"b\": 1 /* x */}"),
        ] {
            check_set(text, path, expected);
        }
    }

    #[test]
    fn a_member_is_removed_with_its_comma_and_its_lines_and_no_comment_of_others() {
        for (text, path, expected) in [
            (
                "{\n  \"a\": 0,\n  \"b\": 1\n}\n",
                "b",
                Some("{\n  \"a\": 0\n}\n"),
            ),
            (
                "{\n  \"a\": 0,\n  \"b\": 1\n}\n",
                "a",
                Some("{\n  \"b\": 1\n}\n"),
            ),
            (
                "{\n  \"a\": 0, // x\n  \"b\": 1, // y\n}\n",
                "b",
                Some("{\n  \"a\": 0, // x\n  // y\n}\n"),
            ),
            ("{\n  \"b\": 1 // y\n}", "b", Some("{\n  // y\n}")),
            ("{\n  \"b\": 1\n}", "b", Some("{}")),
            ("{ \"a\": 0, \"b\": 1 }", "b", Some("{ \"a\": 0 }")),
            ("{ \"a\": 0, \"b\": 1 }", "a", Some("{ \"b\": 1 }")),
            ("{\"b\": 1, \"a\": 0, \"b\": 2}", "b", Some("{\"a\": 0}")),
            (
                "{\"a\": 0 /* , */, \"b\": 1}",
                "b",
                Some("{\"a\": 0 /* , */}"),
            ),
            ("{\"a\": 0}", "b", None),
            ("", "b", None),
            ("// x\n", "b", None),
        ] {
            let new = remove(text, &[path], Dialect::Jsonc).unwrap();
            assert_eq!(new.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn plain_json_refuses_comments() {
        let error = set("{} // x", &["a"], &json!(1), Dialect::Json).unwrap_err();
        assert!(error.to_string().contains("not valid JSON"), "{error}");
    }

    proptest! {
        #[test]
        fn on_plain_json_it_does_what_the_splice_editor_does(
            keys in prop::collection::vec("[a-d]", 0..4),
            spaces in prop::collection::vec(0..4_usize, 16),
            path in prop::collection::vec("[a-d]", 1..3),
        ) {
            let gaps = ["", " ", "\n", "\n  "];
            let mut at = 0;
            let mut gap = || { at += 1; gaps[spaces[at % spaces.len()]] };
            let members: Vec<String> = keys
                .iter()
                .map(|key| format!("{}\"{key}\":{}{{{}}}{}", gap(), gap(), gap(), gap()))
                .collect();
            let text = format!("{{{}{}}}", members.join(","), if keys.is_empty() { gap() } else { "" });
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let value = json!({"command": "x", "args": ["y"]});
            let expected = crate::edit::splice::set(&text, &path, &value).unwrap();
            for dialect in [Dialect::Json, Dialect::Jsonc] {
                let edits = set(&text, &path, &value, dialect).unwrap();
                prop_assert_eq!(&apply(&text, &edits).unwrap(), &expected);
                let gone = remove(&expected, &path, dialect).unwrap().unwrap();
                prop_assert!(get(&gone, &path, dialect).unwrap().is_none());
            }
        }
    }
}
