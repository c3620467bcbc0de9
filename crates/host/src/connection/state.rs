//! The states of a connection (LIF-1), as one enum without contradictory combinations.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_config::SecretError;
use trunkline_transport::SpawnError;
use trunkline_transport::stdio::StderrLog;
use trunkline_wire::client::ConnectError;
use trunkline_wire::mcp::ServerIdentity;
use trunkline_wire::transport::{CloseReason, Closed, DeliveryError, DeliveryErrorKind};
use trunkline_wire::version::Era;
use trunkline_wire::{Client, RequestError};

use super::start_clock::Expired;
use crate::absent;
use crate::logs::Recorder;
use crate::telemetry::Endpoint;

/// The hint for a server that requires a sign-in.
pub(crate) const SIGN_IN_HINT: &str =
    "add a valid token to its entry, for example as an \"Authorization\" header";

/// The state of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// Connecting, waiting for the next attempt, or lazy.
    Pending {
        /// The current attempt, counted from 1; 0 for a lazy server that was not needed yet
        /// (LIF-13).
        attempt: u32,
        /// The failure of the previous attempt.
        last_failure: Option<Arc<ConnectFailure>>,
    },
    /// Connected.
    Connected(Arc<Connected>),
    /// The server requires a sign-in; the failure says how it reported that.
    NeedsAuth(Arc<ConnectFailure>),
    /// Connecting failed; no further attempt is made until requested.
    Failed(Arc<ConnectFailure>),
    /// Switched off.
    Disabled,
}

impl State {
    /// Returns the failure of the last attempt, whether or not another follows.
    pub fn failure(&self) -> Option<&Arc<ConnectFailure>> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Pending { last_failure, .. } => last_failure.as_ref(),
            Self::Connected(_) | Self::NeedsAuth(_) | Self::Disabled => None,
        }
    }

    /// Returns the failure with which the server requires a sign-in.
    pub fn sign_in(&self) -> Option<&Arc<ConnectFailure>> {
        match self {
            Self::NeedsAuth(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns whether the server was not needed yet.
    pub(crate) fn is_lazy(&self) -> bool {
        matches!(self, Self::Pending { attempt: 0, .. })
    }

    /// Returns what the user can do about the state.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NeedsAuth(_) => Some(SIGN_IN_HINT),
            state => state.failure()?.hint(),
        }
    }

    /// Returns the state's name in `list --json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Connected(_) => "connected",
            Self::NeedsAuth(_) => "needs-auth",
            Self::Failed(_) => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// An established connection.
pub struct Connected {
    pub(crate) client: Client,
    pub(crate) stderr: Option<StderrLog>,
    pub(crate) is_sse: bool,
    /// Whether another process runs the server.
    pub(crate) is_relayed: bool,
    pub(crate) endpoint: Endpoint,
}

impl Connected {
    /// Returns the server's identity and capabilities.
    pub fn identity(&self) -> &ServerIdentity {
        self.client.identity()
    }

    /// Returns the server's era.
    pub fn era(&self) -> Era {
        self.client.era()
    }

    /// Returns whether it uses HTTP+SSE, which an entry without a `type` does not tell.
    pub fn is_sse(&self) -> bool {
        self.is_sse
    }

    /// Returns the last lines of the server's stderr; untrusted text.
    pub fn stderr(&self, lines: usize) -> Vec<String> {
        let log = self.stderr.as_ref();
        log.map(|log| log.last_lines(lines)).unwrap_or_default()
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Connected")
            .field("era", &self.era())
            .field("identity", self.identity())
            .finish_non_exhaustive()
    }
}

/// Why connecting failed or a connection was lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The last lines of the server's stderr; untrusted text.
    pub stderr: Vec<String>,
    /// The first output on stdout that is not a message; untrusted text.
    pub nonsense: Option<String>,
    /// The redacted message, if the original contains one of our secrets.
    redacted: Option<Arc<String>>,
}

