//! A test issuer with its protected server, and a client of it.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};
use trunkline_auth::{
    Account, Auth, AuthBuilder, AuthError, Secret, ServerAuth, ServerConfig, TransportClient, Vault,
};
use trunkline_testkit::net::{OAuthServer, follow_redirect};
use trunkline_transport::http::{AfterRefusal, Credentials, FetchRequest, Fetcher, Refusal, Token};
use trunkline_transport::net::Dialer;
use url::Url;

/// An issuer, the files of a user, and a clock that can be set.
pub(crate) struct World {
    pub(crate) issuer: OAuthServer,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<AtomicI64>,
}

/// The result of a request to the protected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    Ok,
    /// The request was refused with this status, and no retry was due.
    Refused(u16),
    /// There was no token to send.
    Failed(String),
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            issuer: OAuthServer::start(),
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::default(),
        }
    }

    pub(crate) fn vault(&self) -> Arc<Vault> {
        vault_in(self.folder.path())
    }

    pub(crate) fn builder(&self) -> AuthBuilder {
        let clock = Arc::clone(&self.clock);
        builder_in(self.folder.path()).clock(move || {
            let offset = clock.load(Ordering::Relaxed);
            let moved = Duration::from_secs(offset.unsigned_abs());
            let now = SystemTime::now();
            if offset < 0 { now - moved } else { now + moved }
        })
    }

    /// A new process, as far as this crate can tell.
    pub(crate) fn auth(&self) -> Auth {
        self.builder().build()
    }

    pub(crate) fn config(&self) -> ServerConfig {
        ServerConfig::new("test", self.url())
    }

    pub(crate) fn url(&self) -> Url {
        self.issuer.resource().parse().unwrap()
    }

    pub(crate) fn server(&self) -> Arc<ServerAuth> {
        self.auth().server(self.config())
    }

    /// Moves the clock of the client.
    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Signs in as a user in a browser does.
    pub(crate) async fn sign_in(&self, server: &ServerAuth) -> Result<Account, AuthError> {
        sign_in(&self.issuer, server).await
    }

    /// A server with a user who signed in an hour ago, and whose token has expired since.
    pub(crate) async fn expired(&self) -> Arc<ServerAuth> {
        let server = self.server();
        self.advance(-7200);
        self.sign_in(&server).await.unwrap();
        self.advance(7200);
        self.issuer.expire_access_tokens();
        server
    }

    pub(crate) async fn call(&self, server: &ServerAuth) -> Called {
        call(server, &self.url()).await
    }

    /// The stored sign-in, with its secrets.
    pub(crate) fn stored(&self, server: &ServerAuth) -> serde_json::Value {
        let found = self
            .vault()
            .get("trunkline OAuth", server.identity().key())
            .unwrap();
        found.map_or(serde_json::Value::Null, |text: Secret| {
            serde_json::from_str(text.expose()).unwrap()
        })
    }
}

pub(crate) fn vault_in(folder: &Path) -> Arc<Vault> {
    Arc::new(Vault::without_keychain(folder.join("secrets.json")))
}

pub(crate) fn builder_in(folder: &Path) -> AuthBuilder {
    let http = Arc::new(TransportClient::new(Dialer::with_vars(|_| None)));
    Auth::builder(vault_in(folder), folder.join("auth"), http)
}

pub(crate) async fn sign_in(
    issuer: &OAuthServer,
    server: &ServerAuth,
) -> Result<Account, AuthError> {
    let login = server.start_login().await?;
    let redirect = issuer.authorize(login.url().as_str());
    let page = tokio::task::spawn_blocking(move || follow_redirect(&redirect));
    let outcome = login.wait().await;
    let page = page.await.unwrap();
    let expected = if outcome.is_ok() { "200" } else { "400" };
    assert!(page.starts_with(&format!("HTTP/1.1 {expected} ")), "{page}");
    outcome
}

fn request<'u>(url: &'u Url, token: Option<&Token>) -> FetchRequest<'u> {
    let header = |token: &Token| {
        let value = HeaderValue::from_str(token.expose()).unwrap();
        (AUTHORIZATION, value)
    };
    let mut headers: Vec<_> = token.into_iter().map(header).collect();
    let proof = token
        .and_then(Token::key)
        .and_then(|key| key.proof(&Method::POST, url));
    headers.extend(proof.map(|proof| (HeaderName::from_static("dpop"), proof)));
    FetchRequest {
        method: Method::POST,
        url,
        headers,
        body: Bytes::from_static(b"{}"),
    }
}

/// Makes a request as the transport does: with the token, and once more after a refusal that a
/// nonce or the credentials can mend.
pub(crate) async fn call(server: &ServerAuth, url: &Url) -> Called {
    let dialer = Dialer::with_vars(|_| None);
    let fetcher = Fetcher::new(&dialer, url, &[], None).unwrap();
    let mut is_retry = false;
    loop {
        let token = match server.token().await {
            Ok(token) => token,
            Err(error) => return Called::Failed(error.to_string()),
        };
        let mut response = fetcher
            .send(request(url, token.as_ref()), 1024)
            .await
            .unwrap();
        let key = token.as_ref().and_then(|token| token.key());
        if let (Some(key), Some(nonce)) = (key, response.headers.get("dpop-nonce")) {
            key.set_nonce(nonce);
            let again = request(url, token.as_ref());
            response = fetcher.send(again, 1024).await.unwrap();
        }
        if response.status == 200 {
            return Called::Ok;
        }
        let challenge = response.headers.get("www-authenticate");
        let refusal = Refusal {
            status: response.status,
            challenge: challenge.map(|value| value.to_str().unwrap().to_owned()),
            sent: token,
        };
        if is_retry || server.refused(refusal).await == AfterRefusal::GiveUp {
            return Called::Refused(response.status);
        }
        is_retry = true;
    }
}
