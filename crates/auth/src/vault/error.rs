//! Why a secret could not be read or stored.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a secret could not be read or stored. Never contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The service or the account is empty.
    #[error(
        "a secret needs the name of its service and of its account; write both, as in service/account"
    )]
    Unnamed,
    /// The keychain is locked, and the user did not unlock it.
    #[error("the keychain is locked and was not opened; unlock it and try again")]
    Locked,
    /// The keychain did not respond.
    #[error("the keychain did not answer within {:.1} s; unlock it, or restart its service, and try again", after.as_secs_f64())]
    NoAnswer {
        /// The time limit.
        after: Duration,
    },
    /// The keychain reported an error.
    #[error("the keychain could not {doing} the secret: {reason}")]
    Keychain {
        /// `read`, `store` or `delete`.
        doing: &'static str,
        /// The reported error.
        reason: String,
    },
    /// The stored value is not text.
    #[error("what the keychain holds for \"{service}/{account}\" is not text; store it again")]
    NotText {
        /// The service.
        service: String,
        /// The account.
        account: String,
    },
    /// The file that replaces the keychain could not be used.
    #[error("could not {doing} {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file was not written by this crate.
    #[error("{}:{line}:{column}: this is not a file of secrets; move it away, and store the secrets again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line of the syntax error.
        line: usize,
        /// The column of the syntax error.
        column: usize,
    },
    /// The file exceeds the size limit.
    #[error("{} is larger than {limit} bytes, which no file of secrets is; move it away", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size limit in bytes.
        limit: u64,
    },
    /// Another process holds the lock of the file.
    #[error("another process has held {} for more than {:.1} s; end it and try again", lock.display(), after.as_secs_f64())]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// How long this process waited.
        after: Duration,
    },
}

impl VaultError {
    /// Whether a retry may succeed after the user unlocks the keychain.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked | Self::NoAnswer { .. })
    }
}
