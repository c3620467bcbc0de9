//! `trunkline logs`: stderr and states of servers, from files.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use trunkline_testkit::wait_for;

use crate::lab::{Lab, echo};
use crate::pty::Session;

const SOON: Duration = Duration::from_secs(30);

/// The length of the time at the start of a line.
const TIME: usize = "2026-11-16T02:03:04.567Z".len();

/// A server that logs in every possible way.
fn talkative() -> Value {
    json!({
        "onStart": [{"stderr": "warming up"}],
        "tools": [{"name": "t", "do": [
            {"stderr": "working"},
            {"write": "what is this"},
            {"notify": {"method": "notifications/message",
                "params": {"level": "warning", "logger": "db", "data": "slow"}}},
            {"replyText": "done"}]}],
        "rawTools": [{"noName": 1}],
    })
}

fn talk(lab: &Lab, server: &str) {
    lab.run(&["call", server, "t"]).is(0, "done\n", "");
}

/// Returns the output without times.
fn without_times(text: &str) -> Vec<&str> {
    text.lines().map(|line| &line[TIME + 1..]).collect()
}

fn log_file(lab: &Lab, name: &str) -> std::path::PathBuf {
    lab.scratch
        .home()
        .join(".local/state/trunkline/logs")
        .join(name)
}

