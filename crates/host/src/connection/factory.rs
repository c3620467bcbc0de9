//! Opens the transport that a server's entry describes (TRN-1). `http` and `ws` open those of their
//! features, with what `net` prepares for both.

#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "http", feature = "ws"))]
mod net;
#[cfg(feature = "ws")]
mod ws;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trunkline_config::{
    Confinement, HttpFlavour, Secret, ServerEntry, StdioEntry, TransportEntry, env_vars,
};
use trunkline_transport::stdio::{SpawnError, StderrLog, StdinProgress};
use trunkline_transport::{IoTransport, StdioServer, Transport, linked_pair};
use trunkline_wire::Peer;
use trunkline_wire::peer::Handler;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};

use super::state::{ConnectFailure, FailureKind};
use super::{Core, RelayedServer, Source};
#[cfg(not(feature = "http"))]
use crate::absent::http;
#[cfg(not(feature = "ws"))]
use crate::absent::ws;

/// The two HTTP protocols of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpProtocol {
    Streamable,
    Sse,
}

/// An opened transport with its peer.
pub(super) struct OpenedLink {
    pub(super) peer: Peer,
    pub(super) stderr: Option<StderrLog>,
    /// The process started for the link, if any.
    pub(super) process: Option<StartedProcess>,
    /// Whether another process runs the server, whose protocol is then unknown here.
    pub(super) is_relayed: bool,
}

/// A process started for a link.
pub(super) struct StartedProcess {
    pub(super) pid: u32,
    pub(super) stdin_progress: StdinProgress,
}

impl OpenedLink {
    fn new<T: Transport>(core: &Core, transport: T, handler: Arc<dyn Handler>) -> Self {
        Self {
            peer: core.recorder.peer(transport, handler),
            stderr: None,
            process: None,
            is_relayed: false,
        }
    }
}

/// Opens a link to a server; HTTP entries use `protocol`.
pub(super) async fn open(
    core: &Core,
    source: &Source,
    protocol: HttpProtocol,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let shared = &core.shared;
    let entry = match source {
        Source::Builtin(builtin) => {
            let (ours, theirs) = linked_pair();
            builtin.serve(theirs);
            return Ok(OpenedLink::new(core, ours, handler));
        }
        Source::Custom(custom) => {
            let (reader, writer) = custom.connect().await.map_err(|error| {
                let failure =
                    DeliveryError::new(DeliveryErrorKind::Unreachable, error.to_string(), false);
                ConnectFailure::new(FailureKind::Unreachable(failure))
            })?;
            return Ok(OpenedLink::new(
                core,
                IoTransport::new(reader, writer),
                handler,
            ));
        }
        Source::Entry(entry) => entry,
    };
    if entry.transport.stdio().is_none()
        && let Confinement::Refused(reason) = &entry.confinement
    {
        let refused = SpawnError::Sandbox(reason.clone());
        return Err(ConnectFailure::new(FailureKind::Spawn(refused)));
    }
    match &entry.transport {
        TransportEntry::Stdio(stdio) => {
            let server = stdio_server(core, entry, stdio)
                .map_err(|error| ConnectFailure::new(FailureKind::Spawn(error)))?;
            // A sandboxed server is a process of ours: its rules are made for this project.
            if let Some(relay) = shared.relay.as_ref().filter(|_| !server.env_clear)
                && let Some(stream) = relay.open(relayed(core, entry, &server)).await
            {
                let transport = IoTransport::new(stream.reader, stream.writer);
                return Ok(OpenedLink {
                    is_relayed: true,
                    ..OpenedLink::new(core, transport, handler)
                });
            }
            let spawned = server.spawn();
            let transport =
                spawned.map_err(|error| ConnectFailure::new(FailureKind::Spawn(error)))?;
            let stderr = Some(transport.stderr());
            let process = Some(StartedProcess {
                pid: transport.pid(),
                stdin_progress: transport.stdin_progress(),
            });
            Ok(OpenedLink {
                stderr,
                process,
                ..OpenedLink::new(core, transport, handler)
            })
        }
        TransportEntry::Http(_) | TransportEntry::ClaudeAiProxy { .. } => {
            http::open(core, entry, protocol, handler).await
        }
        TransportEntry::Ide(ide) if !ide.websocket => {
            http::open(core, entry, HttpProtocol::Sse, handler).await
        }
        TransportEntry::Ws(_) | TransportEntry::Ide(_) => ws::open(core, entry, handler).await,
        TransportEntry::Sdk => match &shared.sdk {
            Some(bridge) => Ok(OpenedLink::new(core, bridge.connect(&entry.name), handler)),
            None => Err(ConnectFailure::new(FailureKind::NoBridge)),
        },
    }
}

