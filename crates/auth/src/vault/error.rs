//! Why a secret could not be read or kept.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a secret could not be read or kept. Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// A secret is found by two names, and one of them is empty.
    #[error(
        "a secret needs the name of its service and of its account; write both, as in service/account"
    )]
    Unnamed,
    /// The keychain is locked, and nobody opened it.
    #[error("the keychain is locked and was not opened; unlock it and try again")]
    Locked,
    /// The keychain did not answer.
    #[error("the keychain did not answer within {:.1} s; unlock it, or restart its service, and try again", after.as_secs_f64())]
    NoAnswer {
        /// How long it had.
        after: Duration,
    },
    /// The keychain answered with a failure.
    #[error("the keychain could not {doing} the secret: {reason}")]
    Keychain {
        /// `read`, `keep` or `delete`.
        doing: &'static str,
        /// What it said.
        reason: String,
    },
    /// What the keychain holds under these names is not text.
    #[error("what the keychain holds for \"{service}/{account}\" is not text; store it again")]
    NotText {
        /// The service.
        service: String,
        /// The account.
        account: String,
    },
    /// The file that stands in for a keychain could not be used.
    #[error("could not {doing} {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what we wrote.
    #[error("{}:{line}:{column}: this is not a file of secrets; move it away, and store the secrets again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where reading it ended.
        line: usize,
        /// Where in that line.
        column: usize,
    },
    /// The file is too large to be ours.
    #[error("{} is larger than {limit} bytes, which no file of secrets is; move it away", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How large it may be.
        limit: u64,
    },
    /// Another process holds the file's lock and does not let go.
    #[error("another process has held {} for more than {:.1} s; end it and try again", lock.display(), after.as_secs_f64())]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// How long was waited.
        after: Duration,
    },
}

impl VaultError {
    /// Whether it may work once the user has unlocked the keychain.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked | Self::NoAnswer { .. })
    }
}
