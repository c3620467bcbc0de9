//! opencode: `mcp` in its configuration; since version 2, `mcp.servers`.

use serde_json::Value;

use super::Client;
use super::entry_builder::{EntryBuilder, Kind};
use super::fields::{Document, Fields, Problem};
use super::json::{Json, Member};
use super::variables::Dialect;

/// The entries of the file, in either format.
pub(super) fn servers(json: &Json<'_>) -> Result<Document, Problem> {
    let mut document = Document::default();
    let mut members = json.section(&["mcp"])?.unwrap_or_default();
    let mut timeout = None;
    if let Some(at) = members.iter().rposition(is_version_2) {
        members.remove(at);
        let nested = json.section(&["mcp", "servers"])?.unwrap_or_default();
        members.extend(nested);
        if let Some(at) = members.iter().position(|member| member.name == "timeout") {
            timeout = serde_json::from_str::<Value>(members.remove(at).value).ok();
        }
    }
    for member in members {
        match json.server(&member) {
            Ok(mut server) => {
                if let Some(timeout) = timeout.clone().filter(|_| !server.fields.has("timeout")) {
                    server.fields.put("timeout", timeout);
                }
                document.servers.push(server);
            }
            Err(problem) => document.problems.push(problem),
        }
    }
    Ok(document)
}

/// Whether the member holds servers, rather than being a server of version 1 with that name.
fn is_version_2(member: &Member<'_>) -> bool {
    let object = || serde_json::from_str::<Value>(member.value);
    let is_server = |value: &Value| {
        ["type", "command", "url"]
            .iter()
            .any(|name| value.get(name).is_some_and(|field| !field.is_object()))
    };
    member.name == "servers" && object().is_ok_and(|value| value.is_object() && !is_server(&value))
}

/// Converts one entry.
pub(super) fn convert(fields: &mut Fields) -> Result<EntryBuilder, Problem> {
    let mut builder = EntryBuilder {
        env: fields.map("environment")?,
        cwd: fields.text("cwd")?,
        url: fields.text("url")?,
        headers: fields.map("headers")?,
        disabled: fields.flag("disabled")? == Some(true) || fields.flag("enabled")? == Some(false),
        ..EntryBuilder::default()
    };
    command(&mut builder, fields)?;
    // "remote" does not say which transport; opencode tries both, as we do.
    match fields.text("type")?.as_deref() {
        Some("local") => builder.kind = Some(Kind::Stdio),
        Some("remote") if builder.url.is_none() => {
            return Err(Problem::new(fields.at, "a remote server needs a \"url\""));
        }
        Some("remote") if builder.command.take().is_some() => {
            let note = "command is left out: the server is remote";
            fields.notes.push(note.to_owned());
        }
        Some("remote") | None => {}
        Some(_) => {
            let message = "its \"type\" is neither \"local\" nor \"remote\"";
            return Err(Problem::new(fields.at, message));
        }
    }
    limits(&mut builder, fields)?;
    builder.sign_in(fields, "oauth")?;
    builder.translate(Dialect::Braces, Client::Opencode, &mut fields.notes);
    Ok(builder)
}

/// The program and its arguments are one list.
fn command(builder: &mut EntryBuilder, fields: &mut Fields) -> Result<(), Problem> {
    let Some(field) = fields.take("command") else {
        return Ok(());
    };
    let mut words = match field.value {
        Value::String(program) => vec![program],
        list => super::fields::texts(list)
            .ok_or_else(|| Problem::new(field.at, "its \"command\" is not a list of strings"))?,
    };
    let args = words.split_off(words.len().min(1));
    builder.command = Some(words.pop().unwrap_or_default());
    builder.args = args;
    Ok(())
}

/// Version 1 has one limit for connecting and calls, version 2 one for each.
fn limits(builder: &mut EntryBuilder, fields: &mut Fields) -> Result<(), Problem> {
    let Some(field) = fields.take("timeout") else {
        return Ok(());
    };
    let (startup, request) = match &field.value {
        Value::Object(limits) => (
            limits.get("startup").cloned(),
            limits.get("request").cloned(),
        ),
        one => (Some(one.clone()), Some(one.clone())),
    };
    for (limit, value) in [
        (&mut builder.connect_timeout, startup),
        (&mut builder.timeout, request),
    ] {
        fields.put("timeout", value.unwrap_or_default());
        *limit = fields.time("timeout", 1.0)?;
    }
    Ok(())
}
