//! Requests that change nothing on the server: sent with a deadline, and once more after a lost
//! connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::client::FetchOptions;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::{Client, Json, RequestError};

use super::ReadOptions;
use crate::call::{CallError, Cause, without_secrets};
use crate::connection::{Connected, Connection};
use crate::elicit::Origin;
use crate::host::Host;
use crate::settings::deadline;
use trunkline_config::nearest;

/// A request whose response may require several rounds.
pub(super) enum ReadRequest<'a> {
    Resource(&'a str),
    Prompt {
        name: &'a str,
        arguments: &'a [(String, String)],
    },
}

impl ReadRequest<'_> {
    async fn send(&self, client: &Client, limits: FetchOptions<'_>) -> Result<Json, RequestError> {
        match self {
            Self::Resource(uri) => client.read_resource(uri, limits).await,
            Self::Prompt { name, arguments } => client.get_prompt(name, arguments, limits).await,
        }
    }

    /// The capability that the server lacks, as the end of a sentence.
    fn missing_capability(&self, client: &Client) -> Option<&'static str> {
        let has = &client.identity().capabilities;
        match self {
            Self::Resource(_) => (!has.resources).then_some("has no resources"),
            Self::Prompt { .. } => (!has.prompts).then_some("has no prompts"),
        }
    }
}

impl fmt::Display for ReadRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Resource(uri) => write!(f, "the resource {uri}"),
            Self::Prompt { name, .. } => write!(f, "the prompt \"{name}\""),
        }
    }
}

impl Host {
    /// Returns the connection to a server, unless a rule denies the whole server. Every request
    /// except calls starts here, for hosts and agents alike.
    pub(super) fn connection_to(&self, server: &str) -> Result<Arc<Connection>, CallError> {
        let connection = self.connection(server).ok_or_else(|| {
            let servers = self.servers();
            let names = servers.iter().map(|status| &*status.name);
            CallError::from(Cause::UnknownServer {
                server: server.to_owned(),
                suggestion: nearest(server, names).map(str::to_owned),
            })
        })?;
        match self.guard().denial_of_server(server) {
            Some(rule) => Err(CallError::from(Cause::ServerDenied {
                server: server.to_owned(),
                rule,
            })),
            None => Ok(connection),
        }
    }

    /// The deadline of a request that starts now.
    pub(crate) fn request_deadline(
        &self,
        connection: &Connection,
        timeout: Option<Duration>,
    ) -> Instant {
        let limit = timeout.or(connection.timeout());
        deadline(limit.unwrap_or(self.settings().call_timeout))
    }

    pub(super) async fn send_read(
        &self,
        server: &str,
        connection: &Connection,
        request: ReadRequest<'_>,
        mut options: ReadOptions<'_>,
    ) -> Result<Json, CallError> {
        let deadline = self.request_deadline(connection, options.timeout);
        let mut retry = true;
        loop {
            let connected = connected(server, connection, deadline).await?;
            let client = &connected.client;
            if let Some(lack) = request.missing_capability(client) {
                return Err(CallError::unsupported(server, lack));
            }
            let limits = FetchOptions {
                deadline: Some(deadline),
                idle: connection.idle_timeout(),
                on_progress: match &mut options.on_progress {
                    Some(on_progress) => Some(&mut **on_progress),
                    None => None,
                },
                meta: options.meta.as_ref(),
                forward_url_elicitation: options.forward_url_elicitation,
            };
            let send = request.send(client, limits);
            let outcome = match connection.in_flight() {
                None => send.await,
                Some(in_flight) => {
                    let origin = Origin::new(None, options.client.clone());
                    let waited = Instant::now();
                    let outcome = Box::pin(in_flight.track(&origin, deadline, send)).await;
                    outcome.ok_or_else(|| CallError::busy(server, waited.elapsed()))?
                }
            };
            let error = match outcome {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            if retry && Instant::now() < deadline && is_transient(client, &error).await {
                retry = false;
                continue;
            }
            return Err(failed(server, connection, request.to_string(), error));
        }
    }
}

/// Waits for the connection.
pub(super) async fn connected(
    server: &str,
    connection: &Connection,
    deadline: Instant,
) -> Result<Arc<Connected>, CallError> {
    let connected = connection.ensure_connected(deadline).await;
    connected.map_err(|state| CallError::not_connected(server, state))
}

/// The error of a failed request, without our secrets.
pub(super) fn failed(
    server: &str,
    connection: &Connection,
    subject: String,
    error: RequestError,
) -> CallError {
    CallError::read_failed(server, subject, without_secrets(connection, error))
}

/// True if the same request may succeed now. Waits for the end of an expired session.
async fn is_transient(client: &Client, error: &RequestError) -> bool {
    match error {
        RequestError::Closed { .. } => true,
        RequestError::Delivery(failure) => match failure.kind {
            DeliveryErrorKind::SessionExpired => {
                client.peer().closed().await;
                true
            }
            DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken => true,
            _ => false,
        },
        _ => false,
    }
}
