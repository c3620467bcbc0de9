//! Configures and starts a host.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use trunkline_config::ServerEntry;
use trunkline_transport::SdkBridge;

use crate::audit::AuditSink;
use crate::builtin::Builtin;
use crate::catalog::CatalogStore;
use crate::connection::{CustomServer, Elicit, Relay, Roots, Sampling, Source};
use crate::discovery::DiscoveryPlan;
use crate::eras::EraMemory;
use crate::event::{NotificationTap, ServerNotification};
use crate::host::Host;
use crate::host_tool::HostTool;
use crate::logs::{LogLine, LogSink, LogStore, Message, MessageTap, Tracer};
use crate::network::Network;
use crate::permission::{Permit, Rules};
use crate::pins::{OnChange, PinStore};
use crate::result::Results;
use crate::sandbox::{Launch, SandboxSetup};
use crate::secrets::Secrets;
use crate::settings::Settings;

/// Selects entries.
pub(crate) type EntryFilter = Arc<dyn Fn(&ServerEntry) -> bool + Send + Sync>;

/// Configures a host; see [`Host::builder`]. The order of calls does not matter, except that a
/// later server or tool replaces an earlier one of the same name.
///
/// Nothing is kept on disk unless a method asks for it; [`state_under`](Self::state_under) asks for
/// everything. Large results are an exception: they go to a directory for temporary files unless
/// [`results`](Self::results) says otherwise.
#[derive(Default)]
#[must_use]
pub struct HostBuilder {
    pub(crate) sources: Vec<Source>,
    /// As given; see [`HostBuilder::take_settings`].
    settings: Settings,
    lazy: Option<bool>,
    project_dir: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    pub(crate) eras: Option<EraMemory>,
    pub(crate) catalogs: Option<CatalogStore>,
    pub(crate) elicit: Vec<Arc<dyn Elicit>>,
    no_hooks: bool,
    pub(crate) sampling: Option<Arc<dyn Sampling>>,
    pub(crate) roots: Option<Arc<dyn Roots>>,
    pub(crate) on_notification: Option<NotificationTap>,
    pub(crate) private: Option<EntryFilter>,
    pub(crate) secrets: Option<Arc<dyn Secrets>>,
    pub(crate) network: Network,
    pub(crate) relay: Option<Arc<dyn Relay>>,
    pub(crate) sdk: Option<SdkBridge>,
    pub(crate) logs: Option<LogStore>,
    log_sinks: Vec<LogSink>,
    pub(crate) audit: Vec<Arc<dyn AuditSink>>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) tap: Option<MessageTap>,
    pub(crate) own_tools: Vec<HostTool>,
    pub(crate) rules: Rules,
    pub(crate) permit: Option<Arc<dyn Permit>>,
    pub(crate) pins: Option<PinStore>,
    pub(crate) on_change: OnChange,
    pub(crate) results: Option<Results>,
    pub(crate) discovery: DiscoveryPlan,
    pub(crate) bypass_policy: bool,
    pub(crate) sandbox: SandboxSetup,
}

/// Servers.
impl HostBuilder {
    /// Adds a server. It needs no approval. With configuration files
    /// ([`discover`](Self::discover), [`loader`](Self::loader)), their policy applies to it, unless
    /// [`bypass_policy`](Self::bypass_policy) is set: a refused server is listed as blocked in
    /// [`Host::config`].
    pub fn server(mut self, entry: ServerEntry) -> Self {
        self.sources.push(Source::Entry(Arc::new(entry)));
        self
    }

    /// Adds several servers.
    pub fn servers(self, entries: impl IntoIterator<Item = ServerEntry>) -> Self {
        entries.into_iter().fold(self, Self::server)
    }

