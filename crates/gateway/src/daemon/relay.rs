//! The client's side: a host whose local servers the daemon runs.
//!
//! [`DaemonRelay`] opens a connection for each server. A pump stands between the host and the
//! socket and follows a daemon that hands over to a new one: it sends nothing new to the old
//! daemon, waits for the responses that are due, and goes on with the new one. No call is lost, and
//! the host notices nothing. (The protocol between them is the modern one, which is stateless.
//! Subscriptions, the only requests that stay open, are repeated.)

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use trunkline::ServerEntry;
use trunkline::transport::{Relay, RelayFuture, RelayStream, RelayedServer};

use crate::drain::{GO_AWAY, LEAVING, LEFT};
use crate::private::is_private;
use crate::socket::{
    ClientEnvironment, ConnectFailure, Hello, Purpose, RefusalCode, SharedServer, SocketConnection,
    SocketPlace, connect,
};

/// The size of the buffer between the host and the pump.
const BUFFER: usize = 64 << 10;

/// The maximum length of a line that the pump looks into.
const MAX_SHORT_LINE: usize = 4 << 10;

/// How many open subscriptions are repeated.
const MAX_SUBSCRIPTIONS: usize = 64;

/// How long the pump looks for the new daemon.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it does meanwhile.
const RECONNECT_EVERY: Duration = Duration::from_millis(20);

/// Reaches local servers through the daemon, if one is running.
#[derive(Clone, Debug)]
pub struct DaemonRelay {
    place: SocketPlace,
}

impl DaemonRelay {
    /// Uses the daemon at a place.
    pub fn new(place: SocketPlace) -> Self {
        Self { place }
    }
}

impl Relay for DaemonRelay {
    fn open(&self, server: RelayedServer) -> RelayFuture {
        let place = self.place.clone();
        Box::pin(async move {
            // Most users have no daemon: no environment is collected for them.
            if !place.socket.exists() {
                return None;
            }
            if !is_shared(&server) {
                return None;
            }
            let name = server.name.clone();
            let hello = hello(server)?;
            match connect(&place, &hello).await {
                Ok(connection) => {
                    tracing::info!(server = name, pid = connection.pid, "is run by the daemon");
                    Some(pumped(place, hello, connection))
                }
                Err(error) => {
                    tracing::info!(server = name, "is started here: {error}");
                    None
                }
            }
        })
    }
}

/// Whether several clients may use one process of the server.
fn is_shared(server: &RelayedServer) -> bool {
    let mut entry = ServerEntry::stdio(&server.name, &server.command, server.args.clone());
    entry.share = server.share;
    !is_private(&entry)
}

/// The first line for a server; `None` if its definition cannot be sent.
fn hello(server: RelayedServer) -> Option<Hello> {
    let project = match server.project_dir {
        Some(project) => project,
        None => std::env::current_dir().ok()?,
    };
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !server.env_remove.contains(name))
        .collect();
    Some(Hello::new(Purpose::Server {
        server: Box::new(SharedServer {
            name: server.name,
            cwd: server.cwd,
            project,
            command: server.command,
            args: server.args,
            env: server.env,
            path: std::env::var("PATH").ok(),
            legacy_only: server.legacy_only,
        }),
        environment: ClientEnvironment(environment),
    }))
}

fn pumped(place: SocketPlace, hello: Hello, connection: SocketConnection) -> RelayStream {
    let (ours, theirs) = duplex(BUFFER);
    tokio::spawn(Pump::new(ours).run(place, hello, connection));
    let (reader, writer) = split(theirs);
    RelayStream::new(reader, writer)
}

/// The connection of one host to one server.
struct Pump {
    from_host: BufReader<ReadHalf<DuplexStream>>,
    to_host: WriteHalf<DuplexStream>,
    subscriptions: Subscriptions,
    is_legacy: bool,
}

/// Why a connection to a daemon ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The daemon said so, and has answered everything.
    Left,
    /// The host or the daemon went away.
    Gone,
}

impl Pump {
    fn new(host: DuplexStream) -> Self {
        let (reader, writer) = split(host);
        Self {
            from_host: BufReader::new(reader),
            to_host: writer,
            subscriptions: Subscriptions::default(),
            is_legacy: false,
        }
    }

    async fn run(mut self, place: SocketPlace, hello: Hello, mut connection: SocketConnection) {
        while self.carry(&mut connection).await == End::Left && !self.is_legacy {
            let Some(mut new) = reconnect(&place, &hello).await else {
                break;
            };
            for line in &self.subscriptions.lines {
                if new.writer.write_all(line).await.is_err() {
                    return;
                }
            }
            tracing::debug!(pid = new.pid, "follows to the new daemon");
            connection = new;
        }
    }

    /// Carries messages both ways until an end.
    async fn carry(&mut self, connection: &mut SocketConnection) -> End {
        let leaving = Leaving::default();
        let has_left = AtomicBool::new(false);
        let up = Up {
            from_host: &mut self.from_host,
            to_daemon: &mut connection.writer,
            subscriptions: &mut self.subscriptions,
            is_legacy: &mut self.is_legacy,
        };
        tokio::select! {
            () = carry_down(&mut connection.reader, &mut self.to_host, &leaving) => {}
            () = up.carry(&leaving, &has_left) => {}
        }
        // Only if the daemon knows that nothing more comes, everything before it was answered.
        if has_left.load(Ordering::Relaxed) {
            End::Left
        } else {
            End::Gone
        }
    }
}

