//! goose: `extensions` in its `config.yaml`.

use serde_json::{Map, Value};

use super::Client;
use super::entry_builder::{EntryBuilder, Kind};
use super::fields::{Fields, Problem, shown};
use super::variables::{Dialect, is_name};

/// Converts one entry; `None` if goose itself is the server, so that nothing else can start it.
pub(super) fn convert(fields: &mut Fields) -> Result<Option<EntryBuilder>, Problem> {
    let Some(kind) = fields.text("type")? else {
        return Err(Problem::new(fields.at, "it has no \"type\""));
    };
    let kind = match &*kind {
        "builtin" | "platform" | "frontend" | "inline_python" => return Ok(None),
        "stdio" => Kind::Stdio,
        "sse" => Kind::Sse,
        "streamable_http" => Kind::Http,
        other => {
            let message = format!("unknown \"type\": \"{}\"", shown(other));
            return Err(Problem::new(fields.at, message));
        }
    };
    let mut builder = EntryBuilder {
        kind: Some(kind),
        command: fields.text("cmd")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("envs")?,
        cwd: fields.text("cwd")?,
        url: fields.text("uri")?,
        headers: fields.map("headers")?,
        timeout: fields.time("timeout", 1000.0)?,
        disabled: fields.flag("enabled")? == Some(false),
        // goose writes an empty list if every tool is available.
        allow: fields
            .texts("available_tools")?
            .filter(|tools| !tools.is_empty()),
        ..EntryBuilder::default()
    };
    if let Some(id) = fields.text("client_id")? {
        builder.oauth.insert("clientId".to_owned(), id.into());
    }
    if let Some(scopes) = fields.texts("scopes")? {
        builder.scopes(&scopes);
    }
    fields.skip(&["name", "display_name", "description", "bundled"]);
    let mut keys = fields.texts("env_keys")?.unwrap_or_default();
    keys.retain(|key| !builder.env.contains_key(key));
    let headers = std::mem::take(&mut builder.headers);
    builder.translate(Dialect::None, Client::Goose, &mut fields.notes);
    builder.headers = headers;
    builder.translate_headers(Dialect::Shell, Client::Goose, &mut fields.notes);
    if kind != Kind::Stdio {
        // A remote server has no environment: goose uses these variables in headers.
        let known = std::mem::take(&mut builder.env);
        for value in builder.headers.values_mut() {
            if let Value::String(text) = value {
                *text = fill_in(text, &known);
            }
        }
    }
    secrets(&mut builder, &keys, kind, fields)?;
    Ok(Some(builder))
}

/// Replaces the variables that the entry itself sets by their values.
fn fill_in(text: &str, known: &Map<String, Value>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        out.push_str(before);
        match known.get(name).and_then(Value::as_str) {
            Some(value) => out.push_str(value),
            None => out.extend(["${", name, "}"]),
        }
        rest = after;
    }
    out + rest
}

/// goose keeps these values in its keyring, where only goose finds them.
fn secrets(
    builder: &mut EntryBuilder,
    keys: &[String],
    kind: Kind,
    fields: &mut Fields,
) -> Result<(), Problem> {
    for key in keys {
        if !is_name(key) {
            let message = "its \"env_keys\" has something that is not the name of a variable";
            return Err(Problem::new(fields.at, message));
        }
        if kind == Kind::Stdio {
            builder
                .env
                .insert(key.clone(), format!("${{{key}}}").into());
        }
    }
    if !keys.is_empty() {
        let named = &keys[..keys.len().min(10)];
        fields.notes.push(format!(
            "goose may keep {} in its keyring: set it in the environment",
            named.join(", ")
        ));
    }
    Ok(())
}
