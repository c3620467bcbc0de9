//! A home, a managed directory and a project for tests, with short assertions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use trunkline_config::{
    Diagnostic, Editor, EntryStatus, Environment, Layout, Loader, Server, ServerEntry, ServerSet,
    Severity,
};

/// `~/.claude.json`
pub(crate) const GLOBAL: &str = "home/.claude.json";
/// `~/.claude/settings.json`
pub(crate) const USER: &str = "home/.claude/settings.json";
/// The approvals with their content.
pub(crate) const APPROVALS: &str = "home/.claude/trunkline/approvals.json";
/// The managed servers.
pub(crate) const MANAGED: &str = "etc/managed-mcp.json";
/// The managed settings.
pub(crate) const MANAGED_SETTINGS: &str = "etc/managed-settings.json";
/// The project's servers.
pub(crate) const PROJECT: &str = "repo/.mcp.json";
/// The shared settings of the project.
pub(crate) const SHARED: &str = "repo/.claude/settings.json";
/// The local settings of the project.
pub(crate) const UNSHARED: &str = "repo/.claude/settings.local.json";

/// The scratch directory, which contains `home`, `etc` and `repo`.
pub(crate) struct Lab {
    scratch: TempDir,
    /// The working directory, relative to the scratch directory.
    cwd: String,
}

impl Lab {
    /// Works in the root of a repository.
    pub(crate) fn new() -> Self {
        let lab = Self::without_git();
        fs::create_dir(lab.at("repo/.git")).unwrap();
        lab
    }

    /// Works in a directory outside of any repository.
    pub(crate) fn without_git() -> Self {
        let lab = Self {
            scratch: tempfile::tempdir().unwrap(),
            cwd: "repo".to_owned(),
        };
        for dir in ["home", "etc", "repo"] {
            fs::create_dir(lab.at(dir)).unwrap();
        }
        lab
    }

    /// Changes to another directory, creating it.
    pub(crate) fn cd(&mut self, dir: &str) {
        dir.clone_into(&mut self.cwd);
        fs::create_dir_all(self.at(dir)).unwrap();
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn root(&self) -> &str {
        self.scratch.path().to_str().unwrap()
    }

    /// Writes a file; `<root>` in it stands for the scratch directory.
    pub(crate) fn put(&self, path: &str, content: impl Display) {
        let text = content.to_string().replace("<root>", self.root());
        self.put_bytes(path, text.as_bytes());
    }

    pub(crate) fn put_bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
    }

    /// The text of a file, with `<root>` for the scratch directory.
    pub(crate) fn text(&self, path: &str) -> String {
        let text = fs::read_to_string(self.at(path)).unwrap();
        text.replace(self.root(), "<root>")
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(dir)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            managed_dir: self.at("etc"),
            ..Layout::under(self.at("home"))
        }
    }

    /// A layout relocated by `CLAUDE_CONFIG_DIR`.
    pub(crate) fn moved_layout(&self, dir: &Path) -> Layout {
        Layout {
            global_file: dir.join(".claude.json"),
            config_dir: dir.to_owned(),
            moved_to: Some(dir.to_owned()),
            ..self.layout()
        }
    }

    /// A loader with only these variables.
    pub(crate) fn loader_with(&self, variables: &[(&str, &str)]) -> Loader {
        self.loader_at(self.layout(), variables)
    }

    pub(crate) fn loader_at(&self, layout: Layout, variables: &[(&str, &str)]) -> Loader {
        let variables = variables.iter().copied();
        Loader::new(layout, self.at(&self.cwd)).environment(Environment::of(variables))
    }

    pub(crate) fn loader(&self) -> Loader {
        self.loader_with(&[])
    }

    pub(crate) fn load(&self) -> ServerSet {
        self.loader().load(&[])
    }

    pub(crate) fn editor(&self) -> Editor {
        Editor::new(self.layout(), self.at(&self.cwd))
    }

    /// The servers of a set, one line each: name, scope, argv or URL, status.
    pub(crate) fn servers(&self, set: &ServerSet) -> Vec<String> {
        let line = |server: &Server| self.short(&line(server));
        set.servers.iter().map(line).collect()
    }

    /// The problems of a set, one line each; warnings are marked.
    pub(crate) fn problems(&self, set: &ServerSet) -> Vec<String> {
        let problems = set.diagnostics.iter();
        problems.map(|problem| self.problem(problem)).collect()
    }

    pub(crate) fn problem(&self, problem: &Diagnostic) -> String {
        let word = match problem.severity {
            Severity::Error => "",
            Severity::Warning => "warning: ",
            other => panic!("an unknown severity: {other:?}"),
        };
        self.short(&format!("{word}{problem}"))
    }

    /// A text without the name of the scratch directory.
    pub(crate) fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.root()), "")
            .replace(self.root(), "<root>")
    }

    /// Loads and compares the servers. There must be no problems.
    #[track_caller]
    pub(crate) fn check(&self, expected: &[&str]) {
        self.check_set(&self.load(), expected);
    }

    /// Like `check`, for a set loaded otherwise.
    #[track_caller]
    pub(crate) fn check_set(&self, set: &ServerSet, expected: &[&str]) {
        assert_eq!(self.servers(set), expected, "{:#?}", self.problems(set));
        assert_eq!(self.problems(set), [""; 0]);
    }

    /// Loads and compares servers and problems.
    #[track_caller]
    pub(crate) fn check_with_problems(&self, servers: &[&str], problems: &[&str]) {
        let set = self.load();
        assert_eq!(self.problems(&set), problems);
        assert_eq!(self.servers(&set), servers);
    }

    /// The first entry of that name, as loaded.
    pub(crate) fn entry(&self, name: &str) -> ServerEntry {
        let set = self.load();
        let mut found = set.named(name);
        found.next().unwrap().entry.clone()
    }
}

fn line(server: &Server) -> String {
    let Server { entry, status, .. } = server;
    let what = match (entry.transport.argv(), entry.transport.url()) {
        (Some(argv), _) => argv.join(" "),
        (_, Some(url)) => url.expose().to_owned(),
        (None, None) => entry.transport.kind().to_owned(),
    };
    let status = match status {
        EntryStatus::Active => "active".to_owned(),
        EntryStatus::Disabled => "disabled".to_owned(),
        EntryStatus::PendingApproval { before: None } => "pending".to_owned(),
        EntryStatus::PendingApproval { before: Some(_) } => "changed".to_owned(),
        EntryStatus::Rejected { source } => format!("rejected by {source}"),
        EntryStatus::Blocked(blocked) => format!("blocked: {blocked}"),
        EntryStatus::Suppressed { by } => format!("suppressed by {by}"),
        EntryStatus::Shadowed { by } => format!("shadowed by {by}"),
        other => panic!("an unknown status: {other:?}"),
    };
    format!("{} {} [{what}] {status}", entry.name, entry.scope)
}

/// A servers file with one-word commands.
pub(crate) fn commands<'a>(servers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let entry = |(name, command): (&str, &str)| (name.to_owned(), json!({"command": command}));
    let servers: BTreeMap<_, _> = servers.into_iter().map(entry).collect();
    json!({ "mcpServers": servers })
}

/// A servers file with one server.
pub(crate) fn server(name: &str, entry: &Value) -> Value {
    json!({"mcpServers": {name: entry}})
}

/// A `~/.claude.json` with this content for the project `repo`.
pub(crate) fn of_project(value: &Value) -> Value {
    json!({"projects": {"<root>/repo": value}})
}
