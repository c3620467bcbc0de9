//! Tracing spans that follow OpenTelemetry's semantic conventions for MCP clients
//! (`semantic-conventions-genai`, docs/gen-ai/mcp.md).
//!
//! | span | covers | `otel.name` |
//! |---|---|---|
//! | `mcp.client` | the handshake of a connection | `initialize` or `server/discover` |
//! | `mcp.client` | one list, at connection or refresh | `tools/list`, `resources/list`, … |
//! | `mcp.client` | one attempt to call a tool | `tools/call {tool}` |
//! | `trunkline.result` | preparing a result for a model | |
//!
//! Without a subscriber a span costs one atomic load. Spans carry names and codes only: never
//! arguments, results, messages, headers or `mcp.session.id`, which authenticates a session.

use std::future::Future;

use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};
use trunkline_config::{ServerUrl, TransportEntry};
use trunkline_wire::client::ConnectError;
use trunkline_wire::mcp::CallToolResult;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::version::Era;
use trunkline_wire::{Client, RequestError};

use crate::catalog::PoolTool;
use crate::connection::{ConnectFailure, Connected, FailureKind, Source};

const CALL: &str = "tools/call";

/// The network attributes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `network.transport`: `pipe` or `tcp`; `None` inside the process.
    transport: Option<&'static str>,
    /// `network.protocol.name`.
    protocol: Option<&'static str>,
    /// `server.address`.
    address: Option<String>,
    /// `server.port`.
    port: Option<u16>,
}

impl Endpoint {
    pub(crate) fn of(source: &Source) -> Self {
        let Source::Entry(entry) = source else {
            return Self::default();
        };
        let protocol = match &entry.transport {
            TransportEntry::Sdk => return Self::default(),
            TransportEntry::Stdio(_) => {
                return Self {
                    transport: Some("pipe"),
                    ..Self::default()
                };
            }
            TransportEntry::Ws(_) => "websocket",
            TransportEntry::Ide(ide) if ide.websocket => "websocket",
            TransportEntry::Http(_)
            | TransportEntry::Ide(_)
            | TransportEntry::ClaudeAiProxy { .. } => "http",
        };
        Self::at(protocol, entry.transport.url())
    }

    fn at(protocol: &'static str, url: Option<&ServerUrl>) -> Self {
        let url = url.and_then(|url| url.parse().ok());
        Self {
            transport: Some("tcp"),
            protocol: Some(protocol),
            address: url
                .as_ref()
                .and_then(|url| url.host_str())
                .map(str::to_owned),
            port: url.as_ref().and_then(url::Url::port_or_known_default),
        }
    }
}

/// Traces the handshake of a connection.
pub(crate) async fn connect(
    source: &Source,
    connecting: impl Future<Output = Result<Connected, ConnectFailure>>,
) -> Result<Connected, ConnectFailure> {
    let span = client_span(None, None, source.name(), &Endpoint::of(source));
    let outcome = connecting.instrument(span.clone()).await;
    if span.is_disabled() {
        return outcome;
    }
    let method = match &outcome {
        Ok(connected) if connected.era() == Era::Modern => "server/discover",
        _ => "initialize",
    };
    span.record("mcp.method.name", method);
    span.record("otel.name", method);
    match &outcome {
        Ok(connected) => record_version(&span, &connected.client),
        Err(failure) => record_error(&span, connect_error_type(failure), None),
    }
    outcome
}

/// Traces the request for a list.
pub(crate) async fn list<T>(
    server: &str,
    client: &Client,
    method: &'static str,
    listing: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let span = client_span(Some(method), None, server, &Endpoint::default());
    record_version(&span, client);
    let outcome = listing.instrument(span.clone()).await;
    if let Err(error) = &outcome {
        record_request_error(&span, error);
    }
    outcome
}

/// Traces one attempt to call a tool.
pub(crate) async fn call(
    tool: &PoolTool,
    connected: &Connected,
    calling: impl Future<Output = Result<CallToolResult, RequestError>>,
) -> Result<CallToolResult, RequestError> {
    let name = &*tool.tool.name;
    let span = client_span(Some(CALL), Some(name), &tool.server, &connected.endpoint);
    record_version(&span, &connected.client);
    let outcome = calling.instrument(span.clone()).await;
    match &outcome {
        Ok(result) if result.is_error => record_error(&span, "tool_error", None),
        Ok(_) => {}
        Err(error) => record_request_error(&span, error),
    }
    outcome
}

