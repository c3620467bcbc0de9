//! The `plugin` scope: servers of enabled plugins and of `--plugin-dir`.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use serde_json::value::RawValue;

use super::{Scope, servers};
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::entry::TransportEntry;
use crate::files::{FileText, shown, without_bom};
use crate::layout::Layout;
use crate::load::LoadState;
use crate::names::PLUGIN_PREFIX;
use crate::secret::Secret;
use crate::settings::Settings;

/// The variable for the directory of a plugin.
const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";

/// The servers file of a plugin.
const OWN_FILE: &str = ".mcp.json";

/// Loads the servers of all plugins: those of `--plugin-dir` first, then the enabled ones in the
/// order of the settings.
pub(crate) fn entries(
    state: &mut LoadState,
    layout: &Layout,
    settings: &[Settings],
    plugin_dirs: &[PathBuf],
    project: &Path,
) {
    for dir in plugin_dirs {
        if dir.is_dir() {
            plugin(state, dir, None);
        } else {
            let problem = Diagnostic::error(shown(dir), "there is no such plugin directory");
            state.diagnostics.push(problem);
        }
    }
    let enabled = enabled(settings);
    if enabled.is_empty() {
        return;
    }
    let installed = installed(state, layout, project);
    for (id, source) in enabled {
        let name = id.split('@').next().unwrap_or(&id);
        let found = installed
            .get(&id)
            .cloned()
            .or_else(|| unlisted(layout, &id));
        if let Some(root) = found {
            plugin(state, &root, Some(name));
        } else {
            let message = format!(
                "the plugin \"{id}\" is enabled but not installed; install it, or remove it from \"enabledPlugins\""
            );
            state.diagnostics.push(Diagnostic::warning(source, message));
        }
    }
}

/// The enabled plugins, each with the file that enables it. A plugin disabled in any file is
/// disabled.
fn enabled(settings: &[Settings]) -> Vec<(String, String)> {
    let all = || {
        let files = settings.iter();
        files.flat_map(|file| {
            file.plugins
                .iter()
                .map(move |plugin| (plugin, &file.source))
        })
    };
    let off: HashSet<&str> = all()
        .filter(|((_, on), _)| !on)
        .map(|((id, _), _)| id.as_str())
        .collect();
    let mut seen = HashSet::new();
    all()
        .filter(|((id, on), _)| *on && !off.contains(id.as_str()) && seen.insert(id.as_str()))
        .map(|((id, _), source)| (id.clone(), source.clone()))
        .collect()
}

/// The directories of installed plugins according to `installed_plugins.json`.
fn installed(state: &mut LoadState, layout: &Layout, project: &Path) -> HashMap<String, PathBuf> {
    let path = layout.plugins_dir().join("installed_plugins.json");
    let source = shown(&path);
    let mut found = HashMap::new();
    let FileText::Text(text) = state.read(&path) else {
        return found;
    };
    let document = Document::new(&source, &text);
    let plugins = document.root().ok().and_then(|root| {
        let raw = root.get("plugins")?;
        document.members(raw).ok()
    });
    for (id, raw) in plugins.iter().flat_map(Members::iter) {
        // One installation, or in newer files a list: for the user, or for one project.
        let list: Vec<&RawValue> = document.decode(raw).unwrap_or_else(|_| vec![raw]);
        let paths = list.into_iter().filter_map(|raw| {
            let members = document.members(raw).ok()?;
            let text = |key| document.decode::<PathBuf>(members.get(key)?).ok();
            let here = text("projectPath").is_none_or(|of| project.starts_with(of));
            here.then(|| text("installPath")).flatten()
        });
        if let Some(path) = paths.last() {
            found.insert(id.to_owned(), path);
        }
    }
    found
}

/// The directory of a plugin that the file does not list: in that of its marketplace.
fn unlisted(layout: &Layout, id: &str) -> Option<PathBuf> {
    let (name, marketplace) = id.split_once('@')?;
    let plain = |part: &str| {
        let mut parts = Path::new(part).components();
        matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        )
    };
    if !plain(name) || !plain(marketplace) {
        return None;
    }
    let market = layout.plugins_dir().join("marketplaces").join(marketplace);
    let places = [market.join("plugins").join(name), market.join(name)];
    places.into_iter().find(|place| place.is_dir())
}

