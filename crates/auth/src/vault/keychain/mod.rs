//! The OS keychain, accessed with time limits and only on demand.
//!
//! Each operation runs on its own thread, because it blocks and its caller may be inside an async
//! runtime. Nothing is cached between operations: they are rare, and connecting takes a few
//! milliseconds.

#[cfg(not(feature = "keychain"))]
mod absent;
#[cfg(all(feature = "keychain", any(target_os = "macos", windows)))]
mod native;
#[cfg(all(feature = "keychain", unix, not(target_vendor = "apple")))]
mod secret_service;

#[cfg(not(feature = "keychain"))]
use absent as system;
#[cfg(all(feature = "keychain", any(target_os = "macos", windows)))]
use native as system;
#[cfg(all(feature = "keychain", unix, not(target_vendor = "apple")))]
use secret_service as system;

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::VaultError;

/// How long a keychain may take without prompting the user.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the user may take to unlock the keychain.
const PROMPT_LIMIT: Duration = Duration::from_secs(20);

/// How long an unresponsive or locked keychain is not asked again: ten secrets cost one wait
/// or one dismissed prompt.
const LEFT_ALONE: Duration = Duration::from_mins(1);

/// Added to all limits before the thread is abandoned.
const GRACE: Duration = Duration::from_secs(2);

/// Why a keychain operation failed.
#[derive(Clone, Debug)]
pub(super) enum KeychainError {
    /// There is no keychain on this machine or in this session.
    NoKeychain,
    /// The keychain is locked, and the user did not unlock it.
    Locked,
    /// The keychain did not respond.
    NoAnswer(Duration),
    /// The stored value is not text.
    NotText,
    /// Any other error, as reported.
    Other(String),
}

impl KeychainError {
    pub(super) fn while_doing(
        self,
        doing: &'static str,
        service: &str,
        account: &str,
    ) -> VaultError {
        match self {
            Self::Locked => VaultError::Locked,
            Self::NoAnswer(after) => VaultError::NoAnswer { after },
            Self::NotText => VaultError::NotText {
                service: service.to_owned(),
                account: account.to_owned(),
            },
            Self::Other(reason) => VaultError::Keychain { doing, reason },
            Self::NoKeychain => VaultError::Keychain {
                doing,
                reason: "there is none".to_owned(),
            },
        }
    }
}

/// The names of a secret.
#[derive(Clone, Debug)]
struct Names {
    service: String,
    account: String,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    answer: Duration,
    prompt: Duration,
}

/// The parameters of an operation.
#[derive(Clone, Debug)]
struct Access {
    limits: Limits,
    /// The D-Bus address, if not that of the session.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    bus: Option<String>,
}

#[derive(Debug)]
pub(super) struct Keychain {
    access: Access,
    /// When and why the keychain was last unavailable. Locked during an operation, so the user sees
    /// one prompt at a time.
    unavailable: Mutex<Option<(Instant, KeychainError)>>,
}

impl Default for Keychain {
    fn default() -> Self {
        Self::with(Access {
            limits: Limits {
                answer: ANSWER_LIMIT,
                prompt: PROMPT_LIMIT,
            },
            #[cfg(all(unix, not(target_vendor = "apple")))]
            bus: None,
        })
    }
}

impl Keychain {
    fn with(access: Access) -> Self {
        Self {
            access,
            unavailable: Mutex::new(None),
        }
    }

    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub(super) fn on_bus(address: String) -> Self {
        let mut keychain = Self::default();
        keychain.access.bus = Some(address);
        keychain
    }

    pub(super) fn get(
        &self,
        service: &str,
        account: &str,
    ) -> Result<Option<String>, KeychainError> {
        let bytes = self.ask(service, account, system::get)?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| KeychainError::NotText))
            .transpose()
    }

    pub(super) fn set(
        &self,
        service: &str,
        account: &str,
        secret: &str,
    ) -> Result<(), KeychainError> {
        let secret = secret.to_owned();
        self.ask(service, account, move |access, names| {
            system::set(access, names, &secret)
        })
    }

    pub(super) fn delete(&self, service: &str, account: &str) -> Result<bool, KeychainError> {
        self.ask(service, account, |access, names| {
            system::delete(access, names)
        })
    }

    /// Runs one operation on a thread and waits for it within the limits.
    fn ask<T: Send + 'static>(
        &self,
        service: &str,
        account: &str,
        operation: impl FnOnce(&Access, &Names) -> Result<T, KeychainError> + Send + 'static,
    ) -> Result<T, KeychainError> {
        let mut unavailable = self
            .unavailable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Limits { answer, prompt } = self.access.limits;
        if let Some((since, error)) = &*unavailable
            && since.elapsed() < LEFT_ALONE
        {
            return Err(error.clone());
        }

        let access = self.access.clone();
        let names = Names {
            service: service.to_owned(),
            account: account.to_owned(),
        };
        let (done, outcome) = mpsc::channel();
        let thread = std::thread::Builder::new().name("trunkline-keychain".to_owned());
        thread
            .spawn(move || done.send(operation(&access, &names)))
            .map_err(|error| {
                KeychainError::Other(format!("no thread could be started: {error}"))
            })?;

        // Where the system allows it, the operation observes the limits itself.
        let limit = answer + prompt + GRACE;
        let outcome = match outcome.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(KeychainError::NoAnswer(limit)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(KeychainError::Other(
                "it ended without an answer".to_owned(),
            )),
        };
        *unavailable = match &outcome {
            Err(error @ (KeychainError::NoAnswer(_) | KeychainError::Locked)) => {
                Some((Instant::now(), error.clone()))
            }
            _ => None,
        };
        outcome
    }
}
