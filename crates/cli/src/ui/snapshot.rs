//! Reads the host: its servers, and the overview of one of them. Events are only hints that
//! something changed; this is what counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use trunkline::Host;
use trunkline::auth::server_config;
use trunkline::server::{Catalog, ConnectFailure, Connected, ServerStatus, State};
use trunkline_config::{EntryStatus, Scope, Server as ConfiguredServer, ServerSet, Severity};

use super::data::{
    BUILT_IN, Detail, Key, Offers, PromptItem, PromptParameter, ResourceItem, Server, Snapshot,
    Status,
};
use super::doc::{DocLine, Tone};
use super::text;
use crate::commands::accounts;
use crate::output::{inline, name};
use crate::standing;

/// The lines of stderr in the overview.
const STDERR_LINES: usize = 15;

/// Reads snapshots. Lists are copied only when the catalog has changed.
#[derive(Default)]
pub(super) struct Reader {
    offers: HashMap<Arc<str>, (Arc<Catalog>, Arc<Offers>)>,
}

impl Reader {
    /// Reads all servers.
    pub(super) fn read(&mut self, host: &Host) -> Snapshot {
        let set = host.config();
        let mut servers = Vec::new();
        for (at, configured) in set.servers.iter().enumerate() {
            if !matches!(configured.status, EntryStatus::Shadowed { .. }) {
                servers.push(self.configured(host, at, configured));
            }
        }
        servers.extend(invalid(&set));
        for status in host.servers() {
            let is_known = |known: &Server| {
                *known.key.0 == *status.name && (known.runs() || known.status == Status::Disabled)
            };
            if !servers.iter().any(is_known) {
                servers.push(self.built_in(&status));
            }
        }
        let known = |name: &Arc<str>| servers.iter().any(|server| server.key.0 == *name);
        self.offers.retain(|name, _| known(name));
        servers.sort_by(|a, b| (rank(a.key.1), &a.key.0).cmp(&(rank(b.key.1), &b.key.0)));
        let whole_files = set
            .diagnostics
            .iter()
            .filter(|problem| problem.server.is_none());
        Snapshot {
            problems: whole_files
                .map(|problem| inline(&problem.to_string()))
                .collect(),
            servers,
            set,
        }
    }

    fn configured(&mut self, host: &Host, at: usize, configured: &ConfiguredServer) -> Server {
        let entry = &configured.entry;
        let running = configured
            .status
            .may_run()
            .then(|| host.server(&entry.name));
        let running = running.flatten();
        let (status, cause) = match &running {
            Some(running) => connection(running),
            None => standing_of(configured),
        };
        let transport = match running.as_ref().map(|running| &running.state) {
            // Only connecting determines the transport of an entry without a type.
            Some(State::Connected(connected)) if connected.is_sse() => "sse",
            _ => entry.transport.kind(),
        };
        Server {
            key: (entry.name.as_str().into(), entry.scope.name()),
            transport,
            status,
            cause,
            offers: running
                .map(|running| self.offers(&running))
                .unwrap_or_default(),
            takes_sign_in: server_config(entry).is_some(),
            entry: Some(at),
        }
    }

    fn built_in(&mut self, running: &ServerStatus) -> Server {
        let (status, cause) = connection(running);
        let scope = running.entry.as_ref().map(|entry| entry.scope.name());
        Server {
            key: (Arc::clone(&running.name), scope.unwrap_or(BUILT_IN)),
            transport: BUILT_IN,
            status,
            cause,
            offers: self.offers(running),
            takes_sign_in: false,
            entry: None,
        }
    }

    fn offers(&mut self, running: &ServerStatus) -> Arc<Offers> {
        if let Some((catalog, offers)) = self.offers.get(&running.name)
            && Arc::ptr_eq(catalog, &running.catalog)
        {
            return Arc::clone(offers);
        }
        let offers = Arc::new(read_offers(&running.catalog));
        let kept = (Arc::clone(&running.catalog), Arc::clone(&offers));
        self.offers.insert(Arc::clone(&running.name), kept);
        offers
    }
}

/// The order of the groups: strongest scope first, then the servers of this program.
fn rank(scope: &str) -> usize {
    let known = Scope::ALL.iter().position(|known| known.name() == scope);
    known.unwrap_or(Scope::ALL.len())
}

