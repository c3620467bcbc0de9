//! Formats a JSON Schema as text: one member per line, with nested members below.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The maximum depth of nested objects and references.
const MAX_DEPTH: usize = 5;

/// The maximum number of lines of a schema.
const MAX_LINES: usize = 400;

/// The maximum number and total length of enum values.
const MAX_OPTIONS: usize = 20;
const MAX_OPTION_CHARS: usize = 300;

/// The maximum length of a value and of a description.
const MAX_VALUE: usize = 100;
const MAX_DESCRIPTION: usize = 1000;

/// The maximum number of subschemas: mutual references could yield any number.
const MAX_STEPS: usize = 10_000;

/// The maximum number of members of an object.
const MAX_MEMBERS: usize = 1000;

/// A whole schema.
pub(crate) struct Document {
    root: Value,
    /// The number of subschemas that may still be visited.
    steps: Cell<usize>,
}

/// A part of a schema.
#[derive(Clone, Copy)]
pub(crate) struct Schema<'s> {
    document: &'s Document,
    here: &'s Value,
}

/// One member of an object.
pub(crate) struct Member<'s> {
    pub(crate) name: &'s str,
    pub(crate) schema: Schema<'s>,
    pub(crate) required: bool,
}

impl Document {
    pub(crate) fn new(root: Value) -> Self {
        Self {
            root,
            steps: Cell::new(MAX_STEPS),
        }
    }

    pub(crate) fn schema(&self) -> Schema<'_> {
        let schema = Schema {
            document: self,
            here: &self.root,
        };
        schema.resolved()
    }
}

impl<'s> Schema<'s> {
    fn at(self, here: &'s Value) -> Self {
        let steps = &self.document.steps;
        steps.set(steps.get().saturating_sub(1));
        let here = if steps.get() == 0 { &Value::Null } else { here };
        Self { here, ..self }.resolved()
    }

    /// Resolves a reference within the document. Others are never followed.
    fn resolved(self) -> Self {
        let mut here = self.here;
        for _ in 0..MAX_DEPTH {
            let pointer = here.get("$ref").and_then(Value::as_str);
            let root = &self.document.root;
            match pointer.and_then(|pointer| root.pointer(pointer.strip_prefix('#')?)) {
                Some(target) => here = target,
                None => break,
            }
        }
        Self { here, ..self }
    }

