//! `--trace`: every message in both directions, as JSON lines without secrets.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::lab::{Lab, Run, echo, parsed};

/// The lines of a trace.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(parsed).collect()
}

/// The messages in one direction.
fn messages(trace: &[Value], direction: &str) -> Vec<Value> {
    let wanted = trace.iter().filter(|line| line["direction"] == direction);
    wanted.map(|line| line["message"].clone()).collect()
}

#[track_caller]
fn ended_well(run: &Run, out: &str) {
    assert_eq!((run.code, run.out.as_str()), (Some(0), out), "{run:#?}");
}

#[test]
fn every_message_is_there_in_order_and_only_its_owner_can_read_it() {
    let script = json!({"tools": [{"name": "t", "do": [
        {"progress": {"steps": 1}}, {"write": "no message"}, {"replyText": "done"}]}]});
    let lab = Lab::with([("s", script)]);
    lab.scratch.write("trace", "what was there before\n");
    for arguments in [
        &["--trace", "trace", "call", "s", "t", "n:=1"][..],
        &["call", "s", "t", "n:=1", "--trace", "trace"],
    ] {
        ended_well(&lab.run(arguments), "done\n");
        let trace = lines(&lab.scratch.read("trace"));
        for line in &trace {
            assert_eq!(line["server"], "s");
            assert_eq!(line["time"].as_str().unwrap().len(), 24);
        }
        let out = messages(&trace, "out");
        let call = out
            .iter()
            .find(|message| message["method"] == "tools/call")
            .unwrap();
        assert_eq!(call["params"]["arguments"], json!({"n": 1}));
        // Which call it is must be told, though it is called a token.
        let token = &call["params"]["_meta"]["progressToken"];
        assert!(token.is_number(), "{call}");
        let heard = messages(&trace, "in");
        let place = |wanted: &dyn Fn(&Value) -> bool| heard.iter().position(wanted).unwrap();
        let progress = place(&|message| message["params"]["progressToken"] == *token);
        let answer = place(&|message| {
            message["id"] == call["id"] && message["result"]["content"][0]["text"] == "done"
        });
        assert!(progress < answer);
        assert!(
            trace
                .iter()
                .any(|line| line["direction"] == "in" && line["text"] == "no message")
        );
        // Every answer has its question, and that comes first.
        let at = |wanted: &Value, direction| {
            let is =
                |line: &Value| line["direction"] == direction && line["message"]["id"] == *wanted;
            trace.iter().position(is)
        };
        for message in heard.iter().filter(|message| message.get("id").is_some()) {
            assert!(
                at(&message["id"], "out") < at(&message["id"], "in"),
                "{message}"
            );
        }
        let mode = std::fs::metadata(lab.at("trace"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn secrets_are_masked_wherever_they_are() {
    let lab = Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &echo());
        entry["env"]["VALUE"] = json!("s3cr3t-value");
        json!({"s": entry})
    });
    let arguments = [
        "call",
        "s",
        "echo",
        "s=it is s3cr3t-value",
        "password=hunter2",
        "n:=1",
        "--trace",
        "trace",
    ];
    // The result itself is what it is.
    let run = lab.run(&arguments);
    assert!(run.out.contains("s3cr3t-value") && run.out.contains("hunter2"));
    let text = lab.scratch.read("trace");
    assert!(
        !text.contains("s3cr3t") && !text.contains("hunter2"),
        "{text}"
    );
    let trace = lines(&text);
    let out = messages(&trace, "out");
    let call = out
        .iter()
        .find(|message| message["method"] == "tools/call")
        .unwrap();
    assert_eq!(
        call["params"]["arguments"],
        json!({"s": "it is ***", "password": "***", "n": 1})
    );
}

#[test]
fn a_dash_is_standard_error_and_results_stay_alone() {
    let lab = Lab::with([("s", echo())]);
    let run = lab.run(&["call", "s", "echo", "s=x", "--trace", "-"]);
    ended_well(&run, "{\"s\":\"x\"}\n");
    let trace = lines(&run.err);
    assert!(
        messages(&trace, "out")
            .iter()
            .any(|message| message["method"] == "tools/call")
    );
}

#[test]
fn every_command_that_connects_can_be_traced() {
    let lab = Lab::with([("s", echo())]);
    for command in [
        &["list"][..],
        &["tools", "--refresh"],
        &["get", "s", "--refresh"],
        &["demo"],
    ] {
        let before = [&["--trace", "trace"], command].concat();
        assert_eq!(lab.run(&before).code, Some(0), "{command:?}");
        let trace = lines(&lab.scratch.read("trace"));
        let asked = messages(&trace, "out");
        assert!(
            asked
                .iter()
                .any(|message| message["method"] == "tools/list"),
            "{command:?}"
        );
    }
    // Two servers that live in the program, and one that is not there.
    let trace = lines(&lab.scratch.read("trace"));
    assert!(trace.iter().any(|line| line["server"] == "kitchen"));
}

#[test]
fn an_unwritable_trace_is_reported_before_connecting() {
    let lab = Lab::new();
    lab.servers(".mcp-config.json", &json!({"s": lab.marking("s")}));
    lab.run(&["tools", "--trace", "no/such/trace"]).fails(
        2,
        "cannot write the trace to no/such/trace: No such file or directory (os error 2)",
        "choose a file in an existing directory",
    );
    assert!(!lab.started("s"));
    // One that takes nothing costs a warning.
    let run = lab.run(&["call", "s", "echo", "s=x", "--trace", "/dev/full"]);
    run.is(
        0,
        "{\"s\":\"x\"}\n",
        "warning: the trace is incomplete: No space left on device (os error 28)\n",
    );
}