/// Loads the servers of one plugin.
fn plugin(state: &mut LoadState, root: &Path, name: Option<&str>) {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let outside = state.environment.clone();
    state.environment = outside.with(ROOT_VARIABLE, shown(&root));
    state.base.clone_from(&root);
    let first = state.entries.len();

    let manifest = root.join(".claude-plugin").join("plugin.json");
    let text = state.read(&manifest).into_text();
    let source = shown(&manifest);
    let document = text.as_deref().map(|text| Document::new(&source, text));
    let members = document.as_ref().and_then(|document| document.root().ok());
    let written = document
        .as_ref()
        .zip(members.as_ref())
        .and_then(|(document, members)| document.decode::<String>(members.get("name")?).ok());
    let folder = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name
        .map(str::to_owned)
        .or(written)
        .or(folder)
        .unwrap_or_else(|| "plugin".to_owned());

    let own = root.join(OWN_FILE);
    if is_inside(&own, &root) || !own.exists() {
        file(state, &own, &name);
    } else {
        let message = "the file is a link out of the plugin; put the file into it";
        let problem = Diagnostic::error(shown(&own), message);
        state.diagnostics.push(problem);
    }
    if let (Some(document), Some(members)) = (&document, &members)
        && let Some(raw) = members.get("mcpServers")
    {
        manifest_servers(state, document, raw, &root, &name);
    }
    for entry in &mut state.entries[first..] {
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let variable = stdio.env.entry(ROOT_VARIABLE.to_owned());
            variable.or_insert_with(|| Secret::new(shown(&root)));
        }
    }
    state.environment = outside;
}

/// The `mcpServers` of a manifest: servers, the name of a file with servers, or a list of either.
fn manifest_servers<'a>(
    state: &mut LoadState,
    document: &Document<'a>,
    raw: &'a RawValue,
    root: &Path,
    plugin: &str,
) {
    let list: Vec<&RawValue> = document.decode(raw).unwrap_or_else(|_| vec![raw]);
    for raw in list {
        let Ok(name) = document.decode::<PathBuf>(raw) else {
            servers(state, document, raw, Scope::Plugin, |server| {
                full_name(plugin, server)
            });
            continue;
        };
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !name.components().all(inside) {
            let message =
                "the servers file of a plugin must be inside the plugin; write a relative path";
            state
                .diagnostics
                .push(document.problem(document.offset(raw), message));
            continue;
        }
        let named = name
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        let path = root.join(named.collect::<PathBuf>());
        // This file is always read.
        if path == root.join(OWN_FILE) {
            continue;
        }
        if path.exists() {
            if !is_inside(&path, root) {
                let message = "the servers file of a plugin is a link out of the plugin; put the \
                               file into it";
                state
                    .diagnostics
                    .push(document.problem(document.offset(raw), message));
                continue;
            }
            file(state, &path, plugin);
        } else {
            let message = "there is no such file in the plugin";
            state
                .diagnostics
                .push(document.problem(document.offset(raw), message));
        }
    }
}

/// Whether a file is really inside a plugin, and not behind a link that leads out of it.
fn is_inside(path: &Path, root: &Path) -> bool {
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => path.starts_with(root),
        _ => false,
    }
}

/// A servers file of a plugin, with or without `mcpServers` around the servers.
fn file(state: &mut LoadState, path: &Path, plugin: &str) {
    let FileText::Text(text) = state.read(path) else {
        return;
    };
    let source = shown(path);
    let document = Document::new(&source, &text);
    let Ok(root) = document.root() else {
        return;
    };
    let raw = root
        .get(super::servers::KEY)
        .or_else(|| serde_json::from_str(without_bom(&text)).ok());
    if let Some(raw) = raw {
        servers(state, &document, raw, Scope::Plugin, |server| {
            full_name(plugin, server)
        });
    }
}

fn full_name(plugin: &str, server: &str) -> String {
    format!("{PLUGIN_PREFIX}{plugin}:{server}")
}
