//! Servers as child processes, one JSON message per line (TRN-1, stdio).
//!
//! The sending half owns the child's stdin and ends the child. The receiving half owns its stdout
//! and reports its exit. The supervisor in `process` owns the process itself: even if both halves
//! hang or are gone, it kills and reaps the child and its process group.

mod command;
pub mod proc_fs;
mod process;
mod relevant;
mod stderr;
mod stdin_progress;

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

pub use command::{SpawnError, StdioServer};
use process::{ExitWatch, ProcessHandle};
pub use process::{INTERRUPT_GRACE, KILL_GRACE, STDIN_GRACE, TERMINATE_GRACE};
pub use stderr::{STDERR_CAP, StderrLog, Tee};
pub use stdin_progress::StdinProgress;

use crate::lines::{LineDecoder, end_line};

/// Initial read size; the buffer grows with the messages.
const READ_BYTES: usize = 8 * 1024;

/// Messages at least this long get a larger pipe, to avoid several round trips through the default
/// of 64 KiB. Not earlier: the kernel limits the pipe memory of each user.
const LARGE: usize = 32 * 1024;
const LARGE_PIPE: usize = 1024 * 1024;

/// How long output is still read after the child has exited.
const DRAIN: Duration = Duration::from_millis(200);

/// A running server.
pub struct StdioTransport {
    sender: StdioSender,
    receiver: StdioReceiver,
    stderr: StderrLog,
    stdin_progress: StdinProgress,
    pid: u32,
}

impl StdioTransport {
    /// The server's stderr; readable after its exit.
    pub fn stderr(&self) -> StderrLog {
        self.stderr.clone()
    }

    /// How much of its stdin the server has read; known after its exit.
    pub fn stdin_progress(&self) -> StdinProgress {
        self.stdin_progress.clone()
    }

    /// The process id, which is also the process group id.
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

/// The server's stdin. Dropping it closes the pipe.
struct Stdin {
    pipe: ChildStdin,
    progress: StdinProgress,
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.progress.record_unread(&self.pipe);
        self.progress.release();
    }
}

/// The sending half: writes to the server's stdin and ends the server.
pub struct StdioSender {
    stdin: Stdin,
    process: ProcessHandle,
    stderr: StderrLog,
    buffer: Vec<u8>,
    pipe_grown: bool,
}

impl SendHalf for StdioSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        self.buffer.clear();
        for message in batch.drain(..) {
            let from = self.buffer.len();
            self.stdin.progress.record_message(&message, from);
            message.encode(&mut self.buffer);
            end_line(&mut self.buffer, from);
        }
        if !self.pipe_grown && self.buffer.len() >= LARGE {
            self.pipe_grown = true;
            grow_pipe(&self.stdin.pipe);
        }
        let written = self.stdin.pipe.write_all(&self.buffer).await;
        let length = self.buffer.len();
        if self.buffer.capacity() > LARGE_PIPE {
            self.buffer = Vec::new();
        }
        match written {
            Ok(()) => {
                self.stdin.progress.record_written(length);
                Ok(())
            }
            // If the server has exited, the receiving half reports it better: give it the time.
            Err(error) => {
                if tokio::time::timeout(DRAIN, self.process.exited())
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
        drop(self.stdin);
        self.process.shut_down().await;
    }
}

/// The receiving half: reads the server's stdout.
pub struct StdioReceiver {
    stdout: ChildStdout,
    lines: LineDecoder,
    exit: ExitWatch,
    stderr: StderrLog,
    pipe_grown: bool,
    /// Set once the child has exited: the deadline for its remaining output.
    drain_until: Option<Instant>,
    /// The size of the latest message, so that the next is read at once.
    typical_size: usize,
}

impl ReceiveHalf for StdioReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        loop {
            if let Some(incoming) = self.next_line() {
                return Ok(incoming);
            }
            // Checked here too: the select below never gets to it while there is more to read.
            if self.drain_until.is_none() && self.exit.has_exited() {
                self.drain_until = Some(Instant::now() + DRAIN);
            }
            let read = match self.drain_until {
                None => tokio::select! {
                    biased;
                    read = read_some(&mut self.stdout, self.lines.buffer(), self.typical_size) => read,
                    _ = self.exit.status() => continue,
                },
                // The child has exited but stdout is open: a grandchild holds it and may write
                // forever.
                Some(until) => {
                    let read = read_some(&mut self.stdout, self.lines.buffer(), self.typical_size);
                    tokio::time::timeout_at(until, read).await.unwrap_or(Ok(0))
                }
            };
            let read = match self.drain_until {
                Some(until) if Instant::now() >= until => Ok(0),
                _ => read,
            };
            match read {
                // The last bytes may contain complete lines.
                Ok(0) => match self.lines.next_line().or_else(|| self.lines.last_line()) {
                    Some(incoming) => return Ok(incoming),
                    None => return Err(self.ended().await),
                },
                Ok(bytes) => {
                    if !self.pipe_grown && bytes >= LARGE {
                        self.pipe_grown = true;
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
            self.typical_size = (frame.len() + 1).min(LARGE_PIPE);
        }
        Some(incoming)
    }

    /// The reason for the end of stdout, with the relevant stderr.
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
    typical_size: usize,
) -> std::io::Result<usize> {
    // Room for a typical message; for a longer one it doubles.
    let room = buffer.len().clamp(READ_BYTES.max(typical_size), LARGE_PIPE);
    buffer.reserve(room);
    stdout.read_buf(buffer).await
}

/// Enlarges the pipe. The kernel may refuse; then a message takes more round trips.
#[cfg(target_os = "linux")]
fn grow_pipe(pipe: impl std::os::fd::AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE);
}

#[cfg(not(target_os = "linux"))]
fn grow_pipe<T>(_: T) {}
