//! Reads and writes sign-ins in the vault, and lists them in a file without secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Record, ServerIdentity};
use crate::error::{AuthError, AuthErrorKind};
use crate::files::{FileLock, LockFile, lock_owner, private_folder, read_bounded, replace_private};
use crate::vault::{StoredIn, Vault};

/// The service under which sign-ins are stored in the vault.
const SERVICE: &str = "trunkline OAuth";

/// How long to wait for the lock of a sign-in. Its holder makes at most three requests.
const LOCK_LIMIT: Duration = Duration::from_mins(2);

/// The time between two attempts to take it.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// How long to wait for the lock of the list. Its holder only writes a small file.
const LIST_LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The maximum size of the list.
const MAX_LIST: u64 = 1024 * 1024;

/// Stores sign-ins. All methods block.
#[derive(Clone, Debug)]
pub(crate) struct TokenStore {
    vault: Arc<Vault>,
    directory: PathBuf,
}

/// A stored sign-in, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Account {
    /// The name of the server.
    pub server: String,
    /// The URL of the server.
    pub url: String,
    /// The name of the account.
    pub account: String,
    /// The authorization server that issued the tokens.
    pub issuer: String,
    /// The granted scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// When the access token expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether the access token can be refreshed.
    #[serde(default)]
    pub can_refresh: bool,
    /// When the sign-in happened, in seconds since 1970.
    #[serde(default)]
    pub signed_in_at: u64,
}

impl Account {
    /// When the access token expires.
    pub fn expires(&self) -> Option<SystemTime> {
        let seconds = self.expires_at?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    pub(crate) fn of(record: &Record) -> Option<Self> {
        let tokens = record.tokens.as_ref()?;
        Some(Self {
            server: record.server.clone(),
            url: record.url.clone(),
            account: record.account.clone(),
            issuer: record.issuer.clone(),
            scopes: tokens.scopes.clone(),
            expires_at: tokens.expires_at,
            can_refresh: tokens.refresh.is_some(),
            signed_in_at: record.signed_in_at,
        })
    }
}

fn held_too_long(path: &Path) -> AuthError {
    let text = format!("another process has held {} too long", path.display());
    AuthError::new(AuthErrorKind::Unavailable, text)
}

impl TokenStore {
    pub(crate) fn new(vault: Arc<Vault>, directory: PathBuf) -> Self {
        Self { vault, directory }
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Takes the lock of a sign-in across processes. Whoever changes the sign-in holds it.
    pub(crate) fn lock(&self, identity: &ServerIdentity) -> Result<FileLock, AuthError> {
        let path = self.lock_path(identity, "lock");
        match FileLock::acquire(&path, LOCK_LIMIT) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(held_too_long(&path)),
            Err(error) => Err(storage(&path, &error)),
        }
    }

    /// As [`TokenStore::lock`], without a thread that waits: dropping the future ends the wait.
    pub(crate) async fn lock_async(
        &self,
        identity: &ServerIdentity,
    ) -> Result<FileLock, AuthError> {
        let path = self.lock_path(identity, "lock");
        let start = Instant::now();
        let opened = path.clone();
        let mut file = tokio::task::spawn_blocking(move || LockFile::open(&opened))
            .await
            .unwrap_or_else(|error| Err(error.into()))
            .map_err(|error| storage(&path, &error))?;
        loop {
            // This does not block.
            file = match file.try_lock().map_err(|error| storage(&path, &error))? {
                Ok(lock) => return Ok(lock),
                Err(file) if start.elapsed() < LOCK_LIMIT => file,
                Err(_) => return Err(held_too_long(&path)),
            };
            tokio::time::sleep(LOCK_POLL).await;
        }
    }

    /// Takes the lock of an interactive sign-in, unless another process has it.
    pub(crate) fn login_lock(&self, identity: &ServerIdentity) -> Result<FileLock, AuthError> {
        let path = self.lock_path(identity, "login");
        let lock = FileLock::acquire(&path, Duration::ZERO);
        match lock.map_err(|error| storage(&path, &error))? {
            Some(lock) => {
                lock.note_owner();
                Ok(lock)
            }
            None => Err(AuthError::in_progress(lock_owner(&path))),
        }
    }

    fn lock_path(&self, identity: &ServerIdentity, extension: &str) -> PathBuf {
        let name = format!("{}.{extension}", identity.file_stem());
        self.directory.join("locks").join(name)
    }

