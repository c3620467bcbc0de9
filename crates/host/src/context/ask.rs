//! How something is asked of a server: over its connection, in time, and once more where the first time got lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::client::FetchOptions;
use trunkline_wire::peer::Progress;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::{Client, Json, RequestError};

use super::ContextError;
use crate::call::without_secrets;
use crate::connection::{Connected, Connection};
use crate::host::Host;
use crate::settings::deadline;
use crate::suggest::nearest;

/// How a resource is read or a prompt is got. To cancel, drop the future: the server is told.
#[derive(Default)]
pub struct ReadOptions {
    /// How long it may take; by default what the server's entry or the settings say for a call.
    pub timeout: Option<Duration>,
    /// Called with each step of progress, in order.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .finish()
    }
}

/// What is asked for.
pub(super) enum Wanted<'a> {
    Resource(&'a str),
    Prompt {
        name: &'a str,
        arguments: &'a [(String, String)],
    },
}

impl Wanted<'_> {
    async fn of(&self, client: &Client, limits: FetchOptions<'_>) -> Result<Json, RequestError> {
        match self {
            Self::Resource(uri) => client.read_resource(uri, limits).await,
            Self::Prompt { name, arguments } => client.get_prompt(name, arguments, limits).await,
        }
    }

    /// Why the server cannot be asked for such a thing.
    fn lacking(&self, client: &Client) -> Option<&'static str> {
        let has = &client.identity().capabilities;
        match self {
            Self::Resource(_) => (!has.resources).then_some("has no resources"),
            Self::Prompt { .. } => (!has.prompts).then_some("has no prompts"),
        }
    }
}

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Resource(uri) => write!(f, "the resource {uri}"),
            Self::Prompt { name, .. } => write!(f, "the prompt \"{name}\""),
        }
    }
}

impl Host {
    /// The connection to a server, unless a rule denies all of it; or what may have been meant. Everything that is asked of a server
    /// beside calls comes through here, for a host as for an agent.
    pub(super) fn connection_to(&self, server: &str) -> Result<Arc<Connection>, ContextError> {
        let connection = self.connection(server).ok_or_else(|| {
            let servers = self.servers();
            let names = servers.iter().map(|status| &*status.name);
            ContextError::UnknownServer {
                server: server.to_owned(),
                suggestion: nearest(server, names).map(str::to_owned),
            }
        })?;
        match self.guard().denial_of_server(server) {
            Some(rule) => Err(ContextError::Denied {
                server: server.to_owned(),
                rule: rule.text,
                source_of_rule: rule.source,
            }),
            None => Ok(connection),
        }
    }

    /// When something asked of a server now must be there.
    pub(crate) fn due(&self, connection: &Connection, timeout: Option<Duration>) -> Instant {
        let limit = timeout.or(connection.timeout());
        deadline(limit.unwrap_or(self.settings().call_timeout))
    }

    /// Asks a server for something that asking does not change.
    pub(super) async fn get(
        &self,
        server: &str,
        connection: &Connection,
        wanted: Wanted<'_>,
        mut options: ReadOptions,
    ) -> Result<Json, ContextError> {
        let deadline = self.due(connection, options.timeout);
        let mut again = true;
        loop {
            let connected = connected(server, connection, deadline).await?;
            let client = &connected.client;
            if let Some(lacks) = wanted.lacking(client) {
                return Err(ContextError::Unsupported {
                    server: server.to_owned(),
                    lacks,
                });
            }
            let limits = FetchOptions {
                deadline: Some(deadline),
                idle: connection.idle_timeout(),
                on_progress: match &mut options.on_progress {
                    Some(on_progress) => Some(&mut **on_progress),
                    None => None,
                },
            };
            let error = match wanted.of(client, limits).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            if again && Instant::now() < deadline && may_help(client, &error).await {
                again = false;
                continue;
            }
            return Err(failed(server, connection, wanted.to_string(), error));
        }
    }
}

/// The connection once it stands.
pub(super) async fn connected(
    server: &str,
    connection: &Connection,
    deadline: Instant,
) -> Result<Arc<Connected>, ContextError> {
    connection
        .ensure_connected(deadline)
        .await
        .map_err(|state| ContextError::NotConnected {
            server: server.to_owned(),
            state,
        })
}

/// The error of something that a server did not give, without our secrets.
pub(super) fn failed(
    server: &str,
    connection: &Connection,
    what: String,
    error: RequestError,
) -> ContextError {
    ContextError::Failed {
        server: server.to_owned(),
        what,
        error: without_secrets(connection, error),
    }
}

/// Whether asking once more may help. Where the session is gone, waits until that is known to all.
async fn may_help(client: &Client, error: &RequestError) -> bool {
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
