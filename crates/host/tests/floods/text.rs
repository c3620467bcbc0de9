//! The contents of floods.

use serde_json::{Value, json};
use trunkline_testkit::net::gzip;

/// The length of a large message: decoding one takes longer than a turn of the reader.
const LARGE: usize = 1 << 20;

/// The length of a message just below the limit from which work leaves the runtime.
const MEDIUM: usize = 120 << 10;

/// The repeated part of a flood.
#[derive(Clone, Debug)]
pub(crate) enum Flood {
    /// Messages in the transport's framing.
    Messages(String),
    /// Messages on stderr.
    Stderr(String),
    /// Bytes of an event stream.
    Events(Vec<u8>),
    /// Bytes of an event stream, one per chunk.
    ByteChunks(Vec<u8>),
    /// Compressed bytes of an event stream.
    Gzip(Vec<u8>),
    /// WebSocket frames.
    Frames(Vec<u8>),
    /// The result of a tool that is called over and over.
    Results(Value),
    /// A list of tools that changes all the time.
    Tools(Vec<Value>),
}

/// Returns as many copies as a transport writes at once, at least one.
pub(crate) fn block(message: &[u8]) -> Vec<u8> {
    message.repeat((64 << 10) / message.len().max(256) + 1)
}

fn messages(text: &str) -> Flood {
    Flood::Messages(text.to_owned())
}

pub(crate) fn junk() -> Flood {
    messages("DEBUG: connecting to the database as admin")
}

pub(crate) fn long_junk() -> Flood {
    messages(&"x".repeat(30_000))
}

pub(crate) fn blank() -> Flood {
    messages("")
}

pub(crate) fn notifications() -> Flood {
    messages(r#"{"jsonrpc":"2.0","method":"notifications/other","params":{"a":1}}"#)
}

pub(crate) fn logs() -> Flood {
    messages(
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"password=x"}}"#,
    )
}

pub(crate) fn list_changed() -> Flood {
    messages(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
}

pub(crate) fn pings() -> Flood {
    messages(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
}

pub(crate) fn unknown_answers() -> Flood {
    messages(r#"{"jsonrpc":"2.0","id":99999999,"result":{}}"#)
}

pub(crate) fn unknown_progress() -> Flood {
    messages(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99999,"progress":1}}"#,
    )
}

pub(crate) fn batches() -> Flood {
    messages(&format!("[{}]", vec!["1"; 1000].join(",")))
}

pub(crate) fn stderr() -> Flood {
    Flood::Stderr("the server has much to say on stderr, and says it\n".to_owned())
}

pub(crate) fn comments() -> Flood {
    Flood::Events(b":\n".repeat(16 * 1024))
}

pub(crate) fn retries() -> Flood {
    Flood::Events(b"retry: 5\n\n".repeat(4 * 1024))
}

pub(crate) fn tiny_events() -> Flood {
    Flood::Events(b"data:x\n\n".repeat(4 * 1024))
}

pub(crate) fn byte_chunks() -> Flood {
    Flood::ByteChunks(b":\n\ndata:{}\n\n".repeat(256))
}

pub(crate) fn gzip_comments() -> Flood {
    Flood::Gzip(gzip(b":\n".repeat(4 << 20)))
}

pub(crate) fn gzip_events() -> Flood {
    Flood::Gzip(gzip(b"data:x\n\n".repeat(1 << 20)))
}

pub(crate) fn gzip_empty() -> Flood {
    Flood::Gzip(gzip(b"").repeat(1000))
}

pub(crate) fn ws_pings() -> Flood {
    Flood::Frames(b"\x89\x02hi".repeat(4 * 1024))
}

pub(crate) fn ws_empty() -> Flood {
    Flood::Frames(b"\x81\x00".repeat(8 * 1024))
}

pub(crate) fn ws_fragments() -> Flood {
    let mut frames = b"\x01\x01a".to_vec();
    frames.extend(b"\x00\x01b".repeat(4 * 1024));
    frames.extend(b"\x80\x01c");
    Flood::Frames(frames)
}

fn notification(method: &str, params: &Value) -> Flood {
    messages(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
}

/// Returns about `length` bytes of small objects.
fn objects(length: usize) -> Value {
    let object = json!({"id": 1234, "name": "a name", "tags": ["one", "two"]});
    let count = length / object.to_string().len();
    Value::Array(vec![object; count])
}

pub(crate) fn medium_notifications() -> Flood {
    notification("notifications/other", &json!({"a": objects(MEDIUM)}))
}

pub(crate) fn large_notifications() -> Flood {
    notification("notifications/other", &json!({"a": objects(LARGE)}))
}

pub(crate) fn large_nested() -> Flood {
    let half = LARGE / 2;
    let params = format!("{}{}", "[".repeat(half), "]".repeat(half));
    messages(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/other","params":{{"a":{params}}}}}"#
    ))
}

pub(crate) fn large_escapes() -> Flood {
    let text = "\\u00e9".repeat(LARGE / 6);
    messages(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{text}","params":{{"a":"{text}"}}}}"#
    ))
}