    pub(crate) fn load(&self, identity: &ServerIdentity) -> Result<Option<Record>, AuthError> {
        let found = self.vault.get(SERVICE, identity.key())?;
        found.as_ref().map(Record::parse).transpose()
    }

    /// Loads a record to replace it: one that cannot be decoded counts as none.
    pub(crate) fn load_decodable(
        &self,
        identity: &ServerIdentity,
    ) -> Result<Option<Record>, AuthError> {
        let found = self.vault.get(SERVICE, identity.key())?;
        Ok(found.and_then(|text| Record::parse(&text).ok()))
    }

    /// Stores a record. It is on disk, or in the keychain, when this returns.
    pub(crate) fn save(
        &self,
        identity: &ServerIdentity,
        record: &Record,
    ) -> Result<StoredIn, AuthError> {
        let stored = self
            .vault
            .set(SERVICE, identity.key(), &record.to_secret()?)?;
        self.update_list(identity, Account::of(record));
        Ok(stored)
    }

    /// Deletes a record. Returns whether there was one.
    pub(crate) fn delete(&self, identity: &ServerIdentity) -> Result<bool, AuthError> {
        let deleted = self.vault.delete(SERVICE, identity.key())?;
        self.update_list(identity, None);
        Ok(deleted)
    }

    /// Whether the user signed out, so that the sign-in of another program does not count.
    pub(crate) fn ignores_foreign(&self, identity: &ServerIdentity) -> bool {
        self.signed_out_path(identity).exists()
    }

    /// Lets the sign-in of another program count no more.
    pub(crate) fn ignore_foreign(&self, identity: &ServerIdentity) -> Result<(), AuthError> {
        let path = self.signed_out_path(identity);
        let folder = path.parent().unwrap_or(&self.directory);
        let written = private_folder(folder).and_then(|()| replace_private(&path, b""));
        written.map_err(|error| {
            let text = format!("could not write {}: {error}", path.display());
            AuthError::new(AuthErrorKind::Storage, text)
        })
    }

    fn signed_out_path(&self, identity: &ServerIdentity) -> PathBuf {
        self.directory.join("signed-out").join(identity.file_stem())
    }

    /// The stored sign-ins, by server and account.
    pub(crate) fn accounts(&self) -> Vec<Account> {
        let mut accounts: Vec<_> = self.read_list().into_values().collect();
        accounts.sort_by(|a, b| (&a.server, &a.account).cmp(&(&b.server, &b.account)));
        accounts
    }

    /// The stored sign-ins with their identities.
    pub(crate) fn identities(&self) -> Vec<(ServerIdentity, Account)> {
        let list = self.read_list().into_iter();
        list.map(|(key, account)| (ServerIdentity::stored(&account, key), account))
            .collect()
    }

    /// The stored sign-in of one account at one server.
    pub(crate) fn account(&self, identity: &ServerIdentity) -> Option<Account> {
        self.read_list().remove(identity.key())
    }

    fn list_path(&self) -> PathBuf {
        self.directory.join("accounts.json")
    }

    fn read_list(&self) -> BTreeMap<String, Account> {
        let bytes = read_bounded(&self.list_path(), MAX_LIST).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Updates the list, which is only for display: failures are ignored.
    fn update_list(&self, identity: &ServerIdentity, account: Option<Account>) {
        let path = self.list_path();
        let lock = FileLock::acquire(&self.directory.join("accounts.lock"), LIST_LOCK_LIMIT);
        let Ok(Some(_lock)) = lock else { return };
        let mut list = self.read_list();
        if list.get(identity.key()) == account.as_ref() {
            return;
        }
        match account {
            Some(account) => list.insert(identity.key().to_owned(), account),
            None => list.remove(identity.key()),
        };
        // A larger list would be unreadable, and hide all accounts.
        let readable = |bytes: &Vec<u8>| bytes.len() as u64 <= MAX_LIST;
        if let Some(bytes) = serde_json::to_vec_pretty(&list).ok().filter(readable) {
            let _ = replace_private(&path, &bytes);
        }
    }
}

fn storage(path: &Path, error: &std::io::Error) -> AuthError {
    let text = format!("could not lock {}: {error}", path.display());
    AuthError::new(AuthErrorKind::Storage, text)
}