/// A connect timeout that expired.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConnectTimeout {
    /// The time that passed.
    pub after: Duration,
    /// Whether the entry's own `connectTimeout` applied, not the general setting.
    pub is_from_entry: bool,
}

/// The kind of a connection failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The process could not be started.
    Spawn(SpawnError),
    /// The handshake failed.
    Handshake(ConnectError),
    /// The server cannot be reached as its entry describes.
    Unreachable(DeliveryError),
    /// The server requires a sign-in.
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
        /// The text of the response; untrusted.
        said: Option<String>,
    },
    /// The time limit expired.
    TimedOut(ConnectTimeout),
    /// The time limit expired because the machine was busy.
    MachineBusy(ConnectTimeout),
    /// The established connection was lost.
    Lost(Closed),
    /// A secret of the entry could not be resolved.
    Secret(SecretError),
    /// The server runs in an embedding process, and there is none.
    NoBridge,
    /// The entry needs a feature of this crate that was left out of the build.
    MissingFeature(&'static str),
    /// The attempt was cancelled.
    Abandoned,
}

impl FailureKind {
    pub(super) fn from_delivery(failure: DeliveryError) -> Self {
        let said = failure.to_string();
        match failure.kind {
            DeliveryErrorKind::Unauthorized { challenge } => Self::Unauthorized {
                challenge,
                said: Some(said),
            },
            _ => Self::Unreachable(failure),
        }
    }

    pub(super) fn from_handshake(error: ConnectError) -> Self {
        match error {
            ConnectError::Request(RequestError::Delivery(failure))
                if matches!(failure.kind, DeliveryErrorKind::Unauthorized { .. }) =>
            {
                Self::from_delivery(failure)
            }
            error => match closed(&error).map(Closed::reason) {
                Some(CloseReason::Unauthorized { challenge }) => Self::Unauthorized {
                    challenge: challenge.clone(),
                    said: None,
                },
                _ => Self::Handshake(error),
            },
        }
    }
}

/// Returns why the link closed, if that ended the handshake.
fn closed(error: &ConnectError) -> Option<&Closed> {
    match error {
        ConnectError::ClosedDuringProbe(cause)
        | ConnectError::Request(RequestError::Closed { cause, .. }) => Some(cause),
        _ => None,
    }
}

impl ConnectFailure {
    /// Returns whether a sign-in would help.
    pub fn is_auth_required(&self) -> bool {
        matches!(self.kind, FailureKind::Unauthorized { .. })
    }

    pub(crate) fn new(kind: FailureKind) -> Self {
        let mut failure = Self {
            kind,
            stderr: Vec::new(),
            nonsense: None,
            redacted: None,
        };
        failure.stderr = failure
            .closed()
            .map_or_else(Vec::new, |cause| cause.stderr().to_vec());
        failure
    }

    /// Returns why the link closed, if that caused the failure.
    fn closed(&self) -> Option<&Closed> {
        match &self.kind {
            FailureKind::Handshake(error) => closed(error),
            FailureKind::Lost(cause) => Some(cause),
            _ => None,
        }
    }

    pub(super) fn timed_out(expired: Expired) -> Self {
        let timeout = ConnectTimeout {
            after: expired.after,
            is_from_entry: false,
        };
        Self::new(if expired.is_machine_busy() {
            FailureKind::MachineBusy(timeout)
        } else {
            FailureKind::TimedOut(timeout)
        })
    }

    /// The failure of a server that asked for a sign-in shortly ago (AUTH-7).
    pub(super) fn sign_in_demanded() -> Self {
        Self::new(FailureKind::Unauthorized {
            challenge: None,
            said: Some(
                "the server needs a sign-in; it asked for one less than 15 minutes ago".to_owned(),
            ),
        })
    }

    /// The failure to get a token, which needs no sign-in.
    pub(super) fn no_token(reason: String) -> Self {
        let failure = DeliveryError::new(DeliveryErrorKind::Credentials, reason, false);
        Self::new(FailureKind::Unreachable(failure))
    }

