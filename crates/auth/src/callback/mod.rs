//! The loopback server that receives the end of a sign-in from the browser (AUTH-2).

mod pages;
mod sockets;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use pages::Page;
use sockets::{is_own_user, port_owner};

use crate::error::{AuthError, AuthErrorKind};

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// Time limit for a browser to send its request. Browsers open connections ahead of need.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest head of a request.
const MAX_HEAD: usize = 32 * 1024;

/// The most connections at once.
const MAX_CONNECTIONS: usize = 32;

/// Further attempts to find a free port, whose IPv6 half may be taken.
const ANY_PORT_ATTEMPTS: usize = 8;

/// The host in the redirect URI. The server listens on this machine in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackHost {
    /// `127.0.0.1`, as RFC 8252 recommends.
    Address,
    /// `localhost`, as users register it for their own clients.
    Localhost,
}

impl CallbackHost {
    fn as_str(self) -> &'static str {
        match self {
            Self::Address => "127.0.0.1",
            Self::Localhost => "localhost",
        }
    }
}

/// Receives redirects until it is dropped.
#[derive(Debug)]
pub(crate) struct CallbackServer {
    port: u16,
    host: CallbackHost,
    requests: mpsc::Receiver<CallbackRequest>,
    task: AbortHandle,
}

/// A request of the browser to the redirect URI. It waits for a page.
#[derive(Debug)]
pub(crate) struct CallbackRequest {
    pub(crate) query: String,
    stream: TcpStream,
}

impl CallbackServer {
    /// Listens on `required`, or else on `preferred` if it is free, or else on any port.
    pub(crate) async fn bind(
        required: Option<u16>,
        preferred: Option<u16>,
        host: CallbackHost,
    ) -> Result<Self, AuthError> {
        let listeners = match (required, preferred) {
            (Some(port), _) => Listeners::bind(port, host)
                .await
                .map_err(|error| taken(port, &error))?,
            (None, Some(port)) => match Listeners::bind(port, host).await {
                Ok(listeners) => listeners,
                Err(_) => Listeners::bind_any(host).await?,
            },
            (None, None) => Listeners::bind_any(host).await?,
        };
        let (sender, requests) = mpsc::channel(8);
        let port = listeners.port;
        let task = tokio::spawn(serve(listeners, sender)).abort_handle();
        Ok(Self {
            port,
            host,
            requests,
            task,
        })
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://{}:{}{PATH}", self.host.as_str(), self.port)
    }

    /// Waits for the next request to the redirect URI.
    pub(crate) async fn next(&mut self) -> Option<CallbackRequest> {
        self.requests.recv().await
    }
}

impl Drop for CallbackServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CallbackRequest {
    /// Whether it may come from this user. Another user of this machine could see the state in the
    /// arguments of the browser, and end the sign-in with a code of an account of their own.
    pub(crate) fn is_own_user(&self) -> bool {
        let (peer, local) = (self.stream.peer_addr(), self.stream.local_addr());
        let is_own = peer.ok().zip(local.ok());
        let is_own = is_own.is_some_and(|(peer, local)| is_own_user(peer, local));
        // A connection that was reset meanwhile was in no table.
        is_own && self.stream.peer_addr().is_ok()
    }

    /// Shows a page. A browser that has left does not matter.
    pub(crate) async fn respond(mut self, page: &Page) {
        let response = page.to_response();
        let writing = async {
            self.stream.write_all(response.as_bytes()).await?;
            self.stream.shutdown().await
        };
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, writing).await;
    }
}

/// The port of a redirect URI that was registered before.
pub(crate) fn port_of(redirect_uri: &str) -> Option<u16> {
    url::Url::parse(redirect_uri).ok()?.port()
}

/// The sockets of one port.
struct Listeners {
    port: u16,
    v4: TcpListener,
    v6: Option<TcpListener>,
}

