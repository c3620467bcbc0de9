//! Makes concurrent requests to a protected server with the stored sign-in, and prints a line for
//! each: `ok`, `refused` or `failed`.
//!
//! The tests run it as a process of its own: `token_client DIRECTORY URL REQUESTS`.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use trunkline_auth::{Auth, ServerAuth, ServerConfig, TransportClient, Vault};
use trunkline_transport::http::{AfterRefusal, Credentials, FetchRequest, Fetcher, Refusal};
use trunkline_transport::net::Dialer;
use url::Url;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(url), Some(requests)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: token_client DIRECTORY URL REQUESTS".into());
    };
    let directory = PathBuf::from(directory);
    let url: Url = url.parse()?;
    let vault = Arc::new(Vault::without_keychain(directory.join("secrets.json")));
    let http = Arc::new(TransportClient::new(Dialer::from_env()));
    let auth = Auth::builder(vault, directory.join("auth"), http).build();
    let server = auth.server(ServerConfig::new("test", url.clone()));
    let requests: Vec<_> = (0..requests.parse()?)
        .map(|_| {
            let (server, url) = (Arc::clone(&server), url.clone());
            tokio::spawn(async move { request(&server, &url).await })
        })
        .collect();
    let mut lines = String::new();
    for request in requests {
        lines.push_str(&request.await??);
        lines.push('\n');
    }
    auth.settle(Duration::from_secs(30)).await;
    std::io::stdout().write_all(lines.as_bytes())?;
    Ok(())
}

/// One request, as the transport makes it.
async fn request(server: &ServerAuth, url: &Url) -> Result<String, Failure> {
    let fetcher = Fetcher::new(&Dialer::from_env(), url, &[], None)?;
    let mut is_retry = false;
    loop {
        let token = match server.token().await {
            Ok(token) => token,
            Err(error) => return Ok(format!("failed: {error}")),
        };
        let mut headers = Vec::new();
        if let Some(token) = &token {
            headers.push((AUTHORIZATION, HeaderValue::from_str(token.expose())?));
        }
        let request = FetchRequest {
            method: Method::POST,
            url,
            headers,
            body: Bytes::from_static(b"{}"),
        };
        let response = fetcher.send(request, 1024).await?;
        if response.status == 200 {
            return Ok("ok".to_owned());
        }
        let challenge = response.headers.get("www-authenticate");
        let refusal = Refusal {
            status: response.status,
            challenge: challenge.and_then(|value| value.to_str().ok().map(str::to_owned)),
            sent: token,
        };
        if is_retry || server.refused(refusal).await == AfterRefusal::GiveUp {
            return Ok(format!("refused: {}", response.status));
        }
        is_retry = true;
    }
}
