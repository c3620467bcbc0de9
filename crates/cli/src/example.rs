//! Example calls made from a tool's schema.

use serde_json::{Map, Value, json};

use crate::output::harmless;
use crate::schema::{Document, Schema};
use crate::standing::quoted;

/// The maximum depth of nested objects.
const MAX_DEPTH: usize = 5;

/// The maximum number of array elements.
const MAX_ITEMS: u64 = 5;

/// Returns a command that calls a tool with all required arguments.
pub(crate) fn call_line(server: Option<&str>, tool: &str, name: &str, schema: Value) -> String {
    let plain = |word: &str| !word.starts_with('-') && harmless(word) == word;
    let called = match server {
        Some(server) if plain(server) && plain(tool) => {
            format!("{} {}", quoted(server), quoted(tool))
        }
        _ => quoted(name),
    };
    let document = Document::new(schema);
    let schema = document.schema();
    let arguments = object(schema, 0);
    let of = |name: &str| {
        let members = schema.members().into_iter();
        let mut named = members.filter(|member| member.name == name);
        named.next().map(|member| member.schema)
    };
    let words: Option<Vec<String>> = arguments
        .iter()
        .map(|(name, value)| word(name, value, of(name)))
        .collect();
    let mut line = format!("trunkline call {called}");
    if let Some(words) = words {
        for word in &words {
            line.push(' ');
            line.push_str(word);
        }
    } else {
        // A name could pass for a flag or contain `=`.
        line += " --json-args ";
        line += &quoted(&Value::Object(arguments).to_string());
    }
    line
}

/// Formats an argument as `key=value` or `key:=json`; `None` if its name does not allow that.
fn word(name: &str, value: &Value, schema: Option<Schema>) -> Option<String> {
    if name.is_empty() || name.starts_with('-') || name.ends_with(':') || name.contains('=') {
        return None;
    }
    let types = schema.map_or_else(Vec::new, Schema::types_and_alternatives);
    let takes_text = types.is_empty() || types.contains(&"string");
    let plain = match value {
        // `@` would read a file.
        Value::String(text) if takes_text && !text.starts_with('@') => Some(text.clone()),
        Value::Bool(_) if !takes_text && types.contains(&"boolean") => Some(value.to_string()),
        Value::Number(number) if !takes_text => {
            let whole = number.is_i64() || number.is_u64();
            let fits = types.contains(&"number") || (whole && types.contains(&"integer"));
            fits.then(|| value.to_string())
        }
        _ => None,
    };
    Some(match plain {
        Some(plain) => argument(&format!("{name}="), &plain),
        None => argument(&format!("{name}:="), &value.to_string()),
    })
}

/// Quotes a word for the shell where necessary.
fn argument(before: &str, value: &str) -> String {
    let named = before.trim_end_matches([':', '=']);
    if quoted(named) == named && !value.is_empty() {
        format!("{before}{}", quoted(value))
    } else if value.is_empty() && quoted(named) == named {
        before.to_owned()
    } else {
        quoted(&format!("{before}{value}"))
    }
}

/// Returns an object with all required members.
fn object(schema: Schema, depth: usize) -> Map<String, Value> {
    let members = schema.members().into_iter();
    let mut object: Map<String, Value> = members
        .filter(|member| member.required)
        .map(|member| (member.name.to_owned(), value(member.schema, depth + 1)))
        .collect();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            object.insert(name.to_owned(), json!("text"));
        }
    }
    object
}

fn value(schema: Schema, depth: usize) -> Value {
    let first = |key: &str| schema.get(key).and_then(|list| list.get(0));
    let given = schema.get("const").or_else(|| schema.get("default"));
    let given = given
        .or_else(|| first("enum"))
        .or_else(|| first("examples"));
    if let Some(given) = given {
        return given.clone();
    }
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    let types = schema.types();
    if types.is_empty() {
        let mut alternatives = schema.alternatives();
        let is_null = |alternative: &Schema| alternative.types() == ["null"];
        if let Some(alternative) = alternatives.find(|alternative| !is_null(alternative)) {
            return value(alternative, depth + 1);
        }
    }
    let useful = types.iter().copied().find(|one| *one != "null");
    let kind = useful.or_else(|| schema.get("properties").map(|_| "object"));
    match kind {
        Some("integer") => number(schema, true),
        Some("number") => number(schema, false),
        Some("boolean") => json!(true),
        Some("object") => Value::Object(object(schema, depth)),
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let element = schema.items().map(|items| value(items, depth + 1));
            let count = least.clamp(u64::from(element.is_some()), MAX_ITEMS);
            let element = element.unwrap_or_else(|| json!("text"));
            (0..count).map(|_| element.clone()).collect()
        }
        None if !types.is_empty() => Value::Null,
        _ => json!(text(schema)),
    }
}

