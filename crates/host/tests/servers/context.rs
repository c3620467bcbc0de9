//! Resources, prompts and the host's own tools for them (CTX-1, CTX-2, CTX-4).

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::context::{ReadOptions, Reference, ResourceBody, ResourceContents};
use trunkline::permission::Rules;
use trunkline::{AgentScope, CallError, CallOptions, Host, Json, Settings};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, eventually, in_time, until_connected};

/// A server with a text, bytes, a template and a prompt.
fn offering(lab: &Lab, era: &str) -> Value {
    json!({"era": era, "receivedLog": lab.at("received"),
        "resources": [
            {"uri": "note://1", "name": "one", "description": "a \u{200b}note", "mimeType": "text/plain", "text": "first"},
            {"uri": "file:///../../etc/passwd", "name": "odd", "text": "the server's own"},
            {"uri": "blob://1", "name": "bytes", "blob": "AAEC"},
        ],
        "resourceTemplates": [{"uriTemplate": "note://{n}", "name": "notes"}],
        "prompts": [{"name": "greet it", "description": "Greets", "arguments": [
            {"name": "who", "required": true}, {"name": "how"}]}],
        "capabilities": {"resources": {"subscribe": true}, "prompts": {}, "completions": {}},
        "on": {"completion/complete": [{"reply": {"completion": {"values": ["Ada", "Alan"]}}}]}})
}

fn text(read: &ResourceContents) -> &str {
    match &read.contents[0].body {
        ResourceBody::Text(text) => text,
        ResourceBody::Blob(blob) => blob,
    }
}

async fn read(host: &Host, server: &str, uri: &str) -> Result<ResourceContents, CallError> {
    in_time(uri, host.read_resource(server, uri, ReadOptions::new())).await
}

/// The messages of a method that the server received.
fn received(lab: &Lab, method: &str) -> Vec<Value> {
    let log = lab.scratch.read("received");
    let messages = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter(|message| message["method"] == method)
        .collect()
}

#[tokio::test]
async fn resources_are_listed_and_read_as_the_server_has_them() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let host = lab.host([lab.server("s", offering(&lab, era))]).await;
        let uris: Vec<_> = host
            .resources()
            .iter()
            .map(|found| found.resource.uri.to_string())
            .collect();
        assert_eq!(uris, ["note://1", "file:///../../etc/passwd", "blob://1"]);
        assert_eq!(
            &*host.resource_templates()[0].template.uri_template,
            "note://{n}"
        );
        assert_eq!(text(&read(&host, "s", "note://1").await.unwrap()), "first");
        assert_eq!(text(&read(&host, "s", "blob://1").await.unwrap()), "AAEC");
        let passwd = read(&host, "s", "file:///../../etc/passwd").await.unwrap();
        assert_eq!(text(&passwd), "the server's own");
        let sent = received(&lab, "resources/read");
        assert_eq!(
            sent.last().unwrap()["params"]["uri"],
            "file:///../../etc/passwd"
        );
        lab.end(host).await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_explained() {
    let lab = Lab::new();
    let tools_only = Script::default().tool("t", json!([]));
    let odd = json!({"resources": [{"uri": "a:1", "do": [{"reply": {"contents": 5}}]}]});
    let servers = [
        lab.server("github", offering(&lab, "legacy")),
        lab.server("plain", tools_only),
        lab.server("odd", odd),
    ];
    let host = lab.host(servers).await;
    let cases = [
        ("githib", "note://1", "there is no server \"githib\""),
        ("plain", "note://1", "the server \"plain\" has no resources"),
        (
            "github",
            "note://9",
            "cannot get the resource note://9 from \"github\": resource not found",
        ),
        ("github", "note://\u{1b}", "it holds control characters"),
        ("github", "", "it is empty"),
        ("odd", "a:1", "its `contents` are not a list"),
    ];
    for (server, uri, expected) in cases {
        let error = read(&host, server, uri).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(
            error.is_usage(),
            matches!(
                error.kind(),
                CallErrorKind::UnknownServer | CallErrorKind::InvalidArguments
            )
        );
    }
    let error = read(&host, "githib", "a:1").await.unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("did you mean \"github\"?"));
    let sent = received(&lab, "resources/read");
    assert_eq!(sent.len(), 1, "what is no address is not sent");
    lab.end(host).await;
}

