//! Detects the layout of a JSON text, so that additions look like their surroundings.
//!
//! This module decides only about whitespace.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::SpelledMembers;
use crate::locate::offset;

/// An object or an array as written.
pub(super) struct Container<'a> {
    /// The text including the brackets.
    pub(super) raw: &'a str,
    /// The members or elements in order, including repeated keys.
    pub(super) items: Vec<Item<'a>>,
}

/// A member of an object, or an element of an array, which has no key.
pub(super) struct Item<'a> {
    /// The key as written. It is not decoded, because a lone surrogate, which `JSON.stringify`
    /// writes, cannot be.
    key: Option<&'a RawValue>,
    /// The value.
    pub(super) value: &'a RawValue,
}

impl Item<'_> {
    /// Whether the key is `key`, however it is escaped.
    pub(super) fn is_called(&self, key: &str) -> bool {
        let Some(spelled) = self.key.map(RawValue::get) else {
            return false;
        };
        if spelled.contains('\\') {
            return serde_json::from_str::<String>(spelled).is_ok_and(|meant| meant == key);
        }
        spelled.get(1..spelled.len() - 1) == Some(key)
    }
}

impl<'a> Container<'a> {
    /// `None` if the value is neither an object nor an array.
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        let raw = raw.get();
        let items = match raw.as_bytes().first()? {
            b'{' => {
                let members = serde_json::from_str::<SpelledMembers>(raw).ok()?.0;
                let item = |(key, value)| Item {
                    key: Some(key),
                    value,
                };
                members.into_iter().map(item).collect()
            }
            b'[' => {
                let values: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
                let item = |value| Item { key: None, value };
                values.into_iter().map(item).collect()
            }
            _ => return None,
        };
        Some(Self { raw, items })
    }

    /// The offset of an item.
    pub(super) fn start(&self, item: usize) -> usize {
        let item = &self.items[item];
        offset(self.raw, item.key.unwrap_or(item.value).get())
    }

    /// The end of an item.
    pub(super) fn end(&self, item: usize) -> usize {
        let value = self.items[item].value.get();
        offset(self.raw, value) + value.len()
    }

    /// The whitespace before an item, after the bracket or the comma.
    fn lead(&self, item: usize) -> &'a str {
        let from = item.checked_sub(1).map_or(1, |before| self.end(before));
        let between = &self.raw[from..self.start(item)];
        between.rsplit(',').next().unwrap_or(between)
    }

    /// The colon after the key of an item, with the whitespace around it.
    fn colon(&self, item: usize) -> Option<&'a str> {
        let item = &self.items[item];
        let key = item.key?.get();
        Some(&self.raw[offset(self.raw, key) + key.len()..offset(self.raw, item.value.get())])
    }

    /// The whitespace before the closing bracket.
    fn tail(&self) -> &'a str {
        let from = self.items.len().checked_sub(1).map_or(1, |at| self.end(at));
        &self.raw[from..self.raw.len() - 1]
    }
}

/// The layout of one part of a text.
#[derive(Clone)]
pub(super) struct JsonLayout {
    /// Whether each item is on its own line.
    lines: bool,
    /// The line ending.
    pub(super) newline: &'static str,
    /// One level of indentation.
    unit: String,
    /// The text between a key and its value.
    colon: String,
    /// The whitespace after a comma on one line.
    gap: String,
    /// The whitespace inside the braces of an object on one line.
    pad: String,
}

impl JsonLayout {
    /// The default: as `JSON.stringify(…, null, 2)` writes, with the line endings of the text.
    pub(super) fn of_file(text: &str) -> Self {
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        Self {
            lines: true,
            newline: line_end(first),
            unit: "  ".to_owned(),
            colon: ": ".to_owned(),
            gap: " ".to_owned(),
            pad: String::new(),
        }
    }

    /// The layout inside `container`, which begins on a line indented by `indent`, and the
    /// indentation of its items. An empty container inherits the layout.
    pub(super) fn within(&self, container: &Container, indent: &str) -> (Self, String) {
        let mut own = self.clone();
        let Some(last) = container.items.len().checked_sub(1) else {
            return (own, [indent, &self.unit].concat());
        };
        let lead = container.lead(last);
        let colon = container.colon(last);
        if let Some(colon) = colon.filter(|colon| !colon.contains('\n')) {
            colon.clone_into(&mut own.colon);
        }
        if let Some((before, inner)) = lead.rsplit_once('\n') {
            let closing = container.tail().rsplit_once('\n');
            let closing = closing.map_or(indent, |(_, closing)| closing);
            own.lines = true;
            own.newline = line_end(&lead[..=before.len()]);
            if let Some(unit) = inner.strip_prefix(closing) {
                unit.clone_into(&mut own.unit);
            }
            return (own, inner.to_owned());
        }
        own.lines = false;
        if last > 0 {
            lead.clone_into(&mut own.gap);
        } else if colon.is_some() {
            // A space after a colon implies a space after a comma.
            let spaced = own.colon.ends_with(' ');
            own.gap = String::from(if spaced { " " } else { "" });
        }
        if colon.is_some() {
            let pad = container.lead(0);
            own.pad = String::from(if pad.contains('\n') { "" } else { pad });
        }
        (own, indent.to_owned())
    }

