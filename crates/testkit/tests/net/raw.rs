//! Exact bytes, counted connections, crashes.

use std::{
    io::ErrorKind,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::json;
use trunkline_testkit::{
    net::{RawHttp, gzip},
    wait_until,
};

use crate::browser::{Browser, LIMIT};

#[test]
fn a_connection_is_kept_and_requests_are_recorded() {
    let server = RawHttp::start(|request, reply| {
        reply.json(200, &json!({"echo": request.rpc_method()}));
    });
    let mut client = Browser::to(server.address()).with("X-Test", "yes");
    for _ in 0..3 {
        let answer = client.fetch("POST", "/mcp?a=b", &[], br#"{"method":"ping"}"#);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json(), json!({"echo": "ping"}));
    }
    assert_eq!((server.connections(), server.open_connections()), (1, 1));
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2].method, "POST");
    assert_eq!(requests[2].path, "/mcp?a=b");
    assert_eq!(requests[2].header("x-test"), Some("yes"));
    drop(client);
    wait_until(LIMIT, || server.open_connections() == 0);
    Browser::to(server.address()).fetch("GET", "/", &[], b"");
    assert_eq!(server.connections(), 2);
    assert_eq!(server.requests()[3].connection, 1);
}

#[test]
fn bodies_in_chunks_and_pipelined_requests_are_read() {
    let server = RawHttp::start(|request, reply| {
        reply.respond(200, &[], &request.body);
    });
    let mut client = Browser::to(server.address());
    client.write(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n\
         POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nfg",
    );
    assert_eq!(client.response().unwrap().body, b"abcde");
    assert_eq!(client.response().unwrap().body, b"fg");
}

#[test]
fn answers_are_the_bytes_that_were_given() {
    let server = RawHttp::start(|request, reply| match request.path.as_str() {
        "/redirect" => {
            reply.respond(307, &[("location", "/elsewhere")], "");
        }
        "/busy" => {
            reply.respond(429, &[("retry-after", "2")], "");
        }
        "/gzip" => {
            reply.respond(200, &[("content-encoding", "gzip")], gzip("hello"));
        }
        "/pieces" => {
            reply.pieces("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes", 1);
        }
        "/split" => {
            reply.sse().chunks("data: 1\r\n\r\n", 1);
        }
        "/truncated" => reply.sse().chunk("data: half").close(),
        "/reset" => reply.sse().chunk("data: half").reset(),
        _ => {}
    });
    let mut client = Browser::to(server.address());
    let answer = client.fetch("GET", "/redirect", &[], b"");
    assert_eq!(
        (answer.status, answer.header("location")),
        (307, Some("/elsewhere"))
    );
    let answer = client.fetch("GET", "/busy", &[], b"");
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("2"))
    );
    let answer = client.fetch("GET", "/gzip", &[], b"");
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(&answer.body[..]),
        &mut text,
    )
    .unwrap();
    assert_eq!(text, "hello");
    assert_eq!(client.fetch("GET", "/pieces", &[], b"").body, b"bytes");
    client.fetch("GET", "/split", &[], b"");
    let chunks: Vec<_> = std::iter::from_fn(|| client.chunk().unwrap()).collect();
    assert_eq!(chunks.len(), 11);
    assert_eq!(chunks.concat(), b"data: 1\r\n\r\n");
    assert_eq!(server.connections(), 1);

    client.fetch("GET", "/truncated", &[], b"");
    assert_eq!(client.rest(), (b"a\r\ndata: half\r\n".to_vec(), false));
    let mut client = Browser::to(server.address());
    client.send("GET", "/reset", &[], b"");
    assert!(client.rest().1);
    // Nothing at all.
    let mut client = Browser::to(server.address());
    client.send("GET", "/nothing", &[], b"");
    assert_eq!(client.rest(), (Vec::new(), false));
    wait_until(LIMIT, || server.open_connections() == 0);
}

#[test]
fn a_handler_waits_for_a_condition_or_for_the_client_to_go() {
    let (go, left) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (gate, noticed) = (Arc::clone(&go), Arc::clone(&left));
    let server = RawHttp::start(move |request, reply| {
        if request.path == "/hold" {
            reply.sse().hold();
            noticed.store(true, Ordering::Release);
        } else {
            reply.sse().event(&json!(1));
            assert!(reply.wait_until(|| gate.load(Ordering::Acquire)));
            reply.event(&json!(2));
        }
    });
    let mut client = Browser::to(server.address());
    client.fetch("GET", "/wait", &[], b"");
    assert_eq!(client.event().unwrap().data, "1");
    go.store(true, Ordering::Release);
    assert_eq!(client.event().unwrap().data, "2");
    assert_eq!(client.event(), None);
    client.fetch("GET", "/hold", &[], b"");
    assert!(!left.load(Ordering::Acquire));
    drop(client);
    wait_until(LIMIT, || left.load(Ordering::Acquire));
}

#[test]
fn a_big_body_arrives_whole() {
    let server = RawHttp::start(|_, reply| {
        reply.respond(200, &[], vec![b'x'; 70 << 20]);
    });
    let answer = Browser::to(server.address()).fetch("GET", "/", &[], b"");
    assert_eq!(answer.body.len(), 70 << 20);
}

#[test]
fn a_stopped_server_refuses_and_comes_back_on_its_port() {
    let server = RawHttp::start(|request, reply| {
        if request.path == "/hold" {
            reply.sse().hold();
        } else {
            reply.status(204);
        }
    });
    let mut client = Browser::to(server.address());
    client.fetch("GET", "/hold", &[], b"");
    server.stop();
    assert_eq!(client.rest().0, b"");
    let refused = TcpStream::connect(server.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    server.restart();
    let answer = Browser::to(server.address()).fetch("GET", "/", &[], b"");
    assert_eq!(answer.status, 204);
    server.restart();
    let address = server.address();
    assert_eq!(Browser::to(address).fetch("GET", "/", &[], b"").status, 204);
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}