fn number(schema: Schema, whole: bool) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let mut number = least.unwrap_or(1.0).max(step.unwrap_or(f64::MIN));
    if let Some(step) = step {
        number = (number / step).ceil() * step;
    }
    if let Some(most) = most {
        number = number.min(most);
    }
    if whole {
        number = number.ceil();
    }
    // Without a fraction for whole numbers.
    serde_json::from_str(&number.to_string()).unwrap_or_else(|_| json!(number))
}

fn text(schema: Schema) -> String {
    let size = |key: &str| schema.get(key).and_then(Value::as_u64);
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("email") => "ada@example.com",
        Some("uri" | "url") => "https://example.com",
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
        Some("hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        _ => "text",
    };
    let least = usize::try_from(size("minLength").unwrap_or(0).min(100)).unwrap_or(0);
    let most = usize::try_from(size("maxLength").unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let long = text.len().max(least).min(most);
    text.chars().cycle().take(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_has_all_required_arguments() {
        let one = |schema: Value| json!({"type": "object", "properties": {"p": schema}, "required": ["p"]});
        for (schema, words) in [
            (json!({"type": "object"}), ""),
            (json!({"properties": {"p": {"type": "string"}}}), ""),
            (json!({"required": ["q"]}), " q=text"),
            (one(json!({"type": "string"})), " p=text"),
            // `p=@/etc/hosts` would read the file.
            (
                one(json!({"type": "string", "default": "@/etc/hosts"})),
                " p:='\"@/etc/hosts\"'",
            ),
            (
                one(json!({"type": "string", "format": "email"})),
                " p=ada@example.com",
            ),
            (one(json!({"type": "string", "minLength": 6})), " p=textte"),
            (one(json!({"type": "integer", "minimum": 3})), " p=3"),
            (
                one(json!({"type": "number", "exclusiveMinimum": 0.5})),
                " p=1.5",
            ),
            (one(json!({"type": "integer", "multipleOf": 7})), " p=7"),
            (one(json!({"type": "boolean"})), " p=true"),
            (one(json!({"enum": [2, 3]})), " p:=2"),
            (one(json!({"type": "string", "enum": ["a b"]})), " p='a b'"),
            (one(json!({"type": ["null", "integer"]})), " p=1"),
            (
                one(json!({"type": ["string", "integer"], "default": 5})),
                " p:=5",
            ),
            (
                one(json!({"anyOf": [{"type": "null"}, {"type": "number"}]})),
                " p=1",
            ),
            (
                one(json!({"type": "array", "items": {"type": "string"}})),
                " p:='[\"text\"]'",
            ),
            (one(json!({"type": "array"})), " p:='[]'"),
            (
                one(
                    json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}),
                ),
                " p:='{\"x\":1}'",
            ),
            (
                json!({"properties": {"-p": {}}, "required": ["-p"]}),
                " --json-args '{\"-p\":\"text\"}'",
            ),
            (
                json!({"properties": {"a b": {}}, "required": ["a b"]}),
                " 'a b=text'",
            ),
        ] {
            let line = call_line(Some("s 1"), "t", "mcp__s_1__t", schema.clone());
            assert_eq!(line, format!("trunkline call 's 1' t{words}"), "{schema}");
        }
        for (server, tool, name) in [
            (Some("-s"), "t", "mcp___s__t"),
            (None, "ToolSearch", "ToolSearch"),
        ] {
            let line = call_line(server, tool, name, json!({}));
            assert_eq!(line, format!("trunkline call {name}"));
        }
    }
}
