//! Decides which of a project's servers the user has approved (CFG-6). An approval covers the
//! content of an entry, not only its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ApprovedEntry;
use crate::entry::ServerEntry;
use crate::names::normalize_name;
use crate::settings::{Origin, Settings};

/// The decision about a project's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// The server may run.
    Approved,
    /// The user rejected it.
    Rejected {
        /// The file that rejects it.
        source: String,
    },
    /// The user has not decided, or the content differs from what was approved.
    Pending {
        /// The content approved under that name.
        before: Option<Box<ApprovedEntry>>,
    },
}

/// The approvals file: content by project, file and name.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct StoredApprovals {
    #[serde(default)]
    projects: BTreeMap<String, BTreeMap<String, BTreeMap<String, ApprovedEntry>>>,
    #[serde(skip)]
    unreadable: bool,
}

impl StoredApprovals {
    /// Approvals whose file is unreadable.
    pub(crate) fn unreadable() -> Self {
        Self {
            unreadable: true,
            ..Self::default()
        }
    }

    /// The approvals of one project.
    pub(crate) fn of_project(&self, project: Option<&str>) -> ProjectApprovals<'_> {
        let mut approvals = ProjectApprovals {
            unknown: self.unreadable,
            ..ProjectApprovals::default()
        };
        for (source, names) in project
            .and_then(|project| self.projects.get(project))
            .into_iter()
            .flatten()
        {
            for (name, approved) in names {
                let of_name = approvals.by_name.entry(normalize_name(name)).or_default();
                of_name.push((source, approved));
            }
        }
        approvals
    }
}

/// The approvals of a project by name. A name approved with some content is approved with no other,
/// whatever file or spelling the other comes in.
#[derive(Default)]
pub(crate) struct ProjectApprovals<'a> {
    by_name: HashMap<String, Vec<(&'a str, &'a ApprovedEntry)>>,
    /// The approvals are unreadable, so nothing counts as approved.
    unknown: bool,
}

impl ProjectApprovals<'_> {
    fn about(&self, entry: &ServerEntry) -> ApprovalMatch<'_> {
        if self.unknown {
            return ApprovalMatch::Unknown;
        }
        let Some(of_name) = self.by_name.get(&normalize_name(&entry.name)) else {
            return ApprovalMatch::None;
        };
        let now = ApprovedEntry::of(entry);
        if of_name.iter().any(|(_, approved)| approved.is_same(&now)) {
            return ApprovalMatch::Same;
        }
        let here = of_name.iter().find(|(source, _)| *source == entry.source);
        match here.or(of_name.first()) {
            Some((_, approved)) => ApprovalMatch::Other(approved),
            None => ApprovalMatch::None,
        }
    }
}

/// How an entry compares with the content approved under its name.
enum ApprovalMatch<'a> {
    /// Nothing was approved.
    None,
    /// The same content was approved.
    Same,
    /// Other content was approved.
    Other(&'a ApprovedEntry),
    /// The approvals are unreadable.
    Unknown,
}

/// What all settings say about a project's servers.
pub(crate) struct ApprovalSettings {
    rejected: Vec<(HashSet<String>, String)>,
    /// Files whose list of rejected servers is partly unreadable, so it may name any server.
    unreadable_lists: Vec<String>,
    /// Names approved for this project, or by managed settings.
    approved: HashSet<String>,
    /// Names in the user's settings, each with its file. They count if the same content was
    /// approved before.
    known: HashMap<String, String>,
    /// The setting that approves all servers.
    pub(crate) all: Option<ApproveAll>,
    /// The rejected servers are unknown.
    pub(crate) unknown: bool,
}

/// `enableAllProjectMcpServers` is set: every server of a project runs, including later changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApproveAll {
    /// The file that sets it.
    pub source: String,
    /// Whether it applies to every project rather than this one.
    pub every_project: bool,
}

impl fmt::Display for ApproveAll {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let projects = if self.every_project {
            "every project"
        } else {
            "this project"
        };
        write!(
            f,
            "\"enableAllProjectMcpServers\" in {} approves every server of {projects}, and every later change to it",
            self.source
        )
    }
}

