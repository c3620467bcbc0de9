//! Lists of HTTP servers: change notifications and stored catalogs (LIF-9, LIF-13).

use serde_json::json;
use trunkline::config::TransportEntry;
use trunkline::server::State;
use trunkline::storage::CatalogStore;
use trunkline::{Host, ServerEntry};
use trunkline_config::{HttpEntry, HttpFlavour};
use trunkline_testkit::net::HttpServer;
use trunkline_testkit::{Era, Script};

use crate::lab::{Lab, call, eventually, until_connected};

fn growing(era: Era) -> Script {
    let grow = json!([{"addTool": {"name": "new"}}, {"replyText": "grown"}]);
    Script::default().era(era).tool("grow", grow)
}

fn entry(server: &HttpServer) -> ServerEntry {
    let http = HttpEntry::new(HttpFlavour::Streamable, server.url());
    ServerEntry::new("s", TransportEntry::Http(http))
}

fn has_new(host: &Host) -> bool {
    host.pool().get("mcp__s__new").is_some()
}

#[tokio::test]
async fn change_arrives_over_the_open_stream() {
    for era in [Era::Modern, Era::Legacy] {
        let lab = Lab::new();
        let server = HttpServer::start(growing(era));
        let host = lab.host([entry(&server)]).await;
        until_connected(&host, "s").await;
        eventually("a stream", || server.streams() == 1).await;
        call(&host, "mcp__s__grow", json!({})).await.unwrap();
        eventually("the new tool", || has_new(&host)).await;
        lab.end(host).await;
        eventually("the stream to end", || server.streams() == 0).await;
    }
}

#[tokio::test]
async fn ended_stream_is_reopened_and_lists_are_refetched() {
    let lab = Lab::new();
    let server = HttpServer::start(growing(Era::Modern));
    let host = lab.host([entry(&server)]).await;
    eventually("a stream", || server.streams() == 1).await;
    server.drop_streams();
    eventually("the stream to end", || server.streams() == 0).await;
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    eventually("a stream", || server.streams() == 1).await;
    eventually("the new tool", || has_new(&host)).await;
    assert!(host.server("s").unwrap().catalog.diagnostics.is_empty());
    lab.end(host).await;
}

#[tokio::test]
async fn lazy_remote_server_connects_with_its_first_call() {
    let lab = Lab::new();
    let server = HttpServer::start(growing(Era::Modern));
    let keeping = || {
        let store = CatalogStore::at(lab.at("catalogs"));
        Host::builder()
            .permit(trunkline::permission::AllowAll)
            .server(entry(&server))
            .catalogs(store)
    };
    let host = lab.ready(keeping()).await;
    lab.end(host).await;
    let before = server.connections();

    let host = lab.ready(keeping().lazy(true)).await;
    let status = host.server("s").unwrap();
    assert!(matches!(status.state, State::Pending { attempt: 0, .. }));
    assert!(host.pool().get("mcp__s__grow").is_some());
    assert_eq!(server.connections(), before);
    assert_eq!(
        call(&host, "mcp__s__grow", json!({})).await.unwrap(),
        "grown"
    );
    assert!(server.connections() > before);
    lab.end(host).await;
}
