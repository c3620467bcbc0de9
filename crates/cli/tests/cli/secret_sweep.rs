//! No secret of a sign-in appears anywhere but in the vault (AUTH-3, SEC-3).
//!
//! Searched: everything that the program prints, with and without `--json`, `--verbose`,
//! `RUST_LOG=trace` and `--trace`; all files of the user and of the project; and the arguments and
//! the environment of the program, of its servers and of the browser. Searched for: all tokens,
//! codes and client secrets that the provider issued, and the PKCE verifiers.
//!
//! Not searched: the vault itself, and the redirect, whose code the browser gets from the provider.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use trunkline_testkit::net::{OAuthServer, follow_redirect};
use trunkline_testkit::wait_for;

use crate::lab::{Lab, Run, SOON, echo, files_under};
use crate::shared_token::{age, edit_tokens};
use crate::sign_in::printed_url;

/// The vault, which holds the secrets.
const VAULT: &str = "home/.claude/trunkline/secrets.json";

/// Writes the arguments and the environment of the process to files.
const INSPECT: &str = "cat /proc/$$/cmdline > \"$DIR/$NAME.cmdline\"; \
                       cat /proc/$$/environ > \"$DIR/$NAME.environ\"";

struct Sweep {
    lab: Lab,
    issuer: OAuthServer,
    /// Everything that was printed, with the command.
    printed: Vec<(String, String)>,
}

