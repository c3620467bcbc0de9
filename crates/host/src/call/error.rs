//! The error of calls, resource reads, prompts and skills.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_config::{EntryStatus, PermissionRule};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use trunkline_wire::{RequestError, RpcError};

use super::Limit;
use super::cause::{Cause, Operation};
use crate::catalog::PoolTool;
use crate::connection::State;
use crate::permission::policy::Restriction;
use crate::pins::ToolChange;

/// The error of a call, a resource read, a prompt or a skill.
///
/// A tool that ran and reports a failure of its own is not an error but a result: see
/// [`CallOutput::is_error`](crate::CallOutput::is_error).
///
/// [`kind`](Self::kind) tells errors apart, the predicates answer the usual questions, and
/// [`hint`](Self::hint) says what the user can do. [`may_have_run`](Self::may_have_run) matters to
/// everyone who repeats calls.
///
/// ```
/// use trunkline::call::CallErrorKind;
/// use trunkline::{CallOptions, Host};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let host = Host::builder().start();
/// let arguments = serde_json::json!({});
/// let error = host.call("mcp__git__log", arguments, CallOptions::new()).await.unwrap_err();
/// assert_eq!(error.kind(), CallErrorKind::UnknownTool);
/// assert_eq!(error.to_string(), "there is no tool \"mcp__git__log\"");
/// assert!(!error.may_have_run() && !error.is_retryable());
/// # host.shutdown().await;
/// # }
/// ```
#[derive(Clone)]
pub struct CallError(Box<Cause>);

/// The kinds of [`CallError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// No tool has this name.
    UnknownTool,
    /// No server has this name.
    UnknownServer,
    /// No prompt has this name.
    UnknownPrompt,
    /// The arguments are not an object, do not fit the schema, or the URI is not usable. Nothing
    /// was sent.
    InvalidArguments,
    /// A rule, a pin, policy or the user is against it. Nothing was sent.
    Refused,
    /// The server waits for the user's approval.
    NotApproved,
    /// The server is disabled.
    Disabled,
    /// The server is not connected, or cannot be reached.
    NotConnected,
    /// The server serves one client at a time, and was busy with another. Nothing was sent.
    Busy,
    /// The server needs a sign-in, or one with more permissions.
    AuthRequired,
    /// The credentials of the server cannot be determined.
    Credentials,
    /// The server has no such capability.
    Unsupported,
    /// The server answered with a JSON-RPC error.
    ServerError,
    /// The server answered with an HTTP status that carries no result.
    HttpStatus,
    /// The connection was lost during the call.
    ConnectionLost,
    /// No response in time.
    Timeout,
    /// The response cannot be used.
    InvalidResponse,
    /// A skill's file differs from its listing.
    Unverified,
    /// The caller cancelled the call: [`CallOptions::cancel`](crate::CallOptions::cancel).
    Cancelled,
    /// The host has been shut down.
    ShutDown,
}

/// The origin of a call's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeLimit {
    /// The call: [`CallOptions::timeout`](crate::CallOptions::timeout).
    Call,
    /// The server's entry: `timeout`.
    Entry,
    /// The host's settings: [`Settings::call_timeout`](crate::Settings::call_timeout).
    Settings,
}

