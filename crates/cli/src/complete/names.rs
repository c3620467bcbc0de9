//! The names that are offered: of servers from the configuration, of everything else from stored
//! catalogs.

use std::collections::HashSet;

use clap_complete::CompletionCandidate;
use serde_json::Value;
use trunkline::Host;
use trunkline::context::Prompt;
use trunkline::server::Catalog;
use trunkline::storage::CatalogStore;
use trunkline_config::{EntryStatus, Loader, Server};

use super::is_plain_name;
use super::request::Request;
use crate::session;

/// What an argument of the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Server,
    Tool,
    /// A server, its tool, and the tool's arguments.
    Call,
    /// A server and its resource.
    Read,
    /// A server, its prompt, and the prompt's arguments.
    Prompt,
}

impl Kind {
    /// Returns the kind of an argument of a command.
    pub(super) fn of(command: &str, argument: &str) -> Option<Self> {
        match (command, argument) {
            (_, "mcp_server")
            | ("tools" | "resources" | "prompts" | "logs", "server")
            | (
                "get" | "edit" | "remove" | "enable" | "disable" | "login" | "logout" | "list",
                "name",
            )
            | ("approve" | "reject" | "doctor" | "list", "names") => Some(Self::Server),
            ("tools", "tool") => Some(Self::Tool),
            ("call", "words") => Some(Self::Call),
            ("read", "words") => Some(Self::Read),
            ("prompt", "words") => Some(Self::Prompt),
            _ => None,
        }
    }
}

/// Looks names up for one request.
pub(super) struct Source {
    /// The words after the command that are not options.
    positional: Vec<String>,
    configs: Vec<String>,
    is_strict: bool,
}

impl Source {
    pub(super) fn new(request: &Request, command: &clap::Command) -> Self {
        let with_value = options_with_value(command);
        let before = &request.words[1..request.words.len() - 1];
        let mut positional = Vec::new();
        let mut configs = Vec::new();
        let mut words = before.iter();
        while let Some(word) = words.next() {
            if let Some(config) = word.strip_prefix("--mcp-config=") {
                configs.push(config.to_owned());
            } else if with_value.contains(word.as_str()) {
                let value = words.next();
                configs.extend(value.filter(|_| word == "--mcp-config").cloned());
            } else if !word.starts_with('-') {
                positional.push(word.clone());
            }
        }
        // The first one is the command.
        positional.drain(..positional.len().min(1));
        Self {
            positional,
            configs,
            is_strict: before.iter().any(|word| word == "--strict-mcp-config"),
        }
    }

