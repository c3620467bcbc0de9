//! Gemini CLI: `mcpServers` in its settings, with lists of allowed and excluded servers beside it.

use std::collections::HashSet;

use serde_json::Value;

use super::Client;
use super::draft::{Draft, Kind};
use super::fields::{Document, Fields, Problem, texts};
use super::json::Json;
use super::variables::Dialect;

/// The file's entries; those that the file's own lists rule out are switched off.
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

/// Turns one entry into a draft.
pub(super) fn convert(fields: &mut Fields) -> Result<Draft, Problem> {
    let mut draft = Draft {
        command: fields.text("command")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
        headers: fields.map("headers")?,
        timeout: fields.time("timeout", 1.0)?,
        disabled: fields.flag("disabled")? == Some(true),
        allow: fields.texts("includeTools")?.map(names),
        deny: fields.texts("excludeTools")?,
        ..Draft::default()
    };
    // Gemini CLI prefers the older field too. A bare `url` meant SSE in older versions; newer ones try both, as we do.
    let (http, url) = (fields.text("httpUrl")?, fields.text("url")?);
    let kind = fields.text("type")?;
    if let Some(kind) = kind {
        let kind = Kind::of(&kind).map_err(|message| Problem::new(fields.at, message))?;
        draft.kind = Some(kind);
    }
    if http.is_some() && draft.command.is_none() {
        draft.kind = Some(Kind::Http);
    }
    draft.url = http.or(url);
    if fields.flag("trust")? == Some(true) {
        fields.notes.push("trust is left out".to_owned());
    }
    let provider = fields.text("authProviderType")?;
    if provider.is_some_and(|provider| provider != "dynamic_discovery") {
        let note = "authProviderType is not carried over: sign in, or write headers";
        fields.notes.push(note.to_owned());
    }
    draft.sign_in(fields, "oauth")?;
    fields.skip(&["description", "extensionName", "extension"]);
    draft.translate(Dialect::Shell, Client::GeminiCli, &mut fields.notes);
    Ok(draft)
}

/// Gemini CLI reads `name(arguments)` as the tool's name alone, in the list of what it includes.
fn names(tools: Vec<String>) -> Vec<String> {
    let name = |tool: String| tool.split('(').next().unwrap_or_default().to_owned();
    tools.into_iter().map(name).collect()
}
