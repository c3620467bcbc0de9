//! Where secrets are kept: the OS keychain, and where there is none, a file that only its owner can read (AUTH-3).
//!
//! A file entry is always newer than what the keychain holds under the same names: it is written only while there is no
//! keychain, and keeping a secret in the keychain removes it from the file. So the file is looked into first; otherwise a
//! token that was renewed over SSH would be shadowed by its predecessor in the desktop's keychain, and using that again can
//! end the whole sign-in.

mod error;
mod file;
mod keychain;

use std::path::PathBuf;

pub use error::VaultError;

use crate::Secret;
use file::SecretFile;
use keychain::{Failure, Keychain};

/// Where a secret was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the OS keychain.
    Keychain,
    /// In this file, because there is no keychain. The user should be told, once.
    File(PathBuf),
}

impl Kept {
    /// What the user should be told, once: that the secret is in a file.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Keychain => None,
            Self::File(file) => Some(format!(
                "there is no keychain here, so the secret is kept in {}, readable only for you",
                file.display()
            )),
        }
    }
}

/// The service under which OAuth client secrets are kept (AUTH-10).
const CLIENT_SECRETS: &str = "trunkline OAuth client";

/// Keeps secrets by service and account.
///
/// Nothing is opened, connected or started before the first secret is asked for. Each call blocks, but not for ever: a
/// keychain has five seconds to answer, and twenty when it asks the user to unlock it.
///
/// ```
/// use trunkline_auth::{Kept, Secret, Vault};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("secrets.json");
/// let vault = Vault::without_keychain(&file);
/// let kept = vault.set("github", "me", &Secret::new("hunter2"))?;
/// assert_eq!(kept, Kept::File(file));
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
    /// The OS keychain, and where there is none, `fallback_file`.
    pub fn new(fallback_file: impl Into<PathBuf>) -> Self {
        Self {
            keychain: Some(Keychain::default()),
            file: SecretFile::at(fallback_file.into()),
        }
    }

    /// `file` alone, as if this machine had no keychain.
    pub fn without_keychain(file: impl Into<PathBuf>) -> Self {
        Self {
            keychain: None,
            file: SecretFile::at(file.into()),
        }
    }

    /// The keychain of another session bus, by its D-Bus address. For tests: the user's own keychain must stay out of them.
    #[doc(hidden)]
    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub fn on_bus(fallback_file: impl Into<PathBuf>, address: impl Into<String>) -> Self {
        Self {
            keychain: Some(Keychain::on_bus(address.into())),
            file: SecretFile::at(fallback_file.into()),
        }
    }

    /// The secret of `account` at `service`, if one is kept.
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
            Err(Failure::NoKeychain) => Ok(None),
            Err(failure) => Err(failure.while_doing("read", service, account)),
        }
    }

    /// Keeps `secret` for `account` at `service`, in the place of one that is there. Says where.
    pub fn set(&self, service: &str, account: &str, secret: &Secret) -> Result<Kept, VaultError> {
        named(service, account)?;
        if let Some(keychain) = &self.keychain {
            match keychain.set(service, account, secret.expose()) {
                Ok(()) => {
                    self.file.delete(service, account)?;
                    return Ok(Kept::Keychain);
                }
                Err(Failure::NoKeychain) => {}
                // A keychain that is there but locked is the user's choice. Plain text in a file is not a substitute.
                Err(failure) => return Err(failure.while_doing("keep", service, account)),
            }
        }
        self.file.set(service, account, secret.expose())?;
        Ok(Kept::File(self.file.path().to_owned()))
    }

    /// Keeps the OAuth client secret of a server. The URL is part of what it is kept by, so that it goes to no other.
    pub fn set_client_secret(
        &self,
        server: &str,
        url: &str,
        secret: &Secret,
    ) -> Result<Kept, VaultError> {
        self.set(CLIENT_SECRETS, &format!("{server}|{url}"), secret)
    }

    /// The OAuth client secret of a server, if one is kept.
    pub fn client_secret(&self, server: &str, url: &str) -> Result<Option<Secret>, VaultError> {
        self.get(CLIENT_SECRETS, &format!("{server}|{url}"))
    }

    /// Forgets the OAuth client secret of a server. Says whether there was one.
    pub fn delete_client_secret(&self, server: &str, url: &str) -> Result<bool, VaultError> {
        self.delete(CLIENT_SECRETS, &format!("{server}|{url}"))
    }

    /// Forgets the secret of `account` at `service`, wherever it is kept. Says whether there was one.
    pub fn delete(&self, service: &str, account: &str) -> Result<bool, VaultError> {
        named(service, account)?;
        let was_in_file = self.file.delete(service, account)?;
        let Some(keychain) = &self.keychain else {
            return Ok(was_in_file);
        };
        match keychain.delete(service, account) {
            Ok(was_in_keychain) => Ok(was_in_file || was_in_keychain),
            Err(Failure::NoKeychain) => Ok(was_in_file),
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
