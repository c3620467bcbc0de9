//! `trunkline add` and `add-json`: writes a server into a configuration file.

use std::io::Read;

use serde_json::{Map, Value, json};
use trunkline_config::redact::{RedactMode, redact_entry};
use trunkline_config::{Scope, Secret, Standing, env_vars};

use crate::args::{AddArgs, AddJsonArgs, ConfigArgs, NewTransport, WriteScope};
use crate::change;
use crate::exit::Exit;
use crate::output;
use crate::session::{self, Configured};
use crate::standing::{self, quoted};

pub(crate) fn run(config: &ConfigArgs, add: &AddArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Some(file) = &configured.set.exclusive {
        return change::refuse_exclusive(file);
    }
    match New::read(add) {
        Ok(new) => write(&configured, &new, add.scope, add.client_secret, as_json),
        Err((problem, hint)) => {
            output::error(&problem, hint);
            Exit::Usage
        }
    }
}

pub(crate) fn run_json(config: &ConfigArgs, add: &AddJsonArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Some(file) = &configured.set.exclusive {
        return change::refuse_exclusive(file);
    }
    let mut text = add.entry.clone();
    if text == "-" {
        text.clear();
        if let Err(error) = std::io::stdin().lock().read_to_string(&mut text) {
            output::error(&format!("standard input cannot be read: {error}"), None);
            return Exit::Usage;
        }
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(outer)) if is_wrapped(&outer) => {
            let hint =
                "give only what stands behind the server's name: {\"command\": …} or {\"url\": …}";
            output::error(
                "that is a set of servers, not one server's entry",
                Some(hint),
            );
            Exit::Usage
        }
        Ok(entry @ Value::Object(_)) => {
            let new = New {
                name: add.name.clone(),
                entry,
            };
            write(&configured, &new, add.scope, add.client_secret, as_json)
        }
        Ok(_) => {
            let hint =
                r#"write for example '{"type": "stdio", "command": "npx", "args": ["server"]}'"#;
            output::error("the entry is not a JSON object", Some(hint));
            Exit::Usage
        }
        Err(error) => {
            let place = format!("line {}, column {}", error.line(), error.column());
            output::error(&format!("the entry is not valid JSON ({place})"), None);
            Exit::Usage
        }
    }
}

/// Whether somebody pasted the object around an entry, or the whole file.
fn is_wrapped(outer: &Map<String, Value>) -> bool {
    let is_entry = |value: &Value| value.get("command").is_some() || value.get("url").is_some();
    let one_inside = outer.len() == 1 && outer.values().any(is_entry);
    outer.contains_key("mcpServers") || one_inside
}

/// A server to be written.
#[derive(Debug, PartialEq)]
struct New {
    name: String,
    entry: Value,
}

