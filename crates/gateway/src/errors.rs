//! Errors for clients: a server's pass through, ours say the reason and what to do.

use serde_json::json;
use trunkline::CallError;
use trunkline::call::CallErrorKind;
use trunkline_wire::{Json, RpcError};

/// The resource does not exist (legacy; modern clients get invalid params).
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// Returns the error for a call or read that failed.
pub(crate) fn rpc_error(error: &CallError) -> RpcError {
    if let Some(error) = error.rpc() {
        return error.clone();
    }
    let kind = error.kind();
    let code = if error.is_usage() {
        RpcError::INVALID_PARAMS
    } else {
        RpcError::INTERNAL_ERROR
    };
    let mut message = error.to_string();
    if let Some(hint) = error.hint() {
        message = format!("{message}; {hint}");
    }
    let mut data = json!({"reason": reason(kind), "mayHaveRun": error.may_have_run()});
    if let Some(server) = error.server() {
        data["server"] = server.into();
    }
    RpcError {
        data: Some(Json::from(data)),
        ..RpcError::new(code, message)
    }
}

/// The reason as one word, for programs.
fn reason(kind: CallErrorKind) -> &'static str {
    match kind {
        CallErrorKind::UnknownTool => "unknown-tool",
        CallErrorKind::UnknownServer => "unknown-server",
        CallErrorKind::UnknownPrompt => "unknown-prompt",
        CallErrorKind::InvalidArguments => "invalid-arguments",
        CallErrorKind::Refused => "refused",
        CallErrorKind::NotApproved => "not-approved",
        CallErrorKind::Disabled => "disabled",
        CallErrorKind::NotConnected => "not-connected",
        CallErrorKind::Busy => "busy",
        CallErrorKind::AuthRequired => "needs-auth",
        CallErrorKind::Credentials => "credentials",
        CallErrorKind::Unsupported => "unsupported",
        CallErrorKind::HttpStatus => "http-status",
        CallErrorKind::ConnectionLost => "connection-lost",
        CallErrorKind::Timeout => "timed-out",
        CallErrorKind::InvalidResponse => "invalid-response",
        CallErrorKind::Cancelled => "cancelled",
        CallErrorKind::ShutDown => "shut-down",
        _ => "failed",
    }
}

/// Returns the error for invalid params.
pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, message)
}
