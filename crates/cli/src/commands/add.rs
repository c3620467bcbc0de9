//! `trunkline add` and `add-json`: writes a server into a configuration file, then connects to it
//! once.
//!
//! The check says whether the entry works; it never undoes the entry and never makes the command
//! fail, so that scripts written for Claude Code's flags go on working where a server cannot be
//! reached yet.

use std::io::Read;

use serde_json::{Map, Value, json};
use trunkline_config::redact::literal_secrets;
use trunkline_config::{ChangeError, Scope, Secret, Standing, Written, env_vars};

use super::check::{self, Check};
use super::new_server::New;
use crate::args::{AddArgs, AddJsonArgs, AddOptions, ConfigArgs};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session::{self, Configured};
use crate::standing::{self, quoted};

pub(crate) async fn run(config: &ConfigArgs, add: &AddArgs, as_json: bool) -> Exit {
    let configured = match changeable(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    match New::read(add) {
        Ok(new) => write(config, &configured, &new, &add.options, as_json).await,
        Err((problem, hint)) => {
            output::error(&problem, hint.as_deref());
            Exit::Usage
        }
    }
}

/// The configuration, unless a company's file decides alone.
pub(super) fn changeable(config: &ConfigArgs) -> Result<Configured, Exit> {
    let configured = session::configuration(config)?;
    match &configured.set.exclusive {
        Some(file) => Err(change::refuse_exclusive(file)),
        None => Ok(configured),
    }
}

pub(crate) async fn run_json(config: &ConfigArgs, add: &AddJsonArgs, as_json: bool) -> Exit {
    let configured = match changeable(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
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
                notes: Vec::new(),
            };
            write(config, &configured, &new, &add.options, as_json).await
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

async fn write(
    config: &ConfigArgs,
    configured: &Configured,
    new: &New,
    options: &AddOptions,
    as_json: bool,
) -> Exit {
    let scope = Scope::from(options.scope);
    let name = &new.name;
    let secret = match options.client_secret.then(read_secret).transpose() {
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
        && let Err(exit) = keep_secret(configured, new, &secret)
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
        change::tell(&what, &written, Value::Null, false);
    }
    warn_of_secrets(name, &new.entry, scope);
    let follows = what_follows(configured, name, scope);
    if options.no_check {
        if as_json {
            change::tell("", &written, document, true);
        }
        return Exit::Done;
    }
    let check = match follows {
        Follows::Runs => match check::connect(config, name).await {
            Ok(check) => check,
            Err(exit) => {
                let what = format!("\"{name}\" is added, and was not checked");
                output::note(Lines::one(what));
                return exit;
            }
        },
        Follows::Not(state) => Check::of_files(configured, name, scope, state),
    };
    document["check"] = check.as_value();
    if as_json {
        change::tell("", &written, document, true);
    } else {
        check.tell(name);
    }
    Exit::Done
}

/// Writes the entry; tells whether it took another one's place.
fn store(
    configured: &Configured,
    new: &New,
    scope: Scope,
    force: bool,
) -> Result<(Written, bool), Exit> {
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
                    "--force replaces it, `trunkline edit {name} -s {scope}` changes parts of it"
                )
            });
            Err(change::fail(&error, hint.as_deref()))
        }
    }
}

/// Warns of literal secrets in a file that everyone with the repository can read.
pub(super) fn warn_of_secrets(name: &str, entry: &Value, scope: Scope) {
    if scope != Scope::Project {
        return;
    }
    for secret in literal_secrets(name, entry) {
        output::warning(&format!(
            "{} is a literal secret in a file that everyone with the repository can read; write \"${{{}}}\" instead",
            secret.field, secret.variable
        ));
    }
}

/// Whether a server that was written runs.
pub(super) enum Follows {
    Runs,
    /// It does not; its state, as `list` names it.
    Not(&'static str),
}

/// Says what the user may not expect: that it does not run as it is, or that a stronger entry
/// counts.
pub(super) fn what_follows(configured: &Configured, name: &str, scope: Scope) -> Follows {
    let set = configured.loader.load(&[]);
    let Some(new) = set.named(name).find(|server| server.entry.scope == scope) else {
        output::warning(&format!("\"{name}\" does not count here"));
        for problem in &set.diagnostics {
            output::warning(&problem.to_string());
        }
        return Follows::Not("unused");
    };
    let quoted = quoted(name);
    let stronger = set
        .named(name)
        .find(|other| other.entry.scope < scope && standing::reason(other).is_none());
    match &new.standing {
        Standing::Active | Standing::Shadowed { .. } => {}
        Standing::Disabled => output::note(Lines::one(format!(
            "  it is switched off for this project: trunkline enable {quoted}"
        ))),
        Standing::PendingApproval { .. } => output::note(Lines::one(format!(
            "  it needs your approval before it runs: trunkline approve {quoted}"
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
            "the {scope} scope has a \"{name}\" too, and that one counts here ({source})"
        ));
        return Follows::Not("shadowed");
    }
    match new.standing.name() {
        None if new.standing == Standing::Active => Follows::Runs,
        state => Follows::Not(state.unwrap_or("disabled")),
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
