//! Signals: exit code 130, servers notified, nothing left behind (LIF-12).

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::lab::{Lab, Running, echo};

const MAY_HAVE_RUN: &str = "interrupted; \"mcp__s__t\" may have run\n";

pub(crate) fn send(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(running.child.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A server whose tool `t` never responds.
fn hanging(lab: &Lab, more: &Value) -> Value {
    let mut script = json!({"tools": [{"name": "t", "do": [{"touch": lab.at("called")}, {"silence": true}]}],
        "cancelLog": lab.at("cancelled")});
    script
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    script
}

#[test]
fn a_signal_during_a_call_cancels_it_and_leaves_nothing() {
    let grandchild =
        json!({"onStart": [{"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}}]});
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for more in [json!({}), json!({"era": "legacy"}), grandchild.clone()] {
            let lab = Lab::new();
            lab.configure([("s", hanging(&lab, &more))]);
            let running = lab.start(&mut lab.command(&["call", "s", "t"]));
            lab.file("called");
            send(&running, signal);
            running.end().is(130, "", MAY_HAVE_RUN);
            assert_eq!(
                lab.scratch.read("cancelled").lines().count(),
                1,
                "{signal:?} {more}"
            );
        }
    }
}

#[test]
fn a_list_that_is_given_up_shows_what_is_known() {
    let lab = Lab::new();
    let stuck = json!({"onStart": [{"touch": lab.at("stuck")}, {"waitForFile": "/no/such/file"}]});
    lab.scratch.write(
        ".mcp-config.json",
        json!({"mcpServers": {"stuck": lab.scratch.entry("stuck", &stuck), "bad": {"command": 5}}})
            .to_string(),
    );
    for words in [&["list"][..], &["list", "--json"]] {
        let running = lab.start(&mut lab.command(words));
        lab.file("stuck");
        send(&running, Signal::INT);
        let run = running.end();
        assert_eq!(run.code, Some(130), "{run:#?}");
        for part in ["stuck", "pending", "interrupted while connecting", "bad"] {
            assert!(run.out.contains(part), "{part}: {run:#?}");
        }
        let _ = std::fs::remove_file(lab.at("stuck"));
    }
}

#[test]
fn one_server_that_hangs_does_not_hide_the_others() {
    let lab = Lab::new();
    let stuck = json!({"onStart": [{"touch": lab.at("stuck")}, {"waitForFile": "/no/such/file"}]});
    lab.configure([("good", echo()), ("stuck", stuck.into())]);
    let cases: [(&[&str], &str); 2] = [
        (&["search", "echo"], "mcp__good__echo"),
        (&["status"], "stuck)"),
    ];
    // By itself, after a short time.
    let (words, part) = cases[0];
    let run = lab.run(words);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.out.contains(part), "{run:#?}");
    assert!(run.err.contains("\"stuck\" is still starting"), "{run:#?}");
    for (words, part) in cases {
        // On an interrupt, at once. The other server is known from its catalog.
        let _ = std::fs::remove_file(lab.at("stuck"));
        let running = lab.start(&mut lab.command(words));
        lab.file("stuck");
        send(&running, Signal::INT);
        let run = running.end();
        assert_eq!(run.code, Some(130), "{run:#?}");
        assert!(run.out.contains(part), "{run:#?}");
        assert!(run.err.contains("\"stuck\" is still starting"), "{run:#?}");
    }
}

#[test]
fn a_signal_while_servers_start_leaves_nothing() {
    let lab = Lab::new();
    let starting = |name: &str| json!({"onStart": [{"touch": lab.at(name)}, {"waitForFile": "/no/such/file"}]});
    lab.scratch
        .config(&[("a", starting("a")), ("b", starting("b"))]);
    for command in [&["list"][..], &["tools"], &["call", "a", "t"]] {
        let running = lab.start(&mut lab.command(command));
        lab.file("a");
        if command[0] != "call" {
            lab.file("b");
        }
        send(&running, Signal::INT);
        let run = running.end();
        assert_eq!(run.code, Some(130), "{run:#?}");
        assert_eq!(run.out.is_empty(), command[0] != "list");
        let names_them = run.err.contains("\"b\" is still starting and not included");
        assert_eq!(names_them, command[0] == "tools", "{run:#?}");
        for name in ["a", "b"] {
            std::fs::remove_file(lab.at(name)).ok();
        }
    }
}

#[test]
fn a_second_signal_does_not_wait_for_a_server_that_ignores_everything() {
    let lab = Lab::new();
    let stubborn = json!({"onEof": "ignore", "on": {"notifications/cancelled": [{"touch": lab.at("told")}]}, "onStart": [
        {"ignoreSignals": ["INT", "TERM", "HUP"]}, {"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}}]});
    lab.configure([("s", hanging(&lab, &stubborn))]);
    let running = lab.start(&mut lab.command(&["call", "s", "t"]));
    lab.file("called");
    send(&running, Signal::INT);
    // The server was told, so the first signal has been seen.
    lab.file("told");
    let second = Instant::now();
    send(&running, Signal::INT);
    running.end().is(130, "", MAY_HAVE_RUN);
    assert!(
        second.elapsed() < Duration::from_millis(1500),
        "{:?}",
        second.elapsed()
    );
}

#[test]
fn one_signal_is_enough_for_a_server_that_ignores_everything() {
    let lab = Lab::new();
    let stubborn = json!({"onEof": "ignore", "onStart": [
        {"ignoreSignals": ["INT", "TERM", "HUP"]}, {"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}}]});
    lab.configure([("s", hanging(&lab, &stubborn))]);
    let running = lab.start(&mut lab.command(&["call", "s", "t"]));
    lab.file("called");
    send(&running, Signal::INT);
    running.end().is(130, "", MAY_HAVE_RUN);
}

#[test]
fn a_program_that_is_killed_leaves_no_server_that_behaves() {
    let lab = Lab::new();
    lab.configure([("s", hanging(&lab, &json!({})))]);
    let mut running = lab.start(&mut lab.command(&["call", "s", "t"]));
    lab.file("called");
    send(&running, Signal::KILL);
    assert_eq!(running.status().code(), None);
    // Nobody is left to end it; it sees the end of its stdin.
    lab.scratch.assert_no_processes(Duration::from_secs(5));
}

#[test]
fn a_signal_during_the_check_of_a_new_server_leaves_the_entry() {
    let lab = Lab::new();
    let script =
        json!({"onStart": [{"touch": lab.at("started")}, {"waitForFile": "/no/such/file"}]});
    let entry = lab.scratch.entry("s", &script);
    let running = lab.start(&mut lab.bare(&["add-json", "s", &entry.to_string()]));
    lab.file("started");
    send(&running, Signal::INT);
    let run = running.end();
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert_eq!(run.err, "added \"s\" without checking it\n");
    assert_eq!(lab.of_project()["mcpServers"]["s"], entry);
}
