//! Servers that start with their first call (LIF-13).

use futures_util::future::join_all;
use serde_json::json;
use trunkline::server::State;
use trunkline::storage::CatalogStore;
use trunkline::{Host, HostBuilder, ServerEntry};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, in_time, until_attempt, until_connected, until_failed};

fn echo() -> Script {
    Script::default().tool_with(json!({"name": "t"}))
}

fn keeping(lab: &Lab, servers: impl IntoIterator<Item = ServerEntry>) -> HostBuilder {
    let store = CatalogStore::at(lab.at("catalogs"));
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .servers(servers)
        .catalogs(store)
}

/// A server with a stored catalog, started once.
async fn known(lab: &Lab, entry: ServerEntry) -> ServerEntry {
    let name = entry.name.clone();
    let host = lab.ready(keeping(lab, [entry.clone()])).await;
    lab.end(host).await;
    assert_eq!(lab.starts(&name), 1);
    entry
}

/// A host whose only server is waiting.
async fn waiting(lab: &Lab, entry: ServerEntry) -> Host {
    let host = lab.ready(keeping(lab, [entry]).lazy(true)).await;
    assert!(is_waiting(&host));
    assert!(lab.scratch.marker().processes().is_empty());
    assert_eq!(lab.starts("s"), 1);
    host
}

fn is_waiting(host: &Host) -> bool {
    let waiting = State::Pending {
        attempt: 0,
        last_failure: None,
    };
    let state = host.server("s").unwrap().state.clone();
    format!("{state:?}") == format!("{waiting:?}")
}

#[tokio::test]
async fn lazy_server_starts_with_its_first_call() {
    let lab = Lab::new();
    let entry = known(&lab, lab.server("s", echo())).await;
    let host = waiting(&lab, entry).await;
    let catalog = host.server("s").unwrap().catalog.clone();
    assert!(catalog.cached);
    assert_eq!(host.pool().tools().len(), 1);
    // Reading the status starts nothing.
    host.servers();
    in_time("the host to be ready", host.ready()).await;
    assert_eq!(lab.starts("s"), 1);

    let answers = join_all((0..20).map(|n| {
        let host = host.clone();
        async move { call(&host, "mcp__s__t", json!({ "n": n })).await }
    }))
    .await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), format!(r#"{{"n":{n}}}"#));
    }
    assert_eq!(lab.starts("s"), 2);
    assert!(!host.server("s").unwrap().catalog.cached);
    lab.end(host).await;
}

#[tokio::test]
async fn lazy_server_without_a_stored_catalog_starts_immediately() {
    let lab = Lab::new();
    // A server that offers nothing could never be called either.
    for script in [echo(), Script::default()] {
        for _ in 0..2 {
            let name = format!("s{}", script.tools.len());
            let entry = lab.server(&name, script.clone());
            if script.tools.is_empty() || lab.starts(&name) == 0 {
                let before = lab.starts(&name);
                let host = lab.ready(keeping(&lab, [entry]).lazy(true)).await;
                until_connected(&host, &name).await;
                assert_eq!(lab.starts(&name), before + 1);
                lab.end(host).await;
            }
        }
    }
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("n", echo()))
        .lazy(true);
    let host = lab.ready(host).await;
    until_connected(&host, "n").await;
    lab.end(host).await;
}

#[tokio::test]
async fn entry_overrides_the_lazy_setting() {
    let lab = Lab::new();
    let entry = known(&lab, lab.server("s", echo())).await;
    for (of_entry, of_all, lazy) in [
        (Some(true), false, true),
        (Some(false), true, false),
        (None, false, false),
        (None, true, true),
    ] {
        let entry = ServerEntry {
            lazy: of_entry,
            ..entry.clone()
        };
        let host = lab.ready(keeping(&lab, [entry]).lazy(of_all)).await;
        assert_eq!(is_waiting(&host), lazy, "{of_entry:?}, {of_all}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn reconnect_and_refresh_start_a_lazy_server() {
    let lab = Lab::new();
    let entry = known(&lab, lab.server("s", echo())).await;
    let host = waiting(&lab, entry.clone()).await;
    host.reconnect("s").await.unwrap();
    until_connected(&host, "s").await;
    lab.end(host).await;

    let host = lab.ready(keeping(&lab, [entry]).lazy(true)).await;
    assert!(is_waiting(&host));
    host.refresh("s").await.unwrap();
    until_connected(&host, "s").await;
    lab.end(host).await;
    assert_eq!(lab.starts("s"), 3);
}

#[tokio::test]
async fn started_lazy_server_reconnects_by_itself() {
    let lab = Lab::new();
    let entry = known(&lab, lab.server("s", echo())).await;
    let host = waiting(&lab, entry).await;
    call(&host, "mcp__s__t", json!({})).await.unwrap();
    lab.kill("s");
    until_attempt(&host, "s", 1).await;
    until_connected(&host, "s").await;
    assert_eq!(lab.starts("s"), 3);
    lab.end(host).await;
}

#[tokio::test]
async fn failing_lazy_server_is_retried_by_the_next_call() {
    let lab = Lab::new();
    let entry = known(&lab, lab.breakable("s", echo())).await;
    lab.scratch.write("s.broken", "");
    let host = waiting(&lab, entry).await;
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("status 7"), "{error}");
    until_failed(&host, "s").await;
    std::fs::remove_file(lab.at("s.broken")).unwrap();
    call(&host, "mcp__s__t", json!({})).await.unwrap();
    lab.end(host).await;
}

#[tokio::test]
async fn waiting_lazy_server_can_be_disabled() {
    let lab = Lab::new();
    let entry = known(&lab, lab.server("s", echo())).await;
    let host = waiting(&lab, entry).await;
    in_time("switching off", host.disable("s")).await.unwrap();
    assert!(matches!(host.server("s").unwrap().state, State::Disabled));
    assert!(host.pool().tools().is_empty());
    call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert_eq!(lab.starts("s"), 1);
    lab.end(host).await;
}
