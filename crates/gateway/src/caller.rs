//! Who makes a request, and what it can be asked: taken from the session (legacy) or from the
//! request itself (modern).

use trunkline_wire::version::{Era, LEGACY, MODERN};
use trunkline_wire::{Json, ObjectWriter, RpcError};

use crate::errors::invalid_params;
use crate::logging::Level;
use crate::trace;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What a client can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) form: bool,
    pub(crate) url: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

impl Capabilities {
    /// Reads the object that a client declares. An empty `elicitation` means forms.
    pub(crate) fn from_json(declared: Option<&Json>) -> Self {
        let feature = |name: &str| {
            let feature = declared.and_then(|declared| declared.get(name));
            feature.filter(Json::is_object)
        };
        let has = |feature: &Json, mode: &str| feature.get(mode).is_some_and(|it| it.is_object());
        let elicitation = feature("elicitation");
        let url = elicitation.as_ref().is_some_and(|it| has(it, "url"));
        let form = elicitation.is_some_and(|it| has(&it, "form") || !url);
        Self {
            form,
            url,
            sampling: feature("sampling").is_some(),
            roots: feature("roots").is_some(),
        }
    }

    /// The object for servers: what they may ask during the request. Roots are not in it, because
    /// the gateway answers for clients that have none.
    fn to_json(self) -> Json {
        let mut object = ObjectWriter::new();
        if self.form || self.url {
            object.object("elicitation", |modes| {
                for (name, _) in [("form", self.form), ("url", self.url)]
                    .iter()
                    .filter(|it| it.1)
                {
                    modes.raw(name, &Json::empty_object());
                }
            });
        }
        if self.sampling {
            object.raw("sampling", &Json::empty_object());
        }
        object.finish()
    }
}

/// The caller of one request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) era: Era,
    pub(crate) capabilities: Capabilities,
    /// The minimum level of log messages; `None` for none, or for the client's default.
    pub(crate) level: Option<Level>,
    pub(crate) progress_token: Option<Json>,
    /// The `_meta` of the request.
    pub(crate) meta: Option<Json>,
    /// The `inputResponses` of the request: answers to questions that the client expects.
    pub(crate) inputs: Option<Json>,
}

impl Caller {
    /// Reads the caller of a modern request. `None` if the request is not a modern one.
    pub(crate) fn modern(params: Option<&Json>) -> Result<Option<Self>, RpcError> {
        let Some(meta) = params.and_then(|params| params.get("_meta")) else {
            return Ok(None);
        };
        let Some(version) = meta.field::<String>(VERSION) else {
            return Ok(None);
        };
        if !MODERN.contains(&version.as_str()) {
            return Err(unsupported_version(&version));
        }
        let level = match meta.get(trunkline_wire::client::LOG_LEVEL) {
            None => None,
            Some(level) => Some(Level::from_json(&level)?),
        };
        let declared = meta.get(CAPABILITIES).filter(Json::is_object);
        let Some(declared) = declared else {
            let text = format!("missing _meta field \"{CAPABILITIES}\"");
            return Err(invalid_params(text));
        };
        Ok(Some(Self {
            era: Era::Modern,
            capabilities: Capabilities::from_json(Some(&declared)),
            level,
            progress_token: progress_token(&meta),
            meta: Some(meta),
            inputs: params.and_then(|params| params.get("inputResponses")),
        }))
    }

    /// The caller of a request in a legacy session.
    pub(crate) fn legacy(
        capabilities: Capabilities,
        level: Option<Level>,
        params: Option<&Json>,
    ) -> Self {
        let meta = params.and_then(|params| params.get("_meta"));
        Self {
            era: Era::Legacy,
            capabilities,
            level,
            progress_token: meta.as_ref().and_then(progress_token),
            meta,
            inputs: None,
        }
    }

    /// The `_meta` for the server: the client's, without what belongs to the client's request
    /// alone, and with its capabilities, the level of log messages and a span of our own.
    pub(crate) fn upstream_meta(&self) -> Json {
        let mut meta = ObjectWriter::new();
        meta.raw(CAPABILITIES, &self.capabilities.to_json());
        if let Some(given) = &self.meta {
            given.members(|key, value| {
                let reserved = key.starts_with("io.modelcontextprotocol/");
                let traces = matches!(key, "traceparent" | "tracestate" | "baggage");
                if key != "progressToken" && !reserved && !traces {
                    meta.raw(key, &value);
                }
            });
            trace::write_span(given, &mut meta);
        }
        if let Some(level) = self.level {
            meta.string(trunkline_wire::client::LOG_LEVEL, level.name());
        }
        meta.finish()
    }
}