/// Returns the state of a connection and why it is not connected.
fn connection(running: &ServerStatus) -> (Status, String) {
    let cause = |failure: &ConnectFailure| inline(&failure.to_string());
    match &running.state {
        State::Connected(_) => (Status::Connected, String::new()),
        State::Pending { attempt: 0, .. } => (Status::Lazy, String::new()),
        State::Pending {
            attempt,
            last_failure,
        } => {
            let status = Status::Connecting {
                attempt: *attempt,
                retry_at: running.retry_at,
            };
            let last = last_failure.as_deref();
            (status, last.map(cause).unwrap_or_default())
        }
        State::NeedsAuth(failure) => (Status::NeedsAuth, cause(failure)),
        State::Failed(failure) => (Status::Failed, cause(failure)),
        _ => (Status::Disabled, String::new()),
    }
}

/// Returns why a configured server has no connection.
fn standing_of(configured: &ConfiguredServer) -> (Status, String) {
    let reason = standing::reason(configured).map(|(reason, _)| inline(&reason));
    let reason = reason.unwrap_or_default();
    match &configured.status {
        EntryStatus::PendingApproval { before } => {
            let changed = before.is_some();
            (Status::PendingApproval { changed }, String::new())
        }
        EntryStatus::Rejected { .. } => (Status::Rejected, String::new()),
        EntryStatus::Blocked(_) => (Status::Blocked, reason),
        EntryStatus::Suppressed { .. } => (Status::Suppressed, reason),
        // The host has not started it yet.
        EntryStatus::Active => {
            let status = Status::Connecting {
                attempt: 1,
                retry_at: None,
            };
            (status, String::new())
        }
        _ => (Status::Disabled, String::new()),
    }
}

/// Returns a row for each entry that cannot be read.
fn invalid(set: &ServerSet) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for problem in &set.diagnostics {
        let Some(about) = problem.server.as_deref() else {
            continue;
        };
        let is_known = set.named(about).next().is_some()
            || servers.iter().any(|server| server.name() == about);
        if problem.severity == Severity::Error && !is_known {
            servers.push(Server {
                key: (about.into(), "invalid"),
                transport: "-",
                status: Status::Invalid,
                cause: inline(&problem.message),
                offers: Arc::default(),
                takes_sign_in: false,
                entry: None,
            });
        }
    }
    servers
}

fn read_offers(catalog: &Catalog) -> Offers {
    let about = |raw: &trunkline::Json| raw.field::<String>("description").unwrap_or_default();
    let resources = catalog.resources.iter().map(|resource| ResourceItem {
        uri: resource.uri.to_string(),
        name: resource.name.to_string(),
        about: about(&resource.raw),
        is_template: false,
    });
    let templates = catalog.templates.iter().map(|template| ResourceItem {
        uri: template.uri_template.to_string(),
        name: template.name.to_string(),
        about: about(&template.raw),
        is_template: true,
    });
    let prompts = catalog.prompts.iter().map(|prompt| PromptItem {
        name: prompt.name.to_string(),
        about: prompt.description.as_deref().unwrap_or_default().to_owned(),
        parameters: prompt
            .arguments()
            .unwrap_or_default()
            .into_iter()
            .map(|argument| PromptParameter {
                name: argument.name,
                about: argument.description,
                required: argument.required,
            })
            .collect(),
    });
    Offers {
        tools: catalog.tools().to_vec(),
        resources: resources.chain(templates).collect(),
        prompts: prompts.collect(),
        cached: catalog.cached,
    }
}

/// Reads the overview of one server.
pub(super) fn detail(host: &Host, snapshot: &Snapshot, key: &Key) -> Option<Detail> {
    let server = snapshot.get(key)?;
    let configured = server.entry.and_then(|at| snapshot.set.servers.get(at));
    let running = server.runs().then(|| host.server(server.name())).flatten();
    let mut lines = Vec::new();
    state_lines(
        server,
        configured,
        running.as_deref(),
        &snapshot.set,
        &mut lines,
    );
    if let Some(configured) = configured {
        config_lines(configured, &mut lines);
    }
    if server.takes_sign_in && running.is_some() {
        let account = host
            .server_auth(server.name())
            .and_then(|auth| auth.listed_account());
        lines.push(match account {
            Some(account) => {
                DocLine::field("signed in", accounts::describe(&account, SystemTime::now()))
            }
            None => DocLine::field("sign-in", "nobody is signed in"),
        });
    }
    if let Some(running) = &running {
        offer_lines(running, &mut lines);
    }
    Some(Detail {
        key: key.clone(),
        lines,
    })
}

