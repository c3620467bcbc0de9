//! Reading and recording of HTTP/1.1 requests.

use std::{
    io::{self, BufRead, ErrorKind, Read},
    sync::{Arc, Mutex},
};

use serde_json::Value;

/// A recorded request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The number of its connection, counted from 0.
    pub connection: usize,
    /// The method.
    pub method: String,
    /// The target: path and query, or a whole URL to a proxy.
    pub path: String,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
    /// The body, without any transfer coding.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON, or null.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method of the body, or an empty string.
    pub fn rpc_method(&self) -> String {
        self.json()["method"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The JSON-RPC id of the body, or null.
    pub fn rpc_id(&self) -> Value {
        self.json()["id"].clone()
    }

    /// Whether a list header contains a token.
    pub(crate) fn lists(&self, name: &str, token: &str) -> bool {
        self.headers
            .iter()
            .filter(|(known, _)| known == name)
            .flat_map(|(_, value)| value.split(','))
            .map(|part| part.split(';').next().unwrap_or_default().trim())
            .any(|part| part == token || part == "*/*")
    }
}

/// The requests of a server, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog(Arc<Mutex<Vec<Request>>>);

impl RequestLog {
    pub(crate) fn push(&self, request: Request) {
        self.0.lock().unwrap().push(request);
    }

    pub(crate) fn all(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// Reads one request; `None` at the end of the connection.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let Some(mut request) = read_head(reader)? else {
        return Ok(None);
    };
    if request.lists("transfer-encoding", "chunked") {
        request.body = read_chunked(reader)?;
    } else if let Some(length) = request.header("content-length") {
        let length = length.trim().parse().map_err(io::Error::other)?;
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

/// Reads a request up to its empty line.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let first = loop {
        match read_line(reader)? {
            None => return Ok(None),
            Some(line) if line.is_empty() => {}
            Some(line) => break line,
        }
    };
    let mut words = first.split_ascii_whitespace();
    let mut request = Request {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        ..Request::default()
    };
    while let Some(line) = read_line(reader)? {
        if line.is_empty() {
            return Ok(Some(request));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| io::Error::other(format!("not a header: {line}")))?;
        request
            .headers
            .push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Err(ErrorKind::UnexpectedEof.into())
}

fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(
        String::from_utf8_lossy(line.trim_ascii_end()).into_owned(),
    ))
}

fn read_chunked(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?.ok_or(ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            break;
        }
        if reader.by_ref().take(size).read_to_end(&mut body)? as u64 != size {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        read_line(reader)?;
    }
    while read_line(reader)?.is_some_and(|line| !line.is_empty()) {}
    Ok(body)
}

/// The reason phrase of a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
