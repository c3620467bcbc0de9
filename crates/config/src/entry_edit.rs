//! Edits an existing entry in a file (CFG-4): only the fields that change are rewritten.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::edit::splice;
use crate::editor::{
    ChangeError, Editor, WriteOutcome, bad_file, check_entry, get, remove, set, unknown,
};
use crate::files;
use crate::policy::Policy;
use crate::scopes::Scope;

/// One change to an entry. A path holds the keys that lead to a value, such as `["env", "TOKEN"]`.
#[derive(Clone, PartialEq, Eq)]
pub enum EntryEdit {
    /// Sets a value, creating missing objects.
    Set {
        /// Its keys from the root.
        path: Vec<String>,
        /// The new value.
        value: Value,
    },
    /// Removes a value. A missing value is no error.
    Remove {
        /// Its keys from the root.
        path: Vec<String>,
    },
}

impl EntryEdit {
    /// Sets the value at `path`.
    pub fn set(path: &[&str], value: impl Into<Value>) -> Self {
        Self::Set {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            value: value.into(),
        }
    }

    /// Removes the value at `path`.
    pub fn remove(path: &[&str]) -> Self {
        Self::Remove {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    /// Returns the edits that turn one entry into another, each as deep as the difference.
    ///
    /// ```
    /// use serde_json::json;
    /// use trunkline_config::EntryEdit;
    ///
    /// let old = json!({"a": 1, "env": {"X": "1", "Y": "2"}});
    /// let new = json!({"a": 1, "env": {"X": "3"}});
    /// let edits = EntryEdit::between(&old, &new);
    /// assert!(edits == [EntryEdit::remove(&["env", "Y"]), EntryEdit::set(&["env", "X"], "3")]);
    /// ```
    pub fn between(old: &Value, new: &Value) -> Vec<Self> {
        let mut edits = Vec::new();
        compare(old, new, &mut Vec::new(), &mut edits);
        edits
    }
}

/// Collects the differences below `path`.
fn compare(old: &Value, new: &Value, path: &mut Vec<String>, edits: &mut Vec<EntryEdit>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                let path = path.iter().cloned().chain([name.clone()]).collect();
                edits.push(EntryEdit::Remove { path });
            }
            for (name, value) in new {
                path.push(name.clone());
                match old.get(name) {
                    Some(before) => compare(before, value, path, edits),
                    None => edits.push(EntryEdit::Set {
                        path: path.clone(),
                        value: value.clone(),
                    }),
                }
                path.pop();
            }
        }
        (old, new) if old == new => {}
        (_, new) => edits.push(EntryEdit::Set {
            path: path.clone(),
            value: new.clone(),
        }),
    }
}

/// An entry as written in its file. It may contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryText {
    /// The file.
    pub file: PathBuf,
    /// The entry's JSON text, valid JSON but not necessarily a valid entry.
    pub text: String,
}

/// The result of an edit. The entries may contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryChange {
    /// The written file.
    pub write: WriteOutcome,
    /// The entry before.
    pub before: Value,
    /// The entry after.
    pub after: Value,
}

impl Editor {
    /// The entry of a server in a scope, from the file that takes effect.
    pub fn entry_text(&self, scope: Scope, name: &str) -> Result<EntryText, ChangeError> {
        let (files, path) = self.candidates(scope, name)?;
        for file in files {
            let text = files::read(&file)
                .map_err(|error| ChangeError::File(format!("{}: {error}", file.display())))?;
            let text = text.unwrap_or_default();
            let found = splice::get(&text, &path).map_err(|error| bad_file(&file, error))?;
            if let Some(raw) = found {
                let text = raw.get().to_owned();
                return Ok(EntryText { file, text });
            }
        }
        Err(unknown(scope, name))
    }

