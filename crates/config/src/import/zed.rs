//! Zed: `context_servers` in its settings.

use serde_json::{Map, Value};

use super::Client;
use super::entry_builder::{EntryBuilder, nested};
use super::fields::{Fields, Problem, texts};
use super::variables::Dialect;

/// Zed's unit of time.
const SECOND: f64 = 1000.0;

/// Converts one entry; `None` if a Zed extension starts the server, so that there is nothing to
/// import.
pub(super) fn convert(fields: &mut Fields) -> Result<Option<EntryBuilder>, Problem> {
    let source = fields.text("source")?;
    if !fields.has("command") && !fields.has("url") {
        let extension = source.as_deref() == Some("extension") || fields.has("settings");
        if extension {
            return Ok(None);
        }
    }
    let mut builder = EntryBuilder {
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        url: fields.text("url")?,
        headers: fields.map("headers")?,
        timeout: fields.time("timeout", SECOND)?,
        disabled: fields.flag("enabled")? == Some(false),
        ..EntryBuilder::default()
    };
    if let Some(command) = fields.take("command") {
        let at = command.at;
        match command.value {
            Value::String(program) => builder.command = Some(program),
            Value::Object(command) => older(&mut builder, command).ok_or_else(|| {
                Problem::new(at, "its \"command\" is not {\"path\", \"args\", \"env\"}")
            })?,
            _ => return Err(Problem::new(at, "its \"command\" is not a string")),
        }
    }
    builder.sign_in(fields, "oauth")?;
    if fields.flag("remote")? == Some(true) {
        let note = "remote is left out: the server starts on this machine";
        fields.notes.push(note.to_owned());
    }
    // Zed writes an empty object here for its own servers.
    if fields.has("settings") {
        let settings = fields.take("settings").map(|field| field.value);
        if settings.is_some_and(|value| value.as_object().is_none_or(|map| !map.is_empty())) {
            fields.notes.push("settings is not imported".to_owned());
        }
    }
    builder.translate(Dialect::None, Client::Zed, &mut fields.notes);
    Ok(Some(builder))
}

/// Older versions keep the whole command line in one object.
fn older(builder: &mut EntryBuilder, mut command: Map<String, Value>) -> Option<()> {
    let program = command.remove("path").or_else(|| command.remove("command"));
    builder.command = Some(program?.as_str()?.to_owned());
    if let Some(args) = command.remove("args").filter(|args| !args.is_null()) {
        builder.args = texts(args)?;
    }
    builder.env.extend(nested(command.remove("env"))?);
    Some(())
}
