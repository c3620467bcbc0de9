//! Requests of the embedding program after `initialize`.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trunkline::call::{CallErrorKind, Progress};
use trunkline::server::State;
use trunkline::text::nearest;
use trunkline::tool::may_belong_to;
use trunkline::transport::sdk::{Inquiry, Refusal, SdkBridge, codes};
use trunkline::{CallError, CallOptions, CallOutput, Host, Json};
use trunkline_config::Server;

use super::super::{call, list};
use super::offers;
use crate::session;
use crate::standing;

/// The maximum number of queued progress messages. Newer ones are dropped.
const MAX_PROGRESS: usize = 256;

pub(super) async fn answer(
    host: &Host,
    bridge: &SdkBridge,
    inquiry: &Inquiry,
) -> Result<Json, Refusal> {
    let request = inquiry.request();
    match inquiry.subtype() {
        "mcp_status" => Ok(Json::from(status(host))),
        "tools" => offers::tools(host, read(request)?).await,
        "prompts" => offers::prompts(host, read(request)?).await,
        "get_prompt" => offers::get_prompt(host, read(request)?).await,
        "resources" => offers::resources(host, read(request)?).await,
        "instructions" => offers::instructions(host, read(request)?).await,
        "call_tool" => call_tool(host, bridge, inquiry.id(), read(request)?).await,
        "reconnect" | "mcp_reconnect" => reconnect(host, &read::<Named>(request)?.server).await,
        "enable" => enable(host, &read::<Named>(request)?.server).await,
        "disable" => disable(host, &read::<Named>(request)?.server).await,
        "mcp_toggle" => match read(request)? {
            Toggle {
                server,
                enabled: true,
            } => enable(host, &server).await,
            Toggle { server, .. } => disable(host, &server).await,
        },
        "initialize" => Err(bad("already initialized")),
        other => Err(bad(format!("unknown subtype {other:?}"))),
    }
}

/// Decodes a request.
pub(super) fn read<T: DeserializeOwned>(request: &Json) -> Result<T, Refusal> {
    request.decode().map_err(|error| bad(error.to_string()))
}

fn bad(error: impl Into<String>) -> Refusal {
    Refusal::new(codes::BAD_REQUEST, error)
}

/// Encodes a response. Text of servers stays as it is.
pub(super) fn written(document: &impl Serialize) -> Result<Json, Refusal> {
    Json::encode(document).map_err(|error| Refusal::new(codes::FAILED, error.to_string()))
}

/// Returns all servers as `list --json` does, with the state also under Claude Code's name.
pub(super) fn status(host: &Host) -> Value {
    let set = host.config();
    let rows = list::rows(host, &set);
    let rows: Vec<_> = rows.iter().map(with_status).collect();
    json!({ "mcpServers": rows })
}

fn with_status(row: &list::Row) -> Value {
    let mut value = row.as_value();
    value["status"] = value["state"].clone();
    value
}

#[derive(Deserialize)]
struct CallTool {
    name: String,
    arguments: Option<Json>,
    timeout_ms: Option<u64>,
}

async fn call_tool(
    host: &Host,
    bridge: &SdkBridge,
    id: &Json,
    request: CallTool,
) -> Result<Json, Refusal> {
    let CallTool {
        name,
        arguments,
        timeout_ms,
    } = request;
    let arguments = arguments.filter(|arguments| !arguments.is_null());
    let arguments = arguments.unwrap_or_else(Json::empty_object);
    let started = Instant::now();
    let timeout = timeout_ms.map(Duration::from_millis);
    // The server may still be starting.
    if host.pool().get(&name).is_none() {
        wait_for_servers(host, &name, timeout).await?;
    }
    let (steps, mut progress) = mpsc::channel(MAX_PROGRESS);
    let options = CallOptions::new()
        .timeout(timeout.map(|timeout| timeout.saturating_sub(started.elapsed())))
        .on_progress(move |step| _ = steps.try_send(step));
    let call = host.call(&name, arguments, options);
    let tell = async {
        while let Some(step) = progress.recv().await {
            // The main loop notices a program that has left.
            let _ = bridge.send_line(&progress_line(id, &step)).await;
        }
    };
    // The sender is dropped with the call, so progress precedes the response.
    match tokio::join!(call, tell).0 {
        Ok(output) => result(&output),
        Err(error) => Err(failed(host, &name, &error)),
    }
}

/// Waits until the servers that may have this tool are connected or have failed.
async fn wait_for_servers(
    host: &Host,
    name: &str,
    timeout: Option<Duration>,
) -> Result<(), Refusal> {
    let Some(timeout) = timeout else {
        host.ready().await;
        return Ok(());
    };
    let ready = tokio::time::timeout(timeout, host.ready()).await;
    ready.map_err(|_| {
        let error = format!(
            "no connection to {} within {} ms",
            session::starting(host, |server| may_belong_to(name, server)),
            timeout.as_millis()
        );
        Refusal {
            more: Some(Json::from(json!({"may_have_run": false}))),
            ..Refusal::new(codes::TIMED_OUT, error)
        }
    })
}

