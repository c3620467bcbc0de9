//! Exit codes (UI-2).

use std::process::ExitCode;

use trunkline::CallError;

/// An exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// The tool or its server reported an error, or the connection was lost during the call.
    Failed = 1,
    /// Bad usage or configuration.
    Usage = 2,
    NotConnected = 3,
    NeedsAuth = 4,
    /// By policy, approval, permission or a pin.
    Refused = 5,
    TimedOut = 6,
    Interrupted = 130,
}

impl Exit {
    /// The name of the code in JSON errors.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotConnected => "not-connected",
            Self::NeedsAuth => "needs-auth",
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&CallError> for Exit {
    fn from(error: &CallError) -> Self {
        if error.is_usage() {
            Self::Usage
        } else if error.is_refused() {
            Self::Refused
        } else if error.is_auth_required() {
            Self::NeedsAuth
        } else if error.is_connection() && !error.may_have_run() {
            // A script may retry after this code, so the tool must not have run.
            Self::NotConnected
        } else if error.is_timeout() {
            Self::TimedOut
        } else {
            Self::Failed
        }
    }
}
