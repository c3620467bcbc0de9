//! Why a call has no result.

use std::sync::Arc;
use std::time::Duration;

use trunkline_config::{PermissionRule, Standing, env_vars};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use trunkline_wire::{Closed, RequestError, RpcError};

use super::Limit;
use crate::catalog::PoolTool;
use crate::connection::{SIGN_IN_HINT, State};
use crate::pins::ToolChange;

/// Why a call has no result. A tool that ran and failed is not an error here: see
/// [`CallOutput::is_error`](crate::CallOutput::is_error).
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// There is no such tool.
    #[error("there is no tool \"{name}\"")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// The arguments are not an object.
    #[error("the arguments of \"{tool}\" are not a JSON object")]
    BadArguments {
        /// The tool.
        tool: String,
    },
    /// The arguments do not fit the tool's schema; the server was not asked.
    #[error("the arguments do not fit \"{tool}\" of \"{server}\": {}", problems.join("; "))]
    InvalidArguments {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// What is wrong, one mistake each.
        problems: Vec<String>,
    },
    /// A rule forbids it (TOOL-10).
    #[error("\"{tool}\" may not be called: the rule \"{rule}\" of {source_of_rule} denies it")]
    Denied {
        /// The tool, by its name in the pool.
        tool: String,
        /// The rule.
        rule: String,
        /// Where it stands.
        source_of_rule: String,
    },
    /// Nobody agreed to it (TOOL-10).
    #[error("\"{tool}\" may not be called: {}", reason.as_deref().unwrap_or("nobody is there to be asked"))]
    NotPermitted {
        /// The tool, by its name in the pool.
        tool: String,
        /// What whoever was asked said; `None` if there was nobody.
        reason: Option<String>,
    },
    /// The tool is not what it was when a call was first agreed to, and nobody has agreed to what it is now (TOOL-11).
    #[error("\"{tool}\" may not be called: {change}")]
    Changed {
        /// The tool, by its name in the pool.
        tool: String,
        /// What is different.
        change: Arc<ToolChange>,
    },
    /// It cannot be told whether the tool is what it was (TOOL-11).
    #[error("\"{tool}\" may not be called: {reason}")]
    PinsUnreadable {
        /// The tool, by its name in the pool.
        tool: String,
        /// What is in the way.
        reason: String,
    },
    /// Its server may not run (CFG-6, CFG-7).
    #[error("the server \"{server}\" does not run: {}", not_running(standing))]
    NotRunning {
        /// The server.
        server: String,
        /// Why it does not run.
        standing: Standing,
    },
    /// The host has been shut down.
    #[error("\"{tool}\" cannot be called: the host has been shut down")]
    ShutDown {
        /// The tool, as it was asked for.
        tool: String,
    },
    /// Its server is not connected.
    #[error("the server \"{server}\" is not connected: {}", reason(state))]
    NotConnected {
        /// The server.
        server: String,
        /// Where its connection stands.
        state: State,
    },
    /// The server answered with a protocol error.
    #[error("the server \"{server}\" refused the call of \"{tool}\": {error}")]
    Refused {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// What it answered.
        error: RpcError,
    },
    /// No answer in time.
    #[error("\"{tool}\" of \"{server}\" did not answer within {} ms{}", after.as_millis(), ran(*may_have_run))]
    TimedOut {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// How long it had.
        after: Duration,
        /// Who set that limit.
        limit: TimeLimit,
        /// Whether it may have run.
        may_have_run: bool,
    },
    /// The server sent nothing at all for too long.
    #[error("the server \"{server}\" sent nothing for {:.1} s while \"{tool}\" was running{}", after.as_secs_f64(), ran(*may_have_run))]
    Idle {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// How long it was silent.
        after: Duration,
        /// Whether the tool may have run.
        may_have_run: bool,
    },
    /// The connection was lost during the call.
    #[error("the connection to \"{server}\" was lost during the call of \"{tool}\": {cause}{}", ran(*may_have_run))]
    ConnectionLost {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// What ended it.
        cause: Closed,
        /// Whether the tool may have run.
        may_have_run: bool,
    },
    /// The call or its answer got lost on the way; the connection stands.
    #[error("\"{tool}\" of \"{server}\" was not answered: {failure}{}", ran(failure.may_have_run))]
    Delivery {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// What was in the way.
        failure: DeliveryError,
    },
    /// The answer made no sense.
    #[error("the answer of \"{tool}\" of \"{server}\" cannot be used: {reason}")]
    Malformed {
        /// The server.
        server: String,
        /// The tool, by its original name.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Who set the time limit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeLimit {
    /// The call itself: [`CallOptions::timeout`](crate::CallOptions::timeout).
    Call,
    /// The server's entry: `timeout`.
    Entry,
    /// The host's settings: [`Settings::call_timeout`](crate::Settings::call_timeout).
    Settings,
}

