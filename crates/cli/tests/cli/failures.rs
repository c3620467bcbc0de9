//! Servers that cannot be connected: a clear message, exit code 3, no hang.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::lab::Lab;

const RUN_IT: &str = "  hint: run the command in a terminal to see why it exits\n";

#[test]
fn a_program_that_cannot_be_started_is_explained() {
    let lab = Lab::with_entries(|lab| {
        lab.scratch.write("plain", "not a program");
        let script = lab.scratch.write("script", "#!/no/such/interpreter\n");
        std::fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
        json!({
            "missing": {"command": "no-such-program"},
            "gone": {"command": "/no/such/program"},
            "plain": {"command": "./plain"},
            "script": {"command": "./script"},
            "nowhere": {"command": "cat", "cwd": "/no/such/directory"},
            "remote": {"url": "http://127.0.0.1:9/mcp"},
            "off": {"command": "cat", "disabled": true},
        })
    });
    let install = "  hint: install the program, or set \"command\" to its full path\n";
    let cases = [
        ("missing", "command not found: no-such-program", install),
        ("gone", "command not found: /no/such/program", install),
        (
            "plain",
            "not executable: [DIR]/plain",
            "  hint: [DIR]/plain is not executable: `chmod u+x [DIR]/plain`\n",
        ),
        (
            "script",
            "[DIR]/script could not be started: the interpreter named in its first line is missing",
            "  hint: the interpreter of [DIR]/script is missing: /no/such/interpreter: install \
             /no/such/interpreter, or correct the first line of [DIR]/script\n",
        ),
        (
            "nowhere",
            "its working directory does not exist: /no/such/directory",
            "  hint: correct the \"cwd\" of its entry\n",
        ),
        (
            "remote",
            "127.0.0.1:9 refused the connection",
            "  hint: check that it runs, and check the \"url\" in its entry\n",
        ),
    ];
    for (server, cause, hint) in cases {
        let complaint = format!("error: could not connect to \"{server}\": {cause}\n{hint}");
        lab.run(&["call", server, "t"]).is(3, "", &complaint);
        lab.run(&["call", &format!("mcp__{server}__t")])
            .is(3, "", &complaint);
    }
    let hint = "enable it with `trunkline enable off`";
    for words in [
        &["call", "off", "t"][..],
        &["tools", "off", "t"],
        &["tools", "off"],
        &["prompts", "off"],
        &["resources", "off"],
    ] {
        lab.run(words)
            .fails(3, "the server \"off\" is disabled", hint);
    }
    for words in [&["read", "off", "a:1"], &["prompt", "off", "p"]] {
        lab.run(words).fails(
            3,
            "the server \"off\" is not connected: it is disabled",
            hint,
        );
    }
}

#[test]
fn a_server_that_crashes_on_start_is_shown_with_its_last_words() {
    let cases = [
        (
            json!([{"stderr": "Error: no licence"}, {"stderr": "    at main.js:3"}, {"exit": 1}]),
            "the server's process exited with status 1",
            "    | Error: no licence\n    |     at main.js:3\n",
        ),
        (
            json!([{"stderr": "bang"}, {"signal": "SEGV"}]),
            "the server's process was killed by SIGSEGV",
            "    | bang\n",
        ),
        (
            json!([{"exit": 0}]),
            "the server's process exited with status 0",
            "",
        ),
    ];
    for (on_start, cause, words) in cases {
        let lab = Lab::with([("s", json!({ "onStart": on_start }))]);
        let heading = if words.is_empty() {
            ""
        } else {
            "  stderr (see `trunkline logs s`):\n"
        };
        lab.run(&["call", "s", "t"]).is(
            3,
            "",
            &format!("error: could not connect to \"s\": {cause} before it was connected\n{RUN_IT}{heading}{words}"),
        );
    }
}

#[test]
fn every_command_names_the_fix_that_doctor_knows() {
    let script = json!({"onStart": [{"stderr": "Error: API_KEY is not set"}, {"exit": 1}]});
    let lab = Lab::new();
    crate::doctor::user_servers(&lab, &json!({"s": lab.scratch.entry("s", &script)}));
    let fix = "`trunkline edit s -e 'API_KEY=${API_KEY}'`";
    for words in [
        &["call", "s", "t"][..],
        &["tools", "s"],
        &["get", "s"],
        &["status"],
        &["list"],
    ] {
        let run = lab.plainly(words);
        let said = format!("{}{}", run.out, run.err);
        assert!(said.contains(fix), "{words:?}: {run:#?}");
    }
}

