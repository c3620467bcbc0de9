//! The connectors of an account: listed if there are any, reported if the API fails, and never
//! waited for (CFG-1).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Lab, Run};

/// The API's behaviour.
#[derive(Clone)]
pub(crate) enum Answer {
    Send(String),
    Hang,
}

/// An API on this machine that records its requests.
pub(crate) struct Api {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Api {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                record.lock().unwrap().push(head(&mut stream));
                match &answer {
                    Answer::Send(text) => _ = stream.write_all(text.as_bytes()),
                    Answer::Hang => kept.push(stream),
                }
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A request's head.
fn head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut bytes = [0; 1024];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(read @ 1..) => text.extend_from_slice(&bytes[..read]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn http(status: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Send(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

fn slack() -> Answer {
    let item = |id: &str, name: &str| json!({"type": "mcp_server", "id": id, "display_name": name, "url": format!("https://mcp.{id}.example/mcp")});
    let page = json!({"data": [item("slack", "Slack"), item("linear", "Linear")], "has_more": false, "next_page": null});
    http("200 OK", &page.to_string())
}

/// Returns the program, signed in to this API.
fn signed_in(lab: &Lab, api: &Api, words: &[&str]) -> Command {
    let mut command = lab.bare(words);
    command
        .env("TRUNKLINE_CLAUDEAI_URL", &api.url)
        .env("CLAUDE_CODE_OAUTH_TOKEN", "hunter2");
    command
}

fn run(lab: &Lab, api: &Api, words: &[&str]) -> Run {
    let run = lab.finish(&mut signed_in(lab, api, words));
    run.never_says("hunter2");
    run
}

fn row<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let mut rows = listed.as_array().unwrap().iter();
    rows.find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {listed}"))
}

#[test]
fn they_are_listed_with_their_scope() {
    let lab = Lab::new();
    let api = Api::start(slack());
    lab.servers(
        "home/.claude.json",
        &json!({"mine": lab.marking("mine"), "linear": {"type": "http", "url": "https://mcp.linear.example/mcp"}}),
    );
    let shown = run(&lab, &api, &["list"]);
    assert_eq!(
        (shown.code, shown.err.as_str()),
        (Some(0), ""),
        "{shown:#?}"
    );
    assert!(shown.out.contains("claude.ai Slack"), "{}", shown.out);
    assert!(shown.out.contains("\n  from claude.ai\n"), "{}", shown.out);
    let listed = run(&lab, &api, &["list", "--json"]).json();
    let slack = row(&listed, "claude.ai Slack");
    assert_eq!(
        [&slack["scope"], &slack["transport"], &slack["source"]],
        ["claudeai", "claudeai-proxy", "claude.ai"]
    );
    let twin = row(&listed, "claude.ai Linear");
    assert_eq!(
        [&twin["state"], &twin["suppressedBy"]],
        ["suppressed", "linear"]
    );
    assert_eq!(row(&listed, "mine")["state"], "connected");
    let asked = api.asked();
    assert!(asked[0].starts_with("GET /v1/mcp_servers?"), "{asked:?}");
    assert!(
        asked[0]
            .to_lowercase()
            .contains("authorization: bearer hunter2"),
        "{asked:?}"
    );
    let shown = run(&lab, &api, &["get", "claude.ai Slack"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let shown = run(&lab, &api, &["get", "claude.ai Slakc"]);
    assert_eq!(shown.code, Some(2), "{shown:#?}");
}

#[test]
fn a_disabled_server_stays_disabled() {
    let lab = Lab::new();
    let api = Api::start(slack());
    lab.plainly(&["disable", "claude.ai Slack"]);
    let listed = run(&lab, &api, &["list", "--json"]).json();
    assert_eq!(row(&listed, "claude.ai Slack")["state"], "disabled");
}

#[test]
fn policy_holds_for_them_too() {
    let lab = Lab::new();
    let api = Api::start(slack());
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"deniedMcpServers": [{"serverName": "claude.ai Slack"}]}),
    );
    let listed = run(&lab, &api, &["list", "--json"]).json();
    assert_eq!(row(&listed, "claude.ai Slack")["state"], "blocked");
}

#[test]
fn a_failing_api_is_told_and_costs_nothing_else() {
    for (answer, part) in [
        (http("500 Internal Server Error", ""), "500"),
        (http("401 Unauthorized", ""), "claude.ai connectors: "),
        (http("200 OK", "<html>"), "web page"),
        (http("200 OK", "{}"), "not a list of connectors"),
    ] {
        let lab = Lab::new();
        let api = Api::start(answer);
        lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
        let shown = run(&lab, &api, &["list"]);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        assert!(shown.out.starts_with("mine  connected"), "{}", shown.out);
        let (_, problems) = shown
            .out
            .split_once("\nproblems:\n")
            .unwrap_or_else(|| panic!("{}", shown.out));
        assert!(
            problems.starts_with("  claude.ai connectors: ") && problems.contains(part),
            "{problems}"
        );
        run(&lab, &api, &["call", "mine", "echo"]).is(0, "{}\n", "");
    }
}

#[test]
fn a_hanging_api_does_not_block() {
    let lab = Lab::new();
    let api = Api::start(Answer::Hang);
    lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
    let begun = Instant::now();
    let mut running = lab.start(&mut signed_in(&lab, &api, &["list"]));
    // The server is started while nothing is known of the connectors.
    lab.file("mine.started");
    assert!(running.child.try_wait().unwrap().is_none());
    let shown = running.end();
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.out.starts_with("mine  connected"), "{}", shown.out);
    assert!(
        shown.out.contains("\nproblems:\n  claude.ai connectors: "),
        "{}",
        shown.out
    );
    // A call of another server does not ask at all.
    let asked = api.asked().len();
    let begun = Instant::now();
    run(&lab, &api, &["call", "mine", "echo"]).is(0, "{}\n", "");
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(api.asked().len(), asked);
}

#[test]
fn without_a_token_or_switched_off_nobody_is_asked() {
    let lab = Lab::new();
    let api = Api::start(slack());
    let mut signed_out = signed_in(&lab, &api, &["list", "--json"]);
    signed_out.env_remove("CLAUDE_CODE_OAUTH_TOKEN");
    let mut off = signed_in(&lab, &api, &["list", "--json"]);
    off.env("ENABLE_CLAUDEAI_MCP_SERVERS", "false");
    let mut strict = signed_in(&lab, &api, &["list", "--json", "--strict-mcp-config"]);
    for command in [&mut signed_out, &mut off, &mut strict] {
        lab.finish(command).is(0, "[]\n", "");
    }
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn the_sign_in_token_goes_only_to_claude_ai() {
    let lab = Lab::new();
    let api = Api::start(slack());
    lab.write_json(
        "home/.claude/.credentials.json",
        &json!({"claudeAiOauth": {"accessToken": "hunter2", "expiresAt": 9_999_999_999_999_u64}}),
    );
    let mut command = signed_in(&lab, &api, &["list", "--json"]);
    command.env_remove("CLAUDE_CODE_OAUTH_TOKEN");
    let shown = lab.finish(&mut command);
    shown.never_says("hunter2");
    assert_eq!(shown.json(), json!([]));
    assert!(api.asked().is_empty());
}

#[test]
fn a_home_that_can_hold_no_token_is_no_problem() {
    let lab = Lab::new();
    lab.scratch.write("home/.claude", "a file");
    lab.plainly(&["list", "--json"]).is(0, "[]\n", "");
}
