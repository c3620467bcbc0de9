//! Sign-ins that meet an obstacle, and the settings of less usual ones.

use std::net::{TcpListener, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use trunkline_testkit::net::{OAuthServer, follow_redirect};

use crate::lab::{Lab, echo};
use crate::sign_in::{printed_url, protected, sign_in};
use crate::signals::send;

/// A lab with a protected server and these sign-in settings.
fn with_oauth(oauth: &Value) -> (Lab, OAuthServer) {
    let issuer = OAuthServer::start();
    let entry = json!({"type": "http", "url": issuer.resource(), "oauth": oauth});
    let lab = Lab::with_entries(|_| json!({"s": entry}));
    (lab, issuer)
}

/// The port that the browser returns to.
fn callback_port(url: &str) -> u16 {
    let (_, rest) = url.split_once("redirect_uri=http%3A%2F%2F").unwrap();
    let (_, port) = rest.split_once("%3A").unwrap();
    port.split_once('%').unwrap().0.parse().unwrap()
}

#[test]
fn a_port_that_is_taken_says_by_whom() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (lab, _issuer) = with_oauth(&json!({"callbackPort": port}));
    let run = lab.run(&["login", "s", "--no-browser"]);
    assert_eq!((run.code, run.out.as_str()), (Some(4), ""), "{run:#?}");
    let process = std::process::id();
    let said = format!(
        "could not sign in to \"s\": port {port}, where the browser returns to, is in use by \""
    );
    assert!(run.err.contains(&said), "{}", run.err);
    assert!(
        run.err.contains(&format!("(process {process})\n")),
        "{}",
        run.err
    );
    let hint = format!("hint: end that program with `kill {process}`");
    assert!(run.err.contains(&hint), "{}", run.err);
}

#[test]
fn a_second_login_is_noticed_and_an_interrupted_one_leaves_nothing() {
    let (lab, issuer) = protected();
    let running = lab.start(&mut lab.command(&["login", "s", "--no-browser"]));
    let url = printed_url(&lab);
    let process = running.child.id();
    let said = format!(
        "error: could not sign in to \"s\": process {process} is already signing in to this server\n  \
         hint: finish that sign-in, or end it with `kill {process}`\n"
    );
    // A device would take the same lock.
    for way in ["--no-browser", "--device"] {
        let second = lab.command(&["login", "s", way]).output().unwrap();
        assert_eq!(second.status.code(), Some(4));
        assert_eq!(String::from_utf8(second.stderr).unwrap(), said);
    }

    let port = callback_port(&url);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    send(&running, Signal::INT);
    assert_eq!(running.end().code, Some(130));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(sign_in(&lab, &issuer).code, Some(0));
}

/// AUTH-1: the URL of a metadata document is a client id.
#[test]
fn a_client_metadata_document_replaces_the_registration() {
    let document = "https://me.example/oauth/client.json";
    let (lab, issuer) = with_oauth(&json!({"clientId": document}));
    issuer.configure(|options| options.client_metadata = true);
    let run = sign_in(&lab, &issuer);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(issuer.count("/register"), 0);
    assert_eq!(issuer.authorizations()[0]["client_id"], document);
    assert_eq!(lab.run(&["call", "s", "greet"]).out, "hello\n");
}

/// A key for these tests only, and its public half.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgx6TCaA5ABQoCHswv
fhpG7x2v18wO/wNd/cXuIGPYMouhRANCAASC1XGXgMg6zbM+gLxKDsfdXjUmAe7e
22rK22i4/R4rUMPOL8hGHMFEntGXohN2o8KSHas05vO4qG9AKXKg42RC
-----END PRIVATE KEY-----
";
const PUBLIC_KEY: &str = "0482d5719780c83acdb33e80bc4a0ec7dd5e352601eededb6acadb68b8fd1e2b\
                          50c3ce2fc8461cc1449ed197a21376a3c2921dab34e6f3b8a86f402972a0e36442";

fn public_key() -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&PUBLIC_KEY[at..at + 2], 16).unwrap();
    (0..PUBLIC_KEY.len()).step_by(2).map(byte).collect()
}

/// AUTH-10: a program signs in with a key, from a file beside its entry or from the vault.
#[test]
fn a_machine_signs_in_with_its_private_key() {
    let oauth = json!({"clientId": "robot", "grantType": "client_credentials",
        "privateKeyFile": "robot.pem", "keyId": "k1"});
    let (lab, issuer) = with_oauth(&oauth);
    issuer.add_client_with_key("robot", &public_key());
    let missing = lab.run(&["call", "s", "greet"]);
    assert_eq!(missing.code, Some(3), "{missing:#?}");
    assert!(
        missing.err.contains("robot.pem: No such file"),
        "{missing:#?}"
    );

    let file = lab.at("robot.pem");
    std::fs::write(&file, "nonsense").unwrap();
    let wrong = lab.run(&["call", "s", "greet"]);
    assert!(wrong.err.contains("not a PKCS#8 key"), "{wrong:#?}");
    wrong.never_says("nonsense");

    std::fs::write(&file, KEY).unwrap();
    let called = lab.run(&["call", "s", "greet"]);
    assert_eq!(called.out, "hello\n", "{called:#?}");
    assert_eq!(issuer.grants(), ["client_credentials"]);
    let form = &issuer.forms("/token")[0];
    assert!(!form.contains_key("client_secret"), "{form:?}");
    let shown = lab.run(&["get", "s"]);
    assert!(
        shown.out.contains("privateKeyFile: robot.pem\n"),
        "{shown:#?}"
    );
    lab.run(&["logout", "s"]).is(0, "signed out of \"s\"\n", "");

    // The key in the vault, in place of a client secret.
    let lab = Lab::new();
    let add = ["add", "--no-check", "-t", "http", "--client-id", "robot"];
    let url = issuer.resource();
    let add = [&add[..], &["--client-secret", "s", &url]].concat();
    let added = lab.finish(lab.bare(&add).env("MCP_CLIENT_SECRET", KEY));
    assert_eq!(added.code, Some(0), "{added:#?}");
    let edit = lab.plainly(&["edit", "s", "--set", "oauth.grantType=client_credentials"]);
    assert_eq!(edit.code, Some(0), "{edit:#?}");
    assert_eq!(lab.plainly(&["call", "s", "greet"]).out, "hello\n");
    assert!(
        !holds_key(lab.scratch.path()),
        "the key is only in the vault"
    );
}

