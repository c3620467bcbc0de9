//! Edits the servers of a TOML file and keeps the rest of its text.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use crate::edit::text_edit::TextEdit;

/// The servers of a file, as JSON.
pub(super) fn servers(text: &str, section: &str) -> Result<Map<String, Value>, String> {
    let document = parse(text)?;
    let Some(servers) = document.get(section) else {
        return Ok(Map::new());
    };
    match to_json(servers) {
        Value::Object(servers) => Ok(servers),
        _ => Err(format!("its \"{section}\" is not a table")),
    }
}

/// The text with the entry at `section.name` set. Other keys of an existing entry stay, except
/// those that choose another transport.
pub(super) fn set(
    text: &str,
    section: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let mut document = parse(text)?;
    let is_blank = document.as_table().is_empty();
    let table = document.entry(section).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let kind = table.type_name();
    let servers = table
        .as_table_like_mut()
        .ok_or_else(|| format!("its \"{section}\" is a {kind}, not a table"))?;
    if let Some(old) = servers.get_mut(name) {
        let kind = old.type_name();
        let old = old.as_table_like_mut().ok_or_else(|| {
            format!("its \"{section}.{name}\" is a {kind}, not a table; write [{section}.{name}]")
        })?;
        for key in ["command", "args", "url"] {
            if !entry.contains_key(key) {
                old.remove(key);
            }
        }
        fill(old, entry);
    } else {
        let mut new = Table::new();
        fill(&mut new, entry);
        if !is_blank {
            new.decor_mut().set_prefix("\n");
        }
        servers.insert(name, Item::Table(new));
    }
    let new = restore_line_ends(text, document.to_string());
    // The gateway must be readable where the client looks for it.
    let written = servers_of(&new, section, name);
    match written {
        Some(Value::Object(found)) if entry.iter().all(|(k, v)| found.get(k) == Some(v)) => Ok(new),
        _ => Err(format!(
            "its \"{section}\" cannot be edited; write [{section}.{name}]"
        )),
    }
}

fn servers_of(text: &str, section: &str, name: &str) -> Option<Value> {
    servers(text, section).ok()?.remove(name)
}

/// The text without the entry at `section.name`; `None` if there is none.
pub(super) fn remove(text: &str, section: &str, name: &str) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let servers = document.get_mut(section).and_then(Item::as_table_like_mut);
    let removed = servers.and_then(|servers| servers.remove(name));
    Ok(removed.map(|_| restore_line_ends(text, document.to_string())))
}

/// The edit that turns `old` into `new`, in whole lines.
pub(super) fn line_edit(old: &str, new: &str) -> Vec<TextEdit> {
    if old == new {
        return Vec::new();
    }
    let mut olds: Vec<&str> = old.split_inclusive('\n').collect();
    let mut news: Vec<&str> = new.split_inclusive('\n').collect();
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let after = olds
        .iter()
        .rev()
        .zip(news.iter().rev())
        .take_while(same)
        .count();
    olds.truncate(olds.len() - after);
    news.truncate(news.len() - after);
    let before = olds.iter().zip(&news).take_while(same).count();
    let length = |lines: &[&str]| lines.iter().map(|line| line.len()).sum();
    vec![TextEdit::replace(
        length(&olds[..before]),
        length(&olds[before..]),
        news[before..].concat(),
    )]
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| {
        // Its display quotes lines of the file, which may hold secrets (SEC-1).
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = crate::locate::position(text, at);
        format!(
            "line {line}, column {column}: not valid TOML: {}",
            error.message()
        )
    })
}

fn fill(table: &mut dyn TableLike, entry: &Map<String, Value>) {
    for (key, value) in entry {
        let value = match value {
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => {
                let items = items.iter().filter_map(Value::as_str);
                items.collect::<Array>().into()
            }
            _ => continue,
        };
        table.insert(key, Item::Value(value));
    }
}

/// The parser reads CRLF as LF. A file that has nothing else gets it back.
fn restore_line_ends(old: &str, new: String) -> String {
    let crlf = old.matches("\r\n").count();
    if crlf > 0 && crlf == old.matches('\n').count() && !new.contains("\r\n") {
        return new.replace('\n', "\r\n");
    }
    new
}

fn to_json(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table
            .iter()
            .map(|(key, item)| (key.to_owned(), to_json(item)))
            .collect::<Map<_, _>>()
            .into();
    }
    if let Some(text) = item.as_str() {
        return text.into();
    }
    if let Some(items) = item.as_array() {
        let text = |item: &toml_edit::Value| item.as_str().map(Value::from);
        return items
            .iter()
            .map(|item| text(item).unwrap_or_default())
            .collect();
    }
    Value::Null
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::edit::text_edit::{apply, inverse};

    fn entry() -> Map<String, Value> {
        json!({"command": "/bin/trunkline", "args": ["serve"]})
            .as_object()
            .cloned()
            .unwrap()
    }

    const ADDED: &str =
        "[mcp_servers.trunkline]\ncommand = \"/bin/trunkline\"\nargs = [\"serve\"]\n";

    #[test]
    fn an_entry_is_added_and_everything_else_stays_byte_for_byte() {
        for (text, expected) in [
            ("", ADDED.to_owned()),
            ("# mine\nmodel = \"x\"  # y\n", format!("# mine\nmodel = \"x\"  # y\n\n{ADDED}")),
            (
                "[mcp_servers.a]\ncommand='b' # c\n\n[other]\nx = 1\n",
                format!("[mcp_servers.a]\ncommand='b' # c\n\n{ADDED}\n[other]\nx = 1\n"),
            ),
            (
                "a = 1\r\n[b]\r\nc = 2\r\n",
                format!("a = 1\n[b]\nc = 2\n\n{ADDED}").replace('\n', "\r\n"),
            ),
            (
                "mcp_servers = { a = { command = \"b\" } }\n",
                "mcp_servers = { a = { command = \"b\" } , trunkline = { command = \"/bin/trunkline\", args = [\"serve\"] } }\n".to_owned(),
            ),
        ] {
            let new = set(text, "mcp_servers", "trunkline", &entry()).unwrap();
            assert_eq!(new, expected, "{text}");
            assert_eq!(set(&new, "mcp_servers", "trunkline", &entry()).unwrap(), new);
            let edits = line_edit(text, &new);
            assert_eq!(apply(text, &edits).as_deref(), Some(&*new));
            let back = inverse(text, &edits).unwrap();
            assert_eq!(apply(&new, &back).as_deref(), Some(text));
            let removed = remove(&new, "mcp_servers", "trunkline").unwrap().unwrap();
            assert_eq!(servers_of(&removed, "mcp_servers", "trunkline"), None);
        }
    }

    #[test]
    fn an_existing_entry_keeps_its_other_keys_and_changes_its_transport() {
        let text = "[mcp_servers.trunkline]\nurl = \"http://x\" # old\nstartup_timeout_sec = 5\n";
        let new = set(text, "mcp_servers", "trunkline", &entry()).unwrap();
        assert_eq!(
            new,
            "[mcp_servers.trunkline]\nstartup_timeout_sec = 5\ncommand = \"/bin/trunkline\"\nargs = [\"serve\"]\n"
        );
    }

    #[test]
    fn bad_files_are_named_by_position_and_never_by_content() {
        for text in [
            "token = hunter2\n",
            "mcp_servers = \"hunter2\"\n",
            "[mcp_servers]\ntrunkline = \"hunter2\"\n",
        ] {
            let error = set(text, "mcp_servers", "trunkline", &entry()).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
