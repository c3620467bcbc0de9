//! Decides the status of entries: of each name the strongest one that may run wins (CFG-1).

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use crate::approval::{Approval, ApprovalSettings, ApprovedEntry, ProjectApprovals};
use crate::dedupe::duplicates;
use crate::entry::ServerEntry;
use crate::own_entry::is_gateway_command;
use crate::policy::Policy;
use crate::server_set::{EntryStatus, Server, Source};

/// Everything that decides the status of entries.
pub(crate) struct Resolver<'r> {
    pub(crate) policy: &'r Policy,
    pub(crate) approval_settings: &'r ApprovalSettings,
    pub(crate) approve_project: bool,
    pub(crate) approvals: ProjectApprovals<'r>,
    /// Disabled for this project.
    pub(crate) disabled: HashSet<String>,
    /// `disabledMcpServers` is not a list, so all servers are disabled.
    pub(crate) all_disabled: bool,
    /// Enabled for this project, whatever their entries say.
    pub(crate) enabled: HashSet<String>,
    /// The running program.
    pub(crate) own_program: Option<PathBuf>,
}

/// Decides the status of every entry. Entries are in loading order, which within a scope is by
/// strength.
pub(crate) fn resolve(entries: Vec<ServerEntry>, resolver: &Resolver) -> Vec<Server> {
    let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        names.entry(entry.name.clone()).or_default().push(index);
    }
    let mut servers: Vec<Server> = entries
        .into_iter()
        .map(|entry| resolver.evaluate(entry))
        .collect();
    for indices in names.values_mut() {
        indices.sort_by_key(|index| (servers[*index].entry.scope, *index));
        shadow(&mut servers, indices);
    }
    suppress(&mut servers);
    let order = names.into_values().flatten();
    let mut servers: Vec<_> = servers.into_iter().map(Some).collect();
    order.filter_map(|index| servers[index].take()).collect()
}

impl Resolver<'_> {
    /// Evaluates an entry independently of the others.
    fn evaluate(&self, entry: ServerEntry) -> Server {
        let (status, unbound_approval) = self.status(&entry);
        Server {
            entry,
            status,
            shadows: Vec::new(),
            unbound_approval,
        }
    }

    fn status(&self, entry: &ServerEntry) -> (EntryStatus, Option<ApprovedEntry>) {
        if let Some(blocked) = self.policy.blocks(entry) {
            return (EntryStatus::Blocked(blocked), None);
        }
        let mut unbound_approval = None;
        if entry.needs_approval() {
            let (approval, unbound) = self.approval_settings.about(entry, &self.approvals);
            match approval {
                Approval::Rejected { source } => return (EntryStatus::Rejected { source }, None),
                Approval::Pending { before } if !self.approve_project => {
                    return (EntryStatus::PendingApproval { before }, None);
                }
                Approval::Pending { .. } => {}
                Approval::Approved => unbound_approval = unbound.then(|| ApprovedEntry::of(entry)),
            }
        }
        let own = self.own_program.as_deref();
        if let Some(argv) = entry.resolved_argv()
            && is_gateway_command(&argv, own)
        {
            return (EntryStatus::OwnGateway, None);
        }
        let off = self.all_disabled
            || self.disabled.contains(&entry.name)
            || (entry.disabled && !self.enabled.contains(&entry.name));
        let status = if off {
            EntryStatus::Disabled
        } else {
            EntryStatus::Active
        };
        (status, unbound_approval)
    }
}

/// Shadows all but the strongest entry that may run. An entry that may not run shadows nothing.
fn shadow(servers: &mut [Server], strongest_first: &[usize]) {
    let mut contenders = strongest_first
        .iter()
        .copied()
        .filter(|index| servers[*index].status.may_run());
    let Some(winner) = contenders.next() else {
        return;
    };
    let losers: Vec<usize> = contenders.collect();
    let by = Source::of(&servers[winner].entry);
    for loser in losers {
        let hidden = Source::of(&servers[loser].entry);
        servers[winner].shadows.push(hidden);
        servers[loser].status = EntryStatus::Shadowed { by: by.clone() };
        servers[loser].unbound_approval = None;
    }
}

/// Suppresses duplicates (CFG-8).
fn suppress(servers: &mut [Server]) {
    let running: Vec<usize> = (0..servers.len())
        .filter(|index| servers[*index].status == EntryStatus::Active)
        .collect();
    let entries: Vec<&ServerEntry> = running.iter().map(|index| &servers[*index].entry).collect();
    let duplicates = duplicates(&entries);
    let losers: Vec<(usize, String)> = duplicates
        .into_iter()
        .map(|(loser, winner)| (running[loser], entries[winner].name.clone()))
        .collect();
    for (loser, by) in losers {
        servers[loser].status = EntryStatus::Suppressed { by };
    }
}
