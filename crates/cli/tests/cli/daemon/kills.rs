//! kill -9 of the daemon, of a server and of a client, under load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;
use trunkline_testkit::{Client, wait_until};

use super::{DaemonLab, kill, outcome, rounds};
use crate::lab::{SOON, echo};

/// Calls `echo` with its own text, over and over. Each answer must be its own. Returns how many
/// calls were lost; each lost one must say whether it may have run.
fn call_until(agent: &mut Client, who: &str, stop: &AtomicBool, done: &AtomicUsize) -> usize {
    let mut lost = 0;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let text = format!("{who} {number}");
        let answer = agent.call("mcp__s__echo", json!({"s": text}));
        match outcome(&answer) {
            Ok(said) => {
                assert_eq!(said, json!({"s": text}).to_string());
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                lost += 1;
                let says = [
                    "may have run",
                    "did not run",
                    "was not sent",
                    "not connected",
                    "waits",
                ];
                assert!(says.iter().any(|says| error.contains(says)), "{error}");
            }
        }
    }
    lost
}

/// Runs agents under load while `disturb` does its worst.
fn under_load(lab: &DaemonLab, disturb: impl FnOnce(&dyn Fn())) {
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut agents: Vec<Client> = (0..2).map(|_| lab.agent()).collect();
    thread::scope(|scope| {
        for (number, agent) in agents.iter_mut().enumerate() {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || call_until(agent, &format!("a{number}"), stop, done));
        }
        let progress = || {
            let before = done.load(Ordering::Relaxed);
            wait_until(SOON, || done.load(Ordering::Relaxed) > before + 10);
        };
        progress();
        disturb(&progress);
        progress();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_killed_server_is_restarted_and_no_answer_goes_astray() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    under_load(&lab, |progress| {
        for _ in 0..rounds() {
            let before = lab.server_pid("s").unwrap();
            kill(before);
            wait_until(SOON, || {
                lab.server_pid("s").is_some_and(|pid| pid != before)
            });
            progress();
        }
    });
}

#[test]
fn a_killed_daemon_is_replaced_and_no_answer_goes_astray() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    under_load(&lab, |progress| {
        for _ in 0..rounds() {
            kill(lab.pid());
            // Without a daemon the agents run the server themselves.
            progress();
            lab.start(&[]);
        }
    });
}

#[test]
fn a_killed_client_disturbs_nobody() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    let server = {
        let run = lab.run(&["call", "s", "echo"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        lab.server_pid("s").unwrap()
    };
    under_load(&lab, |progress| {
        for _ in 0..rounds() {
            let mut victim = lab.agent();
            victim.send(
                "tools/call",
                json!({"name": "mcp__s__echo", "arguments": {}}),
            );
            kill(victim.pid().cast_signed());
            progress();
        }
    });
    assert_eq!(
        lab.server_pid("s"),
        Some(server),
        "the same process all the time"
    );
    wait_until(SOON, || lab.status()["clients"] == json!([]));
}