impl Sweep {
    fn new() -> Self {
        let issuer = OAuthServer::start();
        // A secret of the client is one more secret.
        issuer.configure(|options| options.client_secret_expires_at = Some(0));
        let lab = Lab::with_entries(|lab| {
            let mut child = lab.scratch.entry("child", &echo());
            let line = format!("{INSPECT}; exec \"$0\" \"$@\"");
            let mut words = vec![json!("-c"), json!(line), child["command"].clone()];
            words.extend(child["args"].as_array().unwrap().clone());
            child["command"] = json!("sh");
            child["args"] = json!(words);
            child["env"]["DIR"] = json!(lab.scratch.path());
            child["env"]["NAME"] = json!("child");
            json!({"s": {"type": "http", "url": issuer.resource()}, "child": child})
        });
        let browser = format!("#!/bin/sh\n{INSPECT}\n");
        let browser = lab.scratch.write("browser", browser);
        fs::set_permissions(browser, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            lab,
            issuer,
            printed: Vec::new(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command(words);
        command
            .env("RUST_LOG", "trace")
            .env("BROWSER", self.lab.at("browser"))
            .env("DIR", self.lab.scratch.path())
            .env("NAME", "browser");
        command
    }

    fn note(&mut self, words: &[&str], run: &Run) {
        let text = format!("{}{}", run.out, run.err);
        self.printed.push((words.join(" "), text));
    }

    fn run(&mut self, words: &[&str]) -> Run {
        let mut plain = self.lab.command(words);
        for command in [&mut plain, &mut self.command(words)] {
            let run = self.lab.finish(command);
            self.note(words, &run);
        }
        let verbose = [&["--verbose", "--trace", "trace"], words].concat();
        let run = self.lab.run(&verbose);
        self.note(&verbose, &run);
        run
    }

    /// Signs in with the browser, and looks at the process meanwhile.
    fn login(&mut self) {
        let running = self.lab.start(&mut self.command(&["login", "s", "--json"]));
        let redirect = self.issuer.authorize(&printed_url(&self.lab));
        for name in ["cmdline", "environ"] {
            let path = format!("/proc/{}/{name}", running.child.id());
            let text = fs::read_to_string(&path).unwrap();
            self.printed.push((path, text));
        }
        follow_redirect(&redirect);
        let run = running.end();
        assert_eq!(run.code, Some(0), "{run:#?}");
        self.note(&["login"], &run);
    }

    fn was_printed(&self, wanted: &str) -> bool {
        self.printed.iter().any(|(_, text)| text.contains(wanted))
    }

    /// Searches everything for every secret.
    #[track_caller]
    fn assert_clean(&self) {
        let mut texts = self.printed.clone();
        for file in files_under(self.lab.scratch.path()) {
            if file != self.lab.at(VAULT) {
                let bytes = fs::read(&file).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                texts.push((file.display().to_string(), text));
            }
        }
        let secrets = self.issuer.secrets();
        for (place, text) in &texts {
            for secret in &secrets {
                // A shorter number must not be found in a longer one.
                let found = text.match_indices(secret.as_str()).find(|(at, _)| {
                    let after = text[at + secret.len()..].chars().next();
                    !after.is_some_and(|c| c.is_ascii_digit())
                });
                assert!(found.is_none(), "{secret} is in {place}: {text}");
            }
        }
    }
}

#[test]
fn the_secrets_of_a_sign_in_are_in_the_vault_alone() {
    let mut sweep = Sweep::new();
    sweep.run(&["list"]);
    sweep.login();
    sweep.assert_clean();
    // The search finds what is there.
    let vault = sweep.lab.scratch.read(VAULT);
    let is_stored = |secret: &&String| vault.contains(secret.as_str());
    assert_eq!(sweep.issuer.secrets().iter().filter(is_stored).count(), 3);

    for words in [
        &["call", "s", "greet"][..],
        &["call", "s", "greet", "--json"],
        &["call", "child", "echo"],
        &["list"],
        &["list", "--json"],
        &["tools", "--json"],
        &["get", "s"],
        &["get", "s", "--json"],
        &["status"],
        &["accounts"],
        &["accounts", "--json"],
        &["login", "s"],
    ] {
        let run = sweep.run(words);
        assert_eq!(run.code, Some(0), "{words:?}: {run:#?}");
    }
    // A refresh.
    edit_tokens(&sweep.lab, |tokens| {
        age(tokens, "obtainedAt", Duration::from_hours(2));
        age(tokens, "expiresAt", Duration::from_hours(2));
    });
    assert_eq!(sweep.run(&["call", "s", "greet"]).code, Some(0));
    assert_eq!(sweep.issuer.refreshes(), 1);
    sweep.assert_clean();
    for file in ["child.environ", "child.cmdline", "browser.cmdline"] {
        assert!(!sweep.lab.scratch.read(file).is_empty(), "{file}");
    }
}

#[test]
fn failures_that_quote_a_secret_do_not_show_it() {
    let mut sweep = Sweep::new();
    sweep.login();
    // The server quotes the token that it refuses.
    sweep
        .issuer
        .configure(|options| options.echo_refused_tokens = true);
    sweep.issuer.expire_access_tokens();
    for words in [
        &["call", "s", "greet"][..],
        &["list"],
        &["list", "--json"],
        &["logs", "s"],
    ] {
        sweep.run(words);
        sweep.assert_clean();
    }
    assert!(
        sweep.was_printed("the token *** is unknown"),
        "{:?}",
        sweep.printed
    );
    // The provider quotes the refresh token, and the one that is to be revoked.
    edit_tokens(&sweep.lab, |tokens| {
        age(tokens, "obtainedAt", Duration::from_hours(2));
        age(tokens, "expiresAt", Duration::from_hours(2));
    });
    sweep.issuer.configure(|options| options.echo_errors = true);
    for words in [
        &["call", "s", "greet"][..],
        &["list", "--json"],
        &["logs", "s"],
        &["logout", "s"],
    ] {
        sweep.run(words);
    }
    assert!(
        sweep.was_printed("refresh_token=***"),
        "{:?}",
        sweep.printed
    );
    sweep.assert_clean();
    // The provider quotes the code.
    let running = sweep.lab.start(&mut sweep.command(&["login", "s"]));
    let page = follow_redirect(&sweep.issuer.authorize(&printed_url(&sweep.lab)));
    let run = running.end();
    assert_eq!(run.code, Some(4), "{run:#?}");
    sweep.note(&["login"], &run);
    sweep.printed.push(("the page".to_owned(), page));
    sweep.assert_clean();
}

#[test]
fn a_sign_in_on_another_device_shows_only_the_code_for_the_user() {
    let mut sweep = Sweep::new();
    let run = sweep
        .lab
        .finish(&mut sweep.command(&["login", "s", "--device"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    sweep.note(&["login"], &run);
    wait_for(SOON, "the tokens", || {
        sweep.lab.at(VAULT).exists().then_some(())
    });
    sweep.assert_clean();
}
