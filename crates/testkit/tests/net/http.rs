//! Streamable HTTP: both eras, sessions, streams, crashes.

use std::net::TcpStream;

use serde_json::{Value, json};
use trunkline_testkit::{
    Era, Scratch, Script,
    net::{Answers, HttpServer, TestCa, TlsOptions},
    wait_until,
};

use crate::browser::{Browser, LIMIT, Response, tls};

const BOTH: &str = "application/json, text/event-stream";

/// A client of one era that posts messages.
struct Mcp {
    http: Browser,
    modern: bool,
    next: u64,
}

impl Mcp {
    fn modern(server: &HttpServer) -> Self {
        Self::over(Browser::to(server.address()), true)
    }

    /// A legacy client that has shaken hands.
    fn legacy(server: &HttpServer) -> Self {
        let mut client = Self::over(Browser::to(server.address()), false);
        client.shake_hands();
        client
    }

    fn over(http: Browser, modern: bool) -> Self {
        let http = http
            .with("Accept", BOTH)
            .with("Content-Type", "application/json");
        Self {
            http,
            modern,
            next: 1,
        }
    }

    fn shake_hands(&mut self) {
        let info = json!({"name": "t", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let answer = self.request("initialize", params);
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let result = self.body(answer);
        assert_eq!(result["result"]["protocolVersion"], "2025-11-25");
        if let Some(session) = session {
            self.http.headers.push(("Mcp-Session-Id".into(), session));
        }
        let version = ("MCP-Protocol-Version".into(), "2025-11-25".into());
        self.http.headers.push(version);
        assert_eq!(self.notify("notifications/initialized").status, 202);
    }

    fn request(&mut self, method: &str, params: Value) -> Response {
        self.send(method, params);
        self.http.response().expect("a response")
    }

    fn send(&mut self, method: &str, mut params: Value) {
        let mut headers = Vec::new();
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            headers.push(("MCP-Protocol-Version", "2026-07-28"));
            headers.push(("Mcp-Method", method));
            if !name.is_empty() {
                headers.push(("Mcp-Name", &name));
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.next += 1;
        self.http
            .send("POST", "/mcp", &headers, body.to_string().as_bytes());
    }

    fn notify(&mut self, method: &str) -> Response {
        self.post(&json!({"jsonrpc": "2.0", "method": method, "params": {}}))
    }

    fn post(&mut self, body: &Value) -> Response {
        self.http
            .fetch("POST", "/mcp", &[], body.to_string().as_bytes())
    }

    /// The message that a response ends with, in either form.
    fn body(&mut self, answer: Response) -> Value {
        if answer.header("content-type") == Some("application/json") {
            return answer.json();
        }
        let events: Vec<_> = std::iter::from_fn(|| self.http.event()).collect();
        events.last().expect("an event").json()
    }

    fn call(&mut self, tool: &str) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": {"a": 1}}));
        assert_eq!(answer.status, 200);
        self.body(answer)
    }

    fn call_text(&mut self, tool: &str) -> String {
        self.call(tool)["result"]["content"][0]["text"]
            .as_str()
            .expect("text")
            .to_owned()
    }
}

fn script() -> Script {
    Script::default()
        .tool("echo", json!([{"echo": true}]))
        .tool(
            "steps",
            json!([{"progress": {"steps": 2}}, {"replyText": "done"}]),
        )
}

#[test]
fn both_eras_are_answered_in_both_forms_on_one_connection() {
    for answers in [Answers::Json, Answers::Sse] {
        let server = HttpServer::builder(script()).answers(answers).start();
        let mut modern = Mcp::modern(&server);
        let answer = modern.request("server/discover", json!({}));
        let form = match answers {
            Answers::Json => "application/json",
            Answers::Sse => "text/event-stream",
        };
        assert_eq!(answer.header("content-type"), Some(form));
        assert!(modern.body(answer)["result"]["supportedVersions"].is_array());
        assert_eq!(modern.call_text("echo"), r#"{"a":1}"#);
        let mut legacy = Mcp::legacy(&server);
        assert_eq!(legacy.call_text("echo"), r#"{"a":1}"#);
        let answer = legacy.request("tools/list", json!({}));
        assert_eq!(legacy.body(answer)["result"]["tools"][0]["name"], "echo");
        assert_eq!(server.connections(), 2);
        assert_eq!(server.sessions(), 1);
        assert_eq!(server.requests()[1].header("mcp-name"), Some("echo"));
    }
}

#[test]
fn a_session_is_required_ended_and_forgotten() {
    let server = HttpServer::start(script().era(Era::Legacy));
    let mut stranger = Mcp::over(Browser::to(server.address()), false);
    assert_eq!(stranger.request("tools/list", json!({})).status, 400);
    let mut client = Mcp::legacy(&server);
    assert_eq!(client.call_text("echo"), r#"{"a":1}"#);
    server.forget_sessions();
    let lost = client.request("tools/list", json!({}));
    assert_eq!(
        (lost.status, &lost.json()["error"]["code"]),
        (404, &json!(-32001))
    );

    let mut client = Mcp::legacy(&server);
    assert_eq!(client.http.fetch("DELETE", "/mcp", &[], b"").status, 200);
    assert_eq!((server.sessions(), server.deleted()), (0, 1));
    assert_eq!(client.request("tools/list", json!({})).status, 404);
    let bad = [("MCP-Protocol-Version", "1999-01-01")];
    let mut client = Mcp::over(Browser::to(server.address()), false);
    client.shake_hands();
    client
        .http
        .headers
        .retain(|(name, _)| name != "MCP-Protocol-Version");
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(client.http.fetch("POST", "/mcp", &bad, body).status, 400);

    let server = HttpServer::builder(script()).session_error(false).start();
    let mut client = Mcp::legacy(&server);
    server.forget_sessions();
    let lost = client.request("tools/list", json!({}));
    assert_eq!(lost.status, 404);
    assert!(serde_json::from_slice::<Value>(&lost.body).is_err());

    let server = HttpServer::builder(script()).sessions(false).start();
    let mut client = Mcp::legacy(&server);
    assert_eq!(client.call_text("echo"), r#"{"a":1}"#);
    assert_eq!(server.sessions(), 0);
    server.restart();
    let mut client = Mcp::over(Browser::to(server.address()), false);
    assert_eq!(client.call_text("echo"), r#"{"a":1}"#);
}

#[test]
fn progress_and_the_servers_requests_come_on_the_stream_of_the_call() {
    let asks = json!([{"request": {"method": "roots/list"}}, {"replyAnswer": true}]);
    let server = HttpServer::start(script().tool("ask", asks));
    let mut client = Mcp::legacy(&server);
    let meta = json!({"progressToken": "p"});
    client.request("tools/call", json!({"name": "steps", "_meta": meta}));
    for step in 1..=2 {
        let event = client.http.event().unwrap();
        assert_eq!(event.json()["params"]["progress"], step);
    }
    assert_eq!(client.http.event().unwrap().json()["id"], 2);
    assert_eq!(client.http.event(), None);

    client.request("tools/call", json!({"name": "ask"}));
    let asked = client.http.event().unwrap().json();
    assert_eq!(asked["method"], "roots/list");
    let mut second = Mcp::over(Browser::to(server.address()), false);
    second.http.headers.clone_from(&client.http.headers);
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}});
    assert_eq!(second.post(&answer).status, 202);
    let reply = client.http.event().unwrap().json();
    assert_eq!(reply["result"]["content"][0]["text"], r#"{"roots":[]}"#);
}

#[test]
fn a_get_stream_carries_what_is_pushed_or_is_not_there() {
    let add = json!([{"addTool": {"name": "new"}}, {"replyText": "added"}]);
    let server = HttpServer::builder(script().tool("add", add))
        .answers(Answers::Json)
        .start();
    let mut client = Mcp::legacy(&server);
    let mut stream = Mcp::over(Browser::to(server.address()), false);
    stream.http.headers.clone_from(&client.http.headers);
    let opened = stream.http.fetch("GET", "/mcp", &[], b"");
    assert_eq!(opened.header("content-type"), Some("text/event-stream"));
    wait_until(LIMIT, || server.streams() == 1);
    server.push(json!({"method": "notifications/message", "params": {"data": 1}}));
    assert_eq!(stream.http.event().unwrap().json()["params"]["data"], 1);
    // With answers of one body, progress has to go here.
    let meta = json!({"progressToken": "p"});
    client.request("tools/call", json!({"name": "steps", "_meta": meta}));
    assert_eq!(stream.http.event().unwrap().json()["params"]["progress"], 1);
    assert_eq!(stream.http.event().unwrap().json()["params"]["progress"], 2);
    // Another session changes the tools of all.
    assert_eq!(Mcp::legacy(&server).call_text("add"), "added");
    let changed = stream.http.event().unwrap().json();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(client.call_text("new"), r#"{"a":1}"#);
    server.drop_streams();
    assert_eq!(stream.http.event(), None);
    wait_until(LIMIT, || server.streams() == 0);

    let server = HttpServer::builder(script()).get_stream(false).start();
    let mut client = Mcp::legacy(&server);
    assert_eq!(client.http.fetch("GET", "/mcp", &[], b"").status, 405);
}

#[test]
fn a_broken_stream_is_resumed_from_its_last_event() {
    let scratch = Scratch::new();
    let gate = scratch.join("go");
    let slow = json!([{"progress": {"steps": 1}}, {"waitForFile": gate}, {"replyText": "late"}]);
    let server = HttpServer::builder(script().tool("slow", slow))
        .event_ids(true)
        .retry(7)
        .start();
    let mut client = Mcp::legacy(&server);
    let meta = json!({"progressToken": "p"});
    client.request("tools/call", json!({"name": "slow", "_meta": meta}));
    let first = client.http.event().unwrap();
    assert_eq!((first.retry, first.data.as_str()), (Some(7), ""));
    let progress = client.http.event().unwrap();
    assert_eq!(progress.json()["params"]["progress"], 1);
    server.drop_streams();
    assert_eq!(client.http.event(), None);
    scratch.write("go", "");
    let (primed, last) = (first.id.unwrap(), progress.id.unwrap());
    let mut resume = |event: &str| {
        let answer = client
            .http
            .fetch("GET", "/mcp", &[("Last-Event-ID", event)], b"");
        assert_eq!(answer.status, 200);
        let events: Vec<_> = std::iter::from_fn(|| client.http.event()).collect();
        events
            .into_iter()
            .skip(1)
            .map(|event| event.json())
            .collect::<Vec<_>>()
    };
    assert_eq!(resume(&primed).len(), 2);
    let rest = resume(&last);
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "late");
}

#[test]
fn modern_headers_must_say_what_the_body_says() {
    let server = HttpServer::start(script().era(Era::Modern));
    let mut client = Mcp::modern(&server);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "_meta": meta}})
    .to_string();
    let mut try_with = |version: &str, method: &str, name: &str| {
        let headers = [
            ("MCP-Protocol-Version", version),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        let answer = client.http.fetch("POST", "/mcp", &headers, body.as_bytes());
        let status = answer.status;
        (status, client.body(answer)["error"]["code"].clone())
    };
    let mismatch = (400, json!(-32020));
    assert_eq!(
        try_with("2026-07-28", "tools/call", "echo"),
        (200, Value::Null)
    );
    assert_eq!(try_with("2025-11-25", "tools/call", "echo"), mismatch);
    assert_eq!(try_with("2026-07-28", "tools/list", "echo"), mismatch);
    assert_eq!(try_with("2026-07-28", "tools/call", "other"), mismatch);
    let answer = client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (400, &json!(-32020))
    );
    let answer = client.request("no/such", json!({}));
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (404, &json!(-32601))
    );
    let headers = [
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Method", "initialize"),
    ];
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let answer = client.http.fetch("POST", "/mcp", &headers, body);
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (400, &json!(-32022))
    );
    assert_eq!(client.http.fetch("GET", "/mcp", &[], b"").status, 405);
    assert_eq!(client.http.fetch("DELETE", "/mcp", &[], b"").status, 405);
}