impl CallError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> CallErrorKind {
        use CallErrorKind as Kind;
        match &*self.0 {
            Cause::UnknownTool { .. } | Cause::HiddenTool { .. } => Kind::UnknownTool,
            Cause::UnknownServer { .. } => Kind::UnknownServer,
            Cause::UnknownPrompt { .. } => Kind::UnknownPrompt,
            Cause::NotAnObject { .. }
            | Cause::SchemaMismatch { .. }
            | Cause::PromptArguments { .. }
            | Cause::InvalidUri { .. } => Kind::InvalidArguments,
            Cause::ToolDenied { .. }
            | Cause::ServerDenied { .. }
            | Cause::NotPermitted { .. }
            | Cause::PolicyDenied { .. }
            | Cause::BlockedByHook { .. }
            | Cause::Changed { .. }
            | Cause::PinsUnreadable { .. } => Kind::Refused,
            Cause::NotRunning { standing, .. } => match standing {
                EntryStatus::PendingApproval { .. } => Kind::NotApproved,
                EntryStatus::Rejected { .. } | EntryStatus::Blocked(_) => Kind::Refused,
                EntryStatus::Disabled => Kind::Disabled,
                _ => Kind::NotConnected,
            },
            Cause::NotConnected { state, .. } => match state {
                State::NeedsAuth(_) => Kind::AuthRequired,
                State::Disabled => Kind::Disabled,
                _ => Kind::NotConnected,
            },
            Cause::Busy { .. } => Kind::Busy,
            Cause::MissingScopes { .. } => Kind::AuthRequired,
            Cause::Unsupported { .. } => Kind::Unsupported,
            Cause::Unverified { .. } => Kind::Unverified,
            Cause::ShutDown { .. } => Kind::ShutDown,
            Cause::Cancelled { .. } => Kind::Cancelled,
            Cause::Request { error, .. } => request_kind(error),
            Cause::HostToolTimeout { .. } => Kind::Timeout,
        }
    }

    /// Returns the name of the server, where one was found.
    pub fn server(&self) -> Option<&str> {
        match &*self.0 {
            Cause::UnknownServer { server, .. }
            | Cause::HiddenTool { server, .. }
            | Cause::SchemaMismatch { server, .. }
            | Cause::ServerDenied { server, .. }
            | Cause::NotRunning { server, .. }
            | Cause::NotConnected { server, .. }
            | Cause::Busy { server, .. }
            | Cause::MissingScopes { server, .. }
            | Cause::Request { server, .. }
            | Cause::Unsupported { server, .. }
            | Cause::Unverified { server, .. } => Some(server),
            Cause::Changed { change, .. } => Some(&change.server),
            _ => None,
        }
    }

    /// Returns the tool of a call: by its original name where [`server`](Self::server) is known,
    /// otherwise by the name in the call.
    pub fn tool(&self) -> Option<&str> {
        match &*self.0 {
            Cause::UnknownTool { tool, .. }
            | Cause::HiddenTool { tool, .. }
            | Cause::NotAnObject { tool }
            | Cause::SchemaMismatch { tool, .. }
            | Cause::ToolDenied { tool, .. }
            | Cause::NotPermitted { tool, .. }
            | Cause::PolicyDenied { tool, .. }
            | Cause::PinsUnreadable { tool, .. }
            | Cause::ShutDown { tool }
            | Cause::Cancelled { tool, .. }
            | Cause::HostToolTimeout { tool, .. }
            | Cause::MissingScopes { tool, .. }
            | Cause::Request {
                operation: Operation::Call { tool, .. },
                ..
            } => Some(tool),
            Cause::Changed { change, .. } => Some(&change.tool),
            _ => None,
        }
    }

    /// True if the tool may have run. Reading resources and prompts runs nothing.
    pub fn may_have_run(&self) -> bool {
        match &*self.0 {
            Cause::Request {
                operation, error, ..
            } => matches!(operation, Operation::Call { .. }) && error.may_have_run(),
            Cause::Cancelled { sent, .. } => *sent,
            Cause::HostToolTimeout { .. } => true,
            _ => false,
        }
    }

    /// True if the same call may succeed later and repeating it cannot run the tool twice.
    pub fn is_retryable(&self) -> bool {
        if self.may_have_run() {
            return false;
        }
        match self.kind() {
            CallErrorKind::ConnectionLost | CallErrorKind::Timeout | CallErrorKind::Busy => true,
            CallErrorKind::NotConnected => !matches!(*self.0, Cause::NotRunning { .. }),
            CallErrorKind::HttpStatus => self
                .delivery()
                .and_then(DeliveryError::status)
                .is_some_and(|status| matches!(status, 429 | 502..=504)),
            _ => false,
        }
    }

    /// True if there was no response in time.
    pub fn is_timeout(&self) -> bool {
        self.kind() == CallErrorKind::Timeout
    }

    /// True if the server cannot be reached, was lost, is disabled or the host is shut down.
    pub fn is_connection(&self) -> bool {
        matches!(
            self.kind(),
            CallErrorKind::NotConnected
                | CallErrorKind::ConnectionLost
                | CallErrorKind::Disabled
                | CallErrorKind::ShutDown
        ) || matches!(*self.0, Cause::NotConnected { .. })
    }

    /// True if the server needs a sign-in.
    pub fn is_auth_required(&self) -> bool {
        self.kind() == CallErrorKind::AuthRequired
    }

    /// True if the caller asked for something that does not exist or is malformed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self.kind(),
            CallErrorKind::UnknownTool
                | CallErrorKind::UnknownServer
                | CallErrorKind::UnknownPrompt
                | CallErrorKind::InvalidArguments
        )
    }

    /// True if this side refused: by a rule, a pin, policy or the user, or for want of approval.
    pub fn is_refused(&self) -> bool {
        matches!(
            self.kind(),
            CallErrorKind::Refused | CallErrorKind::NotApproved
        )
    }

    /// True if the server answered with a JSON-RPC error: see [`rpc`](Self::rpc).
    pub fn is_server_error(&self) -> bool {
        self.kind() == CallErrorKind::ServerError
    }

    /// True if the caller cancelled the call.
    pub fn is_cancelled(&self) -> bool {
        self.kind() == CallErrorKind::Cancelled
    }

    /// True if the host has been shut down.
    pub fn is_shut_down(&self) -> bool {
        self.kind() == CallErrorKind::ShutDown
    }

    /// Returns the problems of [`CallErrorKind::InvalidArguments`], one message each.
    pub fn problems(&self) -> &[String] {
        match &*self.0 {
            Cause::SchemaMismatch { problems, .. } => problems,
            _ => &[],
        }
    }

    /// Returns the rule that denies it (TOOL-10).
    pub fn rule(&self) -> Option<&PermissionRule> {
        match &*self.0 {
            Cause::ToolDenied { rule, .. } | Cause::ServerDenied { rule, .. } => Some(rule),
            _ => None,
        }
    }

    /// Returns the part of the organisation's call policy that refuses it (SEC-7).
    pub fn policy_rule(&self) -> Option<&PermissionRule> {
        match &*self.0 {
            Cause::PolicyDenied { rule, .. } => Some(rule),
            _ => None,
        }
    }

    /// Returns the change that nobody has accepted (TOOL-11).
    pub fn change(&self) -> Option<&ToolChange> {
        match &*self.0 {
            Cause::Changed { change, .. } => Some(change),
            _ => None,
        }
    }

    /// Returns the server's JSON-RPC error; its message is untrusted text.
    pub fn rpc(&self) -> Option<&RpcError> {
        match &*self.0 {
            Cause::Request {
                error: RequestError::Rpc(error),
                ..
            } => Some(error),
            _ => None,
        }
    }

    /// Returns why the configuration keeps the server from running (CFG-6, CFG-7).
    pub fn standing(&self) -> Option<&EntryStatus> {
        match &*self.0 {
            Cause::NotRunning { standing, .. } => Some(standing),
            _ => None,
        }
    }

    /// Returns the state of a server that is not connected.
    pub fn state(&self) -> Option<&State> {
        match &*self.0 {
            Cause::NotConnected { state, .. } => Some(state),
            _ => None,
        }
    }

    /// Returns the time limit that a call exceeded, and its origin. `None` if the server was
    /// silent for too long instead.
    pub fn time_limit(&self) -> Option<(Duration, TimeLimit)> {
        let (Cause::HostToolTimeout { limit, .. }
        | Cause::Request {
            operation: Operation::Call { limit, .. },
            error: RequestError::Timeout { .. },
            ..
        }) = &*self.0
        else {
            return None;
        };
        Some((limit.time, limit.set_by))
    }

    /// Reports `timeout` as the limit that the call exceeded: for a caller that spent part of the
    /// user's time limit before the call.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        if let Cause::HostToolTimeout { limit, .. }
        | Cause::Request {
            operation: Operation::Call { limit, .. },
            ..
        } = &mut *self.0
        {
            limit.time = timeout;
        }
        self
    }

    /// Returns the server's last lines on stderr, where they may explain the error; untrusted text.
    pub fn stderr(&self) -> &[String] {
        match &*self.0 {
            Cause::NotConnected { state, .. } => state
                .failure()
                .map(|failure| &failure.stderr[..])
                .unwrap_or_default(),
            Cause::Request {
                error: RequestError::Closed { cause, .. },
                ..
            } => cause.stderr(),
            _ => &[],
        }
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        self.0.hint()
    }

    fn delivery(&self) -> Option<&DeliveryError> {
        match &*self.0 {
            Cause::Request {
                error: RequestError::Delivery(error),
                ..
            } => Some(error),
            _ => None,
        }
    }

    pub(super) fn missing_scopes(tool: &PoolTool, scopes: Vec<String>) -> Self {
        Self::from(Cause::MissingScopes {
            server: tool.server.to_string(),
            tool: tool.tool.name.to_string(),
            scopes,
        })
    }

    pub(super) fn call_failed(tool: &PoolTool, error: RequestError, limit: Limit) -> Self {
        Self::from(Cause::Request {
            server: tool.server.to_string(),
            operation: Operation::Call {
                tool: tool.tool.name.to_string(),
                limit,
            },
            error,
        })
    }

    /// The error of a request other than a call; `subject` is what was asked for.
    pub(crate) fn read_failed(server: &str, subject: String, error: RequestError) -> Self {
        Self::from(Cause::Request {
            server: server.to_owned(),
            operation: Operation::Read { subject },
            error,
        })
    }

    pub(crate) fn denied(tool: &str, rule: &PermissionRule) -> Self {
        Self::from(Cause::ToolDenied {
            tool: tool.to_owned(),
            rule: rule.clone(),
        })
    }

    pub(crate) fn against_policy(tool: &str, restriction: Restriction) -> Self {
        let Restriction { rule, reason, .. } = restriction;
        Self::from(Cause::PolicyDenied {
            tool: tool.to_owned(),
            rule,
            reason,
        })
    }

    pub(crate) fn changed(tool: &str, change: Arc<ToolChange>) -> Self {
        Self::from(Cause::Changed {
            tool: tool.to_owned(),
            change,
        })
    }

    pub(crate) fn pins_unreadable(tool: &PoolTool, reason: String) -> Self {
        Self::from(Cause::PinsUnreadable {
            tool: tool.name.clone(),
            reason,
        })
    }

    pub(crate) fn busy(server: &str, waited: Duration) -> Self {
        Self::from(Cause::Busy {
            server: server.to_owned(),
            waited,
        })
    }

    pub(crate) fn not_connected(server: &str, state: State) -> Self {
        Self::from(Cause::NotConnected {
            server: server.to_owned(),
            state,
        })
    }

    pub(crate) fn unsupported(server: &str, lack: &'static str) -> Self {
        Self::from(Cause::Unsupported {
            server: server.to_owned(),
            lack,
        })
    }

    pub(crate) fn shut_down(tool: &str) -> Self {
        Self::from(Cause::ShutDown {
            tool: tool.to_owned(),
        })
    }
}

