//! Codex: `[mcp_servers.NAME]` in its `config.toml`.

use serde_json::Value;

use super::Client;
use super::draft::{Draft, Kind};
use super::fields::{Fields, Problem};
use super::variables::{Dialect, is_name};

/// Turns one entry into a draft.
pub(super) fn convert(fields: &mut Fields) -> Result<Draft, Problem> {
    let mut draft = Draft {
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
        ..Draft::default()
    };
    let seconds = fields.time("startup_timeout_sec", 1000.0)?;
    let milliseconds = fields.time("startup_timeout_ms", 1.0)?;
    draft.connect_timeout = seconds.or(milliseconds);
    if draft.command.is_none() && draft.url.is_some() {
        // Codex knows no other remote transport.
        draft.kind = Some(Kind::Http);
    }
    draft.sign_in(fields, "oauth")?;
    if let Some(scopes) = fields.texts("scopes")? {
        draft.scopes(&scopes);
    }
    if let Some(token) = fields.text("bearer_token")? {
        authorize(&mut draft, &token);
    }
    draft.translate(Dialect::None, Client::Codex, &mut fields.notes);
    references(&mut draft, fields)?;
    fields.skip(&["name"]);
    Ok(draft)
}

fn authorize(draft: &mut Draft, token: &str) {
    let header = format!("Bearer {token}");
    let headers = &mut draft.headers;
    headers.insert("Authorization".to_owned(), header.into());
}

/// What Codex takes from the environment.
fn references(draft: &mut Draft, fields: &mut Fields) -> Result<(), Problem> {
    if let Some(variable) = fields.text("bearer_token_env_var")? {
        let reference = reference(&variable, "bearer_token_env_var", fields)?;
        authorize(draft, &reference);
    }
    for (header, variable) in fields.map("env_http_headers")? {
        let variable = variable.as_str().unwrap_or_default();
        let reference = reference(variable, "env_http_headers", fields)?;
        draft.headers.insert(header, reference.into());
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
            let note = "env_vars from a remote environment are not carried over";
            fields.notes.push(note.to_owned());
            continue;
        }
        let name = match &name {
            Value::String(name) => Some(&**name),
            table => table.get("name").and_then(Value::as_str),
        };
        let reference = reference(name.unwrap_or_default(), "env_vars", fields)?;
        let name = name.unwrap_or_default().to_owned();
        draft.env.entry(name).or_insert_with(|| reference.into());
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
