//! Trace contexts (W3C) of requests: from `_meta`, else from the headers of HTTP.
//!
//! The trace goes on under a span of our own: the servers behind the gateway see the caller's trace
//! id and our span id, never the caller's span.

use http::HeaderMap;
use ring::rand::{SecureRandom as _, SystemRandom};
use trunkline_wire::{Json, ObjectWriter};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// The longest `tracestate` that is passed on, as the specification suggests.
const MAX_STATE: usize = 512;

/// A position in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TraceContext {
    trace_id: String,
    flags: String,
    state: Option<String>,
}

/// Adds the trace context of the headers to `_meta`, unless it has one of its own.
pub(crate) fn adopt_headers(params: Option<Json>, headers: &HeaderMap) -> Option<Json> {
    let header = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let Some(parent) = header(PARENT) else {
        return params;
    };
    let state = header(STATE);
    let meta = params.as_ref().and_then(|params| params.get("_meta"));
    let has_own = meta.as_ref().is_some_and(|meta| meta.get(PARENT).is_some());
    let is_object = params.as_ref().is_none_or(Json::is_object);
    if has_own || !is_object || parse(&parent, None).is_none() {
        return params;
    }
    let length = params.as_ref().map_or(0, |params| params.as_str().len());
    let mut object = ObjectWriter::with_capacity(length + 128);
    if let Some(params) = &params {
        params.members(|key, value| {
            if key != "_meta" {
                object.raw(key, &value);
            }
        });
    }
    object.object("_meta", |object| {
        if let Some(meta) = &meta {
            meta.members(|key, value| {
                if key != STATE {
                    object.raw(key, &value);
                }
            });
        }
        object.string(PARENT, &parent);
        if let Some(state) = &state {
            object.string(STATE, state);
        }
    });
    Some(object.finish())
}

/// Writes a span of our own to the `_meta` for a server, if the request belongs to a trace.
pub(crate) fn write_span(meta: &Json, out: &mut ObjectWriter) {
    let text = |key| Some(meta.get(key)?.as_string()?.to_string());
    let context = text(PARENT).and_then(|parent| parse(&parent, text(STATE)));
    let Some((context, span)) = context.zip(span_id()) else {
        return;
    };
    tracing::debug!(target: "trunkline", trace = context.trace_id, span, "request of a trace");
    let parent = format!("00-{}-{span}-{}", context.trace_id, context.flags);
    out.string(PARENT, &parent);
    if let Some(state) = &context.state {
        out.string(STATE, state);
    }
}

/// Parses `version-traceid-spanid-flags`. Later versions may add fields.
fn parse(parent: &str, state: Option<String>) -> Option<TraceContext> {
    let mut fields = parent.split('-');
    let mut field = |length| {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let field = fields.next()?;
        (field.len() == length && field.bytes().all(hex)).then_some(field)
    };
    let (version, trace_id, span_id, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    let zero = |id: &str| id.bytes().all(|byte| byte == b'0');
    let more = fields.next().is_some();
    if version == "ff" || zero(trace_id) || zero(span_id) || (version == "00" && more) {
        return None;
    }
    let visible = |byte: u8| (0x20..0x7f).contains(&byte);
    Some(TraceContext {
        trace_id: trace_id.to_owned(),
        flags: flags.to_owned(),
        state: state.filter(|state| state.len() <= MAX_STATE && state.bytes().all(visible)),
    })
}

fn span_id() -> Option<String> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let id = u64::from_be_bytes(bytes);
    // All zeros is no span.
    Some(format!("{:016x}", id.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    /// Returns the `_meta` for a server.
    fn upstream(meta: &str) -> Option<Json> {
        let mut out = ObjectWriter::new();
        write_span(&json(meta), &mut out);
        let span = out.finish();
        (span.as_str() != "{}").then_some(span)
    }

    #[test]
    fn the_trace_continues_under_our_own_span() {
        let meta =
            format!(r#"{{"a":1,"traceparent":"00-{TRACE}-{CALLER}-01","tracestate":"v=1"}}"#);
        let meta = upstream(&meta).unwrap();
        assert_eq!(meta.field::<String>(STATE).as_deref(), Some("v=1"));
        let ours: String = meta.field(PARENT).unwrap();
        assert!(ours.starts_with(&format!("00-{TRACE}-")), "{ours}");
        assert!(ours.ends_with("-01") && !ours.contains(CALLER), "{ours}");
        assert!(parse(&ours, None).is_some());
        assert_eq!(upstream(r#"{"a":1}"#), None);
    }

    #[test]
    fn headers_count_where_the_body_has_no_context() {
        const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";
        let sent = headers(&[("traceparent", OTHER), ("tracestate", "v=2")]);
        let params = adopt_headers(Some(json(r#"{"name":"x","_meta":{"a":1}}"#)), &sent);
        let expected = format!(
            r#"{{"name":"x","_meta":{{"a":1,"traceparent":"{OTHER}","tracestate":"v=2"}}}}"#
        );
        assert_eq!(params.unwrap().as_str(), expected);
        let own = json(r#"{"_meta":{"traceparent":"x"}}"#);
        assert_eq!(adopt_headers(Some(own.clone()), &sent), Some(own));
        let none = adopt_headers(None, &sent).unwrap();
        assert_eq!(
            none.get("_meta")
                .unwrap()
                .field::<String>(PARENT)
                .as_deref(),
            Some(OTHER)
        );
        let bad = headers(&[("traceparent", "nonsense")]);
        assert_eq!(adopt_headers(None, &bad), None);
        assert_eq!(adopt_headers(None, &HeaderMap::new()), None);
    }

    #[test]
    fn an_invalid_context_is_not_passed_on() {
        for parent in [
            "",
            "00",
            "zz-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(
                upstream(&format!(r#"{{"traceparent":"{parent}"}}"#)),
                None,
                "{parent}"
            );
        }
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        assert!(parse(later, None).is_some());
    }
}
