//! Starts the daemon in the background.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trunkline_gateway::daemon::request_status;
use trunkline_gateway::socket::SocketPlace;

use super::RunOptions;
use crate::exit::Exit;
use crate::output;
use crate::session;

/// How long the daemon may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A log that is longer is put aside when the daemon starts.
const MAX_LOG_BYTES: u64 = 4 << 20;

/// Whether a running daemon is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Alone,
    TakeOver,
}

/// Starts the daemon and waits until it answers. Returns its process. An `Err` has been reported.
pub(super) async fn start(
    place: &SocketPlace,
    options: &RunOptions,
    start: Start,
) -> Result<u32, Exit> {
    let failed = |error: &dyn std::fmt::Display| {
        output::error(&format!("could not start the daemon: {error}"), None);
        Exit::Failed
    };
    let mut child = spawn(options, start).map_err(|error| failed(&error))?;
    let latest = Instant::now() + START_TIMEOUT;
    loop {
        if let Ok(status) = request_status(place).await
            && status["pid"] == child.id()
        {
            return Ok(child.id());
        }
        if let Ok(Some(status)) = child.try_wait() {
            // Another one may have been faster.
            if start == Start::Alone
                && let Ok(running) = request_status(place).await
                && let Some(pid) = running["pid"].as_u64().and_then(|pid| pid.try_into().ok())
            {
                return Ok(pid);
            }
            let lines = super::logs::last_lines(5);
            output::error(
                &format!("the daemon ended at once: {status}"),
                Some("see `trunkline daemon logs`"),
            );
            output::stderr_lines("daemon", &lines);
            return Err(Exit::Failed);
        }
        if Instant::now() >= latest {
            let _ = child.kill();
            return Err(failed(&"it does not answer; see `trunkline daemon logs`"));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn spawn(options: &RunOptions, start: Start) -> io::Result<Child> {
    let log = open_log()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["-v", "daemon", "run"]).args(options.words());
    if start == Start::TakeOver {
        command.arg("--take-over");
    }
    command
        // Whatever directory it was started in can be removed or unmounted.
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Returns the log of the daemon; `None` without a home directory.
pub(super) fn log_file() -> Option<PathBuf> {
    Some(session::state_dir()?.join("daemon.log"))
}

fn open_log() -> io::Result<File> {
    let path = log_file().ok_or_else(|| io::Error::other("there is no home directory"))?;
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    if fs::metadata(&path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        fs::rename(&path, path.with_extension("log.1"))?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