#[test]
fn logs_have_stderr_and_states() {
    let lab = Lab::with([("s", talkative())]);
    talk(&lab, "s");
    let run = lab.run(&["logs", "s"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let lines = without_times(&run.out);
    assert!(
        lines[0].starts_with("state  connecting (trunkline pid "),
        "{lines:?}"
    );
    assert_eq!(lines.last(), Some(&"state  stopped"));
    for line in [
        "stderr warming up",
        "stderr working",
        "state  connected: testkit 1.0.0, protocol 2026-07-28, 1 tool, 0 resources, 0 prompts",
        "notice tools/list: skipped item 1: it has no name",
        "notice [warning db] slow",
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    let garbage = lines.iter().find(|line| line.ends_with(": what is this"));
    assert!(
        garbage.unwrap().starts_with("notice unusable: "),
        "{garbage:?}"
    );
    let mode = |name: &str| {
        std::fs::metadata(log_file(&lab, name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!((mode("s.log") & 0o777, mode("") & 0o777), (0o600, 0o700));
}

#[test]
fn failures_are_logged_with_their_cause() {
    let lab = Lab::with([(
        "broken",
        json!({"onStart": [{"stderr": "no licence"}, {"exit": 3}]}),
    )]);
    lab.run(&["list"]);
    let run = lab.run(&["logs", "broken"]);
    let lines = without_times(&run.out);
    assert!(lines.contains(&"stderr no licence"), "{lines:?}");
    let failed = lines
        .iter()
        .find(|line| line.starts_with("state  failed: "));
    assert!(
        failed.unwrap().contains("exited with status 3"),
        "{lines:?}"
    );
}

#[test]
fn without_a_server_all_are_merged_by_time_with_their_names() {
    let lab = Lab::with([("a", talkative()), ("my server/é", talkative())]);
    talk(&lab, "a");
    talk(&lab, "my server/é");
    talk(&lab, "a");
    let run = lab.run(&["logs"]);
    let names: Vec<&str> = run.out.lines().map(|line| line[..12].trim()).collect();
    let mut turns = names.clone();
    turns.dedup();
    assert_eq!(turns, ["a", "my server/é", "a"], "{}", run.out);

    // One can be asked for, however it is called, and any number of lines.
    let one = lab.run(&["logs", "my server/é", "-n", "2"]);
    assert_eq!(one.out.lines().count(), 2);
    assert!(one.out.ends_with("state  stopped\n"), "{}", one.out);
    let last = lab.run(&["logs", "-n", "1"]);
    assert!(last.out.starts_with('a') && last.out.ends_with("state  stopped\n"));

    let lines = lab.run(&["logs", "--json", "-n", "3"]).json();
    assert_eq!(lines.as_array().unwrap().len(), 3);
    assert_eq!(lines[2]["server"], "a");
    assert_eq!(lines[2]["kind"], "state");
    assert_eq!(lines[2]["text"], "stopped");
    assert_eq!(lines[2]["time"].as_str().unwrap().len(), TIME);

    let all = names.len();
    let count = |since: &str| lab.run(&["logs", "--since", since]).out.lines().count();
    assert_eq!(
        (count("1h"), count("2020-01-01"), count("2200-01-01")),
        (all, all, 0)
    );
}

#[test]
fn an_unknown_server_is_an_error_and_a_missing_log_is_not() {
    let lab = Lab::with([("github", echo()), ("other", talkative().into())]);
    let hint = "hint: commands that connect, such as";
    let place = "write logs to [DIR]/home/.local/state/trunkline/logs";
    lab.run(&["logs"]).is(
        0,
        "",
        &format!("no logs yet\n  {hint} `trunkline list`, {place}\n"),
    );
    lab.run(&["logs", "--json"]).is(0, "[]\n", "");
    talk(&lab, "other");
    lab.run(&["logs", "github"]).is(
        0,
        "",
        &format!("no logs of \"github\" yet\n  {hint} `trunkline tools github`, {place}\n"),
    );
    lab.run(&["logs", "githib"]).fails(
        2,
        "there is no server \"githib\"",
        "did you mean \"github\"?",
    );
    // One that is no longer configured still has its log.
    let gone = lab.plainly(&["logs", "other"]);
    assert!(gone.code == Some(0) && gone.out.contains("warming up"));
    lab.plainly(&["logs", "othr"]).fails(
        2,
        "there is no server \"othr\"",
        "did you mean \"other\"?",
    );
}

#[test]
fn a_bad_time_is_bad_usage() {
    let lab = Lab::new();
    let run = lab.plainly(&["logs", "--since", "soon"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert!(
        run.err.contains("'soon'") && run.err.contains("10m"),
        "{}",
        run.err
    );
}

#[test]
fn without_a_home_logs_are_an_error() {
    let lab = Lab::new();
    let run = lab.finish(lab.bare(&["logs"]).env_remove("HOME"));
    // A system may know a home without the variable.
    if run.code != Some(0) {
        run.fails(
            2,
            "there are no logs without a home directory",
            "set HOME or XDG_STATE_HOME",
        );
    }
}

/// Reads until a text appears.
fn until(lab: &Lab, file: &str, text: &str) {
    wait_for(SOON, text, || {
        lab.scratch.read(file).contains(text).then_some(())
    });
}

#[test]
fn following_shows_what_is_added_by_other_processes_until_it_is_interrupted() {
    let lab = Lab::with([("a", talkative()), ("b", talkative())]);
    talk(&lab, "a");
    for (arguments, all) in [
        (&["logs", "-f"][..], true),
        (&["logs", "-f", "a", "-n", "0"], false),
    ] {
        let mut follow = following(&lab, arguments);
        let shown = File::create(lab.at("followed")).unwrap();
        let mut child = follow.stdout(shown).stderr(Stdio::null()).spawn().unwrap();
        if all {
            until(&lab, "followed", "state  stopped");
        }
        // Until it is looking, there is no telling which of the lines are new.
        wait_for(SOON, "the signal handlers", || {
            catches_interrupts(child.id()).then_some(())
        });
        talk(&lab, "b");
        talk(&lab, "a");
        let seen = || lab.scratch.read("followed");
        let stops = if all { 3 } else { 1 };
        wait_for(SOON, "all that was added", || {
            (seen().matches("state  stopped").count() == stops).then_some(())
        });
        assert_eq!(seen().contains("b  "), all, "{}", seen());
        kill_process(
            Pid::from_raw(child.id().cast_signed()).unwrap(),
            Signal::INT,
        )
        .unwrap();
        let status = wait_for(SOON, "its end", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(130));
    }
}

/// The program, for a run that others go on beside: those would take it for one of their servers.
fn following(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = lab.command(arguments);
    command.env_remove(lab.scratch.marker().env().0);
    command
}

/// Returns whether a process has a handler for SIGINT.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0)
}

#[test]
fn following_ends_when_nobody_reads_any_more() {
    let lab = Lab::with([("s", talkative())]);
    talk(&lab, "s");
    let mut follow = following(&lab, &["logs", "-f", "--json"]);
    let mut child = follow
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let head = Command::new("head")
        .args(["-n", "1"])
        .stdin(child.stdout.take().unwrap())
        .output()
        .unwrap();
    let line: Value = serde_json::from_slice(&head.stdout).unwrap();
    assert_eq!(line["server"], "s");
    let status = wait_for(SOON, "its end", || {
        talk(&lab, "s");
        child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(0));
}

/// Terminal controls of every kind.
const EVIL: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\r\u{8}\u{7f}\u{9b}2J\u{202e}\u{200b}end";

#[test]
fn logs_are_escaped_and_coloured_only_on_a_terminal() {
    let lab = Lab::with([(
        "s",
        json!({"serverInfo": {"name": EVIL, "version": "1"}, "onStart": [{"stderr": EVIL}],
        "tools": [{"name": "t", "do": [{"write": EVIL},
            {"notify": {"method": "notifications/message", "params": {"level": EVIL, "data": {EVIL: EVIL}}}},
            {"replyText": "done"}]}]}),
    )]);
    talk(&lab, "s");
    let harmful = |text: &str| -> Vec<char> {
        let steers = |c: &char| (c.is_control() && *c != '\n') || "\u{202e}\u{200b}".contains(*c);
        text.chars().filter(steers).collect()
    };
    let file = std::fs::read_to_string(log_file(&lab, "s.log")).unwrap();
    assert_eq!(harmful(&file), []);
    let piped = lab.run(&["logs"]);
    assert_eq!(harmful(&piped.out), []);
    assert!(piped.out.matches("end").count() >= 4, "{}", piped.out);

    // Somebody else may have written to the file, too.
    std::fs::write(
        log_file(&lab, "s.log"),
        format!("{file}2026-01-01T00:00:00.000Z stderr {EVIL}\n"),
    )
    .unwrap();
    let on_terminal = |variable: &str, value: &str| {
        let mut command = lab.command(&["logs"]);
        command.env_remove("NO_COLOR").env(variable, value);
        let (code, shown) = Session::start(&mut command).end();
        assert_eq!(code, Some(0));
        shown
    };
    let coloured = on_terminal("TERM", "xterm");
    assert!(coloured.contains("\u{1b}[36mstate "), "{coloured}");
    let own = [
        "\u{1b}[0m",
        "\u{1b}[1m",
        "\u{1b}[2m",
        "\u{1b}[33m",
        "\u{1b}[36m",
    ];
    let rest = own
        .iter()
        .fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(harmful(&rest), []);
    for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert_eq!(harmful(&on_terminal(variable, value)), [], "{variable}");
    }
}

#[test]
fn secrets_that_a_server_prints_are_not_written() {
    let lab = Lab::with_entries(|lab| {
        let entry = lab.scratch.entry("s", &echo());
        let (server, script) = (&entry["command"], &entry["args"][1]);
        let says = r#"echo "I got $MINE and $THEIRS and --token=x1y2z3" >&2; printf 'half: %s' "$MINE" >&2; exec "$@""#;
        let mut env = entry["env"].clone();
        env["MINE"] = json!("s3cr3t \"value\"");
        json!({"s": {"command": "sh", "args": ["-c", says, "sh", server, "--script", script], "env": env}})
    });
    let mut command = lab.command(&["call", "s", "echo"]);
    // What is inherited from our own environment, under the name of a secret.
    command
        .env("THEIRS", "plain")
        .env("DEPLOY_TOKEN", "inherited-value");
    lab.finish(&mut command).is(0, "{}\n", "");
    let out = lab.run(&["logs", "s"]).out;
    assert!(
        out.contains("stderr I got *** and plain and --token=***\n"),
        "{out}"
    );
    assert!(out.contains("stderr half: ***\n"), "{out}");
    assert!(
        !std::fs::read_to_string(log_file(&lab, "s.log"))
            .unwrap()
            .contains("s3cr3t")
    );
}

#[test]
fn a_disk_that_takes_nothing_costs_a_warning_and_no_more() {
    let lab = Lab::with([("s", talkative())]);
    talk(&lab, "s");
    let file = log_file(&lab, "s.log");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    lab.run(&["call", "s", "t"]).is(
        0,
        "done\n",
        "warning: cannot write logs to [DIR]/home/.local/state/trunkline/logs/s.log: No space left on device (os error 28)\n",
    );
    // A state directory that cannot be created is deliberate, so logs are off without a warning; a
    // pin that cannot be stored is still reported.
    std::fs::remove_dir_all(lab.scratch.home().join(".local")).unwrap();
    lab.scratch.write("home/.local", "");
    let run = lab.run(&["call", "s", "t"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "done\n"));
    assert!(
        run.err.lines().count() == 1 && run.err.contains("cannot store the pin"),
        "{}",
        run.err
    );
}

#[test]
fn a_flood_on_stderr_stays_within_the_limits_and_holds_up_nothing() {
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "t", "do": [{"stderrFlood": 20_000_000}, {"stderr": "\nthe end"}, {"replyText": "done"}]}]}),
    )]);
    talk(&lab, "s");
    let size = |name: &str| std::fs::metadata(log_file(&lab, name)).map_or(0, |found| found.len());
    let (new, old) = (size("s.log"), size("s.log.1"));
    let limit = 4 * 1024 * 1024 + 128 * 1024;
    assert!(new > 0 && new <= limit && old <= limit, "{new} {old}");
    let last = lab.run(&["logs", "s", "-n", "1"]);
    assert!(last.out.ends_with("state  stopped\n"), "{}", last.out);
}
