//! The response to one request, byte by byte.

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{http, stream::Stream};

const POLL: Duration = Duration::from_millis(2);

type Watch = Arc<dyn Fn() + Send + Sync>;

/// Whether the client is connected, updated as soon as it closes the connection.
#[derive(Default)]
pub(crate) struct ClientWatch {
    gone: AtomicBool,
    watch: Mutex<Option<Watch>>,
}

impl ClientWatch {
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        let watch = self.watch.lock().unwrap().clone();
        if let Some(watch) = watch {
            watch();
        }
    }

    /// Calls `watch` when the client leaves, immediately if it has left.
    pub(crate) fn watch(&self, watch: impl Fn() + Send + Sync + 'static) {
        let watch: Watch = Arc::new(watch);
        *self.watch.lock().unwrap() = Some(Arc::clone(&watch));
        if self.gone() {
            watch();
        }
    }

    pub(crate) fn unwatch(&self) {
        *self.watch.lock().unwrap() = None;
    }

    pub(crate) fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

/// Writes the response to one request. Every write is flushed; writes to a client that has left do
/// nothing.
///
/// An unfinished chunked body is ended when the handler returns. A handler that writes nothing
/// closes the connection.
pub struct Reply {
    stream: Stream,
    client: Arc<ClientWatch>,
    wrote: bool,
    chunked: bool,
    ended: bool,
}

impl Reply {
    pub(super) fn new(stream: Stream, client: Arc<ClientWatch>) -> Self {
        Self {
            stream,
            client,
            wrote: false,
            chunked: false,
            ended: false,
        }
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.wrote = true;
        if !self.ended && self.stream.write_all(bytes.as_ref()).is_err() {
            self.ended = true;
        }
        self
    }

    /// Writes bytes as they are, at most `size` of them at a time.
    pub fn pieces(&mut self, bytes: impl AsRef<[u8]>, size: usize) -> &mut Self {
        for piece in bytes.as_ref().chunks(size.max(1)) {
            self.raw(piece);
        }
        self
    }

    /// A whole response with its `Content-Length`.
    pub fn respond(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> &mut Self {
        let body = body.as_ref();
        let mut head = head(status, headers);
        if status != 204 {
            head = head + "content-length: " + &body.len().to_string() + "\r\n";
        }
        head.push_str("\r\n");
        // One write, as real servers do: a head alone could wait for its acknowledgement.
        self.raw([head.as_bytes(), body].concat())
    }

    /// A whole JSON response.
    pub fn json(&mut self, status: u16, body: &Value) -> &mut Self {
        self.respond(
            status,
            &[("content-type", "application/json")],
            body.to_string(),
        )
    }

    /// A response without a body.
    pub fn status(&mut self, status: u16) -> &mut Self {
        self.respond(status, &[], "")
    }

    /// The head of a response whose body follows in chunks.
    pub fn head(&mut self, status: u16, headers: &[(&str, &str)]) -> &mut Self {
        self.chunked = true;
        let head = head(status, headers) + "transfer-encoding: chunked\r\n\r\n";
        self.raw(head)
    }

    /// The head of an event stream.
    pub fn sse(&mut self) -> &mut Self {
        self.head(
            200,
            &[
                ("content-type", "text/event-stream"),
                ("cache-control", "no-cache"),
            ],
        )
    }

    /// A chunk of the body.
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            // An empty chunk ends the body.
            return self;
        }
        self.raw([format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
    }

    /// Chunks of at most `size` bytes.
    pub fn chunks(&mut self, bytes: impl AsRef<[u8]>, size: usize) -> &mut Self {
        for piece in bytes.as_ref().chunks(size.max(1)) {
            self.chunk(piece);
        }
        self
    }

    /// An event with this data, as a chunk.
    pub fn event(&mut self, data: &Value) -> &mut Self {
        self.chunk(format!("data: {data}\n\n"))
    }

    /// Ends a chunked body.
    pub fn end(&mut self) -> &mut Self {
        if self.chunked {
            self.chunked = false;
            self.raw("0\r\n\r\n");
        }
        self
    }

    /// Waits until the condition holds; false if the client leaves first.
    pub fn wait_until(&mut self, mut condition: impl FnMut() -> bool) -> bool {
        loop {
            if condition() {
                return true;
            }
            if self.client_gone() {
                return false;
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until the client leaves or the server stops.
    pub fn hold(&mut self) {
        self.wait_until(|| false);
        self.ended = true;
    }

    /// Closes the connection; an unfinished body stays unfinished.
    pub fn close(&mut self) {
        self.ended = true;
        self.stream.close();
    }

    /// Closes the connection with RST.
    pub fn reset(&mut self) {
        self.ended = true;
        self.stream.reset();
    }

    /// Whether the client has left.
    pub fn client_gone(&self) -> bool {
        self.client.gone()
    }

    /// Whether the server closed the connection from outside the handler.
    pub(crate) fn dropped(&self) -> bool {
        self.stream.dropped()
    }

    pub(crate) fn client(&self) -> &Arc<ClientWatch> {
        &self.client
    }

    /// Completes the response; true if the connection can take another request.
    pub(super) fn settle(mut self) -> bool {
        if self.ended || !self.wrote {
            return false;
        }
        self.end();
        !self.ended
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", http::reason(status));
    for (name, value) in headers {
        head.extend([*name, ": ", *value, "\r\n"]);
    }
    head
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply")
            .field("wrote", &self.wrote)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
