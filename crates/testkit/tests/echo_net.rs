//! The echo server of the benchmarks, over sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use trunkline_testkit::{MODERN_VERSION, bin};

const LIMIT: Duration = Duration::from_secs(10);

/// A server on its own port.
struct Echo {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Echo {
    fn start(scheme: &str) -> Self {
        let mut child = Command::new(bin("testkit-echo"))
            .arg(format!("--{scheme}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        stdout.read_line(&mut url).unwrap();
        let address = url.trim().strip_prefix(&format!("{scheme}://")).unwrap();
        let address = address.strip_suffix("/mcp").unwrap().to_owned();
        Self {
            child,
            stdout,
            address,
        }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        BufReader::new(stream)
    }

    /// Its output when stdin ends.
    fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

fn post(path: &str, version: Option<&str>, body: &Value) -> String {
    let version = version.map_or_else(String::new, |version| {
        format!("MCP-Protocol-Version: {version}\r\n")
    });
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\n{version}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn call(id: u32, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": text } } })
}

/// The status and the body of the next answer.
fn answer(stream: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut status = String::new();
    stream.read_line(&mut status).unwrap();
    let status = status.split(' ').nth(1).unwrap().parse().unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn a_connection_serves_many_requests_of_both_eras_and_all_are_counted() {
    let echo = Echo::start("http");
    let mut stream = echo.connect();
    let long = "long \" ".repeat(1 << 18);
    let mut messages = 0;
    for version in [None, Some("2025-11-25"), Some(MODERN_VERSION)] {
        for text in ["", "plain", "é \u{1f600} \\", long.as_str()] {
            let request = post("/mcp", version, &call(7, text));
            stream.get_mut().write_all(request.as_bytes()).unwrap();
            let (status, body) = answer(&mut stream);
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                (status, &body["id"], &body["result"]["content"][0]["text"]),
                (200, &json!(7), &json!(text))
            );
            let kind = body["result"].get("resultType");
            assert_eq!(kind.is_some(), version == Some(MODERN_VERSION));
            messages += 1;
        }
    }
    drop(stream);
    assert_eq!(
        echo.end(),
        json!({ "connections": 1, "messages": messages })
    );
}

#[test]
fn each_kind_of_request_has_its_answer_however_it_arrives() {
    let echo = Echo::start("http");
    let mut stream = echo.connect();
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } });
    let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let cases = [
        (post("/mcp", None, &initialize), 200, "2025-06-18"),
        (
            post("/mcp", Some(MODERN_VERSION), &discover),
            200,
            "supportedVersions",
        ),
        (post("/mcp", None, &initialized), 202, ""),
        ("GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405, ""),
        (post("/other", None, &call(2, "hello")), 200, "hello"),
    ];
    for (request, status, telling) in &cases {
        for byte in request.as_bytes().chunks(1) {
            stream.get_mut().write_all(byte).unwrap();
        }
        let (found, body) = answer(&mut stream);
        assert_eq!(found, *status, "{request}");
        assert!(body.contains(telling), "{body}");
    }
    let all: String = cases.iter().map(|(request, ..)| request.as_str()).collect();
    stream.get_mut().write_all(all.as_bytes()).unwrap();
    for (_, status, _) in &cases {
        assert_eq!(answer(&mut stream).0, *status);
    }
}

#[test]
fn a_path_that_hangs_gets_no_answer_and_holds_up_nobody() {
    let echo = Echo::start("http");
    let (mut hung, mut served) = (echo.connect(), echo.connect());
    let request = post("/hang/3", None, &call(1, "hello"));
    hung.get_mut().write_all(request.as_bytes()).unwrap();
    let request = post("/mcp", None, &call(2, "hello"));
    served.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(answer(&mut served).0, 200);
    hung.get_mut().set_nonblocking(true).unwrap();
    let error = hung.get_mut().read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// A masked frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![first];
    match payload.len() {
        length @ ..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..65536 => {
            frame.push(0x80 | 0x7e);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

/// The first byte and the payload of the next frame.
fn next_frame(stream: &mut BufReader<TcpStream>) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut long = [0; 8];
    let length = match head[1] {
        126 => {
            stream.read_exact(&mut long[6..]).unwrap();
            u64::from_be_bytes(long)
        }
        127 => {
            stream.read_exact(&mut long).unwrap();
            u64::from_be_bytes(long)
        }
        short => short.into(),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

#[test]
fn a_websocket_echoes_texts_of_any_size_in_frames_of_any_kind() {
    let echo = Echo::start("ws");
    let mut stream = echo.connect();
    // The key and its signature are the example of RFC 6455.
    let upgrade = "GET /mcp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n";
    stream.get_mut().write_all(upgrade.as_bytes()).unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).unwrap();
    }
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");

    let long = "x".repeat(100_000);
    for text in ["", "plain", &long[..300], &long] {
        let message = call(3, text).to_string().into_bytes();
        let (first, second) = message.split_at(20);
        let whole = frame(0x81, &message);
        let mut in_parts = frame(0x01, first);
        in_parts.extend(frame(0x89, b"are you there"));
        in_parts.extend(frame(0x80, second));
        for (sent, pings) in [(whole, 0), (in_parts, 1)] {
            stream.get_mut().write_all(&sent).unwrap();
            for _ in 0..pings {
                assert_eq!(next_frame(&mut stream), (0x8a, b"are you there".to_vec()));
            }
            let (kind, answer) = next_frame(&mut stream);
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(
                (kind, &answer["result"]["content"][0]["text"]),
                (0x81, &json!(text))
            );
        }
    }
    stream
        .get_mut()
        .write_all(&frame(0x88, &1000_u16.to_be_bytes()))
        .unwrap();
    assert_eq!(
        next_frame(&mut stream),
        (0x88, 1000_u16.to_be_bytes().to_vec())
    );
}
