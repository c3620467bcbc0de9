//! Imports the servers of other clients (CFG-11).
//!
//! [`parse`] is a pure function of a file's text; [`read_files`] reads the files. Nothing is
//! written here: the result is shown to the user first. An invalid file or entry affects only
//! itself, and notes list what could not be imported.
//!
//! `json`, `toml` and `yaml` read a format into `fields`, one module per client converts its fields
//! into an `entry_builder`, and that builds the entry.

mod client;
mod client_dirs;
mod codex;
mod entry_builder;
mod fields;
mod gemini;
mod goose;
mod json;
pub(crate) mod jsonc;
mod mcp_servers;
mod opencode;
mod toml;
mod unique_names;
mod variables;
mod yaml;
mod zed;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use client::Client;
pub use client_dirs::{ClientDirs, Os};
pub use yaml::yaml_value;

use crate::diagnostic::Diagnostic;
use crate::files::{self, MAX_FILE_BYTES};
use crate::locate::Lines;
use entry_builder::EntryBuilder;
use fields::{Document, Fields, Problem, RawServer, shown};
use json::Json;
use unique_names::UniqueNames;

/// The servers of a client's files, and the problems found.
#[derive(Clone, Debug, Default)]
pub struct ImportedServers {
    /// The servers, in the order of the files.
    pub servers: Vec<ImportedServer>,
    /// The problems found.
    pub diagnostics: Vec<Diagnostic>,
}

/// A server of another client in our format.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// The client.
    pub client: Client,
    /// The file that holds it.
    pub file: PathBuf,
    /// The name, valid for `add` and unique in this file.
    pub name: String,
    /// The name in the file.
    pub original_name: String,
    /// The entry in our format.
    pub entry: Map<String, Value>,
    /// Why the name differs from the one in the file.
    pub renamed: Option<String>,
    /// What could not be imported.
    pub notes: Vec<String>,
}

/// Omits the values of the entry, which may be secrets (SEC-1).
impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Imported")
            .field("client", &self.client)
            .field("file", &self.file)
            .field("name", &self.name)
            .field("entry", &self.entry.keys().collect::<Vec<_>>())
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

/// Reads and parses the existing files of a client.
pub fn read_files(client: Client, files: impl IntoIterator<Item = PathBuf>) -> ImportedServers {
    let mut found = ImportedServers::default();
    for file in files {
        match files::read(&file) {
            Ok(Some(text)) => {
                let more = parse(client, &file, &text);
                found.servers.extend(more.servers);
                found.diagnostics.extend(more.diagnostics);
            }
            Ok(None) => {}
            Err(error) => {
                let problem = diagnostic(&file, None, None, error.to_string());
                found.diagnostics.push(problem);
            }
        }
    }
    found
}

fn too_large() -> String {
    format!("the file is larger than {} MB", MAX_FILE_BYTES >> 20)
}

/// Reads and parses a file named by the user, which must exist and may be a pipe.
pub fn read_named_file(client: Client, file: &Path) -> ImportedServers {
    let text = std::fs::File::open(file).map_err(files::ReadError::from);
    match text.and_then(files::text) {
        Ok(text) => parse(client, file, &text),
        Err(error) => ImportedServers {
            diagnostics: vec![diagnostic(file, None, None, error.to_string())],
            ..ImportedServers::default()
        },
    }
}

/// Parses the text of one file.
///
/// ```
/// use std::path::Path;
/// use trunkline_config::import::{Client, parse};
///
/// let text = r#"
///     {"mcpServers": {"my files": {"command": "npx", "args": ["files"]}}} // a comment
/// "#;
/// let found = parse(Client::Cursor, Path::new("mcp.json"), text);
/// assert_eq!(found.servers[0].name, "my-files");
/// assert_eq!(found.servers[0].entry["type"], "stdio");
/// ```
pub fn parse(client: Client, file: &Path, text: &str) -> ImportedServers {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = ImportedServers::default();
    if text.len() as u64 > MAX_FILE_BYTES {
        found
            .diagnostics
            .push(diagnostic(file, None, None, too_large()));
        return found;
    }
    // A file that was created but never filled in is no mistake.
    let document = if text.trim().is_empty() {
        Ok(Document::default())
    } else {
        entries(client, file, text)
    };
    let Document {
        servers,
        mut problems,
    } = document.unwrap_or_else(|problem| Document {
        servers: Vec::new(),
        problems: vec![problem],
    });
    let servers = without_repeats(servers, &mut problems);
    let mut names = UniqueNames::default();
    let mut built_in = Vec::new();
    for RawServer { name, mut fields } in servers {
        let at = fields.at;
        match convert(client, &mut fields) {
            Ok(Some(entry)) => {
                let (fitting, renamed) = names.fit(&name);
                found.servers.push(ImportedServer {
                    client,
                    file: file.to_owned(),
                    name: fitting,
                    original_name: name,
                    entry,
                    renamed,
                    notes: fields.finish(),
                });
            }
            Ok(None) => built_in.push((at, name)),
            Err(problem) => problems.push(problem.about(&name)),
        }
    }
    problems.extend(left_out(client, &built_in));
    found.diagnostics = located(file, text, problems);
    found
}

