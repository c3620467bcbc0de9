//! The forward proxy.

use std::io::{Read, Write};

use trunkline_testkit::net::{HttpProxy, RawHttp, TestCa, TlsOptions};

use crate::browser::{Browser, tcp, tls};

fn origin() -> RawHttp {
    RawHttp::start(|request, reply| {
        reply.respond(200, &[], request.path.as_bytes());
    })
}

#[test]
fn it_tunnels_and_forwards_and_writes_both_down() {
    let (origin, proxy) = (origin(), HttpProxy::start());
    let authority = origin.address().to_string();
    let mut client = Browser::to(proxy.address());
    let answer = client.fetch("POST", &format!("http://{authority}/a?b"), &[], b"body");
    assert_eq!(answer.body, b"/a?b");
    let mut client = Browser::to(proxy.address());
    client.send("CONNECT", &authority, &[], b"");
    assert_eq!(client.response().unwrap().status, 200);
    for _ in 0..2 {
        assert_eq!(client.fetch("GET", "/tunnel", &[], b"").body, b"/tunnel");
    }
    let seen: Vec<_> = proxy
        .requests()
        .into_iter()
        .map(|request| (request.method, request.path))
        .collect();
    let expected = [
        ("POST".to_owned(), format!("http://{authority}/a?b")),
        ("CONNECT".to_owned(), authority),
    ];
    assert_eq!(seen, expected);
    assert_eq!(origin.requests()[0].body, b"body");
    let host = origin.requests()[0].header("host").map(str::to_owned);
    assert_eq!(host.as_deref(), Some("localhost"));
    assert_eq!((origin.connections(), proxy.connections()), (2, 2));
}

#[test]
fn any_name_can_be_resolved_and_others_fail() {
    let (origin, proxy) = (origin(), HttpProxy::start());
    proxy.resolve("mcp.test:80", origin.address());
    let mut client = Browser::to(proxy.address());
    assert_eq!(client.fetch("GET", "http://mcp.test", &[], b"").body, b"/");
    let nobody = origin.address().to_string();
    origin.stop();
    let mut client = Browser::to(proxy.address());
    assert_eq!(client.fetch("CONNECT", &nobody, &[], b"").status, 502);
}

#[test]
fn it_can_want_credentials_and_speak_tls() {
    let origin = origin();
    let target = origin.address().to_string();
    let proxy = HttpProxy::start_auth("user", "pass");
    let mut client = Browser::to(proxy.address());
    let refused = client.fetch("CONNECT", &target, &[], b"");
    assert_eq!(refused.status, 407);
    assert!(refused.header("proxy-authenticate").is_some());
    let basic = [("Proxy-Authorization", "Basic dXNlcjpwYXNz")];
    let mut client = Browser::to(proxy.address());
    let url = format!("http://{target}/");
    assert_eq!(client.fetch("GET", &url, &basic, b"").status, 200);
    assert_eq!(origin.requests()[0].header("proxy-authorization"), None);

    let ca = TestCa::new();
    let proxy = HttpProxy::start_tls(&TlsOptions::new(&ca));
    assert!(proxy.url().starts_with("https://"));
    let mut client = Browser::new(tls(proxy.address(), &ca, None));
    client.send("CONNECT", &target, &[], b"");
    assert_eq!(client.response().unwrap().status, 200);
    assert_eq!(client.fetch("GET", "/x", &[], b"").body, b"/x");
}

#[test]
fn a_tunnel_ends_with_either_side() {
    let (origin, proxy) = (origin(), HttpProxy::start());
    let mut client = tcp(proxy.address());
    write!(client, "CONNECT {} HTTP/1.1\r\n\r\n", origin.address()).unwrap();
    let mut head = [0; 39];
    client.read_exact(&mut head).unwrap();
    origin.stop();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    trunkline_testkit::wait_until(crate::browser::LIMIT, || proxy.open_connections() == 0);
}
