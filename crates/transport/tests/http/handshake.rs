//! Detection of the era, and the headers of each request.

use std::time::Duration;

use serde_json::json;
use trunkline_wire::client::ConnectError;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::version::Era;

use crate::inline::{
    InlineServer, ReceivedRequest, Step, Steps, bytes, event, initialized, reply, status, stream,
    streamed, whole,
};
use crate::support::{at, call, connect, delivery_error, eventually, pass, try_connect};

/// A legacy server with this response to the probe.
async fn probed(probe: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) -> InlineServer {
    InlineServer::start(move |seen| match seen.what() {
        "server/discover" => probe(seen),
        "initialize" => reply(200, &seen.result(&initialized())),
        "tools/call" => reply(200, &seen.text("done")),
        "GET" => status(405),
        _ => status(202),
    })
    .await
}

/// Asserts that the server is detected as legacy and works.
async fn is_legacy(probe: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) {
    let server = probed(probe).await;
    let client = connect(&server.url()).await;
    assert_eq!(client.era(), Era::Legacy);
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert_eq!(server.of("server/discover").len(), 1);
    client.peer().close().await;
}

#[tokio::test]
async fn a_probe_refused_with_another_id_means_legacy() {
    for status in [200, 400] {
        is_legacy(move |_| {
            let error = json!({"code": -32600, "message": "Bad Request: Server not initialized"});
            reply(
                status,
                &json!({"jsonrpc": "2.0", "id": "server-error", "error": error}),
            )
        })
        .await;
        is_legacy(move |_| {
            let error = json!({"code": -32000, "message": "Mcp-Session-Id header is required"});
            reply(
                status,
                &json!({"jsonrpc": "2.0", "id": null, "error": error}),
            )
        })
        .await;
    }
}

#[tokio::test]
async fn a_probe_refused_in_an_event_stream_means_legacy() {
    for code in [200, 404] {
        is_legacy(move |seen| {
            let text = event(&seen.error(-32601, "Method not found"));
            whole(code, &[("content-type", "text/event-stream")], text)
        })
        .await;
    }
}

#[tokio::test]
async fn a_probe_refused_in_a_stream_that_stays_open_means_legacy() {
    for code in [200, 404] {
        let server = probed(move |seen| {
            let text = event(&seen.error(-32601, "Method not found"));
            let head = format!("HTTP/1.1 {code} X\r\ncontent-type: text/event-stream\r\n\r\n");
            vec![bytes(head + &text), Step::Hold]
        })
        .await;
        let client = connect(&server.url()).await;
        assert_eq!(client.era(), Era::Legacy);
        let (probe, hello) = (
            &server.of("server/discover")[0],
            &server.of("initialize")[0],
        );
        // The probe did not time out.
        assert!(hello.at - probe.at < Duration::from_millis(1900), "{code}");
    }
}

#[tokio::test]
async fn a_probe_with_an_unrelated_response_means_legacy() {
    is_legacy(|_| status(500)).await;
    is_legacy(|_| status(202)).await;
    is_legacy(|_| status(204)).await;
    for code in [200, 404, 405, 502] {
        is_legacy(move |_| {
            let page = "<!doctype html><title>Not Found</title>";
            whole(code, &[("content-type", "text/html")], page)
        })
        .await;
    }
    is_legacy(|_| reply(200, &json!({}))).await;
    is_legacy(|_| streamed("")).await;
    is_legacy(|_| vec![Step::Close]).await;
}

#[tokio::test]
async fn a_probe_without_a_response_means_legacy() {
    let server = probed(|_| vec![Step::Hold]).await;
    let url = server.url();
    let connecting = tokio::spawn(async move { connect(&url).await });
    eventually("the probe", || server.of("server/discover").len() == 1).await;
    assert!(server.of("initialize").is_empty());
    pass(Duration::from_millis(2100)).await;
    let client = connecting.await.unwrap();
    assert_eq!(client.era(), Era::Legacy);
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    client.peer().close().await;
    // A modern request is cancelled in the modern way.
    assert!(server.of("notifications/cancelled").is_empty());
    eventually("every connection to end", || server.open() == 0).await;
}

#[tokio::test]
async fn a_refused_handshake_quotes_the_server() {
    let server = InlineServer::start(|_| whole(418, &[], "short and stout")).await;
    let Err(ConnectError::Request(error)) = try_connect(&at(&server.url())).await else {
        panic!("connected to a teapot");
    };
    let failure = delivery_error::<()>(Err(error));
    assert_eq!(failure.kind, DeliveryErrorKind::Status(418));
    assert!(failure.to_string().contains("short and stout"), "{failure}");
    // HTML is not shown.
    let server = InlineServer::start(|_| whole(404, &[], "<html>secret plans</html>")).await;
    let Err(error) = try_connect(&at(&server.url())).await else {
        panic!("connected to a page");
    };
    assert_eq!(error.to_string(), "the server answered with status 404");
}

#[tokio::test]
async fn a_legacy_server_gets_the_version_once_it_is_negotiated() {
    let server = InlineServer::session(|seen| match seen.what() {
        "tools/call" => reply(200, &seen.text("done")),
        _ => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    client.peer().close().await;
    let seen = server.seen();
    let what: Vec<_> = seen.iter().map(ReceivedRequest::what).collect();
    assert_eq!(
        what,
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "GET",
            "tools/call",
            "DELETE"
        ]
    );
    for seen in &seen {
        let version = seen.header("mcp-protocol-version");
        let agreed = match seen.what() {
            "server/discover" => Some("2026-07-28"),
            "initialize" => None,
            _ => Some("2025-06-18"),
        };
        assert_eq!(version, agreed, "{}", seen.what());
        let session = !matches!(seen.what(), "server/discover" | "initialize");
        assert_eq!(seen.header("mcp-session-id"), session.then_some("s1"));
        let accept = match seen.method.as_str() {
            "POST" => "application/json, text/event-stream",
            _ => "text/event-stream",
        };
        assert_eq!(seen.header("accept"), Some(accept), "{}", seen.what());
        let modern = seen.what() == "server/discover";
        assert_eq!(
            seen.header("mcp-method").is_some(),
            modern,
            "{}",
            seen.what()
        );
        assert!(seen.header("mcp-name").is_none());
    }
}

#[tokio::test]
async fn a_modern_server_gets_version_and_method_but_no_session() {
    let server = InlineServer::modern(|seen| {
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", "s1"),
        ];
        whole(200, &headers, seen.text("done").to_string())
    })
    .await;
    let client = connect(&server.url()).await;
    assert_eq!(client.era(), Era::Modern);
    call(&client, "t").await.unwrap();
    call(&client, "t").await.unwrap();
    client.peer().close().await;
    let seen = server.seen();
    assert_eq!(seen.len(), 3, "no GET, no DELETE: {seen:?}");
    for seen in &seen {
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), Some(seen.what()));
        let name = (seen.what() == "tools/call").then_some("t");
        assert_eq!(seen.header("mcp-name"), name);
        assert_eq!(seen.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn the_handshake_response_may_be_an_event_stream() {
    let server = InlineServer::start(|seen| match seen.what() {
        "server/discover" => reply(200, &seen.error(-32601, "no such method")),
        "initialize" => {
            let hello = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
            stream(&(event(&hello) + &event(&seen.result(&initialized()))))
                .into_iter()
                .chain([bytes("0\r\n\r\n")])
                .collect()
        }
        "tools/call" => streamed(&event(&seen.text("done"))),
        "GET" => status(405),
        _ => status(202),
    })
    .await;
    let client = connect(&server.url()).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}
