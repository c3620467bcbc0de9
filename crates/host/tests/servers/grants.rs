//! Sign-ins without a user, which the program configures per server.

use std::sync::Arc;

use serde_json::json;
use trunkline::auth::{Auth, Grant, Secret, TransportClient, Vault};
use trunkline::config::TransportEntry;
use trunkline::server::State;
use trunkline::transport::Dialer;
use trunkline::{Host, ServerEntry};
use trunkline_config::{HttpEntry, HttpFlavour};
use trunkline_testkit::net::OAuthServer;

use crate::lab::{Lab, call, until_connected};

fn auth(lab: &Lab) -> Auth {
    let vault = Arc::new(Vault::without_keychain(lab.at("secrets.json")));
    let http = Arc::new(TransportClient::new(Dialer::with_vars(|_| None)));
    Auth::builder(vault, lab.at("auth"), http).build()
}

fn entry(name: &str, issuer: &OAuthServer) -> ServerEntry {
    let mut http = HttpEntry::new(HttpFlavour::Streamable, issuer.resource());
    http.oauth.client_id = Some("robot".to_owned());
    ServerEntry::new(name, TransportEntry::Http(http))
}

#[tokio::test]
async fn the_program_decides_how_each_server_gets_its_tokens() {
    let lab = Lab::new();
    let issuer = OAuthServer::start();
    issuer.add_client("robot", Some("s3cret"));
    // The strictest server: tokens are bound to a key, and proofs need a nonce.
    issuer.configure(|options| {
        options.dpop = true;
        options.dpop_nonce = Some("n1".into());
    });
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .auth_with(auth(&lab), |entry, config| match entry.name.as_str() {
            "machine" => config
                .client_secret(Secret::new("s3cret"))
                .grant(Grant::ClientCredentials { key: None }),
            _ => config,
        })
        .servers([entry("machine", &issuer), entry("user", &issuer)]);
    let host = lab.ready(builder).await;
    until_connected(&host, "machine").await;
    let text = call(&host, "mcp__machine__greet", json!({})).await;
    assert_eq!(text.unwrap(), "hello");
    // Each proof is used once, or the server would have refused one of these.
    for _ in 0..3 {
        call(&host, "mcp__machine__greet", json!({})).await.unwrap();
    }
    assert!(
        issuer
            .grants()
            .iter()
            .all(|grant| grant == "client_credentials")
    );
    let status = host.server("user").unwrap();
    assert!(
        matches!(status.state, State::NeedsAuth(_)),
        "{:?}",
        status.state
    );
    lab.end(host).await;
}