/// Our own secrets, which no child process inherits.
fn withheld_vars() -> Vec<String> {
    env_vars::secrets().map(str::to_owned).collect()
}

fn expose_all(secrets: &BTreeMap<String, Secret>) -> impl Iterator<Item = (String, String)> {
    secrets
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
}

/// Returns the HTTP protocols to try in order; `known` is the one that worked before.
pub(super) fn protocols(source: &Source, known: Option<HttpProtocol>) -> Vec<HttpProtocol> {
    let flavour = source.transport().and_then(TransportEntry::http_flavour);
    match (flavour.unwrap_or(HttpFlavour::Streamable), known) {
        (HttpFlavour::Streamable, _) => vec![HttpProtocol::Streamable],
        (HttpFlavour::Sse, _) => vec![HttpProtocol::Sse],
        (HttpFlavour::Either, Some(HttpProtocol::Sse)) => {
            vec![HttpProtocol::Sse, HttpProtocol::Streamable]
        }
        (HttpFlavour::Either, _) => vec![HttpProtocol::Streamable, HttpProtocol::Sse],
    }
}

/// Returns the server's working directory: the entry's `cwd`, relative to the project. The host may
/// serve another project than the one its process runs in.
fn working_dir(project_dir: Option<&PathBuf>, cwd: Option<&Path>) -> Option<PathBuf> {
    match (project_dir, cwd) {
        (Some(project), Some(cwd)) => Some(project.join(cwd)),
        (project, cwd) => project.cloned().or_else(|| cwd.map(Path::to_path_buf)),
    }
}

fn relayed(core: &Core, entry: &ServerEntry, server: &StdioServer) -> RelayedServer {
    let settings = &core.shared.settings;
    RelayedServer {
        name: entry.name.clone(),
        command: server.command.clone(),
        args: server.args.clone(),
        env: server.env.clone(),
        env_remove: server.env_remove.clone(),
        cwd: server.cwd.clone(),
        project_dir: settings.project_dir.clone(),
        legacy_only: settings.legacy_only,
        share: entry.share,
    }
}

/// The child process of an entry, without a sandbox.
pub(crate) fn plain_server(
    project_dir: Option<&PathBuf>,
    entry: &ServerEntry,
    stdio: &StdioEntry,
) -> StdioServer {
    let mut env: BTreeMap<String, String> = expose_all(&stdio.env).collect();
    if let Some(dir) = project_dir.and_then(|dir| dir.to_str()) {
        env.entry("CLAUDE_PROJECT_DIR".to_owned())
            .or_insert_with(|| dir.to_owned());
    }
    StdioServer {
        command: entry.program().unwrap_or_else(|| stdio.command.clone()),
        args: stdio.args.clone(),
        env,
        env_remove: withheld_vars(),
        env_clear: false,
        cwd: working_dir(project_dir, stdio.cwd.as_deref()),
        tee: None,
    }
}

/// Replaces the variables that the server inherits from this process.
fn inherit(server: &mut StdioServer, environment: &BTreeMap<String, Secret>) {
    let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_foreign = |name: &String| !environment.contains_key(name);
    server.env_remove.extend(ours.filter(is_foreign));
    for (name, value) in expose_all(environment) {
        server.env.entry(name).or_insert(value);
    }
}

/// The child process of an entry, in its sandbox if it has one (SEC-5).
fn stdio_server(
    core: &Core,
    entry: &ServerEntry,
    stdio: &StdioEntry,
) -> Result<StdioServer, SpawnError> {
    let project_dir = core.shared.settings.project_dir.as_ref();
    let setup = &core.shared.sandbox;
    let server = match setup.launch(entry, project_dir) {
        Ok(None) => {
            let mut server = plain_server(project_dir, entry, stdio);
            if let Some(environment) = &core.shared.settings.environment {
                inherit(&mut server, environment);
            }
            server
        }
        Ok(Some(launch)) => setup.server(&launch).map_err(SpawnError::Sandbox)?,
        Err(reason) => return Err(SpawnError::Sandbox(reason)),
    };
    Ok(StdioServer {
        tee: core.recorder.stderr(),
        ..server
    })
}
