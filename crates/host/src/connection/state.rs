//! The states of a connection (LIF-1): one enum, so that nothing contradictory can be written down.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_config::SecretError;
use trunkline_transport::stdio::StderrLog;
use trunkline_transport::{SpawnError, WsError};
use trunkline_wire::client::ConnectError;
use trunkline_wire::mcp::ServerIdentity;
use trunkline_wire::transport::{CloseReason, Closed, DeliveryError, DeliveryErrorKind};
use trunkline_wire::version::Era;
use trunkline_wire::{Client, RequestError};

use super::start_clock::Expired;
use crate::logs::Recorder;

/// What to do about a server that wants to know who we are.
pub(crate) const SIGN_IN_HINT: &str =
    "give it a token that it accepts, for example as a header \"Authorization\" in its entry";

/// Where a connection stands.
#[derive(Clone, Debug)]
pub enum State {
    /// It is being made, will be tried again, or waits for somebody to need it.
    Pending {
        /// The first attempt is 1; 0 is a lazy server that nobody has asked for yet (LIF-13).
        attempt: u32,
        /// Why the one before failed.
        last_failure: Option<Arc<ConnectFailure>>,
    },
    /// It stands.
    Connected(Arc<Connected>),
    /// The server wants a sign-in first; the failure tells how it said so.
    NeedsAuth(Arc<ConnectFailure>),
    /// It could not be made; nothing happens until somebody asks for it again.
    Failed(Arc<ConnectFailure>),
    /// It is switched off.
    Disabled,
}

