//! `trunkline clean`: removes files and approvals of servers that no longer exist.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use trunkline::storage::{KeptFiles, Leftover, leftovers};
use trunkline_config::{ApprovalRecord, Layout, Loader, ServerEntry, ServerSet, Severity};

use super::list::count;
use crate::args::ConfigArgs;
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::running;
use crate::session::{self, Configured};

/// While another process runs, files younger than this may be in use.
const IN_USE: Duration = Duration::from_hours(24);

pub(crate) fn run(config: &ConfigArgs, dry_run: bool, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Some(file) = &configured.set.exclusive {
        let file = file.display();
        output::error(
            &format!(
                "the enterprise configuration {file} hides other servers, so nothing is removed"
            ),
            None,
        );
        return Exit::Refused;
    }
    let projects = Projects::load(&configured);
    if let Some(problem) = projects.problem(&configured) {
        let hint = "fix the file first: its servers would count as removed";
        output::error(&problem, Some(hint));
        return Exit::Usage;
    }
    let others_run = running::others();
    let mut files = leftovers(&kept_files(), &projects.entries(&configured));
    let found = files.len();
    if others_run {
        files.retain(|file| !is_recent(file));
    }
    let kept = found - files.len();
    let approvals = match configured.editor().approvals() {
        Ok(approvals) => approvals,
        Err(error) => return change::fail(&error, None),
    };
    let gone: Vec<ApprovalRecord> = approvals
        .into_iter()
        .filter(|record| projects.is_gone(record))
        .collect();
    let mut cleaned = Cleaned {
        files,
        approvals: gone,
        kept,
        dry_run,
    };
    let exit = if dry_run {
        Exit::Done
    } else {
        cleaned.remove(&configured)
    };
    if as_json {
        output::json(&cleaned.as_value());
    } else {
        output::result(cleaned.description());
    }
    exit
}

/// Returns the directories that may hold leftover files.
fn kept_files() -> KeptFiles {
    let (cache, state) = (session::cache_dir(), session::state_dir());
    let below = |dir: &Option<PathBuf>, name: &str| dir.as_ref().map(|dir| dir.join(name));
    KeptFiles {
        logs: below(&state, "logs"),
        results: below(&cache, "results"),
        catalogs: below(&cache, "catalogs"),
        pins: below(&state, "pins"),
    }
}

fn is_recent(file: &Leftover) -> bool {
    let age = |time: SystemTime| SystemTime::now().duration_since(time).unwrap_or_default();
    file.modified.is_none_or(|time| age(time) < IN_USE)
}

/// The servers of all known projects.
struct Projects {
    sets: BTreeMap<PathBuf, ServerSet>,
    /// Those of the home directory if `CLAUDE_CONFIG_DIR` is set: both share our files.
    at_home: Option<ServerSet>,
    /// The files that may approve by name.
    layout: Layout,
}

impl Projects {
    fn load(configured: &Configured) -> Self {
        let layout = configured.loader.layout().clone();
        let mut dirs: HashSet<PathBuf> = HashSet::new();
        let global = std::fs::read_to_string(&layout.global_file).unwrap_or_default();
        let global: Value = serde_json::from_str(&global).unwrap_or_default();
        let projects = global["projects"].as_object();
        dirs.extend(
            projects
                .into_iter()
                .flatten()
                .map(|(key, _)| PathBuf::from(key)),
        );
        for record in configured.editor().approvals().unwrap_or_default() {
            dirs.insert(PathBuf::from(record.project));
            // A project's file may be above or below its root.
            dirs.extend(Path::new(&record.source).parent().map(Path::to_owned));
        }
        // Include servers that the options exclude.
        let cwd = configured.loader.project().cwd.clone();
        dirs.insert(cwd.clone());
        let home = std::env::home_dir().map(Layout::under);
        let home = home.filter(|home| home.global_file != layout.global_file);
        let at_home = home.map(|home| Loader::new(home, &cwd).load(&[]));
        let there = dirs.into_iter().filter(|dir| dir.is_dir());
        let sets = there
            .map(|dir| {
                let set = Loader::new(layout.clone(), &dir).load(&[]);
                (dir, set)
            })
            .collect();
        Self {
            sets,
            at_home,
            layout,
        }
    }

