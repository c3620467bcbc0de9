//! The content of an approval: a hash of the entry, the entry without its secrets, and the hashes
//! of the repository files that it runs (CFG-6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::entry::{ServerEntry, sha256};
use crate::redact::{RedactMode, redact_entry};
use crate::secret::HIDDEN;

/// Fields that affect neither the code that runs nor where secrets go. Changing them keeps the
/// approval.
const UNTRACKED_FIELDS: [&str; 6] = [
    "lazy",
    "share",
    "timeout",
    "connectTimeout",
    "disabled",
    "alwaysLoad",
];

/// Fields that an approval stores as plain text, except for the secrets in them. The values of all
/// other fields are stored as hashes.
const PLAIN_FIELDS: [&str; 12] = [
    "type", "command", "args", "cwd", "url", "oauth", "account", "tls", "tools", "sandbox",
    "ideName", "id",
];

/// The approved content, for comparison with later content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovedEntry {
    /// SHA-256 of the entry as written.
    pub sha256: String,
    /// The entry, with hashes in place of possible secrets.
    pub entry: Value,
    /// SHA-256 of each file in the repository that the entry runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl ApprovedEntry {
    /// The record that approving this entry would store.
    pub fn of(entry: &ServerEntry) -> Self {
        let mut written = entry.as_written();
        if let Some(fields) = written.as_object_mut() {
            for field in UNTRACKED_FIELDS {
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
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.files == other.files
    }
}

/// Sorts the members of objects, so that reordering them keeps an approval.
fn sort(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.sort_keys();
        fields.values_mut().for_each(sort);
    }
}

fn hash_text(value: &Value) -> String {
    format!("sha256:{}", &sha256(value)[..16])
}

/// Replaces possible secrets by their hashes, because the approval is stored in a file.
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
            (field, value) if PLAIN_FIELDS.contains(&field) => hash_hidden(value, shown.get(field)),
            (_, value) => *value = json!(hash_text(value)),
        }
    }
}

/// Replaces each partly masked text by its masked form and a hash of the whole.
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

/// One difference between the approved and the current content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApprovalChange {
    /// The field, or a member of it.
    pub field: String,
    /// The old value.
    pub old: Option<Value>,
    /// The new value.
    pub new: Option<Value>,
}

/// Compares an entry with its approved content.
pub fn changes_since_approval(before: &ApprovedEntry, now: &ServerEntry) -> Vec<ApprovalChange> {
    let none = Map::new();
    let now = ApprovedEntry::of(now);
    let old = before.entry.as_object().unwrap_or(&none);
    let new = now.entry.as_object().unwrap_or(&none);
    let mut changes = Vec::new();
    compare("", old, new, &mut changes);
    let hashes = |approved: &ApprovedEntry| -> Map<String, Value> {
        let files = approved.files.iter();
        files
            .map(|(path, sha256)| (path.clone(), json!(format!("sha256:{sha256}"))))
            .collect()
    };
    compare(FILE_PREFIX, &hashes(before), &hashes(&now), &mut changes);
    changes
}

/// The prefix of [`ApprovalChange::field`] for files; the path follows.
const FILE_PREFIX: &str = "file ";

impl ApprovalChange {
    /// The repository file that changed, for a change of a file.
    pub fn file(&self) -> Option<&str> {
        self.field.strip_prefix(FILE_PREFIX)
    }
}

fn compare(
    prefix: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: &mut Vec<ApprovalChange>,
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
            _ => changes.push(ApprovalChange {
                field: format!("{prefix}{name}"),
                old: was.cloned(),
                new: is.cloned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scopes::Scope;

    fn entry(name: &str, written: &str) -> ServerEntry {
        ServerEntry {
            scope: Scope::Project,
            written: Some(written.into()),
            ..ServerEntry::stdio(name, "c", [""; 0])
        }
    }

    #[test]
    fn an_approval_covers_the_files_that_run() {
        let run = |sha256: &str| ServerEntry {
            files: vec![crate::approval::RepositoryFile {
                path: "run.sh".to_owned(),
                sha256: sha256.to_owned(),
            }],
            ..entry("s", r#"{"command":"./run.sh"}"#)
        };
        let before = ApprovedEntry::of(&run("one"));
        assert!(changes_since_approval(&before, &run("one")).is_empty());
        let changed = changes_since_approval(&before, &run("two"));
        assert_eq!(changed[0].file(), Some("run.sh"));
        let gone = changes_since_approval(&before, &entry("s", r#"{"command":"./run.sh"}"#));
        assert_eq!((gone[0].file(), &gone[0].new), (Some("run.sh"), &None));
    }

    #[test]
    fn an_approval_keeps_no_secret() {
        let written = r#"{"command":"a","args":["--token","hunter2"],"url":"https://u:hunter2@h/?k=hunter2",
            "headersHelper":"echo hunter2","apiKey":"hunter2","oauth":{"clientId":"id","clientSecret":"hunter2"}}"#;
        let before = ApprovedEntry::of(&entry("s", written));
        let kept = json!(before).to_string();
        assert!(!kept.contains("hunter"), "{kept}");
        assert!(kept.contains("@h/"), "{kept}");
        let now = entry("s", &written.replace("hunter2", "hunter3"));
        let changed = changes_since_approval(&before, &now);
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
    fn changes_name_what_changed_and_no_secret() {
        let before = ApprovedEntry::of(&entry(
            "s",
            r#"{"command":"a","args":["x"],"env":{"K":"hunter2","L":"same"}}"#,
        ));
        let now = entry(
            "s",
            r#"{"command":"a","args":["y"],"env":{"K":"hunter3","L":"same"},"cwd":"/"}"#,
        );
        let changes = changes_since_approval(&before, &now);
        let fields: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(fields, ["args", "env.K", "cwd"]);
        assert_eq!(changes[0].old, Some(json!(["x"])));
        assert_eq!(changes[0].new, Some(json!(["y"])));
        assert!(!format!("{before:?} {changes:?}").contains("hunter"));
    }
}