fn state_lines(
    server: &Server,
    configured: Option<&ConfiguredServer>,
    running: Option<&ServerStatus>,
    set: &ServerSet,
    lines: &mut Vec<DocLine>,
) {
    if !server.cause.is_empty() {
        let line = DocLine::field("cause", server.cause.clone());
        lines.push(line.tone(server.status.tone()));
    }
    let reason = configured.and_then(standing::reason);
    if let Some((reason, _)) = &reason
        && server.cause.is_empty()
    {
        lines.push(DocLine::field("state", inline(reason)).tone(Tone::Warn));
    }
    let hint = match (&reason, server.status) {
        (Some((_, hint)), _) => hint.clone(),
        (None, Status::Disabled) => Some(standing::enable_hint(server.name())),
        (None, _) => running.and_then(standing::state_hint),
    };
    if let Some(hint) = hint {
        lines.push(DocLine::field("cure", text::line(&hint)).tone(Tone::Hint));
    }
    let about = set.diagnostics_for(server.name());
    for problem in about {
        let line = DocLine::field("problem", inline(&problem.to_string()));
        lines.push(line.tone(Tone::Warn));
    }
    let changes = configured.map(standing::differences).unwrap_or_default();
    for line in standing::difference_lines(&changes) {
        lines.push(DocLine::field("changed", text::line(&line)).tone(Tone::Warn));
    }
}

fn config_lines(configured: &ConfiguredServer, lines: &mut Vec<DocLine>) {
    let entry = &configured.entry;
    let source = format!("{} ({} scope)", text::line(&entry.source), entry.scope);
    lines.push(DocLine::field("source", source));
    for shadowed in &configured.shadows {
        lines.push(DocLine::field("shadows", text::line(&shadowed.to_string())));
    }
    let shown = entry.redacted();
    for (field, value) in shown.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        lines.push(DocLine::field(
            "entry",
            format!("{}: {}", name(field), text::line(&value)),
        ));
    }
}

fn offer_lines(running: &ServerStatus, lines: &mut Vec<DocLine>) {
    let catalog = &running.catalog;
    let stderr = match &running.state {
        State::Connected(connected) => {
            connected_lines(connected, lines);
            connected.stderr(STDERR_LINES)
        }
        State::NeedsAuth(failure) => failure.stderr.clone(),
        state => {
            let failure = state.failure();
            failure
                .map(|failure| failure.stderr.clone())
                .unwrap_or_default()
        }
    };
    let mut offers = vec![text::count(catalog.tools().len(), "tool")];
    offers.push(text::count(
        catalog.resources.len() + catalog.templates.len(),
        "resource",
    ));
    offers.push(text::count(catalog.prompts.len(), "prompt"));
    let kept = if catalog.cached {
        " (from an earlier connection)"
    } else {
        ""
    };
    lines.push(DocLine::field(
        "offers",
        format!("{}{kept}", offers.join(", ")),
    ));
    for note in catalog.notes.iter().chain(catalog.diagnostics.iter()) {
        lines.push(DocLine::field("note", inline(note)).tone(Tone::Warn));
    }
    if let Some(instructions) = catalog.instructions() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Instructions"));
        lines.extend(DocLine::foreign(&instructions));
    }
    if !stderr.is_empty() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Standard error"));
        let last = stderr.len().saturating_sub(STDERR_LINES);
        for line in stderr.iter().skip(last) {
            lines.extend(DocLine::foreign(&inline(line)));
        }
    }
}

fn connected_lines(connected: &Connected, lines: &mut Vec<DocLine>) {
    let identity = connected.identity();
    if let Some(info) = &identity.info {
        let shown = format!("{} {}", name(&info.name), text::line(&info.version));
        lines.push(DocLine::field("server", shown));
    }
    let version = text::line(&identity.protocol_version);
    lines.push(DocLine::field(
        "protocol",
        format!("{version} ({})", connected.era()),
    ));
    let capabilities = &identity.capabilities;
    let all = [
        (capabilities.tools, "tools"),
        (capabilities.resources, "resources"),
        (capabilities.subscribe, "subscriptions"),
        (capabilities.prompts, "prompts"),
        (capabilities.completions, "completions"),
        (capabilities.tasks, "tasks"),
        (capabilities.skills, "skills"),
        (
            capabilities.list_changed.iter().any(|on| *on),
            "list changes",
        ),
    ];
    let offered: Vec<&str> = all
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    let offered = if offered.is_empty() {
        "none".to_owned()
    } else {
        offered.join(", ")
    };
    lines.push(DocLine::field("can do", offered));
}
