//! The OS keychain: bounded in time, and asked only when somebody wants a secret.
//!
//! Each operation runs on a thread of its own, since it blocks, and since its caller may be inside an async runtime. Nothing
//! is kept between operations: they are rare, and a connection costs a few milliseconds.

#[cfg(any(target_os = "macos", windows))]
mod native;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod secret_service;

#[cfg(any(target_os = "macos", windows))]
use native as system;
#[cfg(all(unix, not(target_vendor = "apple")))]
use secret_service as system;

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::VaultError;

/// How long a keychain may take when nobody is asked anything.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the user may take to unlock it.
const PROMPT_LIMIT: Duration = Duration::from_secs(20);

/// How long a keychain that did not answer is left alone, so that ten secrets cost one wait, not ten.
const LEFT_ALONE: Duration = Duration::from_mins(1);

/// What is added to all limits together before the thread itself is given up.
const GRACE: Duration = Duration::from_secs(2);

/// Why the keychain did not do it.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// There is none on this machine, or in this session.
    NoKeychain,
    /// It is locked, and nobody opened it.
    Locked,
    /// It did not answer.
    NoAnswer(Duration),
    /// What it holds is not text.
    NotText,
    /// Anything else, in its own words.
    Other(String),
}

impl Failure {
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

/// What to look for.
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

/// What an operation needs to know.
#[derive(Clone, Debug)]
struct Access {
    limits: Limits,
    /// The D-Bus address, where it is not the session's own.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    bus: Option<String>,
}

#[derive(Debug)]
pub(super) struct Keychain {
    access: Access,
    /// Since when it has not answered. Held during an operation: a user sees one prompt at a time.
    silent_since: Mutex<Option<Instant>>,
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
            silent_since: Mutex::new(None),
        }
    }

    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub(super) fn on_bus(address: String) -> Self {
        let mut keychain = Self::default();
        keychain.access.bus = Some(address);
        keychain
    }

    pub(super) fn get(&self, service: &str, account: &str) -> Result<Option<String>, Failure> {
        let bytes = self.ask(service, account, system::get)?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| Failure::NotText))
            .transpose()
    }

    pub(super) fn set(&self, service: &str, account: &str, secret: &str) -> Result<(), Failure> {
        let secret = secret.to_owned();
        self.ask(service, account, move |access, names| {
            system::set(access, names, &secret)
        })
    }

    pub(super) fn delete(&self, service: &str, account: &str) -> Result<bool, Failure> {
        self.ask(service, account, |access, names| {
            system::delete(access, names)
        })
    }

    /// Runs one operation on a thread, and does not wait for that for ever.
    fn ask<T: Send + 'static>(
        &self,
        service: &str,
        account: &str,
        operation: impl FnOnce(&Access, &Names) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut silent_since = self
            .silent_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Limits { answer, prompt } = self.access.limits;
        if silent_since.is_some_and(|since| since.elapsed() < LEFT_ALONE) {
            return Err(Failure::NoAnswer(answer));
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
            .map_err(|error| Failure::Other(format!("no thread could be started: {error}")))?;

        // The operation keeps to the limits by itself where the system lets it.
        let limit = answer + prompt + GRACE;
        let outcome = match outcome.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Failure::NoAnswer(limit)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Failure::Other("it ended without an answer".to_owned()))
            }
        };
        *silent_since = match &outcome {
            Err(Failure::NoAnswer(_)) => Some(Instant::now()),
            _ => None,
        };
        outcome
    }
}
