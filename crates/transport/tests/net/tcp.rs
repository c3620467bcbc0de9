//! TCP connections and their errors.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::time::Instant;
use trunkline_transport::net::{Alpn, DIAL_TIMEOUT, DialError, Target, TlsFiles};

use crate::echo::{Echo, reach};
use crate::support::certs::Ca;
use crate::support::{dialer, plain_dialer};

fn at(host: &str, port: u16) -> Target {
    Target {
        tls: false,
        host: host.to_owned(),
        port,
    }
}

#[tokio::test]
async fn ipv6_works_with_and_without_tls() {
    let echo = Echo::start("[::1]:0", None).await;
    let target = at("::1", echo.address.port());
    reach(&plain_dialer(), &target, &TlsFiles::default())
        .await
        .unwrap();

    let ca = Ca::new();
    let echo = Echo::start("[::1]:0", Some(ca.server())).await;
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    reach(&dialer, &echo.target(), &TlsFiles::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_dead_address_does_not_prevent_connecting() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let echo = Echo::start(address, None).await;
        let target = at("localhost", echo.address.port());
        reach(&plain_dialer(), &target, &TlsFiles::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_refused_connection_and_an_unknown_name_are_distinct_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let files = TlsFiles::default();
    let dialer = plain_dialer();
    let reached = dialer
        .dial(&at("127.0.0.1", port), &files, Alpn::Http1)
        .await;
    let error = reached.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("127.0.0.1:{port} refused the connection")
    );

    let long = "x".repeat(300);
    let reached = dialer.dial(&at(&long, 80), &files, Alpn::Http1).await;
    let error = reached.unwrap_err();
    assert!(matches!(error, DialError::Lookup { .. }), "{error:?}");
}

/// A port where connections are neither accepted nor refused: its backlog is full.
#[cfg(target_os = "linux")]
fn dead_end() -> (SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut sockets = vec![listener];
    for _ in 0..2 {
        let caller = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        caller.set_nonblocking(true).unwrap();
        let _ = caller.connect(&address.into());
        sockets.push(caller);
    }
    (address, sockets)
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn an_unresponsive_address_times_out() {
    let (address, _sockets) = dead_end();
    let began = Instant::now();
    let target = at("127.0.0.1", address.port());
    let reached = plain_dialer()
        .dial(&target, &TlsFiles::default(), Alpn::Http1)
        .await;
    let error = reached.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{address} could not be reached within 10 s")
    );
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_server_that_accepts_and_stays_silent_times_out() {
    let ca = Ca::new();
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    let echo = Echo::tls(ca.server()).await;
    reach(&dialer, &echo.target(), &TlsFiles::default())
        .await
        .unwrap();

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let target = Target {
        tls: true,
        ..at("127.0.0.1", port)
    };
    tokio::time::pause();
    let began = Instant::now();
    let reached = dialer
        .dial(&target, &TlsFiles::default(), Alpn::Http1)
        .await;
    let error = reached.unwrap_err();
    assert!(matches!(error, DialError::TimedOut { .. }), "{error:?}");
    assert!(began.elapsed() >= DIAL_TIMEOUT);
    assert!(began.elapsed() < DIAL_TIMEOUT + Duration::from_secs(1));
}
