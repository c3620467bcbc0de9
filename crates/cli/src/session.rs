//! The host that a command works with, from configuration to a clean end.

use std::future::Future;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use trunkline::connectors::ClaudeAi;
use trunkline::log::{LogStore, Tracer};
use trunkline::result::Results;
use trunkline::server::{ServerStatus, State};
use trunkline::storage::{CatalogStore, EraMemory, PinStore};
use trunkline::tool::{LoadMode, OnChange};
use trunkline::{Host, HostBuilder, Settings};
use trunkline_config::{
    CONNECTOR_PREFIX, Diagnostic, Editor, Layout, Loader, Server, ServerSet, Severity, env_vars,
};

use crate::args::ConfigArgs;
use crate::commands::tools::{NO_SERVERS, unknown_server};
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, StatusLine};
use crate::permit::Typed;
use crate::running;

/// What the configuration says, and how it was read.
pub(crate) struct Configured {
    pub(crate) loader: Loader,
    pub(crate) set: ServerSet,
    /// The servers that --mcp-server names; none is all.
    only: Vec<String>,
    lazy: bool,
    no_cache: bool,
    tracer: Option<Tracer>,
}

impl Configured {
    /// The problems that a command tells beside its own work.
    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.set.diagnostics
    }

    /// The same with only the servers that --mcp-server names; an `Err` has been explained to the user.
    fn with_wanted_only(mut self) -> Result<Self, Exit> {
        for name in &self.only {
            // Connectors are in no file.
            let connector = name.starts_with(CONNECTOR_PREFIX);
            if !connector && self.foremost(name).is_none() {
                return Err(self.unknown(name));
            }
        }
        let only = &self.only;
        let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
        self.set.servers.retain(|server| wanted(&server.entry.name));
        let about = |problem: &Diagnostic| problem.server.as_deref().is_none_or(wanted);
        self.set.diagnostics.retain(about);
        Ok(self)
    }

    /// Why there are no servers, where that is not for want of configured ones.
    pub(crate) fn left_out(&self) -> Option<&'static str> {
        let is_strict = !self.loader.wants_connectors() && self.set.exclusive.is_none();
        is_strict.then_some(
            "--strict-mcp-config leaves out all configured servers, and --mcp-config names none",
        )
    }

    /// Changes to the same configuration.
    pub(crate) fn editor(&self) -> Editor {
        let cwd = self.loader.project().cwd.clone();
        Editor::new(self.loader.layout().clone(), cwd)
    }

    /// The names of all servers, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .set
            .servers
            .iter()
            .map(|server| server.entry.name.as_str())
            .collect();
        names.dedup();
        names
    }

    /// The entry that counts for a name: the one that runs, or else the strongest that does not.
    pub(crate) fn foremost(&self, name: &str) -> Option<&Server> {
        let runs = |server: &&Server| server.standing.may_run();
        let named = || self.set.named(name);
        named().find(runs).or_else(|| named().next())
    }

    /// Explains that there is no such server: it may be misspelt, or in a file that cannot be read.
    pub(crate) fn unknown(&self, name: &str) -> Exit {
        let none = self.left_out().unwrap_or(NO_SERVERS);
        self.unknown_among(name, &self.names(), none)
    }

    /// The same, where only some servers can be meant; `none` says that there are none.
    pub(crate) fn unknown_among(&self, name: &str, names: &[&str], none: &str) -> Exit {
        let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
        if let Some(problem) = self.set.about(name).find(is_error) {
            let what = format!("the server \"{name}\" cannot be used: {}", problem.message);
            let hint = format!("mend its entry in {}", problem.place());
            output::error(&what, Some(&hint));
            return Exit::Usage;
        }
        self.warn_about(|about| about == name);
        if let Some(file) = &self.set.exclusive {
            output::error(
                &format!(
                    "there is no server \"{name}\" in the enterprise configuration, which has exclusive control ({})",
                    file.display()
                ),
                None,
            );
            return Exit::Usage;
        }
        unknown_server(name, names.iter().copied(), none)
    }

    /// Tells what is wrong with the files, whichever server it is about.
    pub(crate) fn warn(&self) {
        for problem in self.diagnostics() {
            output::warning(&problem.to_string());
        }
    }

    /// Tells what is wrong with the files as a whole, and with the entries of these servers.
    pub(crate) fn warn_about(&self, wanted: impl Fn(&str) -> bool) {
        let about = |problem: &&Diagnostic| problem.server.as_deref().is_none_or(&wanted);
        for problem in self.diagnostics().iter().filter(about) {
            output::warning(&problem.to_string());
        }
    }

    /// A host with these servers.
    pub(crate) fn host(self) -> HostBuilder {
        running::announce();
        let mut builder = builder(Some(self.loader.layout()));
        if let (false, Some(cache)) = (self.no_cache, cache_dir()) {
            builder = builder
                .catalogs(CatalogStore::at(cache.join("catalogs")))
                .eras(EraMemory::at(cache.join("eras.json")));
        }
        if self.lazy {
            builder = builder.lazy(true);
        }
        if let Some(logs) = logs() {
            builder = builder.logs(logs);
        }
        if let Some(tracer) = self.tracer {
            builder = builder.trace(tracer);
        }
        if !self.only.is_empty() {
            let only = self.only;
            builder = builder.only(move |name| only.iter().any(|only| only == name));
        }
        builder.loaded(self.loader, self.set)
    }
}

