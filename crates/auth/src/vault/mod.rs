//! Storage for secrets: the OS keychain or, without one, a file that only its owner can read
//! (AUTH-3).
//!
//! An entry in the file is always newer than the keychain's: it is written only while there is no
//! keychain, and storing a secret in the keychain removes it from the file. So the file is read
//! first; otherwise a token renewed over SSH would be shadowed by its predecessor in the desktop's
//! keychain, and reusing that can revoke the whole sign-in.

mod error;
mod file;
#[cfg_attr(
    not(feature = "keychain"),
    expect(dead_code, reason = "there is no keychain")
)]
mod keychain;

use std::path::PathBuf;

pub use error::VaultError;

use crate::Secret;
use file::SecretFile;
use keychain::{Keychain, KeychainError};

/// Where a secret is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredIn {
    /// In the OS keychain.
    Keychain,
    /// In this file, because there is no keychain. The user should be warned once.
    File(PathBuf),
}

impl StoredIn {
    /// The warning to show once if the secret is in a file.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Keychain => None,
            Self::File(file) => Some(format!(
                "no keychain is available, so the secret is stored in {}, readable only by you",
                file.display()
            )),
        }
    }
}

fn client_key(server: &str, url: &str, metadata_url: Option<&str>) -> String {
    match metadata_url {
        Some(metadata_url) => format!("{server}|{url}|{metadata_url}"),
        None => format!("{server}|{url}"),
    }
}

/// The service of the client secrets for enterprise identity providers.
const IDP_SECRETS: &str = "trunkline XAA client secrets";

/// The service under which OAuth client secrets are stored (AUTH-10).
const CLIENT_SECRETS: &str = "trunkline OAuth client";

/// Stores secrets by service and account.
///
/// Nothing is opened or connected before the first access. Calls block, within limits: a keychain
/// has five seconds to respond, and twenty when it prompts the user.
///
/// ```
/// use trunkline_auth::{StoredIn, Secret, Vault};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("secrets.json");
/// let vault = Vault::without_keychain(&file);
/// let kept = vault.set("github", "me", &Secret::new("hunter2"))?;
/// assert_eq!(kept, StoredIn::File(file));
/// assert_eq!(vault.get("github", "me")?, Some(Secret::new("hunter2")));
/// assert!(vault.delete("github", "me")?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Vault {
    keychain: Option<Keychain>,
    file: SecretFile,
}

impl Vault {
    /// Uses the OS keychain or, without one, `fallback_file`.
    pub fn new(fallback_file: impl Into<PathBuf>) -> Self {
        Self {
            keychain: Some(Keychain::default()),
            file: SecretFile::at(fallback_file.into()),
        }
    }

    /// Uses only `file`, as if this machine had no keychain.
    pub fn without_keychain(file: impl Into<PathBuf>) -> Self {
        Self {
            keychain: None,
            file: SecretFile::at(file.into()),
        }
    }

    /// Uses the keychain of another session bus, by its D-Bus address. For tests, which must not
    /// touch the user's keychain.
    #[doc(hidden)]
    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub fn on_bus(fallback_file: impl Into<PathBuf>, address: impl Into<String>) -> Self {
        Self {
            keychain: Some(Keychain::on_bus(address.into())),
            file: SecretFile::at(fallback_file.into()),
        }
    }

    /// Returns the secret of `account` at `service`.
    pub fn get(&self, service: &str, account: &str) -> Result<Option<Secret>, VaultError> {
        named(service, account)?;
        if let Some(found) = self.file.get(service, account)? {
            return Ok(Some(Secret::new(found)));
        }
        let Some(keychain) = &self.keychain else {
            return Ok(None);
        };
        match keychain.get(service, account) {
            Ok(found) => Ok(found.map(Secret::new)),
            Err(KeychainError::NoKeychain) => Ok(None),
            Err(failure) => Err(failure.while_doing("read", service, account)),
        }
    }

    /// Stores `secret` for `account` at `service`, replacing an existing one. Returns where it is
    /// stored.
    pub fn set(
        &self,
        service: &str,
        account: &str,
        secret: &Secret,
    ) -> Result<StoredIn, VaultError> {
        named(service, account)?;
        if let Some(keychain) = &self.keychain {
            match keychain.set(service, account, secret.expose()) {
                Ok(()) => {
                    self.file.delete(service, account)?;
                    return Ok(StoredIn::Keychain);
                }
                Err(KeychainError::NoKeychain) => {}
                // A locked keychain is the user's choice; plain text in a file is no substitute.
                Err(failure) => return Err(failure.while_doing("store", service, account)),
            }
        }
        self.file.set(service, account, secret.expose())?;
        Ok(StoredIn::File(self.file.path().to_owned()))
    }

    /// Stores the OAuth client secret of a server. Its URL and its `authServerMetadataUrl` are part
    /// of the key, so that the secret is sent to no other server and no other issuer.
    pub fn set_client_secret(
        &self,
        server: &str,
        url: &str,
        metadata_url: Option<&str>,
        secret: &Secret,
    ) -> Result<StoredIn, VaultError> {
        let key = client_key(server, url, metadata_url);
        self.set(CLIENT_SECRETS, &key, secret)
    }

    /// Returns the OAuth client secret of a server.
    pub fn client_secret(
        &self,
        server: &str,
        url: &str,
        metadata_url: Option<&str>,
    ) -> Result<Option<Secret>, VaultError> {
        self.get(CLIENT_SECRETS, &client_key(server, url, metadata_url))
    }

    /// Deletes the OAuth client secret of a server. Returns whether there was one.
    pub fn delete_client_secret(
        &self,
        server: &str,
        url: &str,
        metadata_url: Option<&str>,
    ) -> Result<bool, VaultError> {
        self.delete(CLIENT_SECRETS, &client_key(server, url, metadata_url))
    }

    /// Stores the OAuth client secret for an enterprise identity provider (AUTH-9).
    pub fn set_idp_secret(&self, issuer: &str, secret: &Secret) -> Result<StoredIn, VaultError> {
        self.set(IDP_SECRETS, issuer, secret)
    }

    /// Returns the OAuth client secret for an enterprise identity provider.
    pub fn idp_secret(&self, issuer: &str) -> Result<Option<Secret>, VaultError> {
        self.get(IDP_SECRETS, issuer)
    }

    /// Deletes the OAuth client secret for an enterprise identity provider. Returns whether there
    /// was one.
    pub fn delete_idp_secret(&self, issuer: &str) -> Result<bool, VaultError> {
        self.delete(IDP_SECRETS, issuer)
    }

    /// Deletes the secret of `account` at `service`, wherever it is stored. Returns whether there
    /// was one.
    pub fn delete(&self, service: &str, account: &str) -> Result<bool, VaultError> {
        named(service, account)?;
        let was_in_file = self.file.delete(service, account)?;
        let Some(keychain) = &self.keychain else {
            return Ok(was_in_file);
        };
        match keychain.delete(service, account) {
            Ok(was_in_keychain) => Ok(was_in_file || was_in_keychain),
            Err(KeychainError::NoKeychain) => Ok(was_in_file),
            Err(failure) => Err(failure.while_doing("delete", service, account)),
        }
    }
}

/// An empty name would match more than one secret in some keychains.
fn named(service: &str, account: &str) -> Result<(), VaultError> {
    if service.is_empty() || account.is_empty() {
        return Err(VaultError::Unnamed);
    }
    Ok(())
}
