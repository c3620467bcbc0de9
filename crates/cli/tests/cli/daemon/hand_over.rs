//! A new daemon takes over while clients call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;
use trunkline_testkit::{Client, Script, wait_until};

use super::{DaemonLab, outcome, rounds};
use crate::lab::{SOON, echo, parsed};

#[test]
fn no_call_is_lost_when_a_new_daemon_takes_over() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut agents: Vec<Client> = (0..2).map(|_| lab.agent()).collect();
    thread::scope(|scope| {
        for (number, agent) in agents.iter_mut().enumerate() {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    let text = format!("{number} {count}");
                    let answer = agent.call("mcp__s__echo", json!({"s": text}));
                    assert_eq!(outcome(&answer), Ok(json!({"s": text}).to_string()));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // One-shot commands too.
        let (stop, done, lab) = (&stop, &done, &lab);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let run = lab.run(&["call", "s", "echo", "n=1"]);
                assert_eq!(run.code, Some(0), "{run:#?}");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let progress = || {
            let before = done.load(Ordering::Relaxed);
            wait_until(SOON, || done.load(Ordering::Relaxed) > before + 10);
        };
        progress();
        for _ in 0..rounds() {
            let old = lab.pid();
            let run = lab.run(&["daemon", "restart"]);
            assert_eq!(run.code, Some(0), "{run:#?}");
            assert_ne!(lab.pid(), old);
            progress();
            wait_until(SOON, || {
                !trunkline_testkit::processes::alive(old.cast_unsigned())
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    let log = lab.log();
    assert!(log.contains("a new daemon has taken over"), "{log}");
    assert!(!log.contains("are cancelled"), "{log}");
}

#[test]
fn the_old_daemon_finishes_a_long_call_first() {
    let script = json!({"tools": [{"name": "wait", "do": [
        {"touch": "[DIR]/begun"}, {"waitForFile": "[DIR]/go"}, {"replyText": "done"}]}]});
    let lab = DaemonLab::with([("unused", echo())], &[]);
    let dir = lab.lab.scratch.path().to_str().unwrap().to_owned();
    let script: Script = parsed(&script.to_string().replace("[DIR]", &dir)).into();
    lab.lab.configure([("s", script)]);
    let old = lab.pid();
    let call = lab
        .lab
        .command(&["call", "s", "wait"])
        .output_in_background();
    lab.lab.file("begun");
    let run = lab.run(&["daemon", "restart"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(trunkline_testkit::processes::alive(old.cast_unsigned()));
    lab.lab.scratch.write("go", "");
    let output = call.join().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "done\n",
        "{output:?}"
    );
    wait_until(SOON, || {
        !trunkline_testkit::processes::alive(old.cast_unsigned())
    });
}

trait InBackground {
    fn output_in_background(&mut self) -> thread::JoinHandle<std::process::Output>;
}

impl InBackground for std::process::Command {
    fn output_in_background(&mut self) -> thread::JoinHandle<std::process::Output> {
        use std::process::Stdio;
        let child = self
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        thread::spawn(move || child.wait_with_output().unwrap())
    }
}