#[test]
fn a_talkative_server_is_shown_by_its_first_and_last_lines() {
    let lab = Lab::with([(
        "s",
        json!({"onStart": [{"stderrFlood": 5_000_000}, {"stderr": "\nfatal"}, {"exit": 1}]}),
    )]);
    let run = lab.run(&["call", "s", "t"]);
    let shown: Vec<_> = run
        .err
        .lines()
        .filter(|line| line.starts_with("    | "))
        .collect();
    assert_eq!((run.code, *shown.last().unwrap()), (Some(3), "    | fatal"));
    // Its flood is one line again and again, which is shown once.
    assert!((2..=20).contains(&shown.len()), "{shown:#?}");
}

#[test]
fn the_hint_names_the_timeout_that_applied() {
    let mute = json!({"server/discover": [{"silence": true}], "initialize": [{"silence": true}]});
    let lab = Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &json!({"on": mute}));
        entry["connectTimeout"] = json!(500);
        json!({"s": entry})
    });
    let run = lab.run(&["call", "s", "t"]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    let hint = "raise connectTimeout (ms) in its entry\n";
    assert!(
        run.err.ends_with(hint) && !run.err.contains("MCP_TIMEOUT"),
        "{}",
        run.err
    );
}

#[test]
fn a_server_that_never_answers_is_given_up_in_time() {
    let mute = json!({"server/discover": [{"silence": true}], "initialize": [{"silence": true}]});
    let lab = Lab::with([
        (
            "mute",
            json!({"on": mute, "onEof": "ignore", "onStart": [{"ignoreSignals": ["INT", "TERM"]}]}),
        ),
        (
            "garbage",
            json!({"on": mute, "onStart": [{"write": "Hello!"}, {"garbage": 100_000}]}),
        ),
    ]);
    let cases = [
        (
            "mute",
            " s\n",
            "check that it is an MCP server, or raise MCP_TIMEOUT or connectTimeout in its entry (ms)",
        ),
        (
            "garbage",
            "stdout has output that is not a message: \"Hello!\"\n",
            "an MCP server must write only messages to stdout; make it log to stderr",
        ),
    ];
    for (server, cause, hint) in cases {
        let run = lab.finish(
            lab.command(&["call", server, "t"])
                .env("MCP_TIMEOUT", "500"),
        );
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
        let start = format!(
            "error: could not connect to \"{server}\": no answer to the handshake after 0."
        );
        assert!(run.err.starts_with(&start), "{}", run.err);
        assert!(
            run.err.ends_with(&format!("{cause}  hint: {hint}\n")),
            "{}",
            run.err
        );
    }
}

#[test]
fn a_rejected_handshake_is_explained() {
    let refusal = json!([{"replyError": {"code": -32000, "message": "licence expired"}}]);
    let cases = [
        (
            json!({"era": "legacy", "on": {"initialize": refusal}}),
            "the server rejected the handshake: licence expired (error -32000)",
        ),
        (
            json!({"era": "modern", "versions": ["2030-01-01"]}),
            "the server speaks none of our protocol versions, only 2030-01-01",
        ),
    ];
    for (script, cause) in cases {
        let lab = Lab::with([("s", script)]);
        lab.run(&["call", "s", "t"]).is(
            3,
            "",
            &format!(
                "error: could not connect to \"s\": {cause}\n  \
                 hint: find the cause with `trunkline doctor s`\n"
            ),
        );
    }
}

#[test]
fn a_list_that_could_not_be_fetched_explains_a_missing_tool() {
    let script = json!({"tools": [{"name": "t"}], "on": {"tools/list": [{"replyError": {"code": -32603, "message": "the database is down"}}]}});
    let lab = Lab::with([("s", script)]);
    lab.run(&["call", "s", "t"]).is(
        3,
        "",
        "error: the tools of \"s\" could not be listed: tools/list failed: the database is down (error -32603)\n",
    );
}
