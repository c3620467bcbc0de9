//! `trunkline import`: takes over the servers of other MCP clients (CFG-11).
//!
//! A project's file is readable for everyone who has the repository, and a server in the user's own
//! scopes runs without approval. So project files are imported into the project scope and the
//! user's files into the user's scopes; the user's servers go into a project only by name, and
//! never with a literal secret.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trunkline_config::import::{self, Client, Found, Imported, Os, Places};
use trunkline_config::redact::{LiteralSecret, RedactMode, literal_secrets, redact_entry};
use trunkline_config::{ChangeError, Diagnostic, Project, Scope};

use crate::args::{ConfigArgs, ImportArgs};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines, name};
use crate::session::{self, Configured};
use crate::standing::quoted;

pub(crate) fn run(config: &ConfigArgs, args: &ImportArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Some(file) = &configured.set.exclusive {
        return change::refuse_exclusive(file);
    }
    let scope = Scope::from(args.scope);
    let sources = match clients(args).and_then(|clients| Sources::find(&clients, args, scope)) {
        Ok(sources) => sources,
        Err(exit) => return exit,
    };
    for diagnostic in &sources.diagnostics {
        output::warning(&diagnostic.to_string());
    }
    if let Some(exit) = sources.check_wanted(&args.only) {
        return exit;
    }
    if args.only.is_empty() {
        sources.tell_of_the_left_out(scope);
    }
    let wanted = match sources.wanted(args) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    let planned = plan(&configured, scope, wanted, args.force);
    if !as_json {
        output::result(description(&planned, scope));
    }
    let to_write: Vec<&Planned> = planned.iter().filter(|one| one.fate.is_written()).collect();
    let write = !args.dry_run && !to_write.is_empty() && may_write(args, to_write.len(), as_json);
    let mut written = Vec::new();
    let mut exit = Exit::Done;
    if write {
        (written, exit) = write_all(&configured, scope, &to_write);
    }
    if as_json {
        output::json(&document(&planned, &written));
    } else if !to_write.is_empty() && !write && !args.dry_run && !output::can_ask() {
        output::note("nothing was written; --yes writes it");
    }
    let refused = |one: &Planned| matches!(one.fate, Fate::HoldsSecrets(_));
    if args.yes && exit == Exit::Done && planned.iter().any(refused) {
        exit = Exit::Refused;
    }
    if !written.is_empty() && !as_json {
        output::note(next_step(scope));
    }
    exit
}

fn next_step(scope: Scope) -> &'static str {
    match scope {
        Scope::Project => "next: `trunkline approve` shows them and asks",
        _ => "next: `trunkline list` connects to them",
    }
}

/// A server that was found and the decision about it.
struct Planned {
    found: Imported,
    fate: Fate,
}

#[derive(Debug, PartialEq)]
enum Fate {
    New,
    /// It takes the place of this entry.
    Replaces(Value),
    /// It is there already, exactly like this.
    Known,
    /// The scope has another one of that name.
    Taken,
    /// An earlier client has another one of that name.
    TakenBy(Client),
    /// It may not be added.
    Refused(String),
    /// It would put these into a repository.
    HoldsSecrets(Vec<LiteralSecret>),
}

impl Fate {
    fn is_written(&self) -> bool {
        matches!(self, Self::New | Self::Replaces(_))
    }

    /// Why the server is left out.
    fn reason(&self, scope: Scope) -> Option<String> {
        match self {
            Self::New | Self::Replaces(_) | Self::Known => None,
            Self::Taken => Some(format!("the {scope} scope has another server of that name")),
            Self::TakenBy(client) => Some(format!("{client} has another server of that name")),
            Self::Refused(reason) => Some(reason.clone()),
            Self::HoldsSecrets(secrets) => {
                let fields: Vec<_> = secrets.iter().map(|secret| &*secret.field).collect();
                Some(format!(
                    "it would write a literal secret into the repository: {}",
                    fields.join(", ")
                ))
            }
        }
    }

