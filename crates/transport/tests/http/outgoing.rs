//! The headers of requests.

use serde_json::{Value, json};
use trunkline_transport::http::Token;
use trunkline_wire::client::{Arguments, CallRequest};
use trunkline_wire::mcp::HeaderParameter;
use trunkline_wire::{Client, Json};

use crate::inline::{InlineServer, ReceivedRequest, reply};
use crate::support::{at, call, connect, dialer, in_time, try_connect};

#[tokio::test]
async fn a_tool_name_round_trips_through_its_header() {
    let server = InlineServer::modern(|seen| reply(200, &seen.text("done"))).await;
    let client = connect(&server.url()).await;
    let names = [
        ("plain-name_1", "plain-name_1"),
        ("with space", "with space"),
        ("wörter", "=?base64?d8O2cnRlcg==?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
        (" padded", "=?base64?IHBhZGRlZA==?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ("\0", "=?base64?AA==?="),
    ];
    for (name, header) in names {
        assert_eq!(call(&client, name).await.unwrap(), "done");
        let seen = server.of("tools/call").pop().unwrap();
        assert_eq!(seen.header("mcp-name"), Some(header));
        assert_eq!(seen.body["params"]["name"], name);
        assert_eq!(seen.header("x-evil"), None);
    }
}

/// The schema of a tool that mirrors these properties.
fn wanted(properties: &Value) -> Vec<HeaderParameter> {
    let schema = json!({"type": "object", "properties": properties});
    HeaderParameter::all(&Json::from(schema)).unwrap()
}

/// The request of a call to a tool with mirrored arguments.
async fn called(
    client: &Client,
    server: &InlineServer,
    wanted: &[HeaderParameter],
    arguments: Value,
) -> ReceivedRequest {
    let arguments = Arguments::from(arguments);
    let request = CallRequest {
        tool: "t",
        arguments: Some(&arguments),
        header_parameters: wanted,
        ..CallRequest::default()
    };
    in_time("the call", client.call_tool(request))
        .await
        .unwrap();
    server.of("tools/call").pop().unwrap()
}

/// The headers of parameters, by name.
fn parameters(seen: &ReceivedRequest) -> Vec<(&str, &str)> {
    let headers = seen.headers.iter();
    let mut found: Vec<_> = headers
        .filter_map(|(name, value)| Some((name.strip_prefix("mcp-param-")?, value.as_str())))
        .collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn arguments_are_mirrored_in_the_headers_that_the_tool_declares() {
    let server = InlineServer::modern(|seen| reply(200, &seen.text("done"))).await;
    let client = connect(&server.url()).await;
    let wanted = wanted(&json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "other": {"type": "string"},
    }));
    let arguments = json!({"region": "us-west1", "count": 42, "dry": true, "other": "x"});
    let seen = called(&client, &server, &wanted, arguments).await;
    assert_eq!(
        parameters(&seen),
        [("count", "42"), ("dry-run", "true"), ("region", "us-west1")]
    );
    let seen = called(
        &client,
        &server,
        &wanted,
        json!({"region": "zürich\r\nX-Evil: 1", "dry": null}),
    )
    .await;
    assert_eq!(
        parameters(&seen),
        [("region", "=?base64?esO8cmljaA0KWC1FdmlsOiAx?=")]
    );
    assert_eq!(seen.header("x-evil"), None);
    assert_eq!(
        seen.body["params"]["arguments"]["region"],
        "zürich\r\nX-Evil: 1"
    );
}

#[tokio::test]
async fn a_legacy_server_gets_no_mirrored_headers() {
    let server = InlineServer::legacy(|seen| match seen.what() {
        "tools/call" => reply(200, &seen.text("done")),
        _ => crate::inline::status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    let wanted = wanted(&json!({"region": {"type": "string", "x-mcp-header": "Region"}}));
    let seen = called(&client, &server, &wanted, json!({"region": "x"})).await;
    assert!(parameters(&seen).is_empty());
    assert_eq!(seen.header("mcp-name"), None);
}

#[tokio::test]
async fn invalid_headers_are_rejected_before_anything_is_sent() {
    let server = InlineServer::modern(|_| panic!("something was sent")).await;
    for (name, value) in [
        ("X-Key", "a\r\nX-Evil: 1"),
        ("X-Key", "a\nb"),
        ("X-Key", "a\0b"),
        ("X Key", "a"),
        ("X-Key:", "a"),
        ("X-Key\r\nX-Evil", "a"),
        ("", "a"),
    ] {
        let mut entry = at(&server.url());
        entry.headers = vec![(name.into(), value.into())];
        let error = entry.streamable(&dialer()).err().unwrap();
        assert!(error.to_string().contains("cannot be sent"), "{error}");
        assert!(!error.may_have_run);
    }
    for token in ["a\r\nb", "a\nb", "\0"] {
        assert!(Token::bearer(token).is_none());
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn an_entry_may_add_headers_but_not_replace_those_of_the_protocol() {
    let server = InlineServer::modern(|seen| reply(200, &seen.text("done"))).await;
    let mut entry = at(&server.url());
    let headers = [
        ("X-Key", "k"),
        ("User-Agent", "mine"),
        ("Cookie", "a=b"),
        ("Host", "evil.example"),
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Accept", "text/html"),
        ("Mcp-Method", "evil"),
        ("MCP-Protocol-Version", "1"),
        ("Mcp-Session-Id", "mine"),
    ];
    entry.headers = headers
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    let client = try_connect(&entry).await.unwrap();
    call(&client, "t").await.unwrap();
    for seen in server.seen() {
        assert_eq!(seen.header("x-key"), Some("k"));
        assert_eq!(seen.header("user-agent"), Some("mine"));
        assert_eq!(seen.header("cookie"), Some("a=b"));
        assert_eq!(seen.header("host"), Some(&*server.address().to_string()));
        assert_eq!(
            seen.header("accept"),
            Some("application/json, text/event-stream")
        );
        assert_eq!(seen.header("mcp-method"), Some(seen.what()));
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.header("transfer-encoding"), None);
        let twice = seen
            .headers
            .iter()
            .filter(|(name, _)| name == "accept")
            .count();
        assert_eq!(twice, 1);
    }
}

#[tokio::test]
async fn a_user_name_in_the_url_is_sent_as_basic_auth() {
    let server = InlineServer::modern(|seen| reply(200, &seen.text("done"))).await;
    let mut entry = at(&server.url());
    entry.url.set_username("a b").unwrap();
    entry.url.set_password(Some("p:w")).unwrap();
    entry.url.set_query(Some("x=1&y=%20"));
    entry.url.set_fragment(Some("there"));
    try_connect(&entry).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/mcp?x=1&y=%20");
    assert_eq!(seen.header("authorization"), Some("Basic YSBiOnA6dw=="));
    assert_eq!(seen.header("host"), Some(&*server.address().to_string()));
}
