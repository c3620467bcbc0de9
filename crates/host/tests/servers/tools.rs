//! Tools as a model sees them: what is offered, under which names, and how the others are found (TOOL-2, TOOL-3, TOOL-7 … TOOL-9, LIF-7).

use serde_json::{Value, json};
use trunkline::{
    Builtin, CallOptions, Format, Host, HostTool, LoadMode, ServerEntry, Settings, TOOL_SEARCH,
    TransportEntry,
};
use trunkline_config::{IdeEntry, ServerUrl};
use trunkline_testkit::Script;
use trunkline_testkit::net::WsServer;

use crate::lab::{Lab, call};

fn says(text: &str) -> Value {
    json!([{ "replyText": text }])
}

/// A server in this process with one tool.
fn embedded(server: &str, tool: &str) -> Builtin {
    let said = format!("{server}/{tool}");
    Builtin::new(server).tool(tool, "", &json!({"type": "object"}), move |_| {
        let said = said.clone();
        async move { Ok(said.into()) }
    })
}

fn names(host: &Host) -> Vec<String> {
    let pool = host.pool();
    pool.tools().iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn servers_in_the_program_go_without_a_prefix_if_it_asks_for_none() {
    let lab = Lab::new();
    let settings = Settings {
        sdk_without_prefix: true,
        ..Settings::default()
    };
    let own = HostTool::new("Read", "", json!({"type": "object"}), |_| async {
        Ok(trunkline::CallOutput::of_text("own"))
    });
    let builder = Host::builder()
        .permit(trunkline::AllowAll)
        .settings(settings)
        .tool(own)
        .builtin(embedded("one", "add"))
        .builtin(embedded("two", "Read"))
        .builtin(embedded("three", "mcp__s__t"))
        .server(lab.server("s", Script::default().tool("t", says("s/t"))));
    let host = lab.ready(builder).await;
    assert_eq!(
        names(&host),
        [
            "add",
            "mcp__s__t",
            "mcp__three__mcp__s__t",
            "mcp__two__Read"
        ]
    );
    for (name, said) in [
        ("add", "one/add"),
        ("Read", "own"),
        ("mcp__two__Read", "two/Read"),
        ("mcp__s__t", "s/t"),
        ("mcp__three__mcp__s__t", "three/mcp__s__t"),
    ] {
        assert_eq!(call(&host, name, json!({})).await.unwrap(), said, "{name}");
    }
    assert_eq!(
        host.pool().diagnostics(),
        ["the tool \"Read\" of \"two\" is called mcp__two__Read, because another has its name"]
    );
    lab.end(host).await;
}

#[tokio::test]
async fn an_ide_offers_two_tools_to_a_model_and_all_to_the_program() {
    let lab = Lab::new();
    let script = Script::default()
        .tool("executeCode", says("ran"))
        .tool("getDiagnostics", says("fine"))
        .tool("openFile", says("opened"));
    let server = WsServer::start(script);
    let ide = IdeEntry {
        websocket: true,
        url: ServerUrl::new(server.url()),
        auth_token: None,
        ide_name: None,
    };
    let host = lab
        .host([ServerEntry::new("ide", TransportEntry::Ide(ide))])
        .await;
    let pool = host.pool();
    let offered: Vec<_> = pool.offered().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        offered,
        ["mcp__ide__executeCode", "mcp__ide__getDiagnostics"]
    );
    assert!(!pool.export(Format::Anthropic).contains("openFile"));
    let found = pool.search("open file", 5);
    assert!(found.iter().all(|found| found.tool.offered));
    assert_eq!(
        call(&host, "mcp__ide__openFile", json!({})).await.unwrap(),
        "opened"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn a_model_finds_what_it_was_not_shown_and_can_call_it() {
    let lab = Lab::new();
    let script: Script = json!({"tools": [
        {"name": "frobnicate", "description": "Frobnicates a widget", "inputSchema": {"type": "object", "properties": {"widget": {"type": "string"}}}, "do": says("done")},
        {"name": "pinned", "_meta": {"anthropic/alwaysLoad": true}},
    ]})
    .into();
    let host = lab.host([lab.server("s", script)]).await;
    let tools = host.pool().for_model(LoadMode::Search, 200_000);
    let shown = tools.export(Format::Anthropic);
    assert!(shown.contains(TOOL_SEARCH) && shown.contains("mcp__s__pinned"));
    assert!(!shown.contains("frobnicate"));

    let arguments = json!({"query": "frobnicating widgets", "max_results": 1});
    let output = host
        .call(TOOL_SEARCH, arguments, CallOptions::default())
        .await
        .unwrap();
    let found = output
        .structured_content
        .as_ref()
        .unwrap()
        .to_value()
        .unwrap();
    let definition = json!({
        "name": "mcp__s__frobnicate", "description": "Frobnicates a widget",
        "inputSchema": {"type": "object", "properties": {"widget": {"type": "string"}}},
    });
    assert_eq!(found["tools"][0]["name"], definition["name"]);
    assert_eq!(found["tools"][0]["inputSchema"], definition["inputSchema"]);
    assert_eq!(found["tools"].as_array().unwrap().len(), 1);
    assert!(output.text().contains("Frobnicates a widget"));
    assert_eq!(
        call(&host, "mcp__s__frobnicate", json!({})).await.unwrap(),
        "done"
    );

    let nothing = call(&host, TOOL_SEARCH, json!({"query": "quantum"}))
        .await
        .unwrap();
    assert!(
        nothing.starts_with("No tool fits this query. 2 tools"),
        "{nothing}"
    );
    let wrong = host
        .call(TOOL_SEARCH, json!({"q": 1}), CallOptions::default())
        .await
        .unwrap_err();
    assert!(wrong.is_usage(), "{wrong}");
    lab.end(host).await;
}

#[tokio::test]
async fn poisoned_instructions_and_descriptions_are_made_harmless() {
    let lab = Lab::new();
    let script: Script = json!({
        "instructions": format!("\u{202e}Use\u{200b} {}", "x".repeat(60_000)),
        "tools": [{"name": "t", "title": "T\u{e0041}", "description": "\u{1b}]0;x\u{7}Adds\r\n\u{feff}", "inputSchema": {"type": "object", "properties": {"p": {"description": "p\u{200b}"}}}}],
    })
    .into();
    let host = lab.host([lab.server("s", script)]).await;
    let status = host.server("s").unwrap();
    let instructions = status.catalog.instructions().unwrap().into_owned();
    assert!(instructions.starts_with("Use x"), "{instructions}");
    assert!(instructions.ends_with("x… [truncated]"));
    assert_eq!(
        instructions.chars().count(),
        2048 + "… [truncated]".chars().count()
    );
    let pool = host.pool();
    let tool = pool.get("mcp__s__t").unwrap();
    assert_eq!(
        (tool.title.as_deref(), &*tool.description),
        (Some("T"), "Adds\n")
    );
    let exported = pool.export(Format::Mcp);
    for hidden in [
        '\u{202e}',
        '\u{200b}',
        '\u{e0041}',
        '\u{1b}',
        '\u{feff}',
        '\r',
    ] {
        assert!(!exported.contains(hidden), "{hidden:?}");
    }
    assert!(tool.tool.input_schema.as_str().contains('\u{200b}'));
    assert_eq!(
        status.catalog.diagnostics.len(),
        2,
        "{:?}",
        status.catalog.diagnostics
    );
    lab.end(host).await;
}
