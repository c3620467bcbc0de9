//! Servers that need a sign-in: exit code 4 and a hint (UI-2).

use rustix::process::Signal;
use serde_json::json;
use trunkline_testkit::net::{OAuthServer, follow_redirect};
use trunkline_testkit::wait_for;

use crate::connectors::{Api, http};
use crate::lab::{Lab, Run, SOON, echo, files_under, parsed};
use crate::pty::Session;
use crate::signals::send;

const SIGN_IN: &str = "sign in with `trunkline login s`";

/// A lab whose only server responds with 401 and this text.
fn locked() -> (Lab, Api) {
    let api = Api::start(http(
        "401 Unauthorized",
        "{\"message\": \"your plan has ended\"}",
    ));
    let lab =
        Lab::with_entries(|_| json!({"s": {"type": "http", "url": format!("{}/mcp", api.url)}}));
    (lab, api)
}

#[test]
fn every_command_whose_only_server_needs_a_sign_in_exits_with_4() {
    let (lab, _api) = locked();
    let commands: [&[&str]; 12] = [
        &["tools"],
        &["tools", "s"],
        &["tools", "s", "t"],
        &["search", "x"],
        &["call", "s", "t"],
        &["resources"],
        &["read", "s", "x:y"],
        &["prompts"],
        &["prompt", "s", "p"],
        &["get", "s"],
        &["status"],
        &["call", "mcp__s__t", "a=1"],
    ];
    for words in commands {
        let run = lab.run(words);
        assert_eq!(run.code, Some(4), "{words:?}: {run:#?}");
        let said = format!("{}{}", run.out, run.err);
        assert!(
            said.contains(&format!("hint: {SIGN_IN}\n")),
            "{words:?}: {said}"
        );
        let json = lab.run(&[words, &["--json"]].concat());
        assert_eq!(json.code, Some(4), "{words:?}: {json:#?}");
        let error = &parsed(&json.err)["error"];
        assert_eq!(
            (&error["kind"], &error["exitCode"]),
            (&json!("needs-auth"), &json!(4))
        );
    }
}

#[test]
fn the_list_says_what_the_server_said_and_what_to_do() {
    let (lab, _api) = locked();
    let rows = lab.run(&["list", "--json"]).json();
    assert_eq!(
        (&rows[0]["state"], &rows[0]["hint"]),
        (&json!("needs-auth"), &json!(SIGN_IN))
    );
    let error = rows[0]["error"].as_str().unwrap();
    assert!(
        error.contains("401") && error.contains("your plan has ended"),
        "{error}"
    );
    // A server that asked for a sign-in is not probed again (AUTH-7).
    let again = lab.run(&["list"]).out;
    assert!(again.contains("15 minutes"), "{again}");
    let (lab, _api) = locked();
    let listed = lab.run(&["list"]);
    assert_eq!(listed.code, Some(0));
    assert!(listed.out.contains("your plan has ended"), "{}", listed.out);
}

