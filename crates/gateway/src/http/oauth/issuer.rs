//! The keys of an issuer: found through its metadata, cached, and fetched again for an unknown key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use trunkline_transport::http::Fetcher;
use trunkline_transport::net::Dialer;
use url::{Host, Url};

use super::jwt::Key;

/// The keys are fetched again after this long.
const FRESH: Duration = Duration::from_mins(10);

/// Without an answer of the issuer, its last keys count for this long.
const USABLE: Duration = Duration::from_hours(24);

/// An unknown key, or a failure, leads to another request only after this long: tokens with
/// invented keys must not become requests to the issuer.
const RETRY: Duration = Duration::from_secs(10);

/// The time for a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest document, and the most keys, of an issuer (SEC-4).
const MAX_BODY: usize = 1024 * 1024;
const MAX_KEYS: usize = 100;

/// Reads documents of the issuer.
pub(super) trait Fetch: Send + Sync {
    /// Returns the JSON document at `url`, or `None` if there is none.
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Option<Value>, String>>;
}

/// Reads documents over the network.
pub(super) struct Network(Dialer);

impl Network {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self(dialer)
    }
}

impl Fetch for Network {
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Option<Value>, String>> {
        Box::pin(async move {
            let accept = [("accept", "application/json")];
            let fetcher = Fetcher::new(&self.0, url, &accept, None).map_err(|e| e.to_string())?;
            let fetched = tokio::time::timeout(TIMEOUT, fetcher.get(url, MAX_BODY)).await;
            let response = fetched
                .map_err(|_| format!("{} did not respond in time", shown(url)))?
                .map_err(|error| format!("{}: {error}", shown(url)))?;
            match response.status {
                200 => serde_json::from_slice(&response.body)
                    .map(Some)
                    .map_err(|_| format!("{} is not JSON", shown(url))),
                404 | 405 | 410 => Ok(None),
                status => Err(format!("{} responded with {status}", shown(url))),
            }
        })
    }
}

/// An issuer of access tokens.
pub(super) struct Issuer {
    url: Url,
    jwks: Option<Url>,
    fetch: Box<dyn Fetch>,
    /// Locked while the keys are fetched: concurrent requests share one fetch.
    keys: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    keys: Arc<Vec<Key>>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
    problem: Option<String>,
}

impl Issuer {
    pub(super) fn new(url: Url, jwks: Option<Url>, fetch: Box<dyn Fetch>) -> Self {
        Self {
            url,
            jwks,
            fetch,
            keys: Mutex::default(),
        }
    }

    /// Returns the keys, fetched again if they are old or `wanted` is not among them.
    pub(super) async fn keys(
        &self,
        wanted: Option<&str>,
        now: Instant,
    ) -> Result<Arc<Vec<Key>>, String> {
        let mut cached = self.keys.lock().await;
        let age = |since: Option<Instant>| since.map(|since| now.saturating_duration_since(since));
        let fresh = age(cached.fetched).is_some_and(|age| age < FRESH);
        let known = wanted.is_none_or(|wanted| {
            let mut keys = cached.keys.iter();
            keys.any(|key| key.id.is_none() || key.id.as_deref() == Some(wanted))
        });
        let tried = age(cached.tried).is_some_and(|age| age < RETRY);
        if (!fresh || !known) && !tried {
            cached.tried = Some(now);
            match self.fetch_keys().await {
                Ok(keys) => {
                    cached.keys = Arc::new(keys);
                    cached.fetched = Some(now);
                    cached.problem = None;
                }
                Err(problem) => {
                    tracing::warn!(target: "trunkline", problem, "the issuer's keys are unknown");
                    cached.problem = Some(problem);
                }
            }
        }
        // While the issuer is away, its last keys are better than none, for a day.
        let usable = age(cached.fetched).is_some_and(|age| age < USABLE);
        match &cached.problem {
            Some(problem) if !usable => Err(problem.clone()),
            _ => Ok(Arc::clone(&cached.keys)),
        }
    }

    async fn fetch_keys(&self) -> Result<Vec<Key>, String> {
        let url = match &self.jwks {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        if !is_safe(&url) {
            return Err(format!("{} is not https", shown(&url)));
        }
        let document = self.fetch.get(&url).await?;
        let document = document.ok_or_else(|| format!("{} does not exist", shown(&url)))?;
        let keys = document["keys"].as_array().into_iter().flatten();
        let keys: Vec<Key> = keys
            .filter_map(|key| Key::from_jwk(key.as_object()?))
            .take(MAX_KEYS)
            .collect();
        if keys.is_empty() {
            return Err(format!("{} holds no key for signatures", shown(&url)));
        }
        Ok(keys)
    }

    /// Reads the URL of the keys from the issuer's metadata (RFC 8414, OpenID Connect).
    async fn discover(&self) -> Result<Url, String> {
        if !is_safe(&self.url) {
            return Err(format!("{} is not https", shown(&self.url)));
        }
        for url in metadata_urls(&self.url) {
            let Some(document) = self.fetch.get(&url).await? else {
                continue;
            };
            let same = |issuer: &str| {
                issuer.trim_end_matches('/') == self.url.as_str().trim_end_matches('/')
            };
            if !document["issuer"].as_str().is_some_and(same) {
                return Err(format!("{} is of another issuer", shown(&url)));
            }
            let jwks = document["jwks_uri"].as_str();
            let jwks = jwks.and_then(|jwks| Url::parse(jwks).ok());
            return jwks.ok_or_else(|| format!("{} names no jwks_uri", shown(&url)));
        }
        Err(format!("{} has no metadata", shown(&self.url)))
    }
}

/// Returns where the metadata of an issuer may be.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    let mut urls = vec![
        at(format!("/.well-known/oauth-authorization-server{path}")),
        at(format!("{path}/.well-known/openid-configuration")),
    ];
    if !path.is_empty() {
        urls.push(at(format!("/.well-known/openid-configuration{path}")));
    }
    urls
}

/// Keys must come over TLS, unless from this machine.
fn is_safe(url: &Url) -> bool {
    let local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && local)
}

/// A URL without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}
