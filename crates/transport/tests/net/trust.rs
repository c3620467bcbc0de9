//! Server certificates.

use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use trunkline_transport::net::{Alpn, DialError, Target, TlsFiles};

use crate::echo::{Echo, assert_echo, reach};
use crate::support::certs::{Ca, server_as};
use crate::support::{dialer, plain_dialer};

#[tokio::test]
async fn an_authority_is_trusted_from_every_setting() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let file = ca.trust().to_str().unwrap().to_owned();
    let folder = ca.trust().parent().unwrap().to_str().unwrap().to_owned();
    for (variable, value) in [
        ("NODE_EXTRA_CA_CERTS", &file),
        ("SSL_CERT_FILE", &file),
        ("SSL_CERT_DIR", &folder),
    ] {
        let dialer = dialer([(variable, value)]);
        let reached = reach(&dialer, &echo.target(), &TlsFiles::default()).await;
        assert!(reached.is_ok(), "{variable}: {reached:?}");
    }
    let files = TlsFiles {
        ca: Some(ca.trust()),
        ..TlsFiles::default()
    };
    reach(&plain_dialer(), &echo.target(), &files)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_authority_of_one_entry_is_not_trusted_for_others() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let files = TlsFiles {
        ca: Some(ca.trust()),
        ..TlsFiles::default()
    };
    let known = Ca::new();
    let dialer = dialer([("SSL_CERT_FILE", known.trust().to_str().unwrap())]);
    reach(&dialer, &echo.target(), &files).await.unwrap();
    let other_entry = reach(&dialer, &echo.target(), &TlsFiles::default()).await;
    let error = other_entry.unwrap_err();
    assert!(matches!(error, DialError::NotTrusted { .. }), "{error:?}");
}

/// The error for a server on loopback with a certificate for `names` and `years`.
async fn refusal(names: &[&str], years: (i32, i32)) -> DialError {
    let ca = Ca::new();
    let echo = Echo::tls(server_as(&ca.sign(names, years))).await;
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    let reached = reach(&dialer, &echo.target(), &TlsFiles::default()).await;
    reached.unwrap_err()
}

#[tokio::test]
async fn a_bad_certificate_is_refused_with_the_reason() {
    let expired = refusal(&["127.0.0.1"], (2019, 2020)).await;
    assert_eq!(
        expired.to_string(),
        "the certificate of 127.0.0.1 has expired"
    );
    assert!(expired.hint().unwrap().contains("renew"));

    let early = refusal(&["127.0.0.1"], (2090, 2100)).await;
    assert_eq!(
        early.to_string(),
        "the certificate of 127.0.0.1 is not valid yet"
    );

    let wrong = refusal(&["other.test"], (2020, 2100)).await;
    let text = wrong.to_string();
    assert!(
        text.starts_with("the certificate of 127.0.0.1 is for another name"),
        "{text}"
    );
    assert!(text.contains("other.test"), "{text}");
}

#[tokio::test]
async fn an_unknown_authority_is_refused_with_a_hint() {
    // Also a new one with the same name.
    for (theirs, known) in [
        (Ca::new(), Ca::new()),
        (Ca::named("same"), Ca::named("same")),
    ] {
        let echo = Echo::tls(theirs.server()).await;
        let dialer = dialer([("SSL_CERT_FILE", known.trust().to_str().unwrap())]);
        let reached = reach(&dialer, &echo.target(), &TlsFiles::default()).await;
        let error = reached.unwrap_err();
        assert!(matches!(error, DialError::NotTrusted { .. }), "{error:?}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("NODE_EXTRA_CA_CERTS") && hint.contains("tls.ca"));
    }
}

#[tokio::test]
async fn missing_authorities_are_a_clear_error() {
    let nowhere = tempfile::TempDir::new().unwrap();
    let echo = Echo::tls(Ca::new().server()).await;
    let dialer = dialer([("SSL_CERT_DIR", nowhere.path().to_str().unwrap())]);
    let reached = reach(&dialer, &echo.target(), &TlsFiles::default()).await;
    let error = reached.unwrap_err();
    assert!(matches!(error, DialError::NoAuthorities), "{error:?}");
    assert!(error.hint().unwrap().contains("NODE_EXTRA_CA_CERTS"));
}

#[tokio::test]
async fn an_unusable_file_is_named_with_its_setting() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let cases = [
        (ca.trust().with_file_name("missing.pem"), "cannot be read"),
        (
            ca.file("empty.pem", "no certificate\n"),
            "holds no certificate",
        ),
        (
            ca.file(
                "odd.pem",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            ),
            "holds no certificate that can be used",
        ),
    ];
    for (path, expected) in cases {
        let name = path.to_str().unwrap();
        let by_variable = dialer([("NODE_EXTRA_CA_CERTS", name)]);
        let reached = reach(&by_variable, &echo.target(), &TlsFiles::default()).await;
        let text = reached.unwrap_err().to_string();
        let start = format!("{name} (NODE_EXTRA_CA_CERTS) {expected}");
        assert!(text.starts_with(&start), "{text}");

        let files = TlsFiles {
            ca: Some(path.clone()),
            ..TlsFiles::default()
        };
        let reached = reach(&plain_dialer(), &echo.target(), &files).await;
        let text = reached.unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("{name} (tls.ca) {expected}")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_unsupported_certificate_does_not_invalidate_its_file() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let good = std::fs::read_to_string(ca.trust()).unwrap();
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let files = TlsFiles {
        ca: Some(ca.file("both.pem", &format!("{odd}{good}"))),
        ..TlsFiles::default()
    };
    reach(&plain_dialer(), &echo.target(), &files)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_recognised() {
    let ca = Ca::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await?;
        stream.read_to_end(&mut Vec::new()).await
    });
    let target = Target {
        tls: true,
        host: "127.0.0.1".to_owned(),
        port,
    };
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    let reached = reach(&dialer, &target, &TlsFiles::default()).await;
    let error = reached.unwrap_err();
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
    assert!(error.hint().unwrap().contains("http:"));
}

#[tokio::test]
async fn http2_is_negotiated_only_when_both_offer_it() {
    let ca = Ca::new();
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    let files = TlsFiles::default();
    for (server, client, expected) in [
        (&["h2", "http/1.1"][..], Alpn::Http1Or2, true),
        (&["h2", "http/1.1"], Alpn::Http1, false),
        (&["http/1.1"], Alpn::Http1Or2, false),
        (&[], Alpn::Http1Or2, false),
    ] {
        let mut config = ca.server();
        config.alpn_protocols = server.iter().map(|name| name.as_bytes().to_vec()).collect();
        let echo = Echo::tls(config).await;
        let reached = dialer.dial(&echo.target(), &files, client).await.unwrap();
        assert_eq!(reached.http2, expected, "{server:?} {client:?}");
    }
}

#[tokio::test]
async fn a_second_connection_resumes_the_tls_session() {
    let ca = Ca::new();
    let mut echo = Echo::tls(ca.server()).await;
    let dialer = dialer([("SSL_CERT_FILE", ca.trust().to_str().unwrap())]);
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let files = TlsFiles::default();
        let reached = dialer
            .clone()
            .dial(&echo.target(), &files, Alpn::Http1)
            .await;
        assert_echo(&mut reached.unwrap().stream).await;
        assert_eq!(echo.handshakes.recv().await.unwrap(), Some(expected));
    }
}