type Problem = (String, Option<&'static str>);

impl New {
    /// Makes sense of the words. Claude Code's `-e` and `-H` take several values, ours one; words that can only be meant as
    /// such values count as them, so that both ways of writing work, and no name is swallowed.
    fn read(add: &AddArgs) -> Result<Self, Problem> {
        let mut env: Vec<&str> = add.env.iter().map(String::as_str).collect();
        let mut headers: Vec<&str> = add.header.iter().map(String::as_str).collect();
        let mut words: Vec<&str> = Vec::new();
        for word in &add.words {
            // Before the name, or where the command comes after `--`, nothing else can be meant.
            let free = words.is_empty() || !add.command.is_empty();
            if free && !add.env.is_empty() && is_assignment(word) {
                env.push(word);
            } else if free && !add.header.is_empty() && header(word).is_some() {
                headers.push(word);
            } else {
                words.push(word);
            }
        }
        words.extend(add.command.iter().map(String::as_str));
        let (name, target, args) = match words.as_slice() {
            [name, target, args @ ..] => (*name, *target, args),
            [name] => {
                let problem = format!("the server \"{name}\" has neither a command nor a URL");
                return Err((
                    problem,
                    Some("write `trunkline add <name> <command or URL>`"),
                ));
            }
            [] => return Err(("the server has no name".to_owned(), None)),
        };
        let is_url = target.contains("://");
        let transport = match add.transport {
            Some(transport) => transport,
            None if target.starts_with("ws://") || target.starts_with("wss://") => NewTransport::Ws,
            None if is_url => NewTransport::Http,
            None => NewTransport::Stdio,
        };
        let entry = if transport == NewTransport::Stdio {
            stdio(add, target, args, &env, &headers)?
        } else {
            remote(add, transport, target, args, &env, &headers)?
        };
        Ok(Self {
            name: name.to_owned(),
            entry,
        })
    }
}

fn stdio(
    add: &AddArgs,
    command: &str,
    args: &[&str],
    env: &[&str],
    headers: &[&str],
) -> Result<Value, Problem> {
    if command.contains("://") {
        let url = trunkline_config::ServerUrl::new(command);
        let problem = format!("\"{url}\" is a URL, and a stdio server is a command");
        return Err((problem, Some("leave out -t, or write -t http")));
    }
    let oauth = add.client_id.is_some() || add.client_secret || add.callback_port.is_some();
    if !headers.is_empty() || oauth {
        let problem = "headers and OAuth are for remote servers; a stdio server takes -e KEY=VALUE";
        return Err((problem.to_owned(), None));
    }
    let mut variables = Map::new();
    for assignment in env {
        let Some((key, value)) = assignment
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
        else {
            // What it holds may be a secret.
            let problem = "an environment variable is not of the form KEY=VALUE".to_owned();
            return Err((problem, None));
        };
        variables.insert(key.to_owned(), value.into());
    }
    Ok(json!({"type": "stdio", "command": command, "args": args, "env": variables}))
}

fn remote(
    add: &AddArgs,
    transport: NewTransport,
    url: &str,
    args: &[&str],
    env: &[&str],
    headers: &[&str],
) -> Result<Value, Problem> {
    if !args.is_empty() {
        let problem = "a remote server has only a URL, and there is more after it".to_owned();
        return Err((problem, Some("headers are written -H 'Name: value'")));
    }
    if !env.is_empty() {
        let problem =
            "environment variables are for stdio servers; a remote server takes -H 'Name: value'";
        return Err((problem.to_owned(), None));
    }
    let kind = match transport {
        NewTransport::Stdio | NewTransport::Http => "http",
        NewTransport::Sse => "sse",
        NewTransport::Ws => "ws",
    };
    let mut entry = json!({"type": kind, "url": url});
    if !headers.is_empty() {
        let mut map = Map::new();
        for written in headers {
            let Some((name, value)) = header(written) else {
                // What it holds may be a secret.
                let problem = "a header is not of the form 'Name: value'";
                return Err((problem.to_owned(), None));
            };
            map.insert(name.to_owned(), value.into());
        }
        entry["headers"] = map.into();
    }
    let mut oauth = Map::new();
    if let Some(id) = &add.client_id {
        oauth.insert("clientId".to_owned(), id.as_str().into());
    }
    if let Some(port) = add.callback_port {
        oauth.insert("callbackPort".to_owned(), port.into());
    }
    if !oauth.is_empty() || add.client_secret {
        if transport == NewTransport::Ws {
            return Err(("OAuth is for http and sse servers".to_owned(), None));
        }
        if add.client_secret && add.client_id.is_none() {
            return Err(("--client-secret needs --client-id".to_owned(), None));
        }
        entry["oauth"] = oauth.into();
    }
    Ok(entry)
}

/// Whether a word is of the form `KEY=VALUE`.
fn is_assignment(word: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(key, _)| !key.is_empty() && key.chars().all(named))
}

/// A header's name and value.
fn header(written: &str) -> Option<(&str, &str)> {
    let (name, value) = written.split_once(':')?;
    let name = name.trim();
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    // `https://…` is no header.
    let fits = !name.is_empty() && name.chars().all(token) && !value.starts_with("//");
    fits.then_some((name, value.trim()))
}

