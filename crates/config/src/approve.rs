//! Which of a project's servers the user wants (CFG-6). An approval is for what an entry says, not for its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::entry::{ServerEntry, sha256};
use crate::names::normalize_name;
use crate::redact::{RedactMode, redact_entry};
use crate::secret::HIDDEN;
use crate::settings::{Origin, Settings};

/// Fields that say nothing about what runs or where secrets go: changing them needs no new approval.
const HARMLESS: [&str; 5] = [
    "lazy",
    "timeout",
    "connectTimeout",
    "disabled",
    "alwaysLoad",
];

/// Fields that an approval keeps as plain text, except for the secrets in them. The values of all other fields are
/// kept as hashes.
const PLAIN: [&str; 11] = [
    "type", "command", "args", "cwd", "url", "oauth", "tls", "tools", "sandbox", "ideName", "id",
];

/// Whether a project's server may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// It may.
    Approved,
    /// The user does not want it.
    Rejected {
        /// The file that says so.
        source: String,
    },
    /// Nobody has said anything, or it is no longer what was approved.
    Pending {
        /// What was approved under that name.
        before: Option<Box<Approved>>,
    },
}

/// What was approved: enough to tell whether it has changed, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// SHA-256 of the entry as it was written.
    pub sha256: String,
    /// The entry, with hashes in place of what may be secrets.
    pub entry: Value,
    /// SHA-256 of each file in the repository that the entry runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl Approved {
    /// What approving this entry would record.
    pub fn of(entry: &ServerEntry) -> Self {
        let mut written = entry.as_written();
        if let Some(fields) = written.as_object_mut() {
            for field in HARMLESS {
                fields.remove(field);
            }
        }
        sort(&mut written);
        let sha256 = sha256(&written);
        hide(&mut written);
        let files = entry.files.iter();
        Self {
            sha256,
            entry: written,
            files: files
                .map(|file| (file.path.clone(), file.sha256.clone()))
                .collect(),
        }
    }

    /// Whether both are approvals of the same content.
    fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.files == other.files
    }
}

/// Puts an object's members into one order, so that an entry that is only rearranged stays approved.
fn sort(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.sort_keys();
        fields.values_mut().for_each(sort);
    }
}

fn hash_text(value: &Value) -> String {
    format!("sha256:{}", &sha256(value)[..16])
}

/// Replaces possible secrets by their hashes: the approval is stored in a file.
fn hide(entry: &mut Value) {
    let mut shown = entry.clone();
    redact_entry(&mut shown, RedactMode::Display);
    for (field, value) in entry.as_object_mut().into_iter().flatten() {
        match (&**field, &mut *value) {
            ("env" | "headers", Value::Object(values)) => {
                values
                    .values_mut()
                    .for_each(|value| *value = json!(hash_text(value)));
            }
            (field, value) if PLAIN.contains(&field) => hash_hidden(value, shown.get(field)),
            (_, value) => *value = json!(hash_text(value)),
        }
    }
}

/// Replaces each text that is not shown in full by its shown form and a hash of the whole.
fn hash_hidden(value: &mut Value, shown: Option<&Value>) {
    match (value, shown) {
        (Value::Object(values), Some(Value::Object(shown))) => {
            for (name, value) in values {
                hash_hidden(value, shown.get(name));
            }
        }
        (Value::Array(values), Some(Value::Array(shown))) if values.len() == shown.len() => {
            for (value, shown) in values.iter_mut().zip(shown) {
                hash_hidden(value, Some(shown));
            }
        }
        (value, Some(shown)) if value == shown => {}
        (value, shown) => {
            let shown = shown.and_then(Value::as_str).unwrap_or(HIDDEN);
            *value = json!(format!("{shown} {}", hash_text(value)));
        }
    }
}

/// One difference between what was approved and what is there now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The field, or one member of it.
    pub field: String,
    /// What it was.
    pub old: Option<Value>,
    /// What it is.
    pub new: Option<Value>,
}

