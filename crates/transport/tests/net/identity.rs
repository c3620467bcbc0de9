//! Client certificates.

use tokio::io::AsyncReadExt;
use trunkline_transport::net::{Alpn, DialError, TlsFiles};

use crate::echo::{Echo, reach};
use crate::support::certs::Ca;
use crate::support::{dialer, plain_dialer};

struct Files {
    ca: Ca,
    cert: String,
    key: String,
    both: String,
}

impl Files {
    fn new() -> Self {
        let ca = Ca::new();
        let signed = ca.sign(&["us.test"], (2020, 2100));
        let name = |file, text: &str| ca.file(file, text).to_str().unwrap().to_owned();
        Self {
            cert: name("us.pem", &signed.cert),
            key: name("us.key", &signed.key),
            both: name("both.pem", &format!("{}{}", signed.key, signed.cert)),
            ca,
        }
    }

    fn entry(&self, cert: Option<&str>, key: Option<&str>) -> TlsFiles {
        TlsFiles {
            ca: Some(self.ca.trust()),
            cert: cert.map(Into::into),
            key: key.map(Into::into),
        }
    }
}

#[tokio::test]
async fn a_client_certificate_is_sent_to_a_server_that_requires_one() {
    let files = Files::new();
    let strict = files.ca.strict_server(rustls::ALL_VERSIONS);
    let echo = Echo::tls(strict).await;
    let target = echo.target();
    for entry in [
        files.entry(Some(&files.cert), Some(&files.key)),
        files.entry(Some(&files.both), None),
    ] {
        reach(&plain_dialer(), &target, &entry).await.unwrap();
    }
    for vars in [
        vec![
            ("CLAUDE_CODE_CLIENT_CERT", &files.cert),
            ("CLAUDE_CODE_CLIENT_KEY", &files.key),
        ],
        vec![("CLAUDE_CODE_CLIENT_CERT", &files.both)],
    ] {
        let entry = files.entry(None, None);
        reach(&dialer(vars), &target, &entry).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_client_certificate_is_a_distinct_error() {
    let files = Files::new();
    let entry = files.entry(None, None);

    let old = files.ca.strict_server(&[&rustls::version::TLS12]);
    let echo = Echo::tls(old).await;
    let error = reach(&plain_dialer(), &echo.target(), &entry).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, DialError::ClientCertificateWanted { .. }),
        "{error:?}"
    );
    assert!(error.hint().unwrap().contains("tls.cert"));

    // In TLS 1.3 our handshake ends before the server checks the certificate.
    let new = files.ca.strict_server(&[&rustls::version::TLS13]);
    let echo = Echo::tls(new).await;
    let reached = plain_dialer()
        .dial(&echo.target(), &entry, Alpn::Http1)
        .await;
    let mut stream = reached.unwrap().stream;
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server asks for a client certificate"
    );
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_refused() {
    let files = Files::new();
    let stranger = Files::new();
    let old = files.ca.strict_server(&[&rustls::version::TLS12]);
    let echo = Echo::tls(old).await;
    let entry = files.entry(Some(&stranger.both), None);
    let error = reach(&plain_dialer(), &echo.target(), &entry).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, DialError::ClientCertificateRefused { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_unusable_key_is_named_with_its_setting() {
    let files = Files::new();
    let echo = Echo::tls(files.ca.server()).await;
    let other = files.ca.sign(&["us.test"], (2020, 2100));
    let other = files.ca.file("other.key", &other.key);
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let sealed = files.ca.file("sealed.key", sealed);
    for (key, expected) in [
        (
            "/nowhere/us.key",
            "/nowhere/us.key (tls.key) cannot be read",
        ),
        (&files.cert, "(tls.key) holds no private key"),
        (sealed.to_str().unwrap(), "(tls.key) is encrypted"),
        (
            other.to_str().unwrap(),
            "(tls.cert) cannot be used with its key",
        ),
    ] {
        let entry = files.entry(Some(&files.cert), Some(key));
        let error = reach(&plain_dialer(), &echo.target(), &entry).await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}