/// The entries of a file in its client's format.
fn entries(client: Client, file: &Path, text: &str) -> Result<Document, Problem> {
    match client {
        Client::Codex => return toml::servers(text, "mcp_servers"),
        Client::Goose => return yaml::servers(text, "extensions"),
        _ => {}
    }
    let plain = jsonc::plain(text);
    let json = Json::new(&plain);
    match client {
        Client::VsCode if file.file_name().is_some_and(|name| name == "settings.json") => {
            json.servers(&["mcp", "servers"])
        }
        Client::VsCode => named(client, &json, "servers", "mcpServers"),
        Client::Zed => json.servers(&["context_servers"]),
        Client::GeminiCli => gemini::servers(&json),
        Client::Opencode => opencode::servers(&json),
        _ => named(client, &json, "mcpServers", "servers"),
    }
}

/// The entries below `name`. The similar formats differ in this key, so a file copied between
/// clients has no effect.
fn named(client: Client, json: &Json<'_>, name: &str, other: &str) -> Result<Document, Problem> {
    let mut document = json.servers(&[name])?;
    if json.section(&[name])?.is_none() && json.section(&[other]).is_ok_and(|found| found.is_some())
    {
        let message = format!("it has \"{other}\" where {client} reads \"{name}\"; rename it");
        document.problems.push(Problem::new(0, message));
    }
    Ok(document)
}

/// The last of entries with the same name counts, as in the clients.
fn without_repeats(servers: Vec<RawServer>, problems: &mut Vec<Problem>) -> Vec<RawServer> {
    let last: HashMap<String, usize> = servers
        .iter()
        .enumerate()
        .map(|(at, server)| (server.name.clone(), at))
        .collect();
    let mut kept = Vec::new();
    for (at, server) in servers.into_iter().enumerate() {
        if last.get(&server.name) == Some(&at) {
            kept.push(server);
        } else {
            let message = "the file has a later entry with this name, which is used instead";
            problems.push(Problem::new(server.fields.at, message).about(&server.name));
        }
    }
    kept
}

/// Converts one entry to our format; `None` if only its own client can start it.
fn convert(client: Client, fields: &mut Fields) -> Result<Option<Map<String, Value>>, Problem> {
    let builder: Option<EntryBuilder> = match client {
        Client::ClaudeDesktop | Client::Cursor | Client::VsCode | Client::Windsurf => {
            Some(mcp_servers::convert(client, fields)?)
        }
        Client::Zed => zed::convert(fields)?,
        Client::GeminiCli => Some(gemini::convert(fields)?),
        Client::Codex => Some(codex::convert(fields)?),
        Client::Opencode => Some(opencode::convert(fields)?),
        Client::Goose => goose::convert(fields)?,
    };
    builder.map(|builder| builder.finish(fields)).transpose()
}

/// One problem for all servers that only the client itself can start.
fn left_out(client: Client, built_in: &[(usize, String)]) -> Option<Problem> {
    let (at, _) = built_in.first()?;
    let names: Vec<String> = built_in
        .iter()
        .take(10)
        .map(|(_, name)| shown(name))
        .collect();
    let more = match built_in.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "left out what only {client} itself can start: {}{more}",
        names.join(", ")
    );
    Some(Problem::new(*at, message))
}

/// The problems in the order of the file, with line and column.
fn located(file: &Path, text: &str, mut problems: Vec<Problem>) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| problem.at);
    let lines = Lines::of(text);
    let located = problems.into_iter().map(|problem| {
        let place = problem.at.map(|at| lines.position(text, at));
        diagnostic(file, place, problem.server, problem.message)
    });
    located.collect()
}

/// The only constructor of diagnostics in this module.
fn diagnostic(
    file: &Path,
    place: Option<(usize, usize)>,
    server: Option<String>,
    message: String,
) -> Diagnostic {
    Diagnostic {
        line: place.map(|place| place.0),
        column: place.map(|place| place.1),
        server,
        ..Diagnostic::warning(file.display().to_string(), message)
    }
}
