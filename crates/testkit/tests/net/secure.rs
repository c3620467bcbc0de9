//! TLS in front of any server.

use std::io::{Read, Write};

use serde_json::json;
use trunkline_testkit::{
    Scratch,
    net::{Identity, RawHttp, TestCa, TlsOptions},
    wait_until,
};

use crate::browser::{Browser, LIMIT, tls};

fn echo(options: &TlsOptions) -> RawHttp {
    RawHttp::start_tls(options, |request, reply| match request.path.as_str() {
        "/stream" => {
            reply.sse().event(&json!(1));
            reply.hold();
        }
        "/close" => reply.close(),
        "/reset" => reply.reset(),
        _ => {
            reply.respond(200, &[], &request.body);
        }
    })
}

#[test]
fn requests_go_through_tls_both_ways_at_any_size() {
    let ca = TestCa::new();
    let server = echo(&TlsOptions::new(&ca));
    assert!(server.url().starts_with("https://"));
    let mut client = Browser::new(tls(server.address(), &ca, None));
    let body = vec![b'y'; 8 << 20];
    assert_eq!(client.fetch("POST", "/", &[], b"small").body, b"small");
    assert!(client.fetch("POST", "/", &[], &body).body == body);
    assert_eq!(server.connections(), 1);
    client.fetch("GET", "/stream", &[], b"");
    assert_eq!(client.event().unwrap().data, "1");
    server.stop();
    let mut rest = tls_end(&mut client);
    assert!(rest.is_err() || rest.as_mut().unwrap().is_empty());
    wait_until(LIMIT, || server.open_connections() == 0);
}

fn tls_end(client: &mut Browser) -> std::io::Result<Vec<u8>> {
    client.chunk().map(Option::unwrap_or_default)
}

#[test]
fn a_close_says_goodbye_and_a_reset_does_not() {
    let ca = TestCa::new();
    let server = echo(&TlsOptions::new(&ca));
    for (path, polite) in [("/close", true), ("/reset", false)] {
        let mut client = tls(server.address(), &ca, None);
        write!(client, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
        let end = client.read(&mut [0; 16]);
        assert_eq!(end.is_ok_and(|count| count == 0), polite, "{path}");
    }
    wait_until(LIMIT, || server.open_connections() == 0);
}

#[test]
fn a_certificate_is_refused_by_whoever_does_not_trust_it() {
    let (ca, stranger) = (TestCa::new(), TestCa::new());
    let write = |options: &TlsOptions, trusted: &TestCa| {
        let server = echo(options);
        tls(server.address(), trusted, None).write_all(b"GET / HTTP/1.1\r\n\r\n")
    };
    assert!(write(&TlsOptions::new(&ca), &ca).is_ok());
    assert!(write(&TlsOptions::new(&ca), &stranger).is_err());
    assert!(write(&TlsOptions::with(ca.server_for(&["example.test"])), &ca).is_err());
    assert!(write(&TlsOptions::with(ca.expired_server()), &ca).is_err());
}

#[test]
fn a_client_certificate_can_be_required() {
    let (ca, stranger) = (TestCa::new(), TestCa::new());
    let server = echo(&TlsOptions::new(&ca).require_client(&ca));
    let talk = |identity: Option<Identity>| {
        let mut client = tls(server.address(), &ca, identity.as_ref());
        // In TLS 1.3 the client hears of a refusal only when it reads.
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").ok();
        client.read(&mut [0; 64]).is_ok_and(|count| count > 0)
    };
    assert!(!talk(None));
    assert!(!talk(Some(stranger.client("mallory"))));
    assert!(talk(Some(ca.client("alice"))));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn certificates_are_written_as_files() {
    let (scratch, ca) = (Scratch::new(), TestCa::new());
    assert_eq!(
        std::fs::read_to_string(ca.write(&scratch)).unwrap(),
        ca.pem()
    );
    let (certificate, key) = ca.client("alice").write(&scratch, "alice");
    assert_eq!(certificate, scratch.join("alice.pem"));
    let both =
        std::fs::read_to_string(certificate).unwrap() + &std::fs::read_to_string(key).unwrap();
    assert!(both.contains("BEGIN CERTIFICATE") && both.contains("BEGIN PRIVATE KEY"));
}