/// The span for preparing a result.
pub(crate) fn result_span(tool: &PoolTool) -> Span {
    info_span!(
        target: "trunkline",
        "trunkline.result",
        gen_ai.tool.name = &*tool.tool.name,
        trunkline.server.name = &*tool.server,
    )
}

/// Creates a client span. Names come from servers, so they are recorded as strings, which
/// subscribers escape.
fn client_span(
    method: Option<&str>,
    tool: Option<&str>,
    server: &str,
    endpoint: &Endpoint,
) -> Span {
    let span = info_span!(
        target: "trunkline",
        "mcp.client",
        otel.name = Empty,
        otel.kind = "client",
        otel.status_code = Empty,
        mcp.method.name = method,
        gen_ai.operation.name = tool.map(|_| "execute_tool"),
        gen_ai.tool.name = tool,
        mcp.protocol.version = Empty,
        network.transport = endpoint.transport,
        network.protocol.name = endpoint.protocol,
        server.address = endpoint.address.as_deref(),
        server.port = endpoint.port,
        error.type = Empty,
        rpc.response.status_code = Empty,
        trunkline.server.name = server,
    );
    if let Some(method) = method.filter(|_| !span.is_disabled()) {
        match tool {
            Some(tool) => span.record("otel.name", format!("{method} {tool}")),
            None => span.record("otel.name", method),
        };
    }
    span
}

fn record_version(span: &Span, client: &Client) {
    span.record(
        "mcp.protocol.version",
        client.identity().protocol_version.as_str(),
    );
}

fn record_error(span: &Span, kind: &str, status_code: Option<&str>) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    if let Some(code) = status_code {
        span.record("rpc.response.status_code", code);
    }
}

fn record_request_error(span: &Span, error: &RequestError) {
    if span.is_disabled() {
        return;
    }
    if let RequestError::Rpc(error) = error {
        let code = error.code.to_string();
        record_error(span, &code, Some(&code));
    } else {
        record_error(span, request_error_type(error), None);
    }
}

fn request_error_type(error: &RequestError) -> &'static str {
    match error {
        RequestError::Rpc(_) => "rpc_error",
        RequestError::Timeout { .. } | RequestError::Idle { .. } => "timeout",
        RequestError::Closed { .. } => "connection_closed",
        RequestError::Delivery(failure) => match failure.kind {
            DeliveryErrorKind::Unauthorized { .. } => "unauthorized",
            _ => "delivery_failed",
        },
        RequestError::Malformed(_) => "malformed_response",
    }
}

