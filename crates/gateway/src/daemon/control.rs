//! Commands for the daemon: status, stop, hand-over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::processes::{Process, processes_below};
use super::{Command, HAND_OVER_TIMEOUT, Shared};
use crate::socket::{
    ConnectFailure, ControlCommand, Hello, HelloReply, Purpose, RefusalCode, SocketPlace, connect,
    read_reply, write_line,
};

/// The second line of a hand-over: the new daemon has the socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) taken: bool,
}

/// The connected clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    joined: Mutex<BTreeMap<u64, Client>>,
    next: AtomicU64,
}

#[derive(Clone, Debug)]
struct Client {
    pid: i32,
    server: String,
    since: Instant,
}

/// A client in the list; dropping it takes it out.
pub(super) struct Joined<'a> {
    clients: &'a Clients,
    id: u64,
}

impl Clients {
    pub(super) fn join(&self, pid: i32, server: &str) -> Joined<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let client = Client {
            pid,
            server: server.to_owned(),
            since: Instant::now(),
        };
        self.change(|joined| joined.insert(id, client));
        Joined { clients: self, id }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u64, Client>) -> T) -> T {
        change(&mut self.joined.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.clients.change(|joined| joined.remove(&self.id));
    }
}

/// Serves a control connection.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    command: ControlCommand,
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
) {
    if command == ControlCommand::HandOver && shared.activated {
        let reason = "a service manager owns its socket; \
                      run `systemctl --user restart trunkline.service`";
        let refusal = HelloReply::refused(RefusalCode::Unsupported, reason);
        let _ = write_line(&mut writer, &refusal).await;
        return;
    }
    if command == ControlCommand::HandOver {
        let (done, released) = oneshot::channel();
        let _ = shared.commands.send(Command::ReleaseLock(done)).await;
        let _ = released.await;
    }
    if write_line(&mut writer, &HelloReply::welcome())
        .await
        .is_err()
    {
        if command == ControlCommand::HandOver {
            let _ = shared.commands.send(Command::KeepRunning).await;
        }
        return;
    }
    match command {
        ControlCommand::Status => {
            let document = status(shared).await;
            let _ = write_line(&mut writer, &document).await;
        }
        ControlCommand::Stop => {
            let _ = shared.commands.send(Command::Stop).await;
        }
        ControlCommand::HandOver => {
            let taken = timeout(HAND_OVER_TIMEOUT, read_reply::<Taken>(&mut reader)).await;
            let command = match taken {
                Ok(Ok(Taken { taken: true })) => Command::HandedOver,
                _ => Command::KeepRunning,
            };
            let _ = shared.commands.send(command).await;
        }
    }
}

/// Describes the daemon, its clients, its servers and their processes.
async fn status(shared: &Arc<Shared>) -> Value {
    let servers = shared.servers.reports();
    let clients = shared.clients.change(|joined| joined.clone());
    let own = std::process::id();
    let processes = tokio::task::spawn_blocking(move || processes_below(own)).await;
    let processes = processes.unwrap_or_default();
    let memory = |of: &dyn Fn(&Process) -> bool| -> u64 {
        let wanted = processes.iter().filter(|process| of(process));
        wanted.map(|process| process.memory).sum()
    };
    let servers: Vec<Value> = servers
        .iter()
        .map(|report| {
            let definition = &report.definition;
            let root = processes.iter().find(|process| {
                process.parent == own && process.runs(&definition.command, &definition.args)
            });
            let mut document = json!({
                "name": definition.name,
                "project": definition.project,
                "state": report.state,
                "clients": report.clients,
                "seconds": report.age.as_secs(),
            });
            if let Some(idle) = report.idle {
                document["idleSeconds"] = json!(idle.as_secs());
            }
            if let Some(root) = root {
                document["pid"] = json!(root.pid);
                document["memoryBytes"] = json!(memory(&|process| process.group == root.group));
            }
            document
        })
        .collect();
    let clients: Vec<Value> = clients
        .values()
        .map(|client| {
            let seconds = client.since.elapsed().as_secs();
            json!({"pid": client.pid, "server": client.server, "seconds": seconds})
        })
        .collect();
    json!({
        "running": true,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": own,
        "socket": shared.socket,
        "seconds": shared.started.elapsed().as_secs(),
        "memoryBytes": memory(&|process| process.pid == own),
        "totalMemoryBytes": memory(&|_| true),
        "clients": clients,
        "servers": servers,
    })
}

/// Asks a daemon for its status.
pub async fn request_status(place: &SocketPlace) -> Result<Value, ConnectFailure> {
    let mut connection = connect(place, &control(ControlCommand::Status)).await?;
    Ok(read_reply(&mut connection.reader).await?)
}

/// Asks a daemon to finish its calls and exit, and waits until it has.
pub async fn request_stop(place: &SocketPlace) -> Result<u32, ConnectFailure> {
    let mut connection = connect(place, &control(ControlCommand::Stop)).await?;
    // The connection ends with the process.
    let _ = connection.reader.read_to_end(&mut Vec::new()).await;
    Ok(connection.pid)
}

fn control(command: ControlCommand) -> Hello {
    Hello::new(Purpose::Control { command })
}
