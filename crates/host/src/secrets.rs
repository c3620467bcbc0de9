//! Resolves secrets that entries refer to (CFG-5).

use std::sync::Arc;

use trunkline_auth::Vault;
use trunkline_config::{KeyringRef, Secret, SecretError, ServerEntry};

use crate::absent;
use crate::logs::Recorder;

/// A source of secrets: the operating system's keychain, or the embedder's replacement.
pub trait Secrets: Send + Sync + 'static {
    /// Looks up a secret; may block. The error message must not contain a secret.
    fn get(&self, wanted: &KeyringRef) -> Result<Option<Secret>, String>;
}

impl<F> Secrets for F
where
    F: Fn(&KeyringRef) -> Result<Option<Secret>, String> + Send + Sync + 'static,
{
    fn get(&self, wanted: &KeyringRef) -> Result<Option<Secret>, String> {
        self(wanted)
    }
}

impl Secrets for Vault {
    fn get(&self, wanted: &KeyringRef) -> Result<Option<Secret>, String> {
        let found = Self::get(self, &wanted.service, &wanted.account);
        match found.map_err(|error| error.to_string())? {
            None if !cfg!(feature = "keychain") => Err(absent::message("keychain")),
            found => Ok(found),
        }
    }
}

/// Resolves an entry's secrets and hides them from logs. Runs on the blocking pool, since a
/// keychain may prompt the user.
pub(crate) async fn resolve(
    entry: &ServerEntry,
    secrets: Option<&Arc<dyn Secrets>>,
    recorder: &Recorder,
) -> Result<ServerEntry, SecretError> {
    let Some(secrets) = secrets.cloned() else {
        return Err(SecretError::Unavailable("the program has none".to_owned()));
    };
    let (entry, recorder) = (entry.clone(), recorder.clone());
    let resolved = tokio::task::spawn_blocking(move || {
        entry.with_secrets(|wanted| {
            let secret = secrets.get(wanted)?;
            if let Some(secret) = &secret {
                recorder.hide(secret.expose());
            }
            Ok(secret)
        })
    });
    resolved
        .await
        .unwrap_or_else(|error| Err(SecretError::Unavailable(error.to_string())))
}
