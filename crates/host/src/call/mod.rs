//! The only way to call a tool (CALL-1): find it, ask for permission, connect, send, read the
//! result.
//!
//! Permissions and pins are checked here, between lookup and sending, and nowhere else.

mod cause;
mod error;
pub(crate) mod options;
#[cfg(feature = "validation")]
mod schema_cost;
#[cfg(feature = "validation")]
mod validate;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use trunkline_config::HookEvent;
use trunkline_wire::client::CallRequest;
use trunkline_wire::mcp::{CallToolResult, ServerIdentity};
use trunkline_wire::offload::offload;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::{Client, RequestError};

pub(crate) use cause::Cause;
pub use error::{CallError, CallErrorKind, TimeLimit};
pub use options::CallOptions;
pub use trunkline_wire::client::Arguments;
pub use trunkline_wire::peer::Progress;
pub use trunkline_wire::{InvalidJson, RpcError};
#[cfg(feature = "validation")]
pub(crate) use validate::{Checks, Fragment};

#[cfg(not(feature = "validation"))]
pub(crate) use crate::absent::validation::Checks;

use crate::audit::{CallDecision, Trail};
use crate::catalog::PoolTool;
use crate::connection::{Connection, State};
use crate::elicit::Origin;
use crate::hooks::ToolUse;
use crate::host::Host;
use crate::host_tool::{HostCall, HostTool};
use crate::permission::CallCheck;
use crate::permission::policy::PolicyTool;
#[cfg(feature = "http")]
use crate::permission::policy::Restriction;
use crate::result::CallOutput;
use crate::sanitize::shown;
use crate::settings::deadline;
use crate::telemetry;

/// The server's name in messages about the host's own tools.
pub(crate) const HOST: &str = "host";

/// How often a tool may be replaced between lookup and call.
const MAX_LOOKUPS: usize = 3;

impl Host {
    /// Calls the tool `name` with `arguments`, an object. Dropping the future cancels the call.
    ///
    /// # Errors
    ///
    /// [`CallError`] if the tool did not run or its result is unknown. A failure that the tool
    /// reports is `Ok`, with [`CallOutput::is_error`] set.
    pub async fn call(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
        options: CallOptions<'_>,
    ) -> Result<CallOutput, CallError> {
        self.ensure_policy();
        let arguments = arguments.into();
        let Some(audit) = self.audit().active() else {
            return self.call_or_cancel(name, arguments, options, None).await;
        };
        let trail = Trail::new(self, audit, name, &arguments, options.client.clone());
        let outcome = match trail.check() {
            Ok(()) => {
                let call = self.call_or_cancel(name, arguments, options, Some(&trail));
                // On the heap: seldom needed.
                Box::pin(call).await
            }
            Err(error) => Err(error),
        };
        trail.end(&outcome).await;
        outcome
    }

    /// Calls a tool, until the caller cancels it.
    async fn call_or_cancel(
        &self,
        name: &str,
        arguments: Arguments,
        mut options: CallOptions<'_>,
        trail: Option<&Trail>,
    ) -> Result<CallOutput, CallError> {
        let cancel = options.cancel.take();
        let sent = AtomicBool::new(false);
        let Some(cancel) = cancel else {
            // Not in a variable: the future is large, and would be moved.
            return self
                .call_to_end(name, arguments, options, (&sent, trail))
                .await;
        };
        // On the heap: few callers need it.
        let call = Box::pin(self.call_to_end(name, arguments, options, (&sent, trail)));
        tokio::select! {
            biased;
            () = cancel => Err(CallError::from(Cause::Cancelled {
                tool: name.to_owned(),
                sent: sent.load(Ordering::Relaxed),
            })),
            outcome = call => outcome,
        }
    }

    /// Returns the tool `name` of a server, or the error that a call of it would return.
    ///
    /// ```
    /// use trunkline::Host;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let host = Host::builder().start();
    /// let error = host.find_tool("mcp__git__log").unwrap_err();
    /// assert_eq!(error.to_string(), "there is no tool \"mcp__git__log\"");
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn find_tool(&self, name: &str) -> Result<Arc<PoolTool>, CallError> {
        let pool = self.pool();
        let tool = pool.get(name).cloned();
        tool.ok_or_else(|| self.unknown_tool(name, &pool))
    }

