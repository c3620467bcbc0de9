//! A host without any feature: `cargo test -p trunkline --no-default-features --test bare`.

#![cfg(not(any(
    feature = "http",
    feature = "images",
    feature = "keychain",
    feature = "validation",
    feature = "ws"
)))]

use serde_json::json;
use trunkline::auth::{KeyringRef, Vault};
use trunkline::permission::AllowAll;
use trunkline::result::Content;
use trunkline::server::FailureKind;
use trunkline::tool::ToolOutput;
use trunkline::{Builtin, CallOptions, Host, ServerEntry};

/// The signature of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

#[tokio::test]
async fn an_entry_that_needs_a_feature_fails_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut with_secret = ServerEntry::stdio("secret", "true", ["${keyring:github/me}"]);
    with_secret.keyring.push(KeyringRef {
        service: "github".to_owned(),
        account: "me".to_owned(),
    });
    let host = Host::builder()
        .server(ServerEntry::http("web", "http://127.0.0.1:9/mcp"))
        .server(ServerEntry::sse("events", "http://127.0.0.1:9/sse"))
        .server(ServerEntry::ws("socket", "ws://127.0.0.1:9/"))
        .server(with_secret)
        .secrets(Vault::new(dir.path().join("secrets.json")))
        .start();
    for (server, feature) in [
        ("web", "http"),
        ("events", "http"),
        ("socket", "ws"),
        ("secret", "keychain"),
    ] {
        let status = host.ready_for(server).await.unwrap();
        assert_eq!(status.state.name(), "failed", "{server}");
        let failure = status.state.failure().unwrap();
        let message = failure.to_string();
        let named = format!("without the feature `{feature}`");
        assert!(message.contains(&named), "{server}: {message}");
        assert!(failure.hint().is_some(), "{server}");
        let is_missing = matches!(failure.kind, FailureKind::MissingFeature(_));
        assert_eq!(is_missing, feature != "keychain", "{server}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_is_called_and_its_image_passes_unless_it_is_too_large() {
    let schema = json!({"type": "object", "required": ["size"]});
    let camera = Builtin::new("camera").tool("look", "Looks", &schema, |call| async move {
        let mut image = PNG.to_vec();
        image.resize(call.text("size").ok_or("no size")?.parse()?, 0);
        Ok(ToolOutput::empty().with_image("image/png", &image))
    });
    let host = Host::builder().builtin(camera).permit(AllowAll).start();
    host.ready().await;
    let look = async |size: &str| {
        let arguments = json!({"size": size});
        let output = host.call("mcp__camera__look", arguments, CallOptions::new());
        output.await.unwrap()
    };
    let small = look("2000").await;
    let block = small.content().next();
    assert!(matches!(block, Some(Content::Image(_))), "{small:?}");
    let large = look("6000000").await;
    let text = large.text();
    assert!(text.contains("without the feature `images`"), "{text}");
    assert_eq!(large.warnings.len(), 1);
    host.shutdown().await;
}
