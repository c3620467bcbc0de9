//! Which of a project's servers the user wants (CFG-6). An approval is for what an entry says, not for its name.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::entry::{ServerEntry, sha256};
use crate::names::normalize_name;
use crate::redact::redact_url;
use crate::settings::Settings;

/// Fields that say nothing about what runs or where secrets go: changing them needs no new approval.
const HARMLESS: [&str; 6] = [
    "lazy",
    "timeout",
    "connectTimeout",
    "disabled",
    "alwaysLoad",
    "tools",
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
        Self {
            sha256,
            entry: written,
        }
    }
}

/// Puts an object's members into one order, so that an entry that is only rearranged stays approved.
fn sort(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.sort_keys();
        fields.values_mut().for_each(sort);
    }
}

/// Replaces what may be a secret by its hash: what was approved is kept in a file.
fn hide(entry: &mut Value) {
    let hidden = |value: &Value| json!(format!("sha256:{}", &sha256(value)[..16]));
    for field in ["env", "headers"] {
        if let Some(Value::Object(values)) = entry.get_mut(field) {
            values.values_mut().for_each(|value| *value = hidden(value));
        }
    }
    for path in ["/authToken", "/oauth/clientSecret"] {
        if let Some(secret) = entry.pointer_mut(path) {
            *secret = hidden(secret);
        }
    }
    if let Some(url) = entry.get_mut("url")
        && let Some(shown) = url.as_str().map(redact_url)
        && *url != shown
    {
        *url = json!(format!(
            "{shown} {}",
            hidden(url).as_str().unwrap_or_default()
        ));
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
    let now = Approved::of(now).entry;
    let old = before.entry.as_object().unwrap_or(&none);
    let new = now.as_object().unwrap_or(&none);
    let mut changes = Vec::new();
    compare("", old, new, &mut changes);
    changes
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
        if of_name
            .iter()
            .any(|(_, approved)| approved.sha256 == now.sha256)
        {
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
    approved: HashSet<String>,
    all: bool,
    /// It is not known whom the user rejects.
    pub(crate) unknown: bool,
}

impl Choices {
    pub(crate) fn of<'s>(settings: impl IntoIterator<Item = &'s Settings>) -> Self {
        let mut choices = Self {
            rejected: Vec::new(),
            approved: HashSet::new(),
            all: false,
            unknown: false,
        };
        let normal = |names: &[String]| -> HashSet<String> {
            names.iter().map(|name| normalize_name(name)).collect()
        };
        for file in settings {
            if !file.disabled.is_empty() {
                choices
                    .rejected
                    .push((normal(&file.disabled), file.source.clone()));
            }
            choices.approved.extend(normal(&file.enabled));
            choices.all |= file.enable_all;
        }
        choices
    }

    /// Whether an entry may run, and whether its approval is still to be bound to its content. Rejection wins; names are
    /// compared normalised. An approval of the name alone, from another program, is taken for the content that is found with it
    /// first.
    pub(crate) fn about(&self, entry: &ServerEntry, bindings: &Bindings) -> (Approval, bool) {
        let name = normalize_name(&entry.name);
        let mut rejected = self.rejected.iter();
        if let Some((_, source)) = rejected.find(|(names, _)| names.contains(&name)) {
            let source = source.clone();
            return (Approval::Rejected { source }, false);
        }
        if self.unknown {
            return (Approval::Pending { before: None }, false);
        }
        if self.all {
            return (Approval::Approved, false);
        }
        let binding = bindings.about(entry);
        match (self.approved.contains(&name), binding) {
            (true, Binding::None) => (Approval::Approved, true),
            (true, Binding::Same) => (Approval::Approved, false),
            (_, Binding::Other(before)) => {
                let before = Some(Box::new(before.clone()));
                (Approval::Pending { before }, false)
            }
            (false, _) | (_, Binding::Unknown) => (Approval::Pending { before: None }, false),
        }
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
