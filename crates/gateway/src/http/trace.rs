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

/// Returns the `params` with our own span in `_meta`, if the request belongs to a trace.
pub(super) fn continue_trace(params: Option<Json>, headers: &HeaderMap) -> Option<Json> {
    let meta = params.as_ref().and_then(|params| params.get("_meta"));
    let Some(context) = find(meta.as_ref(), headers) else {
        return without_trace(params, meta.as_ref());
    };
    let Some(span) = span_id() else {
        return without_trace(params, meta.as_ref());
    };
    let parent = format!("00-{}-{span}-{}", context.trace_id, context.flags);
    tracing::debug!(target: "trunkline", trace = context.trace_id, span, "request of a trace");
    Some(with_meta(params.as_ref(), meta.as_ref(), |object| {
        object.string(PARENT, &parent);
        if let Some(state) = &context.state {
            object.string(STATE, state);
        }
    }))
}

/// Removes an invalid trace context, which must not be passed on.
fn without_trace(params: Option<Json>, meta: Option<&Json>) -> Option<Json> {
    let has_trace = |meta: &Json| meta.get(PARENT).is_some() || meta.get(STATE).is_some();
    if meta.is_some_and(has_trace) {
        return Some(with_meta(params.as_ref(), meta, |_| {}));
    }
    params
}

/// Rewrites `params` with another trace in `_meta`.
fn with_meta(
    params: Option<&Json>,
    meta: Option<&Json>,
    add: impl FnOnce(&mut ObjectWriter),
) -> Json {
    let length = params.map_or(0, |params| params.as_str().len());
    let mut object = ObjectWriter::with_capacity(length + 128);
    if let Some(params) = params {
        params.members(|key, value| {
            if key != "_meta" {
                object.raw(key, &value);
            }
        });
    }
    object.object("_meta", |object| {
        if let Some(meta) = meta {
            meta.members(|key, value| {
                if key != PARENT && key != STATE {
                    object.raw(key, &value);
                }
            });
        }
        add(object);
    });
    object.finish()
}

fn find(meta: Option<&Json>, headers: &HeaderMap) -> Option<TraceContext> {
    let text = |meta: &Json, key| Some(meta.get(key)?.as_string()?.to_string());
    if let Some(meta) = meta
        && let Some(parent) = text(meta, PARENT)
    {
        return parse(&parent, text(meta, STATE));
    }
    let header = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
    parse(&header(PARENT)?, header(STATE))
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

    #[test]
    fn the_trace_continues_under_our_own_span() {
        let parent = format!("00-{TRACE}-{CALLER}-01");
        let of_meta = format!(
            r#"{{"name":"x","_meta":{{"a":1,"traceparent":"{parent}","tracestate":"v=1"}}}}"#
        );
        let other = "00-11111111111111111111111111111111-2222222222222222-00";
        let other = headers(&[("traceparent", other), ("tracestate", "v=2")]);
        let params = continue_trace(Some(json(&of_meta)), &other).unwrap();
        assert_eq!(params.field::<String>("name").as_deref(), Some("x"));
        let meta = params.get("_meta").unwrap();
        assert_eq!(meta.field::<u8>("a"), Some(1));
        assert_eq!(meta.field::<String>(STATE).as_deref(), Some("v=1"));
        let ours: String = meta.field(PARENT).unwrap();
        assert!(ours.starts_with(&format!("00-{TRACE}-")), "{ours}");
        assert!(ours.ends_with("-01") && !ours.contains(CALLER), "{ours}");
        assert!(parse(&ours, None).is_some());

        let params = continue_trace(None, &other).unwrap();
        let meta = params.get("_meta").unwrap();
        let ours: String = meta.field(PARENT).unwrap();
        assert!(ours.starts_with("00-1111"), "{ours}");
        assert_eq!(meta.field::<String>(STATE).as_deref(), Some("v=2"));
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
            let text = format!(r#"{{"_meta":{{"b":2,"traceparent":"{parent}"}}}}"#);
            let params = continue_trace(Some(json(&text)), &HeaderMap::new()).unwrap();
            assert_eq!(params.as_str(), r#"{"_meta":{"b":2}}"#, "{parent}");
        }
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        assert!(parse(later, None).is_some());
    }

    #[test]
    fn without_a_trace_nothing_changes() {
        let params = json(r#"{"name":"x","_meta":{"a":1}}"#);
        let same = continue_trace(Some(params.clone()), &HeaderMap::new());
        assert_eq!(same, Some(params));
        assert_eq!(continue_trace(None, &HeaderMap::new()), None);
    }
}
