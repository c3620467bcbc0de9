//! The check after `add`: connects to the server once.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trunkline_config::{Scope, Server, ServerEntry};

use super::list::{Row, count, resource_count};
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session::{self, Configured};
use crate::standing::quoted;

/// Programs that commonly start servers.
pub(super) const LAUNCHERS: [&str; 16] = [
    "npx", "npm", "node", "uvx", "uv", "python3", "python", "docker", "deno", "bun", "bunx",
    "pipx", "go", "cargo", "dotnet", "java",
];

/// The result of a check.
pub(super) struct Check {
    state: String,
    /// The number of tools, prompts and resources, if connected.
    offers: Option<[usize; 3]>,
    /// The problems, as `list` shows them.
    problems: Lines,
    error: Option<String>,
    hint: Option<String>,
    /// Problems of the entry itself, connected or not.
    findings: Vec<String>,
}

/// Connects to a server once. Fails if interrupted.
pub(super) async fn connect(config: &ConfigArgs, name: &str) -> Result<Check, Exit> {
    let configured = session::configuration(config)?;
    let wanted = name.to_owned();
    let builder = configured.host().only(move |name| name == wanted);
    let mut found = None;
    let slot = &mut found;
    let exit = session::with_host(builder, |host| async move {
        session::ready(&host).await;
        let set = host.config();
        let runs = |server: &&Server| server.status.may_run();
        if let Some(server) = set.servers.iter().find(runs) {
            let mut check = Check::of_row(&Row::of(&host, server), &server.entry);
            let about = set.diagnostics.iter();
            let about = about.filter(|problem| problem.server.as_deref() == Some(name));
            check.findings = about.map(ToString::to_string).collect();
            *slot = Some(check);
        }
        Exit::Done
    })
    .await;
    found.ok_or(exit)
}

impl Check {
    fn of_row(row: &Row, entry: &ServerEntry) -> Self {
        let value = row.as_value();
        let number = |field: &str| {
            let number = value[field].as_u64().unwrap_or(0);
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        let is_connected = row.state() == "connected";
        let suggestion = missing_program(entry).and_then(|(_, suggestion)| suggestion);
        let hint = suggestion.or_else(|| row.hint());
        let problems = row.problems_with(hint.as_deref());
        Self {
            state: row.state().to_owned(),
            offers: is_connected.then(|| {
                let catalog = row.status().map(|status| &status.catalog);
                let resources = catalog.map_or(0, |catalog| resource_count(catalog));
                [number("tools"), number("prompts"), resources]
            }),
            problems,
            error: value["error"].as_str().map(str::to_owned),
            hint,
            findings: Vec::new(),
        }
    }

    /// Checks an entry that may not be connected, from local information alone.
    pub(super) fn of_files(
        configured: &Configured,
        name: &str,
        scope: Scope,
        state: &'static str,
    ) -> Self {
        let set = configured.loader.load(&[]);
        let server = set.named(name).find(|server| server.entry.scope == scope);
        let missing = server.and_then(|server| missing_program(&server.entry));
        let mut findings: Vec<String> = missing
            .map(|(problem, suggestion)| match suggestion {
                Some(suggestion) => format!("{problem}; {suggestion}"),
                None => problem,
            })
            .into_iter()
            .collect();
        let about = set.diagnostics.iter();
        let about = about.filter(|problem| problem.server.as_deref() == Some(name));
        findings.extend(about.map(ToString::to_string));
        Self {
            state: state.to_owned(),
            offers: None,
            problems: Lines::new(),
            error: None,
            hint: None,
            findings,
        }
    }

    pub(super) fn as_value(&self) -> Value {
        let mut value = json!({"state": self.state});
        if let Some([tools, prompts, resources]) = self.offers {
            value["tools"] = json!(tools);
            value["prompts"] = json!(prompts);
            value["resources"] = json!(resources);
        }
        for (field, text) in [("error", &self.error), ("hint", &self.hint)] {
            if let Some(text) = text {
                value[field] = json!(text);
            }
        }
        if !self.findings.is_empty() {
            value["findings"] = json!(self.findings);
        }
        value
    }

    /// Prints the result and the next command.
    pub(super) fn print(&self, name: &str) {
        for finding in &self.findings {
            output::warning(finding);
        }
        let quoted = quoted(name);
        if let Some([tools, prompts, resources]) = self.offers {
            let mut offers = vec![count(tools, "tool")];
            for (number, what) in [(prompts, "prompt"), (resources, "resource")] {
                if number > 0 {
                    offers.push(count(number, what));
                }
            }
            output::result(Lines::one(format!("  connected: {}", offers.join(", "))));
            let next = if tools > 0 { "tools" } else { "get" };
            output::note(Lines::one(format!("next: trunkline {next} {quoted}")));
        } else if !self.problems.is_empty() {
            output::warning(&format!("added \"{name}\", but could not connect"));
            output::note(&self.problems);
            output::note(Lines::one(format!(
                "next: change it with `trunkline edit {quoted}`, or retry with `trunkline get {quoted}`"
            )));
        }
    }
}

/// Returns the problem with a missing program of a stdio entry, and a suggestion.
fn missing_program(entry: &ServerEntry) -> Option<(String, Option<String>)> {
    let command = entry.transport.stdio()?.command.as_str();
    if find_program(command).is_some() {
        return None;
    }
    let problem = if command.contains('/') {
        format!("no such file: \"{command}\"")
    } else {
        format!("\"{command}\" is not on PATH")
    };
    let installed = LAUNCHERS
        .into_iter()
        .filter(|name| find_program(name).is_some());
    let near = trunkline::text::nearest(command, installed).filter(|_| command.len() > 2);
    let suggestion = match (near, command) {
        (Some(near), _) => Some(format!("did you mean \"{near}\"?")),
        (None, "npx" | "npm" | "node") => Some("it is part of Node.js".to_owned()),
        (None, "uvx" | "uv") => Some("it is part of uv, the Python package manager".to_owned()),
        _ => None,
    };
    Some((problem, suggestion))
}

/// Looks up a program on PATH, as the system does.
pub(super) fn find_program(command: &str) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if command.contains(std::path::is_separator) {
        let path = PathBuf::from(command);
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    let suffixes: &[&str] = if cfg!(windows) {
        &["", ".exe", ".cmd", ".bat"]
    } else {
        &[""]
    };
    let is_there = |dir: PathBuf| {
        let file = |suffix: &&str| dir.join(format!("{command}{suffix}"));
        suffixes.iter().map(file).find(|file| is_executable(file))
    };
    std::env::split_paths(&path).find_map(is_there)
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(file);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
