//! A host with one server over HTTP and a stored sign-in to it, as after `trunkline login`.

use std::sync::Arc;

use bench_client::Args;
use serde_json::json;
use trunkline::Host;
use trunkline::auth::{Auth, TransportClient, Vault};
use trunkline::transport::Dialer;

use crate::{Failure, builder, server};

/// A host whose requests carry a token that does not expire during the run.
pub(crate) async fn ready(args: &Args) -> Result<Host, Failure> {
    let entry = server::entry(args, 0);
    let folder = std::env::temp_dir().join(format!("trunkline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let tokens = folder.join("credentials.json");
    let sign_in = json!({
        "serverName": entry.name,
        "serverUrl": args.server.0,
        "accessToken": "a-token-as-long-as-those-of-most-issuers-are-0123456789",
        "expiresAt": 4_102_444_800_000_u64,
    });
    std::fs::write(&tokens, json!({ "mcpOAuth": { "bench": sign_in } }).to_string())?;

    let vault = Arc::new(Vault::without_keychain(folder.join("secrets.json")));
    let http = Arc::new(TransportClient::new(Dialer::from_env()));
    let auth = Auth::builder(vault, folder.join("auth"), http)
        .claude_code_credentials(tokens)
        .build();
    let host = builder().auth(auth).server(entry).start();
    host.ready().await;
    let is_signed_in = host
        .server_auth("echo")
        .is_some_and(|auth| auth.has_token());
    std::fs::remove_dir_all(&folder)?;
    if !is_signed_in {
        return Err("the host does not use the stored sign-in".into());
    }
    Ok(host)
}
