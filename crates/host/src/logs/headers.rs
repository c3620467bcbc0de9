//! Hides the headers and tokens of requests from logs.

use std::sync::{Arc, Mutex, PoisonError};

use trunkline_config::redact::header_secrets;
use trunkline_transport::credentials::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, Refusal, Token,
};

use super::Recorder;
use super::redact::Redactor;

impl Recorder {
    /// Hides a header from a `headersHelper`.
    pub(crate) fn hide_header(&self, name: &str, value: &str) {
        let secrets = header_secrets(name, value);
        self.redactor.hide_all(secrets.iter().map(String::as_str));
    }

    /// Wraps credentials so that tokens are hidden before they are sent.
    pub(crate) fn credentials(
        &self,
        credentials: Option<Arc<dyn Credentials>>,
    ) -> Option<Arc<dyn Credentials>> {
        let credentials = credentials?;
        Some(Arc::new(RedactedCredentials {
            credentials,
            redactor: self.redactor.clone(),
            hidden: Mutex::default(),
        }))
    }
}

/// Credentials that hide their tokens from logs.
struct RedactedCredentials {
    credentials: Arc<dyn Credentials>,
    redactor: Redactor,
    /// The last token that was hidden: most requests have the same.
    hidden: Mutex<Option<Token>>,
}

impl RedactedCredentials {
    fn hide(&self, token: &Token) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if hidden.as_ref() != Some(token) {
            let secrets = header_secrets("Authorization", token.expose());
            self.redactor.hide_all(secrets.iter().map(String::as_str));
            *hidden = Some(token.clone());
        }
    }
}

impl Credentials for RedactedCredentials {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async {
            let token = self.credentials.token().await?;
            if let Some(token) = &token {
                self.hide(token);
            }
            Ok(token)
        })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        self.credentials.refused(refusal)
    }
}