/// Progress tokens are strings or numbers; nothing else is echoed.
fn progress_token(meta: &Json) -> Option<Json> {
    let token = meta.get("progressToken")?;
    let first = token.as_str().bytes().next()?;
    matches!(first, b'"' | b'-' | b'0'..=b'9').then_some(token)
}

fn unsupported_version(requested: &str) -> RpcError {
    let supported: Vec<_> = MODERN.iter().chain(LEGACY).collect();
    RpcError {
        data: Some(Json::from(
            serde_json::json!({"supported": supported, "requested": requested}),
        )),
        ..RpcError::new(
            RpcError::UNSUPPORTED_VERSION,
            "unsupported protocol version",
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn capabilities_are_read_from_what_a_client_declares() {
        let of = |value: Value| {
            let Capabilities {
                form,
                url,
                sampling,
                roots,
            } = Capabilities::from_json(Some(&value.into()));
            [form, url, sampling, roots].map(u8::from)
        };
        for (declared, expected) in [
            (json!({}), [0, 0, 0, 0]),
            (json!({"elicitation": {}}), [1, 0, 0, 0]),
            (json!({"elicitation": {"form": {}}}), [1, 0, 0, 0]),
            (json!({"elicitation": {"url": {}}}), [0, 1, 0, 0]),
            (
                json!({"elicitation": {"url": {}, "form": {}}}),
                [1, 1, 0, 0],
            ),
            (
                json!({"sampling": {}, "roots": {"listChanged": true}}),
                [0, 0, 1, 1],
            ),
            (json!({"sampling": true, "elicitation": null}), [0, 0, 0, 0]),
        ] {
            assert_eq!(of(declared.clone()), expected, "{declared}");
        }
        assert_eq!(Capabilities::from_json(None), Capabilities::default());
    }

    #[test]
    fn a_request_is_modern_if_it_names_its_version() {
        let modern = |meta: Value| {
            let mut meta = meta;
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let params = Json::from(json!({ "_meta": meta }));
            Caller::modern(Some(&params)).map(|caller| caller.is_some())
        };
        let version = "io.modelcontextprotocol/protocolVersion";
        assert_eq!(modern(json!({version: "2026-07-28"})), Ok(true));
        assert_eq!(modern(json!({"progressToken": 1})), Ok(false));
        assert_eq!(
            Caller::modern(None).map(|caller| caller.is_some()),
            Ok(false)
        );
        let error = modern(json!({version: "1900-01-01"})).unwrap_err();
        assert_eq!(error.code, -32022);
        assert_eq!(
            error.data.unwrap().get("requested").unwrap().as_str(),
            r#""1900-01-01""#
        );
        let bare = Json::from(json!({"_meta": {version: "2026-07-28"}}));
        assert_eq!(Caller::modern(Some(&bare)).unwrap_err().code, -32602);
        let level = json!({version: "2026-07-28", "io.modelcontextprotocol/logLevel": "loud"});
        assert_eq!(modern(level).unwrap_err().code, -32602);
    }

    #[test]
    fn only_what_is_for_the_server_is_passed_on() {
        let params = Json::from(json!({"_meta": {
            "progressToken": "t", "vendor/x": 1, "traceparent": "00-a-b-01",
            "io.modelcontextprotocol/clientInfo": {},
        }}));
        let caller = Caller::legacy(Capabilities::default(), None, Some(&params));
        assert_eq!(caller.progress_token.as_ref().unwrap().as_str(), r#""t""#);
        assert_eq!(
            caller.upstream_meta().as_str(),
            r#"{"io.modelcontextprotocol/clientCapabilities":{},"vendor/x":1}"#
        );
        let plain = Json::from(json!({"_meta": {"progressToken": [1]}}));
        let caller = Caller::legacy(Capabilities::default(), None, Some(&plain));
        assert!(caller.progress_token.is_none());
    }
}
