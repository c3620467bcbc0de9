//! Tests of forms: schema, typed text, values.

use serde_json::json;

use super::*;

fn field(schema: &Value) -> Field {
    let form = json!({"properties": {"f": schema}, "required": ["f"]});
    Form::from_schema(&form.into()).fields.remove(0)
}

#[track_caller]
fn check(schema: &Value, typed: &str, expected: Result<Value, &str>) {
    let found = field(schema).parse(typed);
    let found = found.map(Option::unwrap).map_err(|error| error.problem);
    assert_eq!(found, expected.map_err(str::to_owned), "{schema} {typed:?}");
}

#[test]
fn typed_text_becomes_a_value_of_the_fields_kind() {
    let titled = json!({"type": "string", "oneOf": [
        {"const": "r", "title": "Red"}, {"const": "g", "title": "Green"},
    ]});
    let named = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]});
    let several = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {
        "anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"},
            {"const": "b", "title": "Blue"}],
    }});
    let plain = json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}});
    for (schema, typed, expected) in [
        (json!({"type": "string"}), " a b ", Ok(json!(" a b "))),
        (json!({"type": ["string", "null"]}), "a", Ok(json!("a"))),
        (json!({"type": "number"}), "1.5", Ok(json!(1.5))),
        (json!({"type": "number"}), "2", Ok(json!(2))),
        (json!({"type": "number"}), "two", Err("must be a number")),
        (json!({"type": "number"}), "inf", Err("must be a number")),
        (json!({"type": "integer"}), "-3", Ok(json!(-3))),
        (
            json!({"type": "integer"}),
            "1.5",
            Err("must be a whole number"),
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            "0",
            Err("must be at least 1"),
        ),
        (
            json!({"type": "number", "maximum": 1.5}),
            "2",
            Err("must be at most 1.5"),
        ),
        (json!({"type": "boolean"}), "Yes", Ok(json!(true))),
        (json!({"type": "boolean"}), "n", Ok(json!(false))),
        (
            json!({"type": "boolean"}),
            "maybe",
            Err("must be yes or no"),
        ),
        (titled.clone(), "g", Ok(json!("g"))),
        (titled.clone(), "green", Ok(json!("g"))),
        (named, "Red", Ok(json!("r"))),
        (titled, "blue", Err("must be one of Red, Green")),
        (several.clone(), "red, g", Ok(json!(["r", "g"]))),
        (several.clone(), "r,g,b", Err("takes at most 2 choices")),
        (several.clone(), ",", Err("needs at least 1 choices")),
        (several, "x", Err("must be some of Red, Green, Blue")),
        (plain, "b", Ok(json!(["b"]))),
        (json!({"type": "object"}), "{\"a\": 1}", Ok(json!({"a": 1}))),
        (
            json!({"type": "object"}),
            "[]",
            Err("does not fit its schema"),
        ),
        (json!({"type": "object"}), "{", Err("must be JSON")),
        (json!(true), "[1]", Ok(json!([1]))),
    ] {
        check(&schema, typed, expected);
    }
    assert_eq!(field(&json!({"type": "string"})).parse("  ").unwrap(), None);
}

#[test]
fn texts_have_lengths_patterns_and_formats() {
    let text = |rest: Value| {
        let mut schema = rest;
        schema["type"] = json!("string");
        schema
    };
    for (schema, typed, problem) in [
        (
            json!({"minLength": 2}),
            "é",
            "must have at least 2 characters",
        ),
        (
            json!({"maxLength": 2}),
            "abc",
            "must have at most 2 characters",
        ),
        (
            json!({"pattern": "^x+$"}),
            "y",
            "must match the pattern ^x+$",
        ),
        (
            json!({"format": "email"}),
            "ada",
            "must be an email address",
        ),
        (json!({"format": "uri"}), "ada", "must be a URI"),
        (
            json!({"format": "date"}),
            "2026-13-01",
            "must be a date, such as 2026-01-31",
        ),
        (
            json!({"format": "date-time"}),
            "2026-01-01",
            "must be a date and time, such as 2026-01-31T12:00:00Z",
        ),
    ] {
        check(&text(schema), typed, Err(problem));
    }
    for (schema, typed) in [
        (json!({"minLength": 2, "maxLength": 2}), "éé"),
        (json!({"pattern": "^x+$"}), "xx"),
        (json!({"format": "email"}), "ada@example.com"),
        (json!({"format": "uri"}), "https://example.com/a"),
        (json!({"format": "date"}), "2026-01-31"),
        (json!({"format": "date-time"}), "2026-01-31T12:00:00Z"),
        (json!({"format": "hostname"}), "not checked"),
    ] {
        check(&text(schema), typed, Ok(json!(typed)));
    }
}

#[test]
fn one_odd_property_does_not_sink_the_form() {
    let schema = json!({"properties": {
        "name": {"type": "string"}, "odd": 7, "nested": {"type": "object"},
        "mixed": {"enum": ["a", 1]}, "list": {"type": "array", "items": {"type": "number"}},
    }});
    let form = Form::from_schema(&schema.into());
    let names: Vec<_> = form.fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["name", "odd", "nested", "mixed", "list"]);
    let odd = form
        .fields
        .iter()
        .filter(|field| field.kind == FieldKind::Json);
    assert_eq!(odd.count(), 4);
    assert!(Form::from_schema(&json!([]).into()).fields.is_empty());
}

#[test]
fn a_form_reports_every_problem_and_adds_defaults() {
    let schema = json!({"properties": {
        "name": {"type": "string", "title": "Na\u{200b}me\n"},
        "age": {"type": "integer", "default": 7},
        "pin": {"type": "integer"},
        "free": {"type": "string"},
    }, "required": ["name", "age", "pin"]});
    let form = Form::from_schema(&schema.into());
    let values = json!({"pin": "hunter2", "more": 1});
    let problems = form.check(values.as_object().unwrap()).unwrap_err();
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["\"Name\" is required", "\"pin\" must be a whole number"]
    );
    let values = json!({"name": "Ada", "pin": 1});
    let checked = form.check(values.as_object().unwrap()).unwrap();
    assert_eq!(
        Value::from(checked),
        json!({"name": "Ada", "pin": 1, "age": 7})
    );
}
