//! Samples the responses of a server over HTTP that could not be connected.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, DATE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use trunkline::transport::{Alpn, DialError, Dialer, Target};
use trunkline_config::{HttpFlavour, ServerEntry};
use trunkline_transport::http::{FetchRequest, Fetcher};
use url::Url;

use super::causes::http::{HttpEvidence, Sample, Spoken, candidates};
use super::network::tls_files;

/// How much of a body is read.
const MAX_BODY: usize = 4096;

/// The limits for the whole of a request, and for its body: a stream of events does not end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_millis(1500);

/// The limit for all requests to other paths.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that every MCP server answers in some way, and that changes nothing.
const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Sends requests to one host, with the entry's own headers.
struct Prober {
    fetcher: Fetcher,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Samples the URL of an entry, and others of the same host if there is no server.
pub(super) async fn explore<'u>(
    entry: &ServerEntry,
    url: &'u Url,
    flavour: HttpFlavour,
    dialer: &Dialer,
) -> HttpEvidence<'u> {
    let mut evidence = HttpEvidence {
        url,
        flavour,
        get: None,
        post: None,
        other: None,
        is_tls: false,
    };
    let Some(prober) = Prober::new(entry, url, dialer) else {
        return evidence;
    };
    evidence.get = prober.get(url).await;
    evidence.post = prober.post(url).await;
    // Servers with TLS answer a plain request with this status, if at all.
    let answers_plainly =
        |sample: &Option<Sample>| sample.as_ref().is_none_or(|sample| sample.status == 400);
    if url.scheme() == "http" && answers_plainly(&evidence.get) && answers_plainly(&evidence.post) {
        evidence.is_tls = is_tls(entry, url, dialer).await;
    }
    let speaks = evidence.get.as_ref().is_some_and(Sample::is_sse)
        || evidence.post.as_ref().is_some_and(Sample::is_mcp);
    let is_elsewhere = |sample: &Sample| matches!(sample.status, 200..=299 | 400 | 404..=406 | 410);
    if evidence.post.as_ref().is_some_and(is_elsewhere) && !evidence.is_tls && !speaks {
        let searching = tokio::time::timeout(SEARCH_TIMEOUT, prober.search(url));
        evidence.other = searching.await.ok().flatten();
    }
    evidence
}

impl Prober {
    fn new(entry: &ServerEntry, url: &Url, dialer: &Dialer) -> Option<Self> {
        let tls = tls_files(&entry.transport);
        let agent = concat!("trunkline/", env!("CARGO_PKG_VERSION"));
        let fetcher = Fetcher::with_tls(dialer, url, tls, &[("user-agent", agent)], None).ok()?;
        let headers = entry.transport.headers().into_iter().flatten();
        let headers = headers.filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        Some(Self {
            headers: headers.collect(),
            fetcher,
        })
    }

    async fn get(&self, url: &Url) -> Option<Sample> {
        let accept = HeaderValue::from_static("text/event-stream, application/json");
        self.send(Method::GET, url, vec![(ACCEPT, accept)], Bytes::new())
            .await
    }

    async fn post(&self, url: &Url) -> Option<Sample> {
        let headers = vec![
            (
                ACCEPT,
                HeaderValue::from_static("application/json, text/event-stream"),
            ),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ];
        self.send(Method::POST, url, headers, Bytes::from_static(PING))
            .await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Option<Sample> {
        headers.extend(self.headers.iter().cloned());
        let request = FetchRequest {
            method,
            url,
            headers,
            body,
        };
        let sending = self.fetcher.sample(request, MAX_BODY, BODY_TIMEOUT);
        let response = tokio::time::timeout(REQUEST_TIMEOUT, sending)
            .await
            .ok()?
            .ok()?;
        let text = |name: HeaderName| text(&response.headers, &name);
        Some(Sample {
            status: response.status,
            content_type: text(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase(),
            date: text(DATE).and_then(|date| httpdate::parse_http_date(&date).ok()),
            location: text(LOCATION),
            body: String::from_utf8_lossy(&response.body).into_owned(),
        })
    }

    /// Looks for a server at other paths.
    async fn search(&self, url: &Url) -> Option<(Url, Spoken)> {
        for other in candidates(url) {
            let post = self.post(&other).await;
            if post.is_some_and(|sample| sample.is_mcp()) {
                return Some((other, Spoken::Streamable));
            }
            let get = self.get(&other).await;
            if get.is_some_and(|sample| sample.is_sse()) {
                return Some((other, Spoken::Sse));
            }
        }
        None
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns whether the port of a plain URL speaks TLS, whatever its certificate.
async fn is_tls(entry: &ServerEntry, url: &Url, dialer: &Dialer) -> bool {
    let Ok(target) = Target::of(url) else {
        return false;
    };
    let target = Target {
        tls: true,
        ..target
    };
    let files = tls_files(&entry.transport);
    let dialing = dialer.dial(&target, &files, Alpn::Http1);
    let outcome = tokio::time::timeout(REQUEST_TIMEOUT, dialing).await;
    matches!(
        outcome,
        Ok(Ok(_)
            | Err(DialError::NotTrusted { .. }
                | DialError::Expired { .. }
                | DialError::NotYetValid { .. }
                | DialError::WrongName { .. }
                | DialError::Certificate { .. }
                | DialError::ClientCertificateWanted { .. }))
    )
}

/// Returns the server's time, from any response.
pub(super) fn date(evidence: &HttpEvidence) -> Option<SystemTime> {
    let of = |sample: &Option<Sample>| sample.as_ref().and_then(|sample| sample.date);
    of(&evidence.post).or_else(|| of(&evidence.get))
}

/// Asks a server for its time.
pub(super) async fn server_time(
    entry: &ServerEntry,
    url: &Url,
    dialer: &Dialer,
) -> Option<SystemTime> {
    let prober = Prober::new(entry, url, dialer)?;
    prober.get(url).await?.date
}
