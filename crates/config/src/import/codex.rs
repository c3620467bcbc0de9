//! Codex: `[mcp_servers.NAME]` in its `config.toml`.

use serde_json::Value;

use super::Client;
use super::entry_builder::{EntryBuilder, Kind};
use super::fields::{Fields, Problem};
use super::variables::{Dialect, is_name};

/// Converts one entry.
pub(super) fn convert(fields: &mut Fields) -> Result<EntryBuilder, Problem> {
    let mut builder = EntryBuilder {
        command: fields.text("command")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
        url: fields.text("url")?,
        headers: fields.map("http_headers")?,
        timeout: fields.time("tool_timeout_sec", 1000.0)?,
        disabled: fields.flag("enabled")? == Some(false),
        allow: fields.texts("enabled_tools")?,
        deny: fields.texts("disabled_tools")?,
        ..EntryBuilder::default()
    };
    let seconds = fields.time("startup_timeout_sec", 1000.0)?;
    let milliseconds = fields.time("startup_timeout_ms", 1.0)?;
    builder.connect_timeout = seconds.or(milliseconds);
    if builder.command.is_none() && builder.url.is_some() {
        // Codex has no other remote transport.
        builder.kind = Some(Kind::Http);
    }
    builder.sign_in(fields, "oauth")?;
    if let Some(scopes) = fields.texts("scopes")? {
        builder.scopes(&scopes);
    }
    if let Some(token) = fields.text("bearer_token")? {
        authorize(&mut builder, &token);
    }
    builder.translate(Dialect::None, Client::Codex, &mut fields.notes);
    references(&mut builder, fields)?;
    fields.skip(&["name"]);
    Ok(builder)
}

fn authorize(builder: &mut EntryBuilder, token: &str) {
    let header = format!("Bearer {token}");
    let headers = &mut builder.headers;
    headers.insert("Authorization".to_owned(), header.into());
}

/// Converts the fields that refer to environment variables.
fn references(builder: &mut EntryBuilder, fields: &mut Fields) -> Result<(), Problem> {
    if let Some(variable) = fields.text("bearer_token_env_var")? {
        let reference = reference(&variable, "bearer_token_env_var", fields)?;
        authorize(builder, &reference);
    }
    for (header, variable) in fields.map("env_http_headers")? {
        let variable = variable.as_str().unwrap_or_default();
        let reference = reference(variable, "env_http_headers", fields)?;
        builder.headers.insert(header, reference.into());
    }
    let Some(list) = fields.take("env_vars") else {
        return Ok(());
    };
    let Value::Array(names) = list.value else {
        return Err(Problem::new(list.at, "its \"env_vars\" is not a list"));
    };
    for name in names {
        let source = name.get("source").and_then(Value::as_str);
        if source == Some("remote") {
            let note = "env_vars from a remote environment are not imported";
            fields.notes.push(note.to_owned());
            continue;
        }
        let name = match &name {
            Value::String(name) => Some(&**name),
            table => table.get("name").and_then(Value::as_str),
        };
        let reference = reference(name.unwrap_or_default(), "env_vars", fields)?;
        let name = name.unwrap_or_default().to_owned();
        builder.env.entry(name).or_insert_with(|| reference.into());
    }
    Ok(())
}

fn reference(variable: &str, field: &str, fields: &Fields) -> Result<String, Problem> {
    if is_name(variable) {
        return Ok(format!("${{{variable}}}"));
    }
    let message = format!("its \"{field}\" does not name an environment variable");
    Err(Problem::new(fields.at, message))
}
