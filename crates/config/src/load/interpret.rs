//! The second step of loading: turns the texts of files into entries, settings and policy.

use std::collections::HashSet;
use std::path::Path;

use super::read::{ConfigFiles, ManagedText};
use super::{LoadState, Loader, real};
use crate::approval::{ApprovalSettings, StoredApprovals};
use crate::call_policy::CallPolicy;
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::files::{FileText, shown, without_bom};
use crate::policy::Policy;
use crate::scopes::{self, ConnectorEntry, Scope};
use crate::settings::{Origin, PermissionLists, Settings, disabled_names, names};

/// Everything that decides the status of the entries, except for the entries themselves.
pub(super) struct Interpreted {
    pub(super) settings: Vec<Settings>,
    pub(super) policy: Policy,
    pub(super) approval_settings: ApprovalSettings,
    pub(super) approvals: StoredApprovals,
    /// `disabledMcpServers` of this project.
    pub(super) disabled: HashSet<String>,
    /// `disabledMcpServers` is not a list, so it may name any server.
    pub(super) all_disabled: bool,
    /// `enabledMcpServers` of this project.
    pub(super) enabled: HashSet<String>,
    pub(super) exclusive: bool,
    pub(super) managed_unreadable: bool,
}

/// An object in `~/.claude.json`: the whole file, or the part that belongs to this project.
type Section<'d, 'a> = (&'d Document<'a>, Members<'a>);

impl Loader {
    pub(super) fn interpret(
        &self,
        state: &mut LoadState,
        files: &ConfigFiles,
        connectors: &[ConnectorEntry],
    ) -> Interpreted {
        let source = shown(&self.layout.global_file);
        let document = files.global.text().map(|text| Document::new(&source, text));
        let global: Option<Section> = document
            .as_ref()
            .and_then(|document| Some((document, document.root().ok()?)));
        let local = global
            .as_ref()
            .and_then(|global| self.local_section(state, global));

        let mut policy = Policy::default();
        let mut settings = self.settings(state, files, local.as_ref(), &mut policy);
        collect_policy(&mut settings, &mut policy);
        let mut managed_unreadable = policy.is_unreadable();
        if let Some(text) = &files.managed_servers {
            managed_unreadable |= !self.enterprise_servers(state, text);
        } else {
            scopes::dynamic(state, &self.mcp_config, &self.project.cwd);
            if !self.strict {
                self.scoped_servers(state, files, global.as_ref(), local.as_ref());
                scopes::plugin(
                    state,
                    &self.layout,
                    &settings,
                    &self.plugin_dirs,
                    &self.project.root,
                );
                scopes::claudeai(state, connectors);
            }
        }
        let ((disabled, all_disabled), enabled) = match &local {
            Some((document, local)) => (
                disabled_names(document, local, &mut state.diagnostics),
                names(document, local, "enabledMcpServers", &mut state.diagnostics),
            ),
            None => Default::default(),
        };
        let mut approval_settings = ApprovalSettings::of(&settings);
        approval_settings.unknown = [&files.global, &files.user_settings]
            .iter()
            .any(|file| file.may_contain(&["disabledMcpjsonServers"]));
        Interpreted {
            policy,
            approval_settings,
            approvals: self.approvals(state, &files.approvals),
            disabled: disabled.into_iter().collect(),
            all_disabled,
            enabled: enabled.into_iter().collect(),
            exclusive: files.managed_servers.is_some(),
            managed_unreadable,
            settings,
        }
    }

    /// The part of `~/.claude.json` that belongs to this project.
    fn local_section<'d, 'a>(
        &self,
        state: &mut LoadState,
        (document, root): &Section<'d, 'a>,
    ) -> Option<Section<'d, 'a>> {
        let projects = root.get("projects")?;
        let key = self.project.key()?;
        let section = document
            .members(projects)
            .and_then(|projects| match projects.get(key) {
                Some(raw) => document.members(raw).map(Some),
                None => Ok(None),
            });
        match section {
            Ok(members) => Some((*document, members?)),
            Err(problem) => {
                let message = format!("\"projects\": {}", problem.message);
                let problem = document.problem(problem.offset, message);
                state.diagnostics.push(problem);
                None
            }
        }
    }

    /// All settings that count. Marks the policy as unreadable if a file with rules is.
    fn settings(
        &self,
        state: &mut LoadState,
        files: &ConfigFiles,
        local: Option<&Section>,
        policy: &mut Policy,
    ) -> Vec<Settings> {
        let relocated = self.is_relocated_into_project();
        let (user_origin, local_origin) = if relocated {
            (Origin::Relocated, Origin::Relocated)
        } else {
            (Origin::User, Origin::Local)
        };
        let mut settings = Vec::new();
        settings.extend(self.managed_settings(state, &files.managed_settings, policy));
        let user = self.layout.settings_file();
        settings.extend(file_settings(
            state,
            &user,
            &files.user_settings,
            user_origin,
        ));
        // An unreadable file may deny any server, unless it cannot have contained such a list.
        if files
            .user_settings
            .may_contain(&["deniedMcpServers", "allowedMcpServers"])
        {
            policy.unreadable(&shown(&user));
        }
        if files
            .user_settings
            .may_contain(&["\"deny\"", "\"ask\"", "\"PreToolUse\""])
        {
            settings.push(Settings {
                permissions: PermissionLists::deny_all(),
                ..Settings::empty(user_origin, &shown(&user))
            });
        }
        if let Some((document, members)) = local {
            let diagnostics = &mut state.diagnostics;
            settings.push(Settings::read(document, members, local_origin, diagnostics));
        }
        for (path, text) in &files.project_settings {
            settings.extend(file_settings(state, path, text, Origin::Project));
        }
        if relocated {
            let dir = self.layout.moved_to.as_deref();
            let message = "CLAUDE_CONFIG_DIR is inside the repository, so its servers, approvals \
                           and plugins do not count; move it out of the repository";
            let source = dir.map(shown).unwrap_or_default();
            state.diagnostics.push(Diagnostic::warning(source, message));
        }
        settings
    }

    fn managed_settings(
        &self,
        state: &mut LoadState,
        text: &ManagedText,
        policy: &mut Policy,
    ) -> Option<Settings> {
        let path = self.layout.managed_settings();
        let source = shown(&path);
        let problem = match text {
            Ok(Some(text)) => {
                let document = Document::new(&source, text);
                match document.root() {
                    Ok(root) => {
                        let diagnostics = &mut state.diagnostics;
                        let origin = Origin::Managed;
                        return Some(Settings::read(&document, &root, origin, diagnostics));
                    }
                    Err(problem) => problem,
                }
            }
            Ok(None) if path.symlink_metadata().is_ok() => {
                Diagnostic::error(&source, "the file is a broken link")
            }
            Ok(None) => return None,
            Err(error) => Diagnostic::error(&source, error.to_string()),
        };
        policy.unreadable(&source);
        let call_policy = CallPolicy::unusable(&source, &problem.message);
        state.diagnostics.push(problem);
        Some(Settings {
            call_policy: Some(call_policy),
            ..Settings::empty(Origin::Managed, &source)
        })
    }

    /// The servers of the enterprise configuration. An unusable file still excludes all others.
    /// Returns whether it is usable.
    fn enterprise_servers(&self, state: &mut LoadState, text: &ManagedText) -> bool {
        let path = self.layout.managed_servers();
        let source = shown(&path);
        let text = text.as_ref().map(Option::as_deref);
        let document = text.map(|text| Document::new(&source, text.unwrap_or_default()));
        let problem = match &document {
            Ok(document) => match document.root() {
                Ok(root) => {
                    state.relative_to_file(&path);
                    scopes::file_servers(state, document, &root, Scope::Enterprise);
                    None
                }
                Err(problem) => Some(problem),
            },
            Err(error) => Some(Diagnostic::error(&source, error.to_string())),
        };
        let usable = problem.is_none();
        if let Some(problem) = problem {
            let message = format!(
                "{}; the enterprise configuration has exclusive control, so no servers load until \
                 it is fixed",
                problem.message
            );
            state.diagnostics.push(Diagnostic { message, ..problem });
        }
        if !self.mcp_config.is_empty() {
            let message = format!(
                "ignored, because the enterprise configuration ({source}) has exclusive control"
            );
            let problem = Diagnostic::warning("--mcp-config", message);
            state.diagnostics.push(problem);
        }
        usable
    }

    /// The servers of the local, user and project scopes.
    fn scoped_servers(
        &self,
        state: &mut LoadState,
        files: &ConfigFiles,
        global: Option<&Section>,
        local: Option<&Section>,
    ) {
        let relocated = self.is_relocated_into_project();
        if !relocated {
            if let Some((document, members)) = local {
                // They belong to the project, wherever the file is that holds them.
                state.base.clone_from(&self.project.root);
                scopes::members_servers(state, document, members, Scope::Local);
            }
            if let Some((document, root)) = global {
                state.relative_to_file(&self.layout.global_file);
                scopes::members_servers(state, document, root, Scope::User);
            }
        }
        for (path, text) in &files.project_servers {
            with_root(path, text, |document, root| {
                state.relative_to_file(path);
                scopes::file_servers(state, document, root, Scope::Project);
            });
        }
        if !relocated {
            // After those in `~/.claude.json`, which are stronger.
            let path = self.layout.settings_file();
            with_root(&path, &files.user_settings, |document, root| {
                state.relative_to_file(&path);
                scopes::members_servers(state, document, root, Scope::User);
            });
        }
    }

    /// Whether `CLAUDE_CONFIG_DIR` points to where the project's author could have put the files:
    /// below a directory whose `.mcp.json` counts here, or into a repository around the working
    /// directory. From there a project could approve itself.
    fn is_relocated_into_project(&self) -> bool {
        let Some(dir) = &self.layout.moved_to else {
            return false;
        };
        let dir = real(dir);
        let belongs_to_project = |above: &&Path| {
            above.join(&self.layout.project_file).exists() || above.join(".git").exists()
        };
        let mut above = self.project.cwd.ancestors().filter(belongs_to_project);
        above.any(|above| dir.starts_with(real(above)))
    }

    fn approvals(&self, state: &mut LoadState, file: &FileText) -> StoredApprovals {
        let text = match file {
            FileText::Missing => return StoredApprovals::default(),
            FileText::Unusable { .. } => return StoredApprovals::unreadable(),
            FileText::Text(text) => without_bom(text),
        };
        serde_json::from_str(text).unwrap_or_else(|error| {
            let message =
                format!("the approvals are unreadable: {error}; delete the file and approve again");
            let source = shown(&self.layout.approvals_file());
            state.diagnostics.push(Diagnostic::error(source, message));
            StoredApprovals::unreadable()
        })
    }
}

/// Moves the allow and deny lists of all settings into the policy.
fn collect_policy(settings: &mut [Settings], policy: &mut Policy) {
    let managed_only = settings.iter().any(|file| file.managed_only);
    for file in settings {
        policy.deny(std::mem::take(&mut file.deny), &file.source);
        if let Some(allow) = file.allow.take()
            && (!managed_only || file.origin == Origin::Managed)
        {
            policy.allow(allow, &file.source);
        }
    }
}

fn file_settings(
    state: &mut LoadState,
    path: &Path,
    text: &FileText,
    origin: Origin,
) -> Option<Settings> {
    with_root(path, text, |document, root| {
        Settings::read(document, root, origin, &mut state.diagnostics)
    })
}

/// Calls `work` with the root object of a file that is usable.
fn with_root<T>(
    path: &Path,
    text: &FileText,
    work: impl FnOnce(&Document, &Members) -> T,
) -> Option<T> {
    let source = shown(path);
    let document = Document::new(&source, text.text()?);
    let root = document.root().ok()?;
    Some(work(&document, &root))
}
