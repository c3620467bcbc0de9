//! The one way to call a tool (CALL-1): look up, have it agreed to, make sure of the connection, send, read the result.
//!
//! Permission and pinning sit here, between looking up and sending, and nowhere else.

mod effort;
mod error;
mod validate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use trunkline_wire::client::CallRequest;
use trunkline_wire::mcp::{CallToolResult, ServerIdentity};
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::{Json, RequestError};

pub(crate) use error::reason;
pub use error::{CallError, TimeLimit};
pub use trunkline_wire::RpcError;
pub use trunkline_wire::client::Arguments;
pub use trunkline_wire::peer::Progress;
pub(crate) use validate::Checks;

use crate::catalog::PoolTool;
use crate::connection::{Connection, State};
use crate::host::Host;
use crate::host_tool::{HostCall, HostTool};
use crate::permission::CallCheck;
use crate::result::CallOutput;
use crate::sanitize::shown;
use crate::settings::deadline;

/// How one call is to be made. To cancel a call, drop its future: the server is told.
#[derive(Default)]
pub struct CallOptions {
    /// How long it may take, not counting the time in which somebody thinks about permitting it; by default what the server's entry or the
    /// settings say.
    pub timeout: Option<Duration>,
    /// Called with each step of progress, in order, before the call returns.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
    /// Members to add to the request's `_meta`.
    pub meta: Option<Json>,
    /// Send the arguments whether or not they fit the tool's schema: the server decides.
    pub unchecked: bool,
    /// Give back what the server sent, untouched and of any size; for whoever passes it on.
    pub raw: bool,
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .field("meta", &self.meta)
            .field("unchecked", &self.unchecked)
            .field("raw", &self.raw)
            .finish()
    }
}

/// What stands for a server where a tool is the host's own.
pub(crate) const HOST: &str = "host";

/// How often a tool may become another one between looking it up and calling it.
const MAX_LOOKS: usize = 3;

impl Host {
    /// Calls the tool named `name` with `arguments`, an object.
    pub async fn call(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
        mut options: CallOptions,
    ) -> Result<CallOutput, CallError> {
        let arguments = arguments.into();
        if !arguments.is_object() {
            return Err(CallError::BadArguments {
                tool: name.to_owned(),
            });
        }
        if self.is_shut_down() {
            return Err(CallError::ShutDown {
                tool: name.to_owned(),
            });
        }
        let mut pool = self.pool();
        if let Some(own) = pool.own_tool(name) {
            return self.call_own(own, arguments, options).await;
        }
        let mut warnings = Vec::new();
        // One for all looks: a tool that keeps becoming another one gets no more time by it.
        let mut due = None;
        if pool.get(name).is_none() {
            // On the heap: it is seldom needed.
            due = Box::pin(self.wait_for_tool(name, options.timeout)).await;
            pool = self.pool();
        }
        for _ in 0..MAX_LOOKS {
            let Some(tool) = pool.get(name) else {
                break;
            };
            let Some(connection) = self.connection(&tool.server) else {
                break;
            };
            if !options.unchecked {
                check_arguments(tool, &arguments)?;
            }
            let identity = connection.status().catalog.identity.clone();
            let limit = self.limit(&connection, options.timeout);
            let due = due.get_or_insert_with(|| deadline(limit.time));
            if !self.guard().is_cleared(tool, identity.as_ref()) {
                let check = CallCheck {
                    tool,
                    identity: identity.as_ref(),
                    pinned_as: &connection.source().pin_key(),
                    arguments: &arguments,
                    known: self,
                };
                let asked = Instant::now();
                warnings.extend(self.guard().check(&check).await?);
                // Whoever is asked may take their time.
                *due = due.checked_add(asked.elapsed()).unwrap_or(*due);
            }
            let agreed = Agreed {
                tool,
                identity: identity.as_ref(),
                due: *due,
                limit,
            };
            match self
                .call_tool(&agreed, &connection, &arguments, &mut options)
                .await?
            {
                Attempt::Done(mut output) => {
                    output.warnings.splice(0..0, warnings);
                    return Ok(*output);
                }
                Attempt::OtherTool => pool = self.pool(),
            }
        }
        Err(self.unknown_tool(name, &pool))
    }

