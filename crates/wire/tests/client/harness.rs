//! Clients of both eras, and responses of their servers.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trunkline_wire::client::{CallRequest, ConnectError, ConnectOptions, connect};
use trunkline_wire::mcp::{CallToolResult, Implementation};
use trunkline_wire::version::{Era, LEGACY, MODERN};
use trunkline_wire::{Client, Json, RequestError};

use crate::support::{Recorder, Wire, peer};

pub(crate) type Connecting = JoinHandle<Result<Client, ConnectError>>;

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        client_info: Implementation {
            name: "tester".to_owned(),
            title: None,
            version: "1".to_owned(),
        },
        capabilities: Json::parse(r#"{"elicitation":{}}"#).unwrap(),
        skip_probe: false,
        legacy_only: false,
        read_check: None,
    }
}

pub(crate) fn start(options: ConnectOptions) -> (Connecting, Wire) {
    start_with(&Recorder::new(), options)
}

fn start_with(handler: &Arc<Recorder>, options: ConnectOptions) -> (Connecting, Wire) {
    let (peer, wire) = peer(handler);
    let handler = handler.clone();
    let connecting = tokio::spawn(async move { connect(peer, handler, &options).await });
    (connecting, wire)
}

pub(crate) fn discover_result() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": MODERN,
        "capabilities": {"tools": {"listChanged": true}},
        "instructions": "be kind",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}},
    })
}

pub(crate) fn initialize_result(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"prompts": {}},
        "serverInfo": {"name": "legacy", "version": "1"},
    })
}

pub(crate) fn unsupported(versions: &[&str]) -> Value {
    json!({"code": -32022, "message": "unsupported version", "data": {"supported": versions}})
}

pub(crate) fn method_not_found() -> Value {
    json!({"code": -32601, "message": "what?"})
}

/// A client of a modern server.
pub(crate) async fn modern() -> (Client, Wire) {
    modern_with(&Recorder::new()).await
}

pub(crate) async fn modern_with(handler: &Arc<Recorder>) -> (Client, Wire) {
    let (connecting, mut wire) = start_with(handler, options());
    let (id, _) = wire.request("server/discover").await;
    wire.answer(id, discover_result());
    (connecting.await.unwrap().unwrap(), wire)
}

/// A client of a modern server with these capabilities.
pub(crate) async fn modern_offering(
    handler: &Arc<Recorder>,
    capabilities: &Value,
) -> (Client, Wire) {
    let (connecting, mut wire) = start_with(handler, options());
    let (id, _) = wire.request("server/discover").await;
    let mut discover_result = discover_result();
    discover_result["capabilities"] = capabilities.clone();
    wire.answer(id, discover_result);
    (connecting.await.unwrap().unwrap(), wire)
}

/// A client of a legacy server with these capabilities.
pub(crate) async fn legacy_offering(
    handler: &Arc<Recorder>,
    capabilities: &Value,
) -> (Client, Wire) {
    let options = ConnectOptions {
        skip_probe: true,
        ..options()
    };
    let (connecting, mut wire) = start_with(handler, options);
    let (id, _) = wire.request("initialize").await;
    let mut initialize_result = initialize_result(LEGACY[0]);
    initialize_result["capabilities"] = capabilities.clone();
    wire.answer(id, initialize_result);
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(wire.sent().await["method"], "notifications/initialized");
    (client, wire)
}

/// A client of a legacy server.
pub(crate) async fn legacy() -> (Client, Wire) {
    let (connecting, mut wire) = start(ConnectOptions {
        skip_probe: true,
        ..options()
    });
    let client = finish_legacy_handshake(&mut wire, connecting).await;
    (client, wire)
}

/// Performs the legacy handshake.
pub(crate) async fn finish_legacy_handshake(wire: &mut Wire, connecting: Connecting) -> Client {
    let (id, params) = wire.request("initialize").await;
    assert_eq!(params["protocolVersion"], LEGACY[0]);
    assert_eq!(params["clientInfo"]["name"], "tester");
    assert_eq!(params["capabilities"], json!({"elicitation": {}}));
    wire.answer(id, initialize_result(LEGACY[1]));
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(wire.sent().await["method"], "notifications/initialized");
    assert_eq!(client.era(), Era::Legacy);
    assert_eq!(client.identity().protocol_version, LEGACY[1]);
    client
}

/// Asserts that the request carries the modern metadata.
#[track_caller]
pub(crate) fn assert_modern(params: &Value) {
    let meta = &params["_meta"];
    assert_eq!(meta[VERSION_KEY], MODERN[0], "{params}");
    let info = &meta["io.modelcontextprotocol/clientInfo"];
    assert_eq!(info["name"], "tester", "{params}");
    let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({"elicitation": {}}), "{params}");
}

pub(crate) fn call_tool(client: &Client) -> JoinHandle<Result<CallToolResult, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move {
        let arguments = Json::parse(r#"{"a":1}"#).unwrap().into();
        let call = CallRequest {
            tool: "t",
            arguments: Some(&arguments),
            ..CallRequest::default()
        };
        client.call_tool(call).await
    })
}

pub(crate) fn done(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

pub(crate) fn text(result: &CallToolResult) -> String {
    result.content[0].text().unwrap().to_string()
}
