//! `trunkline list`.

use serde_json::{Value, json};
use trunkline_testkit::Era;
use trunkline_testkit::net::SseServer;

use crate::lab::{Lab, echo};

/// One server in every state.
fn of_every_fate() -> Lab {
    Lab::with_entries(|lab| {
        let mut off = lab.scratch.entry(
            "off",
            &echo().on_start(json!([{"touch": lab.at("off.started")}])),
        );
        off["disabled"] = json!(true);
        let good = echo()
            .resource("file:///x", "x")
            .prompt(json!({"name": "p"}))
            .prompt(json!({"name": "q"}));
        json!({
            "good": lab.scratch.entry("good", &good),
            "old": lab.scratch.entry("old", &json!({"era": "legacy", "serverInfo": {"name": "old", "version": "0.9", "title": "Old"}})),
            "crashes": lab.scratch.entry("crashes", &json!({"onStart": [{"stderr": "no licence found"}, {"exit": 3}]})),
            "missing": {"command": "no-such-program"},
            "remote": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "off": off,
        })
    })
}

#[test]
fn each_server_is_shown_with_its_state_and_why_it_failed() {
    let lab = of_every_fate();
    lab.run(&["list"]).is(
        0,
        "\
crashes  failed     dynamic     stdio
  from .mcp-config.json
  the server's process exited with status 3 before it was connected
  command: [SERVER] --script [DIR]/scripts/crashes.json
  hint: run the command in a terminal to see why it exits
  stderr (see `trunkline logs crashes`):
    | no licence found
good     connected  dynamic     stdio       1 tool, 2 prompts, 1 resource
missing  failed     dynamic     stdio
  from .mcp-config.json
  command not found: no-such-program
  command: no-such-program
  hint: install the program, or set \"command\" to its full path
off      disabled   dynamic     stdio
  from .mcp-config.json
  hint: enable it with `trunkline enable off`
old      connected  dynamic     stdio       0 tools
remote   failed     dynamic     http
  from .mcp-config.json
  127.0.0.1:9 refused the connection
  url: http://127.0.0.1:9/mcp
  hint: check that it runs, and check the \"url\" in its entry
",
        "",
    );
    assert!(!lab.at("off.started").exists());
}

#[test]
fn as_json_it_is_one_document_of_the_promised_shape() {
    let lab = of_every_fate();
    let servers = lab.run(&["list", "--json"]).json();
    let of = |name: &str, rest: Value| {
        let mut server = json!({"name": name, "scope": "dynamic", "transport": "stdio", "tools": 0, "prompts": 0,
            "resources": 0, "source": ".mcp-config.json"});
        server
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        server
    };
    let expected = json!([
        of(
            "crashes",
            json!({"state": "failed", "stderr": ["no licence found"],
            "error": "the server's process exited with status 3 before it was connected",
            "hint": "run the command in a terminal to see why it exits"})
        ),
        of(
            "good",
            json!({"state": "connected", "tools": 1, "prompts": 2, "resources": 1, "protocolVersion": "2026-07-28",
            "serverInfo": {"name": "testkit", "version": "1.0.0"}})
        ),
        of(
            "missing",
            json!({"state": "failed", "stderr": [], "error": "command not found: no-such-program",
            "hint": "install the program, or set \"command\" to its full path"})
        ),
        of("off", json!({"state": "disabled"})),
        of(
            "old",
            json!({"state": "connected", "protocolVersion": "2025-11-25",
            "serverInfo": {"name": "old", "version": "0.9", "title": "Old"}})
        ),
        of(
            "remote",
            json!({"transport": "http", "state": "failed", "stderr": [],
            "error": "127.0.0.1:9 refused the connection", "hint": "check that it runs, and check the \"url\" in its entry"})
        ),
    ]);
    assert_eq!(servers, expected);
    assert_eq!(lab.run(&["--json", "list"]).json(), expected);
}

