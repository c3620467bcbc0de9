//! The causes of a [`CallError`](super::CallError), with their messages and hints.

use std::sync::Arc;
use std::time::Duration;

use trunkline_config::{EntryStatus, PermissionRule, env_vars};
use trunkline_wire::RequestError;
use trunkline_wire::transport::DeliveryErrorKind;

use super::{Limit, TimeLimit};
use crate::connection::{SIGN_IN_HINT, State};
use crate::pins::ToolChange;

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error("there is no tool \"{tool}\"")]
    UnknownTool {
        tool: String,
        suggestion: Option<String>,
    },
    #[error(
        "the tool \"{tool}\" of \"{server}\" is hidden by {filter} of its entry ({source_of_entry})"
    )]
    HiddenTool {
        server: String,
        tool: String,
        /// The member of the entry: `tools.deny` or `tools.allow`.
        filter: &'static str,
        source_of_entry: String,
    },
    #[error("there is no server \"{server}\"")]
    UnknownServer {
        server: String,
        suggestion: Option<String>,
    },
    #[error("there is no prompt \"{prompt}\"")]
    UnknownPrompt {
        prompt: String,
        suggestion: Option<String>,
    },
    #[error("the arguments of \"{tool}\" are not a JSON object")]
    NotAnObject { tool: String },
    #[error("the arguments do not fit \"{tool}\" of \"{server}\": {}", problems.join("; "))]
    SchemaMismatch {
        server: String,
        tool: String,
        problems: Vec<String>,
    },
    #[error("the prompt \"{prompt}\" {problem}")]
    PromptArguments {
        prompt: String,
        /// Begins with a verb.
        problem: String,
    },
    #[error("this is no address of a resource: {reason}")]
    InvalidUri { reason: &'static str },
    #[error("\"{tool}\" may not be called: {}", rule.denial())]
    ToolDenied { tool: String, rule: PermissionRule },
    #[error("nothing of \"{server}\" may be used: {}", rule.denial())]
    ServerDenied {
        server: String,
        rule: PermissionRule,
    },
    #[error("\"{tool}\" may not be called: {}", reason.as_deref().unwrap_or("nobody is there to be asked"))]
    NotPermitted {
        tool: String,
        /// The reason given by [`Permit`](crate::permission::Permit); `None` if the host has none.
        reason: Option<String>,
    },
    #[error("\"{tool}\" may not be called: {reason} ({} of {})", rule.text, rule.source)]
    PolicyDenied {
        tool: String,
        /// The part of the call policy (SEC-7).
        rule: PermissionRule,
        reason: String,
    },
    #[error("\"{tool}\" may not be called: {reason}")]
    NotRecorded {
        tool: String,
        /// Why the audit log cannot be written (SEC-6).
        reason: String,
    },
    #[error("\"{tool}\" may not be called: a hook blocks it: {reason}")]
    BlockedByHook { tool: String, reason: String },
    #[error("\"{tool}\" may not be called: {change}")]
    Changed {
        tool: String,
        change: Arc<ToolChange>,
    },
    #[error("\"{tool}\" may not be called: {reason}")]
    PinsUnreadable { tool: String, reason: String },
    #[error("the server \"{server}\" does not run: {}", not_running(standing))]
    NotRunning {
        server: String,
        standing: EntryStatus,
    },
    #[error("the server \"{server}\" is not connected: {}", not_connected(state))]
    NotConnected { server: String, state: State },
    #[error(
        "the server \"{server}\" asks questions, so it serves one client at a time, and it was busy \
         with another for {} s; the call was not sent",
        waited.as_secs()
    )]
    Busy { server: String, waited: Duration },
    #[error("the server \"{server}\" {lack}")]
    Unsupported {
        server: String,
        /// Begins with a verb.
        lack: &'static str,
    },
    #[error(
        "\"{tool}\" of \"{server}\" needs permissions that the sign-in lacks: {}; the tool did not run",
        scopes.join(" ")
    )]
    MissingScopes {
        server: String,
        /// The tool, by its original name.
        tool: String,
        scopes: Vec<String>,
    },
    #[error("{}", describe_request(server, operation, error))]
    Request {
        server: String,
        operation: Operation,
        error: RequestError,
    },
    #[error("\"{tool}\" of \"{}\" did not answer within {} ms; the tool may have run", super::HOST, limit.time.as_millis())]
    HostToolTimeout { tool: String, limit: Limit },
    #[error("the skill \"{skill}\" of \"{server}\" was not loaded: {reason}")]
    Unverified {
        server: String,
        skill: String,
        reason: String,
    },
    #[error("the call of \"{tool}\" was cancelled{}", ran(*sent))]
    Cancelled { tool: String, sent: bool },
    #[error("\"{tool}\" cannot be called: the host has been shut down")]
    ShutDown { tool: String },
}

/// A request to a server.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Call {
        /// The tool, by its original name.
        tool: String,
        limit: Limit,
    },
    /// Changes nothing on the server.
    Read { subject: String },
}

