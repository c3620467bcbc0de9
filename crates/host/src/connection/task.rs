//! The task that owns a connection and is alone in changing its state.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use trunkline_wire::transport::CloseReason;

use super::backoff::{self, MAX_ATTEMPTS, STABLE};
use super::open::open;
use super::state::{ConnectFailure, Connected, FailureKind, State};
use super::{Command, Core, Source};
use crate::catalog::{self, Catalog};
use crate::settings;

/// What to do next.
enum Next {
    /// Connect for the first time, or because somebody asked: a failure is final.
    Connect,
    /// Connect again, for the `attempt`th time in a row, counted from 1: a failure is followed by another attempt.
    Reconnect {
        attempt: u32,
    },
    /// Keep the connection, which took `attempts` attempts to get back, until it is lost.
    Keep {
        connected: Arc<Connected>,
        attempts: u32,
    },
    /// Wait, then connect again.
    Wait {
        attempt: u32,
    },
    /// Do nothing until told to.
    Rest,
    End,
}

pub(super) async fn run(core: Arc<Core>, mut commands: mpsc::Receiver<Command>) {
    let disabled = matches!(core.status.load().state, State::Disabled);
    let mut next = if disabled { Next::Rest } else { Next::Connect };
    loop {
        next = match next {
            Next::Connect => connect(&core, &mut commands, None).await,
            Next::Reconnect { attempt } => connect(&core, &mut commands, Some(attempt)).await,
            Next::Keep {
                connected,
                attempts,
            } => keep(&core, &mut commands, connected, attempts).await,
            Next::Wait { attempt } => tokio::select! {
                command = next_order(&mut commands) => obey(&core, command),
                () = tokio::time::sleep(backoff::delay(attempt)) => Next::Reconnect { attempt },
            },
            Next::Rest => {
                let command = commands.recv().await;
                obey(&core, command)
            }
            Next::End => return,
        };
    }
}

/// The next command, while a connection stands or is under way: another try is what is being made already.
async fn next_order(commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
    loop {
        match commands.recv().await {
            Some(Command::Retry) => {}
            command => return command,
        }
    }
}

/// What a command leads to, once nothing is connected.
fn obey(core: &Core, command: Option<Command>) -> Next {
    let off = || core.publish(State::Disabled, Some(Arc::default()));
    match command {
        // Whoever asked saw a failure; by now it may have been switched off instead.
        Some(Command::Retry)
            if !matches!(
                core.status.load().state,
                State::Failed(_) | State::NeedsAuth
            ) =>
        {
            Next::Rest
        }
        Some(Command::Retry) => {
            core.publish(pending(1, None), None);
            Next::Connect
        }
        Some(Command::Reconnect(done)) => {
            core.publish(pending(1, None), None);
            let _ = done.send(());
            Next::Connect
        }
        Some(Command::Disable(done)) => {
            off();
            let _ = done.send(());
            Next::Rest
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
    again: Option<u32>,
) -> Next {
    let stop = Notify::new();
    // On the heap: it is large, and needed only until the connection stands.
    let mut attempt_to = Box::pin(make(core, &stop));
    let outcome = tokio::select! {
        outcome = &mut attempt_to => outcome,
        command = next_order(commands) => {
            // Give up in good order first: what was opened must be gone before anyone is told so.
            stop.notify_one();
            if let Ok((connected, _)) = attempt_to.await {
                connected.client.peer().close().await;
            }
            return obey(core, command);
        }
    };
    match outcome {
        Ok((connected, catalog)) => {
            let connected = Arc::new(connected);
            core.publish(
                State::Connected(Arc::clone(&connected)),
                Some(Arc::new(catalog)),
            );
            let attempts = again.unwrap_or(0);
            Next::Keep {
                connected,
                attempts,
            }
        }
        // Trying again without a sign-in leads nowhere.
        Err(failure) if failure.is_auth_required() => {
            core.publish(State::NeedsAuth, None);
            Next::Rest
        }
        Err(failure) => {
            if let Some(attempt) = again {
                try_again(core, attempt + 1, failure)
            } else {
                core.publish(State::Failed(Arc::new(failure)), None);
                Next::Rest
            }
        }
    }
}

/// Makes attempt `attempt` after a while, unless that would be one too many.
fn try_again(core: &Core, attempt: u32, failure: ConnectFailure) -> Next {
    let failure = Arc::new(failure);
    if attempt > MAX_ATTEMPTS {
        core.publish(State::Failed(failure), None);
        return Next::Rest;
    }
    core.publish(pending(attempt, Some(failure)), None);
    Next::Wait { attempt }
}

/// Connects and fetches the catalog, within one time limit.
async fn make(core: &Arc<Core>, stop: &Notify) -> Result<(Connected, Catalog), ConnectFailure> {
    let context = &core.context;
    let limit = match &core.source {
        Source::Entry(entry) => entry.connect_timeout,
        Source::Builtin(_) => None,
    };
    let limit = limit.unwrap_or(context.settings.connect_timeout);
    let start = async {
        let deadline = settings::deadline(limit);
        let connected = open(core, deadline, stop).await?;
        // The lists have their own time: a slow handshake must not leave them none.
        let until = settings::deadline(limit);
        let previous = Arc::clone(&core.status.load().catalog);
        let offer = core.offer();
        let catalog = tokio::select! {
            catalog = catalog::fetch(&offer, &connected.client, until, &previous) => catalog,
            () = stop.notified() => Catalog::default(),
        };
        Ok((connected, catalog))
    };
    let place = tokio::select! {
        place = context.window.enter(core.source.is_local()) => place,
        () = stop.notified() => return Err(ConnectFailure::new(FailureKind::Abandoned)),
    };
    place.run(start).await
}

async fn keep(
    core: &Arc<Core>,
    commands: &mut mpsc::Receiver<Command>,
    connected: Arc<Connected>,
    attempts: u32,
) -> Next {
    let since = Instant::now();
    let peer = connected.client.peer();
    let outcome = tokio::select! {
        cause = peer.closed() => Ok(cause),
        command = next_order(commands) => Err(command),
    };
    let next = match outcome {
        Ok(cause) => {
            // One that stood for a while has earned a fresh count; one that keeps dying has not.
            let before = if since.elapsed() >= STABLE {
                0
            } else {
                attempts
            };
            match cause.reason() {
                CloseReason::Unauthorized { .. } => {
                    core.publish(State::NeedsAuth, None);
                    Ok(Next::Rest)
                }
                // The server is there and well; only what it knew of us is gone (CALL-2).
                CloseReason::SessionExpired if before == 0 => {
                    let failure = Arc::new(ConnectFailure::new(FailureKind::Lost(cause)));
                    core.publish(pending(1, Some(failure)), None);
                    Ok(Next::Reconnect { attempt: 1 })
                }
                _ => {
                    let failure = ConnectFailure::new(FailureKind::Lost(cause));
                    Ok(try_again(core, before + 1, failure))
                }
            }
        }
        Err(command) => Err(command),
    };
    // Either way: what the transport had opened must be gone before anything new is opened.
    peer.close().await;
    next.unwrap_or_else(|command| obey(core, command))
}
