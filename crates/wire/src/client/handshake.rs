//! Detects the era of a server and performs its handshake (LIF-5).
//!
//! The probe is `server/discover`. A modern server responds to it. A legacy one responds with an
//! error, does not respond, or in rare cases exits. If there is no response, `initialize` follows
//! the probe and the first response wins. It does not follow before the server has read the probe:
//! a server that is still starting would read both at once, and nobody could tell which of them it
//! exits because of. If the server exits, the caller restarts it without the probe.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, RequestMeta, common_version, supported_versions};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{Implementation, ServerIdentity};
use crate::peer::{Handler, Peer, RequestError, RequestOptions};
use crate::rpc_error::RpcError;
use crate::transport::{Closed, DeliveryError, DeliveryErrorKind, Routing};
use crate::version::{Era, LEGACY, MODERN, newest_common};

/// The time after which `initialize` follows an unanswered probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval at which [`ReadCheck`] is called.
const READ_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The time between the read of the probe and `initialize`, for a server that starts slowly.
const AFTER_READ: Duration = Duration::from_millis(250);

/// Tells whether the server has read everything that was sent.
#[derive(Clone)]
pub struct ReadCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl ReadCheck {
    /// Calls `has_read` to find out.
    pub fn new(has_read: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(has_read))
    }
}

impl fmt::Debug for ReadCheck {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ReadCheck")
    }
}

/// Options for [`connect`].
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The name and version of this client.
    pub client_info: Implementation,
    /// The MCP `ClientCapabilities` object.
    pub capabilities: Json,
    /// Sends `initialize` first, for a server that is known to be legacy.
    pub skip_probe: bool,
    /// Never uses the modern protocol, even if `initialize` is rejected.
    pub legacy_only: bool,
    /// Tells whether the server has read the probe, if the transport knows.
    pub read_check: Option<ReadCheck>,
}

/// The reason that connecting failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection closed during a handshake that started with the probe. Restart the server and
    /// skip the probe.
    #[error("{0}")]
    ClosedDuringProbe(Closed),
    /// The handshake failed.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// No protocol version is supported by both sides.
    #[error("the server speaks none of our protocol versions, only {}", offered.join(", "))]
    NoCommonVersion {
        /// The versions of the server.
        offered: Vec<String>,
    },
}

/// The outcome of the probe.
enum Probe {
    Modern(ServerIdentity),
    Legacy,
}

/// Connects over `peer`. The caller applies a timeout to the start and the handshake together.
pub async fn connect(
    peer: Peer,
    handler: Arc<dyn Handler>,
    options: &ConnectOptions,
) -> Result<Client, ConnectError> {
    let outcome = if options.skip_probe || options.legacy_only {
        connect_legacy_first(&peer, options).await
    } else {
        connect_with_probe(&peer, options).await
    };
    let (era, identity) = outcome?;
    let meta = match era {
        Era::Modern => RequestMeta::modern(
            &identity.protocol_version,
            &options.client_info,
            &options.capabilities,
        ),
        Era::Legacy => RequestMeta::legacy(),
    };
    Ok(Client::new(peer, era, identity, meta, handler))
}

async fn connect_legacy_first(
    peer: &Peer,
    options: &ConnectOptions,
) -> Result<(Era, ServerIdentity), ConnectError> {
    match initialize(peer, options).await {
        Ok(identity) => Ok((Era::Legacy, identity)),
        // A server that used to be legacy may have been updated.
        Err(refused @ ConnectError::Request(RequestError::Rpc(_) | RequestError::Delivery(_)))
            if !options.legacy_only =>
        {
            match discover(peer, options).await {
                Ok(Probe::Modern(identity)) => Ok((Era::Modern, identity)),
                Ok(Probe::Legacy) | Err(_) => Err(refused),
            }
        }
        Err(error) => Err(error),
    }
}

async fn connect_with_probe(
    peer: &Peer,
    options: &ConnectOptions,
) -> Result<(Era, ServerIdentity), ConnectError> {
    let mut probe = pin!(discover(peer, options));
    let legacy = |identity| (Era::Legacy, identity);
    let answered = tokio::select! {
        outcome = &mut probe => Some(outcome),
        () = probe_timeout(options.read_check.as_ref()) => None,
    };
    match answered {
        Some(Ok(Probe::Modern(identity))) => return Ok((Era::Modern, identity)),
        Some(Ok(Probe::Legacy)) => {
            let initialized = initialize(peer, options).await;
            return initialized.map(legacy).map_err(closed_during_probe);
        }
        Some(Err(error)) => return Err(closed_during_probe(error)),
        None => {}
    }
    let mut initialized = pin!(initialize(peer, options));
    tokio::select! {
        biased;
        outcome = &mut probe => match outcome.map_err(closed_during_probe)? {
            Probe::Modern(identity) => Ok((Era::Modern, identity)),
            Probe::Legacy => initialized.await.map(legacy).map_err(closed_during_probe),
        },
        outcome = &mut initialized => match outcome {
            // A slow modern server rejects `initialize` and still has to respond to the probe.
            Err(
                refused @ ConnectError::Request(RequestError::Rpc(_) | RequestError::Delivery(_)),
            ) => match probe.await.map_err(closed_during_probe)? {
                Probe::Modern(identity) => Ok((Era::Modern, identity)),
                Probe::Legacy => Err(refused),
            },
            outcome => outcome.map(legacy).map_err(closed_during_probe),
        },
    }
}

