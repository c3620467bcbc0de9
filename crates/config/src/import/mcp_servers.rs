//! Claude Desktop, Cursor, VS Code and Windsurf, whose formats are close to ours.

use super::Client;
use super::entry_builder::{EntryBuilder, Kind};
use super::fields::{Fields, Problem};
use super::variables::Dialect;

/// Converts one entry.
pub(super) fn convert(client: Client, fields: &mut Fields) -> Result<EntryBuilder, Problem> {
    let mut builder = EntryBuilder {
        command: fields.text("command")?,
        args: fields.texts("args")?.unwrap_or_default(),
        env: fields.map("env")?,
        cwd: fields.text("cwd")?,
        url: fields.text("url")?,
        headers: fields.map("headers")?,
        disabled: fields.flag("disabled")? == Some(true) || fields.flag("enabled")? == Some(false),
        ..EntryBuilder::default()
    };
    if client == Client::Windsurf {
        let url = fields.text("serverUrl")?;
        builder.url = url.or(builder.url);
        builder.deny = fields.texts("disabledTools")?;
    }
    if let Some(kind) = fields.text("type")? {
        let kind = Kind::of(&kind).map_err(|message| Problem::new(fields.at, message))?;
        builder.kind = Some(kind);
    }
    if client == Client::VsCode {
        // VS Code calls every remote server "http" and may name the older transport separately.
        if fields.text("transport")?.as_deref() == Some("sse") && builder.kind != Some(Kind::Stdio)
        {
            builder.kind = Some(Kind::Sse);
        }
        fields.skip(&["version", "gallery"]);
    }
    builder.sign_in(fields, "auth")?;
    builder.sign_in(fields, "oauth")?;
    fields.skip(&["name", "description"]);
    let dialect = match client {
        Client::ClaudeDesktop => Dialect::None,
        _ => Dialect::Editor,
    };
    builder.translate(dialect, client, &mut fields.notes);
    Ok(builder)
}
