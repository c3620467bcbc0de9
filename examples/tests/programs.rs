//! The embedding programs, end to end against scripted servers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::net::HttpServer;
use trunkline_testkit::{Scratch, Script};

/// Runs a program in the scratch directory and returns its output.
fn run(scratch: &Scratch, program: &str, arguments: &[&str]) -> String {
    let (variable, value) = scratch.marker().env();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(scratch.path())
        .env("HOME", scratch.home())
        .env_remove("CLAUDE_CONFIG_DIR")
        .env("NO_PROXY", "127.0.0.1")
        .env("MCP_TOKEN", "secret")
        .env(variable, value)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    scratch.assert_no_processes(Duration::from_secs(5));
    text
}

/// The command line of a scripted server.
fn argv(scratch: &Scratch, script: &Script) -> Vec<String> {
    let entry = scratch.entry("s", script);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let arguments = entry["args"].as_array().unwrap().iter().map(text);
    [text(&entry["command"])]
        .into_iter()
        .chain(arguments)
        .collect()
}

fn script() -> Script {
    Script::default().tool("t", json!([{"replyText": "called"}]))
}

#[test]
fn a_server_behind_http_is_configured_in_code() {
    let scratch = Scratch::new();
    let server = HttpServer::builder(script()).token("secret").start();
    let program = env!("CARGO_BIN_EXE_http-in-code");
    let out = run(&scratch, program, &[&server.url(), "t", "{}"]);
    assert_eq!(out, "1 tools\ncalled\n");
    let out = run(&scratch, program, &[&server.url(), "other", "{}"]);
    assert!(out.contains("not called: "), "{out}");
}

#[test]
fn the_program_approves_and_rejects_servers_of_a_project() {
    let scratch = Scratch::new();
    let argv = argv(&scratch, &script());
    let entry = json!({"command": argv[0], "args": argv[1..]});
    let config = json!({"mcpServers": {"good": entry, "bad": {"command": "/bin/evil"}}});
    std::fs::create_dir_all(scratch.join(".git")).unwrap();
    scratch.write(".mcp.json", config.to_string());
    let program = env!("CARGO_BIN_EXE_approval");
    let out = run(&scratch, program, &[&argv[0]]);
    for line in ["bad: rejected", "good: approved", "good: connected"] {
        assert!(out.lines().any(|found| found == line), "{line} in {out}");
    }
    // The decisions last.
    let out = run(&scratch, program, &[]);
    assert_eq!(out, "good: connected\n");
}

#[test]
fn a_sub_agent_sees_part_of_a_built_in_server() {
    let scratch = Scratch::new();
    scratch.write("today.md", "buy milk");
    let dir = scratch.path().to_str().unwrap();
    let out = run(&scratch, env!("CARGO_BIN_EXE_sub-agent"), &[dir]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "the reader sees mcp__notes__read",
            "the reader sees mcp__notes__sketch"
        ]
    );
    assert_eq!(lines[2], "reader read: \"1 buy milk\"");
    assert_eq!(lines[3], "reader sketch: \"2 today.md\"");
    assert!(lines[4].starts_with("reader erase: \"refused: "), "{out}");
    assert_eq!(lines[7], "host erase: \"1 erased\"");
    let out = run(&scratch, env!("CARGO_BIN_EXE_sub-agent"), &[dir]);
    assert!(out.contains("reader read: \"1 No such file"), "{out}");
}

#[test]
fn credentials_are_renewed_and_a_socket_is_a_transport() {
    let scratch = Scratch::new();
    let server = HttpServer::builder(script()).token("token-1").start();
    let socket = scratch.join("tools.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let argv = argv(&scratch, &Script::default().tool("other", json!([])));
    let serving = std::thread::spawn(move || {
        // A scripted server on its standard streams, behind the socket.
        let (stream, _) = listener.accept().unwrap();
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut out = stream.try_clone().unwrap();
        let replying = std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = writeln!(out, "{}", line.unwrap());
            }
        });
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = (&stream).read(&mut bytes) {
            stdin.write_all(&bytes[..count]).unwrap();
        }
        drop(stdin);
        replying.join().unwrap();
        child.wait().unwrap();
    });
    let program = env!("CARGO_BIN_EXE_own-transport");
    let out = run(
        &scratch,
        program,
        &[&server.url(), socket.to_str().unwrap()],
    );
    assert_eq!(out, "remote: mcp__remote__t\nsocket: mcp__socket__other\n");
    serving.join().unwrap();
}

#[test]
fn messages_log_lines_and_events_are_observed() {
    let scratch = Scratch::new();
    let argv = argv(&scratch, &script());
    let arguments: Vec<_> = argv.iter().map(String::as_str).collect();
    let out = run(&scratch, env!("CARGO_BIN_EXE_observer"), &arguments);
    for part in [
        "log state: ",
        "event observed: connected",
        "event: the host has shut down",
        "Host {",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let last = out.lines().last().unwrap();
    assert!(
        last.starts_with("messages: ") && !last.contains(" 0 "),
        "{out}"
    );
}

#[test]
fn a_host_starts_shuts_down_and_is_dropped() {
    let scratch = Scratch::new();
    let argv = argv(&scratch, &script());
    let state = scratch.join("state");
    let mut arguments = vec![state.to_str().unwrap()];
    arguments.extend(argv.iter().map(String::as_str));
    let out = run(&scratch, env!("CARGO_BIN_EXE_lifetime"), &arguments);
    let expected = "first run: 0 tools at once\nfirst run: 1 tools\nextra: failed\n\
        there is no server \"sever\"; did you mean \"server\"?\nafter shutdown: true\n\
        second run: 1 tools at once\nsecond run: 1 tools\nextra: failed\n\
        there is no server \"sever\"; did you mean \"server\"?\nafter shutdown: true\n\
        dropped\n";
    assert_eq!(out, expected);
    assert!(state.join("catalogs").exists());
}
