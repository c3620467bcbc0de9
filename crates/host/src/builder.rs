//! Puts a host together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trunkline_config::{Layout, Loader, ServerEntry, ServerSet};
use trunkline_transport::SdkBridge;
use trunkline_transport::http::Credentials;
use trunkline_transport::net::Dialer;

use crate::builtin::Builtin;
use crate::catalog::CatalogStore;
use crate::connection::{CredentialsLookup, Elicit, Sampling, Source};
use crate::connectors::Connectors;
use crate::discovery::{DiscoveryOptions, ServerFilter};
use crate::eras::EraMemory;
use crate::host::Host;
use crate::host_tool::HostTool;
use crate::logs::{LogStore, Tracer};
use crate::permission::{Permit, Rules};
use crate::pins::{OnChange, PinStore};
use crate::result::Results;
use crate::secrets::Secrets;
use crate::settings::Settings;

/// Puts a host together; see [`Host::builder`].
#[derive(Default)]
pub struct HostBuilder {
    pub(crate) sources: Vec<Source>,
    /// The numbers as given; see [`HostBuilder::take_settings`].
    settings: Settings,
    /// What was said about single settings, which counts whatever the order of calls.
    lazy: Option<bool>,
    project_dir: Option<PathBuf>,
    pub(crate) eras: EraMemory,
    pub(crate) catalogs: Option<CatalogStore>,
    pub(crate) elicit: Option<Arc<dyn Elicit>>,
    pub(crate) sampling: Option<Arc<dyn Sampling>>,
    pub(crate) secrets: Option<Arc<dyn Secrets>>,
    pub(crate) dialer: Option<Dialer>,
    pub(crate) sdk: Option<SdkBridge>,
    pub(crate) credentials: Option<CredentialsLookup>,
    pub(crate) connector_credentials: Option<Arc<dyn Credentials>>,
    pub(crate) logs: Option<LogStore>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) own_tools: Vec<HostTool>,
    pub(crate) rules: Rules,
    pub(crate) permit: Option<Arc<dyn Permit>>,
    pub(crate) pins: PinStore,
    pub(crate) on_change: OnChange,
    pub(crate) results: Option<Results>,
    loader: Option<(Loader, Option<ServerSet>)>,
    connectors: Option<Arc<dyn Connectors>>,
    pub(crate) bypass_policy: bool,
    watch: Option<bool>,
    /// Whether files are watched unless [`HostBuilder::watch`] says otherwise.
    discovers: bool,
    only: Option<ServerFilter>,
}

impl HostBuilder {
    /// Takes the servers from configuration files: all scopes, approval, policy. The files are watched, and servers come, change
    /// and go with them.
    #[must_use]
    pub fn discover(mut self, layout: Layout, cwd: &Path) -> Self {
        self.discovers = true;
        self.loader(Loader::new(layout, cwd))
    }

    /// Takes the servers from configuration, as this loader reads it.
    #[must_use]
    pub fn loader(mut self, loader: Loader) -> Self {
        self.loader = Some((loader, None));
        self
    }

    /// As [`HostBuilder::loader`], with what the loader has found already, so that the files are not read twice.
    #[must_use]
    pub fn loaded(mut self, loader: Loader, set: ServerSet) -> Self {
        self = self.loader(loader);
        if let Some((_, first)) = &mut self.loader {
            *first = Some(set);
        }
        self
    }