/// Who lists the connectors of the account that is signed in to, if one is.
pub(crate) fn connectors(layout: &Layout) -> Option<ClaudeAi> {
    ClaudeAi::from_env(&layout.credentials_file())
}

/// The working directory. One that is gone has no name and no parents: then nothing of a project counts, and nothing is
/// written for one.
pub(crate) fn cwd() -> Result<PathBuf, Exit> {
    std::env::current_dir().map_err(|error| {
        output::error(
            &format!("the working directory cannot be used: {error}"),
            Some("go to a directory that exists"),
        );
        Exit::Usage
    })
}

/// Where everything is. Without a home there are no files of the user's.
pub(crate) fn layout() -> Layout {
    Layout::from_env().unwrap_or_else(|| Layout::under("/dev/null"))
}

/// Reads the configuration; an `Err` has been explained to the user.
pub(crate) fn configuration(config: &ConfigArgs) -> Result<Configured, Exit> {
    let cwd = cwd()?;
    let loader = Loader::new(layout(), &cwd)
        .mcp_config(config.mcp_config.iter().cloned())
        .strict(config.strict_mcp_config)
        .plugin_dirs(config.plugin_dir.iter().map(|dir| cwd.join(dir)))
        .approve_project(config.approve_project);
    let mut set = loader.load(&[]);
    set.bind_approvals(&loader);
    for named in &config.mcp_config {
        let is_json = named.trim_start().starts_with(['{', '[']);
        if !is_json && !named.is_empty() && !cwd.join(named).exists() {
            output::error(&format!("--mcp-config: there is no file \"{named}\""), None);
            return Err(Exit::Usage);
        }
    }
    // What was asked for by name must be there; what merely lies about need not.
    let unusable = unusable_configs(&set, &config.mcp_config);
    for problem in &unusable {
        output::error(&problem.to_string(), None);
    }
    if !unusable.is_empty() {
        return Err(Exit::Usage);
    }
    let configured = Configured {
        loader,
        set,
        only: config.mcp_server.clone(),
        lazy: config.lazy,
        no_cache: config.no_cache,
        tracer: tracer(config)?,
    };
    configured.with_wanted_only()
}

/// Why what --mcp-config names cannot be used. A bad entry costs only itself, unless there is no
/// other.
fn unusable_configs<'s>(set: &'s ServerSet, named: &[String]) -> Vec<&'s Diagnostic> {
    let is_unusable = |problem: &&Diagnostic| {
        let source = problem.source.as_str();
        let has_servers = || {
            set.servers
                .iter()
                .any(|server| server.entry.source == source)
        };
        let is_whole = problem.server.is_none()
            && (source == "--mcp-config" || named.iter().any(|name| name == source))
            && !has_servers();
        problem.severity == Severity::Error && (is_whole || set.servers.is_empty())
    };
    if named.is_empty() {
        return Vec::new();
    }
    set.diagnostics.iter().filter(is_unusable).collect()
}

/// A host with the settings that every command uses.
pub(crate) fn builder(layout: Option<&Layout>) -> HostBuilder {
    let mut builder = Host::builder()
        .settings(Settings::from_env())
        .results(results())
        .permit(Typed::default());
    if let Ok(name) = std::env::var(env_vars::TRUNKLINE_CHANGED_TOOLS) {
        match OnChange::named(&name) {
            Some(on_change) => builder = builder.on_change(on_change),
            None => output::warning(&format!(
                "{} is \"{name}\", not warn, ask or block; ask it is",
                env_vars::TRUNKLINE_CHANGED_TOOLS
            )),
        }
    }
    warn_of_variables();
    if let Some(state) = state_dir() {
        builder = builder.pins(PinStore::at(state.join("pins")));
    }
    if let Ok(dir) = std::env::current_dir() {
        builder = builder.project_dir(dir);
    }
    if let Some(layout) = layout {
        builder = builder.secrets(vault(layout));
    }
    builder
}

