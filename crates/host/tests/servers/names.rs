//! Tools are callable whatever their servers call them (TOOL-1).

use std::collections::HashSet;

use serde_json::{Value, json};
use trunkline::{Host, ServerEntry};

use crate::lab::{Lab, call};

/// A server whose tools return their own names.
fn says_its_name(server: &str, tools: &[&str]) -> Value {
    let tools: Vec<_> = tools
        .iter()
        .map(|tool| json!({"name": tool, "do": [{"replyText": format!("{server}/{tool}")}]}))
        .collect();
    json!({ "tools": tools })
}

/// Calls every tool by its pool name and checks which one answered.
async fn each_reaches_itself(host: &Host) {
    let pool = host.pool();
    let names: HashSet<_> = pool.tools().iter().map(|tool| &tool.name).collect();
    assert_eq!(names.len(), pool.tools().len());
    for tool in pool.tools() {
        assert!(tool.name.len() <= 64, "{}", tool.name);
        assert!(tool.name.starts_with("mcp__"));
        assert!(
            tool.name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        );
        let said = call(host, &tool.name, json!({})).await.unwrap();
        assert_eq!(said, format!("{}/{}", tool.server, tool.tool.name));
        let found = pool.find(&tool.server, &tool.tool.name).unwrap();
        assert_eq!(found.name, tool.name);
    }
}

#[tokio::test]
async fn odd_long_and_clashing_names_all_reach_their_tool() {
    let (long, longer) = ("x".repeat(90), "x".repeat(91));
    let tools = [
        "plain",
        "with space",
        "dot.ted",
        "slash/ed",
        "ünï",
        "日本語",
        "a\"quote",
        "new\nline",
        "mcp__s__plain",
        "__",
        "-",
        "a.b",
        "a_b",
        "a b",
        "a:b",
        "A_b",
        &long,
        &longer,
        "emoji 🦀",
    ];
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", says_its_name("s", &tools))])
        .await;
    assert_eq!(host.pool().tools().len(), tools.len());
    each_reaches_itself(&host).await;
    assert_eq!(host.pool().get("mcp__s__a_b").unwrap().tool.name, "a b");
    let clashes = &host.server("s").unwrap().catalog.diagnostics;
    assert!(
        clashes
            .iter()
            .any(|line| line.starts_with("tool \"a.b\" of \"s\" is named mcp__s__a_b_")),
        "{clashes:?}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn servers_with_clashing_names_all_reach_their_tools() {
    let lab = Lab::new();
    let (long, longer) = ("s".repeat(80), "s".repeat(81));
    let names = [
        "x.y",
        "x_y",
        "x y",
        "x",
        "x_",
        "y__t",
        "claude.ai  X",
        &long,
        &longer,
    ];
    let servers = names.iter().enumerate().map(|(number, name)| ServerEntry {
        name: (*name).to_owned(),
        ..lab.server(
            &format!("file{number}"),
            says_its_name(name, &["t", "y__t", "_t", "t_"]),
        )
    });
    let host = lab.host(servers).await;
    assert_eq!(host.pool().tools().len(), 4 * names.len());
    each_reaches_itself(&host).await;
    assert!(!host.pool().diagnostics().is_empty());
    let pool = host.pool();
    assert_eq!(
        pool.find("claude.ai  X", "t").unwrap().name,
        "mcp__claude_ai_X__t"
    );
    lab.end(host).await;
}
