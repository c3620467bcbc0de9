//! Opens a WebSocket.

use std::sync::Arc;

use trunkline_config::{ServerEntry, TransportEntry};
use trunkline_transport::headers_helper::HeadersHelper;
use trunkline_transport::net::TlsFiles;
use trunkline_transport::{WsError, WsServer};
use trunkline_wire::peer::Handler;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};

use super::super::Core;
use super::super::state::{ConnectFailure, FailureKind};
use super::net::{helper, ide_headers, invalid_entry, parse, require_loopback, tls_files};
use super::{OpenedLink, expose_all};

/// Opens the server of an entry.
pub(super) async fn open(
    core: &Core,
    entry: &ServerEntry,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let (server, helper) = match &entry.transport {
        TransportEntry::Ws(ws) => {
            let server = WsServer {
                url: parse(&ws.url)?,
                headers: expose_all(&ws.headers).collect(),
                tls_files: tls_files(&ws.tls),
            };
            let helper = helper(core, entry, ws.headers_helper.as_deref(), &ws.url);
            (server, helper)
        }
        TransportEntry::Ide(ide) => {
            let server = WsServer {
                url: require_loopback(&ide.url)?,
                headers: ide_headers(ide).collect(),
                tls_files: TlsFiles::default(),
            };
            (server, None)
        }
        TransportEntry::Stdio(_)
        | TransportEntry::Http(_)
        | TransportEntry::ClaudeAiProxy { .. }
        | TransportEntry::Sdk => return Err(invalid_entry("the entry has no WebSocket server")),
    };
    Box::pin(over_websocket(core, server, helper.as_deref(), handler)).await
}

/// Opens a WebSocket. A refused connection is retried once if the helper returns other headers.
async fn over_websocket(
    core: &Core,
    mut server: WsServer,
    helper: Option<&HeadersHelper>,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let static_headers = server.headers.clone();
    let mut may_retry = true;
    loop {
        let helper_headers = match helper {
            Some(helper) => Some(helper.headers().await.map_err(|error| {
                let failure =
                    DeliveryError::new(DeliveryErrorKind::Credentials, error.to_string(), false);
                ConnectFailure::new(FailureKind::Unreachable(failure))
            })?),
            None => None,
        };
        if let Some(helper_headers) = &helper_headers {
            // Headers from the helper override those of the entry.
            let kept = static_headers
                .iter()
                .filter(|(name, _)| !helper_headers.contains_key(name));
            server.headers = kept.cloned().collect();
            server.headers.extend(HeadersHelper::pairs(helper_headers));
        }
        let error = match server.connect(core.shared.network.dialer()).await {
            Ok(transport) => return Ok(OpenedLink::new(core, transport, handler)),
            Err(error) => error,
        };
        let refused = matches!(
            error,
            WsError::Unauthorized { .. } | WsError::Forbidden { .. }
        );
        if let (true, true, Some(helper), Some(sent)) =
            (refused, may_retry, helper, &helper_headers)
            && helper.refused(sent).await
        {
            may_retry = false;
            continue;
        }
        return Err(ConnectFailure::new(from_websocket(&error)));
    }
}

fn from_websocket(error: &WsError) -> FailureKind {
    let kind = match error {
        WsError::Unauthorized { challenge } => {
            return FailureKind::Unauthorized {
                challenge: challenge.clone(),
                said: None,
            };
        }
        WsError::Forbidden { challenge } => DeliveryErrorKind::Forbidden {
            challenge: challenge.clone(),
        },
        WsError::NotFound => DeliveryErrorKind::Status(404),
        WsError::Status { status } => DeliveryErrorKind::Status(*status),
        WsError::Redirect { .. } => DeliveryErrorKind::Redirected,
        WsError::TimedOut(_) => DeliveryErrorKind::Timeout,
        WsError::Header(_) | WsError::Dial(_) => DeliveryErrorKind::Unreachable,
        _ => DeliveryErrorKind::Broken,
    };
    let text = match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    };
    FailureKind::Unreachable(DeliveryError::new(kind, text, false))
}
