//! Finds out which era a server belongs to, and introduces us (LIF-5).
//!
//! The probe is `server/discover`. A modern server answers it; a legacy one answers with some error, stays silent, or in
//! rare cases dies of it. Silence is met by sending `initialize` behind the probe and taking whichever answer comes
//! first, so that a slow start costs nothing. A server that died is for the caller to start again, with the probe skipped.

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

/// How long the probe may go unanswered before `initialize` is sent behind it.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How to introduce ourselves.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Our name and version.
    pub client_info: Implementation,
    /// What we offer: an MCP `ClientCapabilities` object.
    pub capabilities: Json,
    /// The server is known, or told, to be legacy: do not probe.
    pub skip_probe: bool,
    /// Never speak the modern protocol, even if `initialize` is turned down.
    pub legacy_only: bool,
}

/// Why no connection came about.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The link ended during a handshake that began with the probe: start the server again and skip the probe.
    #[error("{0}")]
    ClosedDuringProbe(Closed),
    /// The handshake failed.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// There is no protocol version that both sides speak.
    #[error("the server speaks none of our protocol versions, only {}", offered.join(", "))]
    NoCommonVersion {
        /// What the server speaks.
        offered: Vec<String>,
    },
}

/// What the probe brought.
enum Probe {
    Modern(ServerIdentity),
    Legacy,
}

/// Connects over `peer`. There is no time limit here: the caller has one over opening and handshake together.
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
        // It was legacy once; perhaps it is no longer.
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
        () = tokio::time::sleep(PROBE_TIMEOUT) => None,
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
            // A slow modern server turns `initialize` down and still has the probe to answer.
            Err(refused @ ConnectError::Request(RequestError::Rpc(_) | RequestError::Delivery(_))) => match probe.await.map_err(closed_during_probe)? {
                Probe::Modern(identity) => Ok((Era::Modern, identity)),
                Probe::Legacy => Err(refused),
            },
            outcome => outcome.map(legacy).map_err(closed_during_probe),
        },
    }
}

/// A server that dies in the handshake, before or after it answered the probe, may have died of it.
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
                // A legacy server that answers anything to everything does not name versions.
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

/// Whether a server that does not know the probe may fail it in this way. Whether it can be reached, and whether it knows us, has
/// nothing to do with the probe.
fn may_be_legacy(failure: &DeliveryError) -> bool {
    matches!(
        failure.kind,
        DeliveryErrorKind::Status(_)
            | DeliveryErrorKind::Broken
            | DeliveryErrorKind::SessionExpired
    )
}

/// A modern server without a modern version for us may still speak a legacy one.
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
        // The specification forbids to cancel it.
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