/// Whether a file outside the vault holds the key.
fn holds_key(folder: &Path) -> bool {
    let files = crate::lab::files_under(folder).into_iter();
    let open = files.filter(|file| !file.to_string_lossy().contains("secrets"));
    open.filter_map(|file| std::fs::read_to_string(file).ok())
        .any(|text| text.contains("PRIVATE KEY"))
}

/// Scopes that are set later are requested by the next login, without a logout.
#[test]
fn new_scopes_in_the_entry_are_requested_by_another_login() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let add = ["add", "--no-check", "-t", "http", "s", &issuer.resource()];
    assert_eq!(lab.plainly(&add).code, Some(0));
    let login = |lab: &Lab| {
        let running = lab.start(&mut lab.bare(&["login", "s", "--no-browser"]));
        let url = printed_url(lab);
        follow_redirect(&issuer.authorize(&url));
        assert_eq!(running.end().code, Some(0));
        url
    };
    login(&lab);
    let edit = lab.plainly(&["edit", "s", "--set", "oauth.scopes=read audit"]);
    assert_eq!(edit.code, Some(0), "{edit:#?}");
    let url = login(&lab);
    assert!(url.contains("scope=read+audit"), "{url}");
    let again = lab.plainly(&["login", "s"]);
    assert!(again.out.starts_with("already signed in"), "{again:#?}");
}

/// A program that signs in as itself does not use what the user was granted before.
#[test]
fn a_program_does_not_use_the_tokens_of_the_user() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    issuer.add_client("robot", None);
    let url = issuer.resource();
    let add = ["add", "--no-check", "-t", "http", "--client-id", "robot"];
    let added = lab.plainly(&[&add[..], &["s", &url]].concat());
    assert_eq!(added.code, Some(0), "{added:#?}");
    let running = lab.start(&mut lab.bare(&["login", "s", "--no-browser"]));
    follow_redirect(&issuer.authorize(&printed_url(&lab)));
    assert_eq!(running.end().code, Some(0));
    let edit = lab.plainly(&["edit", "s", "--set", "oauth.grantType=client_credentials"]);
    assert_eq!(edit.code, Some(0), "{edit:#?}");
    assert_eq!(lab.plainly(&["call", "s", "greet"]).out, "hello\n");
    assert_eq!(
        issuer.grants(),
        ["authorization_code", "client_credentials"]
    );
}

/// A server that is gone can still be signed out of.
#[test]
fn a_removed_server_can_be_signed_out_of() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let add = ["add", "--no-check", "-t", "http", "s", &issuer.resource()];
    assert_eq!(lab.plainly(&add).code, Some(0));
    let running = lab.start(&mut lab.bare(&["login", "s", "--no-browser"]));
    follow_redirect(&issuer.authorize(&printed_url(&lab)));
    assert_eq!(running.end().code, Some(0));
    let removed = lab.plainly(&["remove", "s"]);
    let note = "you are still signed in to it; sign out with `trunkline logout s`\n";
    assert!(removed.err.contains(note), "{removed:#?}");

    let other = lab.plainly(&["logout", "s", "--account", "work"]);
    assert_eq!(other.code, Some(2), "{other:#?}");
    lab.plainly(&["logout", "s"])
        .is(0, "signed out of \"s\"\n", "");
    assert!(issuer.count("/revoke") > 0);
    assert_eq!(lab.plainly(&["accounts", "--json"]).json(), json!([]));
    assert_eq!(lab.plainly(&["logout", "s"]).code, Some(2));
}

#[test]
fn servers_that_take_no_sign_in_are_told_apart() {
    let lab = Lab::with_entries(|lab| {
        json!({
            "local": lab.scratch.entry("local", &echo()),
            "keyed": {"type": "http", "url": "https://a.example/mcp",
                "headers": {"Authorization": "Bearer x"}},
        })
    });
    for command in ["login", "logout"] {
        lab.run(&[command, "local"]).fails(
            2,
            "\"local\" takes no sign-in: only servers over HTTP do",
            "",
        );
        lab.run(&[command, "keyed"]).fails(
            2,
            "\"keyed\" takes no sign-in: its entry has an \"Authorization\" header",
            "to sign in instead, run `trunkline edit keyed --unset-header Authorization`",
        );
    }
    let run = lab.run(&["login", "nobody"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
}
