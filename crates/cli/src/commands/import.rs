//! `trunkline import`: takes over the servers of other MCP clients (CFG-11).
//!
//! A project's file is readable for everyone who has the repository, and a server in the user's own
//! scopes runs without approval. So project files are imported into the project scope and the
//! user's files into the user's scopes, also where --file names them; the user's servers go into a
//! project only by name, and never with a literal secret.

use std::path::{Component, Path, PathBuf};

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
    let complete = sources.explain_missing(&args.only);
    if !complete && !sources.has_any(&args.only) {
        return Exit::Usage;
    }
    if args.only.is_empty() {
        sources.tell_of_the_left_out();
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
        output::json(&document(&planned, &written, scope));
    } else if !to_write.is_empty() && !write && !args.dry_run {
        output::note(if output::can_ask() {
            "nothing was written"
        } else {
            "nothing was written; --yes writes it"
        });
    }
    let refused = |one: &&Planned| matches!(one.fate, Fate::HoldsSecrets(_));
    if args.yes && exit == Exit::Done {
        for one in planned.iter().filter(refused) {
            exit = Exit::Refused;
            // A person has read it above.
            if as_json {
                let reason = one.fate.reason(scope).unwrap_or_default();
                let what = format!("\"{}\" is left out: {reason}", one.found.name);
                output::error(&what, one.hint(scope).as_deref());
            }
        }
    }
    if exit == Exit::Done && !complete {
        exit = Exit::Usage;
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
    owner: Owner,
    fate: Fate,
}

