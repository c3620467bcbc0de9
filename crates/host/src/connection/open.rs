//! Makes one connection: opens the transport, detects the era and performs the handshake (LIF-4,
//! LIF-5).

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::Notify;
use trunkline_transport::stdio::{StderrLog, StdinProgress};
use trunkline_wire::RequestError;
use trunkline_wire::client::{self, ConnectError, ConnectOptions, ReadCheck};
use trunkline_wire::mcp::Implementation;
use trunkline_wire::peer::Handler;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::version::Era;

use super::factory::{self, HttpProtocol, OpenedLink};
use super::inbound::{self, Inbound};
use super::machine::Starter;
use super::start_clock::StartClock;
use super::state::{ConnectFailure, Connected, FailureKind};
use super::{Core, HostShared, Source};
use crate::eras::DetectedProtocol;
use crate::secrets;
use crate::telemetry::Endpoint;

/// Connects, or releases everything it opened. `stop` cancels the attempt.
pub(super) async fn open(
    core: &Core,
    clock: &StartClock<'_>,
    starter: &Starter,
    stop: &Notify,
) -> Result<Connected, ConnectFailure> {
    let shared = &core.shared;
    let mut attempt = Attempt {
        core,
        clock,
        starter,
        stop,
        known: shared.eras.get(&core.hash),
    };
    let source = attempt
        .within_limit(resolve_secrets(core, &core.source))
        .await??;
    if let Some(entry) = source.entry() {
        core.recorder.hide_entry_secrets(entry);
    }
    let known = attempt.known.map(|detected| match detected {
        DetectedProtocol::Sse => HttpProtocol::Sse,
        DetectedProtocol::Modern | DetectedProtocol::Legacy => HttpProtocol::Streamable,
    });
    let mut first_failure = None;
    for protocol in factory::protocols(&source, known) {
        let failure = match attempt.connect_over(&source, protocol).await {
            Ok(connected) => {
                if !connected.is_relayed {
                    remember_protocol(shared, &source, &core.hash, protocol, connected.era());
                }
                return Ok(connected);
            }
            Err(failure) => failure,
        };
        // The remembered protocol did not help.
        if !matches!(failure.kind, FailureKind::Abandoned) {
            shared.eras.set(&core.hash, None);
            attempt.known = None;
        }
        let try_other = failure.suggests_other_protocol();
        // The first failure explains more than the second.
        let failure = first_failure.get_or_insert(failure);
        if !try_other {
            let failure = failure.clone();
            return Err(failure);
        }
    }
    Err(first_failure.unwrap_or_else(|| ConnectFailure::new(FailureKind::Abandoned)))
}

/// One attempt to connect, over one or more protocols.
struct Attempt<'a, 'c> {
    core: &'a Core,
    clock: &'a StartClock<'c>,
    starter: &'a Starter,
    stop: &'a Notify,
    known: Option<DetectedProtocol>,
}

impl Attempt<'_, '_> {
    /// Connects over one protocol. A server that died of the probe is restarted without it.
    async fn connect_over(
        &self,
        source: &Source,
        protocol: HttpProtocol,
    ) -> Result<Connected, ConnectFailure> {
        let shared = &self.core.shared;
        let mut skip_probe =
            protocol == HttpProtocol::Sse || self.known == Some(DetectedProtocol::Legacy);
        loop {
            let inbound = Inbound::new(
                Arc::clone(&self.core.name),
                Arc::clone(shared),
                Arc::clone(&self.core.in_flight),
                Arc::clone(&self.core.notifications),
                self.core.recorder.clone(),
            );
            let inbound = Arc::new(inbound);
            let handler: Arc<dyn Handler> = inbound.clone();
            let opening = factory::open(self.core, source, protocol, handler.clone());
            let OpenedLink {
                peer,
                stderr,
                process,
                is_relayed,
            } = self.within_limit(opening).await??;
            if let Some(process) = &process {
                self.starter.started(process.pid);
            }
            let options = ConnectOptions {
                client_info: Implementation {
                    name: "trunkline".to_owned(),
                    title: None,
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                },
                capabilities: inbound::capabilities(shared.sampling.is_some()),
                // What is remembered is the protocol of the server, not that of the relay.
                skip_probe: skip_probe && !is_relayed,
                legacy_only: shared.settings.legacy_only,
                read_check: process.as_ref().map(|process| {
                    let progress = process.stdin_progress.clone();
                    ReadCheck::new(move || progress.has_read_all())
                }),
            };
            let connecting = client::connect(peer.clone(), handler, &options);
            let failure = match self.within_limit(connecting).await {
                Ok(Ok(client)) => {
                    if let Some(process) = &process {
                        process.stdin_progress.release();
                    }
                    let recorder = &self.core.recorder;
                    return Ok(Connected {
                        client: client.with_identity(|identity| recorder.mask_identity(identity)),
                        stderr,
                        is_sse: protocol == HttpProtocol::Sse,
                        is_relayed,
                        endpoint: Endpoint::of(&self.core.source),
                    });
                }
                Ok(Err(error)) => ConnectFailure::new(FailureKind::from_handshake(error)),
                Err(failure) => failure,
            };
            // Output during shutdown does not explain the failure.
            let stderr_lines = stderr.as_ref().map(StderrLog::relevant_lines);
            peer.close().await;
            let died_of_probe = matches!(
                failure.kind,
                FailureKind::Handshake(ConnectError::ClosedDuringProbe(_))
            );
            if died_of_probe
                && !skip_probe
                && !is_relayed
                && process.is_none_or(|process| may_have_died_of_probe(&process.stdin_progress))
            {
                skip_probe = true;
                continue;
            }
            let mut failure = failure;
            failure.nonsense = inbound.take_nonsense();
            if failure.stderr.is_empty() {
                failure.stderr = stderr_lines.unwrap_or_default();
            }
            return Err(failure);
        }
    }

