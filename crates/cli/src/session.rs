//! Runs a host for a command, from configuration to shutdown.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcetera::BaseStrategy;
use trunkline::auth::{Auth, Grant, IdpConfig, ServerAuth, ServerConfig, TransportClient};
use trunkline::connectors::ClaudeAi;
use trunkline::log::{LogStore, Tracer};
use trunkline::result::Results;
use trunkline::server::{ServerStatus, State};
use trunkline::storage::{CatalogStore, EraMemory, PinStore};
use trunkline::tool::{LoadMode, OnChange};
use trunkline::transport::Dialer;
use trunkline::{Host, HostBuilder, ServerEntry, Settings};
use trunkline_config::{
    CONNECTOR_PREFIX, Diagnostic, Editor, Layout, Loader, Server, ServerSet, Severity,
    TransportEntry, XaaIdp, check_account_name, env_vars,
};

use crate::args::ConfigArgs;
use crate::commands::tools::{NO_SERVERS, unknown_server};
#[cfg(unix)]
use crate::daemon_use;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, StatusLine, Stream};
use crate::permit::TypedCalls;
use crate::running;
use crate::session_token;
use crate::stored::Catalogs;

/// The loaded configuration and the options that it was loaded with.
pub(crate) struct Configured {
    pub(crate) loader: Loader,
    pub(crate) set: ServerSet,
    /// The servers of --mcp-server; empty for all.
    only: Vec<String>,
    lazy: bool,
    no_cache: bool,
    no_daemon: bool,
    /// Whether the user asked that servers start only when they are called.
    is_lazy: bool,
    /// The options that select the same servers in another process.
    selection: Vec<OsString>,
    tracer: Option<Tracer>,
}

impl Configured {
    /// Sets where catalogs come from.
    pub(crate) fn with_catalogs(mut self, catalogs: Catalogs) -> Self {
        self.lazy |= catalogs == Catalogs::Stored;
        self
    }

    /// Returns whether all servers are to be connected.
    pub(crate) fn is_refresh(&self) -> bool {
        !self.lazy
    }

    /// Returns the options for a check of these servers in the background; `None` if the user wants
    /// neither servers nor catalogs.
    pub(crate) fn options_of_check(&self) -> Option<Vec<OsString>> {
        (!self.no_cache && !self.is_lazy).then(|| self.selection.clone())
    }

