//! Makes one connection: opens the transport, finds out the era, introduces us (LIF-4, LIF-5).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;
use trunkline_config::{StdioEntry, TransportEntry};
use trunkline_transport::stdio::StderrLog;
use trunkline_transport::{StdioServer, linked_pair};
use trunkline_wire::client::{self, ConnectError, ConnectOptions};
use trunkline_wire::mcp::Implementation;
use trunkline_wire::peer::Handler;
use trunkline_wire::version::Era;
use trunkline_wire::{Client, Peer};

use super::inbound::{self, Inbound};
use super::state::{ConnectFailure, Connected, FailureKind};
use super::{Context, Core, Source};
use crate::secrets;

/// How many stderr lines are shown with a failure.
const LAST_WORDS: usize = 20;

/// Makes the connection, or tears down whatever it had opened. `stop` makes it give up.
pub(super) async fn open(
    core: &Core,
    deadline: Instant,
    stop: &Notify,
) -> Result<Connected, ConnectFailure> {
    let Core {
        name: server,
        source,
        hash,
        context,
        ..
    } = core;
    let started = Instant::now();
    let project_dir = context.settings.project_dir.as_deref();
    let inbound = Arc::new(Inbound::new(
        Arc::clone(server),
        project_dir,
        context.elicit.clone(),
    ));
    let source = tokio::select! {
        source = with_secrets(context, source) => source?,
        () = tokio::time::sleep_until(deadline) => {
            return Err(ConnectFailure::new(FailureKind::TimedOut(started.elapsed())));
        }
        () = stop.notified() => return Err(ConnectFailure::new(FailureKind::Abandoned)),
    };
    let mut skip_probe = context.eras.get(hash) == Some(Era::Legacy);
    loop {
        let (peer, stderr) = start(context, &source, &inbound)?;
        let options = ConnectOptions {
            client_info: Implementation {
                name: "trunkline".to_owned(),
                title: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            capabilities: inbound::capabilities(),
            skip_probe,
            legacy_only: context.settings.legacy_only,
        };
        let handler: Arc<dyn Handler> = inbound.clone();
        let outcome = tokio::select! {
            biased;
            outcome = client::connect(peer.clone(), handler, &options) => outcome.map_err(FailureKind::Handshake),
            () = tokio::time::sleep_until(deadline) => Err(FailureKind::TimedOut(started.elapsed())),
            () = stop.notified() => Err(FailureKind::Abandoned),
        };
        let kind = match outcome {
            Ok(client) => {
                remember(context, &source, hash, &client);
                return Ok(Connected { client, stderr });
            }
            Err(kind) => kind,
        };
        // What it says when it is told to end is not why it failed.
        let last_words = stderr.as_ref().map(|log| log.last_lines(LAST_WORDS));
        peer.close().await;
        if matches!(kind, FailureKind::Handshake(ConnectError::DiedOfProbe(_))) && !skip_probe {
            skip_probe = true;
            continue;
        }
        // Whatever we believed about it was no help.
        if !matches!(kind, FailureKind::Abandoned) {
            context.eras.set(hash, None);
        }
        let mut failure = ConnectFailure::new(kind);
        failure.nonsense = inbound.take_nonsense();
        if failure.stderr.is_empty() {
            failure.stderr = last_words.unwrap_or_default();
        }
        return Err(failure);
    }
}

/// A server of the embedding program costs nothing to probe, and the file is shared with other programs.
fn remember(context: &Context, source: &Source, hash: &str, client: &Client) {
    if matches!(source, Source::Entry(_)) && !context.settings.legacy_only {
        context.eras.set(hash, Some(client.era()));
    }
}

/// The source with the secrets of its entry in place.
async fn with_secrets<'s>(
    context: &Context,
    source: &'s Source,
) -> Result<Cow<'s, Source>, ConnectFailure> {
    match source {
        Source::Entry(entry) if !entry.keyring.is_empty() => {
            let whole = secrets::fill_in(entry, context.secrets.as_ref()).await;
            whole
                .map(|entry| Cow::Owned(Source::Entry(Arc::new(entry))))
                .map_err(|error| ConnectFailure::new(FailureKind::Secret(error)))
        }
        source => Ok(Cow::Borrowed(source)),
    }
}

fn start(
    context: &Context,
    source: &Source,
    inbound: &Arc<Inbound>,
) -> Result<(Peer, Option<StderrLog>), ConnectFailure> {
    let handler: Arc<dyn Handler> = inbound.clone();
    match source {
        Source::Builtin(builtin) => {
            let (ours, theirs) = linked_pair();
            builtin.serve(theirs);
            Ok((Peer::start(ours, handler), None))
        }
        Source::Entry(entry) => match &entry.transport {
            TransportEntry::Stdio(stdio) => {
                let transport = stdio_server(context, stdio)
                    .spawn()
                    .map_err(|error| ConnectFailure::new(FailureKind::Spawn(error)))?;
                let stderr = transport.stderr();
                Ok((Peer::start(transport, handler), Some(stderr)))
            }
            other => {
                let kind = other.kind().to_owned();
                Err(ConnectFailure::new(FailureKind::Unsupported(kind)))
            }
        },
    }
}

fn stdio_server(context: &Context, stdio: &StdioEntry) -> StdioServer {
    let own = stdio.env.iter();
    let mut env: BTreeMap<String, String> = own
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
        .collect();
    let project_dir = context.settings.project_dir.as_ref();
    if let Some(dir) = project_dir.and_then(|dir| dir.to_str()) {
        env.entry("CLAUDE_PROJECT_DIR".to_owned())
            .or_insert_with(|| dir.to_owned());
    }
    StdioServer {
        command: stdio.command.clone(),
        args: stdio.args.clone(),
        env,
        cwd: stdio.cwd.clone(),
    }
}
