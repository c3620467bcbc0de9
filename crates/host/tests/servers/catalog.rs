//! Lists are fetched completely and survive invalid items (LIF-8, TOOL-6, TOOL-8).

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline::Host;
use trunkline::tool::Pool;
use trunkline_testkit::Script;

use crate::lab::{Lab, call, connected, until_attempt, until_connected};

/// A script from text, whose `rawTools` keep their bytes.
fn raw(text: &str) -> Script {
    Script::parse(text).unwrap()
}

fn diagnostics(host: &Host) -> Vec<String> {
    host.server("s").unwrap().catalog.diagnostics.to_vec()
}

fn originals(pool: &Pool) -> Vec<String> {
    pool.tools()
        .iter()
        .map(|tool| tool.tool.name.to_string())
        .collect()
}

#[tokio::test]
async fn invalid_tool_among_300_is_skipped_and_reported() {
    let cases = [
        (r#"{"description": "nameless"}"#, "it has no name"),
        (r#"{"name": ""}"#, "its name is empty"),
        (r#"{"name": 7}"#, "it has no name"),
        ("null", "it is not an object"),
        ("[1]", "it is not an object"),
    ];
    for (bad, reason) in cases {
        for page_size in [json!(null), json!(40)] {
            let lab = Lab::new();
            let tools: Vec<String> = (0..300)
                .map(|n| {
                    if n == 150 {
                        bad.to_owned()
                    } else {
                        format!(r#"{{"name":"t{n}","new":{{"kept":true}}}}"#)
                    }
                })
                .collect();
            let script = raw(&format!(
                r#"{{"pageSize":{page_size},"rawTools":[{}]}}"#,
                tools.join(",")
            ));
            let host = lab.host([lab.server("s", script)]).await;
            assert_eq!(host.pool().tools().len(), 299);
            assert_eq!(
                diagnostics(&host),
                [format!("tools/list: skipped item 150: {reason}")]
            );
            assert_eq!(call(&host, "mcp__s__t299", json!({})).await.unwrap(), "{}");
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn tool_definitions_arrive_byte_for_byte() {
    let schema = r#"{ "type" :"object", "properties":{"n":{"maximum":1.50,"é":"\u00e9"}}, "$ref":"x" ,"z":1,"a":12345678901234567890123 }"#;
    let whole = format!(
        r#"{{"name":"t","futureKey":[1,{{}}],"inputSchema":{schema},"_meta":{{"x/y":1e2}}}}"#
    );
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = raw(&format!(r#"{{"era":"{era}","rawTools":[{whole}]}}"#));
        let host = lab.host([lab.server("s", script)]).await;
        let pool = host.pool();
        let tool = &pool.get("mcp__s__t").unwrap().tool;
        assert_eq!(tool.input_schema.as_str(), schema);
        assert_eq!(tool.raw.as_str(), whole);
        assert!(diagnostics(&host).is_empty());
        lab.end(host).await;
    }
}

#[tokio::test]
async fn paginated_lists_arrive_complete() {
    for page_size in [1, 7, 300, 1000] {
        let lab = Lab::new();
        let mut script: Script = json!({"generateTools": 300, "pageSize": page_size}).into();
        for n in 0..20 {
            script = script
                .resource(&format!("file:///{n}"), "")
                .prompt(json!({"name": format!("p{n}")}));
        }
        script.resource_templates = (0..20)
            .map(|n| json!({"uriTemplate": format!("x:{n}/{{a}}"), "name": "x"}))
            .collect();
        let host = lab.host([lab.server("s", script)]).await;
        assert_eq!(host.pool().tools().len(), 300, "{page_size}");
        let catalog = &host.server("s").unwrap().catalog;
        assert_eq!(
            (
                catalog.resources.len(),
                catalog.templates.len(),
                catalog.prompts.len()
            ),
            (20, 20, 20)
        );
        assert!(catalog.diagnostics.is_empty());
        lab.end(host).await;
    }
}

#[tokio::test]
async fn broken_cursor_ends_the_list_with_a_warning() {
    let cases = [
        (
            "repeat",
            2,
            "tools/list: the list was cut after page 2: its cursor repeats",
        ),
        (
            "huge",
            2,
            "tools/list: the list was cut after page 1: its cursor is too long",
        ),
    ];
    for (fault, page_size, warning) in cases {
        let lab = Lab::new();
        let script = json!({"tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "cursorFault": fault, "pageSize": page_size});
        let host = lab.host([lab.server("s", script)]).await;
        connected(&host, "s");
        let found = diagnostics(&host);
        assert!(
            found.iter().any(|line| line.starts_with(warning)),
            "{fault}: {found:?}"
        );
        for tool in ["a", "b"] {
            assert!(host.pool().find("s", tool).is_some(), "{fault}: {tool}");
        }
        assert_eq!(call(&host, "mcp__s__b", json!({})).await.unwrap(), "{}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn non_string_cursor_is_reported() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "cursorFault": "number", "pageSize": 2});
    let host = lab.host([lab.server("s", script)]).await;
    let (tools, found) = (host.pool().tools().len(), diagnostics(&host));
    assert!(tools == 3 || !found.is_empty(), "{tools} tools, {found:?}");
    lab.end(host).await;
}

#[tokio::test]
async fn duplicate_tool_appears_once() {
    let lab = Lab::new();
    let script =
        json!({"tools": [{"name": "a"}, {"name": "b"}], "cursorFault": "repeat", "pageSize": 2});
    let host = lab.host([lab.server("s", script)]).await;
    assert_eq!(originals(&host.pool()), ["a", "b"]);
    lab.end(host).await;
}

#[tokio::test]
async fn failing_list_affects_only_itself() {
    let error = json!([{"replyError": {"code": -32603, "message": "the database is down"}}]);
    let cases: [(&str, Value, &str, usize); 5] = [
        (
            "tools/list",
            error.clone(),
            "tools/list failed: the database is down (error -32603)",
            0,
        ),
        (
            "tools/list",
            json!([{"reply": {"tools": "none"}}]),
            "tools/list failed: ",
            0,
        ),
        (
            "tools/list",
            json!([{"replyRaw": r#"{"jsonrpc":"2.0","id":$ID,"result":[]}"#}]),
            "tools/list failed: ",
            0,
        ),
        (
            "resources/list",
            error.clone(),
            "resources/list failed: ",
            1,
        ),
        ("prompts/list", error, "prompts/list failed: ", 1),
    ];
    for (method, actions, diagnostic, tools) in cases {
        let lab = Lab::new();
        let script = Script::default()
            .tool_with(json!({"name": "t"}))
            .resource("file:///x", "x")
            .prompt(json!({"name": "p"}))
            .on(method, actions);
        let host = lab.host([lab.server("s", script)]).await;
        connected(&host, "s");
        let found = diagnostics(&host);
        assert!(
            found.len() == 1 && found[0].starts_with(diagnostic),
            "{method}: {found:?}"
        );
        assert_eq!(host.pool().tools().len(), tools, "{method}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn hanging_list_does_not_fail_the_connection() {
    let lab = Lab::new();
    let script = Script::default()
        .tool_with(json!({"name": "t"}))
        .prompt(json!({"name": "p"}))
        .on("prompts/list", json!([{"silence": true}]));
    let mut entry = lab.server("s", script);
    entry.connect_timeout = Some(std::time::Duration::from_secs(1));
    let host = lab.host([entry]).await;
    connected(&host, "s");
    assert!(diagnostics(&host)[0].starts_with("prompts/list failed: no answer after"));
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn only_declared_lists_are_requested() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "t"}], "receivedLog": lab.at("received")});
    let host = lab.host([lab.server("s", script)]).await;
    let received = lab.scratch.read("received");
    assert!(received.contains("tools/list"));
    assert!(
        !received.contains("resources/") && !received.contains("prompts/"),
        "{received}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn unchanged_pool_is_shared_and_its_order_survives_restarts() {
    let lab = Lab::new();
    let host = lab
        .host([
            lab.server(
                "b",
                json!({"tools": [{"name": "z"}, {"name": "a"}, {"name": "M"}]}),
            ),
            lab.server("a", json!({"generateTools": 30})),
        ])
        .await;
    let before = host.pool();
    call(&host, "mcp__b__z", json!({})).await.unwrap();
    assert!(Arc::ptr_eq(&before, &host.pool()));
    let names = |pool: &Pool| {
        pool.tools()
            .iter()
            .map(|tool| tool.name.clone())
            .collect::<Vec<_>>()
    };
    assert!(names(&before).is_sorted());
    lab.kill("b");
    until_attempt(&host, "b", 1).await;
    assert!(Arc::ptr_eq(&before, &host.pool()));
    until_connected(&host, "b").await;
    assert_eq!(names(&before), names(&host.pool()));
    lab.end(host).await;
}