    /// Calls one of the host's own tools.
    async fn call_own(
        &self,
        own: &HostTool,
        arguments: Arguments,
        options: CallOptions,
    ) -> Result<CallOutput, CallError> {
        let name = &own.name;
        if !options.unchecked {
            fitting(HOST, name, own.problems(&arguments))?;
        }
        let arguments = arguments.into_json();
        self.guard().check_own(name, &arguments).await?;
        let limit = self.limit_of(options.timeout, None);
        let working = own.call(HostCall {
            host: self.clone(),
            arguments,
            on_progress: options.on_progress,
        });
        let output = timeout_at(deadline(limit.time), working).await;
        let output = output.map_err(|_| CallError::own_timed_out(name, limit))?;
        Ok(self.fit_own(name, output, options.raw).await)
    }

    /// How long a call over a connection may take.
    fn limit(&self, connection: &Connection, timeout: Option<Duration>) -> Limit {
        self.limit_of(timeout, connection.timeout())
    }

    fn limit_of(&self, call: Option<Duration>, entry: Option<Duration>) -> Limit {
        let of = |set_by| move |time| Limit { time, set_by };
        call.map(of(TimeLimit::Call))
            .or_else(|| entry.map(of(TimeLimit::Entry)))
            .unwrap_or(Limit {
                time: self.settings().call_timeout,
                set_by: TimeLimit::Settings,
            })
    }

    /// Waits for the servers that may have a tool which is in no pool yet, as long as they are being connected. Gives
    /// the moment at which the call must be over.
    async fn wait_for_tool(&self, name: &str, timeout: Option<Duration>) -> Option<Instant> {
        // Before the files have been read, nobody knows which servers there are.
        let since = Instant::now();
        let latest = deadline(self.limit_of(timeout, None).time);
        if timeout_at(latest, self.known()).await.is_err() {
            return Some(latest);
        }
        let connecting = self.connecting(name);
        let due = connecting
            .iter()
            .map(|connection| deadline(self.limit(connection, timeout).time) - since.elapsed())
            .max()?;
        let connected = connecting
            .iter()
            .map(|connection| connection.ensure_connected(due));
        join_all(connected).await;
        Some(due)
    }

    /// The error for a tool whose server is not connected.
    fn not_connected(&self, tool: &PoolTool, state: &State) -> CallError {
        if self.is_shut_down() {
            return CallError::ShutDown {
                tool: tool.name.clone(),
            };
        }
        CallError::not_connected(tool, state)
    }

    async fn call_tool(
        &self,
        agreed: &Agreed<'_>,
        connection: &Connection,
        arguments: &Arguments,
        options: &mut CallOptions,
    ) -> Result<Attempt, CallError> {
        let (tool, deadline) = (agreed.tool, agreed.due);
        let mut again = true;
        let mut new_session = true;
        // What the call became, so that it can be followed over another connection.
        let mut task = None;
        loop {
            let connected = connection
                .ensure_connected(deadline)
                .await
                .map_err(|state| self.not_connected(tool, &state))?;
            // What was agreed to came from an earlier run, perhaps, and the server is another today.
            if !self.is_still(agreed, connection) {
                return Ok(Attempt::OtherTool);
            }
            let request = CallRequest {
                tool: &tool.tool.name,
                arguments: Some(arguments),
                meta: options.meta.as_ref(),
                deadline: Some(deadline),
                idle: connection.idle_timeout(),
                header_parameters: tool.tool.header_parameters.as_deref().unwrap_or_default(),
                needs_task: tool.tool.needs_task,
                task: Some(&mut task),
                on_progress: match &mut options.on_progress {
                    Some(on_progress) => Some(&mut **on_progress),
                    None => None,
                },
            };
            let error = match connected.client.call_tool(request).await {
                Ok(result) => {
                    let contradiction = contradictions(tool, &result);
                    let mut output = if options.raw {
                        result.into()
                    } else {
                        self.fit_for_model(tool, connection, result).await
                    };
                    output.warnings.extend(contradiction);
                    return Ok(Attempt::Done(Box::new(output)));
                }
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
                    RequestError::Delivery(failure)
                        if new_session && failure.kind == DeliveryErrorKind::SessionExpired =>
                    {
                        new_session = false;
                        connected.client.peer().closed().await;
                        continue;
                    }
                    RequestError::Closed { .. } if again && harmless => {
                        again = false;
                        continue;
                    }
                    RequestError::Delivery(failure)
                        if again && harmless && is_passing(&failure.kind) =>
                    {
                        again = false;
                        continue;
                    }
                    _ => {}
                }
            }
            let error = without_secrets(connection, error);
            return Err(CallError::of(tool, error, agreed.limit));
        }
    }

    /// Whether the pool still has this tool, as it was, of a server that says the same about itself.
    fn is_still(&self, agreed: &Agreed, connection: &Connection) -> bool {
        let Agreed { tool, identity, .. } = agreed;
        let same = self.pool().get(&tool.name).is_some_and(|now| {
            Arc::ptr_eq(now, tool)
                || (now.server == tool.server && now.tool.raw.as_str() == tool.tool.raw.as_str())
        });
        let now = connection.status().catalog.identity.clone();
        let instructions = |identity: Option<&Arc<ServerIdentity>>| {
            identity.and_then(|identity| identity.instructions.clone())
        };
        let pointers = [now.as_ref(), *identity].map(|identity| identity.map(Arc::as_ptr));
        same && (pointers[0] == pointers[1]
            || instructions(now.as_ref()) == instructions(*identity))
    }
}

