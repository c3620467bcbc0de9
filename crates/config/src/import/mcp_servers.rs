//! Claude Desktop, Cursor, VS Code and Windsurf: near relatives of our own format.

use super::Client;
use super::draft::{Draft, Kind};
use super::fields::{Fields, Problem};
use super::variables::Dialect;

/// Turns one entry into a draft.
pub(super) fn convert(client: Client, fields: &mut Fields) -> Result<Draft, Problem> {
    let mut draft = Draft {
        command: fields.text("command")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
        url: fields.text("url")?,
        headers: fields.map("headers")?,
        disabled: fields.flag("disabled")? == Some(true) || fields.flag("enabled")? == Some(false),
        ..Draft::default()
    };
    if client == Client::Windsurf {
        let url = fields.text("serverUrl")?;
        draft.url = url.or(draft.url);
        draft.deny = fields.texts("disabledTools")?;
    }
    if let Some(kind) = fields.text("type")? {
        let kind = Kind::of(&kind).map_err(|message| Problem::new(fields.at, message))?;
        draft.kind = Some(kind);
    }
    if client == Client::VsCode {
        // VS Code calls every remote server "http" and may name the older transport beside it.
        if fields.text("transport")?.as_deref() == Some("sse") && draft.kind != Some(Kind::Stdio) {
            draft.kind = Some(Kind::Sse);
        }
        fields.skip(&["version", "gallery"]);
    }
    draft.sign_in(fields, "auth")?;
    draft.sign_in(fields, "oauth")?;
    fields.skip(&["name", "description"]);
    let dialect = match client {
        Client::ClaudeDesktop => Dialect::None,
        _ => Dialect::Editor,
    };
    draft.translate(dialect, client, &mut fields.notes);
    Ok(draft)
}
