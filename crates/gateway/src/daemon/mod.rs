//! The daemon: one process of each server for all clients of a user (GW-5).
//!
//! Clients connect over the [`socket`](crate::socket) and name the server that they want, fully
//! expanded. `servers` keeps one gateway with one host and one server for each distinct
//! definition, starts it for its first client, and ends it some time after its last. Permissions,
//! pins, hooks and results are the business of the clients' own hosts.
//!
//! `control` answers commands, `relay` is the client's side, and `processes` measures.

mod control;
mod identity;
mod processes;
mod relay;
mod servers;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use trunkline::HostBuilder;
use trunkline_transport::IoTransport;

use crate::client::{ClientInfo, View};
use crate::socket::{
    Accepted, BindError, ClientEnvironment, ConnectFailure, ControlCommand, Hello, HelloError,
    HelloReply, InstanceLock, Listener, LockError, PlaceError, Purpose, RefusalCode, SharedServer,
    SocketPlace, connect, read_hello, write_line,
};
use control::Clients;
use servers::Servers;

pub use control::{request_status, request_stop};
pub use relay::DaemonRelay;

/// How long a server without clients stays, unless told otherwise.
pub const SERVER_IDLE: Duration = Duration::from_mins(5);

/// How long calls in flight may take when the daemon ends, unless told otherwise.
pub const DRAIN: Duration = Duration::from_secs(30);

/// The maximum number of connections (SEC-4).
const MAX_CLIENTS: usize = 1024;

/// How long a new daemon may take to replace this one.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the base of each server's host: with logs, and without servers.
pub type HostFactory = Arc<dyn Fn() -> HostBuilder + Send + Sync>;

/// Options of a daemon.
#[derive(Clone)]
#[non_exhaustive]
pub struct DaemonOptions {
    /// How long a server without clients stays.
    pub server_idle: Duration,
    /// How long the daemon stays without clients and servers; `None` is for ever.
    pub exit_idle: Option<Duration>,
    /// How long calls in flight may take when the daemon ends.
    pub drain: Duration,
    /// Makes the hosts.
    pub hosts: HostFactory,
}

impl DaemonOptions {
    /// The defaults.
    pub fn new(hosts: HostFactory) -> Self {
        Self {
            server_idle: SERVER_IDLE,
            exit_idle: None,
            drain: DRAIN,
            hosts,
        }
    }
}

/// A daemon that owns its socket.
#[derive(Debug)]
pub struct Daemon {
    place: SocketPlace,
    lock: Option<InstanceLock>,
    listener: Listener,
    /// Whether a service manager has opened the socket, and keeps it.
    activated: bool,
}

/// Why a daemon cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another daemon is running, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The socket cannot be created.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The running daemon does not hand over.
    #[error("the running daemon does not hand over: {0}")]
    HandOver(ConnectFailure),
    /// The connection to the running daemon failed.
    #[error("the running daemon does not hand over: {0}")]
    Io(#[from] io::Error),
}

impl From<PlaceError> for StartError {
    fn from(error: PlaceError) -> Self {
        Self::Bind(error.into())
    }
}

/// Why a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// A new daemon has the socket.
    HandedOver,
    /// It had nothing to do.
    Idle,
}

impl Daemon {
    /// Takes the socket, unless a daemon is running. A socket that a killed daemon left is
    /// replaced.
    pub fn start(place: SocketPlace) -> Result<Self, StartError> {
        place.prepare()?;
        let lock = InstanceLock::take(&place.lock)?;
        let listener = Listener::bind(&place)?;
        Ok(Self {
            place,
            lock: Some(lock),
            listener,
            activated: false,
        })
    }

    /// Takes the socket from the running daemon, which then finishes its calls and exits. At every
    /// instant one of the two accepts connections.
    pub async fn take_over(place: SocketPlace) -> Result<Self, StartError> {
        let command = ControlCommand::HandOver;
        let hello = Hello::new(Purpose::Control { command });
        let mut old = match connect(&place, &hello).await {
            Ok(old) => old,
            Err(ConnectFailure::NotRunning) => return Self::start(place),
            Err(error) => return Err(StartError::HandOver(error)),
        };
        let lock = InstanceLock::wait(&place.lock, HAND_OVER_TIMEOUT).await?;
        let listener = Listener::bind(&place)?;
        write_line(&mut old.writer, &control::Taken { taken: true }).await?;
        Ok(Self {
            place,
            lock: Some(lock),
            listener,
            activated: false,
        })
    }