    /// Returns the problems of the configuration.
    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.set.diagnostics
    }

    /// Keeps only the servers of --mcp-server. An `Err` has been reported.
    fn with_wanted_only(mut self) -> Result<Self, Exit> {
        for name in &self.only {
            // No file lists connectors.
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

    /// Returns why --strict-mcp-config leaves no servers.
    pub(crate) fn left_out(&self) -> Option<&'static str> {
        let is_strict = !self.loader.wants_connectors() && self.set.exclusive.is_none();
        is_strict.then_some(
            "--strict-mcp-config excludes all configured servers, and --mcp-config names none",
        )
    }

    /// Uses another account at a server. An `Err` has been reported.
    pub(crate) fn use_account(&mut self, name: &str, account: Option<&str>) -> Result<(), Exit> {
        let Some(account) = account else {
            return Ok(());
        };
        if let Err(problem) = check_account_name(account) {
            output::error(&format!("--account: {problem}"), None);
            return Err(Exit::Usage);
        }
        for server in &mut self.set.servers {
            if server.entry.name == name
                && let TransportEntry::Http(http) = &mut server.entry.transport
            {
                http.account = Some(account.to_owned());
            }
        }
        Ok(())
    }

    /// Returns an editor of the same configuration.
    pub(crate) fn editor(&self) -> Editor {
        let cwd = self.loader.project().cwd.clone();
        Editor::new(self.loader.layout().clone(), cwd)
    }

    /// Returns the names of all servers, each once.
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

    /// Returns the entry in effect for a name: the one that runs, otherwise the strongest.
    pub(crate) fn foremost(&self, name: &str) -> Option<&Server> {
        let runs = |server: &&Server| server.status.may_run();
        let named = || self.set.named(name);
        named().find(runs).or_else(|| named().next())
    }

    /// Reports an unknown server. It may be misspelt, or its entry may be invalid.
    pub(crate) fn unknown(&self, name: &str) -> Exit {
        let none = self.left_out().unwrap_or(NO_SERVERS);
        self.unknown_among(name, &self.names(), none)
    }

    /// Reports an unknown server where only `names` are valid; `none` is the hint if there are
    /// none.
    pub(crate) fn unknown_among(&self, name: &str, names: &[&str], none: &str) -> Exit {
        let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
        if let Some(problem) = self.set.diagnostics_for(name).find(is_error) {
            let what = format!(
                "the entry of \"{name}\" cannot be used: {}",
                problem.message
            );
            let hint = format!("fix it in {}", problem.location());
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

    /// Warns of all problems of the configuration.
    pub(crate) fn warn(&self) {
        for problem in self.diagnostics() {
            output::warning(&problem.to_string());
        }
    }

    /// Warns of problems of whole files and of the entries of these servers.
    pub(crate) fn warn_about(&self, wanted: impl Fn(&str) -> bool) {
        let about = |problem: &&Diagnostic| problem.server.as_deref().is_none_or(&wanted);
        for problem in self.diagnostics().iter().filter(about) {
            output::warning(&problem.to_string());
        }
    }

    /// Returns a builder for a host with these servers, of which the daemon runs the local ones if
    /// there is one. For commands that use servers, not for those that examine them.
    pub(crate) fn host_with_daemon(self) -> HostBuilder {
        let is_off = self.no_daemon;
        let builder = self.host();
        #[cfg(unix)]
        if let (false, Some(place)) = (is_off || daemon_use::is_off(), daemon_use::place()) {
            return builder.relay(trunkline_gateway::daemon::DaemonRelay::new(place));
        }
        #[cfg(not(unix))]
        let _ = is_off;
        builder
    }

    /// Returns a builder for a host with these servers.
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

/// Returns the source of the connectors of a signed-in account, if there is one.
pub(crate) fn connectors(layout: &Layout) -> Option<ClaudeAi> {
    ClaudeAi::from_env(&layout.credentials_file())
}

/// Returns the working directory. A deleted one has no project to read or write.
pub(crate) fn cwd() -> Result<PathBuf, Exit> {
    std::env::current_dir().map_err(|error| {
        output::error(
            &format!("cannot use the working directory: {error}"),
            Some("change to a directory that exists"),
        );
        Exit::Usage
    })
}

/// Returns the paths of all files. Without a home directory there are no user files.
pub(crate) fn layout() -> Layout {
    Layout::from_env().unwrap_or_else(|| Layout::under("/dev/null"))
}

/// Loads the configuration. An `Err` has been reported.
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
            output::error(&format!("--mcp-config: no such file: \"{named}\""), None);
            return Err(Exit::Usage);
        }
    }
    // A configuration named on the command line must be usable.
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
        no_daemon: config.no_daemon,
        is_lazy: config.lazy || Settings::from_env().lazy,
        selection: config.selection(),
        tracer: tracer(config)?,
    };
    configured.with_wanted_only()
}

/// Returns the problems that make a --mcp-config unusable. A bad entry counts only if it is the
/// only one.
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

/// Returns a host builder with the settings that all commands share.
pub(crate) fn builder(layout: Option<&Layout>) -> HostBuilder {
    let mut builder = Host::builder()
        .settings(Settings::from_env())
        .results(results())
        .permit(TypedCalls::default());
    if let Ok(name) = std::env::var(env_vars::TRUNKLINE_CHANGED_TOOLS) {
        match OnChange::named(&name) {
            Some(on_change) => builder = builder.on_change(on_change),
            None => output::warning(&format!(
                "{} is \"{name}\", expected warn, ask or block; using ask",
                env_vars::TRUNKLINE_CHANGED_TOOLS
            )),
        }
    }
    warn_of_invalid_variables();
    if let Some(state) = state_dir() {
        builder = builder
            .sandbox_hide(&state)
            .pins(PinStore::at(state.join("pins")));
    }
    builder = sandbox(builder, layout);
    if let Ok(dir) = std::env::current_dir() {
        builder = builder.project_dir(dir);
    }
    if let Some(credentials) = session_token::credentials() {
        builder = builder.credentials(credentials);
    }
    if let Some(layout) = layout {
        builder = builder.secrets(vault(layout));
        if let Some(auth) = auth(layout) {
            // Settings that cannot be read are reported with the servers.
            let idp = idp(layout, &auth).ok().flatten().map(|(idp, _)| idp);
            builder = builder
                .auth_with(auth, move |entry, config| {
                    sign_in(entry, config, idp.as_ref())
                })
                // A command ends before the user has signed in: `trunkline login` waits.
                .sign_in_tools(false);
        }
    }
    builder
}

