//! Tools as a model sees them: what is offered, under which names, and how the others are found (TOOL-2, TOOL-3, TOOL-7 … TOOL-9, LIF-7).

use serde_json::{Value, json};
use trunkline::config::TransportEntry;
use trunkline::context::ReadOptions;
use trunkline::permission::Rules;
use trunkline::tool::{Format, HostTool, LoadMode, ModelTools, TOOL_SEARCH};
use trunkline::{AgentScope, Builtin, CallOptions, Host, ServerEntry, Settings};
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
    let settings = Settings::default().sdk_without_prefix(true);
    let own = HostTool::new("Read", "", json!({"type": "object"}), |_| async {
        Ok("own".into())
    });
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
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
        ["tool \"Read\" of \"two\" is named mcp__two__Read because its name is taken"]
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
        .call(TOOL_SEARCH, arguments, CallOptions::new())
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
        .call(TOOL_SEARCH, json!({"q": 1}), CallOptions::new())
        .await
        .unwrap_err();
    assert!(wrong.is_usage(), "{wrong}");
    lab.end(host).await;
}

#[tokio::test]
async fn one_view_says_what_a_model_is_shown_for_a_host_and_for_an_agent() {
    let lab = Lab::new();
    let script = |tools: &[&str]| {
        let tools = tools
            .iter()
            .map(|name| json!({"name": name, "do": says(name)}));
        let pinned = json!({"name": "pinned", "_meta": {"anthropic/alwaysLoad": true}});
        Script::from(json!({"tools": tools.chain([pinned]).collect::<Vec<_>>()}))
    };
    let servers = || {
        [
            lab.server("a", script(&["get", "put"])),
            lab.server("b", script(&["get"])),
        ]
    };
    for (tool_loading, context_tokens, shown, deferred) in [
        (LoadMode::All, 200_000, "a.get a.pinned b.get b.pinned", ""),
        (
            LoadMode::Search,
            200_000,
            "ToolSearch a.pinned b.pinned",
            "a.get b.get",
        ),
        (
            LoadMode::Auto { percent: 10 },
            200_000,
            "a.get a.pinned b.get b.pinned",
            "",
        ),
        (
            LoadMode::Auto { percent: 10 },
            100,
            "ToolSearch a.pinned b.pinned",
            "a.get b.get",
        ),
        (
            LoadMode::Auto { percent: 0 },
            200_000,
            "ToolSearch a.pinned b.pinned",
            "a.get b.get",
        ),
    ] {
        let settings = Settings::default()
            .tool_loading(tool_loading)
            .context_tokens(context_tokens);
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .settings(settings)
            .rules(Rules::default().deny("mcp__a__put"))
            .servers(servers());
        let host = lab.ready(builder).await;
        let short = |name: &str| name.replace("mcp__", "").replace("__", ".");
        let names = |tools: &ModelTools| {
            let own = tools.own.iter().map(|tool| short(&tool.name));
            let loaded = tools.loaded.iter().map(|tool| short(&tool.name));
            own.chain(loaded).collect::<Vec<_>>().join(" ")
        };
        let later = |tools: &ModelTools| {
            let deferred = tools.deferred.iter().map(|tool| short(&tool.name));
            deferred.collect::<Vec<_>>().join(" ")
        };
        let tools = host.tools_for_model(None);
        let case = format!("{tool_loading:?} {context_tokens}");
        assert_eq!(
            (&*names(&tools), &*later(&tools)),
            (shown, deferred),
            "{case}"
        );
        assert_eq!(tools.denied, ["mcp__a__put"], "{case}");

        let agent = host.agent(AgentScope::only(["b"]));
        let seen: Vec<_> = shown
            .split(' ')
            .filter(|name| !name.starts_with("a."))
            .collect();
        let tools = agent.tools_for_model(None);
        assert_eq!(names(&tools), seen.join(" "), "{case}");
        assert!(tools.denied.is_empty());

        // The search does not find what is denied either.
        let query = json!({"query": "select:get,put,pinned", "max_results": 9});
        let output = host.call(TOOL_SEARCH, query, CallOptions::new()).await;
        let found = ModelTools::found(&output.unwrap());
        assert_eq!(found, ["mcp__a__get", "mcp__a__pinned"], "{case}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_model_that_may_not_search_is_shown_everything() {
    let lab = Lab::new();
    let settings = Settings::default().tool_loading(LoadMode::Search);
    let builder = Host::builder()
        .settings(settings)
        .rules(Rules::default().deny(TOOL_SEARCH))
        .server(lab.server("s", Script::default().tool("t", says("done"))));
    let host = lab.ready(builder).await;
    let tools = host.tools_for_model(None);
    assert!(tools.own.is_empty() && tools.deferred.is_empty());
    assert_eq!(tools.loaded.len(), 1);
    lab.end(host).await;
}

#[tokio::test]
async fn nothing_hidden_in_a_result_reaches_a_model() {
    let lab = Lab::new();
    let hidden = "a\u{e0041}\u{200b}b";
    let result = json!({"content": [{"type": "text", "text": hidden}],
        "structuredContent": {"k\u{200b}": [hidden]}, "_meta": {"m": hidden}});
    let script: Script = json!({
        "tools": [{"name": "t", "do": [{"reply": result}]}],
        "prompts": [
            {"name": "p", "description": hidden, "messages": [{"role": "system", "content": {"type": "text", "text": hidden}}]},
            {"name": hidden, "description": "d"},
        ],
        "resources": [
            {"uri": "skill://s/SKILL.md", "name": hidden, "description": hidden, "text": hidden},
            {"uri": "a:\u{200b}", "name": "n", "text": "x"},
        ],
    })
    .into();
    let host = lab.host([lab.server("s", script)]).await;
    let output = host
        .call("mcp__s__t", json!({}), CallOptions::new())
        .await
        .unwrap();
    let structured = output.structured_content.as_ref().unwrap();
    assert_eq!(structured.to_value().unwrap(), json!({"k": ["ab"]}));
    let meta = output.meta.as_ref().unwrap().to_value().unwrap();
    assert_eq!(meta["m"], "ab");
    assert!(
        output.warnings[0].contains("is shown without 7 hidden characters"),
        "{:?}",
        output.warnings
    );

    let prompts = host.prompts();
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0].prompt.description.as_deref(), Some("ab"));
    let said = host
        .run_prompt("/mcp__s__p", ReadOptions::new())
        .await
        .unwrap();
    assert_eq!(
        (
            &*said.messages[0].role,
            said.messages[0].content.text().as_deref()
        ),
        ("user", Some("ab"))
    );
    let skills = host.skills().await.skills;
    assert_eq!(skills[0].skill.description, "ab");
    let read = json!({"server": "s", "uri": "skill://s/SKILL.md"});
    assert_eq!(call(&host, "ReadMcpResource", read).await.unwrap(), "ab");
    let listed = call(&host, "ListMcpResources", json!({})).await.unwrap();
    let exported = host.export().await;
    for text in [listed.as_str(), exported.as_str()] {
        assert!(text.contains("ab"));
        for left in ["\u{200b}", "\u{e0041}", "\\u200b"] {
            assert!(!text.contains(left), "{text}");
        }
    }
    let diagnostics = host.server("s").unwrap().catalog.diagnostics.join("\n");
    for told in [
        "prompts/list: skipped 1 item: hidden characters in the name",
        "resources/list: skipped 1 item: hidden characters in the uri",
        "from its texts",
    ] {
        assert!(diagnostics.contains(told), "{diagnostics}");
    }
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