impl ApprovalSettings {
    pub(crate) fn of<'s>(settings: impl IntoIterator<Item = &'s Settings>) -> Self {
        let mut approval_settings = Self {
            rejected: Vec::new(),
            unreadable_lists: Vec::new(),
            approved: HashSet::new(),
            known: HashMap::new(),
            all: None,
            unknown: false,
        };
        for file in settings {
            if !file.disabled.is_empty() {
                let names = file.disabled.iter().map(|name| normalize_name(name));
                approval_settings
                    .rejected
                    .push((names.collect(), file.source.clone()));
            }
            if file.disabled_unreadable {
                approval_settings.unreadable_lists.push(file.source.clone());
            }
            let enabled = file.enabled.iter().map(|name| normalize_name(name));
            if file.origin == Origin::User {
                let source = || file.source.clone();
                approval_settings
                    .known
                    .extend(enabled.map(|name| (name, source())));
            } else {
                approval_settings.approved.extend(enabled);
            }
            // Report the widest setting.
            let every_project = file.origin != Origin::Local;
            let is_wider = |all: &ApproveAll| every_project && !all.every_project;
            if file.enable_all && approval_settings.all.as_ref().is_none_or(is_wider) {
                approval_settings.all = Some(ApproveAll {
                    source: file.source.clone(),
                    every_project,
                });
            }
        }
        approval_settings
    }

    /// Decides whether an entry may run, and whether its approval has yet to be bound to its
    /// content. Rejection wins; names are compared normalised. An approval by name alone, given for
    /// this project in another program, covers the content found with it first. A name in the
    /// user's settings says nothing about a repository the user has never seen, so it counts only
    /// for content approved in this project before.
    pub(crate) fn about(
        &self,
        entry: &ServerEntry,
        approvals: &ProjectApprovals,
    ) -> (Approval, bool) {
        let name = normalize_name(&entry.name);
        let mut rejected = self.rejected.iter();
        let rejects = rejected.find(|(names, _)| names.contains(&name));
        if let Some(source) = rejects
            .map(|(_, source)| source)
            .or(self.unreadable_lists.first())
        {
            let source = source.clone();
            return (Approval::Rejected { source }, false);
        }
        if self.unknown {
            return (Approval::Pending { before: None }, false);
        }
        if self.all.is_some() {
            return (Approval::Approved, false);
        }
        if entry.too_many_files {
            return (Approval::Pending { before: None }, false);
        }
        let by_project = self.approved.contains(&name);
        let named = by_project || self.known.contains_key(&name);
        match approvals.about(entry) {
            ApprovalMatch::Same if named => (Approval::Approved, false),
            ApprovalMatch::None if by_project => (Approval::Approved, true),
            ApprovalMatch::Other(before) => {
                let before = Some(Box::new(before.clone()));
                (Approval::Pending { before }, false)
            }
            ApprovalMatch::Same | ApprovalMatch::None | ApprovalMatch::Unknown => {
                (Approval::Pending { before: None }, false)
            }
        }
    }

    /// The user's settings file that names a server without approving it here.
    pub(crate) fn names_only(&self, entry: &ServerEntry) -> Option<&str> {
        let source = self.known.get(&normalize_name(&entry.name));
        source.map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scopes::Scope;
    use crate::settings::Origin;

    fn entry(name: &str, written: &str) -> ServerEntry {
        ServerEntry {
            scope: Scope::Project,
            written: Some(written.into()),
            ..ServerEntry::stdio(name, "c", [""; 0])
        }
    }

    fn approval_settings(enabled: &[&str], disabled: &[&str], all: bool) -> ApprovalSettings {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ApprovalSettings::of([&Settings {
            enabled: own(enabled),
            disabled: own(disabled),
            enable_all: all,
            ..Settings::empty(Origin::Local, "f")
        }])
    }

    #[test]
    fn rejection_wins_and_silence_is_pending() {
        let it = entry("my.server", "{}");
        let rejected = Approval::Rejected {
            source: "f".to_owned(),
        };
        let pending = Approval::Pending { before: None };
        for (approval_settings, expected) in [
            (approval_settings(&[], &[], false), &pending),
            (approval_settings(&["other"], &[], false), &pending),
            (
                approval_settings(&["my.server"], &[], false),
                &Approval::Approved,
            ),
            (
                approval_settings(&["my_server"], &[], false),
                &Approval::Approved,
            ),
            (approval_settings(&[], &[], true), &Approval::Approved),
            (
                approval_settings(&["my.server"], &["my_server"], true),
                &rejected,
            ),
            (approval_settings(&[], &["my/server"], false), &rejected),
        ] {
            assert_eq!(
                approval_settings.about(&it, &ProjectApprovals::default()).0,
                *expected
            );
        }
    }

    #[test]
    fn a_name_in_the_users_settings_needs_the_content_too() {
        let user = ApprovalSettings::of([&Settings {
            enabled: vec!["s".to_owned()],
            ..Settings::empty(Origin::User, "f")
        }]);
        let it = entry("s", r#"{"command":"a"}"#);
        let approved = ApprovedEntry::of(&it);
        let other = ApprovedEntry::of(&entry("s", r#"{"command":"b"}"#));
        for (recorded, expected) in [
            (None, false),
            (Some(&other), false),
            (Some(&approved), true),
        ] {
            let approvals = ProjectApprovals {
                by_name: recorded
                    .map(|approved| ("s".to_owned(), vec![("f", approved)]))
                    .into_iter()
                    .collect(),
                unknown: false,
            };
            let (now, record) = user.about(&it, &approvals);
            assert_eq!((now == Approval::Approved, record), (expected, false));
        }
        assert_eq!(user.names_only(&it), Some("f"));
    }

    #[test]
    fn a_list_of_rejected_servers_in_doubt_rejects_all() {
        let unreadable_lists = ApprovalSettings::of([&Settings {
            enable_all: true,
            disabled_unreadable: true,
            ..Settings::empty(Origin::User, "f")
        }]);
        let (now, _) = unreadable_lists.about(&entry("s", "{}"), &ProjectApprovals::default());
        assert!(matches!(now, Approval::Rejected { .. }));
    }

    #[test]
    fn an_approval_is_for_the_content() {
        let enabled = approval_settings(&["s"], &[], false);
        let approved = ApprovedEntry::of(&entry(
            "s",
            r#"{"command":"a","args":["x"],"env":{"K":"v"}}"#,
        ));
        for (written, still) in [
            (r#"{"command":"a","args":["x"],"env":{"K":"v"}}"#, true),
            (r#"{"env":{"K":"v"}, "args":["x"], "command":"a"}"#, true),
            (
                r#"{"command":"a","args":["x"],"env":{"K":"v"},"timeout":5}"#,
                true,
            ),
            (r#"{"command":"a","args":["y"],"env":{"K":"v"}}"#, false),
            (r#"{"command":"b","args":["x"],"env":{"K":"v"}}"#, false),
            (r#"{"command":"a","args":["x"],"env":{"K":"w"}}"#, false),
            (
                r#"{"command":"a","args":["x"],"env":{"K":"v","L":""}}"#,
                false,
            ),
            (
                r#"{"command":"a","args":["x"],"env":{"K":"v"},"cwd":"/"}"#,
                false,
            ),
            (
                r#"{"command":"a","args":["x"],"env":{"K":"v"},"headersHelper":"x"}"#,
                false,
            ),
            (
                r#"{"command":"a","args":["x"],"env":{"K":"v"},"tools":{"allow":["*"]}}"#,
                false,
            ),
        ] {
            let approvals = ProjectApprovals {
                by_name: [("s".to_owned(), vec![("f", &approved)])].into(),
                unknown: false,
            };
            let (now, _) = enabled.about(&entry("s", written), &approvals);
            assert_eq!(now == Approval::Approved, still, "{written}");
            if !still {
                assert!(matches!(now, Approval::Pending { before: Some(_) }));
            }
        }
    }
}
