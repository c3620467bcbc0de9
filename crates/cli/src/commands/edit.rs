//! `trunkline edit`: changes a server's entry in place and keeps every other byte of the file
//! (CFG-4).

mod editor;

use serde_json::{Value, json};
use trunkline_config::redact::{RedactMode, redact_entry};
use trunkline_config::{EntryChange, EntryEdit, EntryText, Scope};

use super::add::{Effect, editable_config, report_effect, warn_of_secrets};
use super::new_server::{NOT_A_HEADER, Problem, assignment, header, reject_bare_address, variable};
use super::remove::metadata_url;
use crate::args::{ConfigArgs, EditArgs};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session::Configured;
use crate::standing::{last_word, quoted};

pub(crate) async fn run(config: &ConfigArgs, args: &EditArgs, as_json: bool) -> Exit {
    let configured = match editable_config(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let (scope, seen) = match find(&configured, args) {
        Ok(found) => found,
        Err(exit) => return exit,
    };
    // An entry too deep to parse goes to the editor as it is.
    let entry: Value = serde_json::from_str(&seen.text).unwrap_or_default();
    let edits = match edits(args, &entry) {
        Ok(edits) => edits,
        Err((problem, hint)) => {
            output::error(&problem, hint.as_deref());
            return Exit::Usage;
        }
    };
    let name = args.name.as_str();
    // Without options on a terminal, open the editor.
    let opens = args.editor || (edits.is_empty() && output::can_ask() && !as_json);
    let changed = if opens {
        if !edits.is_empty() {
            let what = "--editor cannot be combined with other changes";
            output::error(what, Some("make all changes in the editor"));
            return Exit::Usage;
        }
        editor::edit(&configured, scope, name, &seen).await
    } else if edits.is_empty() {
        let name = quoted(name);
        let hint = format!(
            "open it with `trunkline edit {name} --editor`, or see `trunkline edit --help`"
        );
        output::error("no changes given", Some(&hint));
        return Exit::Usage;
    } else {
        let policy = &configured.set.policy;
        let changed = configured
            .editor()
            .edit_entry(scope, name, &seen, &edits, policy);
        changed
            .map(Some)
            .map_err(|error| change::fail(&error, None))
    };
    match changed {
        Ok(Some(changed)) => report(&configured, name, scope, &changed, as_json),
        Ok(None) => nothing_changed(name, as_json),
        Err(exit) => exit,
    }
}

/// Finds the scope and the entry.
fn find(configured: &Configured, args: &EditArgs) -> Result<(Scope, EntryText), Exit> {
    let (editor, name) = (configured.editor(), args.name.as_str());
    let places = editor.scopes_of(name);
    let scope = match (args.scope, places.as_slice()) {
        (Some(scope), _) => scope.into(),
        (None, [only]) => only.scope,
        (None, []) => {
            return Err(match configured.foremost(name) {
                Some(server) => {
                    let (scope, source) = (server.entry.scope, &server.entry.source);
                    let what = format!(
                        "\"{name}\" comes from the {scope} scope ({source}), which cannot be edited"
                    );
                    output::error(&what, None);
                    Exit::Usage
                }
                None => configured.unknown(name),
            });
        }
        (None, several) => {
            let what = format!("\"{name}\" is in several scopes; which one?");
            let scopes: Vec<_> = several
                .iter()
                .map(|place| format!("-s {}", place.scope))
                .collect();
            output::error(&what, Some(&format!("add one of: {}", scopes.join(", "))));
            return Err(Exit::Usage);
        }
    };
    match editor.entry_text(scope, name) {
        Ok(seen) => Ok((scope, seen)),
        Err(error) => {
            let elsewhere = places.iter().find(|place| place.scope != scope);
            let hint = elsewhere.map(|place| format!("it is in the {} scope", place.scope));
            Err(change::fail(&error, hint.as_deref()))
        }
    }
}

/// Converts the options into edits.
fn edits(args: &EditArgs, entry: &Value) -> Result<Vec<EntryEdit>, Problem> {
    fits(args, entry)?;
    let mut edits = Vec::new();
    for written in &args.env {
        let (key, value) = variable(written)?;
        edits.push(EntryEdit::set(&["env", key], value));
    }
    for written in &args.header {
        let Some((name, value)) = header(written) else {
            return Err((NOT_A_HEADER.to_owned(), None));
        };
        let name = known_header(entry, name).unwrap_or(name);
        edits.push(EntryEdit::set(&["headers", name], value));
    }
    for key in &args.unset_env {
        is_there(entry, &["env", key])?;
        edits.push(EntryEdit::remove(&["env", key]));
    }
    for name in &args.unset_header {
        let name = known_header(entry, name).unwrap_or(name);
        is_there(entry, &["headers", name])?;
        edits.push(EntryEdit::remove(&["headers", name]));
    }
    if let Some((command, words)) = args.command_line.split_first() {
        edits.push(EntryEdit::set(&["command"], command.as_str()));
        edits.push(EntryEdit::set(&["args"], words.to_vec()));
    }
    if let Some(new) = new_args(args, entry)? {
        edits.push(EntryEdit::set(&["args"], new));
    }
    if let Some(url) = &args.url {
        reject_bare_address(url)?;
    }
    for (field, value) in [
        ("command", &args.command),
        ("url", &args.url),
        ("cwd", &args.cwd),
    ] {
        if let Some(value) = value {
            edits.push(EntryEdit::set(&[field], value.as_str()));
        }
    }
    for (field, value) in [
        ("timeout", args.timeout),
        ("connectTimeout", args.connect_timeout),
    ] {
        if let Some(value) = value {
            let millis = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
            edits.push(EntryEdit::set(&[field], millis));
        }
    }
    for written in &args.set {
        let Some((field, value)) = assignment(written) else {
            let problem = "a field must have the form FIELD=JSON".to_owned();
            return Err((problem, None));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        edits.push(EntryEdit::set(&members(field), value));
    }
    for field in &args.unset {
        is_there(entry, &members(field))?;
        edits.push(EntryEdit::remove(&members(field)));
    }
    Ok(edits)
}

/// Splits the name of a field in an object, such as `oauth.scopes`.
fn members(field: &str) -> Vec<&str> {
    match field.split_once('.') {
        Some((object @ ("oauth" | "tls" | "tools"), member)) => vec![object, member],
        _ => vec![field],
    }
}

/// Checks that the changes suit the kind of server: stdio and remote servers do not turn into each
/// other.
fn fits(args: &EditArgs, entry: &Value) -> Result<(), Problem> {
    let is_program = entry.get("command").is_some() && entry.get("url").is_none();
    let is_remote = entry.get("url").is_some() && entry.get("command").is_none();
    let for_remote = args.url.is_some() || !args.header.is_empty();
    let for_program = args.command.is_some()
        || args.cwd.is_some()
        || !(args.env.is_empty() && args.arg.is_empty() && args.command_line.is_empty());
    let name = quoted(&args.name);
    if is_program && for_remote {
        let problem = format!(
            "\"{}\" is a stdio server and has no URL or headers",
            args.name
        );
        let hint = format!("replace it with `trunkline add --force {name} URL`");
        return Err((problem, Some(hint)));
    }
    if is_remote && for_program {
        let problem = format!(
            "\"{}\" is a remote server and has no command, arguments or environment",
            args.name
        );
        let hint = format!("replace it with `trunkline add --force {name} -- COMMAND`");
        return Err((problem, Some(hint)));
    }
    let in_parts = args.command.is_some() || !args.arg.is_empty() || !args.unset_arg.is_empty();
    if in_parts && !args.command_line.is_empty() {
        let problem = "a command after `--` cannot be combined with --command and --arg";
        return Err((problem.to_owned(), None));
    }
    Ok(())
}

/// Returns the header's name as the entry spells it.
fn known_header<'a>(entry: &'a Value, name: &str) -> Option<&'a str> {
    let headers = entry.get("headers")?.as_object()?;
    let found = headers.keys().find(|key| key.eq_ignore_ascii_case(name));
    found.map(String::as_str)
}

