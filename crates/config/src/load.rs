//! From files and flags to the set of servers: who exists, who may run, who wins (CFG-1).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::approve::{Approvals, Choices};
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::expand::Environment;
use crate::files::{LastGood, ReadError, is_absence, shown};
use crate::layout::{Layout, Project};
use crate::load_state::LoadState;
use crate::permissions::Permissions;
use crate::policy::Policy;
use crate::resolve::{Resolution, resolve};
use crate::runs::{MAX_FILES, repository_files};
use crate::scopes::{self, ConnectorEntry, Scope};
use crate::server_set::{Server, ServerSet, Standing};
use crate::settings::{Origin, PermissionLists, Settings, names};

/// Loads configuration. It can be asked again and again: a file that has become unusable since the last time keeps the
/// meaning it had.
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
    approve_all: bool,
    last_good: Arc<LastGood>,
}

impl Loader {
    /// Loads what counts in this working directory.
    pub fn new(layout: Layout, cwd: impl Into<PathBuf>) -> Self {
        Self {
            layout,
            project: Project::at(cwd),
            environment: Environment::process(),
            mcp_config: Vec::new(),
            strict: false,
            plugin_dirs: Vec::new(),
            approve_all: false,
            last_good: Arc::default(),
        }
    }

    /// Adds what `--mcp-config` names: files, or JSON texts.
    #[must_use]
    pub fn mcp_config<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.mcp_config
            .extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Loads only what `--mcp-config` names.
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
        self.approve_all = approve;
        self
    }

    /// Takes variables from here instead of from the process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Whether connectors can be part of the set at all: no company file, and not only what `--mcp-config` names.
    pub fn wants_connectors(&self) -> bool {
        !self.strict && !is_exclusive(&self.layout)
    }

    /// Loads everything. Connectors come from elsewhere, as this crate does no network.
    pub fn load(&self, connectors: &[ConnectorEntry]) -> ServerSet {
        let cwd = shown(&self.project.cwd);
        let environment = self.environment.with("CLAUDE_PROJECT_DIR", cwd);
        let mut gather = LoadState::new(environment, &self.project.cwd, &self.last_good);
        let global = gather.read(&self.layout.global_file);
        let global_source = shown(&self.layout.global_file);
        let global = global
            .as_deref()
            .map(|text| Document::new(&global_source, text));
        let global = global.as_ref().and_then(|document| {
            let root = document.root().ok()?;
            Some((document, root))
        });
        let local = global
            .as_ref()
            .and_then(|(document, root)| self.local(&mut gather, document, root));
        let mut policy = Policy::default();
        let settings = self.settings(&mut gather, &mut policy, global.as_ref(), local.as_ref());

        let exclusive = is_exclusive(&self.layout);
        let mut doubtful = policy.is_unreadable();
        if exclusive {
            doubtful |= !self.enterprise(&mut gather);
        } else {
            // It may come at any time.
            gather.files.push(self.layout.managed_servers());
            self.other_scopes(
                &mut gather,
                &settings,
                connectors,
                global.as_ref(),
                local.as_ref(),
            );
        }
        let (disabled, enabled) = match (&global, &local) {
            (Some((document, _)), Some(local)) => {
                let mut names = |key| names(document, local, key, &mut gather.diagnostics);
                (
                    names("disabledMcpServers").into_iter().collect(),
                    names("enabledMcpServers").into_iter().collect(),
                )
            }
            _ => Default::default(),
        };
        let approvals = self.approvals(&mut gather);
        let LoadState {
            mut entries,
            mut diagnostics,
            mut files,
            ..
        } = gather;
        for entry in entries.iter_mut().filter(|entry| entry.needs_approval()) {
            let runs = repository_files(entry, &self.project);
            for (path, file) in runs.files {
                files.push(path);
                entry.files.push(file);
            }
            entry.too_many_files = runs.too_many;
            if runs.too_many {
                let message = format!(
                    "it names more than {MAX_FILES} files of the repository, or too many words to look at, so no approval can hold what it runs; let it run a script that does the rest"
                );
                diagnostics.push(Diagnostic::warning(&entry.source, message).about(&entry.name));
            }
        }
        let choices = self.choices(&settings);
        let servers = resolve(
            entries,
            &Resolution {
                policy: &policy,
                choices: &choices,
                approve_all: self.approve_all,
                bindings: approvals.of_project(self.project.key()),
                disabled,
                enabled,
            },
        );
        diagnostics.extend(named_only(&servers, &choices));
        ServerSet {
            approve_all: choices.all,
            servers,
            diagnostics,
            exclusive: exclusive.then(|| self.layout.managed_servers()),
            files,
            policy,
            permissions: Permissions::of(&settings),
            doubtful,
        }
    }

    /// What the settings say about the project's servers. Where one of the user's files cannot be read, it is not known whom
    /// it rejects, and nobody is approved.
    fn choices(&self, settings: &[Settings]) -> Choices {
        let unusable = |path: &Path| {
            path.exists()
                && self.last_good.last(path).is_none()
                && may_say(path, &["disabledMcpjsonServers"])
        };
        let mut choices = Choices::of(settings);
        choices.unknown =
            unusable(&self.layout.global_file) || unusable(&self.layout.settings_file());
        choices
    }

    /// What `~/.claude.json` keeps for this project.
    fn local<'a>(
        &self,
        gather: &mut LoadState,
        document: &Document<'a>,
        root: &Members<'a>,
    ) -> Option<Members<'a>> {
        let projects = root.get("projects")?;
        let key = self.project.key()?;
        let of_project = document
            .members(projects)
            .and_then(|projects| match projects.get(key) {
                Some(raw) => document.members(raw).map(Some),
                None => Ok(None),
            });
        of_project.unwrap_or_else(|problem| {
            let message = format!("\"projects\": {}", problem.message);
            gather
                .diagnostics
                .push(document.problem(problem.offset, message));
            None
        })
    }

    /// The company's servers, and nobody else's. Even a file that cannot be read keeps all others out; false if it is such a
    /// one.
    fn enterprise(&self, gather: &mut LoadState) -> bool {
        let path = self.layout.managed_servers();
        let source = shown(&path);
        let result = match gather.read_managed(&path) {
            Ok(text) => {
                let text = text.unwrap_or_default();
                let document = Document::new(&source, &text);
                match document.root() {
                    Ok(root) => {
                        gather.relative_to_file(&path);
                        scopes::file_servers(gather, &document, &root, Scope::Enterprise);
                        Ok(())
                    }
                    Err(problem) => Err(problem),
                }
            }
            Err(error) => Err(Diagnostic::error(&source, error.to_string())),
        };
        let usable = result.is_ok();
        if let Err(problem) = result {
            let message = format!(
                "{}; the enterprise configuration keeps exclusive control, so no servers load until it is mended",
                problem.message
            );
            gather.diagnostics.push(Diagnostic { message, ..problem });
        }
        if !self.mcp_config.is_empty() {
            let message = format!(
                "it is left out: the enterprise configuration ({source}) has exclusive control"
            );
            gather
                .diagnostics
                .push(Diagnostic::warning("--mcp-config", message));
        }
        usable
    }

    fn other_scopes<'a>(
        &self,
        gather: &mut LoadState,
        settings: &[Settings],
        connectors: &[ConnectorEntry],
        global: Option<&(&Document<'a>, Members<'a>)>,
        local: Option<&Members<'a>>,
    ) {
        scopes::dynamic(gather, &self.mcp_config, &self.project.cwd);
        if self.strict {
            return;
        }
        let moved_inside = self.is_moved_inside();
        if let Some((document, root)) = global.filter(|_| !moved_inside) {
            if let Some(local) = local {
                // They are for this project, wherever the file is that keeps them.
                gather.base.clone_from(&self.project.root);
                scopes::members_servers(gather, document, local, Scope::Local);
            }
            gather.relative_to_file(&self.layout.global_file);
            scopes::members_servers(gather, document, root, Scope::User);
        }
        for dir in self.project.cwd.ancestors() {
            servers_file(gather, &dir.join(&self.layout.project_file), Scope::Project);
        }
        if !moved_inside {
            self.user_settings_servers(gather);
        }
        scopes::plugin(
            gather,
            &self.layout,
            settings,
            &self.plugin_dirs,
            &self.project.root,
        );
        scopes::claudeai(gather, connectors);
    }

    /// Servers in the user's settings, which come after those in `~/.claude.json`.
    fn user_settings_servers(&self, gather: &mut LoadState) {
        let path = self.layout.settings_file();
        let source = shown(&path);
        let Some(text) = gather.again(&path) else {
            return;
        };
        let document = Document::new(&source, &text);
        if let Ok(root) = document.root() {
            gather.relative_to_file(&path);
            scopes::members_servers(gather, &document, &root, Scope::User);
        }
    }

    /// Whether the user's files have been moved to where a project's author could have put them: below a directory whose file of
    /// servers counts here, or into the outermost repository. From there a project could approve itself.
    fn is_moved_inside(&self) -> bool {
        let Some(dir) = &self.layout.moved_to else {
            return false;
        };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let dir = real(dir);
        let of_project = |above: &&Path| {
            above.join(&self.layout.project_file).exists() || above.join(".git").exists()
        };
        let mut above = self.project.cwd.ancestors().filter(of_project);
        above.any(|above| dir.starts_with(real(above)))
    }

    /// All settings that count, and the policy in them.
    fn settings<'a>(
        &self,
        gather: &mut LoadState,
        policy: &mut Policy,
        global: Option<&(&Document<'a>, Members<'a>)>,
        local: Option<&Members<'a>>,
    ) -> Vec<Settings> {
        let moved_inside = self.is_moved_inside();
        let origin_of_user = if moved_inside {
            Origin::Moved
        } else {
            Origin::User
        };
        let mut settings = Vec::new();
        settings.extend(self.managed_settings(gather, policy));
        let user = self.layout.settings_file();
        let told = gather.diagnostics.len();
        settings.extend(settings_file(gather, &user, origin_of_user));
        // Of a file that cannot be read it is not known whom it denies; unless it cannot have been anybody.
        if gather.diagnostics.len() > told
            && gather.again(&user).is_none()
            && may_say(&user, &["deniedMcpServers", "allowedMcpServers"])
        {
            policy.unreadable(&shown(&user));
        }
        if gather.diagnostics.len() > told
            && gather.again(&user).is_none()
            && may_say(&user, &["\"deny\"", "\"ask\""])
        {
            let mut doubtful = Settings::empty(origin_of_user, &shown(&user));
            doubtful.permissions = PermissionLists::in_doubt();
            settings.push(doubtful);
        }
        if let (Some((document, _)), Some(local)) = (global, local) {
            let origin = if moved_inside {
                Origin::Moved
            } else {
                Origin::Local
            };
            settings.push(Settings::read(
                document,
                local,
                origin,
                &mut gather.diagnostics,
            ));
        }
        let mut dirs = vec![&self.project.root, &self.project.cwd];
        dirs.dedup();
        for path in dirs
            .iter()
            .flat_map(|dir| self.layout.project_settings(dir))
        {
            if path != user {
                settings.extend(settings_file(gather, &path, Origin::Project));
            }
        }
        if moved_inside {
            let message = "CLAUDE_CONFIG_DIR is inside the repository, so what is in it is not taken for yours: no servers, approvals or plugins; move it out";
            let source = self
                .layout
                .moved_to
                .as_deref()
                .map(shown)
                .unwrap_or_default();
            gather
                .diagnostics
                .push(Diagnostic::warning(source, message));
        }
        let managed_only = settings.iter().any(|file| file.managed_only);
        for file in &mut settings {
            policy.deny(std::mem::take(&mut file.deny), &file.source);
            if let Some(allow) = file.allow.take()
                && (!managed_only || file.origin == Origin::Managed)
            {
                policy.allow(allow, &file.source);
            }
        }
        settings
    }

    fn managed_settings(&self, gather: &mut LoadState, policy: &mut Policy) -> Option<Settings> {
        let path = self.layout.managed_settings();
        let source = shown(&path);
        let text = match gather.read_managed(&path) {
            // A link that leads nowhere was to be something.
            Ok(None) if path.symlink_metadata().is_ok() => {
                policy.unreadable(&source);
                let message = "it is a link that leads nowhere";
                gather.diagnostics.push(Diagnostic::error(source, message));
                return None;
            }
            Ok(text) => text?,
            Err(error) => {
                policy.unreadable(&source);
                let problem = Diagnostic::error(source, error.to_string());
                gather.diagnostics.push(problem);
                return None;
            }
        };
        let document = Document::new(&source, &text);
        match document.root() {
            Ok(root) => {
                let origin = Origin::Managed;
                Some(Settings::read(
                    &document,
                    &root,
                    origin,
                    &mut gather.diagnostics,
                ))
            }
            Err(problem) => {
                policy.unreadable(&source);
                gather.diagnostics.push(problem);
                None
            }
        }
    }

    fn approvals(&self, gather: &mut LoadState) -> Approvals {
        let path = self.layout.approvals_file();
        let problems = gather.diagnostics.len();
        let Some(text) = gather.read(&path) else {
            // Told already, if there is a file at all.
            return if gather.diagnostics.len() > problems {
                Approvals::unreadable()
            } else {
                Approvals::default()
            };
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        serde_json::from_str(text).unwrap_or_else(|error| {
            let message = format!(
                "what was approved cannot be told: {error}; delete the file and approve again"
            );
            gather
                .diagnostics
                .push(Diagnostic::error(shown(&path), message));
            Approvals::unreadable()
        })
    }
}

