//! Modern requests (2026-07-28): which ones they are, and their headers against their body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, StatusCode};
use trunkline_wire::version::{LEGACY, MODERN};
use trunkline_wire::{Json, ObjectWriter, RpcError};

use super::guard::single;

pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Returns the protocol version in `_meta`.
fn meta_version(params: Option<&Json>) -> Option<String> {
    let version = params?.get("_meta")?.get(META_VERSION)?.as_string()?;
    Some(version.to_string())
}

/// Returns true if the header names a version that is not legacy.
pub(super) fn is_modern_header(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    version.is_some_and(|version| !LEGACY.iter().any(|known| version == known))
}

/// Returns true if a request follows the modern rules.
pub(super) fn is_modern(headers: &HeaderMap, params: Option<&Json>) -> bool {
    is_modern_header(headers) || meta_version(params).is_some()
}

/// Checks a modern request: its headers against its body, and its version.
pub(super) fn check(
    headers: &HeaderMap,
    method: &str,
    params: Option<&Json>,
) -> Result<(), RpcError> {
    let version = header(headers, &PROTOCOL_VERSION)?;
    match meta_version(params) {
        None if !MODERN.contains(&&*version) => return Err(unsupported(&version)),
        None => {
            let text = format!("missing _meta field \"{META_VERSION}\"");
            return Err(RpcError::new(RpcError::INVALID_PARAMS, text));
        }
        Some(body) if body != version => {
            return Err(mismatch(&PROTOCOL_VERSION, &version, &body));
        }
        Some(body) if !MODERN.contains(&&*body) => return Err(unsupported(&body)),
        Some(_) => {}
    }
    crate::caller::Caller::modern(params)?;
    let sent = header(headers, &METHOD)?;
    if sent != method {
        return Err(mismatch(&METHOD, &sent, method));
    }
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let Some(name) = params.and_then(|params| params.get(key)?.as_string()) else {
        // The method itself reports what its parameters lack.
        return Ok(());
    };
    let sent = header(headers, &NAME)?;
    if *sent != *name {
        return Err(mismatch(&NAME, &sent, &name));
    }
    Ok(())
}