    /// What to do about it.
    fn hint(&self, server: &Imported, scope: Scope) -> Option<String> {
        let (client, name) = (server.client.id(), quoted(&server.name));
        match self {
            Self::Taken => Some(format!(
                "`trunkline import {client} -s {scope} --only {name}` with --force replaces it, with --as NAME adds both"
            )),
            Self::TakenBy(_) => Some(format!(
                "`trunkline import {client} -s {scope} --only {name} --as NAME` adds it under another name"
            )),
            Self::HoldsSecrets(secrets) => {
                let variables: Vec<_> = secrets.iter().map(|secret| &*secret.variable).collect();
                let written: Vec<_> = variables
                    .iter()
                    .map(|variable| format!("\"${{{variable}}}\""))
                    .collect();
                Some(format!(
                    "write {} in {} and set {}; or import it with -s user",
                    written.join(", "),
                    server.file.display(),
                    variables.join(", ")
                ))
            }
            _ => None,
        }
    }
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

/// Whose file a server stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Project,
}

/// The servers that were found, and those that may not go into the scope unless asked for.
#[derive(Default)]
struct Sources {
    servers: Vec<Imported>,
    left_out: Vec<Imported>,
    diagnostics: Vec<Diagnostic>,
}

impl Sources {
    fn find(clients: &[Client], args: &ImportArgs, scope: Scope) -> Result<Self, Exit> {
        let cwd = session::cwd()?;
        let mut sources = Self::default();
        if let (Some(file), [client]) = (&args.file, clients) {
            let found = import::find_named(*client, file);
            // A file that was asked for by name must be there.
            if found.servers.is_empty() && !found.diagnostics.is_empty() {
                for problem in &found.diagnostics {
                    output::error(&problem.to_string(), None);
                }
                return Err(Exit::Usage);
            }
            let users = places(&cwd).map_or_else(Vec::new, |places| client.user_files(&places));
            // Naming a repository's file is enough for the user's own scopes.
            let fits = scope != Scope::Project || owner(file, &cwd, &users) == Owner::Project;
            sources.take(found, fits || args.from_user);
            return Ok(sources);
        }
        let Some(places) = places(&cwd) else {
            output::error("there is no home directory to look in", Some("set HOME"));
            return Err(Exit::Usage);
        };
        for client in clients {
            let users = client.user_files(&places);
            for file in client.files(&places) {
                let fits = match (owner(&file, &cwd, &users), scope) {
                    (Owner::Project, scope) => scope == Scope::Project,
                    (Owner::User, Scope::Project) => args.from_user,
                    (Owner::User, _) => true,
                };
                sources.take(import::find(*client, [file]), fits);
            }
        }
        Ok(sources)
    }

    fn take(&mut self, found: Found, fits: bool) {
        if fits {
            self.servers.extend(found.servers);
            self.diagnostics.extend(found.diagnostics);
        } else {
            self.left_out.extend(found.servers);
        }
    }