    pub(crate) fn get(self, key: &str) -> Option<&'s Value> {
        self.here.get(key)
    }

    fn list(self, key: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
        let list = self.here.get(key).and_then(Value::as_array);
        list.into_iter().flatten()
    }

    /// Returns its alternatives.
    pub(crate) fn alternatives(self) -> impl Iterator<Item = Self> {
        let all = self.list("anyOf").chain(self.list("oneOf"));
        all.map(move |schema| self.at(schema))
    }

    /// Returns the schema of array elements.
    pub(crate) fn items(self) -> Option<Self> {
        let items = self.get("items").filter(|items| items.is_object())?;
        Some(self.at(items))
    }

    /// Returns its types.
    pub(crate) fn types(self) -> Vec<&'s str> {
        let one = self.get("type").and_then(Value::as_str);
        let all = self.list("type").filter_map(Value::as_str);
        one.into_iter().chain(all).collect()
    }

    /// Returns its types and those of its alternatives.
    pub(crate) fn types_and_alternatives(self) -> Vec<&'s str> {
        let alternatives = self.alternatives().flat_map(Self::types);
        self.types().into_iter().chain(alternatives).collect()
    }

    /// Returns the members of an object, including those of `allOf` and alternatives. Members of
    /// alternatives are not required.
    pub(crate) fn members(self) -> Vec<Member<'s>> {
        self.members_to(0)
    }

    fn members_to(self, depth: usize) -> Vec<Member<'s>> {
        let required: HashSet<&str> = self.list("required").filter_map(Value::as_str).collect();
        let is_required = |name: &str| required.contains(name);
        let own = self.get("properties").and_then(Value::as_object);
        let own = own.into_iter().flat_map(Map::iter);
        let mut members: Vec<Member> = own
            .take(MAX_MEMBERS)
            .map(|(name, schema)| Member {
                name,
                schema: self.at(schema),
                required: is_required(name),
            })
            .collect();
        if depth == MAX_DEPTH {
            return members;
        }
        let mut add = |part: Self, counts: bool| {
            for member in part.members_to(depth + 1) {
                let is_new = !members.iter().any(|known| known.name == member.name);
                if is_new && members.len() < MAX_MEMBERS {
                    let required = is_required(member.name) || (counts && member.required);
                    members.push(Member { required, ..member });
                }
            }
        };
        self.list("allOf").for_each(|part| add(self.at(part), true));
        self.alternatives().for_each(|part| add(part, false));
        members
    }

    /// Describes its type in a few words.
    fn kind(self, depth: usize) -> String {
        if let Some(value) = self.get("const") {
            return format!("always {}", shown(value));
        }
        let options: Vec<&Value> = self.list("enum").collect();
        if !options.is_empty() {
            return format!("one of {}", listed(&options));
        }
        if depth == MAX_DEPTH {
            return "…".to_owned();
        }
        let types: Vec<String> = self
            .types()
            .into_iter()
            .map(|one| self.one(one, depth))
            .collect();
        if !types.is_empty() {
            return types.join(" or ");
        }
        let mut kinds: Vec<String> = Vec::new();
        for alternative in self.alternatives() {
            let kind = alternative.kind(depth + 1);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
        match self.list("allOf").next() {
            Some(part) => self.at(part).kind(depth + 1),
            None if self.get("properties").is_some() => "object".to_owned(),
            None => "anything".to_owned(),
        }
    }

    fn one(self, name: &str, depth: usize) -> String {
        let text = |key: &str| self.get(key).and_then(Value::as_str);
        match name {
            "array" => match self.items() {
                Some(items) => format!("array of {}", items.kind(depth + 1)),
                None => "array".to_owned(),
            },
            "string" => match (text("format"), text("pattern")) {
                (Some(format), _) => format!("string ({})", cut(format, MAX_VALUE)),
                (None, Some(pattern)) => format!("string like /{}/", cut(pattern, MAX_VALUE)),
                (None, None) => "string".to_owned(),
            },
            name => cut(name, MAX_VALUE),
        }
    }

    /// Describes its bounds.
    fn bounds(self) -> Option<String> {
        let of = |keys: [&str; 2]| keys.iter().find_map(|key| self.get(key)).map(shown);
        let numbers = [
            of(["minimum", "exclusiveMinimum"]),
            of(["maximum", "exclusiveMaximum"]),
        ];
        let sizes = [of(["minLength", "minItems"]), of(["maxLength", "maxItems"])];
        let (bounds, unit) = match (numbers, sizes) {
            ([None, None], sizes) => (sizes, " long"),
            (numbers, _) => (numbers, ""),
        };
        match bounds {
            [Some(least), Some(most)] => Some(format!("{least} to {most}{unit}")),
            [Some(least), None] => Some(format!("at least {least}{unit}")),
            [None, Some(most)] => Some(format!("at most {most}{unit}")),
            [None, None] => None,
        }
    }
}

/// Formats the members of an object and their members, indented. All of it is foreign text.
pub(crate) fn lines(schema: Schema, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    write_members(schema, indent, 0, &mut lines);
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        lines.push(format!("{:indent$}… (--json shows all of it)", ""));
    }
    lines
}

