//! What to start, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::process::Process;
use super::{StderrLog, StdioReceiver, StdioSender, StdioTransport, Tee, Uptake};
use crate::MAX_MESSAGE_BYTES;
use crate::lines::LineDecoder;

/// A server to start: an argv, never a shell line (SEC-2).
#[derive(Clone, Default)]
pub struct StdioServer {
    /// The program, looked up in `PATH` unless it has a slash.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables on top of those we have ourselves.
    pub env: BTreeMap<String, String>,
    /// Variables of ours that it does not inherit.
    pub withheld: Vec<String>,
    /// Where it runs; by default where we run.
    pub cwd: Option<PathBuf>,
    /// Who gets what it writes to stderr, besides its being kept.
    pub tee: Option<Tee>,
}

/// Never shows the values of `env`: they may be secrets (SEC-1).
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

/// Why a server could not be started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("command not found: {0}")]
    NotFound(String),
    /// There is such a file, but it may not be executed.
    #[error("not executable: {0}")]
    NotExecutable(String),
    /// The working directory is not there.
    #[error("its working directory does not exist: {}", .0.display())]
    NoDirectory(PathBuf),
    /// Anything else.
    #[error("{command} could not be started: {error}")]
    Other {
        /// The program.
        command: String,
        /// What the system said.
        error: String,
    },
}

impl StdioServer {
    /// Starts the server, in a process group of its own. Must be called on a Tokio runtime.
    pub fn spawn(&self) -> Result<StdioTransport, SpawnError> {
        let mut command = Command::new(&self.command);
        for name in &self.withheld {
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
        let (process, exit) = Process::watch(child);
        let stderr = StderrLog::start(stderr, process.life(), self.tee.clone());
        let uptake = Uptake::default();
        Ok(StdioTransport {
            sender: StdioSender {
                stdin,
                process,
                stderr: stderr.clone(),
                text: Vec::new(),
                uptake: uptake.clone(),
                grown: false,
            },
            receiver: StdioReceiver {
                stdout,
                lines: LineDecoder::new(MAX_MESSAGE_BYTES),
                exit,
                stderr: stderr.clone(),
                grown: false,
                drain_until: None,
                usual: 0,
            },
            stderr,
            uptake,
            pid,
        })
    }

    /// The system says "not found" for a missing directory and a missing interpreter as well; tell them apart.
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
