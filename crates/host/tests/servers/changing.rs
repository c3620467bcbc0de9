//! Servers added, replaced, disabled and reconnected at runtime (LIF-3, CFG-10).

use serde_json::json;
use trunkline::server::State;
use trunkline::{Host, ServerEntry};
use trunkline_testkit::{Script, processes};

use crate::lab::{
    LONGEST_PAUSE, Lab, call, connected, eventually, in_time, pass, until, until_attempt,
    until_connected,
};

fn echo() -> Script {
    Script::default().tool_with(json!({"name": "t"}))
}

#[tokio::test]
async fn adding_an_entry_twice_keeps_one_connection() {
    let lab = Lab::new();
    let entry = lab.server("s", echo());
    let host = lab.host([entry.clone(), entry.clone()]).await;
    let first = lab.pid("s");
    host.add(ServerEntry {
        source: "found elsewhere".to_owned(),
        ..entry
    });
    in_time("the host to be ready", host.ready()).await;
    assert_eq!(host.servers().len(), 1);
    call(&host, "mcp__s__t", json!({})).await.unwrap();
    lab.end(host).await;
    assert_eq!((lab.starts("s"), lab.pid("s")), (1, first));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_adds_of_an_entry_keep_one_connection() {
    let lab = Lab::new();
    let entry = lab.server("s", echo());
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .start();
    let adding: Vec<_> = (0..50)
        .map(|_| {
            let (host, entry) = (host.clone(), entry.clone());
            tokio::spawn(async move {
                host.add(entry);
                host.ready().await;
                call(&host, "mcp__s__t", json!({})).await.unwrap();
            })
        })
        .collect();
    for task in adding {
        task.await.unwrap();
    }
    lab.end(host).await;
    assert_eq!(lab.starts("s"), 1);
}

#[tokio::test]
async fn changed_entry_replaces_the_connection() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("old", echo()), lab.server("other", echo())])
        .await;
    let (old, other) = (lab.pid("old"), lab.pid("other"));
    let changed = Script::default().tool_with(json!({"name": "changed"}));
    host.add(ServerEntry {
        name: "old".to_owned(),
        ..lab.server("new", changed)
    });
    in_time("the host to be ready", host.ready()).await;
    let names: Vec<_> = host
        .pool()
        .tools()
        .iter()
        .map(|tool| tool.name.clone())
        .collect();
    assert_eq!(names, ["mcp__old__changed", "mcp__other__t"]);
    call(&host, "mcp__old__changed", json!({})).await.unwrap();
    eventually("the old process to be gone", || !processes::alive(old)).await;
    assert!(processes::alive(other));
    assert_eq!(
        (lab.starts("old"), lab.starts("new"), lab.starts("other")),
        (1, 1, 1)
    );
    lab.end(host).await;
}

#[tokio::test]
async fn disabled_entry_starts_only_on_request() {
    let lab = Lab::new();
    let mut entry = lab.server("s", echo());
    entry.disabled = true;
    let host = lab.host([entry]).await;
    assert!(matches!(host.server("s").unwrap().state, State::Disabled));
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server \"s\" is not connected: it is disabled"
    );
    assert_eq!(lab.starts("s"), 0);
    host.reconnect("s").await.unwrap();
    until_connected(&host, "s").await;
    call(&host, "mcp__s__t", json!({})).await.unwrap();
    lab.end(host).await;
}

#[tokio::test]
async fn disable_stops_and_reconnect_restarts_the_server() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    host.disable("s").await.unwrap();
    until(&host, "s", "disabled", |state| {
        matches!(state, State::Disabled).then_some(())
    })
    .await;
    lab.nothing_left().await;
    assert!(host.pool().tools().is_empty());
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(matches!(error.state(), Some(State::Disabled)), "{error}");
    host.reconnect("s").await.unwrap();
    until_connected(&host, "s").await;
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    assert_eq!(lab.starts("s"), 2);
    lab.end(host).await;
}

#[tokio::test]
async fn disable_takes_effect_before_it_returns() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    in_time("disabling", host.disable("s")).await.unwrap();
    assert!(matches!(host.server("s").unwrap().state, State::Disabled));
    assert!(host.pool().tools().is_empty());
    lab.end(host).await;
}

#[tokio::test]
async fn calls_after_reconnect_reach_the_new_process() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    in_time("reconnecting", host.reconnect("s")).await.unwrap();
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    assert_eq!(lab.starts("s"), 2);
    lab.end(host).await;
}

#[tokio::test]
async fn disable_stops_reconnection_attempts() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    lab.kill("s");
    until_attempt(&host, "s", 1).await;
    assert!(host.server("s").unwrap().retry_at.is_some());
    host.disable("s").await.unwrap();
    assert_eq!(host.server("s").unwrap().retry_at, None);
    until(&host, "s", "disabled", |state| {
        matches!(state, State::Disabled).then_some(())
    })
    .await;
    pass(LONGEST_PAUSE).await;
    // A returning connection would be there before this one.
    host.add(lab.server("later", echo()));
    in_time("the host to be ready", host.ready()).await;
    assert!(matches!(host.server("s").unwrap().state, State::Disabled));
    assert_eq!(lab.starts("s"), 1);
    lab.end(host).await;
}

#[tokio::test]
async fn manual_reconnect_is_immediate() {
    let lab = Lab::new();
    let host = lab.host([lab.breakable("s", echo())]).await;
    lab.scratch.write("s.broken", "");
    lab.kill("s");
    for attempt in 1..=4 {
        until_attempt(&host, "s", attempt).await;
        pass(LONGEST_PAUSE).await;
    }
    until_attempt(&host, "s", 5).await;
    std::fs::remove_file(lab.at("s.broken")).unwrap();
    // The fifth attempt would come after 12 s, later than this waits.
    let asked = std::time::Instant::now();
    host.reconnect("s").await.unwrap();
    until_connected(&host, "s").await;
    assert!(asked.elapsed().as_secs() < 11);
    lab.end(host).await;
}

#[tokio::test]
async fn unknown_names_are_errors_and_change_nothing() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    assert_eq!(host.disable("t").await.unwrap_err().name(), "t");
    assert_eq!(host.reconnect("t").await.unwrap_err().name(), "t");
    assert!(host.server("t").is_none());
    connected(&host, "s");
    lab.end(host).await;
}