    /// Returns the candidates that begin with `current`.
    pub(super) fn candidates(&self, kind: Kind, current: &str) -> Vec<CompletionCandidate> {
        let words: Vec<&str> = self.positional.iter().map(String::as_str).collect();
        let found = match (kind, words.as_slice()) {
            (Kind::Server, _) | (Kind::Read | Kind::Prompt, []) => self.servers(),
            (Kind::Call, []) => self.servers_or_tools(current),
            (Kind::Tool | Kind::Call, [server]) if !server.starts_with("mcp__") => {
                self.tools(server)
            }
            (Kind::Call, [tool, given @ ..]) if tool.starts_with("mcp__") => {
                self.arguments_of_full_name(tool, given, current)
            }
            (Kind::Call, [server, tool, given @ ..]) => {
                let catalog = self.catalog(server);
                catalog.map_or_else(Vec::new, |catalog| {
                    tool_arguments(&catalog, tool, given, current)
                })
            }
            (Kind::Read, [server]) => self.resources(server),
            (Kind::Prompt, [server]) => self.prompts(server),
            (Kind::Prompt, [server, prompt, given @ ..]) => {
                self.prompt_arguments(server, prompt, given)
            }
            _ => Vec::new(),
        };
        let begins = |(name, _): &(String, String)| name.starts_with(current);
        let (plain, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter(begins)
            .partition(|(name, _)| is_plain_name(name));
        // A shell inserts a single candidate by itself, although there is another one to type.
        if plain.len() == 1 && !others.is_empty() {
            return Vec::new();
        }
        plain
            .into_iter()
            .map(|(name, help)| {
                let help = Some(help).filter(|help| !help.is_empty());
                CompletionCandidate::new(name).help(help.map(Into::into))
            })
            .collect()
    }

    /// Loads the servers. Approvals are not bound: nothing is written.
    fn load(&self) -> Vec<Server> {
        let Ok(cwd) = std::env::current_dir() else {
            return Vec::new();
        };
        let loader = Loader::new(session::layout(), &cwd)
            .mcp_config(self.configs.iter().cloned())
            .strict(self.is_strict);
        loader.load(&[]).servers
    }

    fn servers(&self) -> Vec<(String, String)> {
        let servers = self.load().into_iter();
        let shown = servers.filter(|server| !matches!(server.status, EntryStatus::Shadowed { .. }));
        shown
            .map(|server| {
                let help = format!("{}, {}", server.entry.transport.kind(), server.entry.scope);
                (server.entry.name, help)
            })
            .collect()
    }

    /// Returns the servers, or the full names of tools once `mcp__` is typed.
    fn servers_or_tools(&self, current: &str) -> Vec<(String, String)> {
        if !current.starts_with("mcp__") {
            return self.servers();
        }
        let catalogs = self.load().into_iter().filter_map(|server| stored(&server));
        let tools = catalogs.flat_map(|catalog| catalog.tools().to_vec());
        tools
            .map(|tool| (tool.name.clone(), tool.description.to_string()))
            .collect()
    }

    /// Returns the stored catalog of a server.
    fn catalog(&self, name: &str) -> Option<Catalog> {
        let servers = self.load();
        let mut named = servers.iter().filter(|server| server.entry.name == name);
        named.find_map(stored)
    }

    fn tools(&self, server: &str) -> Vec<(String, String)> {
        let catalog = self.catalog(server).unwrap_or_default();
        let tools = catalog.tools().iter();
        tools
            .map(|tool| (tool.tool.name.to_string(), tool.description.to_string()))
            .collect()
    }

    fn resources(&self, server: &str) -> Vec<(String, String)> {
        let catalog = self.catalog(server).unwrap_or_default();
        let resources = catalog.resources.iter();
        resources
            .map(|resource| (resource.uri.to_string(), resource.name.to_string()))
            .collect()
    }

    fn prompts(&self, server: &str) -> Vec<(String, String)> {
        let catalog = self.catalog(server).unwrap_or_default();
        let prompts = catalog.prompts.iter();
        prompts
            .map(|prompt| {
                let help = prompt.description.as_ref().map(ToString::to_string);
                (prompt.name.to_string(), help.unwrap_or_default())
            })
            .collect()
    }

    fn prompt_arguments(
        &self,
        server: &str,
        prompt: &str,
        given: &[&str],
    ) -> Vec<(String, String)> {
        let catalog = self.catalog(server).unwrap_or_default();
        let mut prompts = catalog.prompts.iter();
        let found = prompts.find(|known| *known.name == *prompt);
        let arguments = found.and_then(Prompt::arguments).unwrap_or_default();
        let is_new = |name: &str| !given.iter().any(|word| key(word) == name);
        let arguments = arguments
            .into_iter()
            .filter(|argument| is_new(&argument.name));
        arguments
            .map(|argument| {
                (
                    format!("{}=", argument.name),
                    argument.description.unwrap_or_default(),
                )
            })
            .collect()
    }

    fn arguments_of_full_name(
        &self,
        name: &str,
        given: &[&str],
        current: &str,
    ) -> Vec<(String, String)> {
        let catalogs = self.load().into_iter().filter_map(|server| stored(&server));
        for catalog in catalogs {
            let tool = catalog.tools().iter().find(|tool| tool.name == name);
            if let Some(tool) = tool {
                return tool_arguments(&catalog, &tool.tool.name, given, current);
            }
        }
        Vec::new()
    }
}

/// Returns the stored catalog of a server that may run.
fn stored(server: &Server) -> Option<Catalog> {
    if !server.status.may_run() {
        return None;
    }
    let layout = session::layout();
    let store = CatalogStore::at(session::cache_dir()?.join("catalogs"));
    let mut builder = Host::builder().catalogs(store);
    if let Some(auth) = session::auth(&layout) {
        builder = builder.auth(auth);
    }
    builder.stored_catalog(&server.entry)
}

/// Returns the arguments of a tool as `key=`, and known values of the one being typed.
fn tool_arguments(
    catalog: &Catalog,
    tool: &str,
    given: &[&str],
    current: &str,
) -> Vec<(String, String)> {
    let mut tools = catalog.tools().iter();
    let Some(tool) = tools.find(|known| *known.tool.name == *tool) else {
        return Vec::new();
    };
    let schema: Value = serde_json::from_str(tool.tool.input_schema.as_str()).unwrap_or_default();
    arguments_of(&schema, given, current)
}

fn arguments_of(schema: &Value, given: &[&str], current: &str) -> Vec<(String, String)> {
    let properties = schema["properties"].as_object();
    let mut found = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        if given.iter().any(|word| key(word) == name) {
            continue;
        }
        let typed = current.split_once('=').filter(|(typed, _)| typed == name);
        if typed.is_some() {
            let values = values_of(property);
            found.extend(values.map(|value| (format!("{name}={value}"), String::new())));
        } else {
            let help = property["description"].as_str().unwrap_or_default();
            found.push((format!("{name}="), help.to_owned()));
        }
    }
    found
}

