//! An HTTP server with a handler that controls every byte.

use std::{io::BufReader, net::SocketAddr, sync::Arc, sync::mpsc::channel, thread};

use super::{
    http::{self, Request, RequestLog},
    listener::Listener,
    reply::{ClientWatch, Reply},
    stream::Stream,
    tls::TlsOptions,
};

/// An HTTP/1.1 server on loopback with a handler for every request, stopped on drop.
///
/// ```
/// use serde_json::json;
/// use trunkline_testkit::net::RawHttp;
///
/// let server = RawHttp::start(|request, reply| match request.rpc_method().as_str() {
///     "server/discover" => {
///         let error = json!({"code": -32600, "message": "no session"});
///         reply.json(400, &json!({"jsonrpc": "2.0", "id": "server-error", "error": error}));
///     }
///     "tools/list" => {
///         let result = json!({"tools": []});
///         let response = json!({"jsonrpc": "2.0", "id": request.rpc_id(), "result": result});
///         reply.sse().event(&response);
///     }
///     "ping" => reply.hold(),
///     _ => reply.reset(),
/// });
/// assert!(server.url().ends_with("/mcp"));
/// assert!(server.requests().is_empty());
/// ```
#[derive(Debug)]
pub struct RawHttp {
    listener: Listener,
    log: RequestLog,
    scheme: &'static str,
}

impl RawHttp {
    /// Starts a server. Requests on one connection are handled in turn.
    pub fn start(handler: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> Self {
        Self::start_with(None, 0, handler)
    }

    /// Starts a server with TLS.
    pub fn start_tls(
        tls: &TlsOptions,
        handler: impl Fn(&Request, &mut Reply) + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(tls), 0, handler)
    }

    pub(super) fn start_with(
        tls: Option<&TlsOptions>,
        port: u16,
        handler: impl Fn(&Request, &mut Reply) + Send + Sync + 'static,
    ) -> Self {
        let log = RequestLog::default();
        let seen = log.clone();
        let listener = Listener::start(tls.map(TlsOptions::config), port, move |stream, number| {
            converse(&stream, number, &seen, &handler);
        });
        Self {
            listener,
            log,
            scheme: if tls.is_some() { "https" } else { "http" },
        }
    }

    /// Its URL, with the path `/mcp`.
    pub fn url(&self) -> String {
        self.url_of("/mcp")
    }

    /// Its URL with another path.
    pub fn url_of(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// The complete requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.log.all()
    }

    /// Clears the recorded requests.
    pub fn clear_requests(&self) {
        self.log.clear();
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.listener.open()
    }

    /// Closes every connection; new ones are accepted.
    pub fn drop_connections(&self) {
        self.listener.drop_connections();
    }

    /// Closes the listener and every connection; connecting is refused.
    pub fn stop(&self) {
        self.listener.stop();
    }

    /// Stops, and listens again on the same port.
    pub fn restart(&self) {
        self.listener.stop();
        self.listener.listen();
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }
}

/// Handles the requests of one connection in turn, while a second thread reads ahead to notice when
/// the client leaves.
fn converse(
    stream: &Stream,
    number: usize,
    log: &RequestLog,
    handler: &(impl Fn(&Request, &mut Reply) + Sync),
) {
    let client = Arc::new(ClientWatch::default());
    let (sender, requests) = channel();
    let reader = {
        let (stream, client, log) = (stream.clone(), Arc::clone(&client), log.clone());
        thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            while let Ok(Some(mut request)) = http::read_request(&mut reader) {
                request.connection = number;
                log.push(request.clone());
                if sender.send(request).is_err() {
                    break;
                }
            }
            client.leave();
        })
    };
    for request in requests {
        let mut reply = Reply::new(stream.clone(), Arc::clone(&client));
        handler(&request, &mut reply);
        client.unwatch();
        if !reply.settle() || request.lists("connection", "close") {
            break;
        }
    }
    stream.close();
    reader.join().ok();
}
