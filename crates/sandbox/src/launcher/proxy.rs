//! The only way out of a sandbox with a list of hosts: an HTTP proxy that connects to those.
//!
//! It runs outside of the sandbox, and listens inside: the socket was created there.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::report;
use crate::hosts::{HostRule, split_port};

/// Connections at a time. Each has a thread, and one more when it is established.
const MAX_CONNECTIONS: u64 = 64;

const MAX_HEAD: usize = 32 * 1024;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Refused hosts that are reported.
const MAX_REPORTS: usize = 64;

struct Proxy {
    hosts: Vec<HostRule>,
    /// What was asked for, if somebody wants to know.
    asked: Option<Asked>,
    connections: AtomicU64,
    reported: Mutex<BTreeSet<String>>,
}

/// Hosts and ports that a server asked for.
pub(super) type Asked = Arc<Mutex<BTreeSet<String>>>;

/// Accepts connections until the process ends.
pub(super) fn start(listener: TcpListener, hosts: Vec<HostRule>, asked: Option<Asked>) {
    let proxy = Arc::new(Proxy {
        hosts,
        asked,
        connections: AtomicU64::new(0),
        reported: Mutex::default(),
    });
    let accept = move || {
        loop {
            match listener.accept() {
                Ok((client, _)) => Proxy::serve(&proxy, client),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors, say.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().spawn(accept) {
        report(&format!("the proxy could not be started: {error}"));
    }
}

/// A connection that counts until it is dropped.
struct Connection(Arc<Proxy>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Proxy {
    fn serve(proxy: &Arc<Self>, client: TcpStream) {
        let count = proxy.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection(Arc::clone(proxy));
        if count >= MAX_CONNECTIONS {
            drop(refuse(
                &client,
                "503 Service Unavailable",
                "too many connections",
            ));
            return;
        }
        let serve = move || {
            // The client sees the end of its connection.
            let _ = connection.0.connect(&client);
        };
        let _ = std::thread::Builder::new().spawn(serve);
    }

    fn connect(&self, client: &TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(HEAD_TIMEOUT))?;
        let (head, rest) = read_head(client)?;
        let Some(request) = Request::parse(&head) else {
            return refuse(client, "400 Bad Request", "not a request to a proxy");
        };
        let Request { host, port, .. } = &request;
        if let Some(asked) = &self.asked {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.len() < MAX_REPORTS {
                asked.insert(format!("{host}:{port}"));
            }
        }
        let rules: Vec<&HostRule> = self
            .hosts
            .iter()
            .filter(|rule| rule.matches(host, *port))
            .collect();
        if rules.is_empty() {
            let reason = format!("the sandbox does not allow {host}:{port}; add it to \"network\"");
            self.report_once(&reason);
            return refuse(client, "403 Forbidden", &reason);
        }
        let server = match dial(host, *port, &rules) {
            Ok(server) => server,
            Err(reason) => {
                self.report_once(&reason);
                return refuse(client, "502 Bad Gateway", &reason);
            }
        };
        client.set_read_timeout(None)?;
        let mut to_server = &server;
        let mut to_client = client;
        match &request.forwarded {
            None => to_client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
            Some(head) => to_server.write_all(head)?,
        }
        to_server.write_all(&rest)?;
        let (client_reader, server_writer) = (client.try_clone()?, server.try_clone()?);
        let upstream = std::thread::Builder::new().spawn(move || {
            let _ = io::copy(&mut &client_reader, &mut &server_writer);
            let _ = server_writer.shutdown(Shutdown::Write);
        })?;
        let _ = io::copy(&mut &server, &mut to_client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
        let _ = upstream.join();
        Ok(())
    }

    fn report_once(&self, text: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTS && reported.insert(text.to_owned()) {
            report(text);
        }
    }
}

/// Connects to an allowed address of a host.
fn dial(host: &str, port: u16, rules: &[&HostRule]) -> Result<TcpStream, String> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("{host} has no address: {error}"))?;
    let (allowed, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.partition(|address| rules.iter().any(|rule| rule.allows_address(address.ip())));
    let mut last = match refused.first() {
        Some(address) => format!(
            "the sandbox does not allow {host} to be at {}; name that address in \"network\"",
            address.ip()
        ),
        None => format!("{host} has no address"),
    };
    for address in allowed {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = format!("{host}:{port} does not answer: {error}"),
        }
    }
    Err(last)
}

fn refuse(mut client: &TcpStream, status: &str, reason: &str) -> io::Result<()> {
    let body = format!("{reason}\n");
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    client.shutdown(Shutdown::Write)
}

/// Reads to the end of a request's head; returns it, and what came after it.
fn read_head(mut client: &TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = client.read(&mut chunk)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&chunk[..count]);
        if let Some(end) = bytes[from..].windows(4).position(|end| end == b"\r\n\r\n") {
            let rest = bytes.split_off(from + end + 4);
            return Ok((bytes, rest));
        }
        if bytes.len() > MAX_HEAD {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

/// A request to a proxy.
#[derive(Debug, PartialEq)]
struct Request {
    host: String,
    port: u16,
    /// The head for the server; `None` for a tunnel.
    forwarded: Option<Vec<u8>>,
}

impl Request {
    fn parse(head: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(head).ok()?;
        let (line, headers) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        if method == "CONNECT" {
            let (host, port) = split_port(target);
            return Some(Self {
                host: checked_host(host)?,
                port: port?.parse().ok()?,
                forwarded: None,
            });
        }
        let rest = target.strip_prefix("http://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let (host, port) = split_port(authority);
        let port = match port {
            Some(port) => port.parse().ok()?,
            None => 80,
        };
        let mut forwarded = format!("{method} {slash}{path} HTTP/1.1\r\n");
        for header in headers.split("\r\n").filter(|header| !header.is_empty()) {
            let (name, _) = header.split_once(':')?;
            let is_ours = [
                "connection",
                "proxy-connection",
                "proxy-authorization",
                "host",
            ]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own));
            if !is_ours {
                forwarded.push_str(header);
                forwarded.push_str("\r\n");
            }
        }
        forwarded.push_str("Host: ");
        forwarded.push_str(authority);
        forwarded.push_str("\r\nConnection: close\r\n\r\n");
        Some(Self {
            host: checked_host(host)?,
            port,
            forwarded: Some(forwarded.into_bytes()),
        })
    }
}

/// The host, if it could be one: it is shown in messages.
fn checked_host(host: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (!host.is_empty() && host.len() <= 253 && host.chars().all(is_plain)).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(String, u16, Option<String>)> {
        let head = format!("{line}\r\nHost: other\r\nAccept: */*\r\nProxy-Connection: x\r\n\r\n");
        let request = Request::parse(head.as_bytes())?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Some((request.host, request.port, request.forwarded.map(text)))
    }

    #[test]
    fn requests_name_the_host_that_is_checked() {
        let host = |line| parse(line).map(|(host, port, _)| format!("{host} {port}"));
        for (line, expected) in [
            ("CONNECT a.com:443 HTTP/1.1", Some("a.com 443")),
            ("CONNECT [::1]:443 HTTP/1.1", Some("::1 443")),
            ("CONNECT a.com HTTP/1.1", None),
            ("CONNECT a.com:x HTTP/1.1", None),
            ("GET http://a.com/x HTTP/1.1", Some("a.com 80")),
            ("GET http://a.com:81 HTTP/1.0", Some("a.com 81")),
            ("GET http://u@a.com/ HTTP/1.1", None),
            ("GET http://a.com\u{1b}/ HTTP/1.1", None),
            ("GET /x HTTP/1.1", None),
            ("GET https://a.com/ HTTP/1.1", None),
            ("nonsense", None),
            ("GET http://a b HTTP/1.1", None),
        ] {
            assert_eq!(host(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn the_server_is_told_the_checked_host() {
        let (_, _, forwarded) = parse("GET http://a.com:81?q HTTP/1.1").unwrap();
        let expected =
            "GET /?q HTTP/1.1\r\nAccept: */*\r\nHost: a.com:81\r\nConnection: close\r\n\r\n";
        assert_eq!(forwarded.as_deref(), Some(expected));
    }
}
