//! `trunkline serve` on stdio: one MCP server in front of all others (GW-1).

use serde_json::json;
use trunkline_testkit::Client;

use crate::lab::{Lab, echo};

/// Closes the client's side, after which the gateway exits.
fn ends_well(mut client: Client) {
    client.close_stdin();
    assert!(client.wait().success());
}

#[test]
fn clients_of_both_eras_list_and_call_over_stdio() {
    let lab = Lab::with([("one", echo()), ("two", echo())]);
    for version in [None, Some("2025-11-25"), Some("2024-11-05")] {
        let mut client = Client::spawn(&mut lab.command(&["serve"]));
        if let Some(version) = version {
            assert_eq!(client.initialize(version)["protocolVersion"], version);
        }
        let listed = client.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["mcp__one__echo", "mcp__two__echo"]);
        let said = client.call("mcp__two__echo", json!({"a": 1}));
        assert_eq!(said["result"]["content"][0]["text"], r#"{"a":1}"#);
        ends_well(client);
    }
}

#[test]
fn a_denied_tool_is_neither_listed_nor_called() {
    let lab = Lab::with([("one", echo())]);
    let settings = json!({"permissions": {"deny": ["mcp__one__echo"]}});
    lab.write_json("home/.claude/settings.json", &settings);
    let mut client = Client::spawn(&mut lab.command(&["serve"]));
    assert_eq!(
        client.request("tools/list", json!({}))["result"]["tools"],
        json!([])
    );
    let refused = client.call("mcp__one__echo", json!({}));
    assert_eq!(refused["error"]["data"]["reason"], "refused");
    assert_eq!(refused["error"]["data"]["mayHaveRun"], false);
    ends_well(client);
}

#[test]
fn a_profile_must_exist() {
    let lab = Lab::with([("one", echo())]);
    let run = lab.run(&["serve", "--profile", "none"]);
    run.fails(
        2,
        "there is no profile \"none\"",
        "define it under \"gatewayProfiles\" in your settings",
    );
}