    /// Uses a socket that a service manager has opened at `place`.
    pub fn activated(
        listener: std::os::unix::net::UnixListener,
        place: SocketPlace,
    ) -> Result<Self, StartError> {
        let lock = InstanceLock::take(&place.lock)?;
        let listener = Listener::from_std(listener)?;
        Ok(Self {
            place,
            lock: Some(lock),
            listener,
            activated: true,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &PathBuf {
        &self.place.socket
    }

    /// Serves clients until `stop` completes, a command ends it, or it has been idle for long
    /// enough. Calls in flight are finished first.
    pub async fn run(mut self, options: DaemonOptions, stop: impl Future<Output = ()>) -> Ended {
        let (commands, mut commanded) = mpsc::channel(4);
        let (drain, draining) = watch::channel(false);
        let shared = Arc::new(Shared {
            servers: Servers::new(options.hosts.clone(), options.server_idle),
            clients: Clients::default(),
            connections: AtomicUsize::new(0),
            commands,
            draining,
            started: Instant::now(),
            socket: self.place.socket.clone(),
            activated: self.activated,
        });
        let mut tasks = JoinSet::new();
        let reaper = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { shared.servers.reap().await }
        });
        let mut ticks = tokio::time::interval(servers::REAP_EVERY);
        let mut idle_since = None;
        tokio::pin!(stop);
        let ended = loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => shared.spawn(&mut tasks, accepted),
                    // Too many open files, for instance: those that are open may end meanwhile.
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                () = &mut stop => break Ended::Stopped,
                Some(command) = commanded.recv() => match command {
                    Command::Stop => break Ended::Stopped,
                    Command::ReleaseLock(done) => {
                        self.lock = None;
                        let _ = done.send(());
                    }
                    Command::KeepRunning => self.lock = InstanceLock::take(&self.place.lock).ok(),
                    Command::HandedOver => break Ended::HandedOver,
                },
                _ = ticks.tick(), if options.exit_idle.is_some() => {
                    let since = idle_since.get_or_insert_with(Instant::now);
                    if !shared.is_idle() {
                        idle_since = None;
                    } else if options.exit_idle.is_some_and(|limit| since.elapsed() >= limit) {
                        break Ended::Idle;
                    }
                }
                Some(_) = tasks.join_next() => {}
            }
        };
        self.stop_listening(ended, &shared, &mut tasks).await;
        let _ = drain.send(true);
        let drained = async { while tasks.join_next().await.is_some() {} };
        if timeout(options.drain, drained).await.is_err() {
            tracing::warn!("calls in flight did not end in time and are cancelled");
            tasks.shutdown().await;
        }
        reaper.abort();
        shared.servers.shutdown().await;
        ended
    }

    /// Stops accepting. Connections that wait already are served: their clients have no other
    /// daemon to turn to.
    async fn stop_listening(&self, ended: Ended, shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
        if ended != Ended::HandedOver && !self.activated && self.lock.is_some() {
            // The lock is held, so the socket is this one.
            let _ = std::fs::remove_file(&self.place.socket);
        }
        while let Some(accepted) = self.listener.accept_waiting().await {
            shared.spawn(tasks, accepted);
        }
    }
}

/// A message of a control connection to the daemon.
enum Command {
    Stop,
    /// Lets a new daemon take the lock.
    ReleaseLock(tokio::sync::oneshot::Sender<()>),
    /// The new daemon did not take the socket.
    KeepRunning,
    HandedOver,
}

/// The state that connections share.
struct Shared {
    servers: Servers,
    clients: Clients,
    connections: AtomicUsize,
    commands: mpsc::Sender<Command>,
    draining: watch::Receiver<bool>,
    started: Instant,
    socket: PathBuf,
    activated: bool,
}

impl Shared {
    fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>, accepted: Accepted) {
        let shared = Arc::clone(self);
        tasks.spawn(async move {
            let count = shared.connections.fetch_add(1, Ordering::Relaxed);
            let _leave = Leave(&shared.connections);
            shared.serve(accepted, count < MAX_CLIENTS).await;
        });
    }

    fn is_idle(&self) -> bool {
        self.connections.load(Ordering::Relaxed) == 0 && self.servers.is_empty()
    }

    async fn serve(self: &Arc<Self>, accepted: Accepted, has_room: bool) {
        let Accepted {
            mut reader,
            mut writer,
            peer,
        } = accepted;
        let hello = match read_hello(&mut reader).await {
            Ok(hello) => hello,
            Err(error) => {
                tracing::debug!(%error, pid = peer.pid, "a first line was refused");
                let code = match error {
                    HelloError::Version(_) => RefusalCode::Version,
                    _ => RefusalCode::BadHello,
                };
                let reply = HelloReply::refused(code, error.to_string());
                let _ = write_line(&mut writer, &reply).await;
                return;
            }
        };
        let refusal = match hello.purpose {
            Purpose::Control { command } => {
                control::serve(self, command, reader, writer).await;
                return;
            }
            _ if !has_room => HelloReply::refused(RefusalCode::Busy, "there are too many clients"),
            _ if *self.draining.borrow() => {
                HelloReply::refused(RefusalCode::Stopping, "the daemon is shutting down")
            }
            Purpose::Server {
                server,
                environment,
            } => match self.open(*server, environment).await {
                Ok((lease, name)) => {
                    if write_line(&mut writer, &HelloReply::welcome())
                        .await
                        .is_err()
                    {
                        return;
                    }
                    let pid = peer.pid.unwrap_or_default();
                    let _client = self.clients.join(pid, &name);
                    let info = ClientInfo::new(format!("pid {pid}")).view(View::Server(name));
                    let transport = IoTransport::new(reader, writer);
                    let draining = self.draining.clone();
                    let served = lease.gateway().serve_until(transport, info, draining).await;
                    if let Err(error) = served {
                        tracing::warn!(%error, "could not serve a client");
                    }
                    return;
                }
                Err(refusal) => refusal,
            },
            Purpose::Gateway { .. } => HelloReply::refused(
                RefusalCode::Unsupported,
                "the daemon shares servers; `trunkline serve` is the gateway",
            ),
        };
        let _ = write_line(&mut writer, &refusal).await;
    }

    /// Starts the server if it does not run, and waits until it is connected.
    async fn open(
        self: &Arc<Self>,
        server: SharedServer,
        environment: ClientEnvironment,
    ) -> Result<(servers::Lease<'_>, String), HelloReply> {
        let name = server.name.clone();
        let mut draining = self.draining.clone();
        let lease = self.servers.lease(server, environment);
        let connected = tokio::select! {
            connected = lease.connected() => connected,
            _ = draining.wait_for(|draining| *draining) => {
                let reason = "the daemon is shutting down";
                return Err(HelloReply::refused(RefusalCode::Stopping, reason));
            }
        };
        match connected {
            Ok(()) => Ok((lease, name)),
            Err(reason) => {
                lease.discard();
                Err(HelloReply::refused(RefusalCode::NotConnected, reason))
            }
        }
    }
}

struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
