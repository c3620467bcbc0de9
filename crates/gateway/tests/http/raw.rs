//! HTTP byte by byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The time limit of a read, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A connection to the endpoint.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends as much as the peer takes before it closes the connection.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn abandon(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads more. Returns false at the end.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the endpoint is silent: {error}"),
        }
    }

    /// Reads up to the end. Returns what was left.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        while self.fill() {}
        self.buffer
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(self.fill(), "the body is cut off");
        }
        self.buffer.drain(..count).collect()
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Reads the head of a response; `None` if the connection ended instead.
    pub(crate) fn head(&mut self) -> Option<Reply> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("a whole head");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Some(Reply {
            status,
            headers,
            body: Vec::new(),
        })
    }

    /// Reads a response with its body; `None` if the connection ended instead.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        let mut reply = self.head()?;
        if let Some(length) = reply.header("content-length") {
            let length = length.parse().unwrap();
            reply.body = self.take(length);
        } else if reply.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk() {
                reply.body.extend(chunk);
            }
        }
        Some(reply)
    }

    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a response")
    }

    /// Reads a chunk of a body; `None` after the last.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).unwrap();
        let chunk = self.take(size);
        self.line();
        (size > 0).then_some(chunk)
    }

    /// Reads the next event with data as its id and message; `None` at the end of the stream.
    pub(crate) fn event(&mut self, pending: &mut Vec<u8>) -> Option<(Option<String>, String)> {
        loop {
            if let Some(end) = pending.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = pending.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| {
                    let mut lines = event.lines();
                    lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
                };
                let id = field("id:");
                match field("data:") {
                    Some(data) => return Some((id, data)),
                    None => continue,
                }
            }
            pending.extend(self.chunk()?);
        }
    }
}