impl Planned {
    /// What to do about its being left out.
    fn hint(&self, scope: Scope) -> Option<String> {
        self.fate.hint(&self.found, self.owner, scope)
    }
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
    fn hint(&self, server: &Imported, owner: Owner, scope: Scope) -> Option<String> {
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
                // A project's server never gets into the user's scopes.
                let instead = match owner {
                    Owner::User => "; or import it with -s user",
                    Owner::Project | Owner::Stranger => "",
                };
                Some(format!(
                    "write {} in {} and set {}{instead}",
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
        let hint = match trunkline::text::nearest(wanted, ids) {
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
    /// It came with this project.
    Project,
    /// It came with another repository, or a link of this project's leads to it.
    Stranger,
}

impl Owner {
    /// Whether the file's servers may go into the scope. Only those of the user's own files may run
    /// without approval.
    fn fits(self, scope: Scope, from_user: bool) -> bool {
        match (self, scope) {
            (Self::Project, scope) => scope == Scope::Project,
            (Self::User | Self::Stranger, Scope::Project) => from_user,
            (Self::User, _) => true,
            (Self::Stranger, _) => false,
        }
    }

    /// Why a server of the file is left out, and what to do about it.
    fn explain(self, file: &Path) -> (String, &'static str) {
        let file = file.display();
        match self {
            Self::User => (
                format!("{file} is your own file, not the project's"),
                "--from-user takes it into .mcp.json, for everyone who has the repository",
            ),
            Self::Project => (
                format!("{file} came with the project"),
                "-s project takes it, for approval",
            ),
            Self::Stranger => (
                format!("{file} is neither your own file nor this project's"),
                "`trunkline add` adds it, once you have read what it runs",
            ),
        }
    }
}

/// A server that was found, and whose it is.
struct Candidate {
    server: Imported,
    owner: Owner,
}

impl Candidate {
    fn is_named(&self, name: &str) -> bool {
        self.server.name == name || self.server.original_name == name
    }
}

/// The servers that were found, and those that may not go into the scope unless asked for.
#[derive(Default)]
struct Sources {
    servers: Vec<Candidate>,
    left_out: Vec<Candidate>,
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
            let owner = owner(file, &cwd, &users);
            sources.take(found, owner, owner.fits(scope, args.from_user));
            return Ok(sources);
        }
        let Some(places) = places(&cwd) else {
            output::error("there is no home directory to look in", Some("set HOME"));
            return Err(Exit::Usage);
        };
        for client in clients {
            let users = client.user_files(&places);
            for file in client.files(&places) {
                let owner = owner(&file, &cwd, &users);
                let fits = owner.fits(scope, args.from_user);
                sources.take(import::find(*client, [file]), owner, fits);
            }
        }
        Ok(sources)
    }

    fn take(&mut self, found: Found, owner: Owner, fits: bool) {
        let servers = found.servers.into_iter();
        let candidates = servers.map(|server| Candidate { server, owner });
        if fits {
            self.servers.extend(candidates);
            self.diagnostics.extend(found.diagnostics);
        } else {
            self.left_out.extend(candidates);
        }
    }

    /// Whether one of the servers that were asked for can be imported.
    fn has_any(&self, only: &[String]) -> bool {
        let is_wanted = |found: &Candidate| only.iter().any(|name| found.is_named(name));
        self.servers.iter().any(is_wanted)
    }

    /// Explains which servers that were asked for are not there, or may not go where they should.
    /// Whether all are fine.
    fn explain_missing(&self, only: &[String]) -> bool {
        let is_found = |wanted: &str| self.servers.iter().any(|found| found.is_named(wanted));
        let missing: Vec<&String> = only.iter().filter(|wanted| !is_found(wanted)).collect();
        for missing in &missing {
            let mut left_out = self.left_out.iter();
            if let Some(elsewhere) = left_out.find(|found| found.is_named(missing)) {
                let (why, hint) = elsewhere.owner.explain(&elsewhere.server.file);
                output::error(&format!("\"{missing}\" is left out: {why}"), Some(hint));
                continue;
            }
            let known = self.servers.iter().chain(&self.left_out);
            let known = known.flat_map(|found| [&found.server.name, &found.server.original_name]);
            let hint = match trunkline::text::nearest(missing, known.map(String::as_str)) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "`trunkline import --dry-run` shows what there is".to_owned(),
            };
            let what = format!("no client has a server \"{missing}\"");
            output::error(&what, Some(&hint));
        }
        missing.is_empty()
    }

    /// Says which servers are left out because they are in the other kind of file.
    fn tell_of_the_left_out(&self) {
        let mut files: Vec<&PathBuf> = self.left_out.iter().map(|out| &out.server.file).collect();
        files.dedup();
        for file in files {
            let of_file = || self.left_out.iter().filter(|out| out.server.file == *file);
            let names: Vec<_> = of_file().map(|out| out.server.name.as_str()).collect();
            let Some(first) = of_file().next() else {
                continue;
            };
            let (client, file, names) =
                (first.server.client.id(), file.display(), names.join(", "));
            let text = match first.owner {
                Owner::User => format!(
                    "left out, as they are your own: {names} ({file}); `trunkline import {client} -s project --from-user --only NAME` \
                     takes one into the repository"
                ),
                Owner::Project => format!(
                    "left out, as they come with the project: {names} ({file}); `trunkline import {client} -s project` takes them \
                     over, for approval"
                ),
                Owner::Stranger => format!(
                    "left out, as the file is neither your own nor this project's: {names} ({file})"
                ),
            };
            if output::is_json() {
                output::warning(&text);
            } else {
                output::note(Lines::one(text));
            }
        }
    }

    /// The servers that were asked for, under the name that was asked for.
    fn wanted(self, args: &ImportArgs) -> Result<Vec<Candidate>, Exit> {
        let only = &args.only;
        let mut wanted = self.servers;
        wanted.retain(|found| only.is_empty() || only.iter().any(|name| found.is_named(name)));
        if let Some(name) = &args.rename {
            let [Candidate { server, .. }] = wanted.as_mut_slice() else {
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

/// Whose a file is, wherever links lead: the user's if a client of the user's reads it, or if it lies
/// in no project.
fn owner(file: &Path, cwd: &Path, users: &[PathBuf]) -> Owner {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = without_dots(&cwd.join(file));
    let (file, root) = (real(&cwd.join(file)), Project::at(cwd).root);
    if users.iter().any(|users| real(users) == file) {
        return Owner::User;
    }
    if file.starts_with(real(&root)) {
        return Owner::Project;
    }
    // A home that is a repository is the user's own.
    let is_home =
        |root: &Path| std::env::home_dir().is_some_and(|home| real(&home).starts_with(root));
    let around = Project::at(file.parent().unwrap_or(&file));
    let is_foreign = around.is_repository && !is_home(&around.root);
    if is_foreign || named.starts_with(&root) {
        Owner::Stranger
    } else {
        Owner::User
    }
}

/// The path without `.` and `..`, as it is written: no link is followed.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Decides about each server. Of several with one name the first counts.
fn plan(configured: &Configured, scope: Scope, found: Vec<Candidate>, force: bool) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for Candidate {
        server: found,
        owner,
    } in found
    {
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
        planned.push(Planned { found, owner, fate });
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
    for one in planned {
        let Planned { found, fate, .. } = one;
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
        if let Some(hint) = one.hint(scope) {
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

fn document(planned: &[Planned], written: &[&str], scope: Scope) -> Value {
    let servers: Vec<Value> = planned
        .iter()
        .map(|one| {
            let Planned { found, fate, .. } = one;
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
            if let Some(reason) = fate.reason(scope) {
                document["reason"] = json!(reason);
            }
            if let Some(hint) = one.hint(scope) {
                document["hint"] = json!(hint);
            }
            document
        })
        .collect();
    json!(servers)
}
