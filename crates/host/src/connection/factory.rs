//! Opens the transport that a server's entry describes (TRN-1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trunkline_config::{
    HttpEntry, HttpFlavour, IdeEntry, Secret, ServerEntry, ServerUrl, StdioEntry, TlsEntry,
    TransportEntry, env_vars,
};
use trunkline_transport::http::{Credentials, HeadersHelper, HttpServer};
use trunkline_transport::net::{Target, TlsFiles};
use trunkline_transport::stdio::{StderrLog, StdinProgress};
use trunkline_transport::{IoTransport, StdioServer, Transport, WsError, WsServer, linked_pair};
use trunkline_wire::Peer;
use trunkline_wire::peer::Handler;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use url::Url;

use super::state::{ConnectFailure, FailureKind};
use super::{Core, Source};

/// The header that carries an IDE's token.
const IDE_AUTHORIZATION: &str = "X-Claude-Code-Ide-Authorization";

/// The two HTTP protocols of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpProtocol {
    Streamable,
    Sse,
}

/// An opened transport with its peer.
pub(super) struct OpenedLink {
    pub(super) peer: Peer,
    pub(super) stderr: Option<StderrLog>,
    /// The process started for the link, if any.
    pub(super) process: Option<StartedProcess>,
}

/// A process started for a link.
pub(super) struct StartedProcess {
    pub(super) pid: u32,
    pub(super) stdin_progress: StdinProgress,
}

impl OpenedLink {
    fn new<T: Transport>(core: &Core, transport: T, handler: Arc<dyn Handler>) -> Self {
        Self {
            peer: core.recorder.peer(transport, handler),
            stderr: None,
            process: None,
        }
    }
}

/// Opens a link to a server; HTTP entries use `protocol`.
pub(super) async fn open(
    core: &Core,
    source: &Source,
    protocol: HttpProtocol,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let shared = &core.shared;
    let entry = match source {
        Source::Builtin(builtin) => {
            let (ours, theirs) = linked_pair();
            builtin.serve(theirs);
            return Ok(OpenedLink::new(core, ours, handler));
        }
        Source::Custom(custom) => {
            let (reader, writer) = custom.connect().await.map_err(|error| {
                let failure =
                    DeliveryError::new(DeliveryErrorKind::Unreachable, error.to_string(), false);
                ConnectFailure::new(FailureKind::Unreachable(failure))
            })?;
            return Ok(OpenedLink::new(
                core,
                IoTransport::new(reader, writer),
                handler,
            ));
        }
        Source::Entry(entry) => entry,
    };
    match &entry.transport {
        TransportEntry::Stdio(stdio) => {
            let spawned = stdio_server(core, entry, stdio).spawn();
            let transport =
                spawned.map_err(|error| ConnectFailure::new(FailureKind::Spawn(error)))?;
            let stderr = Some(transport.stderr());
            let process = Some(StartedProcess {
                pid: transport.pid(),
                stdin_progress: transport.stdin_progress(),
            });
            Ok(OpenedLink {
                stderr,
                process,
                ..OpenedLink::new(core, transport, handler)
            })
        }
        TransportEntry::Http(http) => {
            let credentials = shared.credentials.as_ref().and_then(|find| find(entry));
            let server = http_server(core, entry, http, credentials)?;
            over_http(core, &server, protocol, handler).await
        }
        TransportEntry::Ide(ide) if !ide.websocket => {
            over_http(core, &ide_server(ide)?, HttpProtocol::Sse, handler).await
        }
        TransportEntry::ClaudeAiProxy { proxy, .. } => {
            let Some(proxy) = proxy else {
                return Err(invalid_entry("the connector has no proxy URL"));
            };
            let mut server = HttpServer::new(parse(proxy)?);
            let credentials = shared.connector_credentials.clone();
            server.credentials = core.recorder.credentials(credentials);
            over_http(core, &server, HttpProtocol::Streamable, handler).await
        }
        TransportEntry::Ws(ws) => {
            let server = WsServer {
                url: parse(&ws.url)?,
                headers: expose_all(&ws.headers).collect(),
                tls_files: tls_files(&ws.tls),
            };
            let helper = helper(core, entry, ws.headers_helper.as_deref(), &ws.url);
            Box::pin(over_websocket(core, server, helper.as_deref(), handler)).await
        }
        TransportEntry::Ide(ide) => {
            let server = WsServer {
                url: require_loopback(&ide.url)?,
                headers: ide_headers(ide).collect(),
                tls_files: TlsFiles::default(),
            };
            Box::pin(over_websocket(core, server, None, handler)).await
        }
        TransportEntry::Sdk => match &shared.sdk {
            Some(bridge) => Ok(OpenedLink::new(core, bridge.connect(&entry.name), handler)),
            None => Err(ConnectFailure::new(FailureKind::NoBridge)),
        },
    }
}

