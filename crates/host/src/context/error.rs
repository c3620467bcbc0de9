//! Why a resource, a prompt or a skill could not be had.

use trunkline_wire::RequestError;
use trunkline_wire::transport::DeliveryErrorKind;

use crate::call::reason;
use crate::connection::{SIGN_IN_HINT, State};

/// Why a resource, a prompt or a skill could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContextError {
    /// There is no such server.
    #[error("there is no server \"{server}\"")]
    UnknownServer {
        /// What was asked for.
        server: String,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// There is no such prompt.
    #[error("there is no prompt \"{name}\"")]
    UnknownPrompt {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// A prompt cannot be had with these arguments.
    #[error("the prompt \"{prompt}\" {problem}")]
    BadArguments {
        /// The prompt.
        prompt: String,
        /// What is wrong, beginning with a verb.
        problem: String,
    },
    /// No server can be asked for such an address.
    #[error("this is no address of a resource: {reason}")]
    BadUri {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The server does not offer such a thing at all.
    #[error("the server \"{server}\" {lacks}")]
    Unsupported {
        /// The server.
        server: String,
        /// What it does not do, beginning with a verb.
        lacks: &'static str,
    },
    /// A rule forbids everything of the server (TOOL-10).
    #[error(
        "nothing of \"{server}\" may be used: the rule \"{rule}\" of {source_of_rule} denies it"
    )]
    Denied {
        /// The server.
        server: String,
        /// The rule.
        rule: String,
        /// Where it stands.
        source_of_rule: String,
    },
    /// The server is not connected.
    #[error("the server \"{server}\" is not connected: {}", reason(state))]
    NotConnected {
        /// The server.
        server: String,
        /// Where its connection stands.
        state: State,
    },
    /// The server did not give it.
    #[error("{what} of \"{server}\" could not be had: {error}")]
    Failed {
        /// The server.
        server: String,
        /// What was asked for.
        what: String,
        /// Why not.
        error: RequestError,
    },
    /// What a skill holds is not what its server lists.
    #[error("the skill \"{skill}\" of \"{server}\" was not loaded: {reason}")]
    Unverified {
        /// The server.
        server: String,
        /// The skill's name.
        skill: String,
        /// What differs.
        reason: String,
    },
}

impl ContextError {
    fn kind(&self) -> Option<&DeliveryErrorKind> {
        match self {
            Self::Failed {
                error: RequestError::Delivery(failure),
                ..
            } => Some(&failure.kind),
            _ => None,
        }
    }

    /// The caller asked for something that is not there or not well-formed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownServer { .. }
                | Self::UnknownPrompt { .. }
                | Self::BadArguments { .. }
                | Self::BadUri { .. }
        )
    }

    /// A rule was against it.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    /// No answer in time.
    pub fn is_timeout(&self) -> bool {
        let late = matches!(
            self,
            Self::Failed {
                error: RequestError::Timeout { .. } | RequestError::Idle { .. },
                ..
            }
        );
        late || self.kind() == Some(&DeliveryErrorKind::Timeout)
    }

    /// The server could not be reached, or was lost.
    pub fn is_connection(&self) -> bool {
        match self {
            Self::NotConnected { .. }
            | Self::Failed {
                error: RequestError::Closed { .. },
                ..
            } => true,
            _ => matches!(
                self.kind(),
                Some(
                    DeliveryErrorKind::Unreachable
                        | DeliveryErrorKind::Broken
                        | DeliveryErrorKind::SessionExpired
                )
            ),
        }
    }

    /// The server wants a sign-in.
    pub fn is_auth_required(&self) -> bool {
        match self {
            Self::NotConnected { state, .. } => matches!(state, State::NeedsAuth(_)),
            _ => matches!(self.kind(), Some(DeliveryErrorKind::Unauthorized { .. })),
        }
    }

    /// The server's last lines on stderr, where they may explain it; untrusted text.
    pub fn stderr(&self) -> &[String] {
        match self {
            Self::NotConnected { state, .. } => state
                .failure()
                .map(|failure| &failure.stderr[..])
                .unwrap_or_default(),
            Self::Failed {
                error: RequestError::Closed { cause, .. },
                ..
            } => cause.stderr(),
            _ => &[],
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownServer { suggestion, .. } | Self::UnknownPrompt { suggestion, .. } => {
                let suggestion = suggestion.as_ref()?;
                Some(format!("did you mean \"{suggestion}\"?"))
            }
            Self::NotConnected { state, .. } => state.hint().map(str::to_owned),
            _ if self.is_auth_required() => Some(SIGN_IN_HINT.to_owned()),
            _ => None,
        }
    }
}
