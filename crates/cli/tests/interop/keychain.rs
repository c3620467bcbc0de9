//! Sign-ins in a real keychain: GNOME Keyring on a session bus of its own (AUTH-3).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::auth::{Auth, ServerConfig, TransportClient, Vault};
use trunkline::transport::Dialer;
use trunkline_testkit::net::{OAuthServer, follow_redirect};
use trunkline_testkit::{Desktop, wait_for, wait_until};

use crate::lab::{Lab, Ran};
use crate::servers::installed;

/// The time limit of a run, on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// A lab in a desktop session, with a protected server.
struct Session {
    lab: Lab,
    issuer: OAuthServer,
    desktop: Desktop,
}

impl Session {
    fn new(desktop: Desktop) -> Self {
        let session = Self {
            lab: Lab::with(&[]),
            issuer: OAuthServer::start(),
            desktop,
        };
        let entry = json!({"type": "http", "url": session.issuer.resource()});
        session.lab.write_servers(&json!({"s": entry}));
        session
    }

    fn env(&self) -> [(&'static str, &str); 1] {
        [("DBUS_SESSION_BUS_ADDRESS", self.desktop.address())]
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.lab.run_with(&self.env(), args)
    }

    /// Signs in as a user does in a browser.
    fn login(&self) -> Ran {
        let mut command = self.lab.program(&["login", "s", "--no-browser"]);
        let running = self.lab.start(command.envs(self.env()));
        let url = wait_for(SOON, "the URL", || {
            let text = running.stderr();
            let mut lines = text.lines().map(str::trim);
            lines
                .find(|line| line.contains("/authorize?"))
                .map(str::to_owned)
        });
        follow_redirect(&self.issuer.authorize(&url));
        running.end()
    }

    /// The exit code of a call.
    fn call(&self) -> Option<i32> {
        self.run(&["call", "s", "greet"]).code
    }

    /// The file that takes the place of a keychain.
    fn file(&self) -> PathBuf {
        self.lab.home().join(".claude/trunkline/secrets.json")
    }

    /// Files with a token, among those of the user and of the keychain.
    fn files_with_tokens(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in [&self.lab.home(), self.desktop.path()] {
            files_with(folder, &["access-", "refresh-"], &mut found);
        }
        found
    }
}

fn files_with(folder: &Path, texts: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_with(&path, texts, found);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let content = String::from_utf8_lossy(&bytes);
            if texts.iter().any(|text| content.contains(text)) {
                found.push(path);
            }
        }
    }
}

#[test]
fn a_sign_in_lives_in_the_keychain_and_logout_deletes_it() {
    let mut session = Session::new(Desktop::with_keychain());
    session.login().done();
    assert_eq!(session.call(), Some(0));
    assert!(!session.file().exists());
    assert_eq!(session.files_with_tokens(), Vec::<PathBuf>::new());

    // It is where the keychain is, and nowhere else.
    session.desktop.stop_keychain();
    assert_eq!(session.call(), Some(4));
    session.desktop.start_keychain();
    // A stored token counts more than the remembered refusal (AUTH-7).
    let called = session.run(&["call", "s", "greet"]).done();
    assert_eq!(called.stdout, "hello\n");

    let logout = session.run(&["logout", "s", "--json"]).done().json();
    assert_eq!(
        (&logout["signedOut"], &logout["revocation"]),
        (&json!(true), &json!("revoked"))
    );
    assert_eq!(session.call(), Some(4));
    let again = session.run(&["logout", "s", "--json"]).done().json();
    assert_eq!(again["signedOut"], false, "{again}");
}

