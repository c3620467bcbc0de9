//! The old HTTP+SSE transport.

use std::net::TcpStream;

use serde_json::{Value, json};
use trunkline_testkit::{
    Script,
    net::{SseServer, TestCa, TlsOptions},
    wait_until,
};

use crate::browser::{Browser, LIMIT, tls};

/// A stream and the connection for its messages.
struct Client {
    stream: Browser,
    posts: Browser,
    endpoint: String,
}

impl Client {
    fn connect(server: &SseServer) -> Self {
        Self::over(Browser::to(server.address()), Browser::to(server.address()))
    }

    fn over(mut stream: Browser, posts: Browser) -> Self {
        let opened = stream.fetch("GET", "/sse", &[("Accept", "text/event-stream")], b"");
        assert_eq!(opened.status, 200);
        let first = stream.event().unwrap();
        assert_eq!(first.name.as_deref(), Some("endpoint"));
        Self {
            stream,
            posts,
            endpoint: first.data,
        }
    }

    fn send(&mut self, message: &Value) -> u16 {
        let body = message.to_string();
        self.posts
            .fetch("POST", &self.endpoint, &[], body.as_bytes())
            .status
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_eq!(self.send(&message), 202);
        self.stream.event().unwrap().json()
    }

    fn initialize(&mut self) {
        let answer = self.request("initialize", json!({"protocolVersion": "2024-11-05"}));
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    }
}

fn script() -> Script {
    Script::default()
        .tool("echo", json!([{"echo": true}]))
        .tool("crash", json!([{"exit": 1}]))
}

#[test]
fn answers_come_on_the_stream() {
    let server = SseServer::start(script());
    let mut client = Client::connect(&server);
    assert!(client.endpoint.starts_with("/messages?sessionId="));
    client.initialize();
    let answer = client.request("tools/call", json!({"name": "echo", "arguments": {}}));
    assert_eq!(answer["result"]["content"][0]["text"], "{}");
    let mut other = Client::connect(&server);
    other.initialize();
    assert_eq!(server.streams(), 2);
    server.push(json!({"method": "notifications/tools/list_changed"}));
    for client in [&mut client, &mut other] {
        let event = client.stream.event().unwrap().json();
        assert_eq!(event["method"], "notifications/tools/list_changed");
    }
    // A session ends with its stream.
    drop(client.stream);
    wait_until(LIMIT, || server.streams() == 1);
    let answer = client.posts.fetch("POST", &client.endpoint, &[], b"{}");
    assert_eq!(answer.status, 404);
    server.drop_streams();
    assert_eq!(other.stream.event(), None);
}

#[test]
fn the_endpoint_the_token_and_the_refusal_are_as_told() {
    let ca = TestCa::new();
    let server = SseServer::builder(script())
        .endpoint("https://elsewhere.test/post/{id}")
        .retry(5)
        .post_status(404)
        .token(|token: &str| token.starts_with("good"))
        .tls(TlsOptions::new(&ca))
        .start();
    assert!(server.url().starts_with("https://") && server.url().ends_with("/sse"));
    let mut client = Browser::new(tls(server.address(), &ca, None));
    assert_eq!(client.fetch("GET", "/sse", &[], b"").status, 401);
    let mut client = client.with("Authorization", "Bearer good1");
    assert_eq!(client.fetch("POST", "/sse", &[], b"{}").status, 404);
    client.fetch("GET", "/sse", &[], b"");
    let first = client.event().unwrap();
    assert_eq!(first.retry, Some(5));
    assert!(first.data.starts_with("https://elsewhere.test/post/"));
}

#[test]
fn it_crashes_and_comes_back_without_its_sessions() {
    let server = SseServer::start(script());
    let mut client = Client::connect(&server);
    client.initialize();
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    client.stream.event().unwrap();
    let crash =
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "crash"}});
    let body = crash.to_string();
    client
        .posts
        .send("POST", &client.endpoint, &[], body.as_bytes());
    client.stream.rest();
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart();
    let mut posts = Browser::to(server.address());
    assert_eq!(
        posts.fetch("POST", &client.endpoint, &[], b"{}").status,
        404
    );
    Client::connect(&server).initialize();
}
