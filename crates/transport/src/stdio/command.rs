//! The command of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::process::ProcessHandle;
use super::{StderrLog, Stdin, StdinProgress, StdioReceiver, StdioSender, StdioTransport, Tee};
use crate::MAX_MESSAGE_BYTES;
use crate::lines::LineDecoder;

/// A server to start: an argv, never a shell command (SEC-2).
#[derive(Clone, Default)]
pub struct StdioServer {
    /// The program, looked up in `PATH` unless it has a slash.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to add to those of this process.
    pub env: BTreeMap<String, String>,
    /// Variables of this process that it does not inherit.
    pub env_remove: Vec<String>,
    /// Whether it inherits none of the variables of this process.
    pub env_clear: bool,
    /// Its working directory; by default that of this process.
    pub cwd: Option<PathBuf>,
    /// A callback for its stderr, in addition to the log.
    pub tee: Option<Tee>,
}

/// Does not show the values of `env`: they may be secrets (SEC-1).
impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// An error of starting a server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist.
    #[error("command not found: {0}")]
    NotFound(String),
    /// The file is not executable.
    #[error("not executable: {0}")]
    NotExecutable(String),
    /// The working directory does not exist.
    #[error("its working directory does not exist: {}", .0.display())]
    NoDirectory(PathBuf),
    /// Its sandbox cannot be set up (SEC-5).
    #[error("it cannot be started in its sandbox: {0}")]
    Sandbox(String),
    /// Any other error.
    #[error("{command} could not be started: {error}")]
    Other {
        /// The program.
        command: String,
        /// The system's error.
        error: String,
    },
}

impl StdioServer {
    /// Starts the server in its own process group. Must be called on a Tokio runtime.
    pub fn spawn(&self) -> Result<StdioTransport, SpawnError> {
        let mut command = Command::new(&self.command);
        if self.env_clear {
            command.env_clear();
        }
        for name in &self.env_remove {
            command.env_remove(name);
        }
        command
            .args(&self.args)
            .envs(&self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(|error| self.explain(&error))?;
        let pid = child.id().unwrap_or_default();
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(self.other("its pipes are missing"));
        };
        let (process, exit) = ProcessHandle::watch(child);
        let stderr = StderrLog::start(stderr, process.state(), self.tee.clone());
        let stdin_progress = StdinProgress::of(&stdin);
        Ok(StdioTransport {
            sender: StdioSender {
                stdin: Stdin {
                    pipe: stdin,
                    progress: stdin_progress.clone(),
                },
                process,
                stderr: stderr.clone(),
                buffer: Vec::new(),
                pipe_grown: false,
            },
            receiver: StdioReceiver {
                stdout,
                lines: LineDecoder::new(MAX_MESSAGE_BYTES),
                exit,
                stderr: stderr.clone(),
                pipe_grown: false,
                drain_until: None,
                typical_size: 0,
            },
            stderr,
            stdin_progress,
            pid,
        })
    }

    /// Distinguishes a missing directory and a missing interpreter from a missing command.
    fn explain(&self, error: &std::io::Error) -> SpawnError {
        match (&self.cwd, error.kind()) {
            (Some(cwd), _) if !cwd.is_dir() => SpawnError::NoDirectory(cwd.clone()),
            (_, std::io::ErrorKind::NotFound)
                if self.command.contains('/') && PathBuf::from(&self.command).exists() =>
            {
                self.other("the interpreter named in its first line is missing")
            }
            (_, std::io::ErrorKind::NotFound) => SpawnError::NotFound(self.command.clone()),
            (_, std::io::ErrorKind::PermissionDenied) if PathBuf::from(&self.command).is_dir() => {
                self.other("it is a directory")
            }
            (_, std::io::ErrorKind::PermissionDenied) => {
                SpawnError::NotExecutable(self.command.clone())
            }
            _ => self.other(&error.to_string()),
        }
    }

    fn other(&self, error: &str) -> SpawnError {
        SpawnError::Other {
            command: self.command.clone(),
            error: error.to_owned(),
        }
    }
}
