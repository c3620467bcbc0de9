//! Lists that change at runtime (LIF-9).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline::Host;
use trunkline::tool::Pool;
use trunkline_testkit::{Era, Script};

use crate::lab::{
    LONGEST_PAUSE, Lab, call, eventually, in_time, pass, until_attempt, until_connected,
};

const BOTH: [Era; 2] = [Era::Modern, Era::Legacy];

/// Longer than any delay before a refetch.
const SETTLED: Duration = Duration::from_secs(2);

fn tool_changed() -> Value {
    json!({"publish": {"method": "notifications/tools/list_changed", "params": {}}})
}

/// A server whose lists can change and which records requests.
fn changing(lab: &Lab, era: Era) -> Script {
    let mut script = Script::default()
        .era(era)
        .tool("old", json!([{"replyText": "old"}]))
        .tool(
            "grow",
            json!([{"addTool": {"name": "new"}}, {"replyText": "grown"}]),
        )
        .tool(
            "shrink",
            json!([{"removeTool": "old"}, {"replyText": "shrunk"}]),
        )
        .tool("touch", json!([tool_changed(), {"replyText": "touched"}]))
        .prompt(json!({"name": "p"}))
        .resource("file:///r", "r");
    script.received_log = Some(lab.at("received"));
    script
}

/// Returns how often the server received a method.
fn asked(lab: &Lab, method: &str) -> usize {
    let received = lab.scratch.read("received");
    let wanted = format!("\"method\":\"{method}\"");
    let of_it = received.lines().filter(|line| line.contains(&wanted));
    of_it.count()
}

fn has(pool: &Pool, tool: &str) -> bool {
    pool.get(&format!("mcp__s__{tool}")).is_some()
}

async fn touch(host: &Host) {
    call(host, "mcp__s__touch", json!({})).await.unwrap();
}

