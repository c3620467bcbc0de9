//! The real program against foreign MCP servers: Node, Python, Go, C# and Rust, legacy and modern,
//! none of them ours.
//!
//! `cargo xtask interop` installs the servers and runs this. Each run of the program also proves
//! that no process is left.
#![cfg(feature = "interop")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod browser;
mod catalog;
mod clients;
mod everything;
mod guide;
mod headless;
#[cfg(target_os = "linux")]
mod keychain;
mod lab;
mod more;
mod network;
#[cfg(target_os = "linux")]
mod sandboxed;
mod servers;
mod service;
mod sign_in;
mod systemd;

use std::fs;

use lab::Lab;
use serde_json::{Value, json};
use servers::Server;
use service::Service;

/// The tools each server is known for, as `tools --json` must show them: all of them, or of those
/// with many a few.
fn known_tools(server: Server) -> &'static [&'static str] {
    match server {
        Server::Everything => &[
            "echo",
            "get-annotated-message",
            "get-env",
            "get-resource-links",
            "get-resource-reference",
            "get-structured-content",
            "get-sum",
            "get-tiny-image",
            "gzip-file-as-resource",
            "toggle-simulated-logging",
            "toggle-subscriber-updates",
            "trigger-long-running-operation",
        ],
        Server::Filesystem => &[
            "create_directory",
            "directory_tree",
            "edit_file",
            "get_file_info",
            "list_allowed_directories",
            "list_directory",
            "list_directory_with_sizes",
            "move_file",
            "read_file",
            "read_media_file",
            "read_multiple_files",
            "read_text_file",
            "search_files",
            "write_file",
        ],
        Server::Memory => &[
            "add_observations",
            "create_entities",
            "create_relations",
            "delete_entities",
            "delete_observations",
            "delete_relations",
            "open_nodes",
            "read_graph",
            "search_nodes",
        ],
        Server::SequentialThinking => &["sequentialthinking"],
        Server::Time => &["convert_time", "get_current_time"],
        Server::Git => &[
            "git_add",
            "git_branch",
            "git_checkout",
            "git_commit",
            "git_create_branch",
            "git_diff",
            "git_diff_staged",
            "git_diff_unstaged",
            "git_log",
            "git_reset",
            "git_show",
            "git_status",
        ],
        Server::Fetch => &["fetch"],
        Server::Sqlite => &[
            "append_insight",
            "create_table",
            "describe_table",
            "list_tables",
            "read_query",
            "write_query",
        ],
        Server::Playwright => &["browser_navigate", "browser_take_screenshot"],
        Server::ChromeDevtools => &["navigate_page", "take_screenshot"],
        Server::Notion => &["API-get-self", "API-post-search"],
        Server::Kubernetes => &["kubectl_get", "kubectl_logs"],
    }
}

/// Whether a server has more tools than it is known for: server-everything offers some only to
/// clients that declare a capability.
fn has_more(server: Server) -> bool {
    matches!(
        server,
        Server::Everything
            | Server::Playwright
            | Server::ChromeDevtools
            | Server::Notion
            | Server::Kubernetes
    )
}

/// The newest version each server speaks: the Node ones are legacy, the Python ones modern where
/// their SDK is.
fn protocol_version(server: Server) -> &'static str {
    match server {
        Server::Time | Server::Git | Server::Fetch => "2026-07-28",
        _ => "2025-11-25",
    }
}

/// A lab for one server, whose place in `list` and `tools` has been checked.
fn lab(server: Server) -> Lab {
    let lab = Lab::with(&[server]);
    lab.git(&["init", "--quiet", "--initial-branch", "main"]);
    check_list(&lab.run(&["list", "--json"]).done().json(), &[server]);
    check_tools(&lab.run(&["tools", "--json"]).done().json(), server);
    lab
}

fn check_list(list: &Value, servers: &[Server]) {
    let entries = list.as_array().unwrap();
    assert_eq!(entries.len(), servers.len(), "{list}");
    for server in servers.iter().copied() {
        let entry = entries
            .iter()
            .find(|entry| entry["name"] == server.name())
            .unwrap_or_else(|| panic!("{} is not in {list}", server.name()));
        assert_eq!(entry["state"], "connected", "{entry}");
        assert_eq!(entry["transport"], "stdio", "{entry}");
        assert_eq!(
            entry["protocolVersion"],
            protocol_version(server),
            "{entry}"
        );
        let known = u64::try_from(known_tools(server).len()).unwrap();
        let count = entry["tools"].as_u64().unwrap();
        if has_more(server) {
            assert!(count >= known, "{entry}");
        } else {
            assert_eq!(count, known, "{entry}");
        }
    }
}