/// How an entry differs from what was approved.
pub fn changes(before: &Approved, now: &ServerEntry) -> Vec<Change> {
    let none = Map::new();
    let now = Approved::of(now);
    let old = before.entry.as_object().unwrap_or(&none);
    let new = now.entry.as_object().unwrap_or(&none);
    let mut changes = Vec::new();
    compare("", old, new, &mut changes);
    let hashes = |approved: &Approved| -> Map<String, Value> {
        let files = approved.files.iter();
        files
            .map(|(path, sha256)| (path.clone(), json!(format!("sha256:{sha256}"))))
            .collect()
    };
    compare(FILE_PREFIX, &hashes(before), &hashes(&now), &mut changes);
    changes
}

/// The [`Change::field`] of a file is this and its path.
const FILE_PREFIX: &str = "file ";

impl Change {
    /// The file in the repository whose content has changed, if the change is one of a file.
    pub fn file(&self) -> Option<&str> {
        self.field.strip_prefix(FILE_PREFIX)
    }
}

fn compare(
    prefix: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: &mut Vec<Change>,
) {
    let names: Vec<_> = old
        .keys()
        .chain(new.keys().filter(|name| !old.contains_key(*name)))
        .collect();
    for name in names {
        let (was, is) = (old.get(name), new.get(name));
        if was == is {
            continue;
        }
        match (was, is) {
            (Some(Value::Object(was)), Some(Value::Object(is))) => {
                compare(&format!("{prefix}{name}."), was, is, changes);
            }
            _ => changes.push(Change {
                field: format!("{prefix}{name}"),
                old: was.cloned(),
                new: is.cloned(),
            }),
        }
    }
}

/// What was approved, by project, then by file, then by name.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Approvals {
    #[serde(default)]
    projects: BTreeMap<String, BTreeMap<String, BTreeMap<String, Approved>>>,
    #[serde(skip)]
    unreadable: bool,
}

impl Approvals {
    /// What is known of a file that cannot be read.
    pub(crate) fn unreadable() -> Self {
        Self {
            unreadable: true,
            ..Self::default()
        }
    }

    /// What was approved in one project.
    pub(crate) fn of_project(&self, project: Option<&str>) -> Bindings<'_> {
        let mut bindings = Bindings {
            unknown: self.unreadable,
            ..Bindings::default()
        };
        for (source, names) in project
            .and_then(|project| self.projects.get(project))
            .into_iter()
            .flatten()
        {
            for (name, approved) in names {
                let of_name = bindings.by_name.entry(normalize_name(name)).or_default();
                of_name.push((source, approved));
            }
        }
        bindings
    }
}

/// What was approved in a project, by name. A name that was approved with some content is approved with no other, in
/// whatever file or spelling the other comes.
#[derive(Default)]
pub(crate) struct Bindings<'a> {
    by_name: HashMap<String, Vec<(&'a str, &'a Approved)>>,
    /// What was approved cannot be told, so that nothing may be taken for it.
    unknown: bool,
}

impl Bindings<'_> {
    fn about(&self, entry: &ServerEntry) -> Binding<'_> {
        if self.unknown {
            return Binding::Unknown;
        }
        let Some(of_name) = self.by_name.get(&normalize_name(&entry.name)) else {
            return Binding::None;
        };
        let now = Approved::of(entry);
        if of_name.iter().any(|(_, approved)| approved.is_same(&now)) {
            return Binding::Same;
        }
        let here = of_name.iter().find(|(source, _)| *source == entry.source);
        match here.or(of_name.first()) {
            Some((_, approved)) => Binding::Other(approved),
            None => Binding::None,
        }
    }
}

/// How an entry compares with what was approved under its name.
enum Binding<'a> {
    /// Nothing was.
    None,
    /// It is what was approved.
    Same,
    /// Something else was.
    Other(&'a Approved),
    /// It cannot be told.
    Unknown,
}