    /// Explains that a server that was asked for is not there, or may not go where it should.
    fn check_wanted(&self, only: &[String]) -> Option<Exit> {
        let names = |servers: &[Imported]| -> Vec<String> {
            let names = servers.iter();
            let names = names.flat_map(|server| [&server.name, &server.original_name]);
            names.cloned().collect()
        };
        let (found, left_out) = (names(&self.servers), names(&self.left_out));
        let missing = only.iter().find(|wanted| !found.contains(wanted))?;
        let elsewhere = self
            .left_out
            .iter()
            .find(|server| [&server.name, &server.original_name].contains(&missing));
        if let Some(server) = elsewhere {
            let file = server.file.display();
            output::error(
                &format!("\"{missing}\" is left out: {file} is your own file, not the project's"),
                Some("--from-user takes it into .mcp.json, for everyone who has the repository"),
            );
            return Some(Exit::Usage);
        }
        let known = found.iter().chain(&left_out).map(String::as_str);
        let hint = match trunkline::nearest(missing, known) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "`trunkline import --dry-run` shows what there is".to_owned(),
        };
        let what = format!("no client has a server \"{missing}\"");
        output::error(&what, Some(&hint));
        Some(Exit::Usage)
    }

    /// Says which servers are left out because they are in the other kind of file.
    fn tell_of_the_left_out(&self, scope: Scope) {
        let mut files: Vec<&PathBuf> = self.left_out.iter().map(|server| &server.file).collect();
        files.dedup();
        for file in files {
            let of_file = || self.left_out.iter().filter(|server| server.file == *file);
            let names: Vec<_> = of_file().map(|server| server.name.as_str()).collect();
            let Some(first) = of_file().next() else {
                continue;
            };
            let (client, file, names) = (first.client.id(), file.display(), names.join(", "));
            let text = if scope == Scope::Project {
                format!(
                    "left out, as they are your own: {names} ({file}); `trunkline import {client} -s project --from-user --only NAME` \
                     takes one into the repository"
                )
            } else {
                format!(
                    "left out, as they come with the project: {names} ({file}); `trunkline import {client} -s project` takes them \
                     over, for approval"
                )
            };
            output::note(Lines::one(text));
        }
    }

    /// The servers that were asked for, under the name that was asked for.
    fn wanted(self, args: &ImportArgs) -> Result<Vec<Imported>, Exit> {
        let only = &args.only;
        let mut wanted = self.servers;
        wanted.retain(|server| {
            only.is_empty() || only.contains(&server.name) || only.contains(&server.original_name)
        });
        if let Some(name) = &args.rename {
            let [server] = wanted.as_mut_slice() else {
                let what = format!("--as names one server, and {} were found", wanted.len());
                output::error(&what, Some("choose one with a client and --only NAME"));
                return Err(Exit::Usage);
            };
            if *name != server.original_name {
                server.renamed = Some(format!("renamed from \"{}\" by --as", server.original_name));
            }
            server.name.clone_from(name);
        }
        Ok(wanted)
    }
}

/// Where clients keep their files; `None` without a home.
fn places(cwd: &Path) -> Option<Places> {
    let home = std::env::home_dir()?;
    let variable = |name: &str| std::env::var_os(name);
    Some(Places::from_env(
        Os::current(),
        home,
        cwd.to_owned(),
        variable,
    ))
}

/// Whose a file is: the project's if it really lies in the project and is none of the user's.
fn owner(file: &Path, cwd: &Path, users: &[PathBuf]) -> Owner {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (file, root) = (real(&cwd.join(file)), real(&Project::at(cwd).root));
    let is_users = users.iter().any(|users| real(users) == file);
    if file.starts_with(root) && !is_users {
        Owner::Project
    } else {
        Owner::User
    }
}

/// Decides about each server. Of several with one name the first counts.
fn plan(configured: &Configured, scope: Scope, found: Vec<Imported>, force: bool) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for found in found {
        let entry = Value::Object(found.entry.clone());
        let before = planned
            .iter()
            .find(|earlier| earlier.found.name == found.name);
        // An entry that cannot be used is there, too.
        let there = configured.editor().entry_text(scope, &found.name).ok();
        let there = there.map(|there| serde_json::from_str(&there.text).unwrap_or(Value::Null));
        let fate = match (before, there) {
            (Some(earlier), _) if earlier.found.entry == found.entry => Fate::Known,
            (None, Some(there)) if there == entry => Fate::Known,
            (Some(earlier), _) => Fate::TakenBy(earlier.found.client),
            (None, Some(_)) if !force => Fate::Taken,
            (None, there) => decide(configured, scope, &found, there),
        };
        planned.push(Planned { found, fate });
    }
    planned
}

