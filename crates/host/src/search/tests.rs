//! Tests of search and loading on small pools.

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::*;
use crate::catalog::{Format, ServerTools, ToolOptions, server_tools};

fn server_tools_of(server: &str, tools: &[Value]) -> Arc<ServerTools> {
    let read = |tool: &Value| Tool::from_json(Json::from(tool)).unwrap();
    let tools = tools.iter().map(read).collect();
    server_tools(&ToolOptions::plain(&server.into()), tools)
        .0
        .into()
}

fn pool() -> Pool {
    let files = server_tools_of(
        "files",
        &[
            json!({"name": "read_file", "description": "Read the complete contents of a file"}),
            json!({"name": "readMultipleFiles", "description": "Read several files at once"}),
            json!({"name": "list_directory", "description": "List what is in a directory"}),
            json!({"name": "move", "description": "Move something", "inputSchema": {"properties": {"destination": {"description": "where the spaceship goes"}}}}),
        ],
    );
    let chat = server_tools_of(
        "slack",
        &[
            json!({"name": "send", "description": "Posts to a channel", "_meta": {"anthropic/alwaysLoad": true}}),
            json!({"name": "obscure", "description": "…", "_meta": {"anthropic/searchHint": "telepathy"}}),
            json!({"name": "get.file", "description": "Get a file from a channel"}),
        ],
    );
    let mut own = Vec::new();
    add_tool_search(&mut own);
    Pool::of(&own.into(), [&files, &chat])
}

fn names(query: &str) -> Vec<String> {
    let found = pool().search(query, 3);
    assert!(found.is_sorted_by(|a, b| a.score >= b.score));
    found
        .into_iter()
        .map(|found| found.tool.name.clone())
        .collect()
}

#[test]
fn best_match_comes_first() {
    for (query, best) in [
        ("read file", "mcp__files__read_file"),
        ("reading several files", "mcp__files__readMultipleFiles"),
        ("show me a folder", "mcp__files__list_directory"),
        ("telepathy", "mcp__slack__obscure"),
        ("spaceship", "mcp__files__move"),
        ("destinations", "mcp__files__move"),
        ("slack file", "mcp__slack__get_file"),
        ("direct", "mcp__files__list_directory"),
        ("drectory", "mcp__files__list_directory"),
        ("+slack read a file", "mcp__slack__get_file"),
        ("+sla", "mcp__slack__get_file"),
    ] {
        assert_eq!(
            names(query).first().map(String::as_str),
            Some(best),
            "{query}"
        );
    }
    assert!(
        names("+slack file")
            .iter()
            .all(|name| name.contains("slack"))
    );
    for nothing in ["", "quantum", "+nowhere file", "the"] {
        assert!(names(nothing).is_empty(), "{nothing}");
    }
    assert_eq!(pool().search("file", 0).len(), 0);
}

#[test]
fn select_returns_tools_in_requested_order() {
    assert_eq!(
        names("select:mcp__slack__send, get.file,read_file,unknown,send"),
        [
            "mcp__slack__send",
            "mcp__slack__get_file",
            "mcp__files__read_file"
        ]
    );
    assert!(names("select:").is_empty());
}

#[test]
fn renamed_tool_is_found_under_its_pool_name() {
    let (dot, line) = (
        server_tools_of("x.y", &[json!({"name": "frobnicate"})]),
        server_tools_of("x_y", &[json!({"name": "frobnicate"})]),
    );
    let pool = Pool::of(&Arc::default(), [&dot, &line]);
    let found = pool.search("frobnicate", 5);
    assert_eq!(found.len(), 2);
    for found in found {
        assert!(Arc::ptr_eq(
            pool.get(&found.tool.name).unwrap(),
            &found.tool
        ));
    }
}

#[test]
fn tools_are_deferred_only_when_they_exceed_the_budget() {
    let pool = pool();
    let tokens = pool.tokens();
    assert!((50..500).contains(&tokens), "{tokens}");
    let all = pool.tools().len();
    for (mode, context, deferred) in [
        (LoadMode::All, 1, 0),
        (LoadMode::Search, 1_000_000, all - 1),
        (LoadMode::default(), 200_000, 0),
        (LoadMode::default(), 500, all - 1),
        (LoadMode::Auto { percent: 0 }, 200_000, all - 1),
        (LoadMode::Auto { percent: 100 }, 500, 0),
    ] {
        let tools = pool.for_model(mode, context);
        assert_eq!(tools.deferred.len(), deferred, "{mode:?} {context}");
        assert_eq!(tools.loaded.len(), all - deferred);
        let searches = tools.own.iter().any(|tool| tool.name == TOOL_SEARCH);
        assert_eq!(searches, deferred > 0);
        assert_eq!(tools.export(Format::OpenAi).contains(TOOL_SEARCH), searches);
    }
}

#[test]
fn loaded_tool_is_inserted_in_order() {
    let mut tools = pool().for_model(LoadMode::Search, 1);
    assert!(!tools.export(Format::Anthropic).contains("read_file"));
    assert!(tools.load("mcp__files__read_file"));
    assert!(!tools.load("mcp__files__read_file") && !tools.load("nothing"));
    let shown: Vec<_> = tools.loaded.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(shown, ["mcp__files__read_file", "mcp__slack__send"]);
    assert!(
        tools
            .export(Format::Anthropic)
            .contains("complete contents")
    );
}

#[test]
fn load_mode_parses_the_variable() {
    for (text, mode) in [
        ("true", Some(LoadMode::Search)),
        ("FALSE", Some(LoadMode::All)),
        ("auto", Some(LoadMode::Auto { percent: 10 })),
        ("auto:25", Some(LoadMode::Auto { percent: 25 })),
        ("auto:0", Some(LoadMode::Auto { percent: 0 })),
        ("auto:101", None),
        ("auto:x", None),
        ("sometimes", None),
    ] {
        assert_eq!(LoadMode::read(text), mode, "{text}");
    }
}
