//! Tests that the JSON Schema and the loader agree.
//!
//! The validator here knows the keywords that our schema uses, and fails on any other.

use serde_json::{Value, json};
use trunkline_config::{Layout, Loader, Severity, json_schema};

/// Returns whether a value matches a schema.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let keywords = schema.as_object().expect("a schema is an object");
    keywords.iter().all(|(keyword, wanted)| {
        let all = |list: &Value| list.as_array().expect("a list").clone();
        let known = |name: &String| schema["properties"].get(name).is_some();
        let object = value.as_object();
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#'));
                let target = root.pointer(pointer.expect("a reference into the schema"));
                valid(root, target.expect("something to refer to"), value)
            }
            "type" => match wanted {
                Value::String(name) => is(name, value),
                several => all(several)
                    .iter()
                    .any(|name| is(name.as_str().unwrap(), value)),
            },
            "enum" => all(wanted).contains(value),
            "const" => wanted == value,
            "not" => !valid(root, wanted, value),
            "anyOf" => all(wanted).iter().any(|schema| valid(root, schema, value)),
            "required" => object.is_none_or(|object| {
                let names = all(wanted);
                names
                    .iter()
                    .all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "properties" => object.is_none_or(|object| {
                let mut members = object.iter();
                members.all(|(name, member)| {
                    wanted
                        .get(name)
                        .is_none_or(|schema| valid(root, schema, member))
                })
            }),
            "additionalProperties" => object.is_none_or(|object| {
                let mut others = object.iter().filter(|(name, _)| !known(name));
                others.all(|(_, member)| valid(root, wanted, member))
            }),
            "propertyNames" => object
                .is_none_or(|object| object.keys().all(|name| valid(root, wanted, &json!(name)))),
            "items" => value
                .as_array()
                .is_none_or(|items| items.iter().all(|item| valid(root, wanted, item))),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value
                .as_f64()
                .is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap()),
            "pattern" => {
                let start = wanted.as_str().and_then(|text| text.strip_prefix('^'));
                let start = start.filter(|text| !text.contains(['\\', '[', '(', '*', '$', '.']));
                let start = start.expect("a pattern that is only a beginning");
                value.as_str().is_none_or(|text| text.starts_with(start))
            }
            other => panic!("the validator does not know the keyword {other:?}"),
        }
    })
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the validator does not know the type {other:?}"),
    }
}

/// Returns the loader's errors about a file.
fn problems(file: &Value) -> Vec<String> {
    let loader = Loader::new(Layout::under("/nowhere"), "/nowhere").strict(true);
    let set = loader.mcp_config([file.to_string()]).load(&[]);
    let errors = set.diagnostics.iter();
    let errors = errors.filter(|problem| problem.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}

fn check(file: &Value, good: bool) {
    let schema = json_schema();
    assert_eq!(
        valid(&schema, &schema, file),
        good,
        "the schema about {file}"
    );
    let problems = problems(file);
    assert_eq!(
        problems.is_empty(),
        good,
        "the loader about {file}: {problems:?}"
    );
}

#[test]
fn good_files_are_accepted() {
    check(&json!({"mcpServers": {}}), true);
    check(
        &json!({"$schema": "./mcp.schema.json", "mcpServers": {}, "other": 1}),
        true,
    );
    for entry in [
        json!({"command": "npx"}),
        json!({"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "${A:-b}"}, "cwd": "/"}),
        json!({"url": "https://example.com/mcp"}),
        json!({"type": "http", "url": "https://example.com/mcp", "headers": {"X": "y"}, "headersHelper": "./h"}),
        json!({"type": "streamable-http", "url": "https://example.com/mcp", "oauth": {
            "clientId": "c", "callbackPort": 8080, "authServerMetadataUrl": "https://a.example/m", "scopes": "a b", "xaa": true}}),
        json!({"type": "sse", "url": "https://example.com/sse", "oauth": {"scopes": ["a", "b"]}}),
        json!({"type": "ws", "url": "wss://example.com/", "tls": {"ca": "ca.pem", "cert": "c.pem", "key": "k.pem"}}),
        json!({"type": "sse-ide", "url": "http://localhost:1/sse", "ideName": "VS Code"}),
        json!({"type": "ws-ide", "url": "ws://localhost:1/", "authToken": "t"}),
        json!({"type": "sdk"}),
        json!({"type": "claudeai-proxy", "url": "https://example.com/", "id": "mcpsrv_1"}),
        json!({"command": "x", "timeout": 0, "connectTimeout": 5000, "alwaysLoad": true, "disabled": false}),
        json!({"command": "x", "tools": {"allow": ["read_*"], "deny": []}, "sandbox": {"network": "none"}}),
        json!({"command": "x", "sandbox": true, "unknown": {"kept": 1}}),
    ] {
        check(&json!({"mcpServers": {"a": entry}}), true);
    }
}

#[test]
fn wrong_files_are_rejected() {
    check(&json!({"servers": {}}), false);
    check(&json!({"mcpServers": []}), false);
    check(&json!({"mcpServers": {"": {"command": "x"}}}), false);
    check(
        &json!({"mcpServers": {"workspace": {"command": "x"}}}),
        false,
    );
    for entry in [
        json!({}),
        json!("npx"),
        json!({"args": ["x"]}),
        json!({"type": "smoke-signal", "url": "https://example.com/"}),
        json!({"command": ["npx", "-y"]}),
        json!({"command": "x", "args": "-y"}),
        json!({"command": "x", "args": [1]}),
        json!({"command": "x", "env": {"A": 1}}),
        json!({"command": "x", "timeout": -1}),
        json!({"command": "x", "timeout": "1 s"}),
        json!({"command": "x", "disabled": "yes"}),
        json!({"command": "x", "tools": ["a"]}),
        json!({"command": "x", "tools": {"allow": "a"}}),
        json!({"url": 5}),
        json!({"url": "https://example.com/", "headers": ["X: y"]}),
        json!({"url": "https://example.com/", "oauth": {"callbackPort": 70000}}),
        json!({"url": "https://example.com/", "oauth": {"authServerMetadataUrl": "http://a.example/"}}),
        json!({"url": "https://example.com/", "oauth": {"scopes": 1}}),
        json!({"url": "https://example.com/", "tls": {"ca": 1}}),
    ] {
        check(&json!({"mcpServers": {"a": entry}}), false);
    }
}