    fn all<'a>(&'a self, configured: &'a Configured) -> impl Iterator<Item = &'a ServerSet> {
        let more = self.at_home.iter().chain([&configured.set]);
        self.sets.values().chain(more)
    }

    /// Returns the problem of a file whose servers are unknown.
    fn problem(&self, configured: &Configured) -> Option<String> {
        let sets = self.all(configured);
        let mut problems = sets.flat_map(|set| &set.diagnostics);
        let problem = problems
            .find(|problem| problem.severity == Severity::Error && problem.server.is_none());
        problem.map(ToString::to_string)
    }

    /// Returns all entries of all projects.
    fn entries(&self, configured: &Configured) -> Vec<ServerEntry> {
        let sets = self.all(configured);
        let entries = sets.flat_map(|set| &set.servers);
        entries.map(|server| server.entry.clone()).collect()
    }

    /// Returns whether the server of an approval no longer exists and nothing else approves its
    /// name.
    fn is_gone(&self, record: &ApprovalRecord) -> bool {
        let project = self.sets.get(Path::new(&record.project));
        let in_project = project.is_some_and(|set| set.named(&record.name).next().is_some());
        let mut servers = self.sets.values().flat_map(|set| &set.servers);
        let in_source = servers
            .any(|server| server.entry.source == record.source && server.entry.name == record.name);
        !in_project && !in_source && !self.is_approved_elsewhere(record)
    }

    /// Returns whether a settings file approves the name. Without the record, it would approve any
    /// content.
    fn is_approved_elsewhere(&self, record: &ApprovalRecord) -> bool {
        let mut files = vec![self.layout.settings_file(), self.layout.managed_settings()];
        files.extend(self.layout.project_settings(Path::new(&record.project)));
        files.iter().any(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            // Search the text, because a malformed file may still name it.
            let name = Value::from(record.name.as_str()).to_string();
            text.contains("enabledMcpjsonServers") && text.contains(&name)
        })
    }
}

/// The removed files and approvals, or those to remove.
struct Cleaned {
    files: Vec<Leftover>,
    approvals: Vec<ApprovalRecord>,
    /// The number of files that another process may be using.
    kept: usize,
    dry_run: bool,
}

impl Cleaned {
    /// Removes everything. Reports failures and no longer counts them.
    fn remove(&mut self, configured: &Configured) -> Exit {
        let mut exit = Exit::Done;
        self.files
            .retain(|file| match std::fs::remove_file(&file.path) {
                Ok(()) => true,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(error) => {
                    let path = file.path.display();
                    output::error(&format!("cannot remove {path}: {error}"), None);
                    exit = Exit::Failed;
                    false
                }
            });
        if let Err(error) = configured.editor().forget_approvals(&self.approvals) {
            self.approvals.clear();
            exit = change::fail(&error, None);
        }
        exit
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn as_value(&self) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| {
                json!({"kind": file.kind.name(), "server": file.server, "path": file.path.to_string_lossy(), "bytes": file.bytes})
            })
            .collect();
        let approvals: Vec<Value> = self
            .approvals
            .iter()
            .map(|record| json!({"project": record.project, "source": record.source, "server": record.name}))
            .collect();
        json!({"dryRun": self.dry_run, "files": files, "bytes": self.bytes(), "approvals": approvals, "inUse": self.kept})
    }

    fn description(&self) -> Lines {
        let mut lines = Lines::new();
        for file in &self.files {
            let server = file.server.as_deref().unwrap_or_default();
            let path = file.path.display().to_string();
            let line = format!(
                "{:<8} {server:<20} {path} ({})",
                file.kind.name(),
                size(file.bytes)
            );
            lines.push(line);
        }
        for record in &self.approvals {
            let line = format!("approval {:<20} {}", record.name, record.source);
            lines.push(line);
        }
        if self.files.is_empty() && self.approvals.is_empty() {
            lines.push("nothing to clean");
        } else {
            let done = if self.dry_run {
                "would remove"
            } else {
                "removed"
            };
            let files = count(self.files.len(), "file");
            let approvals = count(self.approvals.len(), "approval");
            let bytes = size(self.bytes());
            lines.push(format!("{done} {files} ({bytes}) and {approvals}"));
        }
        if self.kept > 0 {
            let kept = count(self.kept, "file");
            lines.push(format!(
                "kept {kept} of the last 24 hours: another trunkline process is running"
            ));
        }
        lines
    }
}

/// Formats a size.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}
