//! The host that a command works with, from configuration to a clean end.

use std::future::Future;
use std::io::IsTerminal;

use etcetera::BaseStrategy;
use trunkline::{EraMemory, Host, HostBuilder, ServerEntry, Settings, State};
use trunkline_config::{Diagnostic, load_dynamic};

use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, StatusLine};

/// What the configuration says.
pub(crate) struct Configured {
    pub(crate) servers: Vec<ServerEntry>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Reads what `--mcp-config` names; an `Err` has been explained to the user.
pub(crate) fn configuration(mcp_config: &[String]) -> Result<Configured, Exit> {
    if mcp_config.is_empty() {
        output::error(
            "no servers are configured",
            Some("name a file with --mcp-config FILE, or see it all at work with `trunkline demo`"),
        );
        return Err(Exit::Usage);
    }
    let loaded = load_dynamic(mcp_config);
    if loaded.servers.is_empty() {
        for diagnostic in &loaded.diagnostics {
            output::error(&diagnostic.to_string(), None);
        }
        if !loaded.diagnostics.is_empty() {
            return Err(Exit::Usage);
        }
    }
    Ok(Configured {
        servers: loaded.servers,
        diagnostics: loaded.diagnostics,
    })
}

/// A host with the settings that every command uses.
pub(crate) fn builder() -> HostBuilder {
    let mut builder = Host::builder().settings(Settings::from_env());
    if let Ok(dir) = std::env::current_dir() {
        builder = builder.project_dir(dir);
    }
    // Without a home there is nowhere to remember anything, and nothing is lost but a little time.
    if let Ok(base) = etcetera::choose_base_strategy() {
        builder = builder.eras(EraMemory::at(
            base.cache_dir().join("trunkline").join("eras.json"),
        ));
    }
    builder
}

/// Runs `work` with the host and takes the host down afterwards, whether it finished or was interrupted.
pub(crate) async fn with_host<F: Future<Output = Exit>>(
    builder: HostBuilder,
    work: impl FnOnce(Host) -> F,
) -> Exit {
    let host = builder.start();
    let exit = tokio::select! {
        exit = work(host.clone()) => exit,
        () = interrupted() => Exit::Interrupted,
    };
    tokio::select! {
        () = host.shutdown() => {}
        // Asked twice: what is left of the servers is killed as the runtime goes down.
        () = interrupted() => {}
    }
    exit
}

/// Waits until all servers are ready, telling a person at a terminal how far it has come.
pub(crate) async fn ready(host: &Host) {
    if !std::io::stderr().is_terminal() {
        host.ready().await;
        return;
    }
    let mut line = StatusLine::new();
    let mut events = host.events();
    let show = async {
        loop {
            let servers = host.servers();
            let waiting: Vec<_> = servers
                .iter()
                .filter(|server| matches!(server.state, State::Pending { .. }))
                .map(|server| &*server.name)
                .collect();
            line.show(&format!(
                "connecting ({} of {}): {}",
                servers.len() - waiting.len(),
                servers.len(),
                waiting.join(", ")
            ));
            events.next().await;
        }
    };
    tokio::select! {
        () = host.ready() => {}
        () = show => {}
    }
}
