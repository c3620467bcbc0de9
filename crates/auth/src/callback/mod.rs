//! The loopback server that receives the end of a sign-in from the browser (AUTH-2).

mod pages;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use pages::Page;

use crate::error::{AuthError, AuthErrorKind};

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// Time limit for a browser to send its request. Browsers open connections ahead of need.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest head of a request.
const MAX_HEAD: usize = 32 * 1024;

/// The most connections at once.
const MAX_CONNECTIONS: usize = 32;

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
        let v4 = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match (required, preferred) {
            (Some(port), _) => v4(port).await.map_err(|error| taken(port, &error))?,
            (None, Some(port)) => match v4(port).await {
                Ok(listener) => listener,
                Err(_) => v4(0).await.map_err(|error| taken(0, &error))?,
            },
            (None, None) => v4(0).await.map_err(|error| taken(0, &error))?,
        };
        let port = listener
            .local_addr()
            .map_err(|error| taken(0, &error))?
            .port();
        // A browser may resolve `localhost` to IPv6 first. It falls back if nobody listens there.
        let v6 = match host {
            CallbackHost::Localhost => TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok(),
            CallbackHost::Address => None,
        };
        let (sender, requests) = mpsc::channel(8);
        let task = tokio::spawn(serve(listener, v6, port, sender)).abort_handle();
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

async fn serve(
    v4: TcpListener,
    v6: Option<TcpListener>,
    port: u16,
    sender: mpsc::Sender<CallbackRequest>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = v4.accept() => accepted,
            accepted = accept_some(v6.as_ref()) => accepted,
            _ = connections.join_next(), if !connections.is_empty() => continue,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !is_loopback(from) || connections.len() >= MAX_CONNECTIONS {
            continue;
        }
        let sender = sender.clone();
        connections.spawn(async move {
            let handled = handle(stream, port, &sender);
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, handled).await;
        });
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

async fn handle(mut stream: TcpStream, port: u16, sender: &mpsc::Sender<CallbackRequest>) {
    let mut head = Vec::new();
    let route = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&chunk[..read]),
        }
        match route(&head, port) {
            Route::Incomplete if head.len() < MAX_HEAD => {}
            route => break route,
        }
    };
    match route {
        Route::Redirect(query) => _ = sender.send(CallbackRequest { query, stream }).await,
        Route::Incomplete | Route::Other => {
            let query = String::new();
            let request = CallbackRequest { query, stream };
            request.respond(&Page::not_found()).await;
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
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let by = listener_of(port).map_or(String::new(), |name| format!(" by {name}"));
            format!(
                "port {port} for the callback is in use{by}; end that program, or change `oauth.callbackPort`"
            )
        }
        _ => format!("cannot listen on 127.0.0.1:{port}: {error}"),
    };
    AuthError::new(AuthErrorKind::Settings, text)
}

/// The program that listens on a port of this machine, where the system tells.
#[cfg(target_os = "linux")]
fn listener_of(port: u16) -> Option<String> {
    use std::fs;
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| {
            let table = fs::read_to_string(table).ok()?;
            table.lines().skip(1).find_map(|line| {
                let columns: Vec<&str> = line.split_whitespace().collect();
                let local = columns.get(1)?.rsplit_once(':')?.1;
                let is_it = u16::from_str_radix(local, 16) == Ok(port) && *columns.get(3)? == "0A";
                is_it.then(|| columns.get(9).map(|inode| format!("socket:[{inode}]")))?
            })
        })?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let owner = processes
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .find(|entry| {
            let Ok(files) = fs::read_dir(entry.path().join("fd")) else {
                return false;
            };
            files.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == inode.as_str())
            })
        })?;
    let name = fs::read_to_string(owner.path().join("comm")).ok()?;
    let id = owner.file_name();
    Some(format!(
        "{} (process {})",
        crate::error::foreign(&name),
        id.to_string_lossy()
    ))
}

#[cfg(not(target_os = "linux"))]
fn listener_of(_: u16) -> Option<String> {
    None
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
        assert!(error.to_string().contains("in use"), "{error}");
        #[cfg(target_os = "linux")]
        assert!(
            error
                .to_string()
                .contains(&format!("process {}", std::process::id())),
            "{error}"
        );
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
}
