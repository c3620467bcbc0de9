//! `trunkline import`: takes over the servers of other MCP clients (CFG-11).

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use trunkline_config::import::{self, Client, Found, Imported, Os, Places};
use trunkline_config::redact::{RedactMode, redact_entry};
use trunkline_config::{ChangeError, Editor, Scope};

use crate::args::{ConfigArgs, ImportArgs, WriteScope};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, harmless, harmless_lines};
use crate::session::{self, Configured};

pub(crate) fn run(config: &ConfigArgs, args: &ImportArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Some(file) = &configured.set.exclusive {
        return change::refuse_exclusive(file);
    }
    let clients = match clients(args) {
        Ok(clients) => clients,
        Err(exit) => return exit,
    };
    let found = match find(&clients, args) {
        Ok(found) => found,
        Err(exit) => return exit,
    };
    for diagnostic in &found.diagnostics {
        output::warning(&diagnostic.to_string());
    }
    let scope = Scope::from(args.scope);
    if let Some(exit) = check_wanted(&found.servers, &args.only) {
        return exit;
    }
    let planned = plan(&configured, scope, found.servers, &args.only);
    if !as_json {
        output::result(&description(&planned, scope));
    }
    let fresh = planned.iter().filter(|planned| planned.fate == Fate::New);
    let fresh: Vec<&Planned> = fresh.collect();
    let write = !args.dry_run && !fresh.is_empty() && may_write(args, fresh.len(), as_json);
    let mut written = Vec::new();
    let mut exit = Exit::Done;
    if write {
        (written, exit) = add_all(&configured, scope, &fresh);
    }
    if as_json {
        output::json(&document(&planned, &written));
    } else if !fresh.is_empty() && !write && !args.dry_run && !output::can_ask() {
        output::note("nothing was written; --yes writes it\n");
    }
    exit
}

/// What becomes of a server that was found.
struct Planned {
    found: Imported,
    fate: Fate,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It will be written.
    New,
    /// It is there already, just so.
    Known,
    /// The scope has another one of that name.
    Taken,
    /// A client that was looked at before has another one of that name.
    TakenBy(Client),
    /// It may not be added.
    Refused(String),
}

fn clients(args: &ImportArgs) -> Result<Vec<Client>, Exit> {
    let Some(wanted) = &args.client else {
        return Ok(Client::ALL.to_vec());
    };
    let known = Client::ALL.into_iter().find(|client| client.id() == wanted);
    known.map(|client| vec![client]).ok_or_else(|| {
        let ids = Client::ALL.map(Client::id);
        let hint = match trunkline::nearest(wanted, ids) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are: {}", ids.join(", ")),
        };
        output::error(&format!("there is no client \"{wanted}\""), Some(&hint));
        Exit::Usage
    })
}

fn find(clients: &[Client], args: &ImportArgs) -> Result<Found, Exit> {
    if let (Some(file), [client]) = (&args.file, clients) {
        let found = import::find_named(*client, file);
        // What was asked for by name must be there.
        if found.servers.is_empty() && !found.diagnostics.is_empty() {
            for problem in &found.diagnostics {
                output::error(&problem.to_string(), None);
            }
            return Err(Exit::Usage);
        }
        return Ok(found);
    }
    let Some(home) = std::env::home_dir() else {
        output::error("there is no home directory to look in", Some("set HOME"));
        return Err(Exit::Usage);
    };
    let variable = |name: &str| std::env::var_os(name);
    let places = Places::from_env(Os::current(), home, session::cwd()?, variable);
    let mut found = Found::default();
    for client in clients {
        let of_project = client.project_files(&places);
        let mut files = client.user_files(&places);
        if args.scope == WriteScope::Project {
            files.extend(of_project);
        } else {
            tell_of_the_project_s(*client, of_project, &files);
        }
        let more = import::find(*client, files);
        found.servers.extend(more.servers);
        found.diagnostics.extend(more.diagnostics);
    }
    Ok(found)
}

/// Says which servers are left out because they come with the project: in the user's own scopes they would run without
/// anybody's approval (CFG-6).
fn tell_of_the_project_s(client: Client, files: Vec<PathBuf>, of_user: &[PathBuf]) {
    for file in files {
        if of_user.contains(&file) {
            continue;
        }
        let found = import::find(client, [file.clone()]);
        if !found.servers.is_empty() {
            let names: Vec<_> = found
                .servers
                .iter()
                .map(|server| server.name.as_str())
                .collect();
            output::note(&harmless_lines(&format!(
                "left out, as they come with the project: {} ({}); `trunkline import {} -s project` takes them over, for approval\n",
                names.join(", "),
                file.display(),
                client.id(),
            )));
        }
    }
}

