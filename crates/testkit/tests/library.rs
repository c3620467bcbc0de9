//! The library besides the programs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    panic::catch_unwind,
    time::Duration,
};

use serde_json::{Value, json};
use trunkline_testkit::{Client, Scratch, Script, scripted, wait_for, wait_until};

const CALL: &str = r#"{"id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn call(mut stream: &UnixStream) {
    writeln!(stream, "{CALL}").unwrap();
}

#[test]
fn a_script_runs_in_this_process() {
    let stream =
        scripted::in_process(Script::default().tool("t", json!([{"replyText": "from a thread"}])));
    call(&stream);
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert!(line.contains("from a thread"), "{line}");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!((&stream).read(&mut [0]).unwrap(), 0);
}

#[test]
fn what_would_end_a_process_closes_the_streams_here() {
    for actions in [
        json!([{"exit": 1}]),
        json!([{"signal": "KILL"}]),
        json!([{"closeStdout": true}]),
    ] {
        let stream = scripted::in_process(Script::default().tool("t", actions.clone()));
        call(&stream);
        assert_eq!((&stream).read(&mut [0]).unwrap(), 0, "{actions}");
    }
}

#[test]
fn any_streams_can_be_served() {
    let (mut from, to) = std::io::pipe().unwrap();
    let script = Script::default().tool_with(json!({"name": "t"}));
    scripted::serve(script, std::io::Cursor::new(format!("{CALL}\n")), to);
    let mut line = String::new();
    from.read_to_string(&mut line).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&line).unwrap()["result"]["content"][0]["text"],
        "{}"
    );
}

#[test]
fn a_config_runs_its_scripts_under_the_marker() {
    let scratch = Scratch::new();
    let path = scratch.config(&[
        (
            "one",
            json!({"tools": [{"name": "t", "do": [{"replyText": "1"}]}]}),
        ),
        ("two words", json!({"era": "legacy"})),
    ]);
    let config: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let entry = &config["mcpServers"]["one"];
    let strings = |value: &Value| {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut command = std::process::Command::new(entry["command"].as_str().unwrap());
    command.args(strings(&entry["args"]));
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let mut client = Client::spawn(&mut command);
    assert_eq!(client.call_text("t", json!({})), "1");
    assert_eq!(scratch.marker().processes(), [client.pid()]);
    assert!(config["mcpServers"]["two words"]["command"].is_string());
    client.close_stdin();
    scratch.assert_no_processes(Duration::from_secs(10));
}

#[test]
fn a_script_survives_being_written_and_read() {
    let script = Script::default()
        .tool(
            "t",
            json!([{"spawnGrandchild": {"ignoreTerm": true}}, {"signal": "SEGV"}, {"hugeText": 5}]),
        )
        .on("ping", json!([{"silence": true}]))
        .resource("a:b", "c")
        .on_start(json!([{"garbage": 3}]));
    let text = script.to_json();
    assert_eq!(Script::parse(&text).unwrap().to_json(), text);
}

#[test]
fn a_wait_in_vain_says_for_what() {
    wait_until(Duration::from_secs(1), || true);
    let limit = Duration::from_millis(5);
    let panic = catch_unwind(|| wait_for(limit, "godot", || None::<()>)).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("godot"));
    assert!(catch_unwind(|| Scratch::new().config(&[("x", json!({"typo": 1}))])).is_err());
}