fn request_kind(error: &RequestError) -> CallErrorKind {
    match error {
        RequestError::Rpc(_) => CallErrorKind::ServerError,
        RequestError::Timeout { .. } | RequestError::Idle { .. } => CallErrorKind::Timeout,
        RequestError::Closed { .. } => CallErrorKind::ConnectionLost,
        RequestError::Malformed(_) => CallErrorKind::InvalidResponse,
        RequestError::Delivery(error) => match error.kind {
            DeliveryErrorKind::Unreachable => CallErrorKind::NotConnected,
            DeliveryErrorKind::Unauthorized { .. } => CallErrorKind::AuthRequired,
            DeliveryErrorKind::Credentials => CallErrorKind::Credentials,
            DeliveryErrorKind::Timeout => CallErrorKind::Timeout,
            DeliveryErrorKind::TooLarge => CallErrorKind::InvalidResponse,
            DeliveryErrorKind::Broken | DeliveryErrorKind::SessionExpired => {
                CallErrorKind::ConnectionLost
            }
            DeliveryErrorKind::Forbidden { .. }
            | DeliveryErrorKind::Status(_)
            | DeliveryErrorKind::Redirected => CallErrorKind::HttpStatus,
        },
    }
}

impl From<Cause> for CallError {
    fn from(cause: Cause) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("CallError").field(&self.0).finish()
    }
}

impl std::error::Error for CallError {}
