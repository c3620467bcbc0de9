//! Redirects are followed only within the origin.

use trunkline_transport::http::{FixedToken, Token};
use trunkline_wire::Client;
use trunkline_wire::client::ConnectError;
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{InlineServer, ReceivedRequest, Steps, initialized, reply, status, whole};
use crate::support::{at, call, connect, delivery_error, eventually, in_time, try_connect};

fn to(status: u16, location: &str) -> Steps {
    whole(status, &[("location", location)], "moved")
}

/// A server that answers below `/new` and redirects otherwise.
async fn moved(
    redirect: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::start(move |seen| {
        if !seen.path.starts_with("/new") {
            return redirect(seen);
        }
        match seen.what() {
            "server/discover" => reply(200, &seen.error(-32601, "no such method")),
            "initialize" => reply(200, &seen.result(&initialized())),
            "tools/call" => reply(200, &seen.text("done")),
            "GET" => status(405),
            _ => status(202),
        }
    })
    .await
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_method_and_body() {
    for code in [307, 308] {
        for location in [
            "/new?a=b",
            "new?a=b",
            "//HOST/new?a=b",
            "http://HOST/new?a=b",
        ] {
            let server = moved(move |seen| {
                to(
                    code,
                    &location.replace("HOST", seen.header("host").unwrap()),
                )
            })
            .await;
            let mut entry = at(&server.url());
            entry.headers = vec![("X-Key".into(), "k".into())];
            let client = try_connect(&entry).await.unwrap();
            assert_eq!(call(&client, "t").await.unwrap(), "done");
            let calls = server.of("tools/call");
            assert_eq!(calls.len(), 2);
            assert_eq!((&*calls[0].path, &*calls[1].path), ("/mcp", "/new?a=b"));
            assert_eq!(calls[0].body, calls[1].body);
            assert_eq!(calls[1].method, "POST");
            assert_eq!(calls[1].header("x-key"), Some("k"));
            assert_eq!(
                calls[0].connection, calls[1].connection,
                "over the same connection"
            );
        }
    }
}

#[tokio::test]
async fn a_get_follows_every_kind_of_redirect() {
    for code in [301, 302, 303, 307, 308] {
        let server = InlineServer::legacy(move |seen| match (seen.what(), &*seen.path) {
            ("GET", "/mcp") => to(code, "/new"),
            ("GET", _) => status(405),
            _ => reply(200, &seen.text("done")),
        })
        .await;
        let client = connect(&server.url()).await;
        eventually("the second", || server.of("GET").len() == 2).await;
        assert_eq!(call(&client, "t").await.unwrap(), "done");
    }
}

/// The error of the handshake.
fn refusal(outcome: Result<Client, ConnectError>) -> String {
    let Err(ConnectError::Request(error)) = outcome else {
        panic!("it was followed");
    };
    let failure = delivery_error::<()>(Err(error));
    assert_eq!(failure.kind, DeliveryErrorKind::Redirected);
    assert!(!failure.may_have_run);
    failure.to_string()
}

#[tokio::test]
async fn a_redirect_that_would_drop_the_body_is_refused_with_a_hint() {
    for code in [301, 302, 303] {
        let server = moved(move |_| to(code, "/new?key=secret")).await;
        let text = refusal(try_connect(&at(&server.url())).await);
        let place = server.url().replace("/mcp", "/new");
        assert!(
            text.contains(&format!("({code}) to {place}; use that URL")),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        assert!(server.seen().iter().all(|seen| seen.path == "/mcp"));
    }
}

#[tokio::test]
async fn no_request_goes_to_another_origin() {
    for code in [301, 302, 303, 307, 308] {
        let other = moved(|_| status(500)).await;
        let target = format!("http://user:pw@{}/new?token=secret", other.address());
        let server = moved(move |_| to(code, &target)).await;
        let mut entry = at(&server.url());
        entry.headers = vec![("X-Key".into(), "k".into())];
        entry.credentials = Some(std::sync::Arc::new(FixedToken(
            Token::bearer("t0ken").unwrap(),
        )));
        let text = refusal(try_connect(&entry).await);
        assert!(
            text.contains(&format!("http://{}/new,", other.address())),
            "{text}"
        );
        assert!(text.contains("use that URL in its entry"), "{text}");
        for secret in ["pw", "secret", "t0ken", "user"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(other.accepted(), 0);
    }
}

#[tokio::test]
async fn other_spellings_of_another_origin_are_refused() {
    let server = moved(|seen| match seen.header("x-to") {
        Some(location) => to(307, location),
        None => status(400),
    })
    .await;
    let address = server.address();
    for location in [
        format!("https://{address}/new"),
        format!("//{}:{}/new", address.ip(), address.port().wrapping_add(1)),
        format!("http://localhost:{}/new", address.port()),
        format!("http://{}.example:{}/new", address.ip(), address.port()),
        format!("ftp://{address}/new"),
        "\\\\evil.example\\new".to_owned(),
        "file:///etc/passwd".to_owned(),
        "data:text/plain,x".to_owned(),
    ] {
        let mut entry = at(&server.url());
        entry.headers = vec![("X-To".into(), location.clone())];
        let text = refusal(try_connect(&entry).await);
        assert!(text.contains("another origin"), "{location}: {text}");
    }
    for nowhere in ["", "http://[", "http://", "http://127.0.0.1:1x/"] {
        let mut entry = at(&server.url());
        entry.headers = vec![("X-To".into(), nowhere.to_owned())];
        let outcome = in_time("a refusal", Box::pin(try_connect(&entry))).await;
        assert!(outcome.is_err(), "{nowhere}");
    }
    assert!(server.seen().iter().all(|seen| seen.path == "/mcp"));
}

#[tokio::test]
async fn endless_redirects_are_an_error() {
    let server = moved(|_| to(307, "/mcp")).await;
    let text = refusal(try_connect(&at(&server.url())).await);
    assert_eq!(text, "the server redirects too often");
    assert_eq!(server.of("server/discover").len(), 6);
    let server = moved(|seen| to(308, &format!("{}x", seen.path))).await;
    refusal(try_connect(&at(&server.url())).await);
    assert_eq!(server.of("server/discover").len(), 6);
}

#[tokio::test]
async fn a_redirected_call_fails_alone() {
    let server = InlineServer::legacy(|seen| match seen.body["params"]["name"].as_str() {
        Some("away") => to(307, "http://127.0.0.1:1/"),
        Some(_) => reply(200, &seen.text("done")),
        None => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    let failure = delivery_error(call(&client, "away").await);
    assert_eq!(failure.kind, DeliveryErrorKind::Redirected);
    assert!(!failure.may_have_run);
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}
