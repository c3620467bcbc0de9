//! The `_meta` of every request: empty for a legacy server, the client's identity for a modern one.

use crate::json::{Json, ObjectWriter};
use crate::mcp::Implementation;

/// The member with the minimum level of log messages for a request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The member with what the server may ask of the client.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Serialized once per connection.
#[derive(Clone, Default)]
pub(super) struct RequestMeta {
    /// The members besides the capabilities; empty for a legacy server.
    identity: String,
    capabilities: Option<Json>,
}

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
        Self {
            identity: members.into_fragment(),
            capabilities: Some(capabilities.clone()),
        }
    }

    /// Adds `_meta` to the params, unless it is empty.
    pub(super) fn add_to(
        &self,
        params: &mut ObjectWriter,
        token: Option<u64>,
        more: Option<&Json>,
    ) {
        if self.identity.is_empty() && token.is_none() && more.is_none() {
            return;
        }
        params.object("_meta", |meta| {
            if let Some(token) = token {
                meta.integer("progressToken", token);
            }
            meta.fragment(&self.identity);
            if let Some(ours) = &self.capabilities {
                match more.and_then(|more| more.get(CAPABILITIES)) {
                    Some(theirs) => meta.raw(CAPABILITIES, &narrowed(ours, &theirs)),
                    None => meta.raw(CAPABILITIES, ours),
                };
            }
            if let Some(more) = more {
                // Callers must not set members that the protocol defines.
                more.members(|key, value| {
                    let reserved = key.starts_with("io.modelcontextprotocol/");
                    // The level of log messages is the caller's, and only of modern requests.
                    let level = key == LOG_LEVEL && !self.identity.is_empty();
                    if key != "progressToken" && (!reserved || level) {
                        meta.raw(key, &value);
                    }
                });
            }
        });
    }
}

/// Our capabilities, with only those questions that a request allows: elicitation and sampling.
fn narrowed(ours: &Json, allowed: &Json) -> Json {
    let mut capabilities = ObjectWriter::new();
    ours.members(|key, value| match key {
        "elicitation" | "sampling" => {
            if let Some(allowed) = allowed.get(key).filter(Json::is_object) {
                capabilities.raw(key, &allowed);
            }
        }
        _ => {
            capabilities.raw(key, &value);
        }
    });
    capabilities.finish()
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
    fn a_request_may_allow_fewer_questions_but_not_more() {
        let ours = r#"{"roots":{},"elicitation":{"form":{},"url":{}},"extensions":{}}"#;
        for (allowed, expected) in [
            ("{}", r#"{"roots":{},"extensions":{}}"#),
            (
                r#"{"elicitation":{"form":{}},"sampling":{},"other":{}}"#,
                r#"{"roots":{},"elicitation":{"form":{}},"extensions":{}}"#,
            ),
        ] {
            let parse = |text: &str| Json::parse(text.to_owned()).unwrap();
            let narrowed = narrowed(&parse(ours), &parse(allowed));
            assert_eq!(narrowed.as_str(), expected);
        }
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
