//! The events of connections and of the configuration.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use trunkline_config::{EntryStatus, ServerSet, TransportEntry};

use super::{Audit, AuditEvent};
use crate::connection::{Source, State};

impl Audit {
    /// Records that a connection changed its state.
    pub(crate) fn connection(&self, source: &Source, before: &State, state: &State) {
        if before.name() == state.name() && !matches!(state, State::Failed(_)) {
            return;
        }
        self.record(|| AuditEvent::Connection {
            server: source.name().to_owned(),
            state: state.name(),
            target: target(source),
            reason: state
                .failure()
                .map(ToString::to_string)
                .or_else(|| state.sign_in().map(ToString::to_string)),
        });
    }

    /// Records the differences between two configurations.
    #[cfg(feature = "discovery")]
    pub(crate) fn configuration(&self, before: &ServerSet, now: &ServerSet) {
        if self.active().is_none() {
            return;
        }
        let (old, new) = (hashes(before), hashes(now));
        let mut changes = Vec::new();
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let added = new.keys().filter(|name| !old.contains_key(*name)).copied();
        let removed = old.keys().filter(|name| !new.contains_key(*name)).copied();
        let edited = new.iter().filter_map(|(name, hash)| {
            old.get(name)
                .is_some_and(|old| old != hash)
                .then_some(*name)
        });
        for (kind, found) in [
            ("added", added.collect::<Vec<_>>()),
            ("removed", removed.collect()),
            ("changed", edited.collect()),
        ] {
            if !found.is_empty() {
                changes.push((kind.to_owned(), names(found)));
            }
        }
        for (kind, is_changed) in [
            ("callPolicy", before.call_policy != now.call_policy),
            ("permissions", before.permissions != now.permissions),
            ("audit", before.audit != now.audit),
        ] {
            if is_changed {
                changes.push(("settings".to_owned(), vec![kind.to_owned()]));
            }
        }
        if !changes.is_empty() {
            self.record(|| AuditEvent::Configuration {
                changes: merged(changes),
                file: None,
            });
        }
    }

    /// Records the servers that policy blocks, unless it did before.
    pub(crate) fn blocked(&self, set: &ServerSet) {
        let mut now = BTreeMap::new();
        for server in &set.servers {
            if let EntryStatus::Blocked(blocked) = &server.status {
                now.insert(server.entry.name.clone(), blocked.clone());
            }
        }
        let mut known = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        for (server, blocked) in &now {
            if known.get(server) != Some(blocked) {
                self.record(|| AuditEvent::ServerBlocked {
                    server: server.clone(),
                    rule: blocked.rule.clone(),
                    source: blocked.source.clone(),
                });
            }
        }
        *known = now;
    }
}

#[cfg(feature = "discovery")]
fn merged(changes: Vec<(String, Vec<String>)>) -> Vec<(String, Vec<String>)> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (kind, names) in changes {
        all.entry(kind).or_default().extend(names);
    }
    all.into_iter().collect()
}

/// The content and status of each server.
#[cfg(feature = "discovery")]
fn hashes(set: &ServerSet) -> BTreeMap<&str, String> {
    let servers = set.servers.iter();
    servers
        .map(|server| {
            let status = std::mem::discriminant(&server.status);
            let hash = format!("{} {status:?}", server.entry.hash());
            (server.entry.name.as_str(), hash)
        })
        .collect()
}

/// The transport of a server, with its command or URL but without arguments.
fn target(source: &Source) -> Option<String> {
    let entry = source.entry()?;
    Some(match &entry.transport {
        TransportEntry::Stdio(stdio) => format!("stdio {}", stdio.command),
        transport => match transport.url().and_then(|url| url.parse().ok()) {
            Some(url) => {
                let url: url::Url = url;
                format!("{} {}", url.scheme(), url.host_str().unwrap_or_default())
            }
            None => return None,
        },
    })
}
