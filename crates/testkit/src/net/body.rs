//! Response bodies: events or one message, optionally compressed.

use std::{io::Write, thread};

use flate2::{Compression, write::GzEncoder};

use super::{
    channel::{Next, Reader},
    gzip,
    reply::Reply,
};
use crate::scripted::Out;

/// The format of bodies.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyStyle {
    pub(super) gzip: bool,
    pub(super) event_ids: bool,
}

type Headers<'a> = Vec<(&'a str, &'a str)>;

/// A chunked body being written.
struct Body<'a> {
    reply: &'a mut Reply,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<'a> Body<'a> {
    fn begin(reply: &'a mut Reply, gzip: bool, mut headers: Headers) -> Self {
        if gzip {
            headers.push(("content-encoding", "gzip"));
        }
        reply.head(200, &headers);
        Self {
            reply,
            encoder: gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(encoder) = &mut self.encoder else {
            self.reply.chunk(bytes);
            return;
        };
        // Flushed each time, so that an event does not wait in the compressor.
        encoder
            .write_all(bytes)
            .and_then(|()| encoder.flush())
            .expect("writing to memory");
        let out = std::mem::take(encoder.get_mut());
        self.reply.chunk(out);
    }

    fn end(self) {
        if let Some(encoder) = self.encoder {
            self.reply
                .chunk(encoder.finish().expect("writing to memory"));
        }
        self.reply.end();
    }
}

/// Streams a channel as events after a preamble; returns the reason for its end.
pub(super) fn stream(
    reply: &mut Reply,
    mut reader: Reader,
    style: BodyStyle,
    headers: &[(&str, &str)],
    preamble: &str,
    opened: impl FnOnce(),
) -> Next {
    let mut all = vec![
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    ];
    all.extend_from_slice(headers);
    let mut body = Body::begin(reply, style.gzip, all);
    if !preamble.is_empty() {
        body.write(preamble.as_bytes());
    }
    opened();
    loop {
        match reader.next() {
            Next::Item(out) => event(&mut body, &out, style.event_ids.then(|| reader.position())),
            end => {
                body.end();
                return end;
            }
        }
    }
}

fn event(body: &mut Body, out: &Out, id: Option<String>) {
    let head = match id {
        Some(id) => format!("event: message\nid: {id}\ndata: "),
        None => "event: message\ndata: ".into(),
    };
    match out {
        Out::Reply(line) | Out::Message(line) | Out::Line(line) => {
            let mut event = head.into_bytes();
            for byte in line {
                event.push(*byte);
                if *byte == b'\n' {
                    event.extend_from_slice(b"data: ");
                }
            }
            event.extend_from_slice(b"\n\n");
            body.write(&event);
        }
        Out::Bytes(bytes) => body.write(bytes),
        Out::Slow { line, chunk, pause } => {
            body.write(head.as_bytes());
            for piece in line.chunks((*chunk).max(1)) {
                body.write(piece);
                thread::sleep(*pause);
            }
            body.write(b"\n\n");
        }
        Out::Settled | Out::Cancelled => {}
    }
}

/// Responds with the only body of a channel.
pub(super) fn single(
    reply: &mut Reply,
    mut reader: Reader,
    style: BodyStyle,
    headers: &[(&str, &str)],
) -> Next {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    loop {
        match reader.next() {
            Next::Item(out) => match &*out {
                Out::Reply(line) | Out::Line(line) => {
                    whole(reply, 200, style.gzip, all, line);
                    return Next::Ended;
                }
                Out::Bytes(bytes) => {
                    whole(reply, 200, style.gzip, all, bytes);
                    return Next::Ended;
                }
                Out::Slow { line, chunk, pause } => {
                    let mut body = Body::begin(reply, style.gzip, all);
                    for piece in line.chunks((*chunk).max(1)) {
                        body.write(piece);
                        thread::sleep(*pause);
                    }
                    body.end();
                    return Next::Ended;
                }
                _ => {}
            },
            Next::Ended => {
                // Cancelled: there is no response.
                reply.status(202);
                return Next::Ended;
            }
            end @ (Next::Gone | Next::Cut) => {
                reply.close();
                return end;
            }
        }
    }
}

/// Responds with a complete body.
pub(super) fn whole(
    reply: &mut Reply,
    status: u16,
    compress: bool,
    mut headers: Headers,
    body: &[u8],
) {
    if compress {
        headers.push(("content-encoding", "gzip"));
        reply.respond(status, &headers, gzip(body));
    } else {
        reply.respond(status, &headers, body);
    }
}