impl Cause {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownTool { suggestion, .. }
            | Self::UnknownServer { suggestion, .. }
            | Self::UnknownPrompt { suggestion, .. } => {
                let suggestion = suggestion.as_ref()?;
                Some(format!("did you mean \"{suggestion}\"?"))
            }
            Self::HiddenTool { filter, .. } => Some(format!("change {filter} there to offer it")),
            Self::NotConnected {
                state: State::Disabled,
                ..
            } => Some("enable it, or reconnect it if the program disabled it".to_owned()),
            Self::Busy { .. } => Some(
                "try again later, or give each client a process of its own with \"share\": false in \
                 the server's entry"
                    .to_owned(),
            ),
            Self::NotConnected { state, .. } => state.hint().map(str::to_owned),
            Self::NotRunning { server, standing } => match standing {
                EntryStatus::PendingApproval { .. } => Some(format!(
                    "`trunkline approve \"{server}\"` shows it and asks"
                )),
                EntryStatus::Rejected { .. } => Some(format!(
                    "if it is wanted after all: `trunkline approve \"{server}\"`"
                )),
                EntryStatus::Suppressed { by } => Some(format!("call the tools of \"{by}\"")),
                _ => None,
            },
            Self::NotPermitted { reason: None, .. } => {
                Some("allow it with a rule, or tell the host whom to ask".to_owned())
            }
            Self::NotRecorded { .. } => {
                Some("make room on the disk, or make the directory writable for you".to_owned())
            }
            Self::PolicyDenied { .. } => Some(
                "your organisation sets this policy; `trunkline policy show` prints it".to_owned(),
            ),
            Self::MissingScopes { .. } => Some("sign in again to grant them".to_owned()),
            Self::HostToolTimeout { limit, .. } => more_time(*limit, Entry::No),
            Self::Request {
                operation, error, ..
            } => match (error, operation) {
                (RequestError::Timeout { .. }, Operation::Call { limit, .. }) => {
                    more_time(*limit, Entry::Yes)
                }
                (RequestError::Delivery(error), _)
                    if matches!(error.kind, DeliveryErrorKind::Unauthorized { .. }) =>
                {
                    Some(SIGN_IN_HINT.to_owned())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn not_running(standing: &EntryStatus) -> String {
    match standing {
        EntryStatus::Active => "it is being started".to_owned(),
        EntryStatus::Disabled => "it is disabled".to_owned(),
        EntryStatus::PendingApproval { before: None } => "it waits for your approval".to_owned(),
        EntryStatus::PendingApproval { before: Some(_) } => {
            "it has changed since you approved it".to_owned()
        }
        EntryStatus::Rejected { source } => format!("it is rejected in {source}"),
        EntryStatus::Blocked(blocked) => format!("blocked by policy: {blocked}"),
        EntryStatus::Suppressed { by } => format!("it duplicates \"{by}\""),
        EntryStatus::OwnGateway => "it starts this gateway, which does not start itself".to_owned(),
        EntryStatus::Shadowed { by } => format!("an entry of the same name shadows it: {by}"),
        other => format!("its status is {other:?}"),
    }
}

fn not_connected(state: &State) -> String {
    match state {
        State::Failed(failure) => failure.to_string(),
        State::Pending {
            last_failure: Some(failure),
            attempt,
        } => format!("{failure} (attempt {attempt} to reconnect is under way)"),
        State::Pending { .. } => "it is still starting".to_owned(),
        State::Disabled => "it is disabled".to_owned(),
        State::NeedsAuth(asked) => asked.to_string(),
        State::Connected(_) => "it is being replaced".to_owned(),
    }
}

fn describe_request(server: &str, operation: &Operation, error: &RequestError) -> String {
    let (tool, limit) = match operation {
        Operation::Call { tool, limit } => (tool, limit),
        Operation::Read { subject } => {
            return format!("cannot get {subject} from \"{server}\": {error}");
        }
    };
    let ran = ran(error.may_have_run());
    match error {
        RequestError::Rpc(error) => {
            format!("the server \"{server}\" refused the call of \"{tool}\": {error}")
        }
        // The clock shows the limit and a little more.
        RequestError::Timeout { .. } => {
            let limit = limit.time.as_millis();
            format!("\"{tool}\" of \"{server}\" did not answer within {limit} ms{ran}")
        }
        RequestError::Idle { after, .. } => {
            let silent = after.as_secs_f64();
            format!(
                "the server \"{server}\" sent nothing for {silent:.1} s while \"{tool}\" was running{ran}"
            )
        }
        RequestError::Closed { cause, .. } => format!(
            "the connection to \"{server}\" was lost during the call of \"{tool}\": {cause}{ran}"
        ),
        RequestError::Delivery(error) => {
            format!("\"{tool}\" of \"{server}\" was not answered: {error}{ran}")
        }
        RequestError::Malformed(reason) => {
            format!("the answer of \"{tool}\" of \"{server}\" cannot be used: {reason}")
        }
    }
}

fn ran(may_have_run: bool) -> &'static str {
    if may_have_run {
        "; the tool may have run"
    } else {
        "; the tool did not run"
    }
}

/// Whether the tool's server has an entry, where a limit can be written.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    Yes,
    No,
}

/// What raises a limit. The environment variable counts only where the limit came from it.
fn more_time(limit: Limit, entry: Entry) -> Option<String> {
    const IN_ENTRY: &str = "\"timeout\" (ms) in the server's entry gives it more time";
    let from_variable = env_vars::milliseconds(env_vars::MCP_TOOL_TIMEOUT) == Some(limit.time);
    let hint = match (limit.set_by, from_variable, entry) {
        (TimeLimit::Call, ..) | (TimeLimit::Settings, false, Entry::No) => return None,
        (TimeLimit::Entry, ..) | (TimeLimit::Settings, false, Entry::Yes) => IN_ENTRY,
        (TimeLimit::Settings, true, Entry::Yes) => {
            "MCP_TOOL_TIMEOUT (ms) or the entry's \"timeout\" gives it more time"
        }
        (TimeLimit::Settings, true, Entry::No) => "MCP_TOOL_TIMEOUT (ms) gives it more time",
    };
    Some(hint.to_owned())
}