/// Decides about a server whose name is free, or may be taken over.
fn decide(configured: &Configured, scope: Scope, found: &Imported, there: Option<Value>) -> Fate {
    let entry = Value::Object(found.entry.clone());
    let policy = &configured.set.policy;
    if let Err(error) = configured
        .editor()
        .check(scope, &found.name, &entry, policy)
    {
        return Fate::Refused(error.to_string());
    }
    if scope == Scope::Project {
        let secrets = literal_secrets(&found.name, &entry);
        if !secrets.is_empty() {
            return Fate::HoldsSecrets(secrets);
        }
    }
    there.map_or(Fate::New, Fate::Replaces)
}

/// An entry as it is shown, without secrets.
fn masked(entry: &Value) -> Value {
    let mut entry = entry.clone();
    redact_entry(&mut entry, RedactMode::Display);
    entry
}

fn description(planned: &[Planned], scope: Scope) -> Lines {
    if planned.is_empty() {
        return "no servers of other clients were found".into();
    }
    let mut lines = Lines::new();
    let mut file = None;
    for Planned { found, fate } in planned {
        if file != Some(&found.file) {
            lines.push(format!("{}: {}", found.client, found.file.display()));
            file = Some(&found.file);
        }
        let what = match fate {
            Fate::New => format!("to be added to the {scope} scope"),
            Fate::Replaces(_) => format!("to replace the one in the {scope} scope"),
            Fate::Known => "already there".to_owned(),
            other => format!("left out: {}", other.reason(scope).unwrap_or_default()),
        };
        lines.push(format!("  {}  {what}", name(&found.name)));
        if let Fate::Replaces(old) = fate {
            lines.push(format!("    was: {}", masked(old)));
        }
        let entry = masked(&Value::Object(found.entry.clone()));
        lines.push_whole(format!("    {entry}"));
        for note in found.renamed.iter().chain(&found.notes) {
            lines.push(format!("    note: {note}"));
        }
        if let Some(hint) = fate.hint(found, scope) {
            lines.push(format!("    hint: {hint}"));
        }
    }
    lines
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

fn write_all<'p>(
    configured: &Configured,
    scope: Scope,
    to_write: &[&'p Planned],
) -> (Vec<&'p str>, Exit) {
    let editor = configured.editor();
    let policy = &configured.set.policy;
    let mut written = Vec::new();
    let mut exit = Exit::Done;
    for planned in to_write {
        let name = planned.found.name.as_str();
        let entry = Value::Object(planned.found.entry.clone());
        let (done, result) = match planned.fate {
            Fate::Replaces(_) => (
                "replaced",
                editor.add_or_replace(scope, name, &entry, policy),
            ),
            _ => ("added", editor.add(scope, name, &entry, policy)),
        };
        match result {
            Ok(place) => {
                written.push(name);
                let preposition = if done == "added" { "to" } else { "in" };
                let file = place.file.display();
                output::note(Lines::one(format!(
                    "{done} \"{name}\" {preposition} {file}"
                )));
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
            let is_written = written.contains(&found.name.as_str());
            let state = match fate {
                Fate::New if is_written => "added",
                Fate::New => "new",
                Fate::Replaces(_) if is_written => "replaced",
                Fate::Replaces(_) => "replaces",
                Fate::Known => "known",
                Fate::Taken | Fate::TakenBy(_) => "taken",
                Fate::Refused(_) | Fate::HoldsSecrets(_) => "refused",
            };
            let notes: Vec<&String> = found.renamed.iter().chain(&found.notes).collect();
            let mut document = json!({
                "client": found.client.id(),
                "file": found.file.to_string_lossy(),
                "name": found.name,
                "originalName": found.original_name,
                "state": state,
                "config": masked(&Value::Object(found.entry.clone())),
                "notes": notes,
            });
            if let Fate::Refused(_) | Fate::HoldsSecrets(_) = fate {
                document["reason"] = json!(fate.reason(Scope::Project));
                if let Some(hint) = fate.hint(found, Scope::Project) {
                    document["hint"] = json!(hint);
                }
            }
            document
        })
        .collect();
    json!(servers)
}
