//! Stands in for the OS keychain in builds without the feature `keychain`.

use super::{Access, KeychainError, Names};

pub(super) fn get(_: &Access, _: &Names) -> Result<Option<Vec<u8>>, KeychainError> {
    Err(KeychainError::NoKeychain)
}

pub(super) fn set(_: &Access, _: &Names, _: &str) -> Result<(), KeychainError> {
    Err(KeychainError::NoKeychain)
}

pub(super) fn delete(_: &Access, _: &Names) -> Result<bool, KeychainError> {
    Err(KeychainError::NoKeychain)
}
