//! `trunkline import`: imports the servers of other MCP clients (CFG-11).
//!
//! Everyone with the repository can read a project's file, and a server in the user's scopes runs
//! without approval. So project files are imported into the project scope and the user's files into
//! the user's scopes, even with --file. The user's servers go into a project only by name, and
//! never with a literal secret.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use trunkline_config::import::{self, Client, ClientDirs, ImportedServer, ImportedServers, Os};
use trunkline_config::redact::{LiteralSecret, RedactMode, literal_secrets, redact_entry};
use trunkline_config::{ChangeError, Diagnostic, Project, Scope};

use crate::args::{ConfigArgs, ImportArgs};
use crate::audit;
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
    let complete = sources.report_missing(&args.only);
    if !complete && !sources.has_any(&args.only) {
        return Exit::Usage;
    }
    if args.only.is_empty() {
        if args.file.is_some() && sources.servers.is_empty() && sources.fail_excluded() {
            return Exit::Usage;
        }
        sources.report_excluded();
    }
    let found_any = !sources.excluded.is_empty();
    let wanted = match sources.selected(args) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    let planned = plan(&configured, scope, wanted, args.force);
    if !as_json {
        output::result(description(&planned, scope, found_any));
    }
    let to_write: Vec<&Planned> = planned
        .iter()
        .filter(|one| one.decision.is_written())
        .collect();
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
            "nothing written"
        } else {
            "nothing written; pass --yes to write"
        });
    }
    let refused = |one: &&Planned| matches!(one.decision, Decision::HoldsSecrets(_));
    if args.yes && exit == Exit::Done {
        for one in planned.iter().filter(refused) {
            exit = Exit::Refused;
            // The text output has it already.
            if as_json {
                let reason = one.decision.reason(scope).unwrap_or_default();
                let what = format!("\"{}\" is skipped: {reason}", one.found.name);
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
        Scope::Project => "next: trunkline approve",
        _ => "next: trunkline list",
    }
}

/// A server and the decision about it.
struct Planned {
    found: ImportedServer,
    owner: Owner,
    decision: Decision,
}

impl Planned {
    /// Returns the hint for a skipped server.
    fn hint(&self, scope: Scope) -> Option<String> {
        self.decision.hint(&self.found, self.owner, scope)
    }
}

#[derive(Debug, PartialEq)]
enum Decision {
    New,
    /// Replaces this entry.
    Replaces(Value),
    /// The scope already has the same entry.
    Known,
    /// The scope has a different server of that name.
    Taken,
    /// Another client has a different server of that name.
    TakenBy(Client),
    /// It may not be added, for this reason.
    Refused(String),
    /// It would write these secrets into the repository.
    HoldsSecrets(Vec<LiteralSecret>),
}

impl Decision {
    fn is_written(&self) -> bool {
        matches!(self, Self::New | Self::Replaces(_))
    }

    /// Returns why the server is skipped.
    fn reason(&self, scope: Scope) -> Option<String> {
        match self {
            Self::New | Self::Replaces(_) | Self::Known => None,
            Self::Taken => Some(format!(
                "the {scope} scope has a different server of that name"
            )),
            Self::TakenBy(client) => Some(format!("{client} has a different server of that name")),
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

    /// Returns what the user can do about it.
    fn hint(&self, server: &ImportedServer, owner: Owner, scope: Scope) -> Option<String> {
        let (client, name) = (server.client.id(), quoted(&server.name));
        match self {
            Self::Taken => Some(format!(
                "`trunkline import {client} -s {scope} --only {name}` with --force replaces it, with --as NAME keeps both"
            )),
            Self::TakenBy(_) => Some(format!(
                "import it under another name: `trunkline import {client} -s {scope} --only {name} --as NAME`"
            )),
            Self::HoldsSecrets(secrets) => {
                let variables: Vec<_> = secrets.iter().map(|secret| &*secret.variable).collect();
                let written: Vec<_> = variables
                    .iter()
                    .map(|variable| format!("\"${{{variable}}}\""))
                    .collect();
                // A project's server never goes into the user's scopes.
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
            None => format!("available: {}", ids.join(", ")),
        };
        output::error(&format!("there is no client \"{wanted}\""), Some(&hint));
        Exit::Usage
    })
}

/// The owner of the file that lists a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    /// The file is part of this project.
    Project,
    /// The file is part of another repository, or this project links to it.
    Stranger,
}

impl Owner {
    /// Returns whether servers of the file may go into the scope. Only servers of the user's own
    /// files may run without approval.
    fn fits(self, scope: Scope, from_user: bool) -> bool {
        match (self, scope) {
            (Self::Project, scope) => scope == Scope::Project,
            (Self::User | Self::Stranger, Scope::Project) => from_user,
            (Self::User, _) => true,
            (Self::Stranger, _) => false,
        }
    }

    /// Returns why servers of the file are skipped, and a hint.
    fn explain(self, file: &Path) -> (String, &'static str) {
        let file = file.display();
        match self {
            Self::User => (
                format!("{file} is your own file, not the project's"),
                "to share it in .mcp.json, add --from-user --only NAME",
            ),
            Self::Project => (
                format!("{file} belongs to the project"),
                "import it with -s project, then approve it",
            ),
            Self::Stranger => (
                format!("{file} belongs neither to you nor to this project"),
                "review what it runs, then use `trunkline add`",
            ),
        }
    }
}

/// A server and the owner of its file.
struct Candidate {
    server: ImportedServer,
    owner: Owner,
}

impl Candidate {
    fn is_named(&self, name: &str) -> bool {
        self.server.name == name || self.server.original_name == name
    }
}

/// The servers that were found.
#[derive(Default)]
struct Sources {
    servers: Vec<Candidate>,
    /// Servers whose file does not fit the scope.
    excluded: Vec<Candidate>,
    diagnostics: Vec<Diagnostic>,
}

impl Sources {
    fn find(clients: &[Client], args: &ImportArgs, scope: Scope) -> Result<Self, Exit> {
        let cwd = session::cwd()?;
        let mut sources = Self::default();
        if let (Some(file), [client]) = (&args.file, clients) {
            let found = import::read_named_file(*client, file);
            // A file named on the command line must be usable.
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
            output::error("there is no home directory", Some("set HOME"));
            return Err(Exit::Usage);
        };
        for client in clients {
            let users = client.user_files(&places);
            for file in client.files(&places) {
                let owner = owner(&file, &cwd, &users);
                let fits = owner.fits(scope, args.from_user);
                sources.take(import::read_files(*client, [file]), owner, fits);
            }
        }
        Ok(sources)
    }

    fn take(&mut self, found: ImportedServers, owner: Owner, fits: bool) {
        let servers = found.servers.into_iter();
        let candidates = servers.map(|server| Candidate { server, owner });
        if fits {
            self.servers.extend(candidates);
            self.diagnostics.extend(found.diagnostics);
        } else {
            self.excluded.extend(candidates);
        }
    }

    /// Returns whether any of the named servers can be imported.
    fn has_any(&self, only: &[String]) -> bool {
        let is_wanted = |found: &Candidate| only.iter().any(|name| found.is_named(name));
        self.servers.iter().any(is_wanted)
    }

    /// Reports named servers that do not exist or do not fit the scope. Returns whether all do.
    fn report_missing(&self, only: &[String]) -> bool {
        let is_found = |wanted: &str| self.servers.iter().any(|found| found.is_named(wanted));
        let missing: Vec<&String> = only.iter().filter(|wanted| !is_found(wanted)).collect();
        for missing in &missing {
            let mut excluded = self.excluded.iter();
            if let Some(elsewhere) = excluded.find(|found| found.is_named(missing)) {
                let (why, hint) = elsewhere.owner.explain(&elsewhere.server.file);
                output::error(&format!("\"{missing}\" is skipped: {why}"), Some(hint));
                continue;
            }
            let known = self.servers.iter().chain(&self.excluded);
            let known = known.flat_map(|found| [&found.server.name, &found.server.original_name]);
            let hint = match trunkline::text::nearest(missing, known.map(String::as_str)) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "list them with `trunkline import --dry-run`".to_owned(),
            };
            let what = format!("no client has a server \"{missing}\"");
            output::error(&what, Some(&hint));
        }
        missing.is_empty()
    }

    /// Reports that no server of a named file fits the scope. Returns whether there are any.
    fn fail_excluded(&self) -> bool {
        let Some(first) = self.excluded.first() else {
            return false;
        };
        let names: Vec<_> = self.excluded.iter().map(|one| &*one.server.name).collect();
        let (why, hint) = first.owner.explain(&first.server.file);
        let what = format!("nothing to import: {why} (it has {})", names.join(", "));
        output::error(&what, Some(hint));
        true
    }

    /// Reports servers whose file does not fit the scope.
    fn report_excluded(&self) {
        let mut files: Vec<&PathBuf> = self.excluded.iter().map(|one| &one.server.file).collect();
        files.dedup();
        for file in files {
            let of_file = || self.excluded.iter().filter(|one| one.server.file == *file);
            let names: Vec<_> = of_file().map(|one| one.server.name.as_str()).collect();
            let Some(first) = of_file().next() else {
                continue;
            };
            let (client, file, names) =
                (first.server.client.id(), file.display(), names.join(", "));
            let text = match first.owner {
                Owner::User => format!(
                    "skipped your own servers: {names} ({file}); to share one in the repository, run \
                     `trunkline import {client} -s project --from-user --only NAME`"
                ),
                Owner::Project => format!(
                    "skipped the project's servers: {names} ({file}); import them for approval with \
                     `trunkline import {client} -s project`"
                ),
                Owner::Stranger => format!(
                    "skipped servers of a file that belongs neither to you nor to this project: {names} ({file})"
                ),
            };
            if output::is_json() {
                output::warning(&text);
            } else {
                output::note(Lines::one(text));
            }
        }
    }

    /// Returns the selected servers, renamed by --as.
    fn selected(self, args: &ImportArgs) -> Result<Vec<Candidate>, Exit> {
        let only = &args.only;
        let mut wanted = self.servers;
        wanted.retain(|found| only.is_empty() || only.iter().any(|name| found.is_named(name)));
        if let Some(name) = &args.rename {
            let [Candidate { server, .. }] = wanted.as_mut_slice() else {
                let what = format!(
                    "--as takes exactly one server, but {} were found",
                    wanted.len()
                );
                output::error(&what, Some("select one with a client and --only NAME"));
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

/// Returns where clients keep their files; `None` without a home directory.
fn places(cwd: &Path) -> Option<ClientDirs> {
    let home = std::env::home_dir()?;
    let variable = |name: &str| std::env::var_os(name);
    Some(ClientDirs::from_env(
        Os::current(),
        home,
        cwd.to_owned(),
        variable,
    ))
}

/// Returns the owner of a file, with links resolved: the user if a client of the user reads it, or
/// if it is outside any project.
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
    // A home directory that is a repository belongs to the user.
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

/// Removes `.` and `..` from a path without following links.
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

/// Decides about each server. The first of several with one name wins.
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
        // An invalid entry occupies the name as well.
        let existing = configured.editor().entry_text(scope, &found.name).ok();
        let existing =
            existing.map(|existing| serde_json::from_str(&existing.text).unwrap_or(Value::Null));
        let decision = match (before, existing) {
            (Some(earlier), _) if earlier.found.entry == found.entry => Decision::Known,
            (None, Some(existing)) if existing == entry => Decision::Known,
            (Some(earlier), _) => Decision::TakenBy(earlier.found.client),
            (None, Some(_)) if !force => Decision::Taken,
            (None, existing) => decide(configured, scope, &found, existing),
        };
        planned.push(Planned {
            found,
            owner,
            decision,
        });
    }
    planned
}

/// Decides about a server whose name is free or may be replaced.
fn decide(
    configured: &Configured,
    scope: Scope,
    found: &ImportedServer,
    existing: Option<Value>,
) -> Decision {
    let entry = Value::Object(found.entry.clone());
    let policy = &configured.set.policy;
    if let Err(error) = configured
        .editor()
        .check(scope, &found.name, &entry, policy)
    {
        return Decision::Refused(error.to_string());
    }
    if scope == Scope::Project {
        let secrets = literal_secrets(&found.name, &entry);
        if !secrets.is_empty() {
            return Decision::HoldsSecrets(secrets);
        }
    }
    existing.map_or(Decision::New, Decision::Replaces)
}

/// Masks the secrets of an entry for display.
fn masked(entry: &Value) -> Value {
    let mut entry = entry.clone();
    redact_entry(&mut entry, RedactMode::Display);
    entry
}

fn description(planned: &[Planned], scope: Scope, found_any: bool) -> Lines {
    if planned.is_empty() && found_any {
        return "nothing to import".into();
    }
    if planned.is_empty() {
        return "no servers of other clients found".into();
    }
    let mut lines = Lines::new();
    let mut file = None;
    for one in planned {
        let Planned {
            found, decision, ..
        } = one;
        if file != Some(&found.file) {
            lines.push(format!("{}: {}", found.client, found.file.display()));
            file = Some(&found.file);
        }
        let what = match decision {
            Decision::New => format!("add to the {scope} scope"),
            Decision::Replaces(_) => format!("replace in the {scope} scope"),
            Decision::Known => "already exists".to_owned(),
            other => format!("skip: {}", other.reason(scope).unwrap_or_default()),
        };
        lines.push(format!("  {}  {what}", name(&found.name)));
        if let Decision::Replaces(old) = decision {
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

/// Returns whether the user agrees to write.
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
        let (done, result) = match planned.decision {
            Decision::Replaces(_) => (
                "replaced",
                editor.add_or_replace(scope, name, &entry, policy),
            ),
            _ => ("added", editor.add(scope, name, &entry, policy)),
        };
        match result {
            Ok(place) => {
                written.push(name);
                audit::record_change(&place, &json!({ done: name, "scope": scope }));
                let preposition = if done == "added" { "to" } else { "in" };
                let file = place.file.display();
                output::note(Lines::one(format!(
                    "{done} \"{name}\" {preposition} {file}"
                )));
            }
            // Another process added it meanwhile.
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
            let Planned {
                found, decision, ..
            } = one;
            let is_written = written.contains(&found.name.as_str());
            let state = match decision {
                Decision::New if is_written => "added",
                Decision::New => "new",
                Decision::Replaces(_) if is_written => "replaced",
                Decision::Replaces(_) => "replaces",
                Decision::Known => "known",
                Decision::Taken | Decision::TakenBy(_) => "taken",
                Decision::Refused(_) | Decision::HoldsSecrets(_) => "refused",
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
            if let Some(reason) = decision.reason(scope) {
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