impl State {
    /// Why it is not connected: the last attempt's failure, whether or not another will be made.
    pub fn failure(&self) -> Option<&Arc<ConnectFailure>> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Pending { last_failure, .. } => last_failure.as_ref(),
            Self::Connected(_) | Self::NeedsAuth(_) | Self::Disabled => None,
        }
    }

    /// How the server asks for a sign-in, if it does; its own words included.
    pub fn sign_in(&self) -> Option<&Arc<ConnectFailure>> {
        match self {
            Self::NeedsAuth(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether it waits for somebody to need the server.
    pub(crate) fn is_lazy(&self) -> bool {
        matches!(self, Self::Pending { attempt: 0, .. })
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NeedsAuth(_) => Some(SIGN_IN_HINT),
            state => state.failure()?.hint(),
        }
    }

    /// The state's name in `list --json`.
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

/// A connection that stands.
pub struct Connected {
    pub(crate) client: Client,
    pub(crate) stderr: Option<StderrLog>,
    pub(crate) is_sse: bool,
}

impl Connected {
    /// Who the server says it is, and what it offers.
    pub fn identity(&self) -> &ServerIdentity {
        self.client.identity()
    }

    /// Which era the server belongs to.
    pub fn era(&self) -> Era {
        self.client.era()
    }

    /// Whether it speaks HTTP+SSE, which an entry with a URL and no `type` does not tell.
    pub fn is_sse(&self) -> bool {
        self.is_sse
    }

    /// The newest lines on the server's stderr; untrusted text.
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

/// Why a connection could not be made, or was lost.
#[derive(Clone, Debug)]
pub struct ConnectFailure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The server's last lines on stderr; untrusted text.
    pub stderr: Vec<String>,
    /// What it wrote to stdout that was no message, if anything; untrusted text.
    pub nonsense: Option<String>,
    /// The whole in words, where those would hold a secret of ours.
    redacted: Option<Arc<String>>,
}

/// What went wrong with a connection.
#[derive(Clone, Debug)]
pub enum FailureKind {
    /// The process could not be started.
    Spawn(SpawnError),
    /// The handshake failed.
    Handshake(ConnectError),
    /// The server could not be reached, or not in the way its entry says.
    Unreachable(DeliveryError),
    /// The server wants to know who we are.
    Unauthorized {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
        /// What the answer says besides; untrusted text.
        said: Option<String>,
    },
    /// It took too long.
    TimedOut(Duration),
    /// It took too long, because the machine was busy with other things.
    MachineBusy(Duration),
    /// It stood, and was lost.
    Lost(Closed),
    /// A secret that its entry refers to could not be had.
    Secret(SecretError),
    /// The server lives in an embedding process, and there is none.
    NoBridge,
    /// It was given up on our side before it stood.
    Abandoned,
}

impl FailureKind {
    /// What it means that nothing could be delivered.
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

    pub(super) fn from_websocket(error: &WsError) -> Self {
        let kind = match error {
            WsError::Unauthorized { challenge } => {
                return Self::Unauthorized {
                    challenge: challenge.clone(),
                    said: None,
                };
            }
            WsError::Forbidden { challenge } => DeliveryErrorKind::Forbidden {
                challenge: challenge.clone(),
            },
            WsError::NotFound => DeliveryErrorKind::Status(404),
            WsError::Status { status } => DeliveryErrorKind::Status(*status),
            WsError::Redirect { .. } => DeliveryErrorKind::Redirected,
            WsError::TimedOut(_) => DeliveryErrorKind::Timeout,
            WsError::Header(_) | WsError::Dial(_) => DeliveryErrorKind::Unreachable,
            _ => DeliveryErrorKind::Broken,
        };
        let text = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Self::Unreachable(DeliveryError::new(kind, text, false))
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

/// What ended the link, where that is why the handshake failed.
fn closed(error: &ConnectError) -> Option<&Closed> {
    match error {
        ConnectError::ClosedDuringProbe(cause)
        | ConnectError::Request(RequestError::Closed { cause, .. }) => Some(cause),
        _ => None,
    }
}

impl ConnectFailure {
    /// Whether a sign-in would help.
    pub fn is_auth_required(&self) -> bool {
        matches!(self.kind, FailureKind::Unauthorized { .. })
    }

    pub(crate) fn new(kind: FailureKind) -> Self {
        let stderr = match &kind {
            FailureKind::Handshake(error) => closed(error).map(Closed::stderr),
            FailureKind::Lost(cause) => Some(cause.stderr()),
            _ => None,
        };
        let stderr = stderr.unwrap_or_default().to_vec();
        Self {
            kind,
            stderr,
            nonsense: None,
            redacted: None,
        }
    }

    pub(super) fn timed_out(expired: Expired) -> Self {
        let after = expired.after;
        Self::new(if expired.is_machine_busy() {
            FailureKind::MachineBusy(after)
        } else {
            FailureKind::TimedOut(after)
        })
    }

    /// Whether it timed out because the machine was busy with other things.
    pub fn is_machine_busy(&self) -> bool {
        matches!(self.kind, FailureKind::MachineBusy(_))
    }

    /// The same without our secrets, which the server may have repeated to us (SEC-1).
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

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.starts_with('~') => {
                Some("write the full path: \"~\" is the shell's, and there is no shell")
            }
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.contains('$') => {
                Some("a variable in the \"command\" is not set")
            }
            FailureKind::Spawn(SpawnError::NotFound(command)) if command.contains(' ') => {
                Some("the \"command\" is the program alone; its arguments belong into \"args\"")
            }
            FailureKind::Spawn(SpawnError::NotFound(_)) => {
                Some("install the program, or write its full path as the \"command\"")
            }
            FailureKind::Spawn(SpawnError::NotExecutable(_)) => {
                Some("make the file executable, or start it through its interpreter")
            }
            FailureKind::Spawn(SpawnError::NoDirectory(_)) => {
                Some("correct the \"cwd\" of its entry")
            }
            FailureKind::TimedOut(_) if self.nonsense.is_some() => {
                Some("an MCP server may write only messages to stdout; have it log to stderr")
            }
            FailureKind::MachineBusy(_) => Some(
                "try again when the machine has less to do; MCP_TIMEOUT, or connectTimeout in its entry (ms), gives it more time",
            ),
            FailureKind::TimedOut(_) => Some(
                "check that it is an MCP server; MCP_TIMEOUT, or connectTimeout in its entry (ms), gives it more time",
            ),
            FailureKind::Secret(SecretError::Missing(_)) => Some(
                "store it, for example with `secret-tool store --label=NAME service SERVICE username ACCOUNT`",
            ),
            FailureKind::Secret(SecretError::Unavailable(_)) => {
                Some("unlock the keychain, or write the secret as ${VARIABLE}")
            }
            FailureKind::Unauthorized { .. } => Some(SIGN_IN_HINT),
            FailureKind::Unreachable(failure) => hint_for(failure),
            FailureKind::Handshake(ConnectError::Request(RequestError::Delivery(failure))) => {
                hint_for(failure)
            }
            FailureKind::Handshake(error) if closed(error).is_some_and(is_process) => {
                Some("run the command by itself to see why it ends")
            }
            FailureKind::Lost(cause) if is_process(cause) => {
                Some("run the command by itself to see why it ends")
            }
            FailureKind::Spawn(_)
            | FailureKind::Handshake(_)
            | FailureKind::Lost(_)
            | FailureKind::Abandoned => None,
            FailureKind::NoBridge => {
                Some("`trunkline sdk` is for programs that bring such servers along")
            }
        }
    }
}

fn is_process(cause: &Closed) -> bool {
    matches!(cause.reason(), CloseReason::Exited { .. })
}

fn hint_for(failure: &DeliveryError) -> Option<&'static str> {
    match failure.kind {
        // What is wrong with a certificate or a proxy says itself what to do.
        DeliveryErrorKind::Unreachable if !failure.to_string().contains("; ") => {
            Some("check that it runs, and the \"url\" of its entry")
        }
        DeliveryErrorKind::Status(404 | 405) => {
            Some("check the path in its \"url\", and its \"type\": \"http\" or \"sse\"")
        }
        DeliveryErrorKind::Forbidden { .. } => {
            Some("check the token or the headers that its entry sends")
        }
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
                write!(f, "the server turned down the handshake: {error}")
            }
            FailureKind::Handshake(error) => write!(f, "{error}"),
            FailureKind::TimedOut(after) | FailureKind::MachineBusy(after) => {
                write!(
                    f,
                    "no answer to the handshake after {:.1} s",
                    after.as_secs_f64()
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
                f.write_str("the server lives in an embedding program, and there is none")
            }
            FailureKind::Abandoned => f.write_str("connecting was given up"),
        }?;
        if let Some(nonsense) = &self.nonsense {
            write!(
                f,
                "; it wrote to stdout what is not a message: {nonsense:?}"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectFailure {}
