//! The parts of network entries that HTTP and WebSocket share.

use std::sync::Arc;

use trunkline_config::{IdeEntry, ServerEntry, ServerUrl, TlsEntry};
use trunkline_transport::headers_helper::HeadersHelper;
use trunkline_transport::net::{Target, TlsFiles};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use url::Url;

use super::super::Core;
use super::super::state::{ConnectFailure, FailureKind};
use super::withheld_vars;

/// The header that carries an IDE's token.
const IDE_AUTHORIZATION: &str = "X-Claude-Code-Ide-Authorization";

pub(super) fn ide_headers(ide: &IdeEntry) -> impl Iterator<Item = (String, String)> {
    let token = ide.auth_token.as_ref();
    token
        .map(|token| (IDE_AUTHORIZATION.to_owned(), token.expose().to_owned()))
        .into_iter()
}

/// An IDE must be on this machine, since it receives local data.
pub(super) fn require_loopback(url: &ServerUrl) -> Result<Url, ConnectFailure> {
    let parsed = parse(url)?;
    match Target::of(&parsed) {
        Ok(target) if target.is_loopback() => Ok(parsed),
        _ => Err(invalid_entry(
            "an IDE must run on this machine; use localhost or 127.0.0.1",
        )),
    }
}

pub(super) fn helper(
    core: &Core,
    entry: &ServerEntry,
    command: Option<&str>,
    url: &ServerUrl,
) -> Option<Arc<HeadersHelper>> {
    let env = vec![
        ("CLAUDE_CODE_MCP_SERVER_NAME".to_owned(), entry.name.clone()),
        (
            "CLAUDE_CODE_MCP_SERVER_URL".to_owned(),
            url.expose().to_owned(),
        ),
    ];
    let recorder = core.recorder.clone();
    command.map(|command| {
        let dir = entry.base.clone();
        let dir = dir.or_else(|| core.shared.settings.project_dir.clone());
        let helper = HeadersHelper::new(command, env)
            .env_remove(withheld_vars())
            .in_dir(dir);
        Arc::new(helper.on_header(move |name, value| recorder.hide_header(name, value)))
    })
}

pub(super) fn tls_files(tls: &TlsEntry) -> TlsFiles {
    TlsFiles {
        ca: tls.ca.clone(),
        cert: tls.cert.clone(),
        key: tls.key.clone(),
    }
}

pub(super) fn parse(url: &ServerUrl) -> Result<Url, ConnectFailure> {
    url.parse()
        .map_err(|error| invalid_entry(&format!("invalid URL: {error}")))
}

pub(super) fn invalid_entry(what: &str) -> ConnectFailure {
    let failure = DeliveryError::new(DeliveryErrorKind::Unreachable, what, false);
    ConnectFailure::new(FailureKind::Unreachable(failure))
}
