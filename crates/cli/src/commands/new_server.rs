//! Parses the words of `trunkline add` into an entry.

use std::path::Path;

use serde_json::{Map, Value, json};
use trunkline_config::{split_command, split_words};

use super::check::find_program;
use crate::args::{AddArgs, NewTransport};

/// A server to add.
#[derive(Debug, PartialEq)]
pub(super) struct NewServer {
    pub(super) name: String,
    pub(super) entry: Value,
    /// Where the entry differs from the words as typed.
    pub(super) notes: Vec<String>,
}

/// A problem and a hint.
pub(super) type Problem = (String, Option<String>);

impl NewServer {
    /// Parses the words. Claude Code's `-e` and `-H` take several values, ours one; words that can
    /// only be such values count as them, so that both spellings work and no name is swallowed.
    pub(super) fn parse(add: &AddArgs) -> Result<Self, Problem> {
        let mut env: Vec<&str> = add.env.iter().map(String::as_str).collect();
        let mut headers: Vec<&str> = add.header.iter().map(String::as_str).collect();
        let mut words: Vec<&str> = Vec::new();
        for word in &add.words {
            // Before the name, or with the command after `--`, it can be nothing else.
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
                    Some("usage: `trunkline add <name> <command or URL>`".to_owned()),
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
        if add.transport != Some(NewTransport::Stdio) {
            reject_bare_address(target)?;
        }
        let mut notes = Vec::new();
        let entry = if transport == NewTransport::Stdio {
            let (command, words) = split_command_line(target, args, &mut notes);
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            stdio(add, &command, &args, &env, &headers)?
        } else {
            remote(add, transport, target, args, &env, &headers)?
        };
        Ok(Self {
            name: name.to_owned(),
            entry,
            notes,
        })
    }
}

/// Splits a command line that was typed as one word.
fn split_command_line(
    target: &str,
    args: &[&str],
    notes: &mut Vec<String>,
) -> (String, Vec<String>) {
    let args = args.iter().map(|arg| (*arg).to_owned());
    let is_program = |word: &str| find_program(word).is_some();
    let words = if !target.contains(char::is_whitespace) || is_program(target) {
        None
    } else {
        let starts_program = |words: &Vec<String>| words.len() > 1 && is_program(&words[0]);
        split_command(target).or_else(|| split_words(target).filter(starts_program))
    };
    let Some(mut words) = words else {
        return (target.to_owned(), args.collect());
    };
    let command = words.remove(0);
    words.extend(args);
    let count = words.len();
    let plural = if count == 1 { "" } else { "s" };
    notes.push(format!(
        "split the command line into \"{command}\" and {count} argument{plural}"
    ));
    (command, words)
}

/// Rejects an address without a scheme, and suggests the URL.
pub(super) fn reject_bare_address(target: &str) -> Result<(), Problem> {
    let Some(url) = as_address(target) else {
        return Ok(());
    };
    let problem = format!("\"{target}\" is an address without http:// or https://");
    Err((problem, Some(format!("use {url}"))))
}

/// Returns the URL for an address such as `localhost:3000/mcp`; `None` for a program.
fn as_address(target: &str) -> Option<String> {
    if target.contains("://") || Path::new(target).exists() {
        return None;
    }
    let (authority, path) = target.split_at(target.find('/').unwrap_or(target.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let named = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric()) && host.chars().all(named);
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let is_local = host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok();
    let last = host.rsplit_once('.').map_or("", |(_, last)| last);
    let is_domain = last.len() >= 2 && last.chars().all(|c| c.is_ascii_alphabetic());
    let is_address = match port {
        Some(port) => is_port(port),
        None => (is_local || is_domain) && !path.is_empty(),
    };
    let scheme = if is_local { "http" } else { "https" };
    (is_host && is_address).then(|| format!("{scheme}://{target}"))
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
        let problem = format!("\"{url}\" is a URL, but a stdio server needs a command");
        return Err((problem, Some("omit -t, or use -t http".to_owned())));
    }
    let oauth = add.client_id.is_some() || add.options.client_secret || add.callback_port.is_some();
    if !headers.is_empty() || oauth {
        let problem = "headers and OAuth are for remote servers; a stdio server takes -e KEY=VALUE";
        return Err((problem.to_owned(), None));
    }
    let mut variables = Map::new();
    for assignment in env {
        let (key, value) = variable(assignment)?;
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
        let problem = "a remote server takes only a URL, without arguments".to_owned();
        let hint = "set headers with -H 'Name: value'".to_owned();
        return Err((problem, Some(hint)));
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
                return Err((NOT_A_HEADER.to_owned(), None));
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
    if !oauth.is_empty() || add.options.client_secret {
        if transport == NewTransport::Ws {
            return Err(("OAuth is for http and sse servers".to_owned(), None));
        }
        if add.options.client_secret && add.client_id.is_none() {
            return Err(("--client-secret needs --client-id".to_owned(), None));
        }
        entry["oauth"] = oauth.into();
    }
    Ok(entry)
}

/// Returns whether a word has the form `KEY=VALUE`.
fn is_assignment(word: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(key, _)| !key.is_empty() && key.chars().all(named))
}

// These messages do not repeat the text, which may be a secret.
const NOT_A_VARIABLE: &str = "an environment variable must have the form KEY=VALUE";
const NOT_A_NAME: &str = "the name of a variable cannot have spaces or control characters";
pub(super) const NOT_A_HEADER: &str = "a header must have the form 'Name: value'";

/// Splits a variable into name and value.
pub(super) fn variable(written: &str) -> Result<(&str, &str), Problem> {
    let (key, value) = assignment(written).ok_or((NOT_A_VARIABLE.to_owned(), None))?;
    if key.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err((NOT_A_NAME.to_owned(), None));
    }
    Ok((key, value))
}