/// Why a server does not run, in words.
fn not_running(standing: &Standing) -> String {
    match standing {
        Standing::Active => "it is being started".to_owned(),
        Standing::Disabled => "it is disabled".to_owned(),
        Standing::PendingApproval { before: None } => "it waits for your approval".to_owned(),
        Standing::PendingApproval { before: Some(_) } => {
            "it has changed since you approved it".to_owned()
        }
        Standing::Rejected { source } => format!("it is rejected in {source}"),
        Standing::Blocked(blocked) => format!("policy does not allow it: {blocked}"),
        Standing::Suppressed { by } => format!("it is the same server as \"{by}\""),
        Standing::Shadowed { by } => format!("an entry of the same name hides it: {by}"),
    }
}

fn ran(may_have_run: bool) -> &'static str {
    if may_have_run {
        "; the tool may have run"
    } else {
        "; the tool did not run"
    }
}

pub(crate) fn reason(state: &State) -> String {
    match state {
        State::Failed(failure) => failure.to_string(),
        State::Pending {
            last_failure: Some(failure),
            attempt,
        } => format!("{failure} (attempt {attempt} to reconnect is under way)"),
        State::Pending { .. } => "it is still starting".to_owned(),
        State::Disabled => "it is disabled".to_owned(),
        State::NeedsAuth(_) => "it needs a sign-in".to_owned(),
        State::Connected(_) => "it is being replaced".to_owned(),
    }
}

impl CallError {
    pub(super) fn of(tool: &PoolTool, error: RequestError, limit: Limit) -> Self {
        let may_have_run = error.may_have_run();
        let (server, tool) = (tool.server.to_string(), tool.tool.name.to_string());
        match error {
            RequestError::Rpc(error) => Self::Refused {
                server,
                tool,
                error,
            },
            // What the clock says is the limit and a little more.
            RequestError::Timeout { .. } => Self::TimedOut {
                server,
                tool,
                after: limit.time,
                limit: limit.set_by,
                may_have_run,
            },
            RequestError::Idle { after, .. } => Self::Idle {
                server,
                tool,
                after,
                may_have_run,
            },
            RequestError::Closed { cause, .. } => Self::ConnectionLost {
                server,
                tool,
                cause,
                may_have_run,
            },
            RequestError::Delivery(failure) => Self::Delivery {
                server,
                tool,
                failure,
            },
            RequestError::Malformed(reason) => Self::Malformed {
                server,
                tool,
                reason,
            },
        }
    }

    pub(crate) fn denied(tool: &str, rule: &PermissionRule) -> Self {
        Self::Denied {
            tool: tool.to_owned(),
            rule: rule.text.clone(),
            source_of_rule: rule.source.clone(),
        }
    }

    pub(super) fn own_timed_out(tool: &str, limit: Limit) -> Self {
        Self::TimedOut {
            server: super::HOST.to_owned(),
            tool: tool.to_owned(),
            after: limit.time,
            limit: limit.set_by,
            may_have_run: true,
        }
    }

    pub(crate) fn pins_unreadable(tool: &PoolTool, reason: String) -> Self {
        Self::PinsUnreadable {
            tool: tool.name.clone(),
            reason,
        }
    }

    pub(super) fn not_connected(tool: &PoolTool, state: &State) -> Self {
        Self::NotConnected {
            server: tool.server.to_string(),
            state: state.clone(),
        }
    }