impl Listeners {
    /// Listens on a port, or on any for 0. A browser may resolve `localhost` to IPv6 first: if
    /// another program listens there, it would get the redirect, so the port counts as taken.
    async fn bind(port: u16, host: CallbackHost) -> io::Result<Self> {
        let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = v4.local_addr()?.port();
        let v6 = match host {
            CallbackHost::Localhost => {
                match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
                    Ok(listener) => Some(listener),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                    // Without IPv6 the browser falls back.
                    Err(_) => None,
                }
            }
            CallbackHost::Address => None,
        };
        Ok(Self { port, v4, v6 })
    }

    async fn bind_any(host: CallbackHost) -> Result<Self, AuthError> {
        let mut bound = Self::bind(0, host).await;
        for _ in 0..ANY_PORT_ATTEMPTS {
            if bound.is_ok() {
                break;
            }
            bound = Self::bind(0, host).await;
        }
        bound.map_err(|error| taken(0, &error))
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        tokio::select! {
            accepted = self.v4.accept() => accepted,
            accepted = accept_some(self.v6.as_ref()) => accepted,
        }
    }
}

async fn serve(listeners: Listeners, sender: mpsc::Sender<CallbackRequest>) {
    let mut connections: JoinSet<Option<CallbackRequest>> = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if let Ok(Some(request)) = ended {
                    let _ = sender.send(request).await;
                }
                continue;
            }
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !is_loopback(from) {
            continue;
        }
        by_age.retain(|connection| !connection.is_finished());
        // The oldest one goes: a browser sends its request at once, and another program on this
        // machine could hold any number of silent connections.
        if by_age.len() >= MAX_CONNECTIONS
            && let Some(oldest) = by_age.pop_front()
        {
            oldest.abort();
        }
        let port = listeners.port;
        by_age.push_back(connections.spawn(async move {
            let request = tokio::time::timeout(REQUEST_TIMEOUT, handle(stream, port)).await;
            request.ok().flatten()
        }));
    }
}

async fn accept_some(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

fn is_loopback(from: SocketAddr) -> bool {
    match from.ip() {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.to_canonical().is_loopback(),
    }
}

/// Reads a request; `None` if it is not for the redirect URI, and has been answered.
async fn handle(mut stream: TcpStream, port: u16) -> Option<CallbackRequest> {
    let mut head = Vec::new();
    let route = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => head.extend_from_slice(&chunk[..read]),
        }
        match route(&head, port) {
            Route::Incomplete if head.len() < MAX_HEAD => {}
            route => break route,
        }
    };
    match route {
        Route::Redirect(query) => Some(CallbackRequest { query, stream }),
        Route::Incomplete | Route::Other => {
            let query = String::new();
            let request = CallbackRequest { query, stream };
            request.respond(&Page::not_found()).await;
            None
        }
    }
}

/// The meaning of a request.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Incomplete,
    /// The query of a request to the redirect URI.
    Redirect(String),
    Other,
}

/// Reads the head of a request. Only a GET of the redirect URI counts, and only under a name of
/// this machine: a page on another site could otherwise reach this server under its own name.
fn route(head: &[u8], port: u16) -> Route {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Route::Incomplete,
        Err(_) => return Route::Other,
    }
    let hosts: Vec<_> = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"))
        .map(|header| header.value)
        .collect();
    let is_ours = |host: &[u8]| {
        ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .any(|name| host.eq_ignore_ascii_case(format!("{name}:{port}").as_bytes()))
    };
    let path = request.path.unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    match (request.method, hosts.as_slice()) {
        (Some("GET"), [host]) if is_ours(host) && path == PATH => Route::Redirect(query.to_owned()),
        _ => Route::Other,
    }
}