    /// Calls a tool; sets `sent` once the server may have received the call, and leaves a trail for
    /// the audit log.
    #[allow(
        clippy::too_many_lines,
        reason = "the checks of a call, one after another"
    )]
    async fn call_to_end(
        &self,
        name: &str,
        mut arguments: Arguments,
        mut options: CallOptions<'_>,
        (sent, trail): (&AtomicBool, Option<&Trail>),
    ) -> Result<CallOutput, CallError> {
        if !arguments.is_object() {
            return Err(CallError::from(Cause::NotAnObject {
                tool: name.to_owned(),
            }));
        }
        if self.is_shut_down() {
            return Err(CallError::shut_down(name));
        }
        let mut pool = self.pool();
        if let Some(tool) = pool.own_tool(name) {
            // On the heap: most tools are a server's.
            let call = self.call_host_tool(tool, arguments, options, (sent, trail));
            return Box::pin(call).await;
        }
        let mut warnings = Vec::new();
        // One deadline for all lookups: replacing a tool buys its server no time.
        let mut due = None;
        // A call counts once towards a limit, whatever its lookups.
        let mut counted = false;
        if pool.get(name).is_none() {
            // On the heap: seldom needed.
            due = Box::pin(self.wait_for_tool(name, options.timeout)).await;
            pool = self.pool();
        }
        for _ in 0..MAX_LOOKUPS {
            let Some(tool) = pool.get(name) else {
                break;
            };
            let Some(connection) = self.connection(&tool.server) else {
                break;
            };
            if let Some(trail) = trail {
                trail.found(tool);
            }
            if !options.unchecked {
                check_arguments(tool, &arguments)?;
            }
            let subject = PolicyTool::of(tool);
            let mut policy = self.check_policy(subject, &arguments, &mut counted)?;
            let mut ask = None;
            if self.hooks().has(HookEvent::PreToolUse) {
                let began = Instant::now();
                let call = hook_call(tool, &options);
                let hooks = self.hooks().before_call(&call, &arguments);
                // On the heap: seldom needed.
                let before = Box::pin(hooks).await?;
                if let Some(changed) = before.arguments {
                    arguments = changed;
                    if !options.unchecked {
                        check_arguments(tool, &arguments)?;
                    }
                    policy = self.check_policy(subject, &arguments, &mut counted)?;
                    if let Some(trail) = trail {
                        trail.changed(&arguments);
                    }
                }
                ask = before.ask;
                warnings.extend(before.warnings);
                // The hooks have time limits of their own.
                due = due.map(|due| due.checked_add(began.elapsed()).unwrap_or(due));
            }
            #[cfg(feature = "http")]
            if tool.signs_in {
                // On the heap: seldom needed.
                let timeout = options.timeout;
                let ask = (policy.as_ref(), ask);
                let call = self.call_sign_in(tool, &connection, &arguments, ask, timeout);
                let mut output = Box::pin(call).await?;
                let call = hook_call(tool, &options);
                self.finish(&call, &arguments, &mut output, warnings).await;
                return Ok(output);
            }
            let identity = connection.status().catalog.identity.clone();
            let limit = self.limit(&connection, options.timeout);
            let due = due.get_or_insert_with(|| deadline(limit.time));
            if ask.is_some()
                || policy.is_some()
                || !self.guard().is_cleared(tool, identity.as_ref())
            {
                let check = CallCheck {
                    tool,
                    identity: identity.as_ref(),
                    pinned_as: &connection.source().pin_key(),
                    arguments: &arguments,
                    hook: ask.as_deref(),
                    policy: policy.as_ref(),
                    known: self,
                };
                let asked = Instant::now();
                warnings.extend(self.guard().check(&check).await?);
                // The user's thinking time does not count.
                *due = due.checked_add(asked.elapsed()).unwrap_or(*due);
            }
            if let Some(trail) = trail {
                // On the heap: seldom needed.
                Box::pin(trail.permitted(self.guard().decision(tool))).await?;
            }
            let permitted = PermittedCall {
                tool,
                identity: identity.as_ref(),
                deadline: *due,
                limit,
                sent,
            };
            match self
                .call_tool(&permitted, &connection, &arguments, &mut options)
                .await?
            {
                Attempt::Done(mut output) => {
                    let call = hook_call(tool, &options);
                    self.finish(&call, &arguments, &mut output, warnings).await;
                    return Ok(*output);
                }
                Attempt::ToolReplaced => pool = self.pool(),
            }
        }
        Err(self.unknown_tool(name, &pool))
    }

    /// Runs the hooks after a call, and adds the warnings from before it.
    async fn finish(
        &self,
        call: &ToolUse<'_>,
        arguments: &Arguments,
        output: &mut CallOutput,
        warnings: Vec<String>,
    ) {
        if self.hooks().has(HookEvent::PostToolUse) {
            let hooks = self.hooks().after_call(call, arguments, output);
            Box::pin(hooks).await;
        }
        output.warnings.splice(0..0, warnings);
    }

    async fn call_host_tool(
        &self,
        tool: &HostTool,
        mut arguments: Arguments,
        options: CallOptions<'_>,
        (sent, trail): (&AtomicBool, Option<&Trail>),
    ) -> Result<CallOutput, CallError> {
        let name = &tool.name;
        if !options.unchecked {
            reject_problems(HOST, name, tool.problems(&arguments))?;
        }
        let client = options.client.clone();
        let call = ToolUse {
            tool: name,
            origin: None,
            client: client.as_deref(),
        };
        let mut counted = false;
        let mut policy = self.check_policy(PolicyTool::Own(name), &arguments, &mut counted)?;
        let before = Box::pin(self.hooks().before_call(&call, &arguments)).await?;
        if let Some(changed) = before.arguments {
            arguments = changed;
            if !options.unchecked {
                reject_problems(HOST, name, tool.problems(&arguments))?;
            }
            policy = self.check_policy(PolicyTool::Own(name), &arguments, &mut counted)?;
        }
        let given = arguments.clone();
        let arguments = arguments.into_json();
        let ask = (policy.as_ref(), before.ask);
        self.guard().check_own(name, &arguments, ask).await?;
        if let Some(trail) = trail {
            trail.changed(&given);
            let decision = CallDecision::new("allowed", None);
            Box::pin(trail.permitted(Arc::new(decision))).await?;
        }
        sent.store(true, Ordering::Relaxed);
        let limit = self.limit_of(options.timeout, None);
        // The closure does not outlive the call, but its type cannot say so: progress goes through
        // a channel.
        let (steps, progress) = mpsc::unbounded_channel();
        let report = move |step| _ = steps.send(step);
        let work = tool.call(HostCall {
            host: self.clone(),
            arguments,
            on_progress: options
                .on_progress
                .is_some()
                .then(|| Box::new(report) as Box<dyn FnMut(Progress) + Send>),
        });
        let work = with_progress(work, progress, options.on_progress);
        let output = timeout_at(deadline(limit.time), work).await;
        let output = output.map_err(|_| {
            CallError::from(Cause::HostToolTimeout {
                tool: name.clone(),
                limit,
            })
        })?;
        let mut output = self.prepare_host_result(name, output, options.raw).await;
        output.warnings.splice(0..0, before.warnings);
        Box::pin(self.hooks().after_call(&call, &given, &mut output)).await;
        Ok(output)
    }

    /// Calls the tool that starts a sign-in (AUTH-8). The user decides at the URL that it returns,
    /// so it needs permission only if a rule or a hook says so.
    #[cfg(feature = "http")]
    async fn call_sign_in(
        &self,
        tool: &Arc<PoolTool>,
        connection: &Arc<Connection>,
        arguments: &Arguments,
        ask: (Option<&Restriction>, Option<String>),
        timeout: Option<Duration>,
    ) -> Result<CallOutput, CallError> {
        self.guard()
            .check_sign_in(tool, arguments, ask, self)
            .await?;
        let limit = self.limit(connection, timeout);
        let start = self.start_sign_in(&tool.server, connection);
        let output = timeout_at(deadline(limit.time), start).await;
        let output = output.map_err(|_| {
            CallError::from(Cause::HostToolTimeout {
                tool: tool.name.clone(),
                limit,
            })
        })?;
        Ok(output.into_output())
    }

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

    /// Waits for connecting servers that may have the tool. Returns the call's deadline.
    async fn wait_for_tool(&self, name: &str, timeout: Option<Duration>) -> Option<Instant> {
        // The servers are unknown until the files have been read.
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

    fn not_connected(&self, tool: &PoolTool, state: State) -> CallError {
        if self.is_shut_down() {
            return CallError::shut_down(&tool.name);
        }
        CallError::not_connected(&tool.server, state)
    }

    async fn call_tool(
        &self,
        permitted: &PermittedCall<'_>,
        connection: &Connection,
        arguments: &Arguments,
        options: &mut CallOptions<'_>,
    ) -> Result<Attempt, CallError> {
        let (tool, deadline) = (permitted.tool, permitted.deadline);
        let mut retries = Retries::default();
        // The task that the call became, to follow it over a new connection.
        let mut task = None;
        loop {
            let connected = connection
                .ensure_connected(deadline)
                .await
                .map_err(|state| self.not_connected(tool, state))?;
            // The permission may be about a cached tool that the server no longer has.
            if !self.is_unchanged(permitted, connection) {
                return Ok(Attempt::ToolReplaced);
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
                forward_url_elicitation: options.forward_url_elicitation,
            };
            permitted.sent.store(true, Ordering::Relaxed);
            let mut warnings = Vec::new();
            let outcome = {
                // Pinned here: a large future is moved by whoever takes it.
                let calling = pin!(connected.client.call_tool(request));
                let call = telemetry::call(tool, &connected, calling);
                match connection.in_flight() {
                    None => call.await,
                    Some(in_flight) => {
                        let origin = Origin::new(Some(tool.name.clone()), options.client.clone());
                        let waited = Instant::now();
                        let outcome = Box::pin(in_flight.track(&origin, deadline, call)).await;
                        let Some(outcome) = outcome else {
                            let waited = waited.elapsed();
                            return Err(CallError::busy(&tool.server, waited));
                        };
                        warnings = origin.take_warnings();
                        outcome
                    }
                }
            };
            let error = match outcome {
                Ok(mut result) if options.raw => {
                    let raw = result.raw.take();
                    let mut output = CallOutput::from(result);
                    output.raw = raw;
                    output.warnings.extend(warnings);
                    return Ok(Attempt::Done(Box::new(output)));
                }
                Ok(result) => {
                    let mismatch = output_schema_mismatch(tool, &result).await;
                    let preparing = pin!(self.prepare_result(tool, connection, result));
                    let mut output = preparing.instrument(telemetry::result_span(tool)).await;
                    output.warnings.extend(warnings);
                    output.warnings.extend(mismatch);
                    return Ok(Attempt::Done(Box::new(output)));
                }
                Err(error) => error,
            };
            let repeatable = !error.may_have_run()
                || tool.tool.hints.read_only
                || tool.tool.hints.idempotent
                || task.is_some();
            if Instant::now() < deadline
                && retries.allow(&error, repeatable, &connected.client).await
            {
                continue;
            }
            let error = without_secrets(connection, error);
            return Err(match missing_scopes(connection, &error) {
                Some(scopes) => CallError::missing_scopes(tool, scopes),
                None => CallError::call_failed(tool, error, permitted.limit),
            });
        }
    }

    /// True if the pool still has this tool, unchanged, of a server with the same instructions.
    fn is_unchanged(&self, permitted: &PermittedCall, connection: &Connection) -> bool {
        let PermittedCall { tool, identity, .. } = permitted;
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

/// A call that passed the permission check.
struct PermittedCall<'a> {
    tool: &'a Arc<PoolTool>,
    /// The server's identity at the time of the check.
    identity: Option<&'a Arc<ServerIdentity>>,
    deadline: Instant,
    limit: Limit,
    /// Set once the server may have received the call.
    sent: &'a AtomicBool,
}

/// A call's time limit and its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) set_by: TimeLimit,
}

