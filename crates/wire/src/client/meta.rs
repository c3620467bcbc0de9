//! The `_meta` of every request: empty for a legacy server, the client's identity for a modern one.

use crate::json::{Json, ObjectWriter};
use crate::mcp::Implementation;

/// The member with the minimum level of log messages for a request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Serialized once per connection.
#[derive(Clone, Default)]
pub(super) struct RequestMeta(String);

impl RequestMeta {
    pub(super) fn legacy() -> Self {
        Self::default()
    }

    pub(super) fn modern(version: &str, info: &Implementation, capabilities: &Json) -> Self {
        let mut members = ObjectWriter::new();
        members.string("io.modelcontextprotocol/protocolVersion", version);
        // Two strings always serialize; an empty object would still be a valid request.
        let info = Json::encode(info).unwrap_or_else(|_| Json::empty_object());
        members.raw("io.modelcontextprotocol/clientInfo", &info);
        members.raw("io.modelcontextprotocol/clientCapabilities", capabilities);
        Self(members.into_fragment())
    }

    /// Adds `_meta` to the params, unless it is empty.
    pub(super) fn add_to(
        &self,
        params: &mut ObjectWriter,
        token: Option<u64>,
        more: Option<&Json>,
    ) {
        if self.0.is_empty() && token.is_none() && more.is_none() {
            return;
        }
        params.object("_meta", |meta| {
            if let Some(token) = token {
                meta.integer("progressToken", token);
            }
            meta.fragment(&self.0);
            if let Some(more) = more {
                // Callers must not set members that the protocol defines.
                more.members(|key, value| {
                    let reserved = key.starts_with("io.modelcontextprotocol/");
                    // The level of log messages is the caller's, and only of modern requests.
                    let level = key == LOG_LEVEL && !self.0.is_empty();
                    if key != "progressToken" && (!reserved || level) {
                        meta.raw(key, &value);
                    }
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(meta: &RequestMeta, token: Option<u64>, more: Option<&str>) -> String {
        let mut params = ObjectWriter::new();
        params.string("name", "t");
        let more = more.map(|more| Json::parse(more.to_owned()).unwrap());
        meta.add_to(&mut params, token, more.as_ref());
        params.finish().to_string()
    }

    #[test]
    fn a_legacy_request_carries_only_the_given_metadata() {
        let meta = RequestMeta::legacy();
        assert_eq!(params(&meta, None, None), r#"{"name":"t"}"#);
        assert_eq!(
            params(&meta, Some(4), None),
            r#"{"name":"t","_meta":{"progressToken":4}}"#
        );
        assert_eq!(
            params(&meta, Some(4), Some(r#"{"a":1,"progressToken":9}"#)),
            r#"{"name":"t","_meta":{"progressToken":4,"a":1}}"#
        );
    }

    #[test]
    fn a_modern_request_carries_the_client_identity() {
        let info = Implementation {
            name: "n".into(),
            title: None,
            version: "1".into(),
        };
        let meta = RequestMeta::modern("2026-07-28", &info, &Json::empty_object());
        assert_eq!(
            params(&meta, None, None),
            concat!(
                r#"{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
                r#""io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},"#,
                r#""io.modelcontextprotocol/clientCapabilities":{}}}"#
            )
        );
    }
}