fn check_tools(tools: &Value, server: Server) {
    let tools = tools.as_array().unwrap();
    for tool in tools {
        assert_eq!(tool["server"], server.name(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        let name = format!(
            "mcp__{}__{}",
            server.name(),
            tool["originalName"].as_str().unwrap()
        );
        assert_eq!(tool["name"], name, "{tool}");
    }
    let mut names: Vec<_> = tools
        .iter()
        .map(|tool| tool["originalName"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    if has_more(server) {
        names.retain(|name| known_tools(server).contains(name));
    }
    assert_eq!(names, known_tools(server));
}

/// The only text block of a result.
fn text(result: &Value) -> &str {
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 1, "{result}");
    content[0]["text"].as_str().unwrap()
}

#[test]
fn everything_answers_text_numbers_images_and_structured_content() {
    let lab = lab(Server::Everything);
    let sum = lab.call(&["everything", "get-sum", "a:=2", "b:=3"]);
    assert_eq!(sum.trim_end(), "The sum of 2 and 3 is 5.");
    let echo = lab.call_json(&["everything", "echo", "message=hi there"]);
    assert_eq!(text(&echo), "Echo: hi there");
    let by_pool_name = lab.call(&["mcp__everything__echo", "message=é😀"]);
    assert_eq!(by_pool_name.trim_end(), "Echo: é😀");

    let image = lab.call_json(&["everything", "get-tiny-image"]);
    let image = &image["content"][1];
    assert_eq!(image["type"], "image");
    assert_eq!(image["mimeType"], "image/png");
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));

    let weather = lab.call_json(&["everything", "get-structured-content", "location=Chicago"]);
    let expected =
        json!({ "temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82 });
    assert_eq!(weather["structuredContent"], expected);
    assert_eq!(
        serde_json::from_str::<Value>(text(&weather)).unwrap(),
        expected
    );
}

#[test]
fn everything_shows_progress_of_a_long_call_in_order() {
    let lab = lab(Server::Everything);
    let call = [
        "call",
        "everything",
        "trigger-long-running-operation",
        "duration:=2",
        "steps:=4",
    ];
    let done = "Long running operation completed. Duration: 2 seconds, Steps: 4.";
    let piped = lab.run(&call).done();
    assert_eq!(piped.stdout.trim_end(), done);

    let shown = lab.run_on_terminal(&call);
    // The last step and the result come together.
    let marks = ["[1/4]", "[2/4]", "[3/4]", done];
    let places: Vec<_> = marks.iter().filter_map(|mark| shown.find(mark)).collect();
    assert_eq!(places.len(), marks.len(), "{shown:?}");
    assert!(places.is_sorted(), "{shown:?}");
}

#[test]
fn everything_fails_with_the_right_exit_code() {
    let lab = lab(Server::Everything);
    // We refuse it ourselves, or else the server does.
    let wrong_argument = ["call", "everything", "get-sum", "a=x", "b:=3"];
    let ours = lab.run(&wrong_argument);
    assert_eq!(ours.code, Some(2), "{ours:#?}");
    assert!(ours.stderr.contains("\"a\" must be number"), "{ours:#?}");
    let theirs = lab.run(&[&wrong_argument[..], &["--no-validate"]].concat());
    assert_eq!(theirs.code, Some(1), "{theirs:#?}");
    let unknown_tool = lab.run(&["call", "everything", "no-such-tool"]);
    assert_eq!(unknown_tool.code, Some(2), "{unknown_tool:#?}");
    assert!(
        unknown_tool.stderr.contains("no-such-tool"),
        "{unknown_tool:#?}"
    );
    let too_slow = lab.run(&[
        "call",
        "everything",
        "trigger-long-running-operation",
        "duration:=60",
        // Connecting counts, and must not be what takes too long.
        "--timeout",
        "6000",
    ]);
    assert_eq!(too_slow.code, Some(6), "{too_slow:#?}");
    assert!(too_slow.stderr.contains("everything"), "{too_slow:#?}");
}

#[test]
fn filesystem_writes_reads_lists_and_refuses() {
    let lab = lab(Server::Filesystem);
    let file = lab.project.join("notes.txt");
    let path = format!("path={}", file.display());
    let wrote = lab.call(&["filesystem", "write_file", &path, "content=one\ntwo\n"]);
    assert_eq!(
        wrote.trim_end(),
        format!("Successfully wrote to {}", file.display())
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    let read = lab.call_json(&["filesystem", "read_text_file", &path]);
    assert_eq!(text(&read), "one\ntwo\n");
    assert_eq!(
        read["structuredContent"],
        json!({ "content": "one\ntwo\n" })
    );

    let folder = format!("path={}", lab.project.display());
    let listing = lab.call(&["filesystem", "list_directory", &folder]);
    assert!(
        listing.lines().any(|line| line == "[FILE] notes.txt"),
        "{listing}"
    );

    let refused = lab.run(&[
        "call",
        "--json",
        "filesystem",
        "read_text_file",
        "path=/etc/hostname",
    ]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let result = refused.json();
    assert_eq!(result["isError"], true);
    let expected = "Access denied - path outside allowed directories: /etc/hostname not in";
    assert!(text(&result).starts_with(expected), "{result}");
}

#[test]
fn memory_remembers_between_runs() {
    let lab = lab(Server::Memory);
    let ada =
        json!([{ "name": "Ada", "entityType": "person", "observations": ["wrote programs"] }]);
    let entities = format!("entities:={ada}");
    let created = lab.call_json(&["memory", "create_entities", &entities]);
    assert_eq!(created["structuredContent"], json!({ "entities": ada }));
    let graph = lab.call_json(&["memory", "read_graph"]);
    let expected = json!({ "entities": ada, "relations": [] });
    assert_eq!(graph["structuredContent"], expected);
    assert_eq!(
        serde_json::from_str::<Value>(text(&graph)).unwrap(),
        expected
    );
}

#[test]
fn sequential_thinking_takes_a_thought() {
    let lab = lab(Server::SequentialThinking);
    let result = lab.call_json(&[
        "sequential-thinking",
        "sequentialthinking",
        "thought=start small",
        "thoughtNumber:=1",
        "totalThoughts:=2",
        "nextThoughtNeeded:=true",
    ]);
    let expected = json!({
        "thoughtNumber": 1,
        "totalThoughts": 2,
        "nextThoughtNeeded": true,
        "branches": [],
        "thoughtHistoryLength": 1,
    });
    assert_eq!(result["structuredContent"], expected);
}

#[test]
fn time_converts_and_refuses_an_unknown_zone() {
    let lab = lab(Server::Time);
    let convert = |zone: &str| {
        let zone = format!("source_timezone={zone}");
        let rest = ["time=12:00", "target_timezone=Asia/Tokyo"];
        lab.run(
            &[
                &["call", "--json", "time", "convert_time", &zone],
                &rest[..],
            ]
            .concat(),
        )
    };
    let result = convert("UTC").done().json();
    let times = &result["structuredContent"];
    assert_eq!(times["time_difference"], "+9.0h", "{result}");
    let target = times["target"]["datetime"].as_str().unwrap();
    assert!(target.ends_with("T21:00:00+09:00"), "{target}");

    let refused = convert("Nowhere");
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let result = refused.json();
    assert!(text(&result).contains("Invalid timezone"), "{result}");
}

#[test]
fn git_shows_stages_and_commits() {
    let lab = lab(Server::Git);
    fs::write(lab.project.join("file.txt"), "text\n").unwrap();
    let repo = format!("repo_path={}", lab.project.display());
    let status = lab.call(&["git", "git_status", &repo]);
    assert!(
        status.starts_with("Repository status:\nOn branch main"),
        "{status}"
    );
    assert!(status.contains("Untracked files:"), "{status}");
    let staged = lab.call(&["git", "git_add", &repo, r#"files:=["file.txt"]"#]);
    assert_eq!(staged.trim_end(), "Files staged successfully");
    let committed = lab.call(&["git", "git_commit", &repo, "message=first words"]);
    let head = lab.git(&["rev-parse", "HEAD"]);
    assert_eq!(
        committed.trim_end(),
        format!(
            "Changes committed successfully with hash {}",
            head.trim_end()
        )
    );
    let log = lab.call(&["git", "git_log", &repo, "max_count:=1"]);
    assert!(log.contains(head.trim_end()), "{log}");
    assert!(log.contains("Author: Ada"), "{log}");
    assert!(log.contains("Message: first words"), "{log}");
}

#[test]
fn sqlite_creates_writes_and_reads() {
    let lab = lab(Server::Sqlite);
    lab.call(&[
        "sqlite",
        "create_table",
        "query=CREATE TABLE people (name TEXT, born INTEGER)",
    ]);
    let insert = "query=INSERT INTO people VALUES ('Ada', 1815), ('Blaise', 1623)";
    let written = lab.call(&["sqlite", "write_query", insert]);
    assert_eq!(written.trim_end(), "[{'affected_rows': 2}]");
    let oldest = "query=SELECT name FROM people ORDER BY born LIMIT 1";
    let read = lab.call(&["sqlite", "read_query", oldest]);
    assert_eq!(read.trim_end(), "[{'name': 'Blaise'}]");
    // The server answers a mistake with a text, not with an error.
    let wrong = lab.call(&["sqlite", "read_query", "query=SELECT name FROM nowhere"]);
    assert!(wrong.contains("no such table"), "{wrong}");
}

#[test]
fn fetch_gets_a_page_and_explains_one_that_is_not_there() {
    let lab = lab(Server::Fetch);
    fs::write(lab.project.join("page.txt"), "plain words\n").unwrap();
    let site = Service::files(&lab.project);
    let url = format!("url={}", site.url("http", "/page.txt"));
    let page = lab.call(&["fetch", "fetch", &url]);
    assert!(page.contains("plain words"), "{page}");

    let url = format!("url={}", site.url("http", "/missing.txt"));
    let missing = lab.run(&["call", "fetch", "fetch", &url]);
    assert_eq!(missing.code, Some(1), "{missing:#?}");
    let said = format!("{}{}", missing.stdout, missing.stderr);
    assert!(said.contains("404"), "{missing:#?}");
}

#[test]
fn all_servers_connect_side_by_side() {
    let lab = Lab::with(&Server::ALL);
    lab.git(&["init", "--quiet", "--initial-branch", "main"]);
    check_list(&lab.run(&["list", "--json"]).done().json(), &Server::ALL);
}