fn is_there(entry: &Value, path: &[&str]) -> Result<(), Problem> {
    let found = path.iter().try_fold(entry, |value, key| value.get(key));
    if found.is_some() {
        return Ok(());
    }
    let what = format!("the entry has no {}", path.join("."));
    let (last, parents) = (
        path.last().copied().unwrap_or_default(),
        &path[..path.len() - 1],
    );
    let parent = parents.iter().try_fold(entry, |value, key| value.get(key));
    let known = parent.and_then(Value::as_object);
    let known = known.into_iter().flatten().map(|(key, _)| key.as_str());
    let hint =
        trunkline::text::nearest(last, known).map(|near| format!("did you mean \"{near}\"?"));
    Err((what, hint))
}

/// Returns the new arguments; `None` if they do not change.
fn new_args(args: &EditArgs, entry: &Value) -> Result<Option<Vec<Value>>, Problem> {
    if args.arg.is_empty() && args.unset_arg.is_empty() {
        return Ok(None);
    }
    let before = entry.get("args").and_then(Value::as_array);
    let mut words = before.cloned().unwrap_or_default();
    for (at, gone) in args.unset_arg.iter().enumerate() {
        let Some(found) = words.iter().position(|word| word == gone.as_str()) else {
            // The argument may be a secret.
            let which = format!("--unset-arg number {}", at + 1);
            return Err((format!("the entry has no such argument: {which}"), None));
        };
        words.remove(found);
    }
    words.extend(args.arg.iter().map(|arg| Value::from(arg.as_str())));
    Ok(Some(words))
}

