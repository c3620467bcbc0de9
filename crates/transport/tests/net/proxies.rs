//! HTTP proxies.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trunkline_transport::net::{Alpn, DialError, Target, TlsFiles};

use crate::echo::{Echo, assert_echo, reach};
use crate::support::certs::Ca;
use crate::support::dialer;
use crate::support::proxy::RecordingProxy;

const PASSWORD: &str = "hush-hush";

#[tokio::test]
async fn tls_goes_through_a_tunnel() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let proxy = RecordingProxy::open().await;
    let dialer = dialer([
        ("HTTPS_PROXY", format!("http://{}", proxy.address)),
        ("SSL_CERT_FILE", ca.trust().to_str().unwrap().to_owned()),
    ]);
    let reached = reach(&dialer, &echo.named(), &TlsFiles::default()).await;
    assert!(reached.unwrap().forward.is_none());
    let place = format!("server.test:{}", echo.address.port());
    assert_eq!(
        proxy.heads(),
        [format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n")]
    );
}

#[test]
fn the_proxy_of_a_server_is_told_without_its_password() {
    let dialer = dialer([
        (
            "HTTPS_PROXY",
            format!("http://me:{PASSWORD}@proxy.test:3128"),
        ),
        ("HTTP_PROXY", "ftp://nowhere".to_owned()),
    ]);
    let proxy = |url: &str| dialer.proxy_for(&Target::of(&url.parse().unwrap()).unwrap());
    let found = proxy("https://server.test/").unwrap();
    assert_eq!(found.as_deref(), Some("proxy.test:3128"));
    assert_eq!(proxy("https://localhost/").unwrap(), None);
    assert!(proxy("http://server.test/").is_err());
}

#[tokio::test]
async fn credentials_in_the_proxy_url_are_sent() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let proxy = RecordingProxy::open().await;
    let dialer = dialer([
        ("HTTPS_PROXY", format!("http://me:p%40ss@{}", proxy.address)),
        ("SSL_CERT_FILE", ca.trust().to_str().unwrap().to_owned()),
    ]);
    reach(&dialer, &echo.named(), &TlsFiles::default())
        .await
        .unwrap();
    let heads = proxy.heads();
    assert!(
        heads[0].contains("\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n"),
        "{heads:?}"
    );
}

#[tokio::test]
async fn plain_http_is_forwarded_by_the_proxy() {
    let proxy = RecordingProxy::start("HTTP/1.1 200 OK\r\n\r\n", None).await;
    let dialer = dialer([("HTTP_PROXY", format!("http://me:x@{}", proxy.address))]);
    let target = Target::of(&"http://server.test/".parse().unwrap()).unwrap();
    let reached = dialer
        .dial(&target, &TlsFiles::default(), Alpn::Http1Or2)
        .await;
    let mut reached = reached.unwrap();
    let forward = reached.forward.unwrap();
    assert_eq!(forward.authorization.unwrap(), "Basic bWU6eA==");
    assert!(proxy.heads().is_empty());
    let request = "GET http://server.test/ HTTP/1.1\r\n\r\n";
    reached.stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 15];
    reached.stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(proxy.heads(), [request]);
}

#[tokio::test]
async fn other_protocols_are_tunnelled_even_without_tls() {
    let echo = Echo::start("127.0.0.1:0", None).await;
    let proxy = RecordingProxy::open().await;
    let dialer = dialer([("HTTP_PROXY", proxy.address.to_string())]);
    let target = Target {
        tls: false,
        ..echo.named()
    };
    let stream = dialer.dial_direct(&target, &TlsFiles::default()).await;
    assert_echo(&mut stream.unwrap()).await;
    assert!(proxy.heads()[0].starts_with("CONNECT server.test:"));
}

#[tokio::test]
async fn a_proxy_may_use_tls() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let yes = "HTTP/1.1 200 OK\r\n\r\n";
    let proxy = RecordingProxy::start(yes, Some(ca.server())).await;
    let dialer = dialer([
        ("HTTPS_PROXY", format!("https://{}", proxy.address)),
        ("SSL_CERT_FILE", ca.trust().to_str().unwrap().to_owned()),
    ]);
    reach(&dialer, &echo.named(), &TlsFiles::default())
        .await
        .unwrap();
    assert_eq!(proxy.heads().len(), 1);
}

#[tokio::test]
async fn no_proxy_and_loopback_hosts_are_reached_directly() {
    let ca = Ca::new();
    let echo = Echo::tls(ca.server()).await;
    let proxy = RecordingProxy::open().await;
    let trust = ca.trust().to_str().unwrap().to_owned();
    let variables = [
        ("HTTPS_PROXY", proxy.address.to_string()),
        ("SSL_CERT_FILE", trust.clone()),
    ];
    reach(
        &dialer(variables.clone()),
        &echo.target(),
        &TlsFiles::default(),
    )
    .await
    .unwrap();

    // Only the proxy knows the name, so a direct connection fails.
    let mut variables = variables.to_vec();
    variables.push(("NO_PROXY", "other.test, .test".to_owned()));
    let reached = reach(&dialer(variables), &echo.named(), &TlsFiles::default()).await;
    let error = reached.unwrap_err();
    assert!(matches!(error, DialError::Lookup { .. }), "{error:?}");
    assert!(proxy.heads().is_empty());
}

/// The error when the proxy responds to `CONNECT` with `answer`.
async fn refusal(answer: &'static str) -> DialError {
    let proxy = RecordingProxy::start(answer, None).await;
    let url = format!("http://me:{PASSWORD}@{}", proxy.address);
    let target = Target::of(&"ws://server.test:81/".parse().unwrap()).unwrap();
    let dialer = dialer([("ALL_PROXY", url)]);
    let reached = dialer.dial_direct(&target, &TlsFiles::default()).await;
    let error = reached.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(PASSWORD));
    error
}

#[tokio::test]
async fn a_refusal_of_the_proxy_is_quoted() {
    let error = refusal("HTTP/1.1 403 Forbidden by policy\r\n\r\n").await;
    let text = error.to_string();
    assert!(text.starts_with("proxy 127.0.0.1:"), "{text}");
    assert!(
        text.ends_with("refused to connect to server.test:81: 403 Forbidden by policy"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("NO_PROXY"));

    let error = refusal("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    assert!(
        matches!(error, DialError::ProxyCredentials { .. }),
        "{error:?}"
    );
    assert!(error.hint().unwrap().contains("user:password@"));

    let error = refusal("SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    assert!(
        error.to_string().ends_with("its response is not HTTP"),
        "{error}"
    );
}

#[tokio::test]
async fn an_unreachable_proxy_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let dialer = dialer([("ALL_PROXY", format!("http://me:{PASSWORD}@{address}"))]);
    let target = Target::of(&"https://server.test/".parse().unwrap()).unwrap();
    let files = TlsFiles {
        ca: Some(Ca::new().trust()),
        ..TlsFiles::default()
    };
    // The directory of that authority is gone, which is noticed before the proxy.
    let error = dialer.dial(&target, &files, Alpn::Http1).await.unwrap_err();
    assert!(matches!(error, DialError::File { .. }), "{error:?}");

    let target = Target {
        tls: false,
        ..target
    };
    let error = dialer.dial(&target, &files, Alpn::Http1).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("proxy {address}: {address} refused the connection")
    );
}