#[tokio::test]
async fn a_fresh_content_is_not_fetched_again_until_it_changes() {
    let lab = Lab::new();
    let touch = json!([{"publish": {"method": "notifications/resources/updated", "params": {"uri": "a:1"}}}, {"replyText": "done"}]);
    let script = json!({"era": "modern", "ttlMs": 60000, "receivedLog": lab.at("received"),
        "resources": [{"uri": "a:1", "text": "x"}], "tools": [{"name": "touch", "do": touch}]});
    let host = lab.host([lab.server("s", script)]).await;
    for _ in 0..3 {
        read(&host, "s", "a:1").await.unwrap();
    }
    assert_eq!(received(&lab, "resources/read").len(), 1);
    let mut events = host.events();
    host.subscribe("s", "a:1").await.unwrap();
    let subscribed = || {
        let sent = received(&lab, "subscriptions/listen");
        sent.iter()
            .any(|sent| sent["params"]["notifications"]["resourceSubscriptions"] == json!(["a:1"]))
    };
    eventually("the subscription", subscribed).await;
    call(&host, "mcp__s__touch", json!({})).await.unwrap();
    let told = async {
        while !events
            .next()
            .await
            .unwrap()
            .resources_updated
            .contains(&("s".into(), "a:1".to_owned()))
        {}
    };
    in_time("word of the change", told).await;
    read(&host, "s", "a:1").await.unwrap();
    assert_eq!(received(&lab, "resources/read").len(), 2);
    lab.end(host).await;
}

#[tokio::test]
async fn subscriptions_outlive_the_connection() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = json!({"era": era, "receivedLog": lab.at("received"), "resources": [{"uri": "a:1"}, {"uri": "a:2"}],
            "tools": [{"name": "die", "do": [{"exit": 3}]}]});
        let settings = Settings::default().reconnect_delay(Duration::from_millis(1));
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .settings(settings)
            .server(lab.server("s", script));
        let host = lab.ready(builder).await;
        let mut events = host.events();
        for uri in ["a:1", "a:2", "a:2"] {
            in_time(uri, host.subscribe("s", uri)).await.unwrap();
        }
        host.unsubscribe("s", "a:1").await;
        host.unsubscribe("s", "a:2").await;
        call(&host, "mcp__s__die", json!({})).await.unwrap_err();
        eventually("a second start", || lab.starts("s") == 2).await;
        until_connected(&host, "s").await;
        let told = async {
            let mut told = BTreeSet::new();
            while !told.contains(&("s".into(), "a:2".to_owned())) {
                told.extend(events.next().await.unwrap().resources_updated);
            }
        };
        in_time("word that it may have changed", told).await;
        let last = if era == "modern" {
            received(&lab, "subscriptions/listen").pop().unwrap()["params"]["notifications"]["resourceSubscriptions"].clone()
        } else {
            let sent = received(&lab, "resources/unsubscribe");
            assert_eq!(sent.len(), 1, "only the last lets go");
            json!([received(&lab, "resources/subscribe").pop().unwrap()["params"]["uri"]])
        };
        assert_eq!(last, json!(["a:2"]), "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_of_changes_is_not_asked_to() {
    let lab = Lab::new();
    let script =
        json!({"era": "legacy", "resources": [{"uri": "a:1"}], "capabilities": {"resources": {}}});
    let refuses = json!({"era": "legacy", "resources": [{"uri": "a:1"}],
        "on": {"resources/subscribe": [{"replyError": {"code": -32602, "message": "not that one"}}]}});
    let host = lab
        .host([lab.server("s", script), lab.server("r", refuses)])
        .await;
    let error = host.subscribe("s", "a:1").await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not tell when its resources change"),
        "{error}"
    );
    let error = host.subscribe("r", "a:1").await.unwrap_err();
    assert!(error.to_string().contains("not that one"), "{error}");
    lab.end(host).await;
}