    /// Says why a sign-in is needed, where that is known better than from the server's response.
    pub(super) fn with_sign_in_reason(mut self, reason: Option<String>) -> Self {
        if let Some(reason) = reason {
            self.kind = FailureKind::Unauthorized {
                challenge: self.challenge().map(str::to_owned),
                said: Some(reason),
            };
        }
        self
    }

    /// Returns the HTTP failure of the first requests.
    fn delivery(&self) -> Option<&DeliveryError> {
        match &self.kind {
            FailureKind::Unreachable(failure)
            | FailureKind::Handshake(ConnectError::Request(RequestError::Delivery(failure))) => {
                Some(failure)
            }
            _ => None,
        }
    }

    /// Returns whether the server refuses the credentials.
    pub(super) fn is_forbidden(&self) -> bool {
        let kind = self.delivery().map(|failure| &failure.kind);
        matches!(kind, Some(DeliveryErrorKind::Forbidden { .. }))
    }

    /// Returns the `WWW-Authenticate` header with which the server asked for a sign-in; untrusted
    /// text.
    pub fn challenge(&self) -> Option<&str> {
        match &self.kind {
            FailureKind::Unauthorized { challenge, .. } => challenge.as_deref(),
            FailureKind::Lost(cause) => match cause.reason() {
                CloseReason::Unauthorized { challenge } => challenge.as_deref(),
                _ => None,
            },
            _ => match &self.delivery()?.kind {
                DeliveryErrorKind::Forbidden { challenge } => challenge.as_deref(),
                _ => None,
            },
        }
    }

    /// Records whether the entry's own `connectTimeout` applied, for the hint.
    pub(super) fn with_entry_timeout(mut self, is_from_entry: bool) -> Self {
        if let FailureKind::TimedOut(timeout) | FailureKind::MachineBusy(timeout) = &mut self.kind {
            timeout.is_from_entry = is_from_entry;
        }
        self
    }

    /// Returns whether the time limit expired because the machine was busy.
    pub fn is_machine_busy(&self) -> bool {
        matches!(self.kind, FailureKind::MachineBusy(_))
    }

    /// Returns the failure without our secrets, which the server may have echoed (SEC-1).
    pub(crate) fn redacted(&self, recorder: &Recorder) -> Self {
        let redact = |text: &String| recorder.redact(text).into_owned();
        let text = self.to_string();
        let redacted = match recorder.redact(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => Some(Arc::new(redacted)),
        };
        Self {
            kind: self.kind.clone(),
            stderr: self.stderr.iter().map(redact).collect(),
            nonsense: self.nonsense.as_ref().map(redact),
            redacted,
        }
    }