fn connect_error_type(failure: &ConnectFailure) -> &'static str {
    match &failure.kind {
        FailureKind::Spawn(_) => "spawn_failed",
        FailureKind::Handshake(ConnectError::Request(error)) => request_error_type(error),
        FailureKind::Handshake(_) => "handshake_failed",
        FailureKind::Unreachable(_) => "unreachable",
        FailureKind::Unauthorized { .. } => "unauthorized",
        FailureKind::TimedOut(_) | FailureKind::MachineBusy(_) => "timeout",
        FailureKind::Lost(_) => "connection_closed",
        FailureKind::Secret(_) => "secret_unavailable",
        FailureKind::NoBridge => "no_bridge",
        FailureKind::MissingFeature(_) => "missing_feature",
        FailureKind::Abandoned => "cancelled",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use trunkline_config::ServerEntry;

    use super::*;
    use crate::builtin::Builtin;
    use crate::permission::AllowAll;
    use crate::{CallOptions, Host};

    type Fields = BTreeMap<String, String>;

    /// Records every span with its fields.
    #[derive(Clone, Default)]
    struct Capture(Arc<Mutex<Vec<(&'static str, Fields)>>>);

    struct Collect<'a>(&'a mut Fields);

    impl Visit for Collect<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.insert(field.name().to_owned(), format!("{value:?}"));
        }

        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name().to_owned(), value.to_owned());
        }
    }

    impl Subscriber for Capture {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            let mut fields = Fields::new();
            attributes.record(&mut Collect(&mut fields));
            let mut spans = self.0.lock().unwrap();
            spans.push((attributes.metadata().name(), fields));
            Id::from_u64(spans.len() as u64)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            let at = usize::try_from(span.into_u64()).unwrap() - 1;
            values.record(&mut Collect(&mut self.0.lock().unwrap()[at].1));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    impl Capture {
        /// Returns the fields of the span with this `otel.name`.
        fn named(&self, name: &str) -> Fields {
            let spans = self.0.lock().unwrap();
            let found = spans
                .iter()
                .find(|(_, fields)| fields.get("otel.name").is_some_and(|found| found == name));
            found
                .unwrap_or_else(|| panic!("no span {name}: {spans:?}"))
                .1
                .clone()
        }
    }

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[tokio::test]
    async fn spans_follow_the_conventions_for_mcp_and_hold_no_values() {
        let capture = Capture::default();
        let _default = tracing::subscriber::set_default(capture.clone());
        let schema = serde_json::json!({"type": "object"});
        let greeter = Builtin::new("greeter")
            .tool("hello", "Greets", &schema, |_| async { Ok("hi".into()) })
            .tool("fail", "Fails", &schema, |_| async { Err("no".into()) });
        let host = Host::builder().builtin(greeter).permit(AllowAll).start();
        host.ready().await;
        for tool in ["mcp__greeter__hello", "mcp__greeter__fail"] {
            let arguments = serde_json::json!({"password": "hunter2"});
            let _ = host.call(tool, arguments, CallOptions::default()).await;
        }
        host.shutdown().await;

        let version = capture.named("tools/list")["mcp.protocol.version"].clone();
        let common = [
            ("otel.kind", "client"),
            ("mcp.protocol.version", &version),
            ("trunkline.server.name", "greeter"),
        ];
        let call = |tool| {
            let name = [
                ("mcp.method.name", "tools/call"),
                ("gen_ai.tool.name", tool),
            ];
            let operation = [("gen_ai.operation.name", "execute_tool")];
            fields(&[&common[..], &name, &operation].concat())
        };
        let mut hello = call("hello");
        hello.insert("otel.name".to_owned(), "tools/call hello".to_owned());
        assert_eq!(capture.named("tools/call hello"), hello);
        let mut fail = call("fail");
        fail.extend(fields(&[
            ("otel.name", "tools/call fail"),
            ("otel.status_code", "ERROR"),
            ("error.type", "tool_error"),
        ]));
        assert_eq!(capture.named("tools/call fail"), fail);
        let list = [
            ("mcp.method.name", "tools/list"),
            ("otel.name", "tools/list"),
        ];
        assert_eq!(
            capture.named("tools/list"),
            fields(&[&common[..], &list].concat())
        );
        let method = capture.0.lock().unwrap()[0].1["mcp.method.name"].clone();
        assert!(
            ["initialize", "server/discover"].contains(&&*method),
            "{method}"
        );
        let spans = capture.0.lock().unwrap();
        let results = spans.iter().filter(|(name, _)| *name == "trunkline.result");
        assert_eq!(results.count(), 2);
        assert!(!format!("{spans:?}").contains("hunter2"), "{spans:?}");
    }

    #[tokio::test]
    async fn a_failed_connection_records_its_error_type() {
        let capture = Capture::default();
        let _default = tracing::subscriber::set_default(capture.clone());
        let missing = ServerEntry::stdio("missing", "/nonexistent/server", [""; 0]);
        let host = Host::builder().server(missing).start();
        host.ready().await;
        host.shutdown().await;
        let span = capture.named("initialize");
        let expected = fields(&[
            ("otel.name", "initialize"),
            ("otel.kind", "client"),
            ("otel.status_code", "ERROR"),
            ("mcp.method.name", "initialize"),
            ("network.transport", "pipe"),
            ("error.type", "spawn_failed"),
            ("trunkline.server.name", "missing"),
        ]);
        assert_eq!(span, expected);
    }

    #[test]
    fn an_endpoint_has_the_address_of_its_url_without_credentials() {
        let url = "https://user:hunter2@example.com/mcp?token=hunter2";
        let endpoint = Endpoint::at("http", Some(&ServerUrl::new(url)));
        assert_eq!(endpoint.address.as_deref(), Some("example.com"));
        assert_eq!(
            (endpoint.transport, endpoint.port),
            (Some("tcp"), Some(443))
        );
    }
}