fn write(
    configured: &Configured,
    new: &New,
    scope: WriteScope,
    client_secret: bool,
    as_json: bool,
) -> Exit {
    let scope = Scope::from(scope);
    let name = &new.name;
    let secret = match client_secret.then(read_secret).transpose() {
        Ok(secret) => secret,
        Err(problem) => {
            let hint = format!("set {}", env_vars::MCP_CLIENT_SECRET);
            output::error(&problem, Some(&hint));
            return Exit::Usage;
        }
    };
    let editor = configured.editor();
    let written = match editor.add(scope, name, &new.entry, &configured.set.policy) {
        Ok(written) => written,
        Err(error) => {
            let exists = matches!(error, trunkline_config::ChangeError::Exists { .. });
            let hint = exists.then(|| {
                format!(
                    "remove it first: `trunkline remove {} -s {scope}`",
                    quoted(name)
                )
            });
            return change::fail(&error, hint.as_deref());
        }
    };
    if let Some(secret) = secret
        && let Err(exit) = keep_secret(configured, new, &secret)
    {
        return exit;
    }
    let kind = new.entry["type"].as_str().unwrap_or("");
    let what = format!("added the {kind} server \"{name}\" to the {scope} scope")
        .replace("the  server", "the server");
    let document = json!({"added": name, "scope": scope, "file": change::path(&written)});
    let exit = change::tell(&what, &written, document, as_json);
    if scope == Scope::Project && holds_secrets(&new.entry) {
        output::warning(
            "the values of env and headers stand in that file as they are, for everyone who gets the project; write ${VAR} in place of a secret",
        );
    }
    tell_what_follows(configured, name, scope);
    exit
}

/// Whether an entry has values in `env` or `headers` that are more than references.
pub(super) fn holds_secrets(entry: &Value) -> bool {
    let mut hidden = entry.clone();
    redact_entry(&mut hidden, RedactMode::Display);
    ["env", "headers"]
        .iter()
        .any(|field| hidden.get(field) != entry.get(field))
}

/// Says what the user may not expect: that it does not run as it is, or that a stronger entry counts.
fn tell_what_follows(configured: &Configured, name: &str, scope: Scope) {
    let set = configured.loader.load(&[]);
    let Some(new) = set.named(name).find(|server| server.entry.scope == scope) else {
        output::warning(&format!("\"{name}\" does not count here"));
        for problem in &set.diagnostics {
            output::warning(&problem.to_string());
        }
        return;
    };
    let quoted = quoted(name);
    let stronger = set
        .named(name)
        .find(|other| other.entry.scope < scope && standing::reason(other).is_none());
    match &new.standing {
        Standing::Active | Standing::Shadowed { .. } => {}
        Standing::Disabled => output::note(&format!(
            "  it is switched off for this project: trunkline enable {quoted}\n"
        )),
        Standing::PendingApproval { .. } => output::note(&format!(
            "  it needs your approval before it runs: trunkline approve {quoted}\n"
        )),
        _ => {
            if let Some((reason, _)) = standing::reason(new) {
                output::warning(&format!("\"{name}\" does not run: {reason}"));
            }
        }
    }
    if let Some(stronger) = stronger {
        let (scope, source) = (stronger.entry.scope, &stronger.entry.source);
        output::warning(&format!(
            "the {scope} scope has a \"{name}\" too, and that one counts here ({source})"
        ));
    }
}

/// The secret, from the environment or from a person.
fn read_secret() -> Result<Secret, String> {
    if let Ok(secret) = std::env::var(env_vars::MCP_CLIENT_SECRET)
        && !secret.is_empty()
    {
        return Ok(Secret::new(secret));
    }
    if !output::can_ask() {
        return Err("there is no terminal on which to ask for the client secret".to_owned());
    }
    let asked = rpassword::prompt_password("OAuth client secret: ");
    match asked {
        Ok(secret) if secret.is_empty() => Err("the client secret is empty".to_owned()),
        Ok(secret) => Ok(Secret::new(secret)),
        Err(error) => Err(format!("the client secret could not be read: {error}")),
    }
}