enum Attempt {
    Done(Box<CallOutput>),
    /// The name now belongs to another tool, for which there is no permission.
    ToolReplaced,
}

/// The retries that one call has used: one after a lost connection, one in a new session.
#[derive(Default)]
struct Retries {
    connection: bool,
    session: bool,
}

impl Retries {
    /// Decides whether to send the call again. A call whose connection was lost is repeated only
    /// where that cannot run the tool twice (CALL-5).
    async fn allow(&mut self, error: &RequestError, repeatable: bool, client: &Client) -> bool {
        match error {
            // The server rejected the call unseen; a new session is on its way (CALL-2).
            RequestError::Delivery(failure)
                if !self.session && failure.kind == DeliveryErrorKind::SessionExpired =>
            {
                self.session = true;
                client.peer().closed().await;
                true
            }
            RequestError::Closed { .. } if repeatable => {
                !std::mem::replace(&mut self.connection, true)
            }
            RequestError::Delivery(failure) if repeatable && is_transient(&failure.kind) => {
                !std::mem::replace(&mut self.connection, true)
            }
            _ => false,
        }
    }
}

/// Runs a host tool's work and reports its progress, all of it before the work's output.
async fn with_progress<T>(
    work: impl Future<Output = T>,
    mut progress: mpsc::UnboundedReceiver<Progress>,
    on_progress: Option<Box<dyn FnMut(Progress) + Send + '_>>,
) -> T {
    let Some(mut on_progress) = on_progress else {
        return work.await;
    };
    let mut work = std::pin::pin!(work);
    let output = loop {
        tokio::select! {
            biased;
            Some(step) = progress.recv() => on_progress(step),
            output = &mut work => break output,
        }
    };
    while let Ok(step) = progress.try_recv() {
        on_progress(step);
    }
    output
}

