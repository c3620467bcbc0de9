//! From files and flags to the set of servers (CFG-1), in three steps: `read` reads every file
//! once, `interpret` turns the texts into entries, settings and policy, and `resolve` decides the
//! status of each entry. Binding approvals by name is a step of its own:
//! [`ServerSet::bind_approvals`].

mod interpret;
mod read;
mod resolve;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use resolve::{Resolver, resolve};
pub(crate) use state::LoadState;

use crate::approval::{ApprovalSettings, Listings, MAX_FILES, repository_files};
use crate::diagnostic::Diagnostic;
use crate::expand::Environment;
use crate::files::{LastGood, is_absence, shown};
use crate::hooks::hooks_of;
use crate::layout::{Layout, Project};
use crate::lock_file::problems_with_locks;
use crate::permissions::Permissions;
use crate::sandbox::SandboxPolicy;
use crate::scopes::ConnectorEntry;
use crate::server_set::{EntryStatus, Server, ServerSet};
use interpret::Interpreted;

/// Loads configuration. A loader can be used repeatedly: a file that has become unusable since the
/// last load keeps its last good content.
///
/// ```
/// use trunkline_config::{Layout, Loader};
///
/// let loader = Loader::new(Layout::under("/nowhere"), "/nowhere")
///     .mcp_config([r#"{"mcpServers": {"a": {"command": "cat"}, "b": {}}}"#]);
/// let set = loader.load(&[]);
/// assert_eq!(set.active().next().unwrap().name, "a");
/// assert!(set.diagnostics[0].to_string().contains("neither a \"command\" nor a \"url\""));
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    layout: Layout,
    project: Project,
    environment: Environment,
    mcp_config: Vec<String>,
    strict: bool,
    plugin_dirs: Vec<PathBuf>,
    approve_project: bool,
    last_good: Arc<LastGood>,
}

impl Loader {
    /// Creates a loader for the configuration that applies in a working directory.
    pub fn new(layout: Layout, cwd: impl Into<PathBuf>) -> Self {
        Self {
            layout,
            project: Project::at(cwd),
            environment: Environment::process(),
            mcp_config: Vec::new(),
            strict: false,
            plugin_dirs: Vec::new(),
            approve_project: false,
            last_good: Arc::default(),
        }
    }

    /// Adds arguments of `--mcp-config`: files, or JSON texts.
    #[must_use]
    pub fn mcp_config<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.mcp_config
            .extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Loads only the servers of `--mcp-config`.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Adds plugins by their directories.
    #[must_use]
    pub fn plugin_dirs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.plugin_dirs.extend(dirs);
        self
    }

    /// Approves the project's pending servers, for this loader only.
    #[must_use]
    pub fn approve_project(mut self, approve: bool) -> Self {
        self.approve_project = approve;
        self
    }

    /// Expands variables from this environment instead of that of the process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The paths of all configuration files.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Whether the set can contain connectors: there is no enterprise configuration, and loading is
    /// not limited to `--mcp-config`.
    pub fn wants_connectors(&self) -> bool {
        !self.strict && !is_exclusive(&self.layout)
    }

    /// Loads everything. The caller fetches the connectors, because this crate does no network I/O.
    pub fn load(&self, connectors: &[ConnectorEntry]) -> ServerSet {
        let cwd = shown(&self.project.cwd);
        let environment = self.environment.with("CLAUDE_PROJECT_DIR", cwd);
        let mut state = LoadState::new(environment, &self.project.cwd, &self.last_good);
        let files = self.read(&mut state);
        let interpreted = self.interpret(&mut state, &files, connectors);
        self.resolve(state, interpreted)
    }

    /// The third step: decides the status of every entry.
    fn resolve(&self, mut state: LoadState, interpreted: Interpreted) -> ServerSet {
        self.find_repository_files(&mut state);
        compare_with_locks(&mut state);
        let Interpreted {
            settings,
            policy,
            approval_settings,
            approvals,
            disabled,
            all_disabled,
            enabled,
            exclusive,
            managed_unreadable,
        } = interpreted;
        let sandbox = SandboxPolicy::of(&settings);
        for entry in &mut state.entries {
            sandbox.confine(entry);
        }
        let servers = resolve(
            state.entries,
            &Resolver {
                policy: &policy,
                approval_settings: &approval_settings,
                approve_project: self.approve_project,
                approvals: approvals.of_project(self.project.key()),
                disabled,
                all_disabled,
                enabled,
                own_program: std::env::current_exe().ok(),
            },
        );
        let active = servers
            .iter()
            .filter(|server| server.status == EntryStatus::Active);
        let running = active.map(|server| server.entry.name.clone()).collect();
        let mut diagnostics = state.diagnostics;
        diagnostics.extend(named_only(&servers, &approval_settings));
        ServerSet {
            approve_all: approval_settings.all,
            servers,
            diagnostics,
            exclusive: exclusive.then(|| self.layout.managed_servers()),
            files: state.files,
            policy,
            sandbox,
            permissions: Permissions::of(&settings),
            hooks: hooks_of(&settings),
            audit: settings
                .iter()
                .find_map(|file| file.audit.clone())
                .map(Arc::new),
            call_policy: settings
                .iter()
                .find_map(|file| file.call_policy.clone())
                .map(Arc::new),
            running,
            managed_unreadable,
        }
    }

    /// Hashes the repository files that entries in need of approval run.
    fn find_repository_files(&self, state: &mut LoadState) {
        let mut listings = Listings::default();
        let entries = state.entries.iter_mut();
        for entry in entries.filter(|entry| entry.needs_approval()) {
            let found = repository_files(entry, &self.project, &mut listings);
            for (path, file) in found.files {
                state.files.push(path);
                entry.files.push(file);
            }
            entry.too_many_files = found.too_many;
            if found.too_many {
                let message = format!(
                    "it names more than {MAX_FILES} files of the repository, or too many words, \
                     so it cannot be approved; run a script that does the rest"
                );
                let problem = Diagnostic::warning(&entry.source, message).about(&entry.name);
                state.diagnostics.push(problem);
            }
        }
    }
}

/// Reports how the project's entries differ from its lock file.
fn compare_with_locks(state: &mut LoadState) {
    let found = problems_with_locks(&state.entries);
    state.files.extend(found.files);
    let problems = found.problems.into_iter();
    state
        .diagnostics
        .extend(problems.map(|(file, server, message)| {
            let problem = Diagnostic::warning(shown(&file), message);
            match server {
                Some(server) => problem.about(&server),
                None => problem,
            }
        }));
}

/// Whether the enterprise configuration exists, usable or not: then no other scope counts.
pub fn is_exclusive(layout: &Layout) -> bool {
    match layout.managed_servers().symlink_metadata() {
        Ok(_) => true,
        Err(error) => !is_absence(&error),
    }
}

/// Explains why a server that the user's settings name is pending.
fn named_only(servers: &[Server], approval_settings: &ApprovalSettings) -> Vec<Diagnostic> {
    let pending = servers
        .iter()
        .filter(|server| server.status == EntryStatus::PendingApproval { before: None });
    let explained = pending.filter_map(|server| {
        let source = approval_settings.names_only(&server.entry)?;
        let message = "\"enabledMcpjsonServers\" in the user settings applies only to projects \
                       where the server was approved before; run `trunkline approve` in this one";
        Some(Diagnostic::warning(source, message).about(&server.entry.name))
    });
    explained.collect()
}

/// The canonical form of a path, or the path itself if it has none.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