#[test]
fn a_failing_server_beside_a_running_one_is_only_reported() {
    let api = Api::start(http("401 Unauthorized", ""));
    let lab = Lab::with_entries(
        |lab| json!({"s": {"type": "http", "url": format!("{}/mcp", api.url)}, "t": lab.scratch.entry("t", &echo())}),
    );
    let run = lab.run(&["tools"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (Some(0), "mcp__t__echo  Echoes\n")
    );
    assert_eq!(run.err.lines().count(), 2, "{}", run.err);
}

/// A lab with a server that a test issuer protects.
pub(crate) fn protected() -> (Lab, OAuthServer) {
    let issuer = OAuthServer::start();
    let lab = Lab::with_entries(|_| json!({"s": {"type": "http", "url": issuer.resource()}}));
    (lab, issuer)
}

/// Waits for the URL that `login` prints.
pub(crate) fn printed_url(lab: &Lab) -> String {
    wait_for(SOON, "the URL", || {
        let text = lab.scratch.read("stderr");
        let mut lines = text.lines().map(str::trim);
        lines
            .find(|line| line.contains("/authorize?"))
            .map(str::to_owned)
    })
}

/// Signs in as a user does in a browser.
pub(crate) fn sign_in(lab: &Lab, issuer: &OAuthServer) -> Run {
    let running = lab.start(&mut lab.command(&["login", "s", "--no-browser"]));
    let page = follow_redirect(&issuer.authorize(&printed_url(lab)));
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    running.end()
}

/// Returns every token of the issuer that a file outside the vault holds.
fn leaked_tokens(lab: &Lab) -> Vec<String> {
    let files = files_under(lab.scratch.path()).into_iter();
    let open = files.filter(|file| !file.to_string_lossy().contains("secrets"));
    let texts = open.filter_map(|file| std::fs::read_to_string(file).ok());
    let token = |text: String| text.contains("access-").then_some(text);
    texts.filter_map(token).collect()
}

/// AUTH-2, AUTH-3, AUTH-4, AUTH-10: the whole life of a sign-in, each step in a process of its own.
#[test]
fn a_sign_in_lasts_over_processes_is_refreshed_and_ends_with_logout() {
    let (lab, issuer) = protected();
    let listed = lab.run(&["list"]);
    let hint = format!("hint: {SIGN_IN}\n");
    assert!(listed.out.contains(&hint), "{listed:#?}");

    issuer.configure(|options| options.expires_in = 1);
    let run = sign_in(&lab, &issuer);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let said = format!(
        "signed in to \"s\" at {}\n  connected: 1 tool\n",
        issuer.issuer()
    );
    assert_eq!(run.out, said);
    assert_eq!(lab.run(&["call", "s", "greet"]).out, "hello\n");

    let accounts = lab.run(&["accounts", "--json"]).json();
    assert_eq!(accounts[0]["server"], json!("s"));
    assert_eq!(accounts[0]["issuer"], json!(issuer.issuer()));
    assert!(lab.run(&["accounts"]).out.starts_with("s  "));
    let again = lab.run(&["login", "s"]);
    let already = format!("already signed in to \"s\" at {}\n", issuer.issuer());
    again.is(0, &already, "");

    // The token lives for a second.
    wait_for(SOON, "a refresh", || {
        assert_eq!(lab.run(&["call", "s", "greet"]).out, "hello\n");
        (issuer.refreshes() > 0).then_some(())
    });
    assert_eq!(leaked_tokens(&lab), Vec::<String>::new());

    lab.run(&["logout", "s"]).is(0, "signed out of \"s\"\n", "");
    assert!(issuer.count("/revoke") > 0);
    assert_eq!(lab.run(&["call", "s", "greet"]).code, Some(4));
    lab.run(&["logout", "s"])
        .is(0, "nobody is signed in to \"s\"\n", "");
    assert_eq!(lab.run(&["accounts", "--json"]).json(), json!([]));
}

#[test]
fn a_pasted_redirect_completes_the_sign_in() {
    let (lab, issuer) = protected();
    let mut session = Session::start(&mut lab.command(&["login", "s", "--no-browser"]));
    session.answer("Waiting", "https://elsewhere.example/?code=x&state=y");
    let screen = session.wait_for_text("warning: ");
    let url = screen.lines().find(|line| line.contains("/authorize?"));
    let redirect = issuer.authorize(url.unwrap().trim());
    session.answer("warning: ", &redirect);
    let (code, screen) = session.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("signed in to \"s\""), "{screen}");
}

#[test]
fn an_interrupted_login_ends_at_once() {
    let (lab, _issuer) = protected();
    let running = lab.start(&mut lab.command(&["login", "s", "--no-browser"]));
    printed_url(&lab);
    send(&running, Signal::INT);
    let run = running.end();
    assert_eq!(run.code, Some(130), "{run:#?}");
}

