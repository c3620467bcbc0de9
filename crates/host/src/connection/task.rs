//! The task that owns a connection; only it changes the connection's state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use trunkline_wire::transport::CloseReason;

use super::backoff::{self, MAX_ATTEMPTS, STABLE};
use super::changes::{self, ChangeSubscription};
use super::machine::Starter;
use super::open::open;
use super::start_clock::StartClock;
use super::state::{ConnectFailure, Connected, FailureKind, State};
use super::{Command, Core};
use crate::catalog::{self, Catalog, Lists};
use crate::{settings, telemetry};

/// The next step of the task.
enum Next {
    /// Connect for the first time or for a call: a failure is final.
    Connect,
    /// Connect on request, even to a server that asked for a sign-in shortly ago.
    ConnectAnyway,
    /// Reconnect with the given attempt, counted from 1: a failure leads to another attempt.
    Reconnect {
        attempt: u32,
    },
    /// Serve the connection, which took `attempts` attempts, until it is lost.
    Serve {
        connected: Arc<Connected>,
        subscription: ChangeSubscription,
        attempts: u32,
    },
    /// Wait until then, and reconnect.
    Wait {
        attempt: u32,
        until: Instant,
    },
    /// Wait for a command.
    Idle,
    End,
}

pub(super) async fn run(core: Arc<Core>, mut commands: mpsc::Receiver<Command>) {
    let is_idle = {
        let state = &core.status.load().state;
        matches!(state, State::Disabled) || state.is_lazy()
    };
    let mut next = if is_idle { Next::Idle } else { Next::Connect };
    loop {
        next = match next {
            Next::Connect => tokio::select! {
                demand = sign_in_demand(&core) => match demand {
                    Some(failure) => wait_for_sign_in(&core, failure),
                    None => Next::ConnectAnyway,
                },
                command = next_command(&mut commands) => handle(&core, command),
            },
            Next::ConnectAnyway => connect(&core, &mut commands, None).await,
            Next::Reconnect { attempt } => connect(&core, &mut commands, Some(attempt)).await,
            Next::Serve {
                connected,
                subscription,
                attempts,
            } => serve(&core, &mut commands, connected, subscription, attempts).await,
            Next::Wait { attempt, until } => tokio::select! {
                command = next_command(&mut commands) => handle(&core, command),
                () = tokio::time::sleep_until(until) => Next::Reconnect { attempt },
            },
            Next::Idle => {
                let command = commands.recv().await;
                handle(&core, command)
            }
            Next::End => return,
        };
    }
}

/// Returns the next command while connected or connecting, when `Retry` has no effect.
async fn next_command(commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
    loop {
        match commands.recv().await {
            Some(Command::Retry) => {}
            command => return command,
        }
    }
}

/// Executes a command once nothing is connected.
fn handle(core: &Core, command: Option<Command>) -> Next {
    let off = || core.publish(State::Disabled, Some(Arc::default()));
    match command {
        Some(Command::Retry) => {
            let state = &core.status.load().state;
            // The caller saw a failed or lazy server, which may have been disabled since.
            if !matches!(state, State::Failed(_) | State::NeedsAuth(_)) && !state.is_lazy() {
                return Next::Idle;
            }
            core.publish(pending(1, None), None);
            Next::Connect
        }
        Some(Command::Reconnect(done)) => {
            core.publish(pending(1, None), None);
            let _ = done.send(());
            Next::ConnectAnyway
        }
        Some(Command::Disable(done)) => {
            off();
            let _ = done.send(());
            Next::Idle
        }
        Some(Command::ShutDown(done)) => {
            off();
            let _ = done.send(());
            Next::End
        }
        None => Next::End,
    }
}

fn pending(attempt: u32, last_failure: Option<Arc<ConnectFailure>>) -> State {
    State::Pending {
        attempt,
        last_failure,
    }
}

async fn connect(
    core: &Arc<Core>,
    commands: &mut mpsc::Receiver<Command>,
    retry: Option<u32>,
) -> Next {
    let stop = Notify::new();
    // Boxed because it is large and dropped once connected.
    let mut connecting = Box::pin(establish(core, &stop));
    let outcome = tokio::select! {
        outcome = &mut connecting => outcome,
        command = next_command(commands) => {
            // Release everything that was opened before the command is answered.
            stop.notify_one();
            if let Ok((connected, ..)) = connecting.await {
                connected.client.peer().close().await;
            }
            return handle(core, command);
        }
    };
    match outcome.map_err(|failure| explained(core, failure)) {
        Ok((connected, catalog, subscription)) => {
            let (connected, catalog) = (Arc::new(connected), Arc::new(catalog));
            core.apply_log_level(&connected);
            core.publish(
                State::Connected(Arc::clone(&connected)),
                Some(Arc::clone(&catalog)),
            );
            core.store_catalog(catalog);
            Next::Serve {
                connected,
                subscription,
                attempts: retry.unwrap_or(0),
            }
        }
        Err(failure) if failure.is_auth_required() || lacks_scopes(core, &failure) => {
            wait_for_sign_in(core, failure)
        }
        Err(failure) => {
            if let Some(attempt) = retry {
                retry_later(core, attempt + 1, failure)
            } else {
                core.publish(State::Failed(Arc::new(failure)), None);
                Next::Idle
            }
        }
    }
}

/// Replaces the server's request for a sign-in by the reason why there was no token, if a later
/// attempt may get one.
fn explained(core: &Core, failure: ConnectFailure) -> ConnectFailure {
    let entry = core.source.entry().filter(|_| failure.is_auth_required());
    match entry.and_then(|entry| core.shared.network.token_failure(entry)) {
        Some(reason) => ConnectFailure::no_token(reason),
        None => failure,
    }
}

