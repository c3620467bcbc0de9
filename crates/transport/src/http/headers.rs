//! The headers of MCP over HTTP and the encoding of their values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::headers_helper::is_reserved;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const PARAMETER_PREFIX: &str = "mcp-param-";
const USER_AGENT_VALUE: &str = concat!("trunkline/", env!("CARGO_PKG_VERSION"));

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// A header of an entry with an invalid name or value. The value is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {0:?} cannot be sent")]
pub struct BadHeader(pub String);

/// The headers of an entry, without those that the protocol sets.
pub(super) fn from_entry(headers: &[(String, String)]) -> Result<HeaderMap, BadHeader> {
    let mut map = HeaderMap::new();
    map.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
    for (name, value) in headers {
        let bad = || BadHeader(name.clone());
        let key = HeaderName::try_from(name.trim()).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        if !is_reserved(&key) {
            map.insert(key, value);
        }
    }
    Ok(map)
}

/// The headers of every POST.
pub(super) fn for_post(entry: &HeaderMap) -> HeaderMap {
    let mut headers = entry.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers
}

/// The headers of every GET.
pub(super) fn for_get(entry: &HeaderMap) -> HeaderMap {
    let mut headers = entry.clone();
    headers.insert(ACCEPT, HeaderValue::from_static(EVENTS));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers
}

/// Whether the `Content-Type` is this media type.
pub(super) fn has_content_type(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let name = value.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(media_type)
    })
}

/// The header name for a parameter; `None` if it is invalid.
pub(super) fn parameter_name(name: &str) -> Option<HeaderName> {
    HeaderName::try_from(format!("{PARAMETER_PREFIX}{}", name.to_ascii_lowercase())).ok()
}

/// A header value: plain where that is safe, otherwise Base64.
pub(super) fn encode_value(value: &str) -> HeaderValue {
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim() == value
        && !looks_encoded;
    let encoded = || HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(value)));
    let header = if plain {
        HeaderValue::try_from(value)
    } else {
        encoded()
    };
    header.unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_ascii_where_possible_and_base64_otherwise() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("a b", "a b"),
            ("", ""),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode_value(value).to_str().unwrap(), header, "{value:?}");
        }
    }

    #[test]
    fn an_entry_cannot_set_headers_of_the_protocol() {
        let of = |name: &str| {
            from_entry(&[(name.to_owned(), "x".to_owned())]).map(|map| map.contains_key(name))
        };
        assert_eq!(of("X-Key"), Ok(true));
        assert_eq!(of("User-Agent"), Ok(true));
        for name in [
            "Host",
            "Content-Length",
            "Mcp-Session-Id",
            "accept",
            "Proxy-Authorization",
        ] {
            assert_eq!(of(name), Ok(false), "{name}");
        }
        assert!(of("a b").is_err());
        assert!(from_entry(&[("a".to_owned(), "x\ny".to_owned())]).is_err());
    }
}