    /// Runs `work` within the time limit of the attempt.
    async fn within_limit<T>(&self, work: impl Future<Output = T>) -> Result<T, ConnectFailure> {
        tokio::select! {
            biased;
            outcome = work => Ok(outcome),
            expired = self.clock.expired() => Err(ConnectFailure::timed_out(expired)),
            () = self.stop.notified() => Err(ConnectFailure::new(FailureKind::Abandoned)),
        }
    }
}

/// Returns whether a server that died during the probe may have died because of it. A server that
/// read nothing did not, and one that also read the legacy handshake had its chance: restarting
/// either would only repeat its side effects and start time.
fn may_have_died_of_probe(progress: &StdinProgress) -> bool {
    !progress.has_read_nothing() && !progress.may_have_read_handshake()
}

impl ConnectFailure {
    /// Returns whether the server may speak the other HTTP protocol.
    fn suggests_other_protocol(&self) -> bool {
        let FailureKind::Handshake(ConnectError::Request(error)) = &self.kind else {
            return matches!(&self.kind, FailureKind::Unreachable(failure) if failure.status().is_some());
        };
        match error {
            RequestError::Delivery(failure) => {
                matches!(
                    failure.kind,
                    DeliveryErrorKind::Status(_)
                        | DeliveryErrorKind::Broken
                        | DeliveryErrorKind::Redirected
                )
            }
            // Servers answer unexpected messages in any way.
            RequestError::Rpc(_) | RequestError::Malformed(_) => true,
            _ => false,
        }
    }
}

/// Remembers the detected protocol. Servers of the embedding program are cheap to probe and do not
/// belong in a shared file.
fn remember_protocol(
    shared: &HostShared,
    source: &Source,
    hash: &str,
    protocol: HttpProtocol,
    era: Era,
) {
    let is_persistent = matches!(source, Source::Entry(entry) if !entry.transport.is_embedded());
    if is_persistent && !shared.settings.legacy_only {
        let detected = match (protocol, era) {
            (HttpProtocol::Sse, _) => DetectedProtocol::Sse,
            (HttpProtocol::Streamable, Era::Modern) => DetectedProtocol::Modern,
            (HttpProtocol::Streamable, Era::Legacy) => DetectedProtocol::Legacy,
        };
        shared.eras.set(hash, Some(detected));
    }
}

/// Resolves the secrets of the entry.
async fn resolve_secrets<'s>(
    core: &Core,
    source: &'s Source,
) -> Result<Cow<'s, Source>, ConnectFailure> {
    match source {
        Source::Entry(entry) if !entry.keyring.is_empty() => {
            let whole = secrets::resolve(entry, core.shared.secrets.as_ref(), &core.recorder).await;
            whole
                .map(|entry| Cow::Owned(Source::Entry(Arc::new(entry))))
                .map_err(|error| ConnectFailure::new(FailureKind::Secret(error)))
        }
        source => Ok(Cow::Borrowed(source)),
    }
}
