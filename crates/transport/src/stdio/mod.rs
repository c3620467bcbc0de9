//! A server as a child process, one JSON message a line (TRN-1, stdio).
//!
//! Three parties look after a child. The sending half owns its stdin and ends it. The receiving half owns its stdout and
//! reports its death. The `process` module's watcher owns the process itself, so that whoever else is stuck or gone, the
//! child and its process group are taken down and reaped.

mod command;
pub mod proc_fs;
mod process;
mod relevant;
mod stderr;
mod uptake;

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

pub use command::{SpawnError, StdioServer};
use process::{Exit, Process};
pub use process::{INTERRUPT_GRACE, KILL_GRACE, STDIN_GRACE, TERMINATE_GRACE};
pub use stderr::{STDERR_CAP, StderrLog, Tee};
pub use uptake::Uptake;

use crate::lines::{LineDecoder, end_line};

/// How much is read at once, to begin with; a connection that moves more grows its buffer.
const READ_BYTES: usize = 8 * 1024;

/// From this size on a message is worth a larger pipe: the default of 64 KiB would make it go in several turns.
/// Not before, because the kernel allows each user only so much pipe memory.
const LARGE: usize = 32 * 1024;
const LARGE_PIPE: usize = 1024 * 1024;

/// How long after a child's death its output may still come in: what it wrote before is in the pipe already.
const DRAIN: Duration = Duration::from_millis(200);

/// A running server.
pub struct StdioTransport {
    sender: StdioSender,
    receiver: StdioReceiver,
    stderr: StderrLog,
    uptake: Uptake,
    pid: u32,
}

impl StdioTransport {
    /// What the server writes to stderr; stays readable after it has ended.
    pub fn stderr(&self) -> StderrLog {
        self.stderr.clone()
    }

    /// How much of what it was sent the server has read; known once it has ended.
    pub fn uptake(&self) -> Uptake {
        self.uptake.clone()
    }

    /// The server's process id, which is also its process group's.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Transport for StdioTransport {
    type Sender = StdioSender;
    type Receiver = StdioReceiver;

    fn split(self) -> (StdioSender, StdioReceiver) {
        (self.sender, self.receiver)
    }
}

/// The half that writes to the server's stdin, and that ends the server.
pub struct StdioSender {
    stdin: ChildStdin,
    process: Process,
    stderr: StderrLog,
    text: Vec<u8>,
    uptake: Uptake,
    grown: bool,
}

impl SendHalf for StdioSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        self.text.clear();
        for message in batch.drain(..) {
            let from = self.text.len();
            self.uptake.sending(&message, from);
            message.encode(&mut self.text);
            end_line(&mut self.text, from);
        }
        if !self.grown && self.text.len() >= LARGE {
            self.grown = true;
            grow_pipe(&self.stdin);
        }
        let written = self.stdin.write_all(&self.text).await;
        let length = self.text.len();
        if self.text.capacity() > LARGE_PIPE {
            self.text = Vec::new();
        }
        match written {
            Ok(()) => {
                self.uptake.sent(length);
                Ok(())
            }
            // If it died, the receiving half finds out how and says it better: give it the time to.
            Err(error) => {
                if tokio::time::timeout(DRAIN, self.process.died())
                    .await
                    .is_ok()
                {
                    tokio::time::sleep(2 * DRAIN).await;
                }
                let reason = CloseReason::Io(format!("writing to its stdin failed: {error}"));
                Err(Closed::with_stderr(reason, self.stderr.relevant_lines()))
            }
        }
    }

    async fn close(self) {
        self.uptake.measure(&self.stdin);
        drop(self.stdin);
        self.process.shut_down().await;
    }
}

/// The half that reads the server's stdout.
pub struct StdioReceiver {
    stdout: ChildStdout,
    lines: LineDecoder,
    exit: Exit,
    stderr: StderrLog,
    grown: bool,
    /// Set once the child is dead: when to stop waiting for what it wrote before.
    drain_until: Option<Instant>,
    /// About how long the latest message was, so that the next like it is read in one go.
    usual: usize,
}

impl ReceiveHalf for StdioReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        loop {
            if let Some(incoming) = self.next_line() {
                return Ok(incoming);
            }
            // Looked at here too: the select below never gets to it while there is always more to read.
            if self.drain_until.is_none() && self.exit.has_happened() {
                self.drain_until = Some(Instant::now() + DRAIN);
            }
            let read = match self.drain_until {
                None => tokio::select! {
                    biased;
                    read = read_some(&mut self.stdout, self.lines.buffer(), self.usual) => read,
                    _ = self.exit.status() => continue,
                },
                // Dead, and yet its stdout is open: a grandchild holds it, and may go on talking for ever.
                Some(until) => {
                    let read = read_some(&mut self.stdout, self.lines.buffer(), self.usual);
                    tokio::time::timeout_at(until, read).await.unwrap_or(Ok(0))
                }
            };
            let read = match self.drain_until {
                Some(until) if Instant::now() >= until => Ok(0),
                _ => read,
            };
            match read {
                // Whole lines may have come in with the last bytes.
                Ok(0) => match self.lines.next_line().or_else(|| self.lines.last_line()) {
                    Some(incoming) => return Ok(incoming),
                    None => return Err(self.ended().await),
                },
                Ok(bytes) => {
                    if !self.grown && bytes >= LARGE {
                        self.grown = true;
                        grow_pipe(&self.stdout);
                    }
                    return Ok(self.next_line().unwrap_or(Incoming::Partial { bytes }));
                }
                Err(error) => {
                    let reason = CloseReason::Io(format!("reading its stdout failed: {error}"));
                    return Err(Closed::with_stderr(reason, self.stderr.relevant_lines()));
                }
            }
        }
    }
}

impl StdioReceiver {
    fn next_line(&mut self) -> Option<Incoming> {
        let incoming = self.lines.next_line()?;
        if let Incoming::Frame(frame) = &incoming {
            self.usual = (frame.len() + 1).min(LARGE_PIPE);
        }
        Some(incoming)
    }

    /// Why stdout ended, with the child's last words.
    async fn ended(&mut self) -> Closed {
        let exited = tokio::time::timeout(DRAIN, self.exit.status()).await;
        let reason = match exited {
            Ok(status) => status.clone(),
            Err(_) => {
                CloseReason::Io("the server closed its stdout but is still running".to_owned())
            }
        };
        self.stderr.ended(DRAIN).await;
        Closed::with_stderr(reason, self.stderr.relevant_lines())
    }
}

async fn read_some(
    stdout: &mut ChildStdout,
    buffer: &mut BytesMut,
    usual: usize,
) -> std::io::Result<usize> {
    // Room for what usually comes, and for no more than can come at once; for a longer message it doubles by itself.
    let room = buffer.len().clamp(READ_BYTES.max(usual), LARGE_PIPE);
    buffer.reserve(room);
    stdout.read_buf(buffer).await
}

/// Makes room for a large message in one go. It may be refused; then it takes more turns.
#[cfg(target_os = "linux")]
fn grow_pipe(pipe: impl std::os::fd::AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE);
}

#[cfg(not(target_os = "linux"))]
fn grow_pipe<T>(_: T) {}
