//! The Secret Service of a Linux or BSD desktop (GNOME Keyring, `KWallet`, `KeePassXC`), over D-Bus
//! and without C libraries.
//!
//! Items are found by the attributes `service` and `username`, as `keyring`, Python's `keyring` and
//! go-keyring write them: `secret-tool store --label=GitHub service github username me`. keytar and
//! VS Code use `account` instead of `username`.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;

use secret_service::{EncryptionType, Error, Item, SecretService};
use tokio::time::Instant;

use super::{Access, KeychainError, Limits, Names};

/// The attributes that name the account: ours, and the other one in use.
const ACCOUNT_ATTRIBUTES: [&str; 2] = ["username", "account"];

pub(super) fn get(access: &Access, names: &Names) -> Result<Option<Vec<u8>>, KeychainError> {
    run(async {
        let session = Session::open(access).await?;
        let items = session.find(names).await?;
        let Some(item) = session.newest(items).await? else {
            return Ok(None);
        };
        session.unlock_item(&item).await?;
        session.answer(item.get_secret()).await.map(Some)
    })
}

pub(super) fn set(access: &Access, names: &Names, secret: &str) -> Result<(), KeychainError> {
    run(async {
        let session = Session::open(access).await?;
        let items = session.find(names).await?;
        if let Some(item) = session.newest(items).await? {
            session.unlock_item(&item).await?;
            return session
                .answer(item.set_secret(secret.as_bytes(), "text/plain"))
                .await;
        }
        session.create(names, secret).await
    })
}

pub(super) fn delete(access: &Access, names: &Names) -> Result<bool, KeychainError> {
    run(async {
        let session = Session::open(access).await?;
        // All of them: a remaining one would be found next time.
        let items = session.find(names).await?;
        for item in &items {
            session.unlock_item(item).await?;
            session.prompt(item.delete()).await?;
        }
        Ok(!items.is_empty())
    })
}

/// Runs on the current thread. Reaching a limit drops the connection, and the service withdraws its
/// prompt.
fn run<T>(operation: impl Future<Output = Result<T, KeychainError>>) -> Result<T, KeychainError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| KeychainError::Other(error.to_string()))?
        .block_on(operation)
}

struct Session {
    service: SecretService<'static>,
    deadline: OperationDeadline,
}

impl Session {
    async fn open(access: &Access) -> Result<Self, KeychainError> {
        let deadline = OperationDeadline::new(access.limits);
        match deadline.answer(connect(access)).await? {
            Ok(service) => Ok(Self { service, deadline }),
            // There is no bus, or no secret service on it. Errors differ, but all of them mean
            // this.
            Err(_) => Err(KeychainError::NoKeychain),
        }
    }

    async fn find(&self, names: &Names) -> Result<Vec<Item<'_>>, KeychainError> {
        for account_attribute in ACCOUNT_ATTRIBUTES {
            let wanted = HashMap::from([
                ("service", names.service.as_str()),
                (account_attribute, names.account.as_str()),
            ]);
            let found = self.answer(self.service.search_items(wanted)).await?;
            if !(found.unlocked.is_empty() && found.locked.is_empty()) {
                return Ok(found.unlocked.into_iter().chain(found.locked).collect());
            }
        }
        Ok(Vec::new())
    }

    /// Several items match if another program added attributes; the newest one counts.
    async fn newest<'a>(&self, items: Vec<Item<'a>>) -> Result<Option<Item<'a>>, KeychainError> {
        let mut newest: Option<(u64, Item<'a>)> = None;
        for item in items {
            let modified = self.answer(item.get_modified()).await?;
            if newest.as_ref().is_none_or(|(best, _)| modified > *best) {
                newest = Some((modified, item));
            }
        }
        Ok(newest.map(|(_, item)| item))
    }

    async fn create(&self, names: &Names, secret: &str) -> Result<(), KeychainError> {
        let default = self.service.get_default_collection();
        let collection = match self.deadline.answer(default).await? {
            Ok(collection) => collection,
            // A service without a keychain, as on a machine nobody has logged in to. Creating one
            // would prompt for a password.
            Err(Error::NoResult) => return Err(KeychainError::NoKeychain),
            Err(error) => return Err(failure(error)),
        };
        if self.answer(collection.is_locked()).await? {
            self.prompt(collection.unlock()).await?;
        }
        let Names { service, account } = names;
        let attributes = HashMap::from([
            ("service", service.as_str()),
            (ACCOUNT_ATTRIBUTES[0], account.as_str()),
        ]);
        let label = format!("Trunkline: {service}/{account}");
        let created =
            collection.create_item(&label, attributes, secret.as_bytes(), true, "text/plain");
        self.prompt(created).await.map(drop)
    }

    async fn unlock_item(&self, item: &Item<'_>) -> Result<(), KeychainError> {
        if self.answer(item.is_locked()).await? {
            self.prompt(item.unlock()).await?;
        }
        Ok(())
    }

    /// Waits for a call that prompts nobody.
    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, KeychainError> {
        // Boxed, because creating an item makes a future of many kilobytes.
        self.deadline.answer(Box::pin(call)).await?.map_err(failure)
    }

    /// Waits for a call that may prompt the user.
    async fn prompt<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, KeychainError> {
        self.deadline.allow_prompt();
        self.answer(Box::pin(call)).await
    }
}