    /// Adds a server implemented in this program.
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.sources.push(Source::Builtin(Arc::new(builtin)));
        self
    }

    /// Adds a server over a transport of the program's own: a reader and a writer that carry one
    /// JSON message a line. `connect` is called for every attempt to connect.
    ///
    /// ```
    /// use tokio::net::TcpStream;
    /// use trunkline::Host;
    ///
    /// let builder = Host::builder().connect("tunnel", || async {
    ///     let stream = TcpStream::connect("127.0.0.1:4000").await?;
    ///     Ok(stream.into_split())
    /// });
    /// # drop(builder);
    /// ```
    pub fn connect<F, C, R, W>(mut self, name: impl Into<String>, connect: F) -> Self
    where
        F: Fn() -> C + Send + Sync + 'static,
        C: Future<Output = io::Result<(R, W)>> + Send + 'static,
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let custom = CustomServer::new(name.into(), connect);
        self.sources.push(Source::Custom(Arc::new(custom)));
        self
    }

    /// Exempts servers added by the program, here, with [`Host::add`] or for an agent, from the
    /// policy in configuration files.
    pub fn bypass_policy(mut self, bypass: bool) -> Self {
        self.bypass_policy = bypass;
        self
    }

    /// Starts a server whose catalog is known from an earlier run when it is first needed: by a
    /// call, [`Host::reconnect`] or [`Host::refresh`]. A server's entry takes precedence.
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = Some(lazy);
        self
    }

    /// Sets the project directory: the servers' root and working directory. Defaults to the
    /// directory of [`discover`](Self::discover).
    pub fn project_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.project_dir = Some(dir.into());
        self
    }

    /// Sets limits and defaults. [`lazy`](Self::lazy) and [`project_dir`](Self::project_dir) take
    /// precedence.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }
}

/// Sandboxes.
impl HostBuilder {
    /// Names the program that starts servers in a sandbox (SEC-5): `trunkline`, or another that
    /// calls the launcher of `trunkline-sandbox`. Without it, servers whose entry or settings ask
    /// for a sandbox are refused.
    pub fn sandbox_launcher(mut self, program: impl Into<PathBuf>) -> Self {
        self.sandbox.launcher = Some(program.into());
        self
    }

    /// Sets the directory that holds the caches of sandboxed servers, for the word `cache`.
    pub fn sandbox_cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.sandbox.cache = Some(dir.into());
        self
    }

    /// Returns how a server would be started in its sandbox; `None` if it has none. An error says
    /// why it must not start.
    pub fn sandboxed(&self, entry: &ServerEntry) -> Result<Option<Launch>, String> {
        let project = self.project_dir.clone();
        let project = project.or_else(|| self.discovery.project_dir());
        self.sandbox.launch(entry, project.as_ref())
    }

    /// Hides a path from all sandboxed servers, whatever their profiles grant: the program's own
    /// files. Those of the configuration and of this host's state are hidden already.
    pub fn sandbox_hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.sandbox.hidden.push(path.into());
        self
    }
}

/// Transports and credentials.
impl HostBuilder {
    /// Resolves `${keyring:...}` references in entries. Without it, such a server cannot connect.
    pub fn secrets(mut self, secrets: impl Secrets) -> Self {
        self.secrets = Some(Arc::new(secrets));
        self
    }

    /// Reaches local servers through another process that shares them, where it can.
    pub fn relay(mut self, relay: impl Relay) -> Self {
        self.relay = Some(Arc::new(relay));
        self
    }

    /// Connects servers of type `sdk` through the embedding process. Without it they cannot
    /// connect.
    pub fn sdk(mut self, bridge: SdkBridge) -> Self {
        self.sdk = Some(bridge);
        self
    }
}

/// Tools, permissions and requests of servers.
impl HostBuilder {
    /// Adds a tool of the host itself to the pool.
    pub fn tool(mut self, tool: HostTool) -> Self {
        self.own_tools.retain(|earlier| earlier.name != tool.name);
        self.own_tools.push(tool);
        self
    }

