//! Hostile clients: each is refused or cut, and its neighbours are unharmed.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::lab::{INITIALIZE, Lab, call, get_events, in_session, modern, post};
use crate::raw::SOON;

#[test]
fn a_rebound_name_is_refused() {
    let lab = Lab::new();
    let request = post("/mcp", "", INITIALIZE);
    for host in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "10.0.0.1",
    ] {
        let reply = lab.send(request.replace("Host: localhost", &format!("Host: {host}")));
        assert_eq!(reply.status, 403, "{host}");
    }
    for (bad, what) in [
        (request.replace("Host: localhost\r\n", ""), "none"),
        (
            request.replace("Host: localhost\r\n", "Host: localhost\r\nHost: evil\r\n"),
            "two",
        ),
        (
            request.replace("Host: localhost", "Host: a@localhost"),
            "user",
        ),
    ] {
        assert_eq!(lab.send(bad).status, 400, "{what}");
    }
    let health = lab.send("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(health.status, 403, "every path is checked");
    let named = Lab::with(|options| options.hosts.push("gate.example".to_owned()));
    let reply = named.send(request.replace("Host: localhost", "Host: gate.example:8080"));
    assert_eq!(reply.status, 200);
    lab.assert_works();
}

#[test]
fn pages_of_other_origins_are_refused_and_allowed_ones_may_read() {
    let lab = Lab::with(|options| options.origins.push("https://app.example".to_owned()));
    for origin in [
        "http://evil.example",
        "null",
        "https://app.example.evil.example",
    ] {
        let headers = format!("Origin: {origin}\r\n");
        let reply = lab.send(post("/mcp", &headers, INITIALIZE));
        assert_eq!(reply.status, 403, "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(lab.send(get_events("/sse", &headers)).status, 403);
    }
    for origin in ["https://app.example", "http://localhost:6274"] {
        let preflight = format!(
            "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: content-type,mcp-session-id\r\n\r\n"
        );
        let reply = lab.send(preflight);
        assert_eq!(reply.status, 204);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some("content-type,mcp-session-id")
        );
        let reply = lab.send(post("/mcp", &format!("Origin: {origin}\r\n"), INITIALIZE));
        assert_eq!(reply.status, 200);
        let exposed = reply.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("mcp-session-id"));
    }
    // What a page may send without asking is not JSON.
    let request =
        post("/mcp", "", INITIALIZE).replace("application/json\r\nAccept", "text/plain\r\nAccept");
    assert_eq!(lab.send(request).status, 415);
}

#[test]
fn no_request_is_smuggled_behind_another() {
    let lab = Lab::new();
    let smuggled = modern("/mcp", "tools/call", json!({"name": "mcp__lab__slow"}));
    let body = format!("0\r\n\r\n{smuggled}");
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let length = body.len();
    let attacks = [
        // Both lengths, in both orders: chunked counts, and the connection ends with it.
        format!("{head}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("{head}Content-Length: 5\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("{head}Content-Length: 5, {length}\r\n\r\n{body}"),
        format!("{head}Content-Length: +5\r\n\r\n{body}"),
        format!("{head}Content-Length: -1\r\n\r\n{body}"),
        format!("{head}Content-Length: 0x5\r\n\r\n{body}"),
        format!("{head}Content-Length : 5\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked, identity\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: xchunked\r\n\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{body}"),
        format!(
            "{}Transfer-Encoding: chunked\r\n\r\n{body}",
            head.replace("1.1", "1.0")
        ),
        format!("{head}X: a\r\n folded\r\n\r\n{body}"),
        format!("{head}X\r\n\r\n{body}"),
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n{body}"),
    ];
    for attack in &attacks {
        let mut connection = lab.connect();
        connection.try_send(attack);
        let first = connection.try_reply();
        if let Some(first) = &first {
            assert_eq!(first.status / 100, 4, "{attack}");
        }
        let rest = connection.rest();
        assert!(
            !String::from_utf8_lossy(&rest).contains("HTTP/1.1 2"),
            "{attack}"
        );
    }
    assert_eq!(
        lab.gate.waiting.load(std::sync::atomic::Ordering::SeqCst),
        0
    );
    lab.assert_works();
}

#[test]
fn slow_heads_and_bodies_are_cut() {
    let lab = Lab::with(|options| {
        options.limits.head_timeout = Duration::from_millis(300);
        options.limits.body_timeout = Duration::from_millis(300);
    });
    let mut slow: Vec<_> = (0..20).map(|_| lab.connect()).collect();
    for connection in &mut slow {
        connection.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-");
    }
    let mut body = lab.connect();
    let request = post("/mcp", "", INITIALIZE);
    body.send(&request[..request.len() - 5]);
    lab.assert_works();
    assert_eq!(body.reply().status, 408);
    // A byte now and then does not help.
    let drip = &mut slow[0];
    let since = Instant::now();
    while drip.try_send("a") && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(since.elapsed() < SOON, "the connection is not cut");
    for connection in slow {
        let rest = String::from_utf8(connection.rest()).unwrap();
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408"),
            "{rest}"
        );
    }
    lab.assert_works();
}

