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

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trunkline_auth::{Secret, StoredIn, Vault, VaultError};

/// A session bus, and optionally a keychain on it, stopped on drop.
struct Desktop {
    home: TempDir,
    bus: Child,
    address: String,
    keychain: Option<Child>,
}

impl Desktop {
    /// A bus that starts no services, so that none of this machine can interfere.
    fn without_keychain() -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("bus.conf");
        let text = format!(
            "<busconfig><type>session</type><listen>unix:dir={}</listen>\
             <policy context=\"default\"><allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy>\
             </busconfig>",
            home.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let mut bus = Command::new("dbus-daemon")
            .arg("--config-file")
            .arg(&config)
            .args(["--nofork", "--print-address"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is installed by `cargo xtask interop`");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Self {
            home,
            bus,
            address: address.trim().to_owned(),
            keychain: None,
        }
    }

    fn with_keychain() -> Self {
        let mut desktop = Self::without_keychain();
        desktop.start_keychain(true);
        desktop
    }

    /// Starts the keychain; if unlocked, it creates the login keychain.
    fn start_keychain(&mut self, unlocked: bool) {
        let mut command = Command::new("gnome-keyring-daemon");
        command
            .args(["--foreground", "--components=secrets"])
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("HOME", self.home.path())
            .env("XDG_DATA_HOME", self.home.path().join("data"))
            .env("XDG_CONFIG_HOME", self.home.path().join("config"))
            .env("XDG_RUNTIME_DIR", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if unlocked {
            command.arg("--unlock");
        }
        let mut keychain = command
            .spawn()
            .expect("gnome-keyring-daemon is installed by `cargo xtask interop`");
        keychain.stdin.take().unwrap().write_all(b"pass\n").unwrap();
        self.keychain = Some(keychain);
        // Ready once it owns its name; before that the vault correctly finds no keychain.
        let start = Instant::now();
        while !self.has_keychain() {
            assert!(start.elapsed() < Duration::from_secs(30), "no keychain");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_keychain(&self) -> bool {
        self.send(
            "org.freedesktop.DBus",
            "/",
            "org.freedesktop.DBus.GetNameOwner",
        )
        .arg("string:org.freedesktop.secrets")
        .status()
        .unwrap()
        .success()
    }

    fn send(&self, to: &str, path: &str, method: &str) -> Command {
        let mut command = Command::new("dbus-send");
        command
            .arg(format!("--bus={}", self.address))
            .args(["--print-reply", &format!("--dest={to}"), path, method])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn stop_keychain(&mut self) {
        if let Some(mut keychain) = self.keychain.take() {
            let _ = keychain.kill();
            let _ = keychain.wait();
        }
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("secrets.json")
    }

    fn vault(&self) -> Vault {
        Vault::on_bus(self.file(), &self.address)
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        self.stop_keychain();
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
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
    let vault = desktop.vault();
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
    assert!(!desktop.file().exists());
}

#[test]
fn it_outlives_the_keychains_process_and_lies_nowhere_in_plain_text() {
    let mut desktop = Desktop::with_keychain();
    let kept = desktop.vault().set("s", "a", &secret("quite-unmistakable"));
    assert_eq!(kept.unwrap(), StoredIn::Keychain);
    desktop.stop_keychain();
    assert!(!holds(desktop.home.path(), "quite-unmistakable"));
    desktop.start_keychain(true);
    let found = desktop.vault().get("s", "a").unwrap();
    assert_eq!(found, Some(secret("quite-unmistakable")));
}

#[test]
fn what_was_kept_in_the_file_is_found_and_moves_with_the_next_write() {
    let mut desktop = Desktop::without_keychain();
    let vault = desktop.vault();
    let kept = vault.set("s", "a", &secret("in the file")).unwrap();
    assert_eq!(kept, StoredIn::File(desktop.file()));
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("in the file")));

    desktop.start_keychain(true);
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("in the file")));
    let kept = vault.set("s", "a", &secret("in the keychain")).unwrap();
    assert_eq!(kept, StoredIn::Keychain);
    assert_eq!(std::fs::read_to_string(desktop.file()).unwrap(), "{}\n");
    assert_eq!(
        vault.get("s", "a").unwrap(),
        Some(secret("in the keychain"))
    );
}

#[test]
fn a_newer_secret_in_the_file_is_not_shadowed_by_the_keychain() {
    let mut desktop = Desktop::with_keychain();
    let vault = desktop.vault();
    vault.set("s", "a", &secret("old")).unwrap();
    desktop.stop_keychain();
    let kept = vault.set("s", "a", &secret("new")).unwrap();
    assert_eq!(kept, StoredIn::File(desktop.file()));
    desktop.start_keychain(true);
    assert_eq!(vault.get("s", "a").unwrap(), Some(secret("new")));
    assert!(vault.delete("s", "a").unwrap());
    assert_eq!(vault.get("s", "a").unwrap(), None);
}

/// Nobody can respond to its prompt here.
#[test]
fn a_locked_keychain_is_an_error_and_not_a_reason_to_write_a_file() {
    let mut desktop = Desktop::with_keychain();
    desktop.vault().set("s", "a", &secret("hunter2")).unwrap();
    desktop.stop_keychain();
    desktop.start_keychain(false);

    let start = Instant::now();
    let vault = desktop.vault();
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
    assert!(!desktop.file().exists());
}

/// A keychain that stops in the middle of everything.
#[test]
fn a_keychain_that_hangs_ends_in_an_error() {
    let desktop = Desktop::with_keychain();
    let vault = desktop.vault();
    vault.set("s", "a", &secret("hunter2")).unwrap();
    let keychain = desktop.keychain.as_ref().unwrap().id().to_string();
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
