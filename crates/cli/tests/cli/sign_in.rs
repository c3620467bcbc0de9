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

#[test]
fn servers_that_take_no_sign_in_are_told_apart() {
    let lab = Lab::with_entries(|lab| {
        json!({
            "local": lab.scratch.entry("local", &echo()),
            "keyed": {"type": "http", "url": "https://a.example/mcp",
                "headers": {"Authorization": "Bearer x"}},
        })
    });
    for name in ["local", "keyed"] {
        lab.run(&["login", name]).fails(
            2,
            &format!("\"{name}\" takes no sign-in"),
            "only servers over HTTP without an \"Authorization\" header do",
        );
    }
    let run = lab.run(&["login", "nobody"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
}
