//! Edits the servers of a JSON file.

use serde_json::{Map, Value};

use crate::edit::jsonc::{self, Dialect};
use crate::edit::text_edit::TextEdit;

/// The fields that say how a client reaches a server. An update replaces them and keeps the rest.
const TRANSPORT: [&str; 6] = ["type", "source", "command", "args", "url", "httpUrl"];

/// The servers of a file.
pub(super) fn servers(
    text: &str,
    section: &str,
    dialect: Dialect,
) -> Result<Map<String, Value>, String> {
    match jsonc::get(text, &[section], dialect) {
        Ok(Some(Value::Object(servers))) => Ok(servers),
        Ok(None) => Ok(Map::new()),
        Ok(Some(_)) => Err(format!("its \"{section}\" is not an object")),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn has_section(text: &str, section: &str, dialect: Dialect) -> bool {
    matches!(jsonc::get(text, &[section], dialect), Ok(Some(_)))
}

/// The edits that set an entry; `old` is the entry that it updates.
pub(super) fn set(
    text: &str,
    section: &str,
    name: &str,
    entry: &Map<String, Value>,
    old: Option<Value>,
    dialect: Dialect,
) -> Result<Vec<TextEdit>, String> {
    let mut new = entry.clone();
    if let Some(Value::Object(old)) = old {
        let is_kept = |key: &String| !TRANSPORT.contains(&key.as_str());
        new.extend(old.into_iter().filter(|(key, _)| is_kept(key)));
    }
    let new = Value::Object(new);
    jsonc::set(text, &[section, name], &new, dialect).map_err(|error| error.to_string())
}

/// The text without an entry, and without its section if that is left empty and was created with
/// it; `None` if there is no such entry.
pub(super) fn remove(
    text: &str,
    section: &str,
    name: &str,
    created_section: bool,
    dialect: Dialect,
) -> Result<Option<String>, String> {
    let failed = |error: crate::edit::splice::SpliceError| error.to_string();
    let removed = jsonc::remove(text, &[section, name], dialect).map_err(failed)?;
    let Some(removed) = removed else {
        return Ok(None);
    };
    let is_empty = servers(&removed, section, dialect).is_ok_and(|servers| servers.is_empty());
    if !(created_section && is_empty) {
        return Ok(Some(removed));
    }
    let without = jsonc::remove(&removed, &[section], dialect).map_err(failed)?;
    Ok(Some(without.unwrap_or(removed)))
}