fn taken(port: u16, error: &io::Error) -> AuthError {
    if error.kind() != io::ErrorKind::AddrInUse {
        let text = format!("cannot listen on 127.0.0.1:{port}: {error}");
        return AuthError::new(AuthErrorKind::Settings, text);
    }
    let owner = port_owner(port);
    let by = owner.as_ref().map(|owner| format!(" by {}", owner.name));
    let text = format!(
        "port {port}, where the browser returns to, is in use{}",
        by.unwrap_or_default()
    );
    let process = owner.and_then(|owner| owner.process);
    AuthError::new(AuthErrorKind::PortInUse, text).with_process(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_redirects_to_this_machine_count() {
        let redirect = |query: &str| Route::Redirect(query.to_owned());
        let cases = [
            (
                "GET /callback?code=c HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n",
                redirect("code=c"),
            ),
            (
                "GET /callback HTTP/1.1\r\nhost: LOCALHOST:7\r\n\r\n",
                redirect(""),
            ),
            (
                "GET /callback?a HTTP/1.1\r\nHost: [::1]:7\r\n\r\n",
                redirect("a"),
            ),
            (
                "GET /callback?code=c HTTP/1.1\r\nHost: evil.example:7\r\n\r\n",
                Route::Other,
            ),
            (
                "GET /callback?code=c HTTP/1.1\r\nHost: 127.0.0.1:8\r\n\r\n",
                Route::Other,
            ),
            ("GET /callback?code=c HTTP/1.1\r\n\r\n", Route::Other),
            (
                "GET /callback HTTP/1.1\r\nHost: localhost:7\r\nHost: evil.example\r\n\r\n",
                Route::Other,
            ),
            (
                "POST /callback?code=c HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n",
                Route::Other,
            ),
            (
                "GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n",
                Route::Other,
            ),
            (
                "GET /callback/x HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n",
                Route::Other,
            ),
            ("GET /callback?code=c HTT", Route::Incomplete),
            ("", Route::Incomplete),
            ("\0\0\0\0", Route::Other),
        ];
        for (head, expected) in cases {
            assert_eq!(route(head.as_bytes(), 7), expected, "{head:?}");
        }
    }

    #[tokio::test]
    async fn silent_connections_do_not_block_and_dropping_frees_the_port() {
        let mut server = CallbackServer::bind(None, None, CallbackHost::Localhost)
            .await
            .unwrap();
        let port = server.port;
        let address = (Ipv4Addr::LOCALHOST, port);
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut browser = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /callback?code=c HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        browser.write_all(request.as_bytes()).await.unwrap();
        let received = server.next().await.unwrap();
        assert_eq!(received.query, "code=c");
        received.respond(&Page::success("a")).await;
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");

        let error = CallbackServer::bind(Some(port), None, CallbackHost::Address)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::PortInUse, "{error}");
        #[cfg(target_os = "linux")]
        assert_eq!(error.process(), Some(std::process::id()), "{error}");
        // Another port is chosen if the preferred one is taken.
        let other = CallbackServer::bind(None, Some(port), CallbackHost::Address).await;
        assert_ne!(other.unwrap().port, port);

        drop(server);
        let rebound = async {
            loop {
                if TcpListener::bind(address).await.is_ok() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), rebound)
            .await
            .unwrap();
    }

    /// Another program on this machine must not be able to keep the browser out.
    #[tokio::test]
    async fn any_number_of_silent_connections_leaves_room_for_the_browser() {
        let mut server = CallbackServer::bind(None, None, CallbackHost::Address)
            .await
            .unwrap();
        let address = (Ipv4Addr::LOCALHOST, server.port);
        let mut silent = Vec::new();
        for _ in 0..3 * MAX_CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut browser = TcpStream::connect(address).await.unwrap();
        let host = format!("127.0.0.1:{}", server.port);
        let request = format!("GET /callback?code=c HTTP/1.1\r\nHost: {host}\r\n\r\n");
        browser.write_all(request.as_bytes()).await.unwrap();
        let received = tokio::time::timeout(Duration::from_secs(10), server.next()).await;
        assert_eq!(received.unwrap().unwrap().query, "code=c");
    }

    /// Otherwise a program of another user could hide by leaving at once.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_request_belongs_to_its_user_for_as_long_as_it_waits() {
        let mut server = CallbackServer::bind(None, None, CallbackHost::Address)
            .await
            .unwrap();
        let address = (Ipv4Addr::LOCALHOST, server.port);
        let host = format!("127.0.0.1:{}", server.port);
        let request = format!("GET /callback?code=c HTTP/1.1\r\nHost: {host}\r\n\r\n");
        for leaves in [false, true] {
            let mut browser = TcpStream::connect(address).await.unwrap();
            browser.write_all(request.as_bytes()).await.unwrap();
            let waiting = (!leaves).then_some(browser);
            let received = server.next().await.unwrap();
            assert_eq!(received.is_own_user(), !leaves);
            drop(waiting);
        }
    }

    /// A browser may try the IPv6 address of `localhost` first.
    #[tokio::test]
    async fn a_port_whose_other_half_is_taken_is_taken() {
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else {
            return;
        };
        let port = other.local_addr().unwrap().port();
        let bound = CallbackServer::bind(Some(port), None, CallbackHost::Localhost).await;
        assert_eq!(bound.unwrap_err().kind(), AuthErrorKind::PortInUse);
        assert!(
            CallbackServer::bind(Some(port), None, CallbackHost::Address)
                .await
                .is_ok()
        );
    }
}