    /// Edits the entry of a server in place. The result must be a valid entry that policy allows,
    /// and the entry must still be equal to `seen`; otherwise nothing is written.
    ///
    /// ```
    /// # let home = tempfile::tempdir().unwrap();
    /// use serde_json::json;
    /// use trunkline_config::{Editor, EntryEdit, Layout, Policy, Scope};
    ///
    /// let editor = Editor::new(Layout::under(home.path()), home.path());
    /// editor.add(Scope::User, "cat", &json!({"command": "cat"}), &Policy::default())?;
    /// let seen = editor.entry_text(Scope::User, "cat")?;
    /// let edits = [EntryEdit::set(&["timeout"], 5000)];
    /// let change = editor.edit_entry(Scope::User, "cat", &seen, &edits, &Policy::default())?;
    /// assert_eq!(change.after, json!({"command": "cat", "timeout": 5000}));
    /// # Ok::<(), trunkline_config::ChangeError>(())
    /// ```
    pub fn edit_entry(
        &self,
        scope: Scope,
        name: &str,
        seen: &EntryText,
        edits: &[EntryEdit],
        policy: &Policy,
    ) -> Result<EntryChange, ChangeError> {
        self.check_not_exclusive()?;
        let file = seen.file.clone();
        let (files, path) = self.candidates(scope, name)?;
        if !files.contains(&file) {
            return Err(unknown(scope, name));
        }
        let mut both = None;
        let changed = self.edit(&file, |text| {
            let now = splice::get(text, &path).map_err(|error| bad_file(&file, error))?;
            if now.map(serde_json::value::RawValue::get) != Some(seen.text.as_str()) {
                let message =
                    format!("the entry of \"{name}\" changed in the meantime; nothing was written");
                return Err(ChangeError::File(message));
            }
            let before = get(&file, text, &path)?.unwrap_or_default();
            let text = apply(&file, text, &path, edits)?;
            let after = get(&file, &text, &path)?.unwrap_or_default();
            check_entry(name, scope, &after, policy)?;
            both = Some((before, after));
            Ok(Some(text))
        })?;
        let (before, after) = both.unwrap_or_default();
        Ok(EntryChange {
            write: self.outcome(file, scope, changed),
            before,
            after,
        })
    }
}

/// The text of the file with the edits applied to the entry at `at`.
fn apply(file: &Path, text: &str, at: &[&str], edits: &[EntryEdit]) -> Result<String, ChangeError> {
    let mut text = text.to_owned();
    for edit in edits {
        let (EntryEdit::Set { path, .. } | EntryEdit::Remove { path }) = edit;
        let whole: Vec<&str> = at
            .iter()
            .copied()
            .chain(path.iter().map(String::as_str))
            .collect();
        match edit {
            EntryEdit::Set { value, .. } => text = set(file, &text, &whole, value)?,
            EntryEdit::Remove { .. } => {
                text = remove(file, &text, &whole)?.unwrap_or(text);
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use serde_json::json;

    #[test]
    fn an_edit_leaves_every_other_byte_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude.json");
        let text = "{ \"n\": 1.50,\n\t\"mcpServers\": {\"s\": {\"command\": \"c\",  \"x\": 1e2, \"env\": {\"A\":\"1\", \"B\":\"2\"}}} }\n";
        std::fs::write(&file, text).unwrap();
        let editor = Editor::new(Layout::under(home.path()), home.path());
        let cases: &[(&[EntryEdit], &str, &str)] = &[
            (
                &[EntryEdit::set(&["env", "A"], "9")],
                "\"A\":\"1\"",
                "\"A\":\"9\"",
            ),
            (&[EntryEdit::remove(&["env", "B"])], ", \"B\":\"2\"", ""),
            (&[EntryEdit::remove(&["env", "C"])], "", ""),
            (&[EntryEdit::set(&["command"], "d")], "\"c\"", "\"d\""),
        ];
        for (edits, old, new) in cases {
            std::fs::write(&file, text).unwrap();
            let seen = editor.entry_text(Scope::User, "s").unwrap();
            let change = editor.edit_entry(Scope::User, "s", &seen, edits, &Policy::default());
            assert!(change.is_ok(), "{:?}", change.err());
            let expected = if old.is_empty() {
                text.to_owned()
            } else {
                text.replacen(old, new, 1)
            };
            assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        }
    }

    #[test]
    fn a_bad_result_and_a_change_meanwhile_write_nothing() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude.json");
        let text = json!({"mcpServers": {"s": {"command": "c"}}}).to_string();
        std::fs::write(&file, &text).unwrap();
        let editor = Editor::new(Layout::under(home.path()), home.path());
        let seen = editor.entry_text(Scope::User, "s").unwrap();
        let edit = |edits: &[EntryEdit]| {
            let change = editor.edit_entry(Scope::User, "s", &seen, edits, &Policy::default());
            change
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        for edits in [
            EntryEdit::remove(&["command"]),
            EntryEdit::set(&["timeout"], "soon"),
            EntryEdit::set(&["args"], "x"),
        ] {
            let problem = edit(&[edits]);
            assert!(problem.contains("is invalid"), "{problem}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        std::fs::write(&file, text.replace("\"c\"", "\"d\"")).unwrap();
        let problem = edit(&[EntryEdit::set(&["command"], "e")]);
        assert!(problem.contains("changed in the meantime"), "{problem}");
    }
}