fn write_members(schema: Schema, indent: usize, depth: usize, lines: &mut Vec<String>) {
    for member in schema.members() {
        if lines.len() > MAX_LINES {
            return;
        }
        let Member {
            name,
            schema,
            required,
        } = member;
        // Any other name could pass for our text.
        let plain = |c: char| c.is_alphanumeric() || "_-.$@".contains(c);
        let name = if name.chars().all(plain) {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("{name:?}"))
        };
        let mut line = format!("{:indent$}{name}  {}", "", schema.kind(0));
        line.extend(schema.bounds().map(|bounds| format!(", {bounds}")));
        if required {
            line += ", required";
        }
        if let Some(default) = schema.get("default") {
            let _ = write!(line, ", by default {}", shown(default));
        }
        lines.push(line);
        let texts = [schema.get("title"), schema.get("description")];
        let told = texts[1].or(texts[0]).and_then(Value::as_str);
        let told = cut(told.unwrap_or_default().trim(), MAX_DESCRIPTION);
        let below = indent + 4;
        lines.extend(told.lines().map(|line| format!("{:below$}| {line}", "")));
        if depth < MAX_DEPTH {
            let inner = schema.items().unwrap_or(schema);
            write_members(inner, below, depth + 1, lines);
        }
    }
    let others = schema.get("additionalProperties");
    if let Some(others) = others.filter(|others| others.is_object()) {
        let kind = schema.at(others).kind(0);
        lines.push(format!("{:indent$}(any other name)  {kind}", ""));
    }
}

/// Formats values up to the limits.
fn listed(options: &[&Value]) -> String {
    let mut text = String::new();
    for (at, option) in options.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let option = shown(option);
        if at == MAX_OPTIONS || text.len() + option.len() > MAX_OPTION_CHARS {
            let rest = options.len() - at;
            return format!("{text}{separator}… ({rest} more)");
        }
        text += separator;
        text += &option;
    }
    text
}

fn shown(value: &Value) -> String {
    cut(&value.to_string(), MAX_VALUE)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &[&str]) {
        let document = Document::new(schema.clone());
        assert_eq!(lines(document.schema(), 2), expected);
    }

    #[test]
    fn a_member_is_told_with_its_type_and_what_holds_for_it() {
        let property = |schema: Value| json!({"properties": {"p": schema}});
        for (schema, expected) in [
            (json!({}), "  p  anything"),
            (json!({"type": "string"}), "  p  string"),
            (json!({"type": ["integer", "null"]}), "  p  integer or null"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "  p  array of string",
            ),
            (
                json!({"type": "string", "format": "uri"}),
                "  p  string (uri)",
            ),
            (
                json!({"type": "string", "pattern": "^a"}),
                "  p  string like /^a/",
            ),
            (
                json!({"enum": ["a", 2], "default": "a"}),
                "  p  one of \"a\", 2, by default \"a\"",
            ),
            (json!({"const": true}), "  p  always true"),
            (
                json!({"anyOf": [{"type": "number"}, {"type": "null"}]}),
                "  p  number or null",
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 50}),
                "  p  integer, 1 to 50",
            ),
            (
                json!({"type": "string", "maxLength": 9}),
                "  p  string, at most 9 long",
            ),
            (json!(true), "  p  anything"),
        ] {
            check(&property(schema), &[expected]);
        }
    }

    #[test]
    fn what_belongs_to_a_member_is_below_it() {
        check(
            &json!({
                "required": ["list"],
                "properties": {
                    "list": {"type": "array", "description": "All\nof them", "items": {"$ref": "#/$defs/one"}},
                    "map": {"type": "object", "additionalProperties": {"type": "number"}},
                },
                "allOf": [{"properties": {"more": {"type": "boolean"}}, "required": ["more"]}],
                "$defs": {"one": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
            }),
            &[
                "  list  array of object, required",
                "      | All",
                "      | of them",
                "      id  integer, required",
                "  map  object",
                "      (any other name)  number",
                "  more  boolean, required",
            ],
        );
    }

    #[test]
    fn no_schema_is_followed_without_end() {
        let parts = vec![json!({"$ref": "#"}); 100];
        for circle in [
            json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]}),
            json!({"properties": {"a": {"anyOf": parts.clone()}}, "anyOf": parts.clone(), "allOf": parts}),
        ] {
            let document = Document::new(circle);
            assert!(lines(document.schema(), 0).len() <= MAX_LINES + 1);
        }
        check(&json!({"$ref": "#"}), &[]);
        let options: Vec<_> = (0..1000).collect();
        let document = Document::new(json!({"properties": {"p": {"enum": options}}}));
        let lines = lines(document.schema(), 0);
        assert!(lines[0].ends_with("19, … (980 more)"), "{lines:?}");
    }
}
