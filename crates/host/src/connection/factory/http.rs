//! Opens Streamable HTTP and HTTP+SSE.

use std::sync::Arc;

use trunkline_config::{HttpEntry, IdeEntry, ServerEntry, TransportEntry};
use trunkline_transport::http::{Credentials, HttpServer};
use trunkline_wire::peer::Handler;

use super::super::Core;
use super::super::state::{ConnectFailure, FailureKind};
use super::net::{helper, ide_headers, invalid_entry, parse, require_loopback, tls_files};
use super::{HttpProtocol, OpenedLink, expose_all};

/// Opens the server of an entry over `protocol`.
pub(super) async fn open(
    core: &Core,
    entry: &ServerEntry,
    protocol: HttpProtocol,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let network = &core.shared.network;
    let server = match &entry.transport {
        TransportEntry::Http(http) => http_server(core, entry, http, network.credentials(entry))?,
        TransportEntry::Ide(ide) => ide_server(ide)?,
        TransportEntry::ClaudeAiProxy {
            proxy: Some(proxy), ..
        } => {
            let mut server = HttpServer::new(parse(proxy)?);
            let credentials = network.connector_credentials.clone();
            server.credentials = core.recorder.credentials(credentials);
            server
        }
        TransportEntry::ClaudeAiProxy { proxy: None, .. } => {
            return Err(invalid_entry("the connector has no proxy URL"));
        }
        TransportEntry::Stdio(_) | TransportEntry::Ws(_) | TransportEntry::Sdk => {
            return Err(invalid_entry("the entry has no HTTP server"));
        }
    };
    over_http(core, &server, protocol, handler).await
}

async fn over_http(
    core: &Core,
    server: &HttpServer,
    protocol: HttpProtocol,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let dialer = core.shared.network.dialer();
    let failed = |failure| ConnectFailure::new(FailureKind::from_delivery(failure));
    match protocol {
        HttpProtocol::Streamable => {
            let transport = server.streamable(dialer).map_err(failed)?;
            Ok(OpenedLink::new(core, transport, handler))
        }
        HttpProtocol::Sse => {
            let transport = Box::pin(server.sse(dialer)).await;
            let transport = transport.map_err(failed)?;
            Ok(OpenedLink::new(core, transport, handler))
        }
    }
}

fn http_server(
    core: &Core,
    entry: &ServerEntry,
    http: &HttpEntry,
    credentials: Option<Arc<dyn Credentials>>,
) -> Result<HttpServer, ConnectFailure> {
    Ok(HttpServer {
        url: parse(&http.url)?,
        headers: expose_all(&http.headers).collect(),
        tls_files: tls_files(&http.tls),
        credentials: core.recorder.credentials(credentials),
        helper: helper(core, entry, http.headers_helper.as_deref(), &http.url),
    })
}

fn ide_server(ide: &IdeEntry) -> Result<HttpServer, ConnectFailure> {
    let mut server = HttpServer::new(require_loopback(&ide.url)?);
    server.headers = ide_headers(ide).collect();
    Ok(server)
}
