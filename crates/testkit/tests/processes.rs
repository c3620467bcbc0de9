//! The end of scripted processes, and their descendants.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use trunkline_testkit::{
    Client, Marker, Scratch, Script, bin, descendants, processes, processes_in_group, wait_until,
};

const LIMIT: Duration = Duration::from_secs(10);

fn pid(client: &Client) -> Pid {
    Pid::from_raw(client.pid().cast_signed()).unwrap()
}

#[test]
fn a_bad_script_or_command_line_exits_64_and_says_why() {
    let scratch = Scratch::new();
    let toml = scratch
        .write("bad.toml", "era = 'future'")
        .to_string_lossy()
        .into_owned();
    let cases: [(&[&str], &str); 7] = [
        (&[], "usage"),
        (&["--inline", r#"{"toolz": []}"#], "toolz"),
        (&["--inline", r#"{"onStart": [{"sleep": 1}]}"#], "sleep"),
        (&["--inline", r#"{"onStart": [{"signal": "KIL"}]}"#], "KIL"),
        (
            &[
                "--inline",
                r#"{"tools": [{"name": "t", "do": [{"progress": {"step": 1}}]}]}"#,
            ],
            "step",
        ),
        (&["--script", "/no/such/file.json"], "/no/such/file.json"),
        (&["--script", &toml], "future"),
    ];
    for (arguments, complaint) in cases {
        let output = Command::new(bin("testkit-server"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
}

#[test]
fn toml_scripts_are_read_too() {
    let scratch = Scratch::new();
    let path = scratch.write(
        "s.toml",
        "[[tools]]\nname = 't'\ndo = [{replyText = 'from toml'}]\n",
    );
    let mut client = Client::spawn(
        Command::new(bin("testkit-server"))
            .arg("--script")
            .arg(path),
    );
    assert_eq!(client.call_text("t", json!({})), "from toml");
}

#[test]
fn it_dies_as_told() {
    let cases = [
        (json!([{"exit": 3}]), Some(3), None),
        (json!([{"signal": "KILL"}]), None, Some(9)),
        (json!([{"signal": "SEGV"}]), None, Some(11)),
        (json!([{"signal": "TERM"}]), None, Some(15)),
        (
            json!([{"ignoreSignals": ["TERM"]}, {"signal": "TERM"}, {"exit": 4}]),
            Some(4),
            None,
        ),
    ];
    for (actions, code, signal) in cases {
        let mut at_start = Client::script(&Script::default().on_start(actions.clone()));
        let mut on_call = Client::script(&Script::default().tool("die", actions.clone()));
        on_call.send("tools/call", json!({"name": "die"}));
        for client in [&mut at_start, &mut on_call] {
            let status = client.wait();
            assert_eq!(
                (status.code(), status.signal()),
                (code, signal),
                "{actions}"
            );
            assert_eq!(client.line(), None);
        }
    }
}

#[test]
fn the_end_of_stdin_means_what_the_script_says() {
    for (on_eof, answered) in [("exit", false), ("finish", true)] {
        let mut script: Script = json!({"onEof": on_eof}).into();
        script = script.tool(
            "slow",
            json!([{"stderr": "on it"}, {"sleepMs": 300}, {"replyText": "done"}]),
        );
        let mut client = Client::script(&script);
        client.send("tools/call", json!({"name": "slow"}));
        assert_eq!(client.error_line().unwrap(), b"on it");
        client.close_stdin();
        assert_eq!(client.wait().code(), Some(0));
        assert_eq!(client.line().is_some(), answered, "{on_eof}");
    }
    let mut client =
        Client::script(&json!({"onEof": "ignore", "onStart": [{"write": "up"}]}).into());
    client.line().unwrap();
    client.close_stdin();
    assert!(client.line_within(Duration::from_millis(100)).is_none());
    assert!(processes::alive(client.pid()));
    kill_process(pid(&client), Signal::TERM).unwrap();
    assert_eq!(client.wait().signal(), Some(15));
}

#[test]
fn ignored_signals_do_not_end_it_but_kill_does() {
    let script = Script::default()
        .on_start(json!([{"ignoreSignals": ["INT", "TERM", "HUP"]}]))
        .tool("t", json!([{"replyText": "alive"}]));
    let mut client = Client::script(&script);
    assert_eq!(client.call_text("t", json!({})), "alive");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(pid(&client), signal).unwrap();
        assert_eq!(client.call_text("t", json!({})), "alive");
    }
    kill_process(pid(&client), Signal::KILL).unwrap();
    assert_eq!(client.wait().signal(), Some(9));
}

#[test]
fn stdout_closes_while_the_process_lives() {
    let mut client = Client::script(&Script::default().tool(
        "close",
        json!([{"closeStdout": true}, {"stderr": "closed"}]),
    ));
    client.send("tools/call", json!({"name": "close"}));
    assert_eq!(client.line(), None);
    assert_eq!(client.error_line().unwrap(), b"closed");
    assert!(processes::alive(client.pid()));
}

#[test]
fn a_server_that_stops_reading_lives_on_unanswering() {
    let script = Script::default().tool(
        "stop",
        json!([{"stopReading": true}, {"replyText": "last words"}]),
    );
    let mut client = Client::script(&script);
    assert_eq!(client.call_text("stop", json!({})), "last words");
    client.send("tools/list", json!({}));
    assert!(client.line_within(Duration::from_millis(100)).is_none());
    client.close_stdin();
    assert!(client.line_within(Duration::from_millis(100)).is_none());
    assert!(
        processes::alive(client.pid()),
        "the end of stdin goes unseen"
    );
}

#[test]
fn stderr_takes_lines_and_floods() {
    let script = Script::default().on_start(json!([{"stderrFlood": 200_000}, {"stderr": "\nend"}]));
    let mut client = Client::script(&script);
    let mut total = 0;
    loop {
        let line = client.error_line().unwrap();
        if line == b"end" {
            break;
        }
        total += line.len() + 1;
    }
    assert!((200_000..200_100).contains(&total), "{total}");
}

#[test]
fn files_order_and_count_what_happens() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.join(name);
    let script = Script::default().on_start(json!([
        {"countFile": at("starts")}, {"writePid": at("pid")}, {"appendFile": {"path": at("log"), "text": "started\n"}},
        {"waitForFile": at("go")}, {"touch": at("gone")}, {"write": "up"}
    ]));
    for _ in 0..12 {
        let mut client = Client::script(&script);
        wait_until(LIMIT, || scratch.read("pid") == client.pid().to_string());
        scratch.write("go", "");
        assert_eq!(client.line().unwrap(), b"up");
    }
    assert_eq!(scratch.read("starts"), "12");
    assert_eq!(scratch.read("log").lines().count(), 12);
    assert!(at("gone").exists());
}

fn start_with_grandchild(settings: &Value, marker: &Marker) -> Client {
    let script =
        Script::default().on_start(json!([{"spawnGrandchild": settings}, {"write": "up"}]));
    let mut command = Command::new(bin("testkit-server"));
    command
        .arg("--inline")
        .arg(script.to_json())
        .envs([marker.env()])
        .process_group(0);
    let mut client = Client::spawn(&mut command);
    assert_eq!(client.line().unwrap(), b"up");
    client
}

#[test]
fn a_grandchild_is_seen_by_group_parent_and_marker() {
    let scratch = Scratch::new();
    for new_session in [false, true] {
        let file = scratch.join(format!("pid-{new_session}"));
        let settings = json!({"ignoreTerm": true, "newSession": new_session, "pidFile": file});
        let mut client = start_with_grandchild(&settings, scratch.marker());
        let grandchild: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        assert_eq!(descendants(client.pid()), [grandchild]);
        assert_eq!(
            processes_in_group(client.pid()).contains(&grandchild),
            !new_session
        );
        let mut marked = scratch.marker().processes();
        marked.sort_unstable();
        let mut expected = vec![client.pid(), grandchild];
        expected.sort_unstable();
        assert_eq!(marked, expected);

        client.close_stdin();
        client.wait();
        kill_process(
            Pid::from_raw(grandchild.cast_signed()).unwrap(),
            Signal::TERM,
        )
        .unwrap();
        assert_eq!(client.line(), None, "it does not hold stdout");
        assert_eq!(
            scratch.marker().processes(),
            [grandchild],
            "re-parented, ignoring SIGTERM, still found"
        );
        scratch.marker().kill_all();
        scratch.assert_no_processes(LIMIT);
    }
}

#[test]
fn a_grandchild_can_hold_stdout_open() {
    let marker = Marker::new();
    let mut client = start_with_grandchild(&json!({"holdStdout": true}), &marker);
    let group = pid(&client);
    client.close_stdin();
    client.wait();
    assert!(client.line_within(Duration::from_millis(100)).is_none());
    kill_process_group(group, Signal::TERM).unwrap();
    assert_eq!(client.line(), None);
    marker.assert_gone(LIMIT);
}