/// The launcher of sandboxed servers: the small program beside this one, or this one.
pub(crate) fn sandbox_launcher() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let small = program.with_file_name(trunkline_sandbox::LAUNCHER_PROGRAM);
    Some(if small.is_file() { small } else { program })
}

/// Sets up sandboxes, from which this program's files are hidden.
fn sandbox(mut builder: HostBuilder, layout: Option<&Layout>) -> HostBuilder {
    if let Some(program) = sandbox_launcher() {
        builder = builder.sandbox_launcher(program);
    }
    // Whoever reaches the daemon's socket can start any program outside of the sandbox.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    if let Some(runtime) = runtime {
        builder = builder.sandbox_hide(Path::new(&runtime).join("trunkline"));
    }
    if let Some(cache) = cache_dir() {
        builder = builder
            .sandbox_cache(cache.join("sandbox"))
            .sandbox_hide(cache);
    }
    if let Some(layout) = layout {
        builder = builder
            .sandbox_hide(&layout.global_file)
            .sandbox_hide(&layout.config_dir);
    }
    builder
}

/// Warns of environment variables with invalid values.
fn warn_of_invalid_variables() {
    let is_number = |value: &str| value.trim().parse::<u64>().is_ok_and(|number| number > 0);
    let is_mode = |value: &str| LoadMode::read(value).is_some();
    let warn = |name: &str, means: &dyn Fn(&str) -> bool, expected: &str| {
        if let Some(value) = std::env::var(name).ok().filter(|value| !means(value)) {
            output::warning(&format!(
                "{name} is \"{value}\", expected {expected}; ignored"
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

/// Returns a hint to the nearest parent directory with configured servers.
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
        "{} has servers; run trunkline there",
        above.display()
    ))
}

/// Returns the cache directory; `None` without a home directory.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.cache_dir().join("trunkline"))
}

/// Returns the result processing. Without a home directory, results are saved to temporary files.
pub(crate) fn results() -> Results {
    let results = match cache_dir() {
        Some(cache) => Results::at(cache.join("results")),
        None => Results::default(),
    };
    results.limits_from_env()
}

/// Returns the store of server logs; `None` without a home directory.
pub(crate) fn logs() -> Option<LogStore> {
    Some(LogStore::at(state_dir()?.join("logs")))
}

/// Returns the state directory; `None` without a home directory.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    // Not every system has a state directory.
    let state = base.state_dir().unwrap_or_else(|| base.data_dir());
    Some(state.join("trunkline"))
}

/// Returns the tracer that --trace asks for. An `Err` has been reported.
pub(crate) fn tracer(config: &ConfigArgs) -> Result<Option<Tracer>, Exit> {
    let Some(file) = &config.trace else {
        return Ok(None);
    };
    if file.as_os_str() == "-" {
        return Ok(Some(Tracer::to(std::io::stderr())));
    }
    Tracer::to_file(file).map(Some).map_err(|error| {
        let what = format!("cannot write the trace to {}: {error}", file.display());
        output::error(&what, Some("choose a file in an existing directory"));
        Exit::Usage
    })
}

/// Returns the store of secrets.
pub(crate) fn vault(layout: &Layout) -> trunkline::auth::Vault {
    trunkline::auth::Vault::new(layout.secrets_file())
}

/// Returns the user's sign-ins; `None` without a home directory.
pub(crate) fn auth(layout: &Layout) -> Option<Auth> {
    let http = Arc::new(TransportClient::new(Dialer::from_env()));
    let auth = Auth::builder(Arc::new(vault(layout)), state_dir()?.join("auth"), http);
    let auth = auth.claude_code_credentials(layout.credentials_file());
    Some(auth.build())
}

/// Returns the sign-in at the identity provider of the settings, if there is one.
pub(crate) fn idp(
    layout: &Layout,
    auth: &Auth,
) -> Result<Option<(Arc<ServerAuth>, XaaIdp)>, String> {
    let Some((idp, _)) = XaaIdp::load(layout)? else {
        return Ok(None);
    };
    let config = IdpConfig::new(&idp.issuer, &idp.client_id).map_err(|error| error.to_string())?;
    let config = match idp.callback_port {
        Some(port) => config.callback_port(port),
        None => config,
    };
    Ok(Some((auth.idp(config), idp)))
}