/// Returns the values that a schema lists.
fn values_of(schema: &Value) -> impl Iterator<Item = String> {
    let listed = schema["enum"].as_array().cloned().unwrap_or_default();
    let is_flag = schema["type"] == "boolean";
    let flags = ["true", "false"]
        .into_iter()
        .filter(move |_| is_flag)
        .map(str::to_owned);
    let listed = listed.into_iter().filter_map(|value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    listed.chain(flags)
}

/// Returns the key of `key=value` and `key:=json`.
fn key(word: &str) -> &str {
    let key = word.split_once('=').map_or(word, |(key, _)| key);
    key.trim_end_matches(':')
}

/// Returns the options that take a value, as they are written.
fn options_with_value(command: &clap::Command) -> HashSet<String> {
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let mut found = HashSet::new();
    for arg in commands.flat_map(clap::Command::get_arguments) {
        if arg.get_action().takes_values() && !arg.is_positional() {
            found.extend(arg.get_long().map(|long| format!("--{long}")));
            found.extend(arg.get_short().map(|short| format!("-{short}")));
        }
    }
    // Its value is optional.
    found.remove("--bundle");
    found
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_argument_that_names_something_is_known() {
        // A renamed argument must not lose its completion unnoticed.
        let command = Args::command();
        for (sub, argument, kind) in [
            ("get", "name", Kind::Server),
            ("edit", "name", Kind::Server),
            ("remove", "name", Kind::Server),
            ("login", "name", Kind::Server),
            ("approve", "names", Kind::Server),
            ("doctor", "names", Kind::Server),
            ("logs", "server", Kind::Server),
            ("tools", "server", Kind::Server),
            ("tools", "tool", Kind::Tool),
            ("call", "words", Kind::Call),
            ("read", "words", Kind::Read),
            ("prompt", "words", Kind::Prompt),
            ("list", "mcp_server", Kind::Server),
        ] {
            let known = command.find_subcommand(sub).unwrap();
            let mut arguments = known.get_arguments();
            assert!(
                arguments.any(|known| known.get_id() == argument),
                "{sub} {argument}"
            );
            assert_eq!(Kind::of(sub, argument), Some(kind), "{sub} {argument}");
        }
        assert_eq!(Kind::of("add-json", "name"), None);
    }

    #[test]
    fn arguments_are_offered_once_with_their_values() {
        let schema = json!({"properties": {
            "state": {"enum": ["open", "closed", 3], "description": "The state"},
            "draft": {"type": "boolean"},
            "title": {"type": "string"},
        }});
        let names = |given: &[&str], current: &str| -> Vec<String> {
            arguments_of(&schema, given, current)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(names(&[], ""), ["state=", "draft=", "title="]);
        assert_eq!(names(&["state=open", "title:=1"], ""), ["draft="]);
        let values = names(&[], "state=o");
        assert_eq!(
            values,
            ["state=open", "state=closed", "state=3", "draft=", "title="]
        );
        assert_eq!(
            names(&["title=x", "state=x"], "draft="),
            ["draft=true", "draft=false"]
        );
    }
}