    /// Adds rules for calls to those in the settings files.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Decides about calls that no rule decides (TOOL-10). Without it, such calls are refused.
    pub fn permit(mut self, permit: impl Permit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// Sets the reaction to a tool that has changed since it was agreed to. Defaults to asking.
    pub fn on_change(mut self, on_change: OnChange) -> Self {
        self.on_change = on_change;
        self
    }

    /// Answers elicitation requests of servers. Several are asked in order, until one does not
    /// [pass](crate::elicit::ElicitAnswer::Pass). Without any, requests that no hook answers are
    /// cancelled.
    pub fn elicit(mut self, elicit: impl Elicit) -> Self {
        self.elicit.push(Arc::new(elicit));
        self
    }

    /// Whether the hooks in settings files run (ELI-4): commands of the user's and the managed
    /// settings, before and after calls and for elicitations. By default they do, if the host reads
    /// configuration files ([`discover`](Self::discover), [`loader`](Self::loader)).
    pub fn hooks(mut self, hooks: bool) -> Self {
        self.no_hooks = !hooks;
        self
    }

    /// Answers sampling requests of servers (`sampling/createMessage`, LIF-6). Without it, the
    /// capability is not declared. The program asks the user for consent if it needs it.
    ///
    /// ```
    /// use trunkline::elicit::SamplingRequest;
    /// use trunkline::{Host, Json};
    ///
    /// let builder = Host::builder().sampling(|request: SamplingRequest| async move {
    ///     let messages = request.params.get("messages").ok_or("no messages")?;
    ///     // Ask the model here.
    ///     let text = format!("{} asks: {}", request.server, messages.as_str());
    ///     Ok(Json::from(serde_json::json!({
    ///         "role": "assistant", "model": "my-model", "content": {"type": "text", "text": text},
    ///     })))
    /// });
    /// # drop(builder);
    /// ```
    pub fn sampling(mut self, sampling: impl Sampling) -> Self {
        self.sampling = Some(Arc::new(sampling));
        self
    }

    /// Names the roots of the clients on whose behalf servers ask for them (`roots/list`), for a
    /// program that serves several. Without it, or for requests of no client, the project
    /// directory is the only root.
    pub fn roots(mut self, roots: impl Roots) -> Self {
        self.roots = Some(Arc::new(roots));
        self
    }

    /// Does not start the servers that `is_private` selects, unless one of their tools is called:
    /// for programs that give each client a process of its own
    /// ([`AgentScope::server`](crate::AgentScope::server)).
    pub fn private_servers(
        mut self,
        is_private: impl Fn(&ServerEntry) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.private = Some(Arc::new(is_private));
        self
    }

    /// Calls `tap` with each log message of a server and each notice that the user has finished at
    /// a page, for programs that forward them. It must not block.
    pub fn on_notification(
        mut self,
        tap: impl Fn(&ServerNotification) + Send + Sync + 'static,
    ) -> Self {
        self.on_notification = Some(Arc::new(tap));
        self
    }

    /// Sets how results are prepared for a model, and where large ones are saved. Defaults to a
    /// private directory below the system's for temporary files.
    pub fn results(mut self, results: Results) -> Self {
        self.results = Some(results);
        self
    }
}

/// State on disk, logs and messages.
impl HostBuilder {
    /// Keeps everything below `dir` that a host can keep on disk: catalogs, protocol eras, pins,
    /// logs and large results. A more specific method takes precedence.
    ///
    /// ```no_run
    /// use trunkline::Host;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let host = Host::builder().state_under("/var/lib/my-agent").start();
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn state_under(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Remembers each server's protocol era, which saves a probe on later connections.
    pub fn eras(mut self, eras: EraMemory) -> Self {
        self.eras = Some(eras);
        self
    }

    /// Stores the catalog of each server, so that the next run has its tools immediately (LIF-13).
    /// They are marked [`cached`](crate::server::Catalog::cached) until the server connects; a call
    /// waits for the connection.
    pub fn catalogs(mut self, store: CatalogStore) -> Self {
        self.catalogs = Some(store);
        self
    }

    /// Stores the definition of each tool at the time that a call was first agreed to (TOOL-11).
    /// Without it, pins last as long as the program.
    pub fn pins(mut self, pins: PinStore) -> Self {
        self.pins = Some(pins);
        self
    }

    /// Writes servers' logs to files.
    pub fn logs(mut self, logs: LogStore) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Calls `sink` with every log line: servers' stderr and log messages, protocol errors, and
    /// changes of state. Known secrets are masked. Called on the thread that writes logs.
    ///
    /// ```
    /// use trunkline::Host;
    ///
    /// let builder = Host::builder().on_log(|line| eprintln!("{}: {}", line.server, line.text));
    /// # drop(builder);
    /// ```
    pub fn on_log(mut self, sink: impl Fn(LogLine) + Send + 'static) -> Self {
        self.log_sinks.push(Box::new(sink));
        self
    }

    /// Sends records of calls, connections and changes to a sink (SEC-6), in addition to the log
    /// that the settings ask for. See [`audit`](crate::audit).
    pub fn audit(mut self, sink: impl AuditSink) -> Self {
        self.audit.push(Arc::new(sink));
        self
    }

    /// Writes every message to a trace.
    pub fn trace(mut self, tracer: Tracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Calls `tap` with every message to and from every server, known secrets masked. Called on the
    /// connections' tasks: it must not block.
    ///
    /// ```
    /// use trunkline::Host;
    ///
    /// let builder = Host::builder().on_message(|message| {
    ///     eprintln!("{} {:?} {}", message.server, message.direction, message.text);
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_message(mut self, tap: impl Fn(&Message<'_>) + Send + Sync + 'static) -> Self {
        self.tap = Some(Arc::new(tap));
        self
    }
}

/// Start.
impl HostBuilder {
    /// Starts the host and returns immediately; servers connect in the background.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    #[must_use = "dropping the host closes its connections"]
    pub fn start(mut self) -> Host {
        self.keep_state();
        Host::start(self)
    }

    /// Applies [`HostBuilder::state_under`] and the log sinks.
    fn keep_state(&mut self) {
        if let Some(dir) = self.state_dir.take() {
            self.sandbox.hidden.push(dir.clone());
            let eras = || EraMemory::at(dir.join("eras.json"));
            self.eras.get_or_insert_with(eras);
            let catalogs = || CatalogStore::at(dir.join("catalogs"));
            self.catalogs.get_or_insert_with(catalogs);
            self.pins
                .get_or_insert_with(|| PinStore::at(dir.join("pins")));
            self.logs
                .get_or_insert_with(|| LogStore::at(dir.join("logs")));
            let results = || Results::at(dir.join("results"));
            self.results.get_or_insert_with(results);
        }
        if !self.log_sinks.is_empty() {
            let logs = self.logs.get_or_insert_with(LogStore::without_files);
            self.log_sinks
                .drain(..)
                .for_each(|sink| logs.add_sink(sink));
        }
    }

    /// Whether the hooks of the settings run.
    pub(crate) fn runs_hooks(&self) -> bool {
        !self.no_hooks
    }

    /// The settings, with single ones applied and the project directory resolved.
    pub(crate) fn take_settings(&mut self) -> Settings {
        let mut settings = std::mem::take(&mut self.settings);
        if let Some(lazy) = self.lazy {
            settings.lazy = lazy;
        }
        let given = self.project_dir.clone().or(settings.project_dir);
        settings.project_dir = given.or_else(|| self.discovery.project_dir());
        settings
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use trunkline_config::Layout;

    use super::*;

    type Call = fn(HostBuilder) -> HostBuilder;

    /// The effect of the calls below.
    fn effect(mut builder: HostBuilder) -> String {
        let settings = builder.take_settings();
        let plan = builder.discovery.options(&builder.network).unwrap();
        let HostBuilder {
            rules, on_change, ..
        } = builder;
        format!(
            "{settings:?} {} {} {rules:?} {on_change:?}",
            plan.watch,
            plan.loader.project().cwd.display(),
        )
    }

    fn permutations(calls: &[Call], visit: &mut dyn FnMut(String)) {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        permute(&mut order, 0, &mut |order| {
            let built = order
                .iter()
                .fold(HostBuilder::default(), |builder, at| calls[*at](builder));
            visit(effect(built));
        });
    }

    fn permute(order: &mut Vec<usize>, from: usize, visit: &mut dyn FnMut(&[usize])) {
        if from == order.len() {
            return visit(order);
        }
        for at in from..order.len() {
            order.swap(from, at);
            permute(order, from + 1, visit);
            order.swap(from, at);
        }
    }

    #[test]
    fn the_order_of_calls_does_not_matter() {
        let calls: [Call; 6] = [
            |builder| {
                builder.settings(Settings {
                    call_timeout: Duration::from_secs(7),
                    ..Settings::default()
                })
            },
            |builder| builder.discover(Layout::under("/h"), Path::new("/p")),
            |builder| builder.lazy(true),
            |builder| builder.watch(false),
            |builder| builder.rules(Rules::default().deny("mcp__a")),
            |builder| builder.rules(Rules::default().allow("mcp__b")),
        ];
        let mut first = None;
        let mut count = 0;
        permutations(&calls, &mut |effect| {
            count += 1;
            assert_eq!(first.get_or_insert_with(|| effect.clone()), &effect);
        });
        assert_eq!(count, 720);
        let first = first.unwrap();
        for part in ["7s", "lazy: true", "Some(\"/p\")", "mcp__a", "mcp__b"] {
            assert!(first.contains(part), "{part} in {first}");
        }
        // A single setting takes precedence over all of them together.
        let mut builder = HostBuilder::default().project_dir("/q").settings(Settings {
            project_dir: Some("/r".into()),
            ..Settings::default()
        });
        assert_eq!(builder.take_settings().project_dir, Some("/q".into()));
    }
}