/// Puts the secret into the keychain.
fn keep_secret(configured: &Configured, new: &New, secret: &Secret) -> Result<(), Exit> {
    let vault = session::vault(configured.loader.layout());
    let url = new.entry["url"].as_str().unwrap_or_default();
    match vault.set_client_secret(&new.name, url, secret) {
        Ok(kept) => {
            if let Some(warning) = kept.warning() {
                output::warning(&warning);
            }
            Ok(())
        }
        Err(error) => {
            let what =
                format!("the server was added, but its client secret could not be kept: {error}");
            output::error(&what, None);
            Err(Exit::Failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn add(words: &str) -> Result<New, String> {
        let words = words.split(' ').map(|word| word.replace('~', " "));
        let args = std::iter::once("trunkline".to_owned()).chain(words);
        match Args::try_parse_from(args)
            .map_err(|error| error.to_string())?
            .command
        {
            Command::Add(add) => New::read(&add).map_err(|(problem, _)| problem),
            _ => Err("another command".to_owned()),
        }
    }

    #[test]
    fn words_become_entries() {
        let stdio = |command: &str, args: &[&str], env: Value| json!({"type": "stdio", "command": command, "args": args, "env": env});
        for (words, name, entry) in [
            ("add a cmd", "a", stdio("cmd", &[], json!({}))),
            ("add a cmd x y", "a", stdio("cmd", &["x", "y"], json!({}))),
            (
                "add a -- cmd -y --flag",
                "a",
                stdio("cmd", &["-y", "--flag"], json!({})),
            ),
            (
                "add -e A=1 a -- cmd",
                "a",
                stdio("cmd", &[], json!({"A": "1"})),
            ),
            (
                "add -e A=1 B=2 a -- cmd",
                "a",
                stdio("cmd", &[], json!({"A": "1", "B": "2"})),
            ),
            (
                "add a -e A=1 B=x=y -- cmd",
                "a",
                stdio("cmd", &[], json!({"A": "1", "B": "x=y"})),
            ),
            (
                "add a -e A= -e B=2 cmd C=3",
                "a",
                stdio("cmd", &["C=3"], json!({"A": "", "B": "2"})),
            ),
            ("add -t stdio a cmd", "a", stdio("cmd", &[], json!({}))),
            (
                "add -s user a -- cmd -s x",
                "a",
                stdio("cmd", &["-s", "x"], json!({})),
            ),
            (
                "add a https://h/mcp",
                "a",
                json!({"type": "http", "url": "https://h/mcp"}),
            ),
            (
                "add a wss://h/mcp",
                "a",
                json!({"type": "ws", "url": "wss://h/mcp"}),
            ),
            (
                "add --transport sse a https://h/sse",
                "a",
                json!({"type": "sse", "url": "https://h/sse"}),
            ),
            (
                "add -t http a https://h -H X-A:~b:c -H Y:d",
                "a",
                json!({"type": "http", "url": "https://h", "headers": {"X-A": "b:c", "Y": "d"}}),
            ),
            (
                "add -t http -H X:~1 Y:~2 a https://h",
                "a",
                json!({"type": "http", "url": "https://h", "headers": {"X": "1", "Y": "2"}}),
            ),
            (
                "add a https://h --client-id i --callback-port 8080",
                "a",
                json!({"type": "http", "url": "https://h", "oauth": {"clientId": "i", "callbackPort": 8080}}),
            ),
        ] {
            let new = add(words).unwrap_or_else(|problem| panic!("{words}: {problem}"));
            assert_eq!((new.name.as_str(), new.entry), (name, entry), "{words}");
        }
    }

    #[test]
    fn mistakes_are_explained_and_secrets_not_quoted() {
        for (words, told) in [
            ("add a", "neither a command nor a URL"),
            ("add -t stdio a https://h", "is a URL"),
            ("add a cmd -H X:~y", "for remote servers"),
            ("add a cmd --client-id i", "for remote servers"),
            ("add a https://h x", "only a URL"),
            ("add a https://h -e A=1", "for stdio servers"),
            (
                "add a https://h -H hunter2",
                "not of the form 'Name: value'",
            ),
            ("add a cmd -e nonsense", "not of the form KEY=VALUE"),
            ("add a wss://h --client-id i", "OAuth is for http and sse"),
            (
                "add a https://h --client-secret",
                "--client-secret needs --client-id",
            ),
            ("add a cmd -y", "'-y'"),
            ("add a cmd -s moon", "moon"),
        ] {
            let problem = add(words).unwrap_err();
            assert!(
                problem.contains(told) && !problem.contains("hunter2"),
                "{words}: {problem}"
            );
        }
    }
}
