//! Opens a WebSocket.

use std::sync::Arc;

use trunkline_config::{ServerEntry, TransportEntry};
use trunkline_transport::credentials::{AfterRefusal, Credentials, Refusal, Token};
use trunkline_transport::headers_helper::{HeadersHelper, HelperHeaders};
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
    let (server, auth) = match &entry.transport {
        TransportEntry::Ws(ws) => {
            let server = WsServer {
                url: parse(&ws.url)?,
                headers: expose_all(&ws.headers).collect(),
                tls_files: tls_files(&ws.tls),
            };
            let has_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
            let credentials = core.shared.network.credentials(entry);
            let credentials = credentials.filter(|_| !server.headers.iter().any(has_own));
            let auth = WsAuth {
                helper: helper(core, entry, ws.headers_helper.as_deref(), &ws.url),
                credentials: core.recorder.credentials(credentials),
            };
            (server, auth)
        }
        TransportEntry::Ide(ide) => {
            let server = WsServer {
                url: require_loopback(&ide.url)?,
                headers: ide_headers(ide).collect(),
                tls_files: TlsFiles::default(),
            };
            (server, WsAuth::default())
        }
        TransportEntry::Stdio(_)
        | TransportEntry::Http(_)
        | TransportEntry::ClaudeAiProxy { .. }
        | TransportEntry::Sdk => return Err(invalid_entry("the entry has no WebSocket server")),
    };
    Box::pin(over_websocket(core, server, &auth, handler)).await
}

/// What signs in to a server: its entry's helper, and the program's credentials.
#[derive(Default)]
struct WsAuth {
    helper: Option<Arc<HeadersHelper>>,
    credentials: Option<Arc<dyn Credentials>>,
}

/// The headers of one attempt.
struct SentHeaders {
    by_helper: Option<HelperHeaders>,
    token: Option<Token>,
}

impl WsAuth {
    /// Adds headers to those of the entry, which the helper's override.
    async fn sign(&self, headers: &mut Vec<(String, String)>) -> Result<SentHeaders, String> {
        let by_helper = match &self.helper {
            Some(helper) => Some(helper.headers().await.map_err(|error| error.to_string())?),
            None => None,
        };
        if let Some(by_helper) = &by_helper {
            headers.retain(|(name, _)| !by_helper.contains_key(name));
            headers.extend(HeadersHelper::pairs(by_helper));
        }
        let is_signed = by_helper
            .as_ref()
            .is_some_and(|by_helper| by_helper.contains_key("authorization"));
        let token = match &self.credentials {
            Some(credentials) if !is_signed => {
                credentials.token().await.map_err(|error| error.0)?
            }
            _ => None,
        };
        if let Some(token) = &token {
            headers.push(("Authorization".to_owned(), token.expose().to_owned()));
        }
        Ok(SentHeaders { by_helper, token })
    }

    /// Returns whether another attempt may succeed after a refusal.
    async fn refused(&self, sent: &SentHeaders, status: u16, challenge: Option<&str>) -> bool {
        if let (Some(helper), Some(by_helper)) = (&self.helper, &sent.by_helper)
            && helper.refused(by_helper).await
        {
            return true;
        }
        let Some(credentials) = &self.credentials else {
            return false;
        };
        let refusal = Refusal {
            status,
            challenge: challenge.map(str::to_owned),
            sent: sent.token.clone(),
        };
        credentials.refused(refusal).await == AfterRefusal::Retry
    }
}

/// Opens a WebSocket. A refused connection is retried once with other headers, if there are any.
async fn over_websocket(
    core: &Core,
    mut server: WsServer,
    auth: &WsAuth,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let static_headers = server.headers.clone();
    let mut may_retry = true;
    loop {
        server.headers.clone_from(&static_headers);
        let sent = auth.sign(&mut server.headers).await.map_err(|error| {
            let failure = DeliveryError::new(DeliveryErrorKind::Credentials, error, false);
            ConnectFailure::new(FailureKind::Unreachable(failure))
        })?;
        let error = match server.connect(core.shared.network.dialer()).await {
            Ok(transport) => return Ok(OpenedLink::new(core, transport, handler)),
            Err(error) => error,
        };
        let refused = match &error {
            WsError::Unauthorized { challenge } => Some((401, challenge.as_deref())),
            WsError::Forbidden { challenge } => Some((403, challenge.as_deref())),
            _ => None,
        };
        if let (true, Some((status, challenge))) = (may_retry, refused)
            && auth.refused(&sent, status, challenge).await
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
