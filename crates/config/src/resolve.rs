//! Who wins: of all entries with one name the strongest that may run (CFG-1).

use std::collections::{BTreeMap, HashSet};

use crate::approve::{Approval, Approved, Bindings, Choices};
use crate::dedupe::twins;
use crate::entry::ServerEntry;
use crate::policy::Policy;
use crate::server_set::{Server, Source, Standing};

/// What decides.
pub(crate) struct Resolution<'r> {
    pub(crate) policy: &'r Policy,
    pub(crate) choices: &'r Choices,
    pub(crate) approve_all: bool,
    pub(crate) bindings: Bindings<'r>,
    /// Switched off for this project.
    pub(crate) disabled: HashSet<String>,
    /// Switched on for this project, whatever their entries say.
    pub(crate) enabled: HashSet<String>,
}

/// Decides about every entry. Entries come in the order of loading, which within a scope is the order of strength.
pub(crate) fn resolve(entries: Vec<ServerEntry>, by: &Resolution) -> Vec<Server> {
    let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        names.entry(entry.name.clone()).or_default().push(index);
    }
    let mut servers: Vec<Server> = entries.into_iter().map(|entry| by.alone(entry)).collect();
    for indices in names.values_mut() {
        indices.sort_by_key(|index| (servers[*index].entry.scope, *index));
        shadow(&mut servers, indices);
    }
    suppress(&mut servers);
    let order = names.into_values().flatten();
    let mut servers: Vec<_> = servers.into_iter().map(Some).collect();
    order.filter_map(|index| servers[index].take()).collect()
}

impl Resolution<'_> {
    /// What becomes of an entry if there is no other.
    fn alone(&self, entry: ServerEntry) -> Server {
        let (standing, to_record) = self.standing(&entry);
        Server {
            entry,
            standing,
            shadows: Vec::new(),
            to_record,
        }
    }

    fn standing(&self, entry: &ServerEntry) -> (Standing, Option<Approved>) {
        if let Some(blocked) = self.policy.blocks(entry) {
            return (Standing::Blocked(blocked), None);
        }
        let mut to_record = None;
        if entry.needs_approval() {
            let (approval, unbound) = self.choices.about(entry, &self.bindings);
            match approval {
                Approval::Rejected { source } => return (Standing::Rejected { source }, None),
                Approval::Pending { before } if !self.approve_all => {
                    return (Standing::PendingApproval { before }, None);
                }
                Approval::Pending { .. } => {}
                Approval::Approved => to_record = unbound.then(|| Approved::of(entry)),
            }
        }
        let off = self.disabled.contains(&entry.name)
            || (entry.disabled && !self.enabled.contains(&entry.name));
        let standing = if off {
            Standing::Disabled
        } else {
            Standing::Active
        };
        (standing, to_record)
    }
}

/// Lets the strongest entry that may run hide the others. One that may not run hides nobody.
fn shadow(servers: &mut [Server], strongest_first: &[usize]) {
    let mut contenders = strongest_first
        .iter()
        .copied()
        .filter(|index| servers[*index].standing.may_run());
    let Some(winner) = contenders.next() else {
        return;
    };
    let losers: Vec<usize> = contenders.collect();
    let place = Source::of(&servers[winner].entry);
    for loser in losers {
        let hidden = Source::of(&servers[loser].entry);
        servers[winner].shadows.push(hidden);
        servers[loser].standing = Standing::Shadowed { by: place.clone() };
        servers[loser].to_record = None;
    }
}

/// Lets twins give way (CFG-8).
fn suppress(servers: &mut [Server]) {
    let running: Vec<usize> = (0..servers.len())
        .filter(|index| servers[*index].standing == Standing::Active)
        .collect();
    let entries: Vec<&ServerEntry> = running.iter().map(|index| &servers[*index].entry).collect();
    let twins = twins(&entries);
    let losers: Vec<(usize, String)> = twins
        .into_iter()
        .map(|(loser, winner)| (running[loser], entries[winner].name.clone()))
        .collect();
    for (loser, by) in losers {
        servers[loser].standing = Standing::Suppressed { by };
    }
}