async fn over_http(
    core: &Core,
    server: &HttpServer,
    protocol: HttpProtocol,
    handler: Arc<dyn Handler>,
) -> Result<OpenedLink, ConnectFailure> {
    let shared = &core.shared;
    let failed = |failure| ConnectFailure::new(FailureKind::from_delivery(failure));
    match protocol {
        HttpProtocol::Streamable => {
            let transport = server.streamable(&shared.dialer).map_err(failed)?;
            Ok(OpenedLink::new(core, transport, handler))
        }
        HttpProtocol::Sse => {
            let transport = Box::pin(server.sse(&shared.dialer)).await;
            let transport = transport.map_err(failed)?;
            Ok(OpenedLink::new(core, transport, handler))
        }
    }
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
        let error = match server.connect(&core.shared.dialer).await {
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
        return Err(ConnectFailure::new(FailureKind::from_websocket(&error)));
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

/// An IDE must be on this machine, since it receives local data.
fn ide_server(ide: &IdeEntry) -> Result<HttpServer, ConnectFailure> {
    let mut server = HttpServer::new(require_loopback(&ide.url)?);
    server.headers = ide_headers(ide).collect();
    Ok(server)
}

fn ide_headers(ide: &IdeEntry) -> impl Iterator<Item = (String, String)> {
    let token = ide.auth_token.as_ref();
    token
        .map(|token| (IDE_AUTHORIZATION.to_owned(), token.expose().to_owned()))
        .into_iter()
}

fn require_loopback(url: &ServerUrl) -> Result<Url, ConnectFailure> {
    let parsed = parse(url)?;
    match Target::of(&parsed) {
        Ok(target) if target.is_loopback() => Ok(parsed),
        _ => Err(invalid_entry(
            "an IDE must run on this machine; use localhost or 127.0.0.1",
        )),
    }
}

fn helper(
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

/// Our own secrets, which no child process inherits.
fn withheld_vars() -> Vec<String> {
    env_vars::secrets().map(str::to_owned).collect()
}

fn tls_files(tls: &TlsEntry) -> TlsFiles {
    TlsFiles {
        ca: tls.ca.clone(),
        cert: tls.cert.clone(),
        key: tls.key.clone(),
    }
}

fn expose_all(secrets: &BTreeMap<String, Secret>) -> impl Iterator<Item = (String, String)> {
    secrets
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
}

fn parse(url: &ServerUrl) -> Result<Url, ConnectFailure> {
    url.parse()
        .map_err(|error| invalid_entry(&format!("invalid URL: {error}")))
}

fn invalid_entry(what: &str) -> ConnectFailure {
    let failure = DeliveryError::new(DeliveryErrorKind::Unreachable, what, false);
    ConnectFailure::new(FailureKind::Unreachable(failure))
}

/// Returns the HTTP protocols to try in order; `known` is the one that worked before.
pub(super) fn protocols(source: &Source, known: Option<HttpProtocol>) -> Vec<HttpProtocol> {
    let flavour = source.transport().and_then(TransportEntry::http_flavour);
    match (flavour.unwrap_or(HttpFlavour::Streamable), known) {
        (HttpFlavour::Streamable, _) => vec![HttpProtocol::Streamable],
        (HttpFlavour::Sse, _) => vec![HttpProtocol::Sse],
        (HttpFlavour::Either, Some(HttpProtocol::Sse)) => {
            vec![HttpProtocol::Sse, HttpProtocol::Streamable]
        }
        (HttpFlavour::Either, _) => vec![HttpProtocol::Streamable, HttpProtocol::Sse],
    }
}

/// Returns the server's working directory: the entry's `cwd`, relative to the project. The host may
/// serve another project than the one its process runs in.
fn working_dir(project_dir: Option<&PathBuf>, cwd: Option<&Path>) -> Option<PathBuf> {
    match (project_dir, cwd) {
        (Some(project), Some(cwd)) => Some(project.join(cwd)),
        (project, cwd) => project.cloned().or_else(|| cwd.map(Path::to_path_buf)),
    }
}

fn stdio_server(core: &Core, entry: &ServerEntry, stdio: &StdioEntry) -> StdioServer {
    let mut env: BTreeMap<String, String> = expose_all(&stdio.env).collect();
    let project_dir = core.shared.settings.project_dir.as_ref();
    if let Some(dir) = project_dir.and_then(|dir| dir.to_str()) {
        env.entry("CLAUDE_PROJECT_DIR".to_owned())
            .or_insert_with(|| dir.to_owned());
    }
    StdioServer {
        command: entry.program().unwrap_or_else(|| stdio.command.clone()),
        args: stdio.args.clone(),
        env,
        env_remove: withheld_vars(),
        cwd: working_dir(project_dir, stdio.cwd.as_deref()),
        tee: core.recorder.stderr(),
    }
}
