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
        (several.clone(), ",", Err("needs at least 1 choice")),
        (several, "x", Err("must be some of Red, Green, Blue")),
        (plain, "b", Ok(json!(["b"]))),
        (json!({"type": "object"}), "{\"a\": 1}", Ok(json!({"a": 1}))),
        (
            json!({"type": "object"}),
            "[]",
            Err("must be a JSON object"),
        ),
        (json!({"type": "object"}), "{", Err("must be JSON")),
    ] {
        check(&schema, typed, expected);
    }
    assert_eq!(field(&json!({"type": "string"})).parse("  ").unwrap(), None);
}

#[test]
fn typed_text_becomes_json_where_no_other_kind_fits() {
    for (schema, typed, expected) in [
        (json!(true), "[1]", Ok(json!([1]))),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            "a b",
            Ok(json!("a b")),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            "5",
            Ok(json!("5")),
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            "5",
            Ok(json!(5)),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "a, b",
            Ok(json!(["a", "b"])),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            r#"["a, b"]"#,
            Ok(json!(["a, b"])),
        ),
        (
            json!({"type": "array", "items": {"type": "object"}}),
            "a",
            Err("must be JSON"),
        ),
        (
            json!({"type": "array", "items": {"type": "object"}}),
            "{}",
            Err("must be a JSON array"),
        ),
        (json!({"enum": [1, 2]}), "2", Ok(json!(2))),
        (json!({"enum": [1, 2]}), "3", Err("does not fit its schema")),
        (json!({"enum": ["a", null]}), "a", Ok(json!("a"))),
        (
            json!({"type": "integer", "exclusiveMinimum": 0}),
            "0",
            Err("must be more than 0"),
        ),
        (
            json!({"type": "number", "exclusiveMaximum": 2}),
            "2",
            Err("must be less than 2"),
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            "7",
            Err("must be a multiple of 5"),
        ),
    ] {
        check(&schema, typed, expected);
    }
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
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let schema = format!(
        r#"{{"properties": {{"a": {{"type": "string"}}, "b": {{"x": {deep}}}}}, "required": ["a"]}}"#
    );
    let form = Form::from_schema(&Json::parse(schema).unwrap());
    assert_eq!(form.fields.len(), 2);
    assert!(form.fields[0].required && form.fields[1].kind == FieldKind::Json);
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

