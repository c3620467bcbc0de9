//! The macOS Keychain and the Windows Credential Manager, through `keyring`'s stores.
//!
//! Their calls cannot be cancelled: one that waits for the user keeps its thread until the user
//! responds.

use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};

use super::{Access, KeychainError, Names};

pub(super) fn get(_: &Access, names: &Names) -> Result<Option<Vec<u8>>, KeychainError> {
    // A password rather than bytes, here and below: the system's own tools show and write
    // passwords, and Windows encodes the two differently.
    let found = found(entry(names)?.get_password())?;
    Ok(found.map(String::into_bytes))
}

pub(super) fn set(_: &Access, names: &Names, secret: &str) -> Result<(), KeychainError> {
    entry(names)?.set_password(secret).map_err(failure)
}

pub(super) fn delete(_: &Access, names: &Names) -> Result<bool, KeychainError> {
    Ok(found(entry(names)?.delete_credential())?.is_some())
}

fn entry(names: &Names) -> Result<Entry, KeychainError> {
    #[cfg(target_os = "macos")]
    let store = apple_native_keyring_store::keychain::Store::new();
    #[cfg(windows)]
    let store = windows_native_keyring_store::Store::new();
    store
        .and_then(|store| store.build(&names.service, &names.account, None))
        .map_err(failure)
}

fn found<T>(outcome: Result<T, Error>) -> Result<Option<T>, KeychainError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: Error) -> KeychainError {
    match error {
        Error::NoStorageAccess(_) => KeychainError::Locked,
        // These two contain the value.
        Error::BadEncoding(_) | Error::BadDataFormat(..) => KeychainError::NotText,
        other => KeychainError::Other(other.to_string()),
    }
}