/// Tells of variables that are set to what means nothing.
fn warn_of_variables() {
    let is_number = |value: &str| value.trim().parse::<u64>().is_ok_and(|number| number > 0);
    let is_mode = |value: &str| LoadMode::read(value).is_some();
    let warn = |name: &str, means: &dyn Fn(&str) -> bool, expected: &str| {
        if let Some(value) = std::env::var(name).ok().filter(|value| !means(value)) {
            output::warning(&format!(
                "{name} is \"{value}\", not {expected}; it does not count"
            ));
        }
    };
    let (tokens, search) = (
        env_vars::MAX_MCP_OUTPUT_TOKENS,
        env_vars::ENABLE_TOOL_SEARCH,
    );
    warn(tokens, &is_number, "a number above 0");
    warn(search, &is_mode, "true, false, auto or auto:N");
}

/// A directory above this one for which servers are configured, where there are none for this one.
pub(crate) fn project_above(layout: &Layout, cwd: &Path) -> Option<String> {
    let text = std::fs::read_to_string(&layout.global_file).ok()?;
    let global: serde_json::Value = serde_json::from_str(&text).ok()?;
    let has_servers = |directory: &&Path| {
        let servers = &global["projects"][&*directory.to_string_lossy()]["mcpServers"];
        servers
            .as_object()
            .is_some_and(|servers| !servers.is_empty())
    };
    let above = cwd.ancestors().skip(1).find(has_servers)?;
    Some(format!(
        "there are servers for {}; go there to use them",
        above.display()
    ))
}

/// Where to remember what only saves time. Without a home there is no such place, and nothing is lost but a little time.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.cache_dir().join("trunkline"))
}

/// How results are made fit for a model, and where they are saved. Without a home that is among temporary files.
pub(crate) fn results() -> Results {
    let results = match cache_dir() {
        Some(cache) => Results::at(cache.join("results")),
        None => Results::default(),
    };
    results.limits_from_env()
}

/// Where servers' logs are kept. Without a home there are none.
pub(crate) fn logs() -> Option<LogStore> {
    Some(LogStore::at(state_dir()?.join("logs")))
}

/// Where to keep what is not configuration and not lightly lost.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    // Some systems have no place for state of its own.
    let state = base.state_dir().unwrap_or_else(|| base.data_dir());
    Some(state.join("trunkline"))
}

/// Who writes down every message, if somebody is to; an `Err` has been explained to the user.
pub(crate) fn tracer(config: &ConfigArgs) -> Result<Option<Tracer>, Exit> {
    let Some(file) = &config.trace else {
        return Ok(None);
    };
    if file.as_os_str() == "-" {
        return Ok(Some(Tracer::to(std::io::stderr())));
    }
    Tracer::to_file(file).map(Some).map_err(|error| {
        let what = format!("the trace cannot be written to {}: {error}", file.display());
        output::error(&what, Some("name a file in a directory that exists"));
        Exit::Usage
    })
}

/// Where secrets are kept.
pub(crate) fn vault(layout: &Layout) -> trunkline::auth::Vault {
    trunkline::auth::Vault::new(layout.secrets_file())
}

/// Runs `work` with the host and takes the host down afterwards, whether it finished or was interrupted.
pub(crate) async fn with_host<F: Future<Output = Exit>>(
    builder: HostBuilder,
    work: impl FnOnce(Host) -> F,
) -> Exit {
    with_host_or(builder, work, |_| ()).await
}

/// As [`with_host`], with something to do if it is interrupted.
pub(crate) async fn with_host_or<F: Future<Output = Exit>>(
    builder: HostBuilder,
    work: impl FnOnce(Host) -> F,
    on_interrupt: impl FnOnce(&Host),
) -> Exit {
    let host = builder.start();
    let exit = tokio::select! {
        exit = work(host.clone()) => exit,
        () = interrupted() => Exit::Interrupted,
    };
    if exit == Exit::Interrupted {
        on_interrupt(&host);
    }
    tokio::select! {
        () = host.shutdown() => {}
        // Asked twice: what is left of the servers is killed as the runtime goes down.
        () = interrupted() => {}
    }
    for problem in host.recording_problems() {
        output::warning(&problem);
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
                .filter(|server| matches!(server.state, State::Pending { attempt: 1.., .. }))
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

/// The names of the servers that are still starting: of those that are wanted, or else of all.
pub(crate) fn starting(host: &Host, wanted: impl Fn(&str) -> bool) -> String {
    let servers = host.servers();
    let starting = |server: &&Arc<ServerStatus>| matches!(server.state, State::Pending { .. });
    let names: Vec<&str> = servers
        .iter()
        .filter(starting)
        .map(|server| &*server.name)
        .collect();
    let mut of_interest: Vec<&str> = names.iter().copied().filter(|name| wanted(name)).collect();
    if of_interest.is_empty() {
        of_interest = names;
    }
    format!("\"{}\"", of_interest.join("\", \""))
}
