//! The end of a session: the embedder leaves, is killed or stops reading, or a signal arrives.

use std::io::Write;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::embedder::{Embedder, GONE, SOON, allow_all, python};
use crate::lab::Lab;

#[test]
fn an_embedder_that_is_killed_leaves_no_process() {
    // It takes its time to end, and has a child that takes no notice.
    let lab = Lab::new();
    let script = json!({"onStart": [{"spawnGrandchild": {"ignoreTerm": true}}, {"touch": lab.at("started")}],
        "tools": [{"name": "t"}], "on": {"tools/list": [{"touch": lab.at("listing")}, {"silence": true}]}});
    lab.configure([("other", script)]);
    let mut running = lab.start(&mut python(&lab));
    lab.file("listing");
    running.child.kill().unwrap();
    running.status();
    lab.scratch.assert_no_processes(GONE);
}

#[test]
fn the_end_of_standard_input_ends_calls_under_way() {
    let lab = Lab::new();
    lab.configure([(
        "other",
        json!({"tools": [{"name": "t", "do": [{"touch": lab.at("called")}, {"silence": true}]}],
        "cancelLog": lab.at("cancelled")}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__other__t"}));
    lab.file("called");
    assert_eq!(embedder.finish(), "");
    assert_eq!(lab.scratch.read("cancelled").lines().count(), 1);
    // And where nothing was begun there is nothing to end.
    assert_eq!(Embedder::start(&lab).finish(), "");
}

#[test]
fn a_signal_ends_it_and_what_is_under_way_is_answered() {
    let lab = Lab::new();
    lab.configure([(
        "other",
        json!({"tools": [{"name": "t", "do": [{"touch": lab.at("called")}, {"silence": true}]}]}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    let id = embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__other__t"}));
    lab.file("called");
    let pid = Pid::from_raw(embedder.child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(embedder.end(&id)["code"], "failed");
    assert_eq!(embedder.ended(130), "");
}

#[test]
fn an_embedder_that_stops_reading_is_no_reason_to_stay() {
    let lab = Lab::new();
    lab.configure([("other", json!({"tools": [{"name": "t", "do": [{"countFile": lab.at("calls")}, {"hugeText": 90_000}]}]}))]);
    allow_all(&lab);
    let mut command = lab.command(&["sdk"]);
    let stderr = std::fs::File::create(lab.at("stderr")).unwrap();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..11 {
        let subtype = if id == 0 { "initialize" } else { "call_tool" };
        let request = json!({"subtype": subtype, "name": "mcp__other__t"});
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        writeln!(stdin, "{line}").unwrap();
    }
    trunkline_testkit::wait_for(SOON, "the calls", || {
        (lab.count("calls") == 10).then_some(())
    });
    drop(stdin);
    trunkline_testkit::wait_for(SOON, "the program's end", || child.try_wait().unwrap());
    lab.scratch.assert_no_processes(GONE);
}