#[tokio::test]
async fn mentioned_resources_are_read_each_once() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("my notes", offering(&lab, "modern"))])
        .await;
    let text = "see @my notes:note://1, @my_notes:note://1 and @my notes:note://7.";
    let found = in_time("mentions", host.read_mentions(text)).await;
    let uris: Vec<_> = found
        .iter()
        .map(|(mention, _)| mention.uri.as_str())
        .collect();
    assert_eq!(uris, ["note://1", "note://7"]);
    assert!(found[0].1.is_ok() && found[1].1.is_err());
    lab.end(host).await;
}

#[tokio::test]
async fn a_prompt_is_a_command() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let host = lab.host([lab.server("s", offering(&lab, era))]).await;
        let names: Vec<_> = host
            .prompts()
            .into_iter()
            .map(|command| command.name)
            .collect();
        assert_eq!(names, ["mcp__s__greet_it"]);
        let said = host.run_prompt(
            "/mcp__s__greet_it how=\"very warmly\" Ada",
            ReadOptions::new(),
        );
        let said = in_time("the prompt", said).await.unwrap();
        let text = said.messages[0].content.text().unwrap();
        let echoed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            echoed,
            json!({"name": "greet it", "arguments": {"who": "Ada", "how": "very warmly"}})
        );
        for (line, expected) in [
            (
                "/mcp__s__greet_it",
                "the prompt \"greet it\" needs the argument \"who\"",
            ),
            ("/mcp__s__greet_it a b c", "has no use for \"c\""),
            (
                "/mcp__s__great_it Ada",
                "there is no prompt \"mcp__s__great_it\"",
            ),
            ("/mcp__s__greet_it \"Ada", "a quote is not closed"),
        ] {
            let error = host.run_prompt(line, ReadOptions::new()).await.unwrap_err();
            assert!(
                error.to_string().contains(expected) && error.is_usage(),
                "{error}"
            );
        }
        assert_eq!(
            received(&lab, "prompts/get").len(),
            1,
            "mistakes are not sent"
        );
        let error = host.find_prompt("mcp__s__great_it").unwrap_err();
        assert_eq!(
            error.hint().as_deref(),
            Some("did you mean \"mcp__s__greet_it\"?")
        );
        let reference = Reference::Prompt("greet it".to_owned());
        let completion = host
            .complete("s", &reference, ("who", "A"), &[])
            .await
            .unwrap();
        assert_eq!(completion.values, ["Ada", "Alan"]);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_model_finds_and_reads_resources_by_two_tools() {
    let lab = Lab::new();
    let servers = [
        lab.server("a", offering(&lab, "modern")),
        lab.server("b", offering(&lab, "legacy")),
    ];
    let host = lab.host(servers).await;
    let own: Vec<_> = host
        .pool()
        .own()
        .iter()
        .map(|tool| tool.name.clone())
        .collect();
    assert_eq!(own, ["ListMcpResources", "ReadMcpResource", "ToolSearch"]);
    let all: Value =
        serde_json::from_str(&call(&host, "ListMcpResources", json!({})).await.unwrap()).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 8);
    let listed = call(&host, "ListMcpResources", json!({"server": "b"}))
        .await
        .unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        listed[0],
        json!({"server": "b", "uri": "note://1", "name": "one", "description": "a note", "mimeType": "text/plain"})
    );
    assert_eq!(
        listed[3],
        json!({"server": "b", "uriTemplate": "note://{n}", "name": "notes"})
    );
    let arguments = json!({"server": "a", "uri": "note://1"});
    assert_eq!(
        call(&host, "ReadMcpResource", arguments).await.unwrap(),
        "first"
    );
    let arguments: Json = json!({"server": "b", "uri": "blob://1"}).into();
    let bytes = host
        .call("ReadMcpResource", arguments, CallOptions::new())
        .await
        .unwrap();
    // What is no text is saved like that of any tool.
    assert_eq!(bytes.content[0].kind(), "text");
    assert!(bytes.files[0].path.exists());
    let without = host.call(
        "ReadMcpResource",
        json!({"server": "a"}),
        CallOptions::new(),
    );
    let error = without.await.unwrap_err();
    assert!(error.to_string().contains("\"uri\" is missing"), "{error}");
    for (arguments, expected) in [
        (
            json!({"server": "c", "uri": "note://1"}),
            "there is no server \"c\"",
        ),
        (
            json!({"server": "a", "uri": "note://9"}),
            "resource not found",
        ),
    ] {
        let output = host
            .call("ReadMcpResource", arguments, CallOptions::new())
            .await
            .unwrap();
        assert!(
            output.is_error && output.text().contains(expected),
            "{}",
            output.text()
        );
    }
    host.disable("a").await.unwrap();
    assert_eq!(host.pool().own().len(), 3);
    host.disable("b").await.unwrap();
    assert_eq!(
        host.pool().own().len(),
        1,
        "with the last resources the tools go"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn contents_do_not_hold_up_connecting_and_a_read_has_its_own_time() {
    let lab = Lab::new();
    let script = json!({"resources": [{"uri": "slow://1", "do": [{"sleepMs": 60000}]}]});
    let host = lab.host([lab.server("s", script)]).await;
    let options = ReadOptions::new().timeout(Duration::from_millis(100));
    let error = in_time("a time-out", host.read_resource("s", "slow://1", options))
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
    lab.end(host).await;
}

#[tokio::test]
async fn reading_survives_a_server_that_dies_of_it_once() {
    let lab = Lab::new();
    let script = json!({"resources": [{"uri": "a:1", "do": [{"waitForFile": lab.at("s.go")}, {"reply": {"contents": [{"uri": "a:1", "text": "t"}]}}]}]});
    let settings = Settings::default().reconnect_delay(Duration::from_millis(1));
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(settings)
        .server(lab.server("s", script));
    let host = lab.ready(builder).await;
    let reading = tokio::spawn({
        let host = host.clone();
        async move { host.read_resource("s", "a:1", ReadOptions::new()).await }
    });
    eventually("the request", || {
        matches!(
            &host.server("s").unwrap().state,
            trunkline::server::State::Connected(_)
        ) && lab.at("s.pid").exists()
    })
    .await;
    lab.kill("s");
    lab.scratch.write("s.go", "");
    let read = in_time("the content", reading).await.unwrap().unwrap();
    assert_eq!(text(&read), "t");
    lab.end(host).await;
}

#[tokio::test]
async fn nothing_of_a_denied_server_is_read_by_whatever_way() {
    let lab = Lab::new();
    let skill = json!({"uri": "skill://a/SKILL.md", "name": "a", "text": "x"});
    let mut script = offering(&lab, "legacy");
    script["resources"].as_array_mut().unwrap().push(skill);
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script));
    let host = lab.ready(builder).await;
    let agent = host.agent(AgentScope::all().rules(Rules::default().deny("mcp__s")));
    // The host itself may; what its agents may not, it may not for them.
    read(&host, "s", "note://1").await.unwrap();
    let skill = host.skills().await.skills.remove(0);
    let command = host.find_prompt("mcp__s__greet_it").unwrap();
    let denied = |error: CallError| {
        assert!(error.is_refused(), "{error}");
        assert_eq!(
            error.to_string(),
            "nothing of \"s\" may be used: the rule \"mcp__s\" of the program denies it"
        );
    };
    denied(read(&agent, "s", "note://1").await.unwrap_err());
    let mentions = agent.read_mentions("see @s:note://1").await;
    denied(mentions.into_iter().next().unwrap().1.unwrap_err());
    let words = ["Ada".to_owned()];
    let prompt = agent.prompt(&command, &words, ReadOptions::new()).await;
    denied(prompt.unwrap_err());
    denied(agent.prompt_of("s", "greet it").unwrap_err());
    denied(agent.subscribe("s", "note://1").await.unwrap_err());
    let loaded = agent.load_skill(&skill, ReadOptions::new()).await;
    denied(loaded.unwrap_err());
    assert!(agent.skills().await.skills.is_empty());
    let reference = Reference::Prompt("greet it".to_owned());
    let completed = agent.complete("s", &reference, ("who", "A"), &[]).await;
    denied(completed.unwrap_err());
    let below = agent.agent(AgentScope::all().rules(Rules::default().allow("mcp__s")));
    denied(read(&below, "s", "note://1").await.unwrap_err());
    assert_eq!(received(&lab, "resources/read").len(), 1);
    lab.end(host).await;
}

