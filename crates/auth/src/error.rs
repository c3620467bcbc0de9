//! Errors of signing in and of tokens.

use trunkline_config::redact::Redactor;

use crate::{Secret, VaultError};

/// The longest text of an authorization server that an error repeats, in characters.
const MAX_FOREIGN: usize = 300;

/// An error of signing in, or of getting a token. Never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuthError {
    kind: AuthErrorKind,
    message: String,
    code: Option<String>,
    process: Option<u32>,
}

/// The kinds of [`AuthError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthErrorKind {
    /// A server could not be reached, or failed. A later attempt may succeed.
    Unavailable,
    /// A URL or an address is not allowed (AUTH-11).
    Refused,
    /// The metadata of a server is missing or invalid.
    Metadata,
    /// The client could not be registered.
    Registration,
    /// The authorization server rejected a request.
    Rejected,
    /// The authorization server no longer accepts the refresh token, code or assertion.
    InvalidGrant,
    /// The authorization server does not know the client, or not with this secret.
    InvalidClient,
    /// The user or a policy denied the request.
    Denied,
    /// A redirect belongs to another sign-in, or to another authorization server.
    WrongRedirect,
    /// Nobody completed the sign-in in time.
    TimedOut,
    /// The sign-in was cancelled.
    Cancelled,
    /// Another process is signing in to the same server.
    InProgress,
    /// Another program listens on the port of the callback.
    PortInUse,
    /// The user has to sign in.
    SignInRequired,
    /// The settings do not allow this kind of sign-in.
    Settings,
    /// The authorization server does not offer this kind of sign-in.
    UnsupportedGrant,
    /// The vault or another local file could not be used.
    Storage,
}

impl AuthError {
    pub(crate) fn new(kind: AuthErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: None,
            process: None,
        }
    }

    /// Creates the error for a sign-in that another process, if it is known, has begun.
    pub(crate) fn in_progress(process: Option<u32>) -> Self {
        let who = match process {
            Some(process) => format!("process {process}"),
            None => "another process".to_owned(),
        };
        let text = format!("{who} is already signing in to this server");
        Self::new(AuthErrorKind::InProgress, text).with_process(process)
    }

    pub(crate) fn with_process(mut self, process: Option<u32>) -> Self {
        self.process = process;
        self
    }

    /// Creates the error for an error code of an authorization server. Both texts are foreign and
    /// may repeat `secrets` of the request.
    pub(crate) fn from_oauth(
        kind: AuthErrorKind,
        code: &str,
        description: Option<&str>,
        secrets: &[Secret],
    ) -> Self {
        // Before the texts are cut: a part of a secret would not be found.
        let masked = |text: &str| foreign(&mask(text, secrets));
        let code = masked(code);
        let message = match description.map(masked) {
            Some(description) if !description.is_empty() => {
                format!("the authorization server reports {code}: {description}")
            }
            _ => format!("the authorization server reports {code}"),
        };
        Self {
            kind,
            message,
            code: Some(code),
            process: None,
        }
    }

    pub(crate) fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    pub(crate) fn with_kind(mut self, kind: AuthErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> AuthErrorKind {
        self.kind
    }

    /// The error code of the authorization server, such as `invalid_scope`.
    pub fn oauth_code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The process that is in the way, for [`AuthErrorKind::InProgress`] and
    /// [`AuthErrorKind::PortInUse`], where the system tells.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Whether a later attempt may succeed without the user.
    pub fn is_retryable(&self) -> bool {
        self.kind == AuthErrorKind::Unavailable
    }

    /// Whether only a new sign-in helps.
    pub fn is_sign_in_required(&self) -> bool {
        matches!(
            self.kind,
            AuthErrorKind::SignInRequired
                | AuthErrorKind::InvalidGrant
                | AuthErrorKind::InvalidClient
        )
    }

    /// Whether the user or a policy denied the request.
    pub fn is_denied(&self) -> bool {
        self.kind == AuthErrorKind::Denied
    }
}

impl From<VaultError> for AuthError {
    fn from(error: VaultError) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::new(AuthErrorKind::Storage, text)
    }
}

/// Replaces secrets that a server has repeated.
fn mask(text: &str, secrets: &[Secret]) -> String {
    let redactor = Redactor::default();
    redactor.hide_all(secrets.iter().map(Secret::expose));
    redactor.known(text).into_owned()
}

/// Text of a server for a message: one line, bounded, without control characters.
pub(crate) fn foreign(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line: String = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_FOREIGN + 1)
        .collect();
    if line.chars().count() > MAX_FOREIGN {
        line.pop();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_vault_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let vault = crate::Vault::without_keychain(folder.path());
        let error = AuthError::from(vault.get("a", "b").unwrap_err());
        assert!(error.to_string().ends_with(": it is not a file"), "{error}");
    }

    #[test]
    fn foreign_text_is_one_bounded_line() {
        let error = AuthError::from_oauth(
            AuthErrorKind::Rejected,
            "bad\n\u{1b}[31m",
            Some(&format!("a\r\nb {}", "x".repeat(1000))),
            &[],
        );
        let text = error.to_string();
        assert!(!text.contains(['\n', '\r', '\u{1b}']), "{text:?}");
        assert!(text.chars().count() < 400, "{text}");
        assert_eq!(error.oauth_code(), Some("bad [31m"));
    }

    #[test]
    fn a_secret_is_masked_before_the_text_is_cut() {
        let secret = Secret::new("hunter2-hunter2-hunter2");
        for before in MAX_FOREIGN - 22..=MAX_FOREIGN {
            let text = format!("{} {}", "x".repeat(before), secret.expose());
            let secrets = std::slice::from_ref(&secret);
            let error = AuthError::from_oauth(AuthErrorKind::Rejected, &text, Some(&text), secrets);
            assert!(!format!("{error:?}").contains("hun"), "{error:?}");
        }
    }
}