/// Returns the HTTP status for the answer to a modern request.
pub(super) fn status(outcome: &Result<Json, RpcError>) -> StatusCode {
    match outcome {
        Err(error) if error.code == RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        Err(error) if error.is_modern() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Returns a required header, decoded.
fn header(headers: &HeaderMap, name: &HeaderName) -> Result<String, RpcError> {
    let problem = |what| {
        let text = format!("Header mismatch: the header {name} {what}");
        RpcError::new(RpcError::HEADER_MISMATCH, text)
    };
    if !headers.contains_key(name) {
        return Err(problem("is missing"));
    }
    let value = single(headers, name).ok_or_else(|| problem("is repeated"))?;
    let value = value.to_str().ok().and_then(decode);
    value.ok_or_else(|| problem("is malformed"))
}

/// Decodes `=?base64?…?=`.
pub(super) fn decode(value: &str) -> Option<String> {
    let encoded = value.strip_prefix("=?base64?");
    match encoded.and_then(|encoded| encoded.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

fn mismatch(name: &HeaderName, sent: &str, body: &str) -> RpcError {
    let text =
        format!("Header mismatch: {name} header value '{sent}' does not match body value '{body}'");
    RpcError::new(RpcError::HEADER_MISMATCH, text)
}

/// The error for a version that is not supported, with those that are.
pub(super) fn unsupported(requested: &str) -> RpcError {
    let supported: Vec<&str> = MODERN.iter().chain(LEGACY).copied().collect();
    let mut data = ObjectWriter::new();
    data.value("supported", &supported.into());
    data.string("requested", requested);
    RpcError {
        code: RpcError::UNSUPPORTED_VERSION,
        message: format!("unsupported protocol version \"{requested}\""),
        data: Some(data.finish()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::try_from(*name).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn params(version: &str, rest: &str) -> Json {
        let meta = format!(
            r#"{{"{META_VERSION}":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        );
        let text = format!(r#"{{"_meta":{meta}{rest}}}"#);
        Json::parse(text).unwrap()
    }

    #[test]
    #[expect(clippy::type_complexity, reason = "a table")]
    fn a_modern_request_must_agree_with_its_headers() {
        const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
        const LIST: (&str, &str) = ("mcp-method", "tools/list");
        const CALL: (&str, &str) = ("mcp-method", "tools/call");
        let named = r#","name":"Grüße""#;
        let encoded = ("mcp-name", "=?base64?R3LDvMOfZQ==?=");
        let cases: &[(&[(&str, &str)], &str, &str, &str, Option<i64>)] = &[
            (&[VERSION, LIST], "tools/list", "2026-07-28", "", None),
            (&[LIST], "tools/list", "2026-07-28", "", Some(-32020)),
            (&[VERSION], "tools/list", "2026-07-28", "", Some(-32020)),
            (
                &[VERSION, VERSION, LIST],
                "tools/list",
                "2026-07-28",
                "",
                Some(-32020),
            ),
            (
                &[VERSION, CALL],
                "tools/list",
                "2026-07-28",
                "",
                Some(-32020),
            ),
            (
                &[VERSION, LIST],
                "tools/list",
                "2025-11-25",
                "",
                Some(-32020),
            ),
            (
                &[("mcp-protocol-version", "2099-01-01"), LIST],
                "tools/list",
                "2099-01-01",
                "",
                Some(-32022),
            ),
            (
                &[VERSION, CALL, encoded],
                "tools/call",
                "2026-07-28",
                named,
                None,
            ),
            (
                &[VERSION, CALL],
                "tools/call",
                "2026-07-28",
                named,
                Some(-32020),
            ),
            (
                &[VERSION, CALL, ("mcp-name", "other")],
                "tools/call",
                "2026-07-28",
                named,
                Some(-32020),
            ),
            (
                &[VERSION, CALL, ("mcp-name", "=?base64?!?=")],
                "tools/call",
                "2026-07-28",
                named,
                Some(-32020),
            ),
            (&[VERSION, CALL], "tools/call", "2026-07-28", "", None),
        ];
        for (sent, method, version, rest, code) in cases {
            let outcome = check(&headers(sent), method, Some(&params(version, rest)));
            let found = outcome.err().map(|error| error.code);
            assert_eq!(found, *code, "{sent:?} {method} {version} {rest}");
        }
        let without = check(&headers(&[VERSION, LIST]), "tools/list", None);
        assert_eq!(without.unwrap_err().code, RpcError::INVALID_PARAMS);
        let bare = format!(r#"{{"_meta":{{"{META_VERSION}":"2026-07-28"}}}}"#);
        let bare = Json::parse(bare).unwrap();
        let without = check(&headers(&[VERSION, LIST]), "tools/list", Some(&bare));
        assert_eq!(without.unwrap_err().code, RpcError::INVALID_PARAMS);
    }

    #[test]
    fn the_era_follows_from_the_header_or_the_body() {
        let version = |version| headers(&[("mcp-protocol-version", version)]);
        assert!(is_modern(&version("2026-07-28"), None));
        assert!(is_modern(&version("2099-01-01"), None));
        assert!(!is_modern(&version("2025-11-25"), None));
        assert!(!is_modern(&HeaderMap::new(), None));
        assert!(is_modern(
            &HeaderMap::new(),
            Some(&params("2026-07-28", ""))
        ));
    }

    #[test]
    fn an_unsupported_version_is_told_the_supported_ones() {
        let data = unsupported("x").data.unwrap();
        let supported: Vec<String> = data.field("supported").unwrap();
        assert_eq!(supported[0], MODERN[0]);
        assert!(supported.iter().any(|version| version == LEGACY[0]));
        assert_eq!(data.field::<String>("requested").as_deref(), Some("x"));
    }
}
