//! Starts a server in its sandbox, if it has one (SEC-5).

use std::path::Path;

use trunkline_config::{ServerEntry, StdioEntry, env_vars};
use trunkline_sandbox::{LAUNCHER_ARG, Launch};
use trunkline_transport::StdioServer;
use trunkline_transport::stdio::SpawnError;

use super::Core;

/// The server of an entry. An entry that asks for a sandbox is never started without.
pub(super) fn stdio_server(
    core: &Core,
    entry: &ServerEntry,
    stdio: &StdioEntry,
) -> Result<StdioServer, SpawnError> {
    let free = super::stdio_server(core, entry, stdio);
    let setup = &core.shared.sandbox;
    let project = core.shared.settings.project_dir.as_deref();
    let rules = setup.rules(entry, project).map_err(SpawnError::Sandbox)?;
    let Some(rules) = rules else {
        return Ok(free);
    };
    if !cfg!(target_os = "linux") {
        let reason = "sandboxes exist on Linux only; remove \"sandbox\" from its entry to run it \
                      without";
        return Err(SpawnError::Sandbox(reason.to_owned()));
    }
    let Some(launcher) = setup.launcher.as_deref().and_then(Path::to_str) else {
        let reason = "this program names no launcher (HostBuilder::sandbox_launcher)";
        return Err(SpawnError::Sandbox(reason.to_owned()));
    };
    let is_withheld = |name: &str| env_vars::secrets().any(|secret| secret == name);
    let inherited = |name: &str| {
        let value = std::env::var(name).ok();
        value.filter(|_| !is_withheld(name))
    };
    let mut launch = Launch::new(rules, free.command, free.args, free.env, inherited);
    launch.cwd_optional = stdio.cwd.is_none();
    launch.cwd = free.cwd.or_else(|| std::env::current_dir().ok());
    Ok(StdioServer {
        command: launcher.to_owned(),
        args: vec![LAUNCHER_ARG.to_owned()],
        env: launch.to_variables().into_iter().collect(),
        env_clear: true,
        env_remove: Vec::new(),
        cwd: None,
        tee: free.tee,
    })
}
