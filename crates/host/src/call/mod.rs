//! The one way to call a tool (CALL-1): look up, make sure of the connection, send, read the result.
//!
//! Permission, policy, pinning and audit will sit here, between looking up and sending, and nowhere else.

mod error;

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::client::{Arguments, CallRequest};
use trunkline_wire::peer::Progress;
use trunkline_wire::transport::Obstacle;
use trunkline_wire::{Json, RequestError};

pub use error::CallError;
pub(crate) use error::reason;

use crate::catalog::PoolTool;
use crate::connection::Connection;
use crate::host::Host;
use crate::host_tool::HostCall;
use crate::result::CallOutput;
use crate::settings::deadline;

/// How one call is to be made. To cancel a call, drop its future: the server is told.
#[derive(Default)]
pub struct CallOptions {
    /// How long it may take; by default what the server's entry or the settings say.
    pub timeout: Option<Duration>,
    /// Called with each step of progress, in order, before the call returns.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
    /// Members to add to the request's `_meta`.
    pub meta: Option<Json>,
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .field("meta", &self.meta)
            .finish()
    }
}

impl Host {
    /// Calls the tool named `name` with `arguments`, an object.
    pub async fn call(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
        options: CallOptions,
    ) -> Result<CallOutput, CallError> {
        let pool = self.pool();
        let arguments = arguments.into();
        if !arguments.is_object() {
            return Err(CallError::BadArguments {
                tool: name.to_owned(),
            });
        }
        if let Some(own) = pool.own_tool(name) {
            let host = self.clone();
            let arguments = arguments.into_json();
            return Ok(own.call(HostCall { host, arguments }).await);
        }
        let Some(tool) = pool.get(name) else {
            return Err(self.unknown_tool(name, &pool));
        };
        match self.connection(&tool.server) {
            Some(connection) => self.call_tool(tool, &connection, &arguments, options).await,
            None => Err(self.unknown_tool(name, &pool)),
        }
    }

    async fn call_tool(
        &self,
        tool: &PoolTool,
        connection: &Connection,
        arguments: &Arguments,
        mut options: CallOptions,
    ) -> Result<CallOutput, CallError> {
        let limit = options
            .timeout
            .or(connection.timeout())
            .unwrap_or(self.settings().call_timeout);
        let deadline = deadline(limit);
        let mut again = true;
        let mut new_session = true;
        // What the call became, so that it can be followed over another connection.
        let mut task = None;
        loop {
            let connected = connection
                .ensure(deadline)
                .await
                .map_err(|state| CallError::not_connected(tool, &state))?;
            let request = CallRequest {
                tool: &tool.tool.name,
                arguments: Some(arguments),
                meta: options.meta.as_ref(),
                deadline: Some(deadline),
                idle: connection.idle(),
                header_parameters: tool.tool.header_parameters.as_deref().unwrap_or_default(),
                needs_task: tool.tool.needs_task,
                task: Some(&mut task),
                on_progress: match &mut options.on_progress {
                    Some(on_progress) => Some(&mut **on_progress),
                    None => None,
                },
            };
            let error = match connected.client.call_tool(request).await {
                Ok(result) => return Ok(result.into()),
                Err(error) => error,
            };
            // A call whose connection was lost is repeated only where repeating cannot do harm (CALL-5).
            let harmless = !error.may_have_run()
                || tool.tool.hints.read_only
                || tool.tool.hints.idempotent
                || task.is_some();
            if Instant::now() < deadline {
                match &error {
                    // It was turned down, not run; a new session is being made (CALL-2).
                    RequestError::Undelivered(failure)
                        if new_session && failure.obstacle == Obstacle::SessionExpired =>
                    {
                        new_session = false;
                        connected.client.peer().closed().await;
                        continue;
                    }
                    RequestError::Closed { .. } if again && harmless => {
                        again = false;
                        continue;
                    }
                    RequestError::Undelivered(failure)
                        if again && harmless && is_passing(&failure.obstacle) =>
                    {
                        again = false;
                        continue;
                    }
                    _ => {}
                }
            }
            return Err(CallError::of(tool, without_secrets(connection, error)));
        }
    }
}

/// Whether trying again may help.
fn is_passing(obstacle: &Obstacle) -> bool {
    matches!(obstacle, Obstacle::Unreachable | Obstacle::Broken)
}

/// The error without our secrets, which the server may have repeated to us (SEC-1).
pub(crate) fn without_secrets(connection: &Connection, error: RequestError) -> RequestError {
    match error {
        RequestError::Rpc(mut error) => {
            error.message = connection.hidden(&error.message).into_owned();
            RequestError::Rpc(error)
        }
        RequestError::Undelivered(failure) => {
            let text = connection.hidden(&failure.to_string()).into_owned();
            RequestError::Undelivered(failure.in_words(text))
        }
        RequestError::Closed { cause, sent } => {
            let lines = cause.stderr().iter();
            let lines = lines.map(|line| connection.hidden(line).into_owned());
            let cause = cause.with_lines(lines.collect());
            RequestError::Closed { cause, sent }
        }
        error => error,
    }
}