/// The daemon has asked the client to leave.
#[derive(Default)]
struct Leaving {
    asked: AtomicBool,
    changed: Notify,
}

impl Leaving {
    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

/// Carries messages to the host, except those about leaving. Ends with the last one of them, or
/// with the connection.
async fn carry_down(
    from_daemon: &mut BufReader<OwnedReadHalf>,
    to_host: &mut WriteHalf<DuplexStream>,
    leaving: &Leaving,
) {
    // The beginning of a line that may turn out to be that message.
    let mut head = Vec::new();
    let mut is_decided = false;
    loop {
        let Ok(available) = from_daemon.fill_buf().await else {
            return;
        };
        if available.is_empty() {
            let _ = to_host.write_all(&head).await;
            return;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        let written = if is_decided {
            to_host.write_all(&available[..taken]).await
        } else {
            head.extend_from_slice(&available[..taken]);
            match (end, head.len() > MAX_SHORT_LINE) {
                (None, false) => Ok(()),
                (Some(_), false) if contains(&head, LEFT) => return,
                (Some(_), false) if contains(&head, GO_AWAY) => {
                    leaving.ask();
                    head.clear();
                    Ok(())
                }
                _ => {
                    is_decided = true;
                    let written = to_host.write_all(&head).await;
                    head.clear();
                    written
                }
            }
        };
        from_daemon.consume(taken);
        if end.is_some() {
            is_decided = false;
        }
        if written.is_err() {
            return;
        }
    }
}

/// The way from the host to the daemon.
struct Up<'a> {
    from_host: &'a mut BufReader<ReadHalf<DuplexStream>>,
    to_daemon: &'a mut OwnedWriteHalf,
    subscriptions: &'a mut Subscriptions,
    is_legacy: &'a mut bool,
}

impl Up<'_> {
    /// Carries messages to the daemon until the host goes away. After the request to leave, it
    /// says goodbye at the end of a line, and leaves the rest for the next daemon.
    async fn carry(self, leaving: &Leaving, has_left: &AtomicBool) {
        let mut line = ShortLine::default();
        loop {
            if leaving.is_asked() && line.is_start {
                let goodbye = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{LEAVING}\"}}\n");
                if self.to_daemon.write_all(goodbye.as_bytes()).await.is_ok() {
                    has_left.store(true, Ordering::Relaxed);
                }
                // The daemon says when all is answered.
                return std::future::pending().await;
            }
            let available = tokio::select! {
                available = self.from_host.fill_buf() => available,
                () = leaving.changed.notified() => continue,
            };
            let Ok(available) = available else {
                return;
            };
            if available.is_empty() {
                return;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.to_daemon.write_all(&available[..taken]).await.is_err() {
                // What the daemon has sent is still to be read.
                return std::future::pending().await;
            }
            if let Some(whole) = line.push(&available[..taken], end.is_some()) {
                *self.is_legacy |= contains(&whole, "\"initialize\"");
                self.subscriptions.note(whole);
            }
            self.from_host.consume(taken);
        }
    }
}

/// Collects lines that are short.
struct ShortLine {
    text: Vec<u8>,
    is_start: bool,
}

impl Default for ShortLine {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            is_start: true,
        }
    }
}

impl ShortLine {
    /// Adds a part of a line. Returns the line if this is its end and it is short.
    fn push(&mut self, part: &[u8], is_end: bool) -> Option<Vec<u8>> {
        let is_short = self.text.len() + part.len() <= MAX_SHORT_LINE;
        if is_short && (self.is_start || !self.text.is_empty()) {
            self.text.extend_from_slice(part);
        } else {
            self.text.clear();
        }
        self.is_start = is_end;
        let whole = is_end.then(|| std::mem::take(&mut self.text));
        whole.filter(|line| !line.is_empty())
    }
}

/// The open subscriptions of the host, as it sent them.
#[derive(Default)]
struct Subscriptions {
    lines: VecDeque<Vec<u8>>,
}

impl Subscriptions {
    fn note(&mut self, line: Vec<u8>) {
        if contains(&line, "\"subscriptions/listen\"") {
            if self.lines.len() == MAX_SUBSCRIPTIONS {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        } else if contains(&line, "\"notifications/cancelled\"") {
            self.forget(&line);
        }
    }

    /// Forgets the subscription that a cancellation names.
    fn forget(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else {
            return;
        };
        let cancelled = &message["params"]["requestId"];
        self.lines.retain(|line| {
            let line = serde_json::from_slice::<serde_json::Value>(line);
            line.is_ok_and(|line| line["id"] != *cancelled)
        });
    }
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len())
        .any(|window| window == part.as_bytes())
}

/// Finds the daemon that has taken over; `None` if there is none.
async fn reconnect(place: &SocketPlace, hello: &Hello) -> Option<SocketConnection> {
    let latest = Instant::now() + RECONNECT_TIMEOUT;
    loop {
        match connect(place, hello).await {
            Ok(connection) => return Some(connection),
            // The old daemon was still there.
            Err(ConnectFailure::Refused {
                code: RefusalCode::Stopping,
                ..
            }) if Instant::now() < latest => sleep(RECONNECT_EVERY).await,
            Err(error) => {
                tracing::debug!("there is no daemon to follow to: {error}");
                return None;
            }
        }
    }
}