async fn connect(access: &Access) -> Result<SecretService<'static>, Error> {
    let builder = match &access.bus {
        Some(address) => zbus::connection::Builder::address(address.as_str()),
        None => zbus::connection::Builder::session(),
    };
    let connection = builder?.build().await?;
    SecretService::connect_with_existing(EncryptionType::Dh, connection).await
}

/// The deadline of a whole operation: the limit for responses, plus once the limit for a prompt.
struct OperationDeadline {
    limits: Limits,
    start: Instant,
    prompting: Cell<bool>,
}

impl OperationDeadline {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            start: Instant::now(),
            prompting: Cell::new(false),
        }
    }

    fn allow_prompt(&self) {
        self.prompting.set(true);
    }

    async fn answer<T>(&self, call: impl Future<Output = T>) -> Result<T, KeychainError> {
        let mut limit = self.limits.answer;
        if self.prompting.get() {
            limit += self.limits.prompt;
        }
        tokio::time::timeout_at(self.start + limit, call)
            .await
            .map_err(|_| KeychainError::NoAnswer(limit))
    }
}

fn failure(error: Error) -> KeychainError {
    match error {
        Error::Locked | Error::Prompt => KeychainError::Locked,
        other => KeychainError::Other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::super::Keychain;
    use super::*;

    fn on_bus(address: String, limit: Duration) -> Keychain {
        Keychain::with(Access {
            limits: Limits {
                answer: limit,
                prompt: limit,
            },
            bus: Some(address),
        })
    }

    fn check_no_keychain(address: String) {
        let limit = Duration::from_secs(20);
        let keychain = on_bus(address, limit);
        let start = Instant::now();
        let failures = [
            keychain.get("s", "a").unwrap_err(),
            keychain.set("s", "a", "x").unwrap_err(),
            keychain.delete("s", "a").unwrap_err(),
        ];
        for failure in failures {
            assert!(matches!(failure, KeychainError::NoKeychain), "{failure:?}");
        }
        assert!(start.elapsed() < limit);
    }

    #[test]
    fn no_bus_means_no_keychain_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bus");
        check_no_keychain(format!("unix:path={}", socket.display()));
        // The socket of a bus that has exited.
        drop(UnixListener::bind(&socket).unwrap());
        check_no_keychain(format!("unix:path={}", socket.display()));
        check_no_keychain("autolaunch:".to_owned());
        check_no_keychain("nonsense".to_owned());
        check_no_keychain(String::new());
    }

    #[test]
    fn a_bus_that_says_nothing_costs_one_wait() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bus");
        let _silent = UnixListener::bind(&socket).unwrap();
        let limit = Duration::from_millis(500);
        let keychain = on_bus(format!("unix:path={}", socket.display()), limit);
        let start = Instant::now();
        for _ in 0..10 {
            let failure = keychain.get("s", "a").unwrap_err();
            assert!(matches!(failure, KeychainError::NoAnswer(_)), "{failure:?}");
        }
        let took = start.elapsed();
        assert!(took >= limit, "{took:?}");
        assert!(took < limit * 10, "{took:?}");
    }

    #[test]
    fn a_caller_inside_a_runtime_does_no_harm() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { check_no_keychain("nonsense".to_owned()) });
    }
}