#[test]
fn a_listener_gets_what_it_asked_for() {
    let server = HttpServer::builder(script()).answers(Answers::Json).start();
    let mut client = Mcp::modern(&server);
    client.request(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    let first = client.http.event().unwrap().json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    wait_until(LIMIT, || server.streams() == 1);
    server.push(json!({"method": "notifications/prompts/list_changed"}));
    server.push(json!({"method": "notifications/tools/list_changed"}));
    let event = client.http.event().unwrap().json();
    assert_eq!(event["method"], "notifications/tools/list_changed");
    assert_eq!(
        event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
}

#[test]
fn closing_a_modern_call_cancels_it_and_nothing_else_does() {
    let scratch = Scratch::new();
    let log = scratch.join("cancelled");
    for answers in [Answers::Json, Answers::Sse] {
        let script = Script {
            cancel_log: Some(log.clone()),
            ..script().tool("hang", json!([{"silence": true}])).tool(
                "wait",
                json!([{"waitForFile": scratch.join("never")}, {"touch": scratch.join("ran")}]),
            )
        };
        let server = HttpServer::builder(script).answers(answers).start();
        for tool in ["hang", "wait"] {
            let mut client = Mcp::modern(&server);
            client.next = 77;
            client.send("tools/call", json!({"name": tool}));
            wait_until(LIMIT, || !server.requests().is_empty());
            server.clear_requests();
            drop(client);
            wait_until(LIMIT, || scratch.read("cancelled") == "77\n");
            scratch.write("cancelled", "");
        }
        // Neither an answered call, nor a legacy one, nor a crash is a cancellation.
        Mcp::modern(&server).call("echo");
        let mut old = Mcp::legacy(&server);
        old.send("tools/call", json!({"name": "hang"}));
        let mut client = Mcp::modern(&server);
        client.send("tools/call", json!({"name": "hang"}));
        wait_until(LIMIT, || server.requests().len() == 5);
        drop(old);
        server.stop();
        wait_until(LIMIT, || server.open_connections() == 0);
        assert_eq!(scratch.read("cancelled"), "");
    }
    assert!(!scratch.join("ran").exists());
}

#[test]
fn a_legacy_cancellation_ends_the_stream() {
    let server = HttpServer::start(script().tool("hang", json!([{"sleepMs": 60000}])));
    let mut client = Mcp::legacy(&server);
    client.next = 9;
    client.request("tools/call", json!({"name": "hang"}));
    let mut second = Mcp::over(Browser::to(server.address()), false);
    second.http.headers.clone_from(&client.http.headers);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(second.post(&cancel).status, 202);
    assert_eq!(client.http.event(), None);
}

#[test]
fn a_token_tls_gzip_and_the_path_are_as_told() {
    let ca = TestCa::new();
    let server = HttpServer::builder(script())
        .answers(Answers::Json)
        .token("good")
        .challenge(r#"Bearer resource_metadata="https://x""#)
        .tls(TlsOptions::new(&ca))
        .gzip(true)
        .path("/deep/mcp")
        .start();
    assert!(server.url().starts_with("https://127.0.0.1:") && server.url().ends_with("/deep/mcp"));
    let mut client = Mcp::over(Browser::new(tls(server.address(), &ca, None)), true);
    let mut status = |path: &str, token: &str| {
        let answer = client
            .http
            .fetch("GET", path, &[("Authorization", token)], b"");
        (
            answer.status,
            answer.header("www-authenticate").map(str::to_owned),
        )
    };
    assert_eq!(status("/mcp", "Bearer good").0, 404);
    let (refused, challenge) = status("/deep/mcp", "Bearer bad");
    assert_eq!(
        (refused, challenge.as_deref()),
        (401, Some(r#"Bearer resource_metadata="https://x""#))
    );
    assert_eq!(status("/deep/mcp", "Basic good").0, 401);
    assert_eq!(status("/deep/mcp", "Bearer good").0, 400);
    server.accept_token(Some("new".into()));
    assert_eq!(status("/deep/mcp", "Bearer good").0, 401);
    server.accept_token(None);

    let headers = [
        ("Accept-Encoding", "br, gzip;q=1"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "server/discover"),
    ];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}});
    let answer = client
        .http
        .fetch("POST", "/deep/mcp", &headers, body.to_string().as_bytes());
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let plain = flate2::read::GzDecoder::new(&answer.body[..]);
    let message: Value = serde_json::from_reader(plain).unwrap();
    assert_eq!(message["id"], 1);
}

#[test]
fn an_event_stream_is_compressed_event_by_event() {
    let server = HttpServer::builder(script()).gzip(true).start();
    let mut client = Mcp::modern(&server);
    client
        .http
        .headers
        .push(("Accept-Encoding".into(), "gzip".into()));
    client.request("subscriptions/listen", json!({"notifications": {}}));
    let chunk = client.http.chunk().unwrap().unwrap();
    let mut plain = vec![0; 16];
    let mut decoder = flate2::read::GzDecoder::new(&chunk[..]);
    std::io::Read::read_exact(&mut decoder, &mut plain).unwrap();
    assert_eq!(plain, b"event: message\nd");
}

#[test]
fn a_client_must_say_what_it_accepts_and_sends() {
    let server = HttpServer::start(script());
    let mut client = Browser::to(server.address());
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let kind = ("Content-Type", "application/json");
    let mut status =
        |headers: &[_], body: &[u8]| client.fetch("POST", "/mcp", headers, body).status;
    assert_eq!(status(&[kind, ("Accept", "application/json")], body), 406);
    assert_eq!(
        status(&[("Accept", BOTH), ("Content-Type", "text/plain")], body),
        415
    );
    assert_eq!(status(&[("Accept", BOTH), kind], b"{"), 400);
    assert_eq!(status(&[("Accept", BOTH), kind], b"[]"), 400);
}

#[test]
fn a_script_can_crash_the_server_and_a_restart_loses_everything() {
    let scratch = Scratch::new();
    let add = json!([{"addTool": {"name": "new"}}, {"replyText": "added"}]);
    let script = script()
        .tool("crash", json!([{"exit": 1}]))
        .tool("add", add)
        .on_start(json!([{"countFile": scratch.join("starts")}]));
    let server = HttpServer::start(script);
    let mut client = Mcp::legacy(&server);
    assert_eq!(client.call_text("add"), "added");
    client.send("tools/call", json!({"name": "crash"}));
    client.http.rest();
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart();
    assert_eq!(
        (server.sessions(), scratch.read("starts").as_str()),
        (0, "2")
    );
    let mut again = Mcp::over(Browser::to(server.address()), false);
    again.http.headers.clone_from(&client.http.headers);
    assert_eq!(again.request("tools/list", json!({})).status, 404);
    let mut fresh = Mcp::legacy(&server);
    let gone = fresh.request("tools/call", json!({"name": "new"}));
    assert_eq!(fresh.body(gone)["error"]["code"], -32602);
}

#[test]
fn raw_writes_take_the_form_of_the_answer() {
    let script = script()
        .tool("bad", json!([{"garbage": 50}, {"replyText": "after"}]))
        .tool(
            "slow",
            json!([{"slowWrite": {"text": "{\"id\": $ID}", "chunk": 3}}, {"replyText": "after"}]),
        );
    for (answers, kind) in [
        (Answers::Json, "application/json"),
        (Answers::Sse, "text/event-stream"),
    ] {
        let server = HttpServer::builder(script.clone()).answers(answers).start();
        let mut client = Mcp::modern(&server);
        let answer = client.request("tools/call", json!({"name": "slow"}));
        assert_eq!(answer.header("content-type"), Some(kind));
        let mut client = Mcp::modern(&server);
        let answer = client.request("tools/call", json!({"name": "bad"}));
        if answers == Answers::Json {
            assert_eq!(answer.body.len(), 50);
        } else {
            let bad = client.http.chunk().unwrap().unwrap();
            assert!(bad.starts_with(b"event: message\ndata: \xff"));
            assert_eq!(client.http.event().unwrap().json()["id"], 1);
        }
    }
}