    /// Whether to act on changes to the configuration files.
    #[must_use]
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Of the servers in the configuration, takes only those with such names.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.only = Some(Arc::new(wanted));
        self
    }

    /// Who lists the user's claude.ai connectors. Without it there are none.
    #[must_use]
    pub fn connectors(mut self, connectors: impl Connectors) -> Self {
        self.connector_credentials = connectors.credentials();
        self.connectors = Some(Arc::new(connectors));
        self
    }

    /// Who we are to each server behind HTTP: where the token for its requests comes from, and who learns when it is turned
    /// down. An entry with an `Authorization` header of its own is not asked about.
    #[must_use]
    pub fn credentials(
        mut self,
        find: impl Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync + 'static,
    ) -> Self {
        self.credentials = Some(Arc::new(find));
        self
    }

    /// The way to the process that we are embedded in, where servers of type `sdk` live. Without it they cannot connect.
    #[must_use]
    pub fn sdk(mut self, bridge: SdkBridge) -> Self {
        self.sdk = Some(bridge);
        self
    }

    /// How servers on the network are reached; by default as the environment says.
    #[must_use]
    pub fn dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Who knows the secrets that entries refer to with `${keyring:…}`. Without it, such a server cannot connect.
    #[must_use]
    pub fn secrets(mut self, secrets: impl Secrets) -> Self {
        self.secrets = Some(Arc::new(secrets));
        self
    }

    /// Adds a server. A later one with the same name replaces an earlier one. It needs no approval, because the program answers
    /// for it. Where the host reads configuration files ([`discover`](Self::discover), [`loader`](Self::loader)), the policy
    /// and the enterprise exclusivity in them hold for it too, unless [`bypass_policy`](Self::bypass_policy) is set: a
    /// server that they refuse is listed as blocked in [`Host::config`].
    #[must_use]
    pub fn server(mut self, entry: ServerEntry) -> Self {
        self.sources.push(Source::Entry(Arc::new(entry)));
        self
    }

    /// Exempts the servers that the program adds itself, here, with [`Host::add`] or for an agent, from the policy and the
    /// enterprise exclusivity in configuration files.
    #[must_use]
    pub fn bypass_policy(mut self, bypass: bool) -> Self {
        self.bypass_policy = bypass;
        self
    }

    /// Adds several servers.
    #[must_use]
    pub fn servers(self, entries: impl IntoIterator<Item = ServerEntry>) -> Self {
        entries.into_iter().fold(self, Self::server)
    }

    /// Adds a server that lives in this process.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.sources.push(Source::Builtin(Arc::new(builtin)));
        self
    }

    /// Adds a tool of the program's own to the pool. A later one with the same name replaces an earlier one.
    #[must_use]
    pub fn tool(mut self, tool: HostTool) -> Self {
        self.own_tools.retain(|earlier| earlier.name != tool.name);
        self.own_tools.push(tool);
        self
    }

    /// How results are made fit for a model, and where what is too large for one is saved. By default that is a directory of the
    /// user's own below the system's for temporary files.
    #[must_use]
    pub fn results(mut self, results: Results) -> Self {
        self.results = Some(results);
        self
    }

    /// The numbers to work by. [`HostBuilder::lazy`] and [`HostBuilder::project_dir`] come before them.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The project directory: what servers are told as their root, and where they run. By default the directory in
    /// which servers are looked for.
    #[must_use]
    pub fn project_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.project_dir = Some(dir.into());
        self
    }

    /// Where to remember each server's protocol era, so that finding it out is paid once.
    #[must_use]
    pub fn eras(mut self, eras: EraMemory) -> Self {
        self.eras = eras;
        self
    }

    /// Where to keep the last catalog of each server, so that the next run has its tools at once (LIF-13). Until the server has
    /// been connected, they are marked as [`cached`](crate::server::Catalog::cached); a call waits for the connection.
    #[must_use]
    pub fn catalogs(mut self, store: CatalogStore) -> Self {
        self.catalogs = Some(store);
        self
    }

    /// Whether a server whose catalog is known from an earlier run is started only when it is first needed: by a call,
    /// [`Host::reconnect`] or [`Host::refresh`]. A server's own entry comes first.
    #[must_use]
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = Some(lazy);
        self
    }

    /// Who asks the user what a server wants to know. Without it, every such question is answered with "cancel".
    #[must_use]
    pub fn elicit(mut self, elicit: impl Elicit) -> Self {
        self.elicit = Some(Arc::new(elicit));
        self
    }

    /// The model that servers may ask for messages (`sampling/createMessage`, LIF-6). Without it, sampling is not declared and
    /// such a request is an error. The request names its server; whether the user agrees to it is for the embedder to ask.
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
    #[must_use]
    pub fn sampling(mut self, sampling: impl Sampling) -> Self {
        self.sampling = Some(Arc::new(sampling));
        self
    }

    /// Who is asked about calls that no rule decides (TOOL-10). Without it, only what a rule allows can be called.
    #[must_use]
    pub fn permit(mut self, permit: impl Permit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// Adds rules for calls, beside those in the settings and those added before.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Where to keep what each tool was when a call of it was first agreed to (TOOL-11). Without it, that is forgotten when the
    /// program ends.
    #[must_use]
    pub fn pins(mut self, pins: PinStore) -> Self {
        self.pins = pins;
        self
    }

    /// What to do about a tool that is not what it was.
    #[must_use]
    pub fn on_change(mut self, on_change: OnChange) -> Self {
        self.on_change = on_change;
        self
    }

    /// Where to write down what servers say and what becomes of them. Without it, nothing is.
    #[must_use]
    pub fn logs(mut self, logs: LogStore) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Who writes down every message. Without it, nobody does, and it costs nothing.
    #[must_use]
    pub fn trace(mut self, tracer: Tracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// The settings, with what was said about single ones and where servers are looked for.
    pub(crate) fn take_settings(&mut self) -> Settings {
        let mut settings = std::mem::take(&mut self.settings);
        if let Some(lazy) = self.lazy {
            settings.lazy = lazy;
        }
        let of_loader = || {
            let (loader, _) = self.loader.as_ref()?;
            Some(loader.project().cwd.clone())
        };
        let given = self.project_dir.clone().or(settings.project_dir);
        settings.project_dir = given.or_else(of_loader);
        settings
    }

    /// How to find servers, if they are to be found.
    pub(crate) fn plan(&mut self) -> Option<DiscoveryOptions> {
        let (loader, initial_set) = self.loader.take()?;
        Some(DiscoveryOptions {
            loader,
            initial_set,
            connectors: self.connectors.take(),
            dialer: self.dialer.clone(),
            watch: self.watch.unwrap_or(self.discovers),
            filter: self.only.take(),
        })
    }

    /// Starts the host on the current Tokio runtime and returns at once; servers connect in the background.
    pub fn start(self) -> Host {
        Host::start(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    type Call = fn(HostBuilder) -> HostBuilder;

    /// Everything that the calls below say.
    fn said(mut builder: HostBuilder) -> String {
        let settings = builder.take_settings();
        let plan = builder.plan().unwrap();
        let HostBuilder {
            rules, on_change, ..
        } = builder;
        format!(
            "{settings:?} {} {} {rules:?} {on_change:?}",
            plan.watch,
            plan.loader.project().cwd.display(),
        )
    }

    fn permutations(calls: &[Call], told: &mut dyn FnMut(String)) {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        permute(&mut order, 0, &mut |order| {
            let built = order
                .iter()
                .fold(HostBuilder::default(), |builder, at| calls[*at](builder));
            told(said(built));
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
        permutations(&calls, &mut |said| {
            count += 1;
            assert_eq!(first.get_or_insert_with(|| said.clone()), &said);
        });
        assert_eq!(count, 720);
        let first = first.unwrap();
        for part in ["7s", "lazy: true", "Some(\"/p\")", "mcp__a", "mcp__b"] {
            assert!(first.contains(part), "{part} in {first}");
        }
        // What is said about one setting counts before all of them together.
        let mut builder = HostBuilder::default().project_dir("/q").settings(Settings {
            project_dir: Some("/r".into()),
            ..Settings::default()
        });
        assert_eq!(builder.take_settings().project_dir, Some("/q".into()));
    }
}
