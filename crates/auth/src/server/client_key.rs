//! The private key that a client authenticates with (`private_key_jwt`).

use std::path::Path;
use std::sync::Arc;

use super::config::Grant;
use super::{Inner, blocking};
use crate::Secret;
use crate::error::{AuthError, AuthErrorKind};
use crate::files::read_bounded;
use crate::flow::SigningKey;

/// The largest file of a private key, in bytes.
const MAX_KEY: u64 = 64 * 1024;

impl Inner {
    /// The key of the client: the program's, or that of the entry's file, or one that is stored as
    /// the client secret. `None` if the client authenticates otherwise. The file is read each time,
    /// because keys are rotated.
    pub(super) async fn signing_key(&self) -> Result<Option<Arc<SigningKey>>, AuthError> {
        let Grant::ClientCredentials { key } = &self.config.grant else {
            return Ok(None);
        };
        if let Some(key) = key {
            return Ok(Some(Arc::clone(key)));
        }
        if let Some(file) = self.config.oauth.private_key_file.clone() {
            let pem = blocking(move || read_key(&file)).await??;
            return self.parse_key(&pem, "oauth.privateKeyFile").map(Some);
        }
        let stored = self.client_secret().await?;
        let pem = stored.filter(|secret| secret.expose().trim_start().starts_with("-----BEGIN "));
        pem.map(|pem| self.parse_key(&pem, "the stored client secret"))
            .transpose()
    }

    fn parse_key(&self, pem: &Secret, from: &str) -> Result<Arc<SigningKey>, AuthError> {
        let key = SigningKey::from_pem(pem).map_err(|error| {
            AuthError::new(AuthErrorKind::Settings, error.to_string()).context(from)
        })?;
        Ok(Arc::new(match &self.config.oauth.key_id {
            Some(key_id) => key.with_key_id(key_id),
            None => key,
        }))
    }
}

/// Reads the file of a private key. Blocks.
fn read_key(file: &Path) -> Result<Secret, AuthError> {
    let failed = |reason: &str| {
        let text = format!("cannot read the private key {}: {reason}", file.display());
        AuthError::new(AuthErrorKind::Settings, text)
    };
    let found = std::fs::metadata(file).map_err(|error| failed(&error.to_string()))?;
    if !found.is_file() {
        return Err(failed("it is not a file"));
    }
    if found.len() > MAX_KEY {
        return Err(failed("it is too large"));
    }
    let bytes = read_bounded(file, MAX_KEY).ok_or_else(|| failed("permission denied"))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not in PEM format"))?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_are_read_as_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let problem = |file: &Path| read_key(file).unwrap_err().to_string();
        assert!(problem(&file).contains("No such file"));
        assert!(problem(folder.path()).contains("not a file"));
        std::fs::write(&file, vec![b'x'; 70_000]).unwrap();
        assert!(problem(&file).contains("too large"));
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(problem(&file).contains("PEM"));
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_key(&file).unwrap(), Secret::new("text"));
    }
}
