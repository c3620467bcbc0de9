//! Gemini CLI: `mcpServers` in its settings, with separate lists of allowed and excluded servers.

use std::collections::HashSet;

use serde_json::Value;

use super::Client;
use super::entry_builder::{EntryBuilder, Kind};
use super::fields::{Document, Fields, Problem, texts};
use super::json::Json;
use super::variables::Dialect;

/// The entries of the file; those excluded by its lists are disabled.
pub(super) fn servers(json: &Json<'_>) -> Result<Document, Problem> {
    let mut document = json.servers(&["mcpServers"])?;
    let (mut allowed, mut excluded) = (None, HashSet::new());
    for member in json.section(&["mcp"]).ok().flatten().unwrap_or_default() {
        let list = || -> Option<HashSet<String>> {
            let list = texts(serde_json::from_str(member.value).ok()?)?;
            Some(list.into_iter().collect())
        };
        match &*member.name {
            "allowed" => allowed = list(),
            "excluded" => excluded = list().unwrap_or_default(),
            _ => {}
        }
    }
    for server in &mut document.servers {
        let shut_out = allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.contains(&server.name));
        if shut_out || excluded.contains(&server.name) {
            server.fields.put("disabled", Value::Bool(true));
        }
    }
    Ok(document)
}

/// Converts one entry.
pub(super) fn convert(fields: &mut Fields) -> Result<EntryBuilder, Problem> {
    let mut builder = EntryBuilder {
        command: fields.text("command")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
        headers: fields.map("headers")?,
        timeout: fields.time("timeout", 1.0)?,
        disabled: fields.flag("disabled")? == Some(true),
        allow: fields.texts("includeTools")?.map(names),
        deny: fields.texts("excludeTools")?,
        ..EntryBuilder::default()
    };
    // Gemini CLI also prefers the older field. A bare `url` meant SSE in older versions; newer ones
    // try both, as we do.
    let (http, url) = (fields.text("httpUrl")?, fields.text("url")?);
    let kind = fields.text("type")?;
    if let Some(kind) = kind {
        let kind = Kind::of(&kind).map_err(|message| Problem::new(fields.at, message))?;
        builder.kind = Some(kind);
    }
    if http.is_some() && builder.command.is_none() {
        builder.kind = Some(Kind::Http);
    }
    builder.url = http.or(url);
    if fields.flag("trust")? == Some(true) {
        fields.notes.push("trust is left out".to_owned());
    }
    let provider = fields.text("authProviderType")?;
    if provider.is_some_and(|provider| provider != "dynamic_discovery") {
        let note = "authProviderType is not imported: sign in, or write headers";
        fields.notes.push(note.to_owned());
    }
    builder.sign_in(fields, "oauth")?;
    fields.skip(&["description", "extensionName", "extension"]);
    builder.translate(Dialect::Shell, Client::GeminiCli, &mut fields.notes);
    Ok(builder)
}

/// In this list Gemini CLI reads `name(arguments)` as the name of the tool.
fn names(tools: Vec<String>) -> Vec<String> {
    let name = |tool: String| tool.split('(').next().unwrap_or_default().to_owned();
    tools.into_iter().map(name).collect()
}
