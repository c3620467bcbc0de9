//! A recording forward proxy.

use std::{
    collections::HashMap,
    io::{self, BufReader, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    http::{self, Request, RequestLog},
    listener::Listener,
    stream::Stream,
    tls::TlsOptions,
};

/// A forward proxy on loopback for CONNECT and absolute URLs, stopped on drop.
#[derive(Debug)]
pub struct HttpProxy {
    listener: Listener,
    shared: Arc<Shared>,
    scheme: &'static str,
}

#[derive(Debug, Default)]
struct Shared {
    log: RequestLog,
    /// The required `Proxy-Authorization`.
    credentials: Option<String>,
    hosts: Mutex<HashMap<String, SocketAddr>>,
}

impl HttpProxy {
    /// Starts a proxy without authentication.
    pub fn start() -> Self {
        Self::start_with(None, None)
    }

    /// Starts a proxy that requires these credentials.
    pub fn start_auth(user: &str, password: &str) -> Self {
        Self::start_with(Some((user, password)), None)
    }

    /// Starts a proxy with TLS.
    pub fn start_tls(tls: &TlsOptions) -> Self {
        Self::start_with(None, Some(tls))
    }

    fn start_with(credentials: Option<(&str, &str)>, tls: Option<&TlsOptions>) -> Self {
        let shared = Arc::new(Shared {
            credentials: credentials
                .map(|(user, password)| STANDARD.encode(format!("{user}:{password}"))),
            ..Shared::default()
        });
        let own = Arc::clone(&shared);
        Self {
            listener: Listener::start(tls.map(TlsOptions::config), 0, move |stream, number| {
                // Errors only close the connection.
                own.serve(&stream, number).ok();
                stream.close();
            }),
            shared,
            scheme: if tls.is_some() { "https" } else { "http" },
        }
    }

    /// Its URL, as in `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// Maps `host:port` to an address, so that a test can use any name.
    pub fn resolve(&self, authority: &str, address: SocketAddr) {
        let mut hosts = self.shared.hosts.lock().unwrap();
        hosts.insert(authority.into(), address);
    }

    /// The requests so far, without tunnelled ones.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.all()
    }

    /// Clears the recorded requests.
    pub fn clear_requests(&self) {
        self.shared.log.clear();
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.listener.open()
    }

    /// Closes the listener and every connection.
    pub fn stop(&self) {
        self.listener.stop();
    }
}

impl Shared {
    /// Serves the one request of a connection.
    fn serve(&self, stream: &Stream, number: usize) -> io::Result<()> {
        let mut reader = BufReader::new(stream.clone());
        let Some(mut request) = http::read_head(&mut reader)? else {
            return Ok(());
        };
        request.connection = number;
        self.log.push(request.clone());
        let mut client = stream.clone();
        if !self.admits(&request) {
            return client.write_all(
                b"HTTP/1.1 407 Proxy Authentication Required\r\n\
                  proxy-authenticate: Basic realm=\"testkit\"\r\n\
                  content-length: 0\r\nconnection: close\r\n\r\n",
            );
        }
        let tunnel = request.method == "CONNECT";
        let (authority, path) = if tunnel {
            (request.path.clone(), String::new())
        } else {
            match split(&request.path) {
                Some(parts) => parts,
                None => return refuse(&mut client, "400 Bad Request"),
            }
        };
        let Ok(server) = self.reach(&authority) else {
            return refuse(&mut client, "502 Bad Gateway");
        };
        server.set_nodelay(true)?;
        if tunnel {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        } else {
            (&server).write_all(onwards(&request, &path).as_bytes())?;
        }
        // What the client sent beyond the head waits in the reader.
        let server = Arc::new(server);
        let upstream = Arc::clone(&server);
        let sending = thread::spawn(move || {
            io::copy(&mut reader, &mut &*upstream).ok();
            upstream.shutdown(Shutdown::Write).ok();
        });
        io::copy(&mut &*server, &mut client).ok();
        client.close();
        server.shutdown(Shutdown::Both).ok();
        sending.join().ok();
        Ok(())
    }

    fn admits(&self, request: &Request) -> bool {
        let sent = request
            .header("proxy-authorization")
            .and_then(|value| value.strip_prefix("Basic "));
        self.credentials
            .as_ref()
            .is_none_or(|wanted| sent == Some(wanted))
    }

    fn reach(&self, authority: &str) -> io::Result<TcpStream> {
        let known = self.hosts.lock().unwrap().get(authority).copied();
        match known {
            Some(address) => TcpStream::connect(address),
            None => TcpStream::connect(authority),
        }
    }
}

fn refuse(client: &mut Stream, status: &str) -> io::Result<()> {
    write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

/// `host:port` and path of a whole URL.
fn split(url: &str) -> Option<(String, String)> {
    let rest = url.strip_prefix("http://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let port = if authority.contains(':') { "" } else { ":80" };
    let path = if path.is_empty() { "/" } else { path };
    Some((format!("{authority}{port}"), path.into()))
}

/// The head as the server gets it: one request a connection, and nothing that was meant for the
/// proxy.
fn onwards(request: &Request, path: &str) -> String {
    let mut head = format!("{} {path} HTTP/1.1\r\n", request.method);
    for (name, value) in &request.headers {
        if !name.starts_with("proxy-") && name != "connection" {
            head.extend([name.as_str(), ": ", value, "\r\n"]);
        }
    }
    head + "connection: close\r\n\r\n"
}
