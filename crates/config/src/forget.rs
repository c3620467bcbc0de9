//! Approvals of servers that are gone, and how they are forgotten (CFG-6).

use serde_json::Value;

use crate::change::{ChangeError, Editor, bad_file, get, set};
use crate::choose::ENABLED;
use crate::edit::splice;
use crate::files;
use crate::names::normalize_name;

/// An approval whose server may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The project, as its key in `~/.claude.json`.
    pub project: String,
    /// The file that held the server.
    pub source: String,
    /// The server.
    pub name: String,
}

impl Editor {
    /// Every approval on record, of all projects.
    pub fn approvals(&self) -> Result<Vec<ApprovalRecord>, ChangeError> {
        let file = self.layout.approvals_file();
        let text = match files::read(&file) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                let message = format!("{}: {error}", file.display());
                return Err(ChangeError::File(message));
            }
        };
        let projects = get(&file, &text, &["projects"])?.unwrap_or_default();
        let mut found = Vec::new();
        let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
        for (project, sources) in members(&projects) {
            for (source, servers) in members(&sources) {
                for name in members(&servers).keys() {
                    found.push(ApprovalRecord {
                        project: project.clone(),
                        source: source.clone(),
                        name: name.clone(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Forgets approvals. The name goes first: a name without the content that was approved would
    /// approve whatever comes.
    pub fn forget_approvals(&self, records: &[ApprovalRecord]) -> Result<(), ChangeError> {
        if records.is_empty() {
            return Ok(());
        }
        let global = self.layout.global_file.clone();
        if !matches!(files::read(&global), Ok(None)) {
            self.edit(&global, |text| {
                let mut text = text.to_owned();
                for record in records {
                    let path = ["projects", &record.project, ENABLED];
                    let Some(Value::Array(names)) = get(&global, &text, &path)? else {
                        continue;
                    };
                    let is_other = |name: &&Value| {
                        let name = name.as_str().map(normalize_name);
                        name != Some(normalize_name(&record.name))
                    };
                    let left: Vec<Value> = names.iter().filter(is_other).cloned().collect();
                    if left.len() < names.len() {
                        text = set(&global, &text, &path, &left.into())?;
                    }
                }
                Ok(Some(text))
            })?;
        }
        let file = self.layout.approvals_file();
        self.edit(&file, |text| {
            let mut text = text.to_owned();
            for ApprovalRecord {
                project,
                source,
                name,
            } in records
            {
                for path in [
                    &["projects", project, source, name][..],
                    &["projects", project, source],
                    &["projects", project],
                ] {
                    let whole = path.len() == 4;
                    let is_empty = get(&file, &text, path)?.is_some_and(|value| {
                        value.as_object().is_some_and(serde_json::Map::is_empty)
                    });
                    if whole || is_empty {
                        let left =
                            splice::remove(&text, path).map_err(|error| bad_file(&file, &error))?;
                        text = left.unwrap_or(text);
                    }
                }
            }
            Ok(Some(text))
        })?;
        Ok(())
    }
}
