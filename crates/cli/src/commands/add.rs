//! `trunkline add` and `add-json`: writes a server into a configuration file, then connects to it
//! once.
//!
//! The check neither undoes the entry nor fails the command, so that scripts written for Claude
//! Code keep working where a server cannot be reached yet.

use std::io::Read;

use serde_json::{Map, Value, json};
use trunkline_config::redact::literal_secrets;
use trunkline_config::{ChangeError, EntryStatus, Scope, Secret, WriteOutcome, env_vars};

use super::check::{self, Check};
use super::new_server::NewServer;
use super::remove::metadata_url;
use crate::args::{AddArgs, AddJsonArgs, AddOptions, ConfigArgs};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session::{self, Configured};
use crate::standing::{self, last_word, quoted};

pub(crate) async fn run(config: &ConfigArgs, add: &AddArgs, as_json: bool) -> Exit {
    let configured = match editable_config(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    match NewServer::parse(add) {
        Ok(new) => write(config, &configured, &new, &add.options, as_json).await,
        Err((problem, hint)) => {
            output::error(&problem, hint.as_deref());
            Exit::Usage
        }
    }
}

/// Loads the configuration, unless the enterprise file is exclusive.
pub(super) fn editable_config(config: &ConfigArgs) -> Result<Configured, Exit> {
    let configured = session::configuration(config)?;
    match &configured.set.exclusive {
        Some(file) => Err(change::refuse_exclusive(file)),
        None => Ok(configured),
    }
}

pub(crate) async fn run_json(config: &ConfigArgs, add: &AddJsonArgs, as_json: bool) -> Exit {
    let configured = match editable_config(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let mut text = add.entry.clone();
    if text == "-" {
        text.clear();
        if let Err(error) = std::io::stdin().lock().read_to_string(&mut text) {
            output::error(&format!("cannot read stdin: {error}"), None);
            return Exit::Usage;
        }
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(outer)) if is_wrapped(&outer) => {
            let hint = "pass only the entry itself: {\"command\": …} or {\"url\": …}";
            output::error("this is a set of servers, not one entry", Some(hint));
            Exit::Usage
        }
        Ok(entry @ Value::Object(_)) => {
            let new = NewServer {
                name: add.name.clone(),
                entry,
                notes: Vec::new(),
            };
            write(config, &configured, &new, &add.options, as_json).await
        }
        Ok(_) => {
            let hint = r#"for example '{"type": "stdio", "command": "npx", "args": ["server"]}'"#;
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

/// Returns whether the JSON is the object around an entry, or a whole file.
fn is_wrapped(outer: &Map<String, Value>) -> bool {
    let is_entry = |value: &Value| value.get("command").is_some() || value.get("url").is_some();
    let one_inside = outer.len() == 1 && outer.values().any(is_entry);
    outer.contains_key("mcpServers") || one_inside
}

async fn write(
    config: &ConfigArgs,
    configured: &Configured,
    new: &NewServer,
    options: &AddOptions,
    as_json: bool,
) -> Exit {
    let scope = Scope::from(options.scope);
    let name = &new.name;
    let secret = match options
        .client_secret
        .then(|| read_secret(env_vars::MCP_CLIENT_SECRET))
        .transpose()
    {
        Ok(secret) => secret,
        Err(problem) => {
            let hint = format!("set {}", env_vars::MCP_CLIENT_SECRET);
            output::error(&problem, Some(&hint));
            return Exit::Usage;
        }
    };
    let (written, replaced) = match store(configured, new, scope, options.force) {
        Ok(stored) => stored,
        Err(exit) => return exit,
    };
    if let Some(secret) = secret
        && let Err(exit) = store_secret(configured, new, &secret)
    {
        return exit;
    }
    for note in &new.notes {
        output::note(Lines::one(format!("note: {note}")));
    }
    let mut document = json!({"added": name, "scope": scope, "file": change::path(&written)});
    if replaced {
        document["replaced"] = json!(true);
    }
    if !as_json {
        let kind = new.entry["type"].as_str().unwrap_or("");
        let done = if replaced { "replaced" } else { "added" };
        let preposition = if replaced { "in" } else { "to" };
        let what = format!("{done} the {kind} server \"{name}\" {preposition} the {scope} scope")
            .replace("the  server", "the server");
        change::report(&what, &written, Value::Null, false);
    }
    warn_of_secrets(name, &new.entry, scope);
    let effect = report_effect(configured, name, scope);
    if options.no_check {
        if as_json {
            change::report("", &written, document, true);
        }
        return Exit::Done;
    }
    let check = match effect {
        Effect::Runs => match check::connect(config, name).await {
            Ok(check) => check,
            Err(exit) => {
                let what = format!("added \"{name}\" without checking it");
                output::note(Lines::one(what));
                return exit;
            }
        },
        Effect::Inactive(state) => Check::of_files(configured, name, scope, state),
    };
    document["check"] = check.as_value();
    if as_json {
        change::report("", &written, document, true);
    } else {
        check.print(name);
    }
    Exit::Done
}

/// Writes the entry. Returns whether it replaced another one.
fn store(
    configured: &Configured,
    new: &NewServer,
    scope: Scope,
    force: bool,
) -> Result<(WriteOutcome, bool), Exit> {
    let (editor, policy) = (configured.editor(), &configured.set.policy);
    let name = &new.name;
    match editor.add(scope, name, &new.entry, policy) {
        Ok(written) => Ok((written, false)),
        Err(ChangeError::Exists { .. }) if force => editor
            .add_or_replace(scope, name, &new.entry, policy)
            .map(|written| (written, true))
            .map_err(|error| change::fail(&error, None)),
        Err(error) => {
            let exists = matches!(error, ChangeError::Exists { .. });
            let name = quoted(name);
            let hint = exists.then(|| {
                format!(
                    "replace it with --force, or change it with `trunkline edit {name} -s {scope}`"
                )
            });
            Err(change::fail(&error, hint.as_deref()))
        }
    }
}

/// Warns of literal secrets in a file that is part of the repository.
pub(super) fn warn_of_secrets(name: &str, entry: &Value, scope: Scope) {
    if scope != Scope::Project {
        return;
    }
    for secret in literal_secrets(name, entry) {
        output::warning(&format!(
            "{} is a literal secret in a file of the repository; use \"${{{}}}\" instead",
            secret.field, secret.variable
        ));
    }
}

/// Whether a written entry takes effect.
pub(super) enum Effect {
    Runs,
    /// It does not run; its state, as in `list`.
    Inactive(&'static str),
}

/// Reports if a written entry does not run, or if a stronger entry shadows it.
pub(super) fn report_effect(configured: &Configured, name: &str, scope: Scope) -> Effect {
    let set = configured.loader.load(&[]);
    let Some(new) = set.named(name).find(|server| server.entry.scope == scope) else {
        output::warning(&format!("\"{name}\" has no effect here"));
        for problem in &set.diagnostics {
            output::warning(&problem.to_string());
        }
        return Effect::Inactive("unused");
    };
    let quoted = last_word(name);
    let stronger = set
        .named(name)
        .find(|other| other.entry.scope < scope && standing::reason(other).is_none());
    match &new.status {
        EntryStatus::Active | EntryStatus::Shadowed { .. } => {}
        EntryStatus::Disabled => output::note(Lines::one(format!(
            "  disabled in this project; enable it with `trunkline enable {quoted}`"
        ))),
        EntryStatus::PendingApproval { .. } => output::note(Lines::one(format!(
            "  needs your approval: `trunkline approve {quoted}`"
        ))),
        _ => {
            if let Some((reason, _)) = standing::reason(new) {
                output::warning(&format!("\"{name}\" does not run: {reason}"));
            }
        }
    }
    if let Some(stronger) = stronger {
        let (scope, source) = (stronger.entry.scope, &stronger.entry.source);
        output::warning(&format!(
            "the {scope} scope also has a \"{name}\", which takes precedence ({source})"
        ));
        return Effect::Inactive("shadowed");
    }
    match new.status.name() {
        None if new.status == EntryStatus::Active => Effect::Runs,
        state => Effect::Inactive(state.unwrap_or("disabled")),
    }
}

/// Reads a client secret from an environment variable or the terminal.
pub(super) fn read_secret(variable: &str) -> Result<Secret, String> {
    if let Ok(secret) = std::env::var(variable)
        && !secret.is_empty()
    {
        return Ok(Secret::new(secret));
    }
    if !output::can_ask() {
        return Err("cannot prompt for the client secret without a terminal".to_owned());
    }
    let asked = rpassword::prompt_password("OAuth client secret: ");
    match asked {
        Ok(secret) if secret.is_empty() => Err("the client secret is empty".to_owned()),
        Ok(secret) => Ok(Secret::new(secret)),
        Err(error) => Err(format!("cannot read the client secret: {error}")),
    }
}

/// Stores the client secret in the keychain.
fn store_secret(configured: &Configured, new: &NewServer, secret: &Secret) -> Result<(), Exit> {
    let vault = session::vault(configured.loader.layout());
    let url = new.entry["url"].as_str().unwrap_or_default();
    match vault.set_client_secret(&new.name, url, metadata_url(&new.entry), secret) {
        Ok(kept) => {
            if let Some(warning) = kept.warning() {
                output::warning(&warning);
            }
            Ok(())
        }
        Err(error) => {
            let what =
                format!("the server was added, but its client secret could not be stored: {error}");
            output::error(&what, None);
            Err(Exit::Failed)
        }
    }
}
