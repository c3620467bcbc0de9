//! Exit codes (UI-2).

use std::process::ExitCode;

use trunkline::CallError;
use trunkline::context::ContextError;

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
        first(&[
            (error.is_usage(), Self::Usage),
            (error.is_refused(), Self::Refused),
            (error.is_auth_required(), Self::NeedsAuth),
            // A script may retry after this code, so the tool must not have run.
            (
                error.is_connection() && !error.may_have_run(),
                Self::NotConnected,
            ),
            (error.is_timeout(), Self::TimedOut),
        ])
    }
}

impl From<&ContextError> for Exit {
    fn from(error: &ContextError) -> Self {
        first(&[
            (error.is_usage(), Self::Usage),
            (error.is_refused(), Self::Refused),
            (error.is_auth_required(), Self::NeedsAuth),
            (error.is_connection(), Self::NotConnected),
            (error.is_timeout(), Self::TimedOut),
        ])
    }
}

/// Returns the first code whose condition holds.
fn first(reasons: &[(bool, Exit)]) -> Exit {
    let found = reasons.iter().find(|(is_so, _)| *is_so);
    found.map_or(Exit::Failed, |(_, exit)| *exit)
}
