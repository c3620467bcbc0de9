//! How the program ends (UI-2).

use std::process::ExitCode;

use trunkline::CallError;
use trunkline::context::ContextError;

/// The program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// The tool, or its server, reported an error, or was lost while it ran.
    Failed = 1,
    /// Bad usage or configuration.
    Usage = 2,
    NotConnected = 3,
    NeedsAuth = 4,
    /// By policy, a rule or a pin, or for want of approval.
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
            // Who tries again after that must not have the tool run twice.
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

/// The first that is so.
fn first(reasons: &[(bool, Exit)]) -> Exit {
    let found = reasons.iter().find(|(is_so, _)| *is_so);
    found.map_or(Exit::Failed, |(_, exit)| *exit)
}