pub(crate) fn large_logs() -> Flood {
    let data = "password=hunter2 ".repeat(LARGE / 17);
    notification(
        "notifications/message",
        &json!({"level": "info", "data": data}),
    )
}

pub(crate) fn large_progress() -> Flood {
    let message = "still working ".repeat(LARGE / 14);
    let params = json!({"message": message, "progressToken": 99999, "progress": 1});
    notification("notifications/progress", &params)
}

pub(crate) fn large_updates() -> Flood {
    let params = json!({"a": objects(LARGE), "uri": "x".repeat(7000)});
    notification("notifications/resources/updated", &params)
}

pub(crate) fn large_batches() -> Flood {
    let message = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let count = LARGE / message.len();
    messages(&format!("[{}]", vec![message; count].join(",")))
}

pub(crate) fn large_elicitations() -> Flood {
    let properties: serde_json::Map<_, _> = (0..LARGE / 64)
        .map(|n| {
            (
                format!("field {n}"),
                json!({"type": "string", "title": "a title"}),
            )
        })
        .collect();
    let schema = json!({"type": "object", "properties": properties});
    let params = json!({"message": "please answer", "requestedSchema": schema});
    let request =
        json!({"jsonrpc": "2.0", "id": "e", "method": "elicitation/create", "params": params});
    messages(&request.to_string())
}

pub(crate) fn large_answers() -> Flood {
    let answer = json!({"jsonrpc": "2.0", "id": 99_999_999, "result": {"a": objects(LARGE)}});
    messages(&answer.to_string())
}

pub(crate) fn large_junk() -> Flood {
    messages(&"x".repeat(LARGE))
}

pub(crate) fn medium_results() -> Flood {
    Flood::Results(json!({
        "content": [{"type": "text", "text": "a \u{200b}\n".repeat(MEDIUM / 8)}],
    }))
}

pub(crate) fn large_results() -> Flood {
    Flood::Results(json!({
        "content": [{"type": "text", "text": "a \u{200b}\n".repeat(LARGE / 8)}],
    }))
}

pub(crate) fn structured_results() -> Flood {
    Flood::Results(json!({
        "content": [{"type": "text", "text": "see the structured content"}],
        "structuredContent": {"items": objects(LARGE)},
        "_meta": {"items": objects(LARGE)},
    }))
}

pub(crate) fn block_results() -> Flood {
    let block = json!({"type": "text", "text": "a \u{200b}"});
    let count = LARGE / block.to_string().len();
    Flood::Results(json!({"content": vec![block; count]}))
}

pub(crate) fn many_tools() -> Flood {
    let tool = |n: usize| {
        let description = format!("Tool {n} of many \u{200b}");
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        json!({"name": format!("tool_{n}"), "description": description, "inputSchema": schema})
    };
    Flood::Tools((0..20_000).map(tool).collect())
}

pub(crate) fn large_tools() -> Flood {
    let tool = |n: usize| {
        let properties = json!({"a": {"type": "string", "enum": objects(LARGE / 4)}});
        let schema = json!({"type": "object", "properties": properties});
        json!({"name": format!("tool_{n}"), "description": "x".repeat(LARGE / 8), "inputSchema": schema})
    };
    Flood::Tools((0..20).map(tool).collect())
}