fn hook_call<'a>(tool: &'a PoolTool, options: &'a CallOptions<'_>) -> ToolUse<'a> {
    ToolUse {
        tool: &tool.name,
        origin: Some((&tool.server, &tool.tool.name)),
        client: options.client.as_deref(),
    }
}

fn check_arguments(tool: &PoolTool, arguments: &Arguments) -> Result<(), CallError> {
    let problems = tool.checks.arguments(&tool.tool.input_schema, arguments);
    reject_problems(&tool.server, &tool.tool.name, problems)
}

fn reject_problems(server: &str, tool: &str, problems: Vec<String>) -> Result<(), CallError> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(CallError::from(Cause::SchemaMismatch {
        server: server.to_owned(),
        tool: tool.to_owned(),
        problems,
    }))
}

/// Returns the scopes that a refused request lacks, if a sign-in can grant them (AUTH-6).
fn missing_scopes(connection: &Connection, error: &RequestError) -> Option<Vec<String>> {
    let RequestError::Delivery(failure) = error else {
        return None;
    };
    let DeliveryErrorKind::Forbidden { challenge } = &failure.kind else {
        return None;
    };
    let scopes = connection.demand_scopes(challenge.as_deref());
    (!scopes.is_empty()).then_some(scopes)
}

/// A warning if a result does not match the tool's `outputSchema`.
async fn output_schema_mismatch(tool: &Arc<PoolTool>, output: &CallToolResult) -> Option<String> {
    let schema = tool
        .tool
        .output_schema
        .as_ref()
        .filter(|_| !output.is_error)?;
    let problems = match &output.structured_content {
        Some(result) => {
            let (tool, schema, result) = (Arc::clone(tool), schema.clone(), result.clone());
            let bytes = result.as_str().len();
            let checked = offload(bytes, move || tool.checks.result(&schema, &result));
            checked.await.unwrap_or_default()
        }
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

fn is_transient(kind: &DeliveryErrorKind) -> bool {
    matches!(
        kind,
        DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken
    )
}

/// Removes our secrets from an error, which the server may have echoed (SEC-1).
pub(crate) fn without_secrets(connection: &Connection, error: RequestError) -> RequestError {
    match error {
        RequestError::Rpc(mut error) => {
            let message = connection.redact(&error.message).into_owned();
            // Models read errors as often as results (TOOL-3, LIF-7).
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