/// Waits until all possible refetches are done.
async fn settle(host: &Host) {
    for _ in 0..3 {
        pass(SETTLED).await;
        // The server reads everything sent so far before this call.
        call(host, "mcp__s__old", json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn tool_list_change_refetches_only_that_list() {
    for era in BOTH {
        let lab = Lab::new();
        let host = lab.host([lab.server("s", changing(&lab, era))]).await;
        assert!(!has(&host.pool(), "new"));
        call(&host, "mcp__s__grow", json!({})).await.unwrap();
        eventually("the new tool", || has(&host.pool(), "new")).await;
        assert_eq!(call(&host, "mcp__s__new", json!({})).await.unwrap(), "{}");

        call(&host, "mcp__s__shrink", json!({})).await.unwrap();
        eventually("the old tool to go", || !has(&host.pool(), "old")).await;
        let status = host.server("s").unwrap();
        assert_eq!(
            (status.catalog.prompts.len(), status.catalog.resources.len()),
            (1, 1)
        );
        let others = ["prompts/list", "resources/list", "resources/templates/list"];
        assert_eq!(others.map(|method| asked(&lab, method)), [1, 1, 1]);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn each_list_has_its_own_notification() {
    for (kind, methods) in [
        ("prompts", &["prompts/list"][..]),
        (
            "resources",
            &["resources/list", "resources/templates/list"][..],
        ),
    ] {
        for era in BOTH {
            let lab = Lab::new();
            let method = format!("notifications/{kind}/list_changed");
            let script = changing(&lab, era).tool(
                "tell",
                json!([{"publish": {"method": method, "params": {}}}, {"replyText": ""}]),
            );
            let host = lab.host([lab.server("s", script)]).await;
            call(&host, "mcp__s__tell", json!({})).await.unwrap();
            for method in methods {
                eventually(method, || asked(&lab, method) == 2).await;
            }
            settle(&host).await;
            assert_eq!(asked(&lab, "tools/list"), 1);
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn silent_server_is_listed_once() {
    for era in BOTH {
        let lab = Lab::new();
        let host = lab.host([lab.server("s", changing(&lab, era))]).await;
        settle(&host).await;
        assert_eq!(asked(&lab, "tools/list"), 1);
        let listens = usize::from(era == Era::Modern);
        assert_eq!(asked(&lab, "subscriptions/listen"), listens);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn burst_of_changes_causes_at_most_two_fetches() {
    for era in BOTH {
        let lab = Lab::new();
        let mut burst = vec![tool_changed(); 200];
        burst.push(json!({"addTool": {"name": "new"}}));
        burst.push(json!({"replyText": "done"}));
        let script = changing(&lab, era).tool("burst", json!(burst));
        let host = lab.host([lab.server("s", script)]).await;
        call(&host, "mcp__s__burst", json!({})).await.unwrap();
        eventually("the new tool", || has(&host.pool(), "new")).await;
        settle(&host).await;
        let fetched = asked(&lab, "tools/list");
        assert!((2..=3).contains(&fetched), "{fetched}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn flood_of_changes_is_rate_limited() {
    let lab = Lab::new();
    let flood: Vec<_> = (0..150)
        .flat_map(|_| [tool_changed(), json!({"sleepMs": 10})])
        .chain([json!({"replyText": "done"})])
        .collect();
    let script = changing(&lab, Era::Modern).tool("flood", json!(flood));
    let host = lab.host([lab.server("s", script)]).await;
    let started = Instant::now();
    let flooded = call(&host, "mcp__s__flood", json!({}));
    let others = async {
        // Meanwhile everything else continues.
        eventually("a fetch in the middle of it", || {
            asked(&lab, "tools/list") > 2
        })
        .await;
        call(&host, "mcp__s__old", json!({})).await.unwrap();
    };
    let (flooded, ()) = tokio::join!(flooded, others);
    flooded.unwrap();
    let most = 3 + started.elapsed().as_millis() / 250;
    let fetched = asked(&lab, "tools/list");
    assert!(fetched as u128 <= most, "{fetched} of {most}");
    lab.end(host).await;
}

#[tokio::test]
async fn failed_refetch_keeps_the_list_and_does_not_delay_calls() {
    for era in BOTH {
        let lab = Lab::new();
        let script = changing(&lab, era).on(
            "tools/list",
            json!([{"waitForFile": lab.at("answers")}, {"default": true}]),
        );
        lab.scratch.write("answers", "");
        let host = lab.host([lab.server("s", script)]).await;
        std::fs::remove_file(lab.at("answers")).unwrap();
        touch(&host).await;
        eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
        assert_eq!(call(&host, "mcp__s__old", json!({})).await.unwrap(), "old");

        pass(LONGEST_PAUSE).await;
        let diagnostics = || host.server("s").unwrap().catalog.diagnostics.to_vec();
        eventually("a diagnostic", || !diagnostics().is_empty()).await;
        let told = diagnostics();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("tools/list failed: no answer"),
            "{told:?}"
        );
        assert!(has(&host.pool(), "old"));

        lab.scratch.write("answers", "");
        call(&host, "mcp__s__grow", json!({})).await.unwrap();
        eventually("the new tool", || has(&host.pool(), "new")).await;
        assert!(diagnostics().is_empty());
        lab.end(host).await;
    }
}

#[tokio::test]
async fn connection_lost_during_a_refetch_keeps_the_list() {
    let lab = Lab::new();
    let script = changing(&lab, Era::Modern).on(
        "tools/list",
        json!([{"waitForFile": lab.at("answers")}, {"default": true}]),
    );
    lab.scratch.write("answers", "");
    let host = lab.host([lab.server("s", script)]).await;
    std::fs::remove_file(lab.at("answers")).unwrap();
    touch(&host).await;
    eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
    lab.kill("s");
    until_attempt(&host, "s", 1).await;
    let catalog = &host.server("s").unwrap().catalog;
    assert!(catalog.diagnostics.is_empty() && has(&host.pool(), "old"));
    lab.scratch.write("answers", "");
    assert_eq!(call(&host, "mcp__s__old", json!({})).await.unwrap(), "old");
    // The new process is subscribed like the old one.
    assert_eq!(asked(&lab, "subscriptions/listen"), 2);
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    eventually("the new tool", || has(&host.pool(), "new")).await;
    lab.end(host).await;
}

#[tokio::test]
async fn unchanged_refetch_causes_no_event() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", changing(&lab, Era::Legacy))])
        .await;
    let mut events = host.events();
    touch(&host).await;
    eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
    settle(&host).await;
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    in_time("news", events.next()).await.unwrap();
    assert!(has(&host.pool(), "new"));
    lab.end(host).await;
}

#[tokio::test]
async fn refresh_refetches_lists() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", changing(&lab, Era::Legacy))])
        .await;
    host.refresh("s").await.unwrap();
    host.refresh("no such server").await.unwrap_err();
    eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
    eventually("the others too", || asked(&lab, "prompts/list") == 2).await;
    lab.end(host).await;
}

/// A server that answers `subscriptions/listen` like this and never announces changes.
fn listening(lab: &Lab, actions: Value) -> Script {
    changing(lab, Era::Modern).on("subscriptions/listen", actions)
}

fn acknowledgement() -> Value {
    json!({"notify": {"method": "notifications/subscriptions/acknowledged", "params": {}}})
}

#[tokio::test]
async fn ended_subscription_is_renewed_and_lists_are_refetched() {
    let lab = Lab::new();
    let script = listening(
        &lab,
        json!([{"waitForFile": lab.at("go")}, acknowledgement(), {"waitForFile": lab.at("end")}, {"reply": {}}]),
    );
    let host = lab.host([lab.server("s", script)]).await;
    lab.scratch.write("go", "");
    // The acknowledgement came after the lists, so they are fetched again.
    eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
    settle(&host).await;
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    settle(&host).await;
    assert!(!has(&host.pool(), "new"));
    assert_eq!(asked(&lab, "subscriptions/listen"), 1);
    let before = asked(&lab, "prompts/list");

    lab.scratch.write("end", "");
    eventually("another subscription", || {
        asked(&lab, "subscriptions/listen") == 2
    })
    .await;
    eventually("the new tool", || has(&host.pool(), "new")).await;
    assert!(asked(&lab, "prompts/list") > before);
    lab.end(host).await;
}

#[tokio::test]
async fn late_acknowledgement_refetches_lists() {
    let lab = Lab::new();
    let script = listening(
        &lab,
        json!([{"waitForFile": lab.at("go")}, acknowledgement(), {"waitForFile": lab.at("end")}, {"reply": {}}]),
    );
    let host = lab.host([lab.server("s", script)]).await;
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    settle(&host).await;
    assert!(!has(&host.pool(), "new"));
    lab.scratch.write("go", "");
    eventually("the new tool", || has(&host.pool(), "new")).await;
    lab.end(host).await;
}

#[tokio::test]
async fn unsupported_subscription_is_not_retried() {
    let lab = Lab::new();
    let refusal = json!([{"replyError": {"code": -32601, "message": "what?"}}]);
    let host = lab.host([lab.server("s", listening(&lab, refusal))]).await;
    for _ in 0..8 {
        pass(LONGEST_PAUSE).await;
        call(&host, "mcp__s__old", json!({})).await.unwrap();
    }
    assert_eq!(asked(&lab, "subscriptions/listen"), 1);
    lab.end(host).await;
}

#[tokio::test]
async fn refused_subscription_is_tried_five_times() {
    let lab = Lab::new();
    let refusal = json!([{"replyError": {"code": -32603, "message": "not now"}}]);
    let host = lab.host([lab.server("s", listening(&lab, refusal))]).await;
    for _ in 0..10 {
        let before = asked(&lab, "subscriptions/listen");
        pass(LONGEST_PAUSE).await;
        for _ in 0..3 {
            call(&host, "mcp__s__old", json!({})).await.unwrap();
        }
        if before < 5 {
            eventually("the next try", || {
                asked(&lab, "subscriptions/listen") > before
            })
            .await;
        }
    }
    assert_eq!(asked(&lab, "subscriptions/listen"), 5);
    lab.end(host).await;
}

#[tokio::test]
async fn only_changeable_lists_are_subscribed() {
    for (capabilities, filter) in [
        (json!({"tools": {}, "prompts": {}}), None),
        (
            json!({"tools": {"listChanged": true}, "prompts": {"listChanged": false}}),
            Some(r#""notifications":{"toolsListChanged":true}"#),
        ),
    ] {
        let lab = Lab::new();
        let mut script = changing(&lab, Era::Modern);
        script.capabilities = Some(capabilities);
        let host = lab.host([lab.server("s", script)]).await;
        until_connected(&host, "s").await;
        settle(&host).await;
        let received = lab.scratch.read("received");
        let mut listens = received
            .lines()
            .filter(|line| line.contains("subscriptions/listen"));
        match filter {
            Some(filter) => assert!(listens.next().unwrap().contains(filter)),
            None => assert_eq!(listens.next(), None),
        }
        lab.end(host).await;
    }
}

#[tokio::test]
async fn stale_list_is_refetched_on_access() {
    let lab = Lab::new();
    let mut script = changing(&lab, Era::Modern);
    script.ttl_ms = 60_000;
    let host = lab.host([lab.server("s", script)]).await;
    host.pool();
    host.servers();
    settle(&host).await;
    assert_eq!(asked(&lab, "tools/list"), 1);

    pass(Duration::from_mins(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(asked(&lab, "tools/list"), 1, "nobody has looked");
    host.pool();
    eventually("the fetch", || asked(&lab, "tools/list") == 2).await;
    settle(&host).await;
    assert_eq!(asked(&lab, "tools/list"), 2, "it is fresh again");

    pass(Duration::from_mins(1)).await;
    host.servers();
    eventually("the fetch", || asked(&lab, "tools/list") == 3).await;
    lab.end(host).await;
}

#[tokio::test]
async fn lists_without_ttl_never_expire() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", changing(&lab, Era::Modern))])
        .await;
    for _ in 0..3 {
        pass(Duration::from_hours(24)).await;
        host.pool();
        settle(&host).await;
    }
    assert_eq!(asked(&lab, "tools/list"), 1);
    lab.end(host).await;
}
