//! Checks stored catalogs in the background, after a command has answered from them (UI-6).
//!
//! The command starts this program once more and exits. The check connects to the servers whose
//! catalogs are old, stores what they list, and ends: within [`LIMIT`] and a bounded shutdown. One
//! check runs at a time, and none starts within [`PAUSE`] of the last. Only commands on a terminal
//! start one: scripts get no processes that they did not ask for.

use std::ffi::OsString;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use trunkline::Host;
use trunkline::server::{ServerStatus, State};
use trunkline_config::env_vars;

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output;
use crate::session::{self, Configured};

/// The hidden command that checks catalogs.
pub(crate) const COMMAND: &str = "check-catalogs";

/// How long the servers may take to answer.
const LIMIT: Duration = Duration::from_secs(30);

/// Catalogs younger than this are not checked, and two checks are this far apart.
const PAUSE: Duration = Duration::from_mins(10);

/// What a command needs to start a check.
pub(crate) struct Checker {
    /// The options that select the same servers; `None` if nothing may be checked.
    options: Option<Vec<OsString>>,
    /// The servers that may be started without being asked for.
    eager: Vec<String>,
}

impl Checker {
    pub(crate) fn of(configured: &Configured) -> Self {
        let is_lazy = |server: &trunkline_config::Server| server.entry.lazy == Some(true);
        let servers = configured.set.servers.iter();
        Self {
            options: configured.options_of_check(),
            eager: servers
                .filter(|server| server.status.may_run() && !is_lazy(server))
                .map(|server| server.entry.name.clone())
                .collect(),
        }
    }

    /// Starts a check of old catalogs that were shown. Returns whether one runs now.
    pub(crate) fn start(&self, host: &Host) -> bool {
        let Some(options) = &self.options else {
            return false;
        };
        let now = SystemTime::now();
        let servers = host.servers();
        let old: Vec<&str> = servers
            .iter()
            .filter(|server| is_old(server, now))
            .map(|server| &*server.name)
            .filter(|name| self.eager.iter().any(|eager| eager == name))
            .collect();
        if old.is_empty() || !is_wanted() || !is_due(now) {
            return false;
        }
        let Ok(program) = std::env::current_exe() else {
            return false;
        };
        let mut command = Command::new(program);
        command.args(options);
        for name in old {
            // One word, because a name may begin with a dash.
            command.arg(format!("--mcp-server={name}"));
        }
        command
            .arg(COMMAND)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Ctrl-C in the terminal is meant for the next command.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().is_ok()
    }
}

/// Returns whether the catalog of a server was shown and is old.
fn is_old(server: &ServerStatus, now: SystemTime) -> bool {
    let is_stored = matches!(server.state, State::Pending { attempt: 0, .. });
    let stored = server.catalog.cached_at.filter(|_| is_stored);
    stored.is_some_and(|stored| is_past(stored, now))
}

/// Returns whether the pause after a time is over. A time in the future is not trusted.
fn is_past(time: SystemTime, now: SystemTime) -> bool {
    now.duration_since(time).is_ok_and(|age| age >= PAUSE)
}

/// Returns whether the user is there, and did not switch checks off.
fn is_wanted() -> bool {
    let off = std::env::var(env_vars::TRUNKLINE_BACKGROUND_CHECK);
    let is_off = off.is_ok_and(|value| matches!(value.trim(), "0" | "false" | "off" | "no"));
    output::on_terminal() && !output::is_json() && !output::is_ci() && !is_off
}

/// Returns whether no check has started lately.
fn is_due(now: SystemTime) -> bool {
    let Some(path) = session::state_dir().map(|dir| dir.join(FILE)) else {
        return false;
    };
    match path.metadata().and_then(|found| found.modified()) {
        Ok(last) => is_past(last, now),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The file that a check locks; its time is that of the last check.
const FILE: &str = "catalog-check.lock";

/// Checks the catalogs of the servers that the options select.
pub(crate) async fn run(config: &ConfigArgs) -> Exit {
    let now = SystemTime::now();
    // Held until the process ends.
    let Some(_lock) = lock(now) else {
        return Exit::Done;
    };
    let builder = match session::configuration(config) {
        Ok(configured) => configured.host_with_daemon().lazy(false),
        Err(exit) => return exit,
    };
    session::with_host(builder, |host| async move {
        let _ = tokio::time::timeout(LIMIT, host.ready()).await;
        Exit::Done
    })
    .await
}

/// Locks the file; `None` if another process checks, or did so just now.
fn lock(now: SystemTime) -> Option<File> {
    let path = session::state_dir()?.join(FILE);
    let _ = std::fs::create_dir_all(path.parent()?);
    let is_new = !path.exists();
    let file = File::options().create(true).append(true).open(path).ok()?;
    file.try_lock().ok()?;
    let last = file.metadata().and_then(|found| found.modified()).ok()?;
    if !is_new && !is_past(last, now) {
        return None;
    }
    file.set_modified(now).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_after_the_pause() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert!(!is_past(now, now));
        assert!(!is_past(now - PAUSE + Duration::from_secs(1), now));
        assert!(is_past(now - PAUSE, now));
        assert!(!is_past(now + PAUSE, now));
    }
}
