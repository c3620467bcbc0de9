//! Streamable HTTP without sessions or streams, on persistent connections.

use std::str;

use memchr::memmem;
use trunkline_testkit::MODERN_VERSION;

use crate::{
    Options,
    answer::{Call, answer, put},
    net::Step,
    ws,
};

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const NOT_ALLOWED: &str =
    "HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";

/// The request heads of a connection, which rarely differ.
#[derive(Default)]
pub(crate) struct Http {
    /// The last head, as it was sent.
    bytes: Vec<u8>,
    head: Head,
}

#[derive(Default)]
struct Head {
    is_post: bool,
    /// Requests to this path get no response.
    hangs: bool,
    modern: bool,
    body: usize,
    /// The key of a WebSocket handshake.
    websocket_key: Option<String>,
}

impl Http {
    pub(crate) fn step(&mut self, input: &[u8], options: &Options, out: &mut Vec<u8>) -> Step {
        if self.bytes.is_empty() || !input.starts_with(&self.bytes) {
            let Some(end) = memmem::find(input, b"\r\n\r\n").map(|at| at + 4) else {
                return Step::Wants(0);
            };
            let Some(head) = Head::read(&input[..end]) else {
                return Step::Close;
            };
            self.bytes.clear();
            self.bytes.extend_from_slice(&input[..end]);
            self.head = head;
        }
        let (start, head) = (self.bytes.len(), &self.head);
        let end = start + head.body;
        let Some(body) = input.get(start..end) else {
            return Step::Wants(end);
        };
        if options.hang || head.hangs {
            return Step::Done(end);
        }
        if let Some(key) = &head.websocket_key {
            ws::accept(key, out);
            return Step::Upgraded(end);
        }
        if !head.is_post {
            put(out, &[NOT_ALLOWED]);
        } else if let Some(call) = Call::at_a_glance(body) {
            put_head(call.answer_len(head.modern), out);
            call.answer(head.modern, out);
        } else {
            let (mut answered, mut modern) = (Vec::new(), head.modern);
            answer(body, options, &mut modern, &mut answered);
            if answered.is_empty() {
                put(out, &[ACCEPTED]);
            } else {
                put_head(answered.len(), out);
                out.extend_from_slice(&answered);
            }
        }
        Step::Done(end)
    }
}

fn put_head(length: usize, out: &mut Vec<u8>) {
    put(out, &[OK, &length.to_string(), "\r\n\r\n"]);
}

impl Head {
    /// `None` for unsupported requests, such as a body of unknown length.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = str::from_utf8(bytes).ok()?.split("\r\n");
        let mut request = lines.next()?.split(' ');
        let is_post = request.next()? == "POST";
        let mut head = Self {
            is_post,
            hangs: request.next()?.starts_with("/hang"),
            ..Self::default()
        };
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.body = value.parse().ok()?,
                "transfer-encoding" => return None,
                "mcp-protocol-version" => head.modern = value == MODERN_VERSION,
                "sec-websocket-key" => head.websocket_key = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(head)
    }
}
