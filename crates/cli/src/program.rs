//! Programs that are started for the user: the browser, the pager, the editor, package managers.

use std::ffi::OsStr;
use std::process::Command;

use trunkline_config::env_vars;

/// Returns a command that does not inherit our own secrets (SEC-1).
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in env_vars::secrets() {
        command.env_remove(name);
    }
    command
}