#[tokio::test]
async fn what_is_mentioned_is_read_without_what_is_hidden_in_it() {
    let lab = Lab::new();
    let script = json!({"resources": [{"uri": "a:1", "text": "a\u{e0041}\u{200b}b ﬁ"}]});
    let host = lab.host([lab.server("s", script)]).await;
    let (_, read) = host.read_mentions("see @s:a:1").await.remove(0);
    let read = read.unwrap();
    assert_eq!(text(&read), "ab ﬁ");
    assert_eq!(
        read.contents[0].raw.field::<String>("text").unwrap(),
        "ab ﬁ"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn who_subscribes_meanwhile_waits_for_what_the_server_says() {
    let lab = Lab::new();
    let script = json!({"era": "legacy", "receivedLog": lab.at("received"), "resources": [{"uri": "a:1"}],
        "on": {"resources/subscribe": [{"waitForFile": lab.at("go")}, {"replyError": {"code": -32000, "message": "no"}}]}});
    let host = lab.host([lab.server("s", script)]).await;
    let subscribing = || {
        let host = host.clone();
        tokio::spawn(async move { host.subscribe("s", "a:1").await })
    };
    let first = subscribing();
    eventually("the first question", || {
        received(&lab, "resources/subscribe").len() == 1
    })
    .await;
    let second = subscribing();
    std::fs::write(lab.at("go"), "").unwrap();
    for asked in [first, second] {
        let refused = in_time("the refusal", asked).await.unwrap();
        assert!(refused.is_err());
    }
    // The second asked for itself once the first had been refused.
    assert_eq!(received(&lab, "resources/subscribe").len(), 2);
    lab.end(host).await;
}

#[tokio::test]
async fn the_tools_for_resources_are_there_when_a_server_declares_resources() {
    let lab = Lab::new();
    let own = |host: &Host| {
        let pool = host.pool();
        let names = pool.own().iter().map(|tool| tool.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    let lists_none = json!({"capabilities": {"resources": {}, "tools": {}}});
    let host = lab.host([lab.server("s", lists_none)]).await;
    assert!(host.resources().is_empty());
    assert_eq!(own(&host), "ListMcpResources ReadMcpResource ToolSearch");
    lab.end(host).await;
    let host = lab.host([lab.server("s", json!({"tools": []}))]).await;
    assert_eq!(own(&host), "ToolSearch");
    lab.end(host).await;
}

#[tokio::test]
async fn a_prompt_without_arguments_is_asked_for_with_none() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script =
            json!({"era": era, "receivedLog": lab.at("received"), "prompts": [{"name": "p"}]});
        let host = lab.host([lab.server("s", script)]).await;
        let got = host.run_prompt("/mcp__s__p", ReadOptions::new()).await;
        got.unwrap();
        let sent = received(&lab, "prompts/get");
        assert_eq!(sent[0]["params"]["arguments"], json!({}), "{era}");
        lab.end(host).await;
    }
}