/// AUTH-6: a call that lacks scopes says so, and the next login asks for them.
#[test]
fn missing_scopes_are_granted_by_another_login() {
    let (lab, issuer) = protected();
    assert_eq!(sign_in(&lab, &issuer).code, Some(0));
    issuer.configure(|options| options.required_scopes = vec!["admin".to_owned()]);
    let run = lab.run(&["call", "s", "greet"]);
    assert_eq!(run.code, Some(4), "{run:#?}");
    assert!(run.err.contains("admin"), "{}", run.err);
    assert!(
        run.err.contains(&format!("hint: {SIGN_IN}\n")),
        "{}",
        run.err
    );

    let running = lab.start(&mut lab.command(&["login", "s", "--no-browser"]));
    let url = printed_url(&lab);
    assert!(url.contains("admin"), "{url}");
    follow_redirect(&issuer.authorize(&url));
    let run = running.end();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.run(&["call", "s", "greet"]).out, "hello\n");
}

/// Several accounts at one server, and who is signed in.
#[test]
fn accounts_are_told_apart() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let add = ["add", "--no-check", "-t", "http", "s", &issuer.resource()];
    let added = lab.plainly(&add);
    assert_eq!(added.code, Some(0), "{added:#?}");
    let login = ["login", "s", "--no-browser", "--account", "work"];
    let running = lab.start(&mut lab.bare(&login));
    follow_redirect(&issuer.authorize(&printed_url(&lab)));
    assert_eq!(running.end().code, Some(0));
    // The entry names no account.
    assert_eq!(lab.plainly(&["call", "s", "greet"]).code, Some(4));
    let edit = lab.plainly(&["edit", "s", "--set", "account=work"]);
    assert_eq!(edit.code, Some(0), "{edit:#?}");
    assert_eq!(lab.plainly(&["call", "s", "greet"]).out, "hello\n");

    let shown = format!("signed in: work at {}", issuer.issuer());
    for words in [["list", "-v"], ["get", "s"], ["status", "-v"]] {
        let out = lab.plainly(&words).out;
        assert!(out.contains(&shown), "{words:?}: {out}");
    }
    let row = &lab.plainly(&["list", "--json"]).json()[0];
    assert_eq!(row["account"]["account"], json!("work"));
    assert_eq!(row["account"]["issuer"], json!(issuer.issuer()));

    let bad = lab.plainly(&["login", "s", "--account", "../x"]);
    assert_eq!(bad.code, Some(2), "{bad:#?}");
    lab.plainly(&["logout", "s", "--account", "other"]).is(
        0,
        "nobody is signed in to \"s\" as other\n",
        "",
    );
    lab.plainly(&["logout", "s"])
        .is(0, "signed out of \"s\"\n", "");
}

#[test]
fn all_servers_that_wait_are_signed_in_to_one_after_the_other() {
    let issuer = OAuthServer::start();
    let other = OAuthServer::start();
    let lab = Lab::with_entries(|lab| {
        json!({
            "a": {"type": "http", "url": issuer.resource()},
            "b": {"type": "http", "url": other.resource()},
            "local": lab.scratch.entry("local", &echo()),
        })
    });
    let running = lab.start(&mut lab.command(&["login", "--all", "--no-browser"]));
    follow_redirect(&issuer.authorize(&printed_url(&lab)));
    let second = wait_for(SOON, "the second URL", || {
        let text = lab.scratch.read("stderr");
        let mut lines = text.lines().map(str::trim);
        let url = lines.find(|line| line.starts_with(&other.issuer()));
        url.map(str::to_owned)
    });
    follow_redirect(&other.authorize(&second));
    let run = running.end();
    assert_eq!(run.code, Some(0), "{run:#?}");
    for name in ["a", "b"] {
        assert_eq!(lab.run(&["call", name, "greet"]).out, "hello\n");
    }
    let again = lab.run(&["login", "--all"]);
    assert_eq!(again.code, Some(0));
    assert!(again.err.contains("no server waits"), "{again:#?}");
    assert_eq!(lab.run(&["login"]).code, Some(2));
}

