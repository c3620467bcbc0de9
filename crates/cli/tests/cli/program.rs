//! Help, version, completions, the demo, and odd environments.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::lab::{Lab, echo, files_under};

#[test]
fn help_and_version_go_to_standard_output() {
    let lab = Lab::new();
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["--help"],
            &[
                "Usage: trunkline",
                "demo",
                "list",
                "tools",
                "call",
                "completions",
                "add",
                "add-json",
                "edit",
                "remove",
                "get",
                "enable",
                "disable",
                "approve",
                "reject",
                "reset-project-choices",
                "import",
                "logs",
                "--trace",
                "130  interrupted",
            ],
        ),
        (
            &["help", "call"],
            &["key:=json", "--json-args", "--timeout"],
        ),
        (
            &["call", "--help"],
            &["key:=json", "--json-args", "--timeout"],
        ),
        (
            &["--version"],
            &[concat!("trunkline ", env!("CARGO_PKG_VERSION"))],
        ),
    ];
    for (arguments, parts) in cases {
        let run = lab.finish(&mut lab.bare(arguments));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{arguments:?}");
        for part in parts {
            assert!(
                run.out.contains(part),
                "{arguments:?} without {part}: {}",
                run.out
            );
        }
    }
}

#[test]
fn bad_usage_is_2_and_goes_to_standard_error() {
    let lab = Lab::new();
    let cases: [(&[&str], &str); 6] = [
        (&[], "Usage: trunkline"),
        (&["lsit"], "list"),
        (&["list", "--jsn"], "--json"),
        (&["call"], "TOOL"),
        (&["completions", "tcsh"], "possible values"),
        (&["call", "a", "b", "--timeout", "soon"], "--timeout"),
    ];
    for (arguments, part) in cases {
        let run = lab.finish(&mut lab.bare(arguments));
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
}

#[test]
fn every_shell_gets_its_completions() {
    let lab = Lab::new();
    for (shell, part) in [
        ("bash", "-F _trunkline trunkline"),
        ("zsh", "#compdef trunkline"),
        ("fish", "complete --command trunkline"),
        ("powershell", "mcp-config"),
    ] {
        let run = lab.finish(&mut lab.bare(&["completions", shell]));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{shell}");
        assert!(run.out.contains(part), "{shell}");
    }
}

#[test]
fn the_demo_shows_the_whole_path() {
    let lab = Lab::new();
    let run = lab.finish(&mut lab.bare(&["demo"]));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    let headings: Vec<_> = run
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("== "))
        .collect();
    assert_eq!(headings.len(), 6, "{headings:?}");
    for part in [
        "calculator  connected  program     in-process  2 tools",
        "missing     failed     dynamic     stdio\n  from the embedding program\n  command not found: trunkline-demo-no-such-program",
        "mcp__kitchen__bake  Bakes something",
        "{\"sum\":5.0}",
        "[1/4] mixing\n[2/4] kneading\n[3/4] baking\n[4/4] cooling\nThe bread is ready.\n",
        "tool error: division by zero: b must not be 0",
        "error: there is no tool \"mcp__calculator__ad\"\n  hint: did you mean \"mcp__calculator__add\"?",
    ] {
        assert!(run.out.contains(part), "{part}\n{}", run.out);
    }
    let servers = lab.finish(&mut lab.bare(&["demo", "--json"])).json();
    let states: Vec<_> = servers
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["state"])
        .collect();
    assert_eq!(json!(states), json!(["connected", "connected", "failed"]));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let lab = Lab::with([(
        "s",
        json!({"generateTools": 5000, "tools": [{"name": "big", "do": [{"hugeText": 1_000_000}]}]}),
    )]);
    let cases: [&[&str]; 6] = [
        &["tools"],
        &["tools", "--json"],
        &["list"],
        &["call", "s", "big"],
        &["--help"],
        &["completions", "bash"],
    ];
    for arguments in cases {
        let mut command = lab.command(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let error = std::fs::File::create(lab.at("error")).unwrap();
        let mut child = command.stdout(writer).stderr(error).spawn().unwrap();
        let status = child.wait().unwrap();
        let said = lab.scratch.read("error");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert_eq!(
            (status.code(), said.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn the_first_line_of_a_long_list_can_be_had_alone() {
    let lab = Lab::with([("s", json!({"generateTools": 5000}))]);
    let mut child = lab
        .command(&["tools"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let head = Command::new("head")
        .args(["-n", "1"])
        .stdin(child.stdout.take().unwrap())
        .output()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    assert!(head.stdout.starts_with(b"mcp__s__gen_0  Use this to"));
}

/// A change of the program's environment.
type Change<'a> = &'a dyn Fn(&mut Command);

#[test]
fn a_home_that_is_missing_or_cannot_be_written_does_no_harm() {
    let lab = Lab::with([("s", echo())]);
    let file = lab.scratch.write("file", "");
    let no_home = |command: &mut Command| {
        command
            .env_remove("HOME")
            .env("XDG_CACHE_HOME", lab.at("cache"));
    };
    // The only warning is that a pin cannot be stored.
    let cases: [(&str, bool, Change); 6] = [
        ("no HOME", false, &no_home),
        ("a HOME that is a file", true, &|command| {
            command.env("HOME", &file);
        }),
        ("a HOME that is not there", false, &|command| {
            command.env("HOME", lab.at("no/such/home"));
        }),
        ("a HOME in /proc", true, &|command| {
            command.env("HOME", "/proc/1/nothing");
        }),
        ("a HOME that takes everything", false, &|command| {
            command.env("HOME", "/dev/null");
        }),
        ("a cache that cannot be", false, &|command| {
            command.env("XDG_CACHE_HOME", "/dev/null/cache");
        }),
    ];
    for (what, told, change) in cases {
        let mut command = lab.command(&["call", "s", "echo", "s=x"]);
        change(&mut command);
        let run = lab.finish(&mut command);
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(0), "{\"s\":\"x\"}\n"),
            "{what}"
        );
        assert_eq!(
            run.err.lines().count(),
            usize::from(told),
            "{what}: {}",
            run.err
        );
        assert_eq!(run.err.contains("cannot store the pin"), told, "{what}");
    }
}

#[test]
fn nothing_is_written_but_the_cache_the_log_and_the_pins() {
    let lab = Lab::with([("s", echo())]);
    lab.run(&["call", "s", "echo"]).is(0, "{}\n", "");
    let home = lab.scratch.home();
    let mut written = files_under(&home);
    written.sort();
    let [catalog, eras, log, lock, pins, running] = &written[..] else {
        panic!("six files: {written:?}");
    };
    assert_eq!(*running, home.join(".local/state/trunkline/running.lock"));
    let of_pins = home.join(".local/state/trunkline/pins");
    assert_eq!(*lock, of_pins.join(".lock"));
    assert!(pins.starts_with(of_pins));
    assert_eq!(*log, home.join(".local/state/trunkline/logs/s.log"));
    assert!(catalog.starts_with(home.join(".cache/trunkline/catalogs")));
    assert_eq!(*eras, home.join(".cache/trunkline/eras.json"));
}

#[test]
fn a_broken_cache_does_no_harm_and_is_replaced() {
    let lab = Lab::with([("s", echo())]);
    let cache = lab
        .scratch
        .write("home/.cache/trunkline/eras.json", "{broken");
    lab.run(&["call", "s", "echo"]).is(0, "{}\n", "");
    let text = std::fs::read_to_string(cache).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
}
