//! Reads the servers of the host. Events are only hints that something changed; this is what
//! counts.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline::Host;
use trunkline::auth::server_config;
use trunkline::server::{Catalog, ConnectFailure, ServerStatus, State};
use trunkline_config::{EntryStatus, Scope, Server as ConfiguredServer, ServerSet, Severity};

use super::data::{
    BUILT_IN, Offers, PromptItem, PromptParameter, ResourceItem, Server, Snapshot, Status,
};
use crate::output::inline;
use crate::standing;

/// The longest description that is kept, in characters.
const MAX_ABOUT: usize = 16_000;

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
            said: running.as_deref().map(said).unwrap_or_default(),
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
            said: said(running),
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
    let cause = |failure: &ConnectFailure| {
        inline(&standing::known_cause(running).unwrap_or_else(|| failure.to_string()))
    };
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

/// Returns the line of its stderr that best explains why a server has failed.
fn said(running: &ServerStatus) -> String {
    // The cause says it better.
    if standing::known_cause(running).is_some() {
        return String::new();
    }
    let failure = match &running.state {
        State::Failed(failure) => Some(failure),
        State::Pending { last_failure, .. } => last_failure.as_ref(),
        _ => None,
    };
    let line = failure.and_then(|failure| telling_line(&failure.stderr));
    line.map(inline).unwrap_or_default()
}

/// Returns the last line that names an error, otherwise the last one.
fn telling_line(stderr: &[String]) -> Option<&str> {
    let lines = || {
        let lines = stderr.iter().rev().map(|line| line.trim());
        lines.filter(|line| !line.is_empty())
    };
    let names_error = |line: &&str| {
        let lowercase = line.to_lowercase();
        // `at Error.from (…)` is a frame of a stack.
        !lowercase.starts_with("at ") && lowercase.contains("error")
    };
    lines().find(names_error).or_else(|| lines().next())
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
        EntryStatus::Suppressed { .. } | EntryStatus::OwnGateway => (Status::Suppressed, reason),
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
                said: String::new(),
                offers: Arc::default(),
                takes_sign_in: false,
                entry: None,
            });
        }
    }
    servers
}

fn read_offers(catalog: &Catalog) -> Offers {
    let bounded = |text: &str| text.chars().take(MAX_ABOUT).collect::<String>();
    let about = |raw: &trunkline::Json| {
        let about = raw.field::<String>("description");
        about.map(|about| bounded(&about)).unwrap_or_default()
    };
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
        about: prompt
            .description
            .as_deref()
            .map(bounded)
            .unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_an_error_explains_a_failure() {
        for (stderr, expected) in [
            (
                &["starting", "error: KEY is not set", "bye", ""][..],
                Some("error: KEY is not set"),
            ),
            (
                &["TypeError: no", "    at Error.new (a.js:1)", "Node.js v22"],
                Some("TypeError: no"),
            ),
            (&["starting", "KEY is not set", " "], Some("KEY is not set")),
            (&[], None),
        ] {
            let stderr: Vec<String> = stderr.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(telling_line(&stderr), expected);
        }
    }
}