    /// Returns what the user can do about the failure.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.starts_with('~') => {
                Some("write the full path: only a shell expands \"~\"")
            }
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.contains('$') => {
                Some("a variable in the \"command\" is not set")
            }
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.contains(' ') => {
                Some("put only the program into \"command\", and its arguments into \"args\"")
            }
            FailureKind::Spawn(SpawnError::NotFound(_)) => {
                Some("install the program, or set \"command\" to its full path")
            }
            FailureKind::Spawn(SpawnError::NotExecutable(_)) => {
                Some("make the file executable, or start it through its interpreter")
            }
            FailureKind::Spawn(SpawnError::NoDirectory(_)) => {
                Some("correct the \"cwd\" of its entry")
            }
            FailureKind::TimedOut(_) if self.nonsense.is_some() => {
                Some("an MCP server must write only messages to stdout; make it log to stderr")
            }
            FailureKind::MachineBusy(timeout) if timeout.is_from_entry => Some(
                "retry when the machine is less busy, or raise connectTimeout (ms) in its entry",
            ),
            FailureKind::TimedOut(timeout) if timeout.is_from_entry => {
                Some("check that it is an MCP server, or raise connectTimeout (ms) in its entry")
            }
            FailureKind::MachineBusy(_) => Some(
                "retry when the machine is less busy, or raise MCP_TIMEOUT or connectTimeout in its entry (ms)",
            ),
            FailureKind::TimedOut(_) => Some(
                "check that it is an MCP server, or raise MCP_TIMEOUT or connectTimeout in its entry (ms)",
            ),
            FailureKind::Secret(SecretError::Missing(_)) => Some(
                "store it, for example with `secret-tool store --label=NAME service SERVICE username ACCOUNT`",
            ),
            FailureKind::Secret(SecretError::Unavailable(_)) => {
                Some("unlock the keychain, or use ${VARIABLE}")
            }
            FailureKind::Unauthorized { .. } => Some(SIGN_IN_HINT),
            FailureKind::Unreachable(failure) => hint_for(failure),
            FailureKind::Handshake(ConnectError::Request(RequestError::Delivery(failure))) => {
                hint_for(failure)
            }
            _ if self.closed().is_some_and(is_process) => {
                Some("run the command in a terminal to see why it exits")
            }
            FailureKind::Spawn(_)
            | FailureKind::Handshake(_)
            | FailureKind::Lost(_)
            | FailureKind::Abandoned => None,
            FailureKind::MissingFeature(_) => {
                Some("build the program with this feature of the crate `trunkline`")
            }
            FailureKind::NoBridge => Some("run it from an embedding program over `trunkline sdk`"),
        }
    }
}

fn is_process(cause: &Closed) -> bool {
    matches!(cause.reason(), CloseReason::Exited { .. })
}

fn hint_for(failure: &DeliveryError) -> Option<&'static str> {
    match failure.kind {
        // Certificate and proxy errors contain their own hint.
        DeliveryErrorKind::Unreachable if !failure.to_string().contains("; ") => {
            Some("check that it runs, and check the \"url\" in its entry")
        }
        DeliveryErrorKind::Status(404 | 405) => {
            Some("check the path in its \"url\", and its \"type\": \"http\" or \"sse\"")
        }
        DeliveryErrorKind::Forbidden { .. } => Some("check the token or headers in its entry"),
        _ => None,
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(redacted) = &self.redacted {
            return f.write_str(redacted);
        }
        match &self.kind {
            FailureKind::Spawn(error) => write!(f, "{error}"),
            FailureKind::Handshake(
                error @ (ConnectError::ClosedDuringProbe(_)
                | ConnectError::Request(RequestError::Closed { .. })),
            ) => write!(f, "{error} before it was connected"),
            FailureKind::Handshake(ConnectError::Request(RequestError::Rpc(error))) => {
                write!(f, "the server rejected the handshake: {error}")
            }
            FailureKind::Handshake(error) => write!(f, "{error}"),
            FailureKind::TimedOut(timeout) | FailureKind::MachineBusy(timeout) => {
                write!(
                    f,
                    "no answer to the handshake after {:.1} s",
                    timeout.after.as_secs_f64()
                )?;
                if self.is_machine_busy() {
                    f.write_str("; the machine was busy")?;
                }
                Ok(())
            }
            FailureKind::Lost(cause) => write!(f, "{cause}"),
            FailureKind::Unreachable(failure) => write!(f, "{failure}"),
            FailureKind::Unauthorized {
                said: Some(said), ..
            } => f.write_str(said),
            FailureKind::Unauthorized { .. } => f.write_str("the server asks for a sign-in"),
            FailureKind::Secret(error) => write!(f, "{error}"),
            FailureKind::NoBridge => {
                f.write_str("the server runs in an embedding program, and there is none")
            }
            FailureKind::MissingFeature(feature) => f.write_str(&absent::message(feature)),
            FailureKind::Abandoned => f.write_str("connecting was cancelled"),
        }?;
        if let Some(nonsense) = &self.nonsense {
            write!(f, "; stdout has output that is not a message: {nonsense:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectFailure {}