#[test]
fn oversized_requests_are_refused_without_being_read() {
    let lab = Lab::with(|options| {
        options.limits.body_bytes = 10_000;
        options.limits.head_bytes = 16 * 1024;
    });
    let headers = "Content-Length: 99999999999\r\n";
    let declared = post("/mcp", "", INITIALIZE);
    let length = format!("Content-Length: {}\r\n", INITIALIZE.len());
    let reply = lab.send(declared.replace(&length, headers));
    assert_eq!(reply.status, 413);
    // Chunked, so the length is unknown.
    let mut connection = lab.connect();
    let head = declared.split("\r\n\r\n").next().unwrap();
    let head = head.replace(length.trim_end(), "Transfer-Encoding: chunked");
    connection.send(format!("{head}\r\n\r\n"));
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..100 {
        if !connection.try_send(&chunk) {
            break;
        }
    }
    // The refusal may be lost when the connection is reset under our unread bytes.
    if let Some(reply) = connection.try_reply() {
        assert_eq!(reply.status, 413);
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(20_000));
    assert_eq!(lab.send(post("/mcp", &long, INITIALIZE)).status, 431);
    let many: String = (0..200).map(|n| format!("X-{n}: x\r\n")).collect();
    assert_eq!(lab.send(post("/mcp", &many, INITIALIZE)).status, 431);
    let path = format!("/{}", "x".repeat(12_000));
    let status = lab.get(&path).status;
    assert!([404, 414, 431].contains(&status), "{status}");
    lab.assert_works();
}

#[test]
fn malformed_messages_are_refused() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("null", 400),
        ("7", 400),
        ("{}", 400),
        ("\u{0}", 400),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, 400),
        (r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, 400),
        (r#"[1,2]"#, 400),
        (deep.as_str(), 400),
    ] {
        let reply = lab.send(post("/mcp", &headers, body));
        let shown = &body[..body.len().min(60)];
        assert_eq!(reply.status, status, "{shown}");
        assert!(reply.json()["error"]["code"].is_i64(), "{shown}");
    }
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"\n\n\n\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut connection = lab.connect();
        connection.try_send(garbage);
        let _ = connection.stream().shutdown(std::net::Shutdown::Write);
        let rest = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 4"), "{rest}");
    }
    for (method, path, status) in [
        ("PUT", "/mcp", 405),
        ("POST", "/healthz", 405),
        ("GET", "/messages", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/", 404),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(lab.send(request).status, status, "{method} {path}");
    }
    lab.assert_works();
}

#[test]
fn a_client_that_never_reads_is_cut() {
    let lab = Lab::with(|options| options.limits.write_timeout = Duration::from_millis(500));
    let session = lab.initialize("");
    let big = call(1, "mcp__lab__big", &json!({"n": 30_000_000}));
    let mut deaf = lab.connect();
    deaf.send(post("/mcp", &in_session(&session), &big));
    let mut first = [0];
    deaf.stream().read_exact(&mut first).unwrap();
    // Not another byte is read until the endpoint has given up.
    let open = || {
        let text = lab.get("/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with("trunkline_http_connections "));
        line.unwrap()
            .rsplit_once(' ')
            .unwrap()
            .1
            .parse::<u32>()
            .unwrap()
    };
    trunkline_testkit::wait_until(SOON, || open() == 1);
    let read = deaf.rest().len();
    assert!(read < 30_000_000, "{read}");
    lab.assert_works();
}

#[test]
fn a_flood_of_connections_stops_at_the_limit() {
    let lab = Lab::with(|options| options.limits.connections = 10);
    let mut held: Vec<_> = (0..10).map(|_| lab.connect()).collect();
    for connection in &mut held {
        connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(connection.reply().status, 200);
    }
    let mut more = lab.connect();
    let _ = more
        .stream()
        .write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(more.try_reply().is_none(), "it is closed at once");
    drop(held);
    trunkline_testkit::wait_until(SOON, || {
        let mut connection = lab.connect();
        connection.try_send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.try_reply().is_some()
    });
    lab.assert_works();
}
