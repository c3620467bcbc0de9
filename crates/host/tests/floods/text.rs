//! The contents of floods.

use trunkline_testkit::net::gzip;

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
