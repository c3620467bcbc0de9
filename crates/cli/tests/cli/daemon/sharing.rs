//! Clients share servers, and notice no difference.

use std::thread;

use serde_json::{Value, json};
use trunkline_testkit::{Client, Script};

use super::{DaemonLab, outcome, pid};
use crate::lab::echo;

const NAMES: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];

#[test]
fn five_clients_of_ten_servers_are_ten_processes() {
    let lab = DaemonLab::with(NAMES.map(|name| (name, echo())), &[]);
    let mut agents: Vec<Client> = (0..5).map(|_| lab.agent()).collect();
    thread::scope(|scope| {
        for (number, agent) in agents.iter_mut().enumerate() {
            scope.spawn(move || {
                for name in NAMES {
                    let text = format!("{number} {name}");
                    let answer = agent.call(&format!("mcp__{name}__echo"), json!({"s": text}));
                    let said: Value = serde_json::from_str(&outcome(&answer).unwrap()).unwrap();
                    assert_eq!(said["s"], text);
                }
            });
        }
    });
    let status = lab.status();
    let servers = status["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 10, "{status:#}");
    assert!(
        servers.iter().all(|server| server["clients"] == 5),
        "{status:#}"
    );
    let pids: std::collections::BTreeSet<i32> =
        servers.iter().map(|server| pid(&server["pid"])).collect();
    assert_eq!(pids.len(), 10, "{status:#}");
    assert_eq!(status["clients"].as_array().unwrap().len(), 50);
    // The daemon, its servers, and the agents: nothing else runs.
    let all = lab.lab.scratch.marker().processes();
    assert_eq!(all.len(), 1 + 10 + 5, "{all:?}");
    assert!(status["totalMemoryBytes"].as_u64() > status["memoryBytes"].as_u64());
}

#[test]
fn commands_use_the_daemon_and_behave_as_without_it() {
    let tools = json!({
        "instructions": "be kind",
        "tools": [
            {"name": "fine", "do": [{"replyText": "fine"}]},
            {"name": "fails", "do": [{"reply": {"content": [{"type": "text", "text": "no"}], "isError": true}}]},
            {"name": "rpc", "do": [{"replyError": {"code": -32000, "message": "broken"}}]},
            {"name": "slow", "do": [{"sleepMs": 20000}]},
            {"name": "typed", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
            {"name": "denied", "do": [{"replyText": "never"}]},
            {"name": "big", "do": [{"hugeText": 300_000}]},
            {"name": "steps", "do": [{"progress": {"steps": 3, "everyMs": 1, "total": true}}, {"replyText": "done"}]},
            {"name": "asks", "do": [
                {"request": {"method": "elicitation/create", "params": {"message": "name?", "requestedSchema":
                    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}},
                {"replyAnswer": true}]},
        ],
        "resources": [{"uri": "file:///r", "name": "r", "text": "content"}],
        "prompts": [{"name": "p", "arguments": [{"name": "city"}]}],
    });
    let mut legacy = tools.clone();
    legacy["era"] = json!("legacy");
    let lab = DaemonLab::with(
        [
            ("s", Script::from(tools)),
            ("old", Script::from(legacy)),
            (
                "dead",
                Script::from(json!({"onStart": [{"stderr": "no licence"}, {"exit": 3}]})),
            ),
        ],
        &[],
    );
    lab.lab.write_json(
        "home/.claude/settings.json",
        &json!({"permissions": {"deny": ["mcp__s__denied", "mcp__old__denied"]}}),
    );
    let mut commands: Vec<Vec<&str>> = vec![vec!["call", "dead", "x"]];
    for server in ["s", "old"] {
        commands.extend([
            vec!["call", server, "fine"],
            vec!["call", server, "fine", "--json"],
            vec!["call", server, "fails"],
            vec!["call", server, "rpc"],
            vec!["call", server, "slow", "--timeout", "300ms"],
            vec!["call", server, "typed", "n=x"],
            vec!["call", server, "typed", "n=3"],
            vec!["call", server, "denied"],
            vec!["call", server, "unknown"],
            vec!["call", server, "steps"],
            vec!["call", server, "asks"],
            vec!["call", server, "asks", "--elicit", "name=Ada"],
            vec!["tools", server, "--refresh", "--json"],
            vec!["read", server, "file:///r"],
            vec!["prompt", server, "p", "Paris"],
        ]);
    }
    for command in &commands {
        let alone = lab.run(&[&["--no-daemon"], &command[..]].concat());
        let shared = lab.run(command);
        let told = |run: &crate::lab::Run| (run.code, run.out.clone(), run.err.clone());
        assert_eq!(told(&shared), told(&alone), "{command:?}");
    }
    let status = lab.status();
    let names: Vec<&Value> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["name"])
        .collect();
    assert_eq!(
        names,
        ["old", "s"],
        "each was used, and the dead one is forgotten"
    );
}

#[test]
fn it_can_be_avoided_and_its_absence_is_said_only_when_asked() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    let used = lab.run(&["-v", "call", "s", "echo", "n=1"]);
    assert!(used.err.contains("is run by the daemon"), "{used:#?}");
    for avoid in [
        &["-v", "--no-daemon", "call", "s", "echo"][..],
        &["-v", "call", "--no-daemon", "s", "echo"],
    ] {
        let run = lab.run(avoid);
        assert!(!run.err.contains("is run by the daemon"), "{run:#?}");
    }
    let mut command = lab.lab.command(&["-v", "call", "s", "echo"]);
    let run = command.env("TRUNKLINE_NO_DAEMON", "true").output().unwrap();
    assert!(!String::from_utf8_lossy(&run.stderr).contains("is run by the daemon"));
    // A killed daemon leaves its socket.
    super::kill(lab.pid());
    let run = lab.run(&["-v", "call", "s", "echo", "n=1"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.err.contains("is started here: no daemon is running"),
        "{run:#?}"
    );
    lab.start(&[]);
}

#[test]
fn different_definitions_and_projects_do_not_share() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    let entry = |value: &str| {
        let mut entry = lab.lab.scratch.entry("s", &echo());
        entry["env"]["X"] = json!(value);
        json!({"mcpServers": {"s": entry}}).to_string()
    };
    for value in ["1", "2", "1"] {
        let config = entry(value);
        let run = lab
            .lab
            .bare(&["--mcp-config", &config, "call", "s", "echo"])
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
    }
    assert_eq!(lab.status()["servers"].as_array().unwrap().len(), 2);
    std::fs::create_dir(lab.lab.at("other")).unwrap();
    let run = lab
        .lab
        .bare(&["--mcp-config", &entry("1"), "call", "s", "echo"])
        .current_dir(lab.lab.at("other"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    assert_eq!(lab.status()["servers"].as_array().unwrap().len(), 3);
}

#[test]
fn a_server_gets_the_environment_of_its_client() {
    let lab = DaemonLab::with([("unused", echo())], &[]);
    // A server that is a shell script tells what it got.
    let script = lab.lab.scratch.write(
        "env.sh",
        "env > \"$OUT\"; exec \"$SERVER\" --inline '{\"tools\":[{\"name\":\"t\"}]}'\n",
    );
    let entry = json!({"mcpServers": {"s": {"command": "sh", "args": [script], "env": {
        "OUT": lab.lab.at("env"), "SERVER": trunkline_testkit::bin("testkit-server")}}}});
    let run = lab
        .lab
        .bare(&["--mcp-config", &entry.to_string(), "call", "s", "t"])
        .env("ONLY_HERE", "yes")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let got = lab.lab.scratch.read("env");
    assert!(got.lines().any(|line| line == "ONLY_HERE=yes"), "{got}");
    let own = format!("CLAUDE_PROJECT_DIR={}", lab.lab.scratch.path().display());
    assert!(got.lines().any(|line| line == own), "{got}");
    assert_eq!(lab.status()["servers"][0]["clients"], 0);
}

#[test]
fn a_server_that_cannot_be_shared_is_started_by_each_client() {
    let lab = DaemonLab::with([("unused", echo())], &[]);
    let mut entry = lab.lab.scratch.entry("s", &echo());
    entry["share"] = json!(false);
    let config = json!({"mcpServers": {"s": entry}}).to_string();
    let run = lab
        .lab
        .bare(&["--mcp-config", &config, "call", "s", "echo"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    assert_eq!(lab.status()["servers"], json!([]));
}
