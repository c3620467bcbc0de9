//! `trunkline status`.

use serde_json::json;

use crate::lab::{Lab, echo};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.servers(".mcp.json", &json!({"proj": lab.marking("proj")}));
    let crash = json!({"onStart": [{"stderr": "no key"}, {"exit": 3}]});
    let entries = json!({
        "good": lab.scratch.entry("good", &echo()),
        "crash": lab.scratch.entry("crash", &crash),
        "off": {"command": "cat", "disabled": true},
    });
    lab.servers(".mcp-config.json", &entries);
    lab
}

#[test]
fn every_server_is_reported_with_a_hint() {
    let lab = lab();
    lab.run(&["status"]).is(
        0,
        "connected: 1 (good)\nfailed: 1 (crash)\npending-approval: 1 (proj)\ndisabled: 1 (off)\n\
         servers by transport: stdio: 1 connected, 1 failed, 1 pending-approval, 1 disabled\n\
         tools: 1, resources: 0, resource templates: 0, prompts: 0; built-in tools: ToolSearch\n\
         crash:\n  the server's process exited with status 3 before it was connected\n  command: [SERVER] --script [DIR]/scripts/crash.json\n  \
         hint: run the command in a terminal to see why it exits\n  \
         stderr (see `trunkline logs crash`):\n    | no key\n\
         off:\n  hint: enable it with `trunkline enable off`\n\
         proj:\n  it comes with the project and needs your approval\n  hint: review it with `trunkline approve proj`\n",
        "",
    );
    assert!(!lab.started("proj"));
}

#[test]
fn as_json_they_are_all_among_the_clients() {
    let lab = lab();
    let status = lab.run(&["status", "--json"]).json();
    let clients = status["clients"].as_array().unwrap();
    let told: Vec<_> = clients
        .iter()
        .map(|client| {
            [&client["name"], &client["type"], &client["hint"]]
                .map(|value| value.as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        told,
        [
            [
                "crash",
                "failed",
                "run the command in a terminal to see why it exits"
            ],
            ["good", "connected", ""],
            ["off", "disabled", "enable it with `trunkline enable off`"],
            [
                "proj",
                "pending-approval",
                "review it with `trunkline approve proj`"
            ],
        ]
    );
    assert_eq!(
        status["serverCounts"],
        json!({"stdio": {"connected": 1, "failed": 1, "pending-approval": 1, "disabled": 1}})
    );
    assert_eq!(clients[0]["stderr"], json!(["no key"]));
    assert_eq!(
        clients[3]["error"],
        "it comes with the project and needs your approval"
    );
}

#[test]
fn unneeded_servers_do_not_start() {
    let lab = Lab::with([("s", echo())]);
    lab.run(&["tools"]).is(0, "mcp__s__echo  Echoes\n", "");
    let run = lab.run(&["--lazy", "status"]);
    assert!(run.out.starts_with("not started: 1 (s)\n"), "{}", run.out);
}