/// Explains that a server that was asked for is not there.
fn check_wanted(found: &[Imported], only: &[String]) -> Option<Exit> {
    let names = || {
        let names = found.iter();
        names.flat_map(|server| [server.name.as_str(), server.original_name.as_str()])
    };
    let missing = only
        .iter()
        .find(|wanted| !names().any(|name| name == *wanted))?;
    let hint = match trunkline::nearest(missing, names()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "`trunkline import --dry-run` shows what there is".to_owned(),
    };
    output::error(
        &format!("no client has a server \"{missing}\""),
        Some(&hint),
    );
    Some(Exit::Usage)
}

/// Decides about each server. Of several with one name the first counts.
fn plan(
    configured: &Configured,
    scope: Scope,
    found: Vec<Imported>,
    only: &[String],
) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for found in found {
        if !only.is_empty() && !only.contains(&found.name) && !only.contains(&found.original_name) {
            continue;
        }
        let entry = Value::Object(found.entry.clone());
        let before = planned
            .iter()
            .find(|earlier| earlier.found.name == found.name);
        let there = configured
            .set
            .named(&found.name)
            .find(|server| server.entry.scope == scope)
            .map(|server| server.entry.as_written());
        let fate = match (before, there) {
            (Some(earlier), _) if earlier.found.entry == found.entry => Fate::Known,
            (None, Some(there)) if there == entry => Fate::Known,
            (Some(earlier), _) => Fate::TakenBy(earlier.found.client),
            (None, Some(_)) => Fate::Taken,
            (None, None) => {
                match configured
                    .editor()
                    .check(scope, &found.name, &entry, &configured.set.policy)
                {
                    Ok(()) => Fate::New,
                    Err(error) => Fate::Refused(error.to_string()),
                }
            }
        };
        planned.push(Planned { found, fate });
    }
    planned
}

fn description(planned: &[Planned], scope: Scope) -> String {
    if planned.is_empty() {
        return "no servers of other clients were found\n".to_owned();
    }
    let mut text = String::new();
    let mut file = None;
    for Planned { found, fate } in planned {
        if file != Some(&found.file) {
            let _ = writeln!(
                text,
                "{}: {}",
                found.client,
                harmless(&found.file.display().to_string())
            );
            file = Some(&found.file);
        }
        let fate = match fate {
            Fate::New => format!("to be added to the {scope} scope"),
            Fate::Known => "already there".to_owned(),
            Fate::Taken => format!("left out: the {scope} scope has another server of that name"),
            Fate::TakenBy(client) => format!("left out: {client} has another server of that name"),
            Fate::Refused(reason) => format!("left out: {reason}"),
        };
        let _ = writeln!(text, "  {}  {}", harmless(&found.name), harmless(&fate));
        let mut entry = Value::Object(found.entry.clone());
        redact_entry(&mut entry, RedactMode::Display);
        let _ = writeln!(text, "    {}", harmless(&entry.to_string()));
        for note in &found.notes {
            let _ = writeln!(text, "    note: {}", harmless(note));
        }
    }
    text
}

/// Whether the user wants it written.
fn may_write(args: &ImportArgs, count: usize, as_json: bool) -> bool {
    if args.yes {
        return true;
    }
    let servers = if count == 1 {
        "1 server"
    } else {
        &format!("{count} servers")
    };
    !as_json && output::can_ask() && output::ask(&format!("add {servers}?"))
}

fn add_all<'p>(
    configured: &Configured,
    scope: Scope,
    fresh: &[&'p Planned],
) -> (Vec<&'p str>, Exit) {
    let editor: Editor = configured.editor();
    let mut written = Vec::new();
    let mut exit = Exit::Done;
    for planned in fresh {
        let (name, entry) = (
            &planned.found.name,
            Value::Object(planned.found.entry.clone()),
        );
        match editor.add(scope, name, &entry, &configured.set.policy) {
            Ok(place) => {
                written.push(name.as_str());
                output::note(&format!("added \"{name}\" to {}\n", place.file.display()));
            }
            // Somebody was quicker; it is there, which is all that was wanted.
            Err(ChangeError::Exists { .. }) => {}
            Err(error) => exit = change::fail(&error, None),
        }
    }
    (written, exit)
}

fn document(planned: &[Planned], written: &[&str]) -> Value {
    let servers: Vec<Value> = planned
        .iter()
        .map(|Planned { found, fate }| {
            let mut entry = Value::Object(found.entry.clone());
            redact_entry(&mut entry, RedactMode::Display);
            let added = written.contains(&found.name.as_str());
            let state = match fate {
                Fate::New if added => "added",
                Fate::New => "new",
                Fate::Known => "known",
                Fate::Taken | Fate::TakenBy(_) => "taken",
                Fate::Refused(_) => "refused",
            };
            json!({
                "client": found.client.id(),
                "file": found.file.to_string_lossy(),
                "name": found.name,
                "originalName": found.original_name,
                "state": state,
                "config": entry,
                "notes": found.notes,
            })
        })
        .collect();
    json!(servers)
}
