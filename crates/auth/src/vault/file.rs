//! The file that replaces a missing keychain: JSON, `{service: {account: secret}}`, readable only
//! by its owner.
//!
//! It is written under a lock and replaced by a rename, so readers need no lock and a crash leaves
//! the old or the new file.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::VaultError;
use crate::files::{beside, private, private_folder, refuse_other_than_file, sync_folder};

/// The maximum size of the file: many thousands of secrets.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How long to wait for the lock. Its holder only writes one small file.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// The interval between attempts to take the lock.
const LOCK_POLL: Duration = Duration::from_millis(10);

type Secrets = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Debug)]
pub(super) struct SecretFile {
    path: PathBuf,
    lock_limit: Duration,
}

impl SecretFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path,
            lock_limit: LOCK_LIMIT,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn get(&self, service: &str, account: &str) -> Result<Option<String>, VaultError> {
        let mut secrets = self.read()?;
        Ok(secrets
            .get_mut(service)
            .and_then(|accounts| accounts.remove(account)))
    }

    pub(super) fn set(&self, service: &str, account: &str, secret: &str) -> Result<(), VaultError> {
        let _lock = self.lock()?;
        let mut secrets = self.read()?;
        secrets
            .entry(service.to_owned())
            .or_default()
            .insert(account.to_owned(), secret.to_owned());
        self.write(&secrets)
    }

    pub(super) fn delete(&self, service: &str, account: &str) -> Result<bool, VaultError> {
        let holds_it = |secrets: &Secrets| {
            secrets
                .get(service)
                .is_some_and(|accounts| accounts.contains_key(account))
        };
        // Usually there is no such file; do not create a lock file then.
        if !holds_it(&self.read()?) {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let mut secrets = self.read()?;
        if !holds_it(&secrets) {
            return Ok(false);
        }
        if let Some(accounts) = secrets.get_mut(service) {
            accounts.remove(account);
            if accounts.is_empty() {
                secrets.remove(service);
            }
        }
        self.write(&secrets)?;
        Ok(true)
    }

    fn read(&self) -> Result<Secrets, VaultError> {
        let failed = |doing| move |source| self.failed(doing, source);
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Secrets::new()),
            Err(error) => return Err(self.failed("look at", error)),
            // Opening a pipe would wait for a writer.
            Ok(found) if !found.is_file() => {
                return Err(self.failed("read", io::Error::other("it is not a file")));
            }
            Ok(_) => {}
        }
        let file = File::open(&self.path).map_err(failed("read"))?;
        make_private(&file).map_err(failed("make private"))?;
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(failed("read"))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(self.too_large());
        }
        // The message of `serde_json` may quote the file; the position cannot.
        serde_json::from_slice(&text).map_err(|error| VaultError::Malformed {
            path: self.path.clone(),
            line: error.line(),
            column: error.column(),
        })
    }

    fn write(&self, secrets: &Secrets) -> Result<(), VaultError> {
        let failed = |source| self.failed("write", source);
        let mut text = serde_json::to_vec_pretty(secrets).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        // What could not be read again would take all other secrets with it.
        if text.len() as u64 > MAX_BYTES {
            return Err(self.too_large());
        }
        // The lock makes one fixed name safe; the next writer removes what a killed process left.
        let new = beside(&self.path, ".new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file = private()
            .write(true)
            .create_new(true)
            .open(&new)
            .map_err(failed)?;
        let written = file
            .write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &self.path))
            .and_then(|()| sync_folder(&self.path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map_err(failed)
    }

    /// Takes the lock and holds it until the file is dropped.
    fn lock(&self) -> Result<File, VaultError> {
        let path = beside(&self.path, ".lock");
        let failed = |source| self.failed("lock", source);
        if let Some(folder) = self.path.parent() {
            private_folder(folder).map_err(failed)?;
        }
        refuse_other_than_file(&path).map_err(failed)?;
        let file = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.lock_limit => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(VaultError::Busy {
                        lock: path,
                        after: self.lock_limit,
                    });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    fn too_large(&self) -> VaultError {
        VaultError::TooLarge {
            path: self.path.clone(),
            limit: MAX_BYTES,
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> VaultError {
        VaultError::File {
            path: self.path.clone(),
            doing,
            source,
        }
    }
}

/// Restricts a file that others may read, for example after a careless copy or restore.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata()?.permissions().mode();
    let for_others = mode & 0o077;
    if for_others == 0 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A file in a directory that does not exist yet.
    fn scratch() -> (tempfile::TempDir, SecretFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = SecretFile::at(folder.path().join("deep/er/secrets.json"));
        (folder, file)
    }

    fn write(file: &SecretFile, text: &str, mode: u32) {
        private_folder(file.path.parent().unwrap()).unwrap();
        fs::write(&file.path, text).unwrap();
        fs::set_permissions(&file.path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_kept_is_found_replaced_and_forgotten() {
        let (_folder, file) = scratch();
        assert_eq!(file.get("s", "a").unwrap(), None);
        file.set("s", "a", "one").unwrap();
        file.set("s", "b", "two").unwrap();
        file.set("s", "a", "three\n\"☃\"").unwrap();
        assert_eq!(file.get("s", "a").unwrap().unwrap(), "three\n\"☃\"");
        assert_eq!(file.get("s", "b").unwrap().unwrap(), "two");
        assert_eq!(file.get("t", "a").unwrap(), None);
        assert!(file.delete("s", "a").unwrap());
        assert!(!file.delete("s", "a").unwrap());
        assert_eq!(file.get("s", "b").unwrap().unwrap(), "two");
        assert!(file.delete("s", "b").unwrap());
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "{}\n");
    }

    #[test]
    fn looking_leaves_nothing_behind() {
        let (folder, file) = scratch();
        assert_eq!(file.get("s", "a").unwrap(), None);
        assert!(!file.delete("s", "a").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_and_its_folder_are_the_owners_alone() {
        let (_folder, file) = scratch();
        file.set("s", "a", "one").unwrap();
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(file.path.parent().unwrap()), 0o700);
        assert!(!beside(&file.path, ".new").exists());
    }

    #[test]
    fn a_file_that_others_can_read_is_made_private_and_used() {
        let (_folder, file) = scratch();
        write(&file, r#"{"s": {"a": "one"}}"#, 0o644);
        assert_eq!(file.get("s", "a").unwrap().unwrap(), "one");
        assert_eq!(mode(&file.path), 0o600);
    }

    #[test]
    fn what_a_killed_process_left_does_not_matter() {
        let (_folder, file) = scratch();
        file.set("s", "a", "one").unwrap();
        let left = beside(&file.path, ".new");
        fs::write(&left, "half a fi").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(file.get("s", "a").unwrap().unwrap(), "one");
        file.set("s", "b", "two").unwrap();
        assert_eq!(file.get("s", "b").unwrap().unwrap(), "two");
        assert!(!left.exists());
        assert_eq!(mode(&file.path), 0o600);
    }

    #[test]
    fn a_broken_file_is_reported_without_its_contents_and_left_alone() {
        for text in [
            "",
            "{",
            r#"{"s": "hunter2"}"#,
            r#"{"s": {"a": ["hunter2"]}}"#,
            "hunter2",
        ] {
            let (_folder, file) = scratch();
            write(&file, text, 0o600);
            for error in [
                file.get("s", "a").unwrap_err(),
                file.set("s", "a", "hunter2").unwrap_err(),
                file.delete("s", "a").unwrap_err(),
            ] {
                assert!(matches!(error, VaultError::Malformed { .. }), "{error:?}");
                let said = format!("{error} {error:?}");
                assert!(!said.contains("hunter2"), "{said}");
                assert!(said.contains("secrets.json:1:"), "{said}");
            }
            assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_read() {
        let (_folder, file) = scratch();
        fs::create_dir_all(&file.path).unwrap();
        let error = file.get("s", "a").unwrap_err();
        assert!(matches!(error, VaultError::File { .. }), "{error:?}");

        let (_folder, file) = scratch();
        write(&file, "", 0o600);
        let opened = fs::OpenOptions::new().write(true).open(&file.path).unwrap();
        opened.set_len(MAX_BYTES + 1).unwrap();
        let error = file.get("s", "a").unwrap_err();
        assert!(matches!(error, VaultError::TooLarge { .. }), "{error:?}");
    }

    #[test]
    fn a_lock_that_is_never_let_go_ends_the_wait() {
        let (_folder, mut file) = scratch();
        file.lock_limit = Duration::from_millis(50);
        let held = file.lock().unwrap();
        let error = file.set("s", "a", "one").unwrap_err();
        assert!(matches!(error, VaultError::Busy { .. }), "{error:?}");
        drop(held);
        file.set("s", "a", "one").unwrap();
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let (_folder, file) = scratch();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for n in 0..10 {
                        file.set(&format!("s{writer}"), &format!("a{n}"), "x")
                            .unwrap();
                    }
                });
            }
        });
        let secrets = file.read().unwrap();
        assert_eq!(secrets.values().map(BTreeMap::len).sum::<usize>(), 80);
    }
}