/// Splits a word at the first `=`.
pub(super) fn assignment(written: &str) -> Option<(&str, &str)> {
    written.split_once('=').filter(|(key, _)| !key.is_empty())
}

/// Splits a header into name and value.
pub(super) fn header(written: &str) -> Option<(&str, &str)> {
    let (name, value) = written.split_once(':')?;
    let name = name.trim();
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    // `https://…` is not a header.
    let fits = !name.is_empty() && name.chars().all(token) && !value.starts_with("//");
    fits.then_some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn add(words: &str) -> Result<NewServer, String> {
        let words = words.split(' ').map(|word| word.replace('~', " "));
        let args = std::iter::once("trunkline".to_owned()).chain(words);
        match Args::try_parse_from(args)
            .map_err(|error| error.to_string())?
            .command
        {
            Some(Command::Add(add)) => NewServer::parse(&add).map_err(|(problem, _)| problem),
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
                "add a npx~-y~pkg z",
                "a",
                stdio("npx", &["-y", "pkg", "z"], json!({})),
            ),
            (
                "add a /no/such~dir/cmd",
                "a",
                stdio("/no/such dir/cmd", &[], json!({})),
            ),
            (
                "add a dir.d/server.py x.y/z",
                "a",
                stdio("dir.d/server.py", &["x.y/z"], json!({})),
            ),
            (
                "add -t stdio a localhost:3000/mcp",
                "a",
                stdio("localhost:3000/mcp", &[], json!({})),
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
    fn mistakes_are_explained_without_repeating_secrets() {
        for (words, expected) in [
            ("add a", "neither a command nor a URL"),
            ("add -t stdio a https://h", "is a URL"),
            ("add a cmd -H X:~y", "for remote servers"),
            ("add a cmd --client-id i", "for remote servers"),
            ("add a https://h x", "only a URL"),
            ("add a https://h -e A=1", "for stdio servers"),
            (
                "add a https://h -H hunter2",
                "must have the form 'Name: value'",
            ),
            ("add a cmd -e nonsense", "must have the form KEY=VALUE"),
            ("add a wss://h --client-id i", "OAuth is for http and sse"),
            (
                "add a https://h --client-secret",
                "--client-secret needs --client-id",
            ),
            ("add a localhost:3000/mcp", "without http://"),
            ("add a -t http 127.0.0.1:80", "without http://"),
            ("add a mcp.sentry.dev/mcp", "without http://"),
            ("add a cmd -y", "'-y'"),
            ("add a cmd -s moon", "moon"),
        ] {
            let problem = add(words).unwrap_err();
            assert!(
                problem.contains(expected) && !problem.contains("hunter2"),
                "{words}: {problem}"
            );
        }
    }
}