/// Adds the server `s`, where the client `robot` is registered.
fn add_robot(lab: &Lab, issuer: &OAuthServer) {
    issuer.add_client("robot", Some("s3cret"));
    let url = issuer.resource();
    let add = ["add", "--no-check", "-t", "http", "--client-id", "robot"];
    let add = [&add[..], &["--client-secret", "s", &url]].concat();
    let added = lab.finish(lab.bare(&add).env("MCP_CLIENT_SECRET", "s3cret"));
    assert_eq!(added.code, Some(0), "{added:#?}");
}

/// AUTH-9: one sign-in at the identity provider serves the servers behind it.
#[test]
fn an_enterprise_sign_in_serves_servers_without_a_browser() {
    let (lab, issuer, idp) = (Lab::new(), OAuthServer::start(), OAuthServer::start());
    idp.add_client("desk", Some("idp-secret"));
    add_robot(&lab, &issuer);
    let oauth = r#"oauth={"clientId":"robot","xaa":true}"#;
    assert_eq!(lab.plainly(&["edit", "s", "--set", oauth]).code, Some(0));

    let setup = [
        "xaa",
        "setup",
        "--issuer",
        &idp.issuer(),
        "--client-id",
        "desk",
    ];
    let done = lab.finish(
        lab.bare(&setup)
            .env("MCP_XAA_IDP_CLIENT_SECRET", "idp-secret"),
    );
    assert_eq!(done.code, Some(0), "{done:#?}");
    let refused = lab.plainly(&["call", "s", "greet"]);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    let hinted = lab.plainly(&["list"]).out;
    assert!(hinted.contains("trunkline xaa login"), "{hinted}");

    let running = lab.start(&mut lab.bare(&["xaa", "login", "--no-browser"]));
    follow_redirect(&idp.authorize(&printed_url(&lab)));
    let run = running.end();
    assert_eq!(run.code, Some(0), "{run:#?}");
    let called = lab.plainly(&["call", "s", "greet"]);
    assert_eq!(called.out, "hello\n", "{called:#?}");
    assert_eq!(issuer.count("/authorize"), 0);

    let shown = lab.plainly(&["xaa", "show"]);
    assert!(shown.out.contains("signed in: "), "{shown:#?}");
    let cleared = lab.plainly(&["xaa", "clear"]);
    assert!(cleared.out.contains("forgot"), "{cleared:#?}");
    assert_eq!(lab.plainly(&["xaa", "show", "--json"]).json(), json!(null));
    let bad = [
        "xaa",
        "setup",
        "--issuer",
        "http://a.example",
        "--client-id",
        "x",
    ];
    assert_eq!(lab.plainly(&bad).code, Some(2));
    assert_eq!(lab.plainly(&["xaa", "login"]).code, Some(2));
}

/// AUTH-10: a program signs in as itself.
#[test]
fn a_machine_signs_in_with_its_client_secret() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    add_robot(&lab, &issuer);
    let oauth = |grant: &str| format!(r#"oauth={{"clientId":"robot","grantType":"{grant}"}}"#);
    let bad = lab.plainly(&["edit", "s", "--set", &oauth("password")]);
    assert_eq!(bad.code, Some(2), "{bad:#?}");
    let edit = lab.plainly(&["edit", "s", "--set", &oauth("client_credentials")]);
    assert_eq!(edit.code, Some(0), "{edit:#?}");
    let called = lab.plainly(&["call", "s", "greet"]);
    assert_eq!(called.out, "hello\n", "{called:#?}");
    assert_eq!(issuer.grants(), ["client_credentials"]);
    assert_eq!(issuer.count("/authorize"), 0);
    // The next process uses the stored token.
    assert_eq!(lab.plainly(&["call", "s", "greet"]).out, "hello\n");
    assert_eq!(issuer.grants().len(), 1);
}
