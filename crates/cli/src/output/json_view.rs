//! JSON for a person: indented, in colours, with short containers on one line.
//!
//! Strings and numbers keep the bytes that the server sent.

use serde::de::IgnoredAny;

use super::harmless_json;
use super::line::Line;
use super::lines::Lines;
use super::style::Style;

/// Containers up to this width stay on one line.
const MAX_INLINE: usize = 60;

const INDENT: usize = 2;

/// The deepest document that is formatted: reading and writing one recurse.
const MAX_DEPTH: usize = 128;

/// Formats a JSON object or array; `None` for any other text, and for one that is nested too
/// deeply.
pub(super) fn lines(text: &str) -> Option<Lines> {
    let text = text.trim();
    let is_formatted = text.starts_with(['{', '['])
        && depth(text) <= MAX_DEPTH
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    if !is_formatted {
        return None;
    }
    let mut lines = Lines::new();
    let node = Parser { rest: text }.node();
    let last = node.write(Line::new(), 0, &mut lines);
    lines.push_line(last.verbatim());
    Some(lines)
}

/// Returns the number of containers in one another.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A value of a document that is known to be valid.
enum Node<'t> {
    /// A string, a number or a word, as it is written.
    Scalar(&'t str),
    Array(Vec<Node<'t>>),
    Object(Vec<(&'t str, Node<'t>)>),
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn node(&mut self) -> Node<'t> {
        match self.peek() {
            Some('[') => {
                self.skip();
                let mut items = Vec::new();
                while !self.ends(']') {
                    items.push(self.node());
                }
                Node::Array(items)
            }
            Some('{') => {
                self.skip();
                let mut members = Vec::new();
                while !self.ends('}') {
                    let name = self.scalar();
                    self.ends(':');
                    members.push((name, self.node()));
                }
                Node::Object(members)
            }
            _ => Node::Scalar(self.scalar()),
        }
    }

    fn peek(&mut self) -> Option<char> {
        let is_between = |c: char| c.is_ascii_whitespace() || c == ',';
        self.rest = self.rest.trim_start_matches(is_between);
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    /// Takes a delimiter; true at the end of the text, too.
    fn ends(&mut self, delimiter: char) -> bool {
        match self.peek() {
            Some(c) if c != delimiter => false,
            _ => {
                self.skip();
                true
            }
        }
    }

    fn scalar(&mut self) -> &'t str {
        let is_string = self.peek() == Some('"');
        let end = if is_string {
            let mut escaped = false;
            let end = self.rest.char_indices().skip(1).find(|(_, c)| {
                let is_end = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                is_end
            });
            end.map(|(at, _)| at + 1)
        } else {
            let is_end = |c: char| c.is_ascii_whitespace() || ",:]}".contains(c);
            self.rest.find(is_end)
        };
        let (scalar, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        scalar
    }
}

impl Node<'_> {
    /// Writes the value behind the text of `line`, and returns the line that it ends with.
    fn write(&self, mut line: Line, depth: usize, lines: &mut Lines) -> Line {
        if let Some(short) = self.inline(MAX_INLINE) {
            line.append(&short);
            return line;
        }
        let indent = |depth: usize| Line::plain(" ".repeat(depth * INDENT));
        let (open, close, count) = match self {
            Self::Scalar(text) => {
                line.append(&scalar(text));
                return line;
            }
            Self::Array(items) => ("[", "]", items.len()),
            Self::Object(members) => ("{", "}", members.len()),
        };
        line.push(Style::Dim, open);
        lines.push_line(line.verbatim());
        for at in 0..count {
            let mut line = indent(depth + 1);
            let value = match self {
                Self::Array(items) => items.get(at),
                Self::Object(members) => members.get(at).map(|(name, value)| {
                    push_name(&mut line, name);
                    value
                }),
                Self::Scalar(_) => None,
            };
            if let Some(value) = value {
                line = value.write(line, depth + 1, lines);
            }
            if at + 1 < count {
                line.push(Style::Dim, ",");
            }
            lines.push_line(line.verbatim());
        }
        indent(depth).and(Style::Dim, close)
    }

    /// Returns the value on one line, if it fits.
    fn inline(&self, room: usize) -> Option<Line> {
        let mut line = Line::new();
        match self {
            Self::Scalar(text) => line = scalar(text),
            Self::Array(items) => {
                line.push(Style::Dim, "[");
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        line.push(Style::Dim, ", ");
                    }
                    line.append(&item.inline(room.checked_sub(line.width())?)?);
                }
                line.push(Style::Dim, "]");
            }
            Self::Object(members) => {
                line.push(Style::Dim, "{");
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        line.push(Style::Dim, ", ");
                    }
                    push_name(&mut line, name);
                    line.append(&value.inline(room.checked_sub(line.width())?)?);
                }
                line.push(Style::Dim, "}");
            }
        }
        (line.width() <= room).then_some(line)
    }
}

fn push_name(line: &mut Line, name: &str) {
    line.push_whole(Style::Literal, harmless_json(name));
    line.push(Style::Dim, ": ");
}

fn scalar(text: &str) -> Line {
    let style = if text.starts_with('"') {
        Style::Done
    } else {
        Style::Attention
    };
    let mut line = Line::new();
    line.push_whole(style, harmless_json(text));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = lines(text).map(|lines| lines.to_plain());
        assert_eq!(shown.as_deref().unwrap_or_default(), expected);
    }

    #[test]
    fn short_containers_stay_on_one_line() {
        check("{}", "{}\n");
        check("[1,[2,{\"a\":null}] ]", "[1, [2, {\"a\": null}]]\n");
        let long = format!("{{\"a\":\"{}\",\"b\":[1,2]}}", "x".repeat(70));
        let expected = format!(
            "{{\n  \"a\": \"{}\",\n  \"b\": [1, 2]\n}}\n",
            "x".repeat(70)
        );
        check(&long, &expected);
    }

    #[test]
    fn bytes_are_kept_and_controls_escaped() {
        check(
            r#"[1.50, 12345678901234567890123, "a\"b\\", "é\n"]"#,
            "[1.50, 12345678901234567890123, \"a\\\"b\\\\\", \"é\\n\"]\n",
        );
        check("[\"\u{202e}\u{9b}\"]", "[\"\\u202e\\u009b\"]\n");
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in ["", "plain", "7", "{not json", "[1] [2]"] {
            check(text, "");
        }
    }

    #[test]
    fn a_deep_document_is_left_alone() {
        for depth in [129, 50_000] {
            check(&"[".repeat(depth), "");
            check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)), "");
            let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            check(&objects, "");
        }
        let deepest = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(lines(&deepest).is_some());
        // Brackets in a string are no containers.
        check(r#"["\"[[[[", "{{{"]"#, "[\"\\\"[[[[\", \"{{{\"]\n");
        let text = format!("[\"{}\"]", "[".repeat(200));
        assert!(lines(&text).is_some());
    }

    #[test]
    fn what_is_shown_is_the_same_json() {
        let value = serde_json::json!({"a": [{"b": "x".repeat(50), "c": ["y".repeat(40), 1, true]}], "e": {}});
        let shown = lines(&value.to_string()).unwrap().to_plain();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
