//! What `trunkline tools` shows of each foreign server, against what the server says to a client
//! that shares nothing with ours: no tool may be lost, and every schema must be the same bytes.

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use trunkline_testkit::{Client, MODERN_VERSION};

use crate::lab::Lab;
use crate::protocol_version;
use crate::servers::Server;

/// How long a server may take for one answer; on a busy machine Node and Python take seconds to
/// start.
const ANSWERS_WITHIN: Duration = Duration::from_mins(1);

/// More pages than any of these servers have.
const MANY_PAGES: usize = 100;

/// One tool as the server wrote it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTool {
    name: String,
    input_schema: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<RawTool>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    result: Page,
}

/// One tool as `tools --json` shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownTool {
    server: String,
    original_name: String,
    input_schema: Box<RawValue>,
}

/// The line that answers a request, as it came. What the server asks meanwhile is refused: nothing
/// of it bears on tools.
fn answer(server: &str, client: &mut Client, id: u64) -> Vec<u8> {
    loop {
        let line = client
            .line_within(ANSWERS_WITHIN)
            .unwrap_or_else(|| panic!("{server} did not answer request {id}"));
        // Some servers greet on stdout.
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        if message.get("method").is_none() && message["id"] == id {
            return line;
        }
        if message.get("method").is_some() && message.get("id").is_some() {
            let error = json!({ "code": -32601, "message": "not here" });
            let refusal = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            client.send_line(&refusal.to_string());
        }
    }
}

/// The legacy handshake, with the capabilities that the program declares: server-everything has
/// tools that it offers only then.
fn initialize(server: &str, version: &str, client: &mut Client) {
    client.set_modern(false);
    let params = json!({
        "protocolVersion": version,
        "capabilities": { "roots": {}, "elicitation": { "form": {}, "url": {} } },
        "clientInfo": { "name": "independent", "version": "1" },
    });
    let id = client.send("initialize", params);
    answer(server, client, id);
    client.notify("notifications/initialized", &json!({}));
}

/// Every page of `tools/list`, in the version that the program speaks with the server.
fn raw_tools(server: &str, version: &str, command: &mut Command) -> Vec<RawTool> {
    let mut client = Client::spawn(command);
    if version == MODERN_VERSION {
        // No handshake. The Python SDK orders a schema's members by the version that is spoken, so
        // it must be the same.
        client.set_modern(true);
    } else {
        initialize(server, version, &mut client);
    }
    let mut tools = Vec::new();
    let mut params = json!({});
    for _ in 0..MANY_PAGES {
        let id = client.send("tools/list", params);
        let line = answer(server, &mut client, id);
        let answer: Answer = serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)));
        tools.extend(answer.result.tools);
        match answer.result.next_cursor {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return tools,
        }
    }
    panic!("{server} has no last page of tools");
}

/// Names and schema texts, in the order of names; a tool that is there twice is twice in it.
fn sorted(tools: impl Iterator<Item = (String, Box<RawValue>)>) -> Vec<(String, String)> {
    let mut tools: Vec<_> = tools
        .map(|(name, schema)| (name, schema.get().to_owned()))
        .collect();
    tools.sort_unstable();
    tools
}

fn check(server: Server, at_least: usize) {
    let lab = Lab::with(&[server]);
    lab.git(&["init", "--quiet", "--initial-branch", "main"]);
    let command = &mut lab.server(server);
    compare(
        &lab,
        server.name(),
        protocol_version(server),
        command,
        at_least,
    );
}

/// Holds what the program shows of the only server in its config against what that says when it is
/// started by `command`.
pub(crate) fn compare(
    lab: &Lab,
    server: &str,
    version: &str,
    command: &mut Command,
    at_least: usize,
) {
    let ran = lab.run(&["tools", "--json"]).done();
    let shown: Vec<ShownTool> = serde_json::from_str(&ran.stdout).unwrap();
    assert!(shown.iter().all(|tool| tool.server == server));
    let shown = sorted(
        shown
            .into_iter()
            .map(|tool| (tool.original_name, tool.input_schema)),
    );

    // Second, for the program tells better why a server does not start.
    let raw = raw_tools(server, version, command);
    let found = raw.len();
    assert!(found >= at_least, "{server} has only {found} tools");
    let raw = sorted(raw.into_iter().map(|tool| (tool.name, tool.input_schema)));

    let names = |tools: &[(String, String)]| -> Vec<String> {
        tools.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(
        names(&shown),
        names(&raw),
        "{server} loses or invents tools: {}",
        ran.stderr
    );
    for ((name, ours), (_, theirs)) in shown.iter().zip(&raw) {
        assert_eq!(ours, theirs, "the schema of {name} of {server}");
    }
}

/// One test a server, so that each is judged alone. The numbers guard against a list that is empty
/// on both sides.
macro_rules! whole_catalogs {
    ($($test:ident: $server:ident, $at_least:literal;)*) => {
        $(#[test]
        fn $test() {
            check(Server::$server, $at_least);
        })*

        #[test]
        fn every_server_is_compared() {
            assert_eq!([$(Server::$server),*], Server::ALL);
        }
    };
}

whole_catalogs! {
    everything_is_shown_whole: Everything, 16;
    filesystem_is_shown_whole: Filesystem, 14;
    memory_is_shown_whole: Memory, 9;
    sequential_thinking_is_shown_whole: SequentialThinking, 1;
    time_is_shown_whole: Time, 2;
    git_is_shown_whole: Git, 12;
    fetch_is_shown_whole: Fetch, 1;
    sqlite_is_shown_whole: Sqlite, 6;
    playwright_is_shown_whole: Playwright, 20;
    chrome_devtools_is_shown_whole: ChromeDevtools, 20;
    notion_is_shown_whole: Notion, 15;
    kubernetes_is_shown_whole: Kubernetes, 15;
}
