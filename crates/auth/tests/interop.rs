//! The vault with a real keychain: GNOME Keyring on its own session bus, never the user's.
//!
//! `cargo xtask interop` installs both and runs this.
#![cfg(all(feature = "interop", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use trunkline_auth::{Secret, StoredIn, Vault, VaultError};
use trunkline_testkit::Desktop;

fn file(desktop: &Desktop) -> PathBuf {
    desktop.path().join("secrets.json")
}

fn vault(desktop: &Desktop) -> Vault {
    Vault::on_bus(file(desktop), desktop.address())
}

fn secret(text: &str) -> Secret {
    Secret::new(text)
}

fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        let bytes = || std::fs::read(&path).unwrap_or_default();
        if path.is_dir() {
            holds(&path, text)
        } else {
            path.is_file()
                && bytes()
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
        }
    })
}

#[test]
fn what_is_kept_is_found_replaced_and_forgotten() {
    let desktop = Desktop::with_keychain();
    let vault = vault(&desktop);
    assert_eq!(vault.get("github", "me").unwrap(), None);
    assert!(!vault.delete("github", "me").unwrap());

    let kept = vault.set("github", "me", &secret("hunter2")).unwrap();
    assert_eq!(kept, StoredIn::Keychain);
    vault.set("github", "you", &secret("other")).unwrap();
    vault.set("github", "me", &secret("hunter3 ☃\n")).unwrap();
    assert_eq!(
        vault.get("github", "me").unwrap(),
        Some(secret("hunter3 ☃\n"))
    );
    assert_eq!(vault.get("github", "you").unwrap(), Some(secret("other")));
    assert_eq!(vault.get("gitlab", "me").unwrap(), None);

    assert!(vault.delete("github", "me").unwrap());
    assert!(!vault.delete("github", "me").unwrap());
    assert_eq!(vault.get("github", "me").unwrap(), None);
    assert!(!file(&desktop).exists());
}

#[test]
fn it_outlives_the_keychains_process_and_lies_nowhere_in_plain_text() {
    let mut desktop = Desktop::with_keychain();
    let kept = vault(&desktop).set("s", "a", &secret("quite-unmistakable"));
    assert_eq!(kept.unwrap(), StoredIn::Keychain);
    desktop.stop_keychain();
    assert!(!holds(desktop.path(), "quite-unmistakable"));
    desktop.start_keychain();
    let found = vault(&desktop).get("s", "a").unwrap();
    assert_eq!(found, Some(secret("quite-unmistakable")));
}

#[test]
fn what_was_kept_in_the_file_is_found_and_moves_with_the_next_write() {
    let mut desktop = Desktop::without_keychain();
    let vault = vault(&desktop);
    let kept = vault.set("s", "a", &secret("in the file")).unwrap();
    assert_eq!(kept, StoredIn::File(file(&desktop)));
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("in the file")));

    desktop.start_keychain();
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("in the file")));
    let kept = vault.set("s", "a", &secret("in the keychain")).unwrap();
    assert_eq!(kept, StoredIn::Keychain);
    assert_eq!(std::fs::read_to_string(file(&desktop)).unwrap(), "{}\n");
    assert_eq!(
        vault.get("s", "a").unwrap(),
        Some(secret("in the keychain"))
    );
}

#[test]
fn a_newer_secret_in_the_file_is_not_shadowed_by_the_keychain() {
    let mut desktop = Desktop::with_keychain();
    let vault = vault(&desktop);
    vault.set("s", "a", &secret("old")).unwrap();
    desktop.stop_keychain();
    let kept = vault.set("s", "a", &secret("new")).unwrap();
    assert_eq!(kept, StoredIn::File(file(&desktop)));
    desktop.start_keychain();
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("new")));
    assert!(vault.delete("s", "a").unwrap());
    assert_eq!(vault.get("s", "a").unwrap(), None);
}

/// Nobody can respond to its prompt here.
#[test]
fn a_locked_keychain_is_an_error_and_not_a_reason_to_write_a_file() {
    let mut desktop = Desktop::with_keychain();
    vault(&desktop).set("s", "a", &secret("hunter2")).unwrap();
    desktop.stop_keychain();
    desktop.start_locked_keychain();

    let start = Instant::now();
    let vault = vault(&desktop);
    for error in [
        vault.get("s", "a").unwrap_err(),
        vault.set("s", "a", &secret("hunter3")).unwrap_err(),
        vault.delete("s", "a").unwrap_err(),
    ] {
        assert!(
            error.is_locked() || matches!(error, VaultError::Keychain { .. }),
            "{error:?}"
        );
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(!file(&desktop).exists());
}

/// A keychain that stops in the middle of everything.
#[test]
fn a_keychain_that_hangs_ends_in_an_error() {
    let desktop = Desktop::with_keychain();
    let vault = vault(&desktop);
    vault.set("s", "a", &secret("hunter2")).unwrap();
    let keychain = desktop.keychain().unwrap().to_string();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &keychain]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let start = Instant::now();
    let error = vault.get("s", "a").unwrap_err();
    signal("-CONT");
    assert!(matches!(error, VaultError::NoAnswer { .. }), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
}