    /// No answer in time.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Idle { .. } => true,
            Self::Delivery { failure, .. } => failure.kind == DeliveryErrorKind::Timeout,
            _ => false,
        }
    }

    /// The server could not be reached, or was lost.
    pub fn is_connection(&self) -> bool {
        match self {
            Self::NotConnected { .. } | Self::ShutDown { .. } | Self::ConnectionLost { .. } => true,
            Self::NotRunning { .. } => !self.is_refused(),
            Self::Delivery { failure, .. } => matches!(
                failure.kind,
                DeliveryErrorKind::Unreachable
                    | DeliveryErrorKind::Broken
                    | DeliveryErrorKind::SessionExpired
            ),
            _ => false,
        }
    }

    /// The server wants a sign-in.
    pub fn is_auth_required(&self) -> bool {
        match self {
            Self::NotConnected { state, .. } => matches!(state, State::NeedsAuth(_)),
            Self::Delivery { failure, .. } => {
                matches!(failure.kind, DeliveryErrorKind::Unauthorized { .. })
            }
            _ => false,
        }
    }

    /// The caller asked for something that is not there or not well-formed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownTool { .. } | Self::BadArguments { .. } | Self::InvalidArguments { .. }
        )
    }

    /// A rule, a pin, policy or a person was against it, or it waits for approval.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Self::NotRunning {
                standing: Standing::PendingApproval { .. }
                    | Standing::Rejected { .. }
                    | Standing::Blocked { .. },
                ..
            } | Self::Denied { .. }
                | Self::NotPermitted { .. }
                | Self::Changed { .. }
                | Self::PinsUnreadable { .. }
        )
    }

    /// Whether the tool may have run.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::TimedOut { may_have_run, .. }
            | Self::Idle { may_have_run, .. }
            | Self::ConnectionLost { may_have_run, .. } => *may_have_run,
            Self::Delivery { failure, .. } => failure.may_have_run,
            Self::Malformed { .. } => true,
            Self::UnknownTool { .. }
            | Self::BadArguments { .. }
            | Self::InvalidArguments { .. }
            | Self::Denied { .. }
            | Self::NotPermitted { .. }
            | Self::Changed { .. }
            | Self::PinsUnreadable { .. }
            | Self::NotRunning { .. }
            | Self::ShutDown { .. }
            | Self::NotConnected { .. } => false,
            Self::Refused { error, .. } => !error.is_refusal(),
        }
    }

    /// The server's last lines on stderr, where they may explain it; untrusted text.
    pub fn stderr(&self) -> &[String] {
        match self {
            Self::NotConnected { state, .. } => state
                .failure()
                .map(|failure| &failure.stderr[..])
                .unwrap_or_default(),
            Self::ConnectionLost { cause, .. } => cause.stderr(),
            _ => &[],
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownTool { suggestion, .. } => suggestion
                .as_ref()
                .map(|suggestion| format!("did you mean \"{suggestion}\"?")),
            Self::NotConnected {
                state: State::Disabled,
                ..
            } => Some("enable it, or reconnect it if the program disabled it".to_owned()),
            Self::NotConnected { state, .. } => state.hint().map(str::to_owned),
            Self::NotRunning { server, standing } => match standing {
                Standing::PendingApproval { .. } => Some(format!(
                    "`trunkline approve \"{server}\"` shows it and asks"
                )),
                Standing::Rejected { .. } => Some(format!(
                    "if it is wanted after all: `trunkline approve \"{server}\"`"
                )),
                Standing::Suppressed { by } => Some(format!("call the tools of \"{by}\"")),
                _ => None,
            },
            Self::Delivery { failure, .. }
                if matches!(failure.kind, DeliveryErrorKind::Unauthorized { .. }) =>
            {
                Some(SIGN_IN_HINT.to_owned())
            }
            Self::NotPermitted { reason: None, .. } => {
                Some("allow it with a rule, or tell the host whom to ask".to_owned())
            }
            Self::TimedOut {
                server,
                after,
                limit,
                ..
            } => match limit {
                TimeLimit::Call => None,
                TimeLimit::Entry => {
                    Some("\"timeout\" (ms) in the server's entry gives it more time".to_owned())
                }
                TimeLimit::Settings => more_time(server, *after),
            },
            _ => None,
        }
    }
}

/// What raises the host's limit for calls. The variable counts only where the limit came from it.
fn more_time(server: &str, limit: Duration) -> Option<String> {
    let variable = env_vars::milliseconds(env_vars::MCP_TOOL_TIMEOUT) == Some(limit);
    let entry = server != super::HOST;
    match (variable, entry) {
        (true, true) => {
            Some("MCP_TOOL_TIMEOUT (ms) or the entry's \"timeout\" gives it more time".to_owned())
        }
        (true, false) => Some("MCP_TOOL_TIMEOUT (ms) gives it more time".to_owned()),
        (false, true) => {
            Some("\"timeout\" (ms) in the server's entry gives it more time".to_owned())
        }
        (false, false) => None,
    }
}
