//! The `plugin` scope: servers of enabled plugins, and of those that `--plugin-dir` names.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use serde_json::value::RawValue;

use super::{Scope, servers};
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::entry::TransportEntry;
use crate::files::shown;
use crate::layout::Layout;
use crate::load_state::LoadState;
use crate::names::PLUGIN_PREFIX;
use crate::secret::Secret;
use crate::settings::Settings;

/// What plugins write for the directory they are in.
const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";

/// A plugin's own file of servers.
const OWN_FILE: &str = ".mcp.json";

/// Loads the servers of all plugins: those that were named first, then the enabled ones in the settings' order.
pub(crate) fn entries(
    gather: &mut LoadState,
    layout: &Layout,
    settings: &[Settings],
    plugin_dirs: &[PathBuf],
    project: &Path,
) {
    for dir in plugin_dirs {
        if dir.is_dir() {
            plugin(gather, dir, None);
        } else {
            let problem = Diagnostic::error(shown(dir), "there is no such plugin directory");
            gather.diagnostics.push(problem);
        }
    }
    let enabled = enabled(settings);
    if enabled.is_empty() {
        return;
    }
    let installed = installed(gather, layout, project);
    for (id, source) in enabled {
        let name = id.split('@').next().unwrap_or(&id);
        let found = installed
            .get(&id)
            .cloned()
            .or_else(|| unlisted(layout, &id));
        if let Some(root) = found {
            plugin(gather, &root, Some(name));
        } else {
            let message = format!(
                "the plugin \"{id}\" is enabled and not installed; install it, or take it out of \"enabledPlugins\""
            );
            gather
                .diagnostics
                .push(Diagnostic::warning(source, message));
        }
    }
}

/// The plugins that are enabled, each with the file that says so. What any file switches off is off.
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

/// Where installed plugins are, as `installed_plugins.json` says.
fn installed(gather: &mut LoadState, layout: &Layout, project: &Path) -> HashMap<String, PathBuf> {
    let path = layout.plugins_dir().join("installed_plugins.json");
    let source = shown(&path);
    let mut found = HashMap::new();
    let Some(text) = gather.read(&path) else {
        return found;
    };
    let document = Document::new(&source, &text);
    let plugins = document.root().ok().and_then(|root| {
        let raw = root.get("plugins")?;
        document.members(raw).ok()
    });
    for (id, raw) in plugins.iter().flat_map(Members::iter) {
        // One installation, or, in newer files, a list of them: for the user, or for one project.
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

/// Where a plugin is that the file does not list: in its marketplace's own folder.
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

/// Loads one plugin's servers.
fn plugin(gather: &mut LoadState, root: &Path, name: Option<&str>) {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let outside = gather.environment.clone();
    gather.environment = outside.with(ROOT_VARIABLE, shown(&root));
    gather.base.clone_from(&root);
    let first = gather.entries.len();

    let manifest = root.join(".claude-plugin").join("plugin.json");
    let text = gather.read(&manifest);
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

    file(gather, &root.join(OWN_FILE), &name);
    if let (Some(document), Some(members)) = (&document, &members)
        && let Some(raw) = members.get("mcpServers")
    {
        manifest_servers(gather, document, raw, &root, &name);
    }
    for entry in &mut gather.entries[first..] {
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let variable = stdio.env.entry(ROOT_VARIABLE.to_owned());
            variable.or_insert_with(|| Secret::new(shown(&root)));
        }
    }
    gather.environment = outside;
}

/// A manifest's `mcpServers`: the servers themselves, the name of a file with them, or a list of either.
fn manifest_servers<'a>(
    gather: &mut LoadState,
    document: &Document<'a>,
    raw: &'a RawValue,
    root: &Path,
    plugin: &str,
) {
    let list: Vec<&RawValue> = document.decode(raw).unwrap_or_else(|_| vec![raw]);
    for raw in list {
        let Ok(name) = document.decode::<PathBuf>(raw) else {
            servers(gather, document, raw, Scope::Plugin, |server| {
                full_name(plugin, server)
            });
            continue;
        };
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !name.components().all(inside) {
            let message =
                "a plugin's file of servers must be inside the plugin; write a relative path";
            gather
                .diagnostics
                .push(document.problem(document.offset(raw), message));
            continue;
        }
        let named = name
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        let path = root.join(named.collect::<PathBuf>());
        // That one is read anyway.
        if path == root.join(OWN_FILE) {
            continue;
        }
        if path.exists() {
            file(gather, &path, plugin);
        } else {
            let message = "there is no such file in the plugin";
            gather
                .diagnostics
                .push(document.problem(document.offset(raw), message));
        }
    }
}

/// A plugin's file of servers, with or without `mcpServers` around them.
fn file(gather: &mut LoadState, path: &Path, plugin: &str) {
    let Some(text) = gather.read(path) else {
        return;
    };
    let source = shown(path);
    let document = Document::new(&source, &text);
    let Ok(root) = document.root() else {
        return;
    };
    let raw = root.get(super::servers::KEY).or_else(|| {
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        serde_json::from_str(text).ok()
    });
    if let Some(raw) = raw {
        servers(gather, &document, raw, Scope::Plugin, |server| {
            full_name(plugin, server)
        });
    }
}

fn full_name(plugin: &str, server: &str) -> String {
    format!("{PLUGIN_PREFIX}{plugin}:{server}")
}
