//! Entry points for the fuzz targets in `fuzz/`: private parsers, without disk access. Not part of
//! the API.

use std::path::Path;

use crate::approval::{ApprovalSettings, StoredApprovals};
use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::edit::splice;
use crate::entry::{HttpEntry, HttpFlavour, RawEntry, ServerEntry, TransportEntry};
use crate::expand::{Environment, ExpansionReport};
use crate::files::LastGood;
use crate::load::LoadState;
use crate::load::{Resolver, resolve};
use crate::names::PLUGIN_PREFIX;
use crate::policy::{Policy, Rule};
use crate::scopes::{self, Scope};
use crate::server_set::ServerSet;
use crate::settings::{Origin, Settings, disabled_names};

/// The result of loading if every file had this text: the servers of every scope, every settings
/// file, and the approvals. With `only_project` only the project's files have it, which may approve
/// nothing.
pub fn load(text: &str, only_project: bool) -> ServerSet {
    let mut set = ServerSet::default();
    let document = Document::new("f", text);
    let root = match document.root() {
        Ok(root) => root,
        Err(problem) => {
            set.diagnostics.push(problem);
            return set;
        }
    };
    let last_good = LastGood::default();
    let environment = Environment::of([("A", "one"), ("URL", "https://h/"), ("EMPTY", "")]);
    let mut state = LoadState::new(environment, Path::new("/"), &last_good);

    let origins: &[Origin] = if only_project {
        &[Origin::Project]
    } else {
        &[
            Origin::Managed,
            Origin::User,
            Origin::Local,
            Origin::Project,
        ]
    };
    let mut settings: Vec<Settings> = origins
        .iter()
        .map(|origin| Settings::read(&document, &root, *origin, &mut state.diagnostics))
        .collect();
    let mut policy = Policy::default();
    for file in &mut settings {
        policy.deny(std::mem::take(&mut file.deny), &file.source);
        if let Some(allow) = file.allow.take() {
            policy.allow(allow, &file.source);
        }
    }

    let project = [Scope::Project];
    let scopes: &[Scope] = if only_project { &project } else { &Scope::ALL };
    for scope in scopes {
        match (scope, root.get("mcpServers")) {
            (Scope::Plugin, Some(raw)) => {
                let rename = |name: &str| format!("{PLUGIN_PREFIX}p:{name}");
                scopes::servers(&mut state, &document, raw, *scope, rename);
            }
            _ => scopes::file_servers(&mut state, &document, &root, *scope),
        }
    }
    let names = |key| {
        let raw = root.get(key)?;
        document.decode::<Vec<String>>(raw).ok()
    };
    let approvals: StoredApprovals = if only_project {
        StoredApprovals::default()
    } else {
        serde_json::from_str(text).unwrap_or_default()
    };
    let (disabled, all_disabled) = disabled_names(&document, &root, &mut state.diagnostics);
    set.servers = resolve(
        state.entries,
        &Resolver {
            policy: &policy,
            approval_settings: &ApprovalSettings::of(&settings),
            approve_project: false,
            approvals: approvals.of_project(Some("p")),
            disabled: disabled.into_iter().collect(),
            all_disabled,
            enabled: names("enabledMcpServers").into_iter().flatten().collect(),
            own_program: None,
        },
    );
    set.diagnostics = state.diagnostics;
    set.policy = policy;
    set
}

/// Expands the variables of a text; also returns the warnings.
pub fn expand(text: &str, environment: &Environment) -> (String, Vec<String>) {
    let mut report = ExpansionReport::default();
    let expanded = crate::expand::expand(text, environment, &mut report);
    (expanded, report.warnings(|_| false))
}

/// Whether policy blocks a server at `url`, given only these lists.
pub fn blocks(allow: Option<&str>, deny: Option<&str>, url: &str) -> bool {
    let mut policy = Policy::default();
    if let Some(pattern) = allow {
        policy.allow(vec![Rule::url(pattern)], "f");
    }
    if let Some(pattern) = deny {
        policy.deny(vec![Rule::url(pattern)], "f");
    }
    let http = HttpEntry::new(HttpFlavour::Streamable, url);
    let entry = ServerEntry::new("s", TransportEntry::Http(http));
    policy.blocks(&entry).is_some()
}

/// Why an entry is invalid.
pub fn unusable(entry: &str) -> Option<String> {
    let raw: RawEntry = match serde_json::from_str(entry) {
        Ok(raw) => raw,
        Err(error) => return Some(error.to_string()),
    };
    let environment = Environment::of::<&str, &str>([]);
    let mut report = ExpansionReport::default();
    raw.check("s", Scope::User, "f", &environment, &mut report)
        .err()
}

/// `text` with the member at `path` set.
pub fn set(text: &str, path: &[&str], value: &serde_json::Value) -> Result<String, String> {
    splice::set(text, path, value).map_err(|error| error.to_string())
}

/// `text` without the member at `path`; `None` if there is none.
pub fn remove(text: &str, path: &[&str]) -> Result<Option<String>, String> {
    splice::remove(text, path).map_err(|error| error.to_string())
}

/// The member at `path` as written.
pub fn get(text: &str, path: &[&str]) -> Result<Option<String>, String> {
    let found = splice::get(text, path).map_err(|error| error.to_string())?;
    Ok(found.map(|raw| raw.get().to_owned()))
}

/// The name of a member, its value as written, and the line and column of the value.
pub type Member = (String, String, (usize, usize));

/// The members of a text that is a JSON object.
pub fn members(text: &str) -> Result<Vec<Member>, Diagnostic> {
    let document = Document::new("f", text);
    let root = document.root()?;
    let member = |(name, raw): (&str, &serde_json::value::RawValue)| {
        let position = document.position(document.offset(raw));
        (name.to_owned(), raw.get().to_owned(), position)
    };
    Ok(root.iter().map(member).collect())
}

/// The line and column, both from 1, of the byte at `offset`.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    crate::locate::position(text, offset)
}
