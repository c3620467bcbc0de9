//! Servers on the network: IDEs, `headersHelper`, URLs without a type.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use trunkline::auth::{Credentials, Token};
use trunkline::config::TransportEntry;
use trunkline::server::State;
use trunkline::{Host, ServerEntry};
use trunkline_config::{HttpEntry, HttpFlavour, IdeEntry, Secret, ServerUrl, TlsEntry, WsEntry};
use trunkline_testkit::net::{HttpServer, SseServer, WsServer};
use trunkline_testkit::{Era, Script};

use crate::lab::{Lab, until_connected};

fn script() -> Script {
    Script::default().tool("t", json!([]))
}

#[tokio::test]
async fn remote_ide_is_refused() {
    for (websocket, url) in [
        (false, "http://192.0.2.1:9/sse"),
        (false, "http://ide.example/sse"),
        (true, "ws://192.0.2.1:9/"),
        (true, "ws://localhost.evil.example/"),
    ] {
        let lab = Lab::new();
        let ide = IdeEntry {
            websocket,
            url: ServerUrl::new(url),
            auth_token: Some(Secret::new("t0ken")),
            ide_name: None,
        };
        let entry = ServerEntry::new("ide", TransportEntry::Ide(ide));
        let host = lab.host([entry]).await;
        let status = host.server("ide").unwrap();
        let State::Failed(failure) = &status.state else {
            panic!("{url}: {:?}", status.state);
        };
        let told = failure.to_string();
        assert!(told.contains("must run on this machine"), "{url}: {told}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn headers_helper_signs_in_over_http_and_websocket() {
    let lab = Lab::new();
    let http = HttpServer::builder(script()).token("from-helper").start();
    let ws = WsServer::builder(script()).token("from-helper").start();
    let seen = lab.at("seen");
    let helper = format!(
        r#"env > '{}'; pwd >> '{}'; echo '{{"Authorization": "Bearer from-helper"}}'"#,
        seen.display(),
        seen.display()
    );
    let mut by_http = HttpEntry::new(HttpFlavour::Streamable, http.url());
    by_http.headers_helper = Some(helper.clone());
    let by_ws = WsEntry {
        url: ServerUrl::new(ws.url()),
        headers: [("Authorization".to_owned(), Secret::new("Bearer wrong"))].into(),
        headers_helper: Some(helper),
        tls: TlsEntry::default(),
    };
    for (name, transport) in [
        ("by-http", TransportEntry::Http(by_http)),
        ("by-ws", TransportEntry::Ws(by_ws)),
    ] {
        let mut entry = ServerEntry::new(name, transport);
        // The directory of the file that names the helper.
        entry.base = Some(lab.at("").canonicalize().unwrap());
        let base = entry.base.clone().unwrap();
        let host = lab.host([entry]).await;
        until_connected(&host, name).await;
        lab.end(host).await;
        let seen = std::fs::read_to_string(&seen).unwrap();
        let named = format!("CLAUDE_CODE_MCP_SERVER_NAME={name}");
        assert!(seen.contains(&named), "{seen}");
        assert!(
            seen.trim_end()
                .ends_with(base.to_str().unwrap().trim_end_matches('/'))
        );
    }
}

/// A token that the server refuses is replaced once.
#[tokio::test]
async fn credentials_sign_in_over_websocket() {
    let lab = Lab::new();
    let ws = WsServer::builder(script()).token("second").start();
    let entry = || ServerEntry::ws("s", ws.url());
    let calls = Arc::new(AtomicUsize::new(0));
    let credentials: Arc<dyn Credentials> = Arc::new(move || {
        let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        let token = if first { "first" } else { "second" };
        std::future::ready(Ok(Token::bearer(token)))
    });
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(entry())
        .credentials(move |_| Some(Arc::clone(&credentials)));
    let host = lab.ready(builder).await;
    until_connected(&host, "s").await;
    lab.end(host).await;

    let wrong: Arc<dyn Credentials> = Arc::new(async || Ok(Token::bearer("wrong")));
    let builder = Host::builder()
        .server(entry())
        .credentials(move |_| Some(Arc::clone(&wrong)));
    let host = lab.ready(builder).await;
    assert_eq!(host.server("s").unwrap().state.name(), "needs-auth");
    lab.end(host).await;
}

#[tokio::test]
async fn url_without_type_tries_both_protocols() {
    let lab = Lab::new();
    let streamable = HttpServer::start(script());
    let sse = SseServer::start(script().era(Era::Legacy));
    for url in [streamable.url(), sse.url()] {
        let http = HttpEntry::new(HttpFlavour::Either, url);
        let host = lab
            .host([ServerEntry::new("s", TransportEntry::Http(http))])
            .await;
        until_connected(&host, "s").await;
        assert_eq!(host.pool().offered().count(), 1);
        lab.end(host).await;
    }
}
