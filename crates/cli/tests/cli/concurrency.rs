//! Concurrent writers of one file, and writers that are killed (CFG-4).

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, parsed};

/// The text before and after the place where servers are added.
struct Surroundings {
    before: String,
    after: String,
}

/// Writes a `~/.claude.json` of 300 KB, like one after a year of use.
fn realistic(lab: &Lab) -> Surroundings {
    let mut before = String::from(
        "{\n  \"numStartups\": 1187,\n  \"installMethod\": \"native\",\n  \"tipsHistory\": {\n",
    );
    for tip in 0..100 {
        let _ = writeln!(before, "    \"tip-number-{tip}\": {},", tip * 7);
    }
    before += "    \"last\": 1\n  },\n  \"userID\": \"0123456789abcdef\",\n  \"ratio\": 1.50e-7,\n  \"mcpServers\": {\n    \
               \"first\": {\n      \"type\": \"stdio\",\n      \"command\": \"first\",\n      \"args\": [],\n      \"env\": {}\n    }";
    let mut after = String::from("\n  },\n  \"projects\": {\n");
    for project in 0..70 {
        let _ = write!(
            after,
            "    \"/home/ada/src/project-{project}\": {{\n      \"allowedTools\": [],\n      \"history\": [\n"
        );
        for line in 0..40 {
            let _ = writeln!(
                after,
                "        {{\"display\": \"please look at \\u00fcber \\\"{line}\\\" \\/ and tell me why it is slow\", \"pastedContents\": {{}}}},"
            );
        }
        after += "        {}\n      ],\n      \"mcpContextUris\": [],\n      \"mcpServers\": {},\n      \"hasTrustDialogAccepted\": true\n    },\n";
    }
    after += "    \"/last\": {}\n  },\n  \"unknown\": {\"deep\": [[[{\"x\": null}]]]}\n}";
    let whole = format!("{before}{after}");
    assert!(whole.len() > 300_000, "{}", whole.len());
    parsed(&whole);
    lab.scratch.write("home/.claude.json", whole);
    Surroundings { before, after }
}

impl Surroundings {
    /// Returns the names of added servers. All other bytes must be unchanged.
    #[track_caller]
    fn added(&self, lab: &Lab) -> Vec<String> {
        let now = lab.scratch.read("home/.claude.json");
        let middle = now
            .strip_prefix(&self.before)
            .expect("what stood before is as it was");
        let middle = middle
            .strip_suffix(&self.after)
            .expect("what stood after is as it was");
        let Some(entries) = middle.strip_prefix(',') else {
            assert_eq!(middle, "");
            return Vec::new();
        };
        let Value::Object(entries) = parsed(&format!("{{{entries}}}")) else {
            unreachable!()
        };
        entries.keys().cloned().collect()
    }
}

#[test]
fn two_shells_that_add_a_hundred_each_lose_none() {
    let lab = Lab::new();
    let surroundings = realistic(&lab);
    let line = "i=0; while [ $i -lt 100 ]; do \"$1\" add --no-check -s user \"$0-$i\" cmd \"$i\" >/dev/null || exit 1; i=$((i+1)); done";
    let shells: Vec<_> = ["a", "b"]
        .map(|name| {
            let mut shell = lab.started_by(&["sh", "-c", line, name], &[]);
            shell.stderr(Stdio::piped());
            shell.spawn().unwrap()
        })
        .into();
    for shell in shells {
        let output = shell.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
    let mut names = surroundings.added(&lab);
    names.sort();
    let mut expected: Vec<_> = (0..100)
        .flat_map(|n| [format!("a-{n}"), format!("b-{n}")])
        .collect();
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(in_home(&lab), [".claude", ".claude.json"]);
}

/// Returns the entries of the home directory.
fn in_home(lab: &Lab) -> Vec<String> {
    let files = std::fs::read_dir(lab.scratch.home()).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_or_the_new_file() {
    const KILLS: u32 = 60;
    let lab = Lab::new();
    let surroundings = realistic(&lab);
    let timed = |name: String| {
        let started = Instant::now();
        let run = lab.plainly(&["add", "--no-check", "-s", "user", &name, "cmd"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
        started.elapsed()
    };
    // Of several, since one may have been held up.
    let usual = (0..4).map(|n| timed(format!("whole-{n}"))).min().unwrap();
    let mut known = 4;
    let mut cut_short = 0;
    for kill in 0..KILLS {
        let name = format!("k-{kill}");
        let mut command = lab.bare(&["add", "--no-check", "-s", "user", &name, "cmd"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The moments are spread over the whole of a run.
        let moment = Instant::now() + usual * kill / KILLS;
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        cut_short += u32::from(ended.code().is_none());
        let added = surroundings.added(&lab);
        assert!(
            added.len() == known || added.len() == known + 1,
            "{}",
            added.len()
        );
        assert!(!ended.success() || added.last() == Some(&name));
        known = added.len();
        if kill % 6 == 5 {
            let next = timed(format!("next-{kill}"));
            // Not only once the lock of the killed one is stale.
            assert!(next < Duration::from_secs(5), "{next:?}");
            known += 1;
        }
    }
    assert!(
        cut_short > KILLS / 8,
        "{cut_short} of {KILLS} were cut short"
    );
    assert_eq!(
        in_home(&lab),
        [".claude", ".claude.json"],
        "what the killed ones left is tidied up"
    );
}

#[test]
fn a_held_lock_is_waited_for() {
    let lab = Lab::new();
    // As `proper-lockfile` takes it, which Claude Code uses.
    let lock = lab.at("home/.claude.json.lock");
    std::fs::create_dir(&lock).unwrap();
    let mut running = lab.start(&mut lab.bare(&["add", "--no-check", "-s", "user", "s", "cmd"]));
    // Its own note of the lock shows that it has come that far.
    lab.file("home/.claude/trunkline");
    assert!(running.child.try_wait().unwrap().is_none());
    assert!(!lab.at("home/.claude.json").exists());
    std::fs::remove_dir(&lock).unwrap();
    let run = running.end();
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    assert_eq!(lab.global()["mcpServers"]["s"]["command"], "cmd");
}

#[test]
fn approvals_at_the_same_time_lose_none() {
    let lab = Lab::new();
    let names: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    let servers = names.iter().map(|name| {
        (
            name.clone(),
            serde_json::json!({"command": "cmd", "args": [name]}),
        )
    });
    lab.servers(".mcp.json", &Value::Object(servers.collect()));
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = lab.bare(&["approve", name]);
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut approved: Vec<String> = lab.of_project()["enabledMcpjsonServers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    approved.sort();
    assert_eq!(approved, names);
}