/// Explains why a server that the user's settings name is pending all the same.
fn named_only(servers: &[Server], choices: &Choices) -> Vec<Diagnostic> {
    let pending = servers
        .iter()
        .filter(|server| matches!(server.standing, Standing::PendingApproval { before: None }));
    let explained = pending.filter_map(|server| {
        let name = &server.entry.name;
        let source = choices.names_only(&server.entry)?;
        let message = "\"enabledMcpjsonServers\" in the user settings counts only in projects in which the server was approved before; approve it in this one with `trunkline approve`";
        Some(Diagnostic::warning(source, message).about(name))
    });
    explained.collect()
}

fn servers_file(gather: &mut LoadState, path: &Path, scope: Scope) {
    let Some(text) = gather.read(path) else {
        return;
    };
    let source = shown(path);
    let document = Document::new(&source, &text);
    if let Ok(root) = document.root() {
        gather.relative_to_file(path);
        scopes::file_servers(gather, &document, &root, scope);
    }
}

fn settings_file(gather: &mut LoadState, path: &Path, origin: Origin) -> Option<Settings> {
    let text = gather.read(path)?;
    let source = shown(path);
    let document = Document::new(&source, &text);
    let root = document.root().ok()?;
    Some(Settings::read(
        &document,
        &root,
        origin,
        &mut gather.diagnostics,
    ))
}

/// Whether a file that cannot be used may say something about any of these keys: it has them, or cannot even be looked at.
fn may_say(path: &Path, keys: &[&str]) -> bool {
    match crate::files::read(path) {
        Ok(text) => text.is_none_or(|text| keys.iter().any(|key| text.contains(key))),
        Err(ReadError::NotAFile) => false,
        Err(_) => true,
    }
}

/// Whether the company's file is there, in whatever state: then it alone counts.
pub fn is_exclusive(layout: &Layout) -> bool {
    match layout.managed_servers().symlink_metadata() {
        Ok(_) => true,
        Err(error) => !is_absence(&error),
    }
}