/// Waits until somebody signs in: retrying before that is pointless.
fn wait_for_sign_in(core: &Core, failure: ConnectFailure) -> Next {
    let entry = core.source.entry();
    let reason = entry.and_then(|entry| core.shared.network.sign_in_message(entry));
    let failure = failure.with_sign_in_reason(reason);
    core.publish(State::NeedsAuth(Arc::new(failure)), None);
    Next::Idle
}

/// Returns whether the server refuses the sign-in for lack of scopes (AUTH-6).
fn lacks_scopes(core: &Core, failure: &ConnectFailure) -> bool {
    let entry = core.source.entry().filter(|_| failure.is_forbidden());
    entry.is_some_and(|entry| {
        let scopes = core.shared.network.scopes_of(entry, failure.challenge());
        !scopes.is_empty()
    })
}

/// Returns the failure of a server that asked for a sign-in shortly ago and is not probed again
/// (AUTH-7).
async fn sign_in_demand(core: &Core) -> Option<ConnectFailure> {
    let entry = core.source.entry()?;
    let is_demanded = core.shared.network.is_sign_in_demanded(entry).await;
    is_demanded.then(ConnectFailure::sign_in_demanded)
}

/// Schedules the next attempt, unless the limit is reached.
fn retry_later(core: &Core, attempt: u32, failure: ConnectFailure) -> Next {
    let failure = Arc::new(failure);
    if attempt > MAX_ATTEMPTS {
        core.publish(State::Failed(failure), None);
        return Next::Idle;
    }
    let until = Instant::now() + backoff::delay(core.shared.settings.reconnect_delay, attempt);
    core.publish_waiting(pending(attempt, Some(failure)), until);
    Next::Wait { attempt, until }
}

/// Returns the time limit for connecting; fetching lists gets the same again.
pub(super) fn connect_timeout(core: &Core) -> Duration {
    entry_timeout(core).unwrap_or(core.shared.settings.connect_timeout)
}

/// Returns the entry's own `connectTimeout`.
fn entry_timeout(core: &Core) -> Option<Duration> {
    core.source.entry()?.connect_timeout
}

/// Connects and fetches the catalog, each within its time limit.
async fn establish(
    core: &Arc<Core>,
    stop: &Notify,
) -> Result<(Connected, Catalog, ChangeSubscription), ConnectFailure> {
    let shared = &core.shared;
    let starter = Starter::default();
    let start = async {
        let clock = StartClock::start(shared.limiter.machine(), &starter, connect_timeout(core));
        // State of an earlier connection does not apply.
        core.notifications.take_changed();
        core.fetched.clear();
        let connected =
            telemetry::connect(&core.source, Box::pin(open(core, &clock, &starter, stop))).await?;
        let client = &connected.client;
        let mut subscription = ChangeSubscription::new(core, client);
        // The lists have their own time limit, so a slow handshake leaves them enough.
        let deadline = settings::deadline(clock.list_timeout());
        let previous = Arc::clone(&core.status.load().catalog);
        let options = core.tool_options(changes::needs_header_parameters(client));
        let catalog = tokio::select! {
            // Polled first, so no change after the fetch goes unnoticed.
            biased;
            never = subscription.run() => match never {},
            catalog = catalog::fetch(&options, client, deadline, &previous, Lists::ALL) => catalog,
            () = stop.notified() => Catalog::default(),
        };
        Ok((connected, catalog, subscription))
    };
    let permit = tokio::select! {
        permit = shared.limiter.acquire(core.source.is_local()) => permit,
        () = stop.notified() => return Err(ConnectFailure::new(FailureKind::Abandoned)),
    };
    // Boxed because it is large.
    let established = Box::pin(permit.run(&starter, start)).await;
    established.map_err(|failure: ConnectFailure| {
        failure.with_entry_timeout(entry_timeout(core).is_some())
    })
}

async fn serve(
    core: &Arc<Core>,
    commands: &mut mpsc::Receiver<Command>,
    connected: Arc<Connected>,
    mut subscription: ChangeSubscription,
    attempts: u32,
) -> Next {
    let since = Instant::now();
    let peer = connected.client.peer();
    let outcome = tokio::select! {
        cause = peer.closed() => Ok(cause),
        command = next_command(commands) => Err(command),
        never = changes::refresh_changed_lists(core, &connected) => match never {},
        never = changes::forward_resource_updates(core) => match never {},
        never = subscription.run() => match never {},
    };
    let next = match outcome {
        Ok(cause) => {
            // A connection that lasted resets the count; one that keeps failing does not.
            let before = if since.elapsed() >= STABLE {
                0
            } else {
                attempts
            };
            match cause.reason() {
                CloseReason::Unauthorized { .. } => {
                    let failure = ConnectFailure::new(FailureKind::Lost(cause));
                    Ok(wait_for_sign_in(core, failure))
                }
                // The server is healthy; only the session is gone (CALL-2).
                CloseReason::SessionExpired if before == 0 => {
                    let failure = Arc::new(ConnectFailure::new(FailureKind::Lost(cause)));
                    core.publish(pending(1, Some(failure)), None);
                    Ok(Next::Reconnect { attempt: 1 })
                }
                _ => {
                    let failure = ConnectFailure::new(FailureKind::Lost(cause));
                    Ok(retry_later(core, before + 1, failure))
                }
            }
        }
        Err(command) => Err(command),
    };
    // Everything that was opened must be released before anything new is opened.
    peer.close().await;
    next.unwrap_or_else(|command| handle(core, command))
}