/// What somebody has agreed to.
struct Agreed<'a> {
    tool: &'a Arc<PoolTool>,
    /// Who its server said it was then.
    identity: Option<&'a Arc<ServerIdentity>>,
    /// When the call must be over.
    due: Instant,
    limit: Limit,
}

/// How long a call may take, and who says so.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) set_by: TimeLimit,
}

/// What became of an attempt.
enum Attempt {
    Done(Box<CallOutput>),
    /// The name now stands for another tool, which nobody has agreed to.
    OtherTool,
}

fn check_arguments(tool: &PoolTool, arguments: &Arguments) -> Result<(), CallError> {
    let problems = tool.checks.arguments(&tool.tool.input_schema, arguments);
    fitting(&tool.server, &tool.tool.name, problems)
}

/// Arguments are fitting where there are no problems with them.
fn fitting(server: &str, tool: &str, problems: Vec<String>) -> Result<(), CallError> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(CallError::InvalidArguments {
        server: server.to_owned(),
        tool: tool.to_owned(),
        problems,
    })
}

/// Where a result is not what the tool's `outputSchema` promises.
fn contradictions(tool: &PoolTool, output: &CallToolResult) -> Option<String> {
    let schema = tool
        .tool
        .output_schema
        .as_ref()
        .filter(|_| !output.is_error)?;
    let problems = match &output.structured_content {
        Some(result) => tool.checks.result(schema, result),
        None => vec!["it has no structured content".to_owned()],
    };
    (!problems.is_empty()).then(|| {
        format!(
            "the result of \"{}\" does not fit its own schema: {}",
            tool.tool.name,
            problems.join("; ")
        )
    })
}

/// Whether trying again may help.
fn is_passing(kind: &DeliveryErrorKind) -> bool {
    matches!(
        kind,
        DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken
    )
}

/// The error without our secrets, which the server may have repeated to us (SEC-1).
pub(crate) fn without_secrets(connection: &Connection, error: RequestError) -> RequestError {
    match error {
        RequestError::Rpc(mut error) => {
            let message = connection.redact(&error.message).into_owned();
            // It reaches a model as often as a result does (TOOL-3, LIF-7).
            error.message = shown(&message).0.into_owned();
            RequestError::Rpc(error)
        }
        RequestError::Delivery(failure) => {
            let text = connection.redact(&failure.to_string()).into_owned();
            let text = shown(&text).0.into_owned();
            RequestError::Delivery(failure.with_detail(text))
        }
        RequestError::Closed { cause, sent } => {
            let lines = cause.stderr().iter();
            let lines = lines.map(|line| connection.redact(line).into_owned());
            let cause = cause.replace_stderr(lines.collect());
            RequestError::Closed { cause, sent }
        }
        RequestError::Malformed(reason) => {
            let reason = connection.redact(&reason).into_owned();
            RequestError::Malformed(shown(&reason).0.into_owned())
        }
        error @ (RequestError::Timeout { .. } | RequestError::Idle { .. }) => error,
    }
}
