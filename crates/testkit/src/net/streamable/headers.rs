//! Checks the headers of a modern request against its body.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::net::http::Request;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Compares headers and body. `schema` is that of the called tool.
pub(super) fn check(request: &Request, body: &Value, schema: Option<&Value>) -> Result<(), String> {
    let params = &body["params"];
    let version = &params["_meta"][VERSION];
    compare(request, "mcp-protocol-version", version.as_str())?;
    compare(request, "mcp-method", body["method"].as_str())?;
    let name = match body["method"].as_str() {
        Some("tools/call" | "prompts/get") => params["name"].as_str(),
        Some("resources/read") => params["uri"].as_str(),
        Some("tasks/get" | "tasks/update" | "tasks/cancel") => params["taskId"].as_str(),
        _ => return Ok(()),
    };
    compare(request, "mcp-name", name)?;
    match schema {
        Some(schema) => parameters(request, schema, &params["arguments"]),
        None => Ok(()),
    }
}

/// Requires a header, with the value of the body if there is one.
fn compare(request: &Request, header: &str, value: Option<&str>) -> Result<(), String> {
    let sent = request
        .header(header)
        .ok_or_else(|| format!("Header mismatch: {header} is missing"))?;
    let sent = decode(sent).ok_or_else(|| format!("Header mismatch: {header} is malformed"))?;
    match value {
        Some(value) if sent != value => Err(format!(
            "Header mismatch: {header} header value '{sent}' does not match body value '{value}'"
        )),
        _ => Ok(()),
    }
}

fn decode(value: &str) -> Option<String> {
    let coded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match coded {
        None => value.is_ascii().then(|| value.to_owned()),
        Some(coded) => String::from_utf8(STANDARD.decode(coded).ok()?).ok(),
    }
}

/// Checks the arguments that a schema mirrors in headers, at any depth of `properties`.
fn parameters(request: &Request, schema: &Value, arguments: &Value) -> Result<(), String> {
    let Some(properties) = schema["properties"].as_object() else {
        return Ok(());
    };
    for (name, property) in properties {
        let value = &arguments[name];
        if let Some(suffix) = property["x-mcp-header"].as_str() {
            let header = format!("mcp-param-{}", suffix.to_ascii_lowercase());
            let expected = match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            match expected {
                Some(expected) => compare(request, &header, Some(&expected))?,
                None if request.header(&header).is_some() => {
                    return Err(format!(
                        "Header mismatch: {header} has no value in the body"
                    ));
                }
                None => {}
            }
        }
        parameters(request, property, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(headers: &[(&str, &str)], mut params: Value, method: &str) -> Result<(), String> {
        let mut request = Request::default();
        let standard = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        for (name, value) in standard.iter().chain(headers) {
            request.headers.push(((*name).into(), (*value).into()));
        }
        params["_meta"][VERSION] = json!("2026-07-28");
        let body = json!({"method": method, "params": params});
        let schema = json!({"properties": {
            "region": {"x-mcp-header": "Region"},
            "deep": {"properties": {"count": {"x-mcp-header": "Count"}}}}});
        check(&request, &body, Some(&schema))
    }

    #[test]
    fn names_are_compared_decoded() {
        let call = |name: &str, header: &str| {
            verdict(&[("mcp-name", header)], json!({"name": name}), "tools/call").is_ok()
        };
        assert!(call("add", "add"));
        assert!(!call("add", "sub"));
        assert!(call("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="));
        assert!(!call("Hello, 世界", "Hello, 世界"));
        assert!(!call("add", "=?base64?!?="));
        assert!(verdict(&[], json!({"name": "add"}), "tools/call").is_err());
        assert!(verdict(&[], json!({}), "tools/list").is_ok());
        let read = verdict(
            &[("mcp-name", "a://b")],
            json!({"uri": "a://b"}),
            "resources/read",
        );
        assert_eq!(read, Ok(()));
    }

    #[test]
    fn parameters_are_mirrored_exactly_when_they_have_a_value() {
        let call = |headers: &[(&str, &str)], arguments: Value| {
            let headers = [&[("mcp-name", "add")], headers].concat();
            verdict(
                &headers,
                json!({"name": "add", "arguments": arguments}),
                "tools/call",
            )
            .is_ok()
        };
        assert!(call(&[], json!({})));
        assert!(call(&[], json!({"region": null})));
        assert!(!call(&[], json!({"region": "eu"})));
        assert!(!call(&[("mcp-param-region", "eu")], json!({})));
        assert!(call(&[("mcp-param-region", "eu")], json!({"region": "eu"})));
        assert!(!call(
            &[("mcp-param-region", "us")],
            json!({"region": "eu"})
        ));
        assert!(call(
            &[("mcp-param-count", "4")],
            json!({"deep": {"count": 4}})
        ));
        assert!(!call(
            &[("mcp-param-count", "5")],
            json!({"deep": {"count": 4}})
        ));
    }
}