fn nothing_changed(name: &str, as_json: bool) -> Exit {
    if as_json {
        output::json(&json!({"edited": name, "changes": []}));
    } else {
        output::result(Lines::one(format!("\"{name}\" is unchanged")));
    }
    Exit::Done
}

fn report(
    configured: &Configured,
    name: &str,
    scope: Scope,
    changed: &EntryChange,
    as_json: bool,
) -> Exit {
    let differences = differences(&changed.before, &changed.after);
    if differences.is_empty() {
        return nothing_changed(name, as_json);
    }
    let mut lines = Lines::one(format!("changed \"{name}\" in the {scope} scope"));
    for (field, old, new) in &differences {
        let side = |value: &Option<Value>| match value {
            Some(value) => value.to_string(),
            None => "(none)".to_owned(),
        };
        let note = if old == new { " (different value)" } else { "" };
        lines.push(format!("  {field}: {} → {}{note}", side(old), side(new)));
    }
    let list: Vec<Value> = differences
        .iter()
        .map(|(field, old, new)| json!({"field": field, "old": old, "new": new}))
        .collect();
    let file = change::path(&changed.write);
    let document = json!({"edited": name, "scope": scope, "file": file, "changes": list});
    let exit = change::report_lines(lines, &changed.write, document, as_json);
    warn_of_secrets(name, &changed.after, scope);
    let oauth = changed.after.pointer("/oauth/clientId").is_some();
    let moved = |key: fn(&Value) -> Option<&str>| key(&changed.before) != key(&changed.after);
    if oauth && (moved(|entry| entry.get("url")?.as_str()) || moved(metadata_url)) {
        output::warning("its client secret belongs to the old URL; add it again if needed");
    }
    if let (Effect::Runs, false) = (report_effect(configured, name, scope), as_json) {
        output::note(Lines::one(format!(
            "next: trunkline get {}",
            last_word(name)
        )));
    }
    exit
}

/// Returns the changed fields with old and new values, masked.
fn differences(before: &Value, after: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut masked = [before.clone(), after.clone()];
    for entry in &mut masked {
        redact_entry(entry, RedactMode::Display);
    }
    let [old, new] = &masked;
    let at = |entry: &Value, path: &[String]| {
        let found = path.iter().try_fold(entry, |value, key| value.get(key));
        found.cloned()
    };
    EntryEdit::between(before, after)
        .into_iter()
        .map(|edit| {
            let (EntryEdit::Set { path, .. } | EntryEdit::Remove { path }) = edit;
            let field = if path.is_empty() {
                "entry".to_owned()
            } else {
                path.join(".")
            };
            (field, at(old, &path), at(new, &path))
        })
        .collect()
}