#[test]
fn without_a_keychain_a_sign_in_lives_in_a_private_file() {
    let mut session = Session::new(Desktop::without_keychain());
    session.login().done();
    assert_eq!(session.files_with_tokens(), [session.file()]);
    let mode = fs::metadata(session.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(session.call(), Some(0));
    // A keychain that appears later does not hide it.
    session.desktop.start_keychain();
    assert_eq!(session.call(), Some(0));
    session.run(&["logout", "s"]).done();
    assert_eq!(session.files_with_tokens(), Vec::<PathBuf>::new());
}

/// Answers the prompts of the keychain, and counts them.
struct Prompter {
    child: Child,
    log: PathBuf,
}

impl Prompter {
    /// Enters this password; an empty one dismisses the prompts.
    fn start(desktop: &Desktop, password: &str) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/prompter.py");
        let log = desktop.path().join("prompts");
        let child = desktop
            .command(installed().join("venv/bin/python"))
            .arg(program)
            .args([password])
            .arg(&log)
            .spawn()
            .unwrap();
        wait_until(SOON, || {
            desktop.has_owner("org.gnome.keyring.SystemPrompter")
        });
        Self { child, log }
    }

    fn prompts(&self) -> usize {
        fs::read_to_string(&self.log)
            .unwrap_or_default()
            .lines()
            .count()
    }
}

impl Drop for Prompter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Signs in to servers with these names, in this process.
fn sign_in_to(session: &Session, names: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let vault = Arc::new(Vault::on_bus(session.file(), session.desktop.address()));
        let http = Arc::new(TransportClient::new(Dialer::with_vars(|_| None)));
        let folder = session.lab.home().join(".local/state/trunkline/auth");
        let auth = Auth::builder(vault, folder, http).build();
        for name in names {
            let url = session.issuer.resource().parse().unwrap();
            let server = auth.server(ServerConfig::new(name, url));
            let login = server.start_login().await.unwrap();
            let redirect = session.issuer.authorize(login.url().as_str());
            login.finish(&redirect).await.unwrap();
        }
    });
}

fn states(list: &Value) -> Vec<&str> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["state"].as_str().unwrap()).collect()
}

/// A session with fifty servers that the user is signed in to, and a locked keychain.
fn fifty_servers() -> Session {
    let mut session = Session::new(Desktop::with_keychain());
    let names: Vec<_> = (0..50).map(|number| format!("s{number}")).collect();
    sign_in_to(&session, &names);
    let entry = json!({"type": "http", "url": session.issuer.resource()});
    let entries: serde_json::Map<_, _> = names
        .into_iter()
        .map(|name| (name, entry.clone()))
        .collect();
    session.lab.write_servers(&Value::Object(entries));
    session.desktop.stop_keychain();
    session.desktop.start_locked_keychain();
    session
}

#[test]
fn fifty_servers_need_one_unlock() {
    let session = fifty_servers();
    let prompter = Prompter::start(&session.desktop, session.desktop.password());
    let list = session.run(&["list", "--json"]).done().json();
    assert_eq!(states(&list), ["connected"; 50], "{list}");
    assert_eq!(prompter.prompts(), 1);
    assert!(!session.file().exists());
}

#[test]
fn a_dismissed_unlock_is_not_repeated_for_each_server() {
    let session = fifty_servers();
    let prompter = Prompter::start(&session.desktop, "");
    let list = session.run(&["list", "--json"]).done().json();
    assert_eq!(states(&list), ["failed"; 50], "{list}");
    let error = list[0]["error"].as_str().unwrap();
    assert!(error.contains("locked"), "{error}");
    assert_eq!(prompter.prompts(), 1);
}

/// A locked keychain is the user's choice; plain text in a file is no substitute.
#[test]
fn a_locked_keychain_is_reported_and_no_file_takes_its_place() {
    let mut session = Session::new(Desktop::with_keychain());
    session.login().done();
    session.desktop.stop_keychain();
    session.desktop.start_locked_keychain();
    for args in [&["call", "s", "greet"][..], &["login", "s", "--no-browser"]] {
        let run = session.run(args);
        assert_eq!(run.code, Some(3), "{args:?}: {run:#?}");
        assert!(run.stderr.contains("locked"), "{args:?}: {run:#?}");
    }
    assert!(!session.file().exists());
    assert_eq!(session.files_with_tokens(), Vec::<PathBuf>::new());
    // Unlocked, it works as before.
    let _prompter = Prompter::start(&session.desktop, session.desktop.password());
    assert_eq!(session.call(), Some(0));
}