/// Waits for as long as a server may take to respond to the probe.
async fn probe_timeout(read_check: Option<&ReadCheck>) {
    tokio::time::sleep(PROBE_TIMEOUT).await;
    let Some(ReadCheck(has_read)) = read_check.filter(|check| !(check.0)()) else {
        return;
    };
    while !has_read() {
        tokio::time::sleep(READ_CHECK_INTERVAL).await;
    }
    tokio::time::sleep(AFTER_READ).await;
}

/// Attributes the end of a connection during the handshake to the probe.
fn closed_during_probe(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Request(RequestError::Closed { cause, .. }) => {
            ConnectError::ClosedDuringProbe(cause)
        }
        error => error,
    }
}

async fn discover(peer: &Peer, options: &ConnectOptions) -> Result<Probe, ConnectError> {
    let mut version = MODERN[0];
    let mut retried = false;
    loop {
        let mut params = ObjectWriter::new();
        RequestMeta::modern(version, &options.client_info, &options.capabilities).add_to(
            &mut params,
            None,
            None,
        );
        match peer
            .request(
                "server/discover",
                params.finish(),
                RequestOptions {
                    routing: Routing {
                        version: Some(version),
                        ..Routing::default()
                    },
                    ..RequestOptions::default()
                },
            )
            .await
        {
            Ok(result) => {
                // A legacy server that responds to any method does not list versions.
                let Some(offered) = result.field::<Vec<String>>("supportedVersions") else {
                    return Ok(Probe::Legacy);
                };
                return match newest_common(MODERN, &offered) {
                    Some(version) => Ok(Probe::Modern(ServerIdentity::from_json(
                        &result,
                        version.to_owned(),
                    ))),
                    None => fall_back(offered),
                };
            }
            Err(RequestError::Rpc(error)) => match common_version(&error) {
                Some(common) if !retried => {
                    version = common;
                    retried = true;
                }
                None if error.code == RpcError::UNSUPPORTED_VERSION => {
                    return fall_back(supported_versions(&error));
                }
                _ if error.is_modern() => return Err(RequestError::Rpc(error).into()),
                _ => return Ok(Probe::Legacy),
            },
            Err(RequestError::Malformed(_)) => return Ok(Probe::Legacy),
            Err(RequestError::Delivery(failure)) if may_be_legacy(&failure) => {
                return Ok(Probe::Legacy);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns true if a server may fail in this way because it does not know the probe. Unreachable
/// servers and failed authentication have other causes.
fn may_be_legacy(failure: &DeliveryError) -> bool {
    matches!(
        failure.kind,
        DeliveryErrorKind::Status(_)
            | DeliveryErrorKind::Broken
            | DeliveryErrorKind::SessionExpired
    )
}

/// Falls back to legacy if the server may support one of our legacy versions.
fn fall_back(offered: Vec<String>) -> Result<Probe, ConnectError> {
    if offered.is_empty() || newest_common(LEGACY, &offered).is_some() {
        Ok(Probe::Legacy)
    } else {
        Err(ConnectError::NoCommonVersion { offered })
    }
}

async fn initialize(peer: &Peer, options: &ConnectOptions) -> Result<ServerIdentity, ConnectError> {
    let mut params = ObjectWriter::new();
    params.string("protocolVersion", LEGACY[0]);
    params.raw("capabilities", &options.capabilities);
    let info = Json::encode(&options.client_info).unwrap_or_else(|_| Json::empty_object());
    params.raw("clientInfo", &info);
    let request = RequestOptions {
        // The specification forbids cancelling `initialize`.
        cancellable: false,
        ..RequestOptions::default()
    };
    let result = peer.request("initialize", params.finish(), request).await?;
    let version: Option<String> = result.field("protocolVersion");
    let version = version
        .ok_or_else(|| RequestError::Malformed("it names no protocol version".to_owned()))?;
    let Some(known) = LEGACY.iter().find(|known| **known == version) else {
        return Err(ConnectError::NoCommonVersion {
            offered: vec![version],
        });
    };
    peer.notify_with_version(known, "notifications/initialized", None)
        .await?;
    Ok(ServerIdentity::from_json(&result, version))
}