/// What all settings together say about a project's servers.
pub(crate) struct Choices {
    rejected: Vec<(HashSet<String>, String)>,
    /// Files whose list of rejected servers is unreadable in part: any server may be meant.
    in_doubt: Vec<String>,
    /// Names that are approved for this project, or by the company.
    approved: HashSet<String>,
    /// Names in the user's settings, each with its file. They count where the same content was approved before.
    known: HashMap<String, String>,
    /// The setting that approves all servers.
    pub(crate) all: Option<ApproveAll>,
    /// It is not known whom the user rejects.
    pub(crate) unknown: bool,
}

/// `enableAllProjectMcpServers` is set: every server that a project brings along runs, and its changes too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApproveAll {
    /// The file that sets it.
    pub source: String,
    /// Whether it counts in every project, not only in this one.
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

impl Choices {
    pub(crate) fn of<'s>(settings: impl IntoIterator<Item = &'s Settings>) -> Self {
        let mut choices = Self {
            rejected: Vec::new(),
            in_doubt: Vec::new(),
            approved: HashSet::new(),
            known: HashMap::new(),
            all: None,
            unknown: false,
        };
        for file in settings {
            if !file.disabled.is_empty() {
                let names = file.disabled.iter().map(|name| normalize_name(name));
                choices
                    .rejected
                    .push((names.collect(), file.source.clone()));
            }
            if file.disabled_in_doubt {
                choices.in_doubt.push(file.source.clone());
            }
            let enabled = file.enabled.iter().map(|name| normalize_name(name));
            if file.origin == Origin::User {
                let source = || file.source.clone();
                choices.known.extend(enabled.map(|name| (name, source())));
            } else {
                choices.approved.extend(enabled);
            }
            // The widest setting is the one to report.
            let every_project = file.origin != Origin::Local;
            let is_wider = |all: &ApproveAll| every_project && !all.every_project;
            if file.enable_all && choices.all.as_ref().is_none_or(is_wider) {
                choices.all = Some(ApproveAll {
                    source: file.source.clone(),
                    every_project,
                });
            }
        }
        choices
    }

    /// Whether an entry may run, and whether its approval is still to be bound to its content. Rejection wins; names are
    /// compared normalised. An approval of the name alone, given for this project in another program, is taken for the
    /// content that is found with it first. A name in the user's settings says nothing about a repository that the user
    /// has never seen, so it counts only for content that was approved in this project before.
    pub(crate) fn about(&self, entry: &ServerEntry, bindings: &Bindings) -> (Approval, bool) {
        let name = normalize_name(&entry.name);
        let mut rejected = self.rejected.iter();
        let rejects = rejected.find(|(names, _)| names.contains(&name));
        if let Some(source) = rejects.map(|(_, source)| source).or(self.in_doubt.first()) {
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
        match bindings.about(entry) {
            Binding::Same if named => (Approval::Approved, false),
            Binding::None if by_project => (Approval::Approved, true),
            Binding::Other(before) => {
                let before = Some(Box::new(before.clone()));
                (Approval::Pending { before }, false)
            }
            Binding::Same | Binding::None | Binding::Unknown => {
                (Approval::Pending { before: None }, false)
            }
        }
    }

    /// The user's settings file that names a server without approving it here, if one does.
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

    fn choices(enabled: &[&str], disabled: &[&str], all: bool) -> Choices {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Choices::of([&Settings {
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
        for (choices, expected) in [
            (choices(&[], &[], false), &pending),
            (choices(&["other"], &[], false), &pending),
            (choices(&["my.server"], &[], false), &Approval::Approved),
            (choices(&["my_server"], &[], false), &Approval::Approved),
            (choices(&[], &[], true), &Approval::Approved),
            (choices(&["my.server"], &["my_server"], true), &rejected),
            (choices(&[], &["my/server"], false), &rejected),
        ] {
            assert_eq!(choices.about(&it, &Bindings::default()).0, *expected);
        }
    }

    #[test]
    fn a_name_in_the_users_settings_needs_the_content_too() {
        let user = Choices::of([&Settings {
            enabled: vec!["s".to_owned()],
            ..Settings::empty(Origin::User, "f")
        }]);
        let it = entry("s", r#"{"command":"a"}"#);
        let approved = Approved::of(&it);
        let other = Approved::of(&entry("s", r#"{"command":"b"}"#));
        for (recorded, expected) in [
            (None, false),
            (Some(&other), false),
            (Some(&approved), true),
        ] {
            let bindings = Bindings {
                by_name: recorded
                    .map(|approved| ("s".to_owned(), vec![("f", approved)]))
                    .into_iter()
                    .collect(),
                unknown: false,
            };
            let (now, record) = user.about(&it, &bindings);
            assert_eq!((now == Approval::Approved, record), (expected, false));
        }
        assert_eq!(user.names_only(&it), Some("f"));
    }

    #[test]
    fn a_list_of_rejected_servers_in_doubt_rejects_all() {
        let in_doubt = Choices::of([&Settings {
            enable_all: true,
            disabled_in_doubt: true,
            ..Settings::empty(Origin::User, "f")
        }]);
        let (now, _) = in_doubt.about(&entry("s", "{}"), &Bindings::default());
        assert!(matches!(now, Approval::Rejected { .. }));
    }

    #[test]
    fn an_approval_covers_the_files_that_run() {
        let run = |sha256: &str| ServerEntry {
            files: vec![crate::runs::RepositoryFile {
                path: "run.sh".to_owned(),
                sha256: sha256.to_owned(),
            }],
            ..entry("s", r#"{"command":"./run.sh"}"#)
        };
        let before = Approved::of(&run("one"));
        assert!(changes(&before, &run("one")).is_empty());
        let changed = changes(&before, &run("two"));
        assert_eq!(changed[0].file(), Some("run.sh"));
        let gone = changes(&before, &entry("s", r#"{"command":"./run.sh"}"#));
        assert_eq!((gone[0].file(), &gone[0].new), (Some("run.sh"), &None));
    }

    #[test]
    fn an_approval_keeps_no_secret() {
        let written = r#"{"command":"a","args":["--token","hunter2"],"url":"https://u:hunter2@h/?k=hunter2",
            "headersHelper":"echo hunter2","apiKey":"hunter2","oauth":{"clientId":"id","clientSecret":"hunter2"}}"#;
        let before = Approved::of(&entry("s", written));
        let kept = json!(before).to_string();
        assert!(!kept.contains("hunter"), "{kept}");
        assert!(kept.contains("@h/"), "{kept}");
        let now = entry("s", &written.replace("hunter2", "hunter3"));
        let changed = changes(&before, &now);
        let fields: Vec<_> = changed.iter().map(|change| &*change.field).collect();
        assert_eq!(
            fields,
            [
                "apiKey",
                "args",
                "headersHelper",
                "oauth.clientSecret",
                "url"
            ]
        );
    }

    #[test]
    fn an_approval_is_for_the_content() {
        let enabled = choices(&["s"], &[], false);
        let approved = Approved::of(&entry(
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
            let bindings = Bindings {
                by_name: [("s".to_owned(), vec![("f", &approved)])].into(),
                unknown: false,
            };
            let (now, _) = enabled.about(&entry("s", written), &bindings);
            assert_eq!(now == Approval::Approved, still, "{written}");
            if !still {
                assert!(matches!(now, Approval::Pending { before: Some(_) }));
            }
        }
    }

    #[test]
    fn changes_name_what_changed_and_no_secret() {
        let before = Approved::of(&entry(
            "s",
            r#"{"command":"a","args":["x"],"env":{"K":"hunter2","L":"same"}}"#,
        ));
        let now = entry(
            "s",
            r#"{"command":"a","args":["y"],"env":{"K":"hunter3","L":"same"},"cwd":"/"}"#,
        );
        let changes = changes(&before, &now);
        let fields: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(fields, ["args", "env.K", "cwd"]);
        assert_eq!(changes[0].old, Some(json!(["x"])));
        assert_eq!(changes[0].new, Some(json!(["y"])));
        assert!(!format!("{before:?} {changes:?}").contains("hunter"));
    }
}