fn progress_line(id: &Json, step: &Progress) -> Json {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        request_id: &'a Json,
        progress: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }

    let line = Line {
        r#type: "progress",
        request_id: id,
        progress: step.progress,
        total: step.total,
        message: step.message.as_deref(),
    };
    Json::encode(&line).unwrap_or_else(|_| Json::empty_object())
}

fn result(output: &CallOutput) -> Result<Json, Refusal> {
    written(&call::document(output))
}

/// Converts a failed call.
fn failed(host: &Host, name: &str, error: &CallError) -> Refusal {
    let code = if error.is_usage() {
        let unknown = error.kind() == CallErrorKind::UnknownTool;
        let of_name = |server: &str| may_belong_to(name, server);
        if let Some(refusal) = unknown.then(|| refused(host, of_name)).flatten() {
            return refusal;
        }
        codes::BAD_REQUEST
    } else if error.is_refused() {
        codes::REFUSED
    } else if error.is_auth_required() {
        codes::NEEDS_AUTH
    } else if error.is_timeout() {
        codes::TIMED_OUT
    } else if error.is_connection() {
        codes::NOT_CONNECTED
    } else {
        codes::FAILED
    };
    let mut more = json!({"may_have_run": error.may_have_run()});
    if let Some(hint) = error.hint() {
        more["hint"] = json!(hint);
    }
    Refusal {
        more: Some(Json::from(more)),
        ..Refusal::new(code, error.to_string())
    }
}

/// Returns why none of the named servers may run.
fn refused(host: &Host, named: impl Fn(&str) -> bool) -> Option<Refusal> {
    let set = host.config();
    let of_it = || {
        set.servers
            .iter()
            .filter(|server| named(&server.entry.name))
    };
    if of_it().any(|server| server.status.may_run()) {
        return None;
    }
    let explain = |server: &Server| {
        let (reason, hint) = standing::reason(server)?;
        let error = format!(
            "the server \"{}\" does not run: {reason}",
            server.entry.name
        );
        let mut more = json!({"may_have_run": false});
        if let Some(hint) = hint {
            more["hint"] = json!(hint);
        }
        Some(Refusal {
            more: Some(Json::from(more)),
            ..Refusal::new(codes::REFUSED, error)
        })
    };
    of_it().find_map(explain)
}

#[derive(Deserialize)]
struct Named {
    #[serde(alias = "serverName", alias = "server_name")]
    server: String,
}

#[derive(Deserialize)]
struct Toggle {
    #[serde(alias = "serverName", alias = "server_name")]
    server: String,
    enabled: bool,
}

/// Checks that a server exists and may run.
pub(super) fn known(host: &Host, name: &str) -> Result<(), Refusal> {
    if host.server(name).is_some() {
        return Ok(());
    }
    if let Some(refusal) = refused(host, |server| server == name) {
        return Err(refusal);
    }
    let servers = host.servers();
    let near = nearest(name, servers.iter().map(|server| &*server.name));
    let near = near
        .map(|near| format!("; did you mean \"{near}\"?"))
        .unwrap_or_default();
    Err(bad(format!("there is no server \"{name}\"{near}")))
}

async fn reconnect(host: &Host, name: &str) -> Result<Json, Refusal> {
    known(host, name)?;
    let reconnected = host.reconnect(name).await;
    reconnected.map_err(|error| bad(error.to_string()))?;
    let mut events = host.events();
    let state = loop {
        match host.server(name).map(|server| server.state.clone()) {
            Some(State::Pending {
                last_failure: None, ..
            }) => _ = events.next().await,
            state => break state,
        }
    };
    match state {
        Some(State::Connected(_)) => server(host, name),
        Some(State::NeedsAuth(_)) => {
            let error = format!("the server \"{name}\" needs a sign-in");
            Err(Refusal::new(codes::NEEDS_AUTH, error))
        }
        state => {
            let failure = state.as_ref().and_then(State::failure);
            let why = match failure {
                Some(failure) => failure.to_string(),
                None => "it was disabled".to_owned(),
            };
            let error = format!("could not connect to \"{name}\": {why}");
            Err(Refusal::new(codes::NOT_CONNECTED, error))
        }
    }
}

async fn enable(host: &Host, name: &str) -> Result<Json, Refusal> {
    let status = host.server(name);
    if status.is_some_and(|status| matches!(status.state, State::Connected(_))) {
        return server(host, name);
    }
    reconnect(host, name).await
}

async fn disable(host: &Host, name: &str) -> Result<Json, Refusal> {
    known(host, name)?;
    let disabled = host.disable(name).await;
    disabled.map_err(|error| bad(error.to_string()))?;
    server(host, name)
}

/// Returns the status of one server.
fn server(host: &Host, name: &str) -> Result<Json, Refusal> {
    let all = status(host);
    let rows = all["mcpServers"].as_array();
    let row = rows.and_then(|rows| rows.iter().find(|row| row["name"] == name));
    row.map(Json::from)
        .ok_or_else(|| bad(format!("there is no server \"{name}\"")))
}

/// Encodes an elicitation request.
pub(super) fn elicitation(server: &str, params: &Json) -> Result<Json, Refusal> {
    #[derive(Serialize)]
    struct Elicitation<'a> {
        subtype: &'static str,
        server_name: &'a str,
        params: &'a Json,
    }

    written(&Elicitation {
        subtype: "elicitation",
        server_name: server,
        params,
    })
}
