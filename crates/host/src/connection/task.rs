//! The task that owns a connection and is alone in changing its state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use trunkline_wire::transport::CloseReason;

use super::backoff::{self, MAX_ATTEMPTS, STABLE};
use super::changes::{self, Listening};
use super::machine::Starter;
use super::open::open;
use super::start_clock::StartClock;
use super::state::{ConnectFailure, Connected, FailureKind, State};
use super::{Command, Core, Source};
use crate::catalog::{self, Catalog, Lists};
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
        listening: Listening,
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
    let rests = {
        let state = &core.status.load().state;
        matches!(state, State::Disabled) || state.is_lazy()
    };
    let mut next = if rests { Next::Rest } else { Next::Connect };
    loop {
        next = match next {
            Next::Connect => connect(&core, &mut commands, None).await,
            Next::Reconnect { attempt } => connect(&core, &mut commands, Some(attempt)).await,
            Next::Keep {
                connected,
                listening,
                attempts,
            } => keep(&core, &mut commands, connected, listening, attempts).await,
            Next::Wait { attempt } => tokio::select! {
                command = next_order(&mut commands) => obey(&core, command),
                () = tokio::time::sleep(backoff::delay(core.context.settings.reconnect_after, attempt)) => Next::Reconnect { attempt },
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
        Some(Command::Retry) => {
            let state = &core.status.load().state;
            // Whoever asked saw a failure, or a server that waits to be asked; by now it may have been switched off instead.
            if !matches!(state, State::Failed(_) | State::NeedsAuth(_)) && !state.is_lazy() {
                return Next::Rest;
            }
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
            if let Ok((connected, ..)) = attempt_to.await {
                connected.client.peer().close().await;
            }
            return obey(core, command);
        }
    };
    match outcome {
        Ok((connected, catalog, listening)) => {
            let (connected, catalog) = (Arc::new(connected), Arc::new(catalog));
            core.publish(
                State::Connected(Arc::clone(&connected)),
                Some(Arc::clone(&catalog)),
            );
            core.remember(catalog);
            Next::Keep {
                connected,
                listening,
                attempts: again.unwrap_or(0),
            }
        }
        // Trying again without a sign-in leads nowhere.
        Err(failure) if failure.is_auth_required() => {
            core.publish(State::NeedsAuth(Arc::new(failure)), None);
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

/// How long connecting may take; fetching lists may take as long again.
pub(super) fn limit(core: &Core) -> Duration {
    let limit = match &core.source {
        Source::Entry(entry) => entry.connect_timeout,
        Source::Builtin(_) => None,
    };
    limit.unwrap_or(core.context.settings.connect_timeout)
}

/// Connects and fetches the catalog, each within its time limit.
async fn make(
    core: &Arc<Core>,
    stop: &Notify,
) -> Result<(Connected, Catalog, Listening), ConnectFailure> {
    let context = &core.context;
    let starter = Starter::default();
    let start = async {
        let clock = StartClock::start(context.limiter.machine(), &starter, limit(core));
        // What an earlier connection said or fetched is no concern of this one.
        core.notifications.take();
        core.fetched.clear();
        let connected = open(core, &clock, &starter, stop).await?;
        let client = &connected.client;
        let mut listening = Listening::to(core, client);
        // The lists have their own time: a slow handshake must not leave them none.
        let until = settings::deadline(clock.limit_from_here());
        let previous = Arc::clone(&core.status.load().catalog);
        let offer = core.offer(changes::is_routed(client));
        let catalog = tokio::select! {
            // It comes first, so that no change after the lists were fetched goes unnoticed.
            biased;
            never = listening.run() => match never {},
            catalog = catalog::fetch(&offer, client, until, &previous, Lists::ALL) => catalog,
            () = stop.notified() => Catalog::default(),
        };
        Ok((connected, catalog, listening))
    };
    let place = tokio::select! {
        place = context.limiter.enter(core.source.is_local()) => place,
        () = stop.notified() => return Err(ConnectFailure::new(FailureKind::Abandoned)),
    };
    // On the heap: it is large.
    Box::pin(place.run(&starter, start)).await
}

async fn keep(
    core: &Arc<Core>,
    commands: &mut mpsc::Receiver<Command>,
    connected: Arc<Connected>,
    mut listening: Listening,
    attempts: u32,
) -> Next {
    let since = Instant::now();
    let peer = connected.client.peer();
    let outcome = tokio::select! {
        cause = peer.closed() => Ok(cause),
        command = next_order(commands) => Err(command),
        never = changes::follow(core, &connected) => match never {},
        never = changes::tell_updates(core) => match never {},
        never = listening.run() => match never {},
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
                    let failure = ConnectFailure::new(FailureKind::Lost(cause));
                    core.publish(State::NeedsAuth(Arc::new(failure)), None);
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