    /// The replacement, and the range it replaces, that appends a member to the object. `self` is
    /// the layout inside the object, `indent` the indentation of its line, and `inner` that of its
    /// members.
    pub(super) fn appended(
        &self,
        object: &Container,
        key: &str,
        value: &Value,
        indent: &str,
        inner: &str,
    ) -> (usize, usize, String) {
        let last = object.items.len().checked_sub(1);
        let mut new = String::from(if last.is_some() { "," } else { "" });
        new.push_str(&self.separator(last.is_some(), false, inner));
        new.push_str(&self.member(object, key, value, inner));
        let Some(last) = last else {
            new.push_str(&self.closing(indent));
            return (1, object.raw.len() - 1, new);
        };
        let (from, to) = (object.end(last), object.end(last));
        (from, to, new)
    }

    /// The whitespace before a new member: the first one of its object, or one after a comma.
    pub(super) fn separator(&self, follows: bool, after_line_comment: bool, inner: &str) -> String {
        if self.lines || after_line_comment {
            [self.newline, inner].concat()
        } else if follows {
            self.gap.clone()
        } else {
            self.pad.clone()
        }
    }

    /// The whitespace between the only member of an object and the closing brace.
    pub(super) fn closing(&self, indent: &str) -> String {
        if self.lines {
            [self.newline, indent].concat()
        } else {
            self.pad.clone()
        }
    }

    /// A new member of the object.
    pub(super) fn member(
        &self,
        object: &Container,
        key: &str,
        value: &Value,
        inner: &str,
    ) -> String {
        let mut new = [&Value::from(key).to_string(), &*self.colon].concat();
        self.of_siblings(object, value, inner)
            .write(value, inner, &mut new);
        new
    }

    /// The layout of a new value in `object`: on one line if the last value of the same kind there
    /// is.
    fn of_siblings(&self, object: &Container, value: &Value, inner: &str) -> Self {
        let open = match value {
            Value::Object(_) => '{',
            Value::Array(_) => '[',
            _ => return self.clone(),
        };
        let mut alike = object.items.iter().rev().filter_map(|item| {
            let raw = item.value.get();
            let empty = raw[1..].trim_start().len() == 1;
            (raw.starts_with(open) && !empty).then_some(item.value)
        });
        let sibling = alike.next().and_then(Container::read);
        let layout = sibling.map(|sibling| self.within(&sibling, inner).0);
        layout
            .filter(|layout| !layout.lines)
            .unwrap_or_else(|| self.clone())
    }

    /// Writes a value that begins on a line indented by `indent`.
    pub(super) fn write(&self, value: &Value, indent: &str, out: &mut String) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let items = map.iter().map(|(key, value)| (Some(&**key), value));
                self.write_items(["{", "}"], &self.pad, items, indent, out);
            }
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().map(|value| (None, value));
                self.write_items(["[", "]"], "", items, indent, out);
            }
            // Empty objects and arrays have adjacent brackets in either layout.
            other => out.push_str(&other.to_string()),
        }
    }

    fn write_items<'a>(
        &self,
        [open, close]: [&str; 2],
        pad: &str,
        items: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
        indent: &str,
        out: &mut String,
    ) {
        let inner = [indent, &self.unit].concat();
        out.push_str(open);
        for (at, (key, value)) in items.enumerate() {
            if at > 0 {
                out.push(',');
            }
            match (self.lines, at) {
                (true, _) => out.extend([self.newline, &inner]),
                (false, 0) => out.push_str(pad),
                (false, _) => out.push_str(&self.gap),
            }
            if let Some(key) = key {
                out.extend([&Value::from(key).to_string(), &*self.colon]);
            }
            self.write(value, &inner, out);
        }
        if self.lines {
            out.extend([self.newline, indent]);
        } else {
            out.push_str(pad);
        }
        out.push_str(close);
    }
}

/// The line ending of `line`; `\n` if it has none.
fn line_end(line: &str) -> &'static str {
    if line.ends_with("\r\n") { "\r\n" } else { "\n" }
}