#[test]
fn problems_of_catalogs_are_listed_below() {
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "a.b"}, {"name": "a_b"}], "rawTools": [{"description": "nameless"}]}),
    )]);
    let run = lab.run(&["list"]);
    let (table, problems) = run.out.split_once("\nproblems:\n").expect("problems");
    assert_eq!(table, "s  connected  dynamic     stdio       2 tools\n");
    assert!(
        problems.contains("  s: tools/list: skipped item 2: it has no name\n"),
        "{problems}"
    );
    assert!(
        problems.contains("  s: tool \"a_b\" of \"s\" is named mcp__s__a_b_"),
        "{problems}"
    );
    let diagnostics = lab.run(&["list", "--json"]).json()[0]["diagnostics"].clone();
    assert_eq!(diagnostics.as_array().unwrap().len(), 2, "{diagnostics}");
}

#[test]
fn a_server_that_never_answers_or_prints_garbage_is_explained_in_time() {
    let mute = json!({"server/discover": [{"silence": true}], "initialize": [{"silence": true}]});
    let lab = Lab::with([
        (
            "garbage",
            json!({"on": mute, "onStart": [{"write": "Hello from my server"}]}),
        ),
        ("mute", json!({"on": mute})),
    ]);
    let run = lab.finish(lab.command(&["list"]).env("MCP_TIMEOUT", "600"));
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(
        (run.code, lines.len(), run.err.as_str()),
        (Some(0), 10, ""),
        "{run:#?}"
    );
    let given_up = "  no answer to the handshake after 0.";
    assert_eq!(lines[0], "garbage  failed  dynamic     stdio");
    assert_eq!(lines[1], "  from .mcp-config.json");
    assert!(lines[2].starts_with(given_up), "{}", lines[2]);
    assert!(
        lines[2].ends_with("; stdout has output that is not a message: \"Hello from my server\""),
        "{}",
        lines[2]
    );
    assert_eq!(
        lines[4],
        "  hint: an MCP server must write only messages to stdout; make it log to stderr"
    );
    assert_eq!(lines[5], "mute     failed  dynamic     stdio");
    assert!(lines[7].starts_with(given_up), "{}", lines[7]);
    assert!(
        lines[9].contains("raise MCP_TIMEOUT or connectTimeout in its entry (ms)"),
        "{}",
        lines[9]
    );
}

#[test]
fn a_server_that_dies_right_after_it_was_connected_does_not_keep_the_list_waiting() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "t"}], "prompts": [{"name": "p"}], "on": {
        "tools/list": [{"touch": lab.at("listed")}, {"default": true}],
        "prompts/list": [{"waitForFile": lab.at("listed")}, {"sleepMs": 20}, {"stderr": "out of memory"}, {"exit": 9}]}});
    lab.scratch
        .config(&[("s", script), ("t", serde_json::to_value(echo()).unwrap())]);
    let started = std::time::Instant::now();
    let servers = lab.run(&["list", "--json"]).json();
    assert!(started.elapsed().as_secs() < 15, "{:?}", started.elapsed());
    assert_eq!(servers[1]["state"], "connected");
    assert_ne!(servers[0]["state"], "connected");
    assert!(
        servers[0]["error"]
            .as_str()
            .is_some_and(|error| error.contains("status 9")),
        "{}",
        servers[0]
    );
}

#[test]
fn below_a_project_the_project_is_named() {
    let lab = Lab::new();
    lab.plainly(&["add", "--no-check", "s", "--", "cat"]);
    std::fs::create_dir(lab.at("sub")).unwrap();
    let above = "[DIR] has servers; run trunkline there";
    let run = lab.finish(lab.bare(&["list"]).current_dir(lab.at("sub")));
    run.is(0, &format!("no servers are configured here; {above}\n"), "");
    let run = lab.finish(lab.bare(&["call", "s", "t"]).current_dir(lab.at("sub")));
    run.fails(2, "no servers are configured", above);
}

#[test]
fn a_url_without_a_type_is_listed_as_what_it_turned_out_to_be() {
    let server = SseServer::start(echo().era(Era::Legacy));
    let lab = Lab::with_entries(|_| json!({"s": {"url": server.url()}}));
    let rows = lab.run(&["list", "--json"]).json();
    assert_eq!(
        (&rows[0]["state"], &rows[0]["transport"]),
        (&json!("connected"), &json!("sse"))
    );
}
