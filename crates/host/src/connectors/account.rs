//! Credentials for the proxy of claude.ai's connectors: the signed-in account (TRN-1).

use std::sync::{Mutex, PoisonError};

use trunkline_transport::credentials::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, Refusal, Token,
};

use super::credentials::TokenSource;

/// Sends the account's token. Claude Code renews the token in its file, so a refused token is read
/// again from there.
pub(super) struct AccountCredentials {
    source: TokenSource,
    current: Mutex<Option<Token>>,
}

impl AccountCredentials {
    pub(super) fn new(source: TokenSource) -> Self {
        Self {
            source,
            current: Mutex::default(),
        }
    }

    async fn read(&self) -> Result<Option<Token>, CredentialsError> {
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let failed = |error: String| CredentialsError(error);
        let token = read
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))?;
        let token = token.and_then(|token| Token::bearer(token.expose()));
        self.lock().clone_from(&token);
        Ok(token)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Token>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credentials for AccountCredentials {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async {
            let current = self.lock().clone();
            match current {
                Some(token) => Ok(Some(token)),
                None => self.read().await,
            }
        })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        Box::pin(async move {
            // Compare with the token that was sent: another request may already have read a new
            // one.
            let current = self.lock().clone();
            if current.is_some() && current != refusal.sent {
                return AfterRefusal::Retry;
            }
            match self.read().await {
                Ok(Some(found)) if Some(&found) != refusal.sent.as_ref() => AfterRefusal::Retry,
                _ => AfterRefusal::GiveUp,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refusal(sent: Option<Token>) -> Refusal {
        Refusal {
            status: 401,
            challenge: None,
            sent,
        }
    }

    #[tokio::test]
    async fn refused_token_is_reread_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.json");
        let write = |token: &str| {
            let text = serde_json::json!({"claudeAiOauth": {"accessToken": token}});
            fs::write(&file, text.to_string()).unwrap();
        };
        write("old");
        let account = AccountCredentials::new(TokenSource::File(file.clone()));
        let old = account.token().await.unwrap();
        assert_eq!(old, Token::bearer("old"));
        assert_eq!(
            account.refused(refusal(old.clone())).await,
            AfterRefusal::GiveUp
        );

        write("new");
        assert_eq!(
            account.refused(refusal(old.clone())).await,
            AfterRefusal::Retry
        );
        assert_eq!(account.token().await.unwrap(), Token::bearer("new"));
        // A request still in flight with the old token need not read the file again.
        fs::remove_file(&file).unwrap();
        assert_eq!(account.refused(refusal(old)).await, AfterRefusal::Retry);
        assert_eq!(
            account.refused(refusal(Token::bearer("new"))).await,
            AfterRefusal::GiveUp
        );
    }
}
