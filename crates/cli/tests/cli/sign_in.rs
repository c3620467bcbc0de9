//! Servers that need a sign-in: exit code 4 and a hint (UI-2).

use serde_json::json;

use crate::connectors::{Api, http};
use crate::lab::{Lab, echo, parsed};

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
