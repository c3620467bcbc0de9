//! A desktop session for tests: a D-Bus of its own and, on it, GNOME Keyring.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::wait_until;

/// How long the keychain may take until it is on the bus.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The password of the keychain.
const PASSWORD: &str = "pass";

/// A session bus that starts no services, so none of this machine can interfere, and optionally
/// a keychain on it. Both end on drop.
#[derive(Debug)]
pub struct Desktop {
    home: TempDir,
    bus: Child,
    address: String,
    keychain: Option<Child>,
}

impl Desktop {
    /// Starts a bus without a keychain.
    ///
    /// # Panics
    /// Without `dbus-daemon`, which `cargo xtask interop` installs.
    pub fn without_keychain() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let config = home.path().join("bus.conf");
        let mut text = String::from("<busconfig><type>session</type>");
        let folder = home.path().display();
        write!(text, "<listen>unix:dir={folder}</listen>").expect("text");
        text.push_str(
            "<policy context=\"default\"><allow send_destination=\"*\"/>\
             <allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>",
        );
        fs::write(&config, text).expect("the configuration of the bus");
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
        BufReader::new(bus.stdout.take().expect("its output"))
            .read_line(&mut address)
            .expect("its address");
        Self {
            home,
            bus,
            address: address.trim().to_owned(),
            keychain: None,
        }
    }

    /// Starts a bus with an unlocked keychain.
    pub fn with_keychain() -> Self {
        let mut desktop = Self::without_keychain();
        desktop.start_keychain();
        desktop
    }

    /// Starts the keychain unlocked, and creates it the first time.
    pub fn start_keychain(&mut self) {
        self.start(&["--unlock"]);
    }

    /// Starts the keychain as after a login without a password: locked, if it was created before.
    pub fn start_locked_keychain(&mut self) {
        self.start(&[]);
    }

    fn start(&mut self, arguments: &[&str]) {
        let mut keychain = self
            .command("gnome-keyring-daemon")
            .args(["--foreground", "--components=secrets"])
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("gnome-keyring-daemon is installed by `cargo xtask interop`");
        let mut stdin = keychain.stdin.take().expect("its input");
        stdin.write_all(PASSWORD.as_bytes()).expect("the password");
        drop(stdin);
        self.keychain = Some(keychain);
        // Ready once it owns its name; before that there is no keychain.
        wait_until(READY_WITHIN, || self.has_owner("org.freedesktop.secrets"));
    }

    /// Stops the keychain.
    pub fn stop_keychain(&mut self) {
        if let Some(mut keychain) = self.keychain.take() {
            let _ = keychain.kill();
            let _ = keychain.wait();
        }
    }

    /// The process of the keychain.
    pub fn keychain(&self) -> Option<u32> {
        self.keychain.as_ref().map(Child::id)
    }

    /// The password of the keychain.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// The address of the bus, for `DBUS_SESSION_BUS_ADDRESS`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The directory with the files of the keychain.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Whether a program on the bus has this name.
    pub fn has_owner(&self, name: &str) -> bool {
        let mut send = self.command("dbus-send");
        send.arg("--session")
            .args(["--print-reply", "--dest=org.freedesktop.DBus", "/"])
            .arg("org.freedesktop.DBus.GetNameOwner")
            .arg(format!("string:{name}"));
        send.status().is_ok_and(|status| status.success())
    }

    /// Returns a program in this session, without a display, input and output.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("HOME", self.path())
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_RUNTIME_DIR", self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        self.stop_keychain();
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}