/// Returns the settings with which a server is signed in to.
pub(crate) fn sign_in(
    entry: &ServerEntry,
    config: ServerConfig,
    idp: Option<&Arc<ServerAuth>>,
) -> ServerConfig {
    let is_enterprise = entry.transport.oauth().is_some_and(|oauth| oauth.xaa);
    match idp {
        _ if !is_enterprise => config,
        Some(idp) => config.grant(Grant::Enterprise(Arc::clone(idp))),
        // The company decides who signs in: a browser is no substitute.
        None => config.grant(Grant::Workload(Arc::new(|_: &str| {
            Err(
                "no identity provider is set; set it with `trunkline xaa setup --issuer URL \
                 --client-id ID`"
                    .to_owned(),
            )
        }))),
    }
}

/// Runs `work` with a host, then shuts the host down, interrupted or not.
pub(crate) async fn with_host<F: Future<Output = Exit>>(
    builder: HostBuilder,
    work: impl FnOnce(Host) -> F,
) -> Exit {
    with_host_or(builder, work, |_| ()).await
}

/// As [`with_host`], and calls `on_interrupt` on an interrupt.
pub(crate) async fn with_host_or<F: Future<Output = Exit>>(
    builder: HostBuilder,
    work: impl FnOnce(Host) -> F,
    on_interrupt: impl FnOnce(&Host),
) -> Exit {
    let host = builder.start();
    let exit = tokio::select! {
        // First, so that the handlers exist before a pager has the terminal.
        biased;
        () = interrupted() => Exit::Interrupted,
        exit = work(host.clone()) => exit,
    };
    if exit == Exit::Interrupted {
        on_interrupt(&host);
    }
    shut_down(&host).await;
    exit
}

/// How long a command waits for servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until all have connected or failed.
    Full,
    /// Until some have connected or failed, and no other has for [`STALLED`]: one server that hangs
    /// must not hide the others.
    WhileProgressing,
}

/// How long nothing may happen before a command shows what is known.
const STALLED: Duration = Duration::from_secs(10);

/// Runs `show` once the servers are ready. An interrupt ends only the wait: `show` then has what is
/// known so far.
pub(crate) async fn with_ready_host(
    builder: HostBuilder,
    patience: Patience,
    show: impl AsyncFnOnce(&Host) -> Exit,
) -> Exit {
    let host = builder.start();
    let wait = async {
        match patience {
            Patience::Full => ready(&host).await,
            Patience::WhileProgressing => tokio::select! {
                () = ready(&host) => {}
                () = stalled(&host) => {}
            },
        }
    };
    let was_interrupted = tokio::select! {
        biased;
        () = interrupted() => true,
        () = wait => false,
    };
    let exit = tokio::select! {
        biased;
        () = interrupted() => Exit::Interrupted,
        exit = show(&host) => exit,
    };
    shut_down(&host).await;
    if was_interrupted {
        return Exit::Interrupted;
    }
    exit
}

/// Waits until no server has connected or failed for [`STALLED`], and there is something to show.
async fn stalled(host: &Host) {
    let mut events = host.events();
    let unsettled = || starting_servers(host).len();
    let mut left = unsettled();
    let mut since = Instant::now();
    loop {
        match STALLED.checked_sub(since.elapsed()) {
            Some(rest) => _ = tokio::time::timeout(rest, events.next()).await,
            None if left < host.servers().len() => return,
            None => _ = events.next().await,
        }
        if unsettled() < left {
            since = Instant::now();
        }
        left = unsettled();
    }
}

/// Returns the servers that have neither connected nor failed yet.
pub(crate) fn starting_servers(host: &Host) -> Vec<Arc<ServerStatus>> {
    let mut servers = host.servers();
    servers.retain(|server| {
        let is_starting = matches!(server.state, State::Pending { attempt: 1.., .. });
        is_starting && server.state.failure().is_none()
    });
    servers
}

/// Shuts a host down.
async fn shut_down(host: &Host) {
    tokio::select! {
        () = host.shutdown() => {}
        // A second interrupt: dropping the runtime kills the remaining servers.
        () = interrupted() => {}
    }
    for problem in host.recording_problems() {
        output::warning(&problem);
    }
}

/// Waits until all servers are ready, with a status line on a terminal.
pub(crate) async fn ready(host: &Host) {
    if !output::is_animated(Stream::Err) {
        host.ready().await;
        return;
    }
    let mut line = StatusLine::about("connecting");
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
                "{} of {}: {}",
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

/// Returns the names of servers that are still starting: the wanted ones, otherwise all.
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
