//! The macOS Keychain and the Windows Credential Manager, through `keyring`'s stores.
//!
//! Their calls cannot be cancelled: one that waits for the user keeps its thread until the user has answered.

use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};

use super::{Access, Failure, Names};

pub(super) fn get(_: &Access, names: &Names) -> Result<Option<Vec<u8>>, Failure> {
    // As a password and not as bytes, here and below: that is what the system's own tools show and write, and Windows
    // encodes the one differently from the other.
    let found = found(entry(names)?.get_password())?;
    Ok(found.map(String::into_bytes))
}

pub(super) fn set(_: &Access, names: &Names, secret: &str) -> Result<(), Failure> {
    entry(names)?.set_password(secret).map_err(failure)
}

pub(super) fn delete(_: &Access, names: &Names) -> Result<bool, Failure> {
    Ok(found(entry(names)?.delete_credential())?.is_some())
}

fn entry(names: &Names) -> Result<Entry, Failure> {
    #[cfg(target_os = "macos")]
    let store = apple_native_keyring_store::keychain::Store::new();
    #[cfg(windows)]
    let store = windows_native_keyring_store::Store::new();
    store
        .and_then(|store| store.build(&names.service, &names.account, None))
        .map_err(failure)
}

fn found<T>(outcome: Result<T, Error>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::NoStorageAccess(_) => Failure::Locked,
        // These two hold what was read.
        Error::BadEncoding(_) | Error::BadDataFormat(..) => Failure::NotText,
        other => Failure::Other(other.to_string()),
    }
}