#[test]
fn the_input_schema_of_a_tool_is_a_form_too() {
    let schema = json!({
        "$defs": {
            "Level": {"type": "string", "enum": ["low", "high"], "description": "of detail"},
            "Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        },
        "allOf": [{"properties": {"more": {"type": "boolean"}}, "required": ["more"]}],
        "properties": {
            "level": {"$ref": "#/$defs/Level", "title": "How much"},
            "maybe": {"anyOf": [{"$ref": "#/$defs/Level"}, {"type": "null"}], "default": null},
            "wrapped": {"allOf": [{"$ref": "#/$defs/Level"}], "default": "low"},
            "at": {"$ref": "#/$defs/Point"},
            "loop": {"$ref": "#/properties/loop"},
            "lost": {"$ref": "#/$defs/Nothing"},
            "far": {"$ref": "https://example.com/schema"},
            "__proto__": {"type": "string"},
        },
        "required": ["level", "at"],
    });
    let form = Form::from_schema(&schema.into());
    let kinds: Vec<(&str, bool, &str)> = form
        .fields
        .iter()
        .map(|field| {
            let kind = match field.kind {
                FieldKind::Choice { .. } => "choice",
                FieldKind::Json => "json",
                FieldKind::Boolean => "boolean",
                _ => "other",
            };
            (&*field.name, field.required, kind)
        })
        .collect();
    let expected = [
        ("level", true, "choice"),
        ("maybe", false, "choice"),
        ("wrapped", false, "choice"),
        ("at", true, "json"),
        ("loop", false, "json"),
        ("lost", false, "json"),
        ("far", false, "json"),
        ("__proto__", false, "other"),
        ("more", true, "boolean"),
    ];
    assert_eq!(kinds, expected);
    let level = form.field("level").unwrap();
    assert_eq!(level.label(), "How much");
    assert_eq!(level.description.as_deref(), Some("of detail"));
    assert_eq!(Value::from(form.defaults()), json!({"wrapped": "low"}));
    let point = form.field("at").unwrap();
    assert_eq!(point.parse(r#"{"x": 1}"#).unwrap(), Some(json!({"x": 1})));
    let problem = point.parse(r#"{"x": "a"}"#).unwrap_err();
    assert_eq!(problem.problem, "does not fit its schema");
}

#[test]
fn a_field_says_what_it_expects() {
    for (schema, expected) in [
        (json!({"type": "string"}), "text"),
        (
            json!({"type": "string", "minLength": 1}),
            "text of at least 1 character",
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 9}),
            "text of 2 to 9 characters",
        ),
        (
            json!({"type": "string", "maxLength": 9}),
            "text of at most 9 characters",
        ),
        (
            json!({"type": "string", "format": "email"}),
            "email address",
        ),
        (json!({"type": "string", "format": "uri"}), "URI"),
        (json!({"type": "string", "format": "ipv4"}), "ipv4"),
        (json!({"type": "number", "minimum": 0.5}), "number from 0.5"),
        (
            json!({"type": "integer", "maximum": 5}),
            "whole number up to 5",
        ),
        (json!({"type": "boolean"}), "yes or no"),
        (json!({"enum": ["a"]}), "one of the options"),
        (
            json!({"type": "array", "minItems": 2, "maxItems": 2, "items": {"enum": ["a", "b"]}}),
            "any of the options, exactly 2 choices",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "texts separated by commas",
        ),
        (json!({"type": "object"}), "JSON object"),
        (json!({}), "JSON"),
    ] {
        assert_eq!(field(&schema).expects(), expected, "{schema}");
    }
}

#[test]
fn a_value_as_text_parses_to_the_same_value() {
    for (schema, value) in [
        (json!({"type": "string"}), json!("a, b")),
        (json!({"type": "integer"}), json!(-7)),
        (json!({"type": "number"}), json!(0.25)),
        (json!({"type": "boolean"}), json!(false)),
        (json!({"enum": ["a", "b"]}), json!("b")),
        (
            json!({"type": "array", "items": {"enum": ["a", "b"]}}),
            json!(["a", "b"]),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a, b", "c"]),
        ),
        (json!({"type": "object"}), json!({"a": [1]})),
    ] {
        let field = field(&schema);
        let text = field.to_text(&value);
        assert_eq!(field.parse(&text).unwrap(), Some(value), "{text}");
    }
}

#[test]
fn passwords_are_secret() {
    for (schema, secret) in [
        (json!({"type": "string", "format": "password"}), true),
        (json!({"type": "string", "writeOnly": true}), true),
        (json!({"type": "string", "writeOnly": false}), false),
        (json!({"type": "string", "format": "email"}), false),
    ] {
        assert_eq!(field(&schema).is_secret(), secret, "{schema}");
    }
}

#[test]
fn ten_thousand_fields_take_no_time() {
    let properties: serde_json::Map<String, Value> = (0..12_000)
        .map(|n| (format!("f{n}"), json!({"type": "string"})))
        .collect();
    let required: Vec<String> = properties.keys().cloned().collect();
    let schema = json!({"properties": properties, "required": required});
    let begun = std::time::Instant::now();
    let form = Form::from_schema(&schema.into());
    assert_eq!(form.fields.len(), 10_000);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn references_in_circles_are_read_once() {
    let again = vec![json!({"$ref": "#"}); 30];
    let schema = json!({"properties": {"a": {"type": "string"}}, "allOf": again});
    let begun = std::time::Instant::now();
    let form = Form::from_schema(&schema.into());
    assert_eq!(form.fields.len(), 1);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn fields_share_the_definitions_of_their_references() {
    let name = "x".repeat(128 << 10);
    let properties: serde_json::Map<String, Value> = (0..400)
        .map(|n| (format!("f{n}"), json!({"$ref": "#/$defs/Big"})))
        .collect();
    let schema = json!({
        "properties": properties,
        "$defs": {"Big": {"type": "string", "enum": [name, "b"]}},
    });
    let form = Form::from_schema(&schema.into());
    assert_eq!(form.fields.len(), 400);
    let definitions = |at: usize| form.fields[at].definitions.as_ref().unwrap();
    assert!(std::sync::Arc::ptr_eq(definitions(0), definitions(399)));
    // The fields that are too many copies become JSON fields, and are validated all the same.
    let is_choice = |field: &&Field| matches!(field.kind, FieldKind::Choice { .. });
    let choices = form.fields.iter().filter(is_choice).count();
    assert!((100..140).contains(&choices), "{choices}");
    for field in [&form.fields[0], &form.fields[399]] {
        assert!(field.check(&json!("b")).is_ok());
        assert!(field.check(&json!("c")).is_err());
    }
}

#[test]
fn definitions_too_long_for_validation_are_not_kept() {
    let schema = json!({
        "properties": {"a": {"$ref": "#/$defs/Big"}},
        "$defs": {"Big": {"type": "string", "enum": ["x".repeat(1 << 20), "b"]}},
    });
    let form = Form::from_schema(&schema.into());
    let field = &form.fields[0];
    assert!(field.definitions.is_none());
    // The kind of the field still knows the options.
    assert!(field.check(&json!("b")).is_ok());
    assert!(field.check(&json!("c")).is_err());
}
