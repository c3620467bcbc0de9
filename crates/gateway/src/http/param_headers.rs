//! Arguments of a tool that are headers too (`x-mcp-header`), against the body.

use http::{HeaderMap, HeaderName};
use trunkline_wire::mcp::{HeaderParameter, HeaderParameterValue};
use trunkline_wire::{Json, RpcError};

use super::guard::single;
use super::modern::decode;
use crate::client::View;
use crate::gateway::Gateway;

/// Checks the `Mcp-Param-*` headers of a `tools/call`, if the tool declares some. Headers that it
/// does not declare are ignored.
pub(super) fn check(
    headers: &HeaderMap,
    gateway: &Gateway,
    view: &View,
    params: Option<&Json>,
) -> Result<(), RpcError> {
    let Some(name) = params.and_then(|params| params.get("name")?.as_string()) else {
        return Ok(());
    };
    let pool = gateway.host().pool();
    let tool = match view {
        View::All => pool.get(&name),
        View::Server(server) => pool.find(server, &name),
    };
    // A schema with invalid annotations asks for nothing.
    let declared = tool.and_then(|tool| HeaderParameter::all(&tool.tool.input_schema).ok());
    let declared = declared.unwrap_or_default();
    if declared.is_empty() {
        return Ok(());
    }
    let arguments = params.and_then(|params| params.get("arguments"));
    let arguments = arguments.and_then(|arguments| arguments.to_value().ok());
    compare(headers, &declared, &arguments.unwrap_or_default())
}

fn compare(
    headers: &HeaderMap,
    declared: &[HeaderParameter],
    arguments: &serde_json::Value,
) -> Result<(), RpcError> {
    for parameter in declared {
        let name = format!("mcp-param-{}", parameter.header.to_ascii_lowercase());
        let Ok(name) = HeaderName::try_from(name) else {
            continue;
        };
        let refuse = |problem: &str| {
            let text = format!("Header mismatch: the header {name} {problem}");
            Err(RpcError::new(RpcError::HEADER_MISMATCH, text))
        };
        match parameter.header_value(arguments) {
            HeaderParameterValue::Absent if headers.contains_key(&name) => {
                return refuse("has no value in the body");
            }
            // A value that no header can carry is sent without one.
            HeaderParameterValue::Absent | HeaderParameterValue::Unfit => {}
            HeaderParameterValue::Text(_) if !headers.contains_key(&name) => {
                return refuse("is missing");
            }
            HeaderParameterValue::Text(expected) => {
                let Some(sent) = single(headers, &name) else {
                    return refuse("is repeated");
                };
                let Some(sent) = sent.to_str().ok().and_then(decode) else {
                    return refuse("is malformed");
                };
                if sent != expected {
                    return refuse("does not match the body");
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn declared_arguments_must_agree_with_their_headers() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        }});
        let declared = HeaderParameter::all(&schema.into()).unwrap();
        let check = |sent: &[(&'static str, &'static str)], arguments| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (
                    HeaderName::from_static(name),
                    http::HeaderValue::from_static(value),
                )
            };
            let mut headers = HeaderMap::new();
            for (name, value) in sent.iter().map(pair) {
                headers.append(name, value);
            }
            compare(&headers, &declared, &arguments).map_err(|error| error.code)
        };
        let mismatch = Err(RpcError::HEADER_MISMATCH);
        let region = || json!({"region": "eu"});
        assert_eq!(check(&[("mcp-param-region", "eu")], region()), Ok(()));
        assert_eq!(
            check(&[("mcp-param-region", "=?base64?ZXU=?=")], region()),
            Ok(())
        );
        assert_eq!(
            check(&[("mcp-param-region", "=?base64?ZXU?=")], region()),
            mismatch
        );
        assert_eq!(
            check(&[("mcp-param-region", "=?base64?!!!=?=")], region()),
            mismatch
        );
        assert_eq!(check(&[("mcp-param-region", "us")], region()), mismatch);
        assert_eq!(check(&[], region()), mismatch);
        let twice = [("mcp-param-region", "eu"), ("mcp-param-region", "eu")];
        assert_eq!(check(&twice, region()), mismatch);
        for none in [json!({}), json!({"region": null}), json!(null)] {
            assert_eq!(check(&[], none.clone()), Ok(()));
            assert_eq!(check(&[("mcp-param-region", "eu")], none), mismatch);
        }
        assert_eq!(
            check(&[("mcp-param-n", "7")], json!({"deep": {"n": 7}})),
            Ok(())
        );
        assert_eq!(
            check(&[("mcp-param-n", "8")], json!({"deep": {"n": 7}})),
            mismatch
        );
        assert_eq!(check(&[], json!({"deep": {"n": [7]}})), Ok(()));
        assert_eq!(check(&[("mcp-param-other", "x")], json!({})), Ok(()));
    }
}
