//! HTTP for OAuth: one small trait, implemented over the transport's client.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use trunkline_transport::http::{BoxFuture, FetchError, FetchRequest, Fetcher};
use trunkline_transport::net::{Dialer, Target, TlsFiles};
use url::Url;

use crate::Secret;
use crate::error::{AuthError, AuthErrorKind};
use crate::guard::{self, Reach};

/// Time limit for a request, from dialling to the last byte of the body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest body of a response (SEC-4).
const MAX_BODY: usize = 1024 * 1024;

/// The most redirects of one GET request, all within its origin.
const MAX_REDIRECTS: usize = 3;

const HEADERS: [(&str, &str); 1] = [(
    "user-agent",
    concat!("trunkline/", env!("CARGO_PKG_VERSION")),
)];

/// A request of this crate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest {
    /// GET or POST.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// The headers. Values that are secret are marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body. It may contain secrets.
    pub body: Bytes,
    /// The reach of the MCP server on whose behalf this request is made. Only addresses that
    /// [`Reach::may_dial`] accepts may be dialled.
    pub reach: Reach,
    /// The certificates to use.
    pub tls_files: TlsFiles,
}

/// A response to an [`HttpRequest`].
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whatever the status.
    pub body: Bytes,
}

/// Sends the requests of this crate, each at most once and without following redirects, with
/// limits on time and on the size of the body.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends a request.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, AuthError>>;

    /// Returns the reach of the server at `url`, by resolving its name.
    fn reach<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Reach>;
}

/// The transport's HTTP client, with its proxies and certificates (TRN-2).
#[derive(Clone, Debug)]
pub struct TransportClient {
    dialer: Dialer,
}

impl TransportClient {
    /// Sends requests through `dialer`.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, AuthError> {
        let reach = request.reach;
        let dialer = self
            .dialer
            .with_address_filter(move |address| reach.may_dial(address));
        let url = &request.url;
        let fetcher = Fetcher::with_tls(&dialer, url, request.tls_files, &HEADERS, None)
            .map_err(|error| fetch_error(url, &error))?;
        let outgoing = FetchRequest {
            method: request.method,
            url,
            headers: request.headers,
            body: request.body,
        };
        let response = fetcher.send(outgoing, MAX_BODY).await;
        let response = response.map_err(|error| fetch_error(url, &error))?;
        Ok(HttpResponse {
            status: response.status,
            headers: response.headers,
            body: response.body,
        })
    }
}

impl HttpClient for TransportClient {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, AuthError>> {
        Box::pin(async move {
            let url = request.url.clone();
            let exchange = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request));
            exchange.await.unwrap_or_else(|_| {
                let limit = REQUEST_TIMEOUT.as_secs();
                let text = format!("{} did not respond within {limit} s", guard::shown(&url));
                Err(AuthError::new(AuthErrorKind::Unavailable, text))
            })
        })
    }

    fn reach<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Reach> {
        Box::pin(async move {
            if guard::is_loopback_url(url) {
                return Reach::Loopback;
            }
            let Ok(target) = Target::of(url) else {
                return Reach::Public;
            };
            // Where a proxy resolves names, this machine may not be able to.
            let addresses = self.dialer.resolve(&target).await.unwrap_or_default();
            Reach::of_server(&addresses)
        })
    }
}

fn fetch_error(url: &Url, error: &FetchError) -> AuthError {
    let kind = match error {
        FetchError::AddressRefused(_) => AuthErrorKind::Refused,
        FetchError::TooLong(_) => AuthErrorKind::Metadata,
        _ => AuthErrorKind::Unavailable,
    };
    AuthError::new(kind, format!("{}: {error}", guard::shown(url)))
}

/// Sends the requests that belong to one MCP server and checks each URL.
#[derive(Clone)]
pub(crate) struct Requester {
    client: std::sync::Arc<dyn HttpClient>,
    server: Url,
    reach: Reach,
    tls_files: TlsFiles,
}

impl Requester {
    pub(crate) async fn new(
        client: std::sync::Arc<dyn HttpClient>,
        server: Url,
        tls_files: TlsFiles,
    ) -> Self {
        let reach = client.reach(&server).await;
        Self {
            client,
            server,
            reach,
            tls_files,
        }
    }

    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Checks that a URL for the browser does not lead into a network that the server is not on.
    pub(crate) async fn check_browser_url(&self, url: &Url) -> Result<(), AuthError> {
        let reach = self.client.reach(url).await;
        if self.reach.may_lead_to(reach) {
            return Ok(());
        }
        let text = format!(
            "{} may not be opened: it leads to a network that the server is not on",
            guard::shown(url)
        );
        Err(AuthError::new(AuthErrorKind::Refused, text))
    }

    /// Sends a GET request for JSON and follows redirects within the origin.
    pub(crate) async fn get(&self, url: &Url) -> Result<HttpResponse, AuthError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let accept = (ACCEPT, HeaderValue::from_static("application/json"));
            let request = self.request(Method::GET, url.clone(), vec![accept], Bytes::new())?;
            let response = self.client.send(request).await?;
            if !(300..400).contains(&response.status) || response.status == 304 {
                return Ok(response);
            }
            url = redirect_target(&url, &response)?;
        }
        let text = format!("{} redirects too often", guard::shown(&url));
        Err(AuthError::new(AuthErrorKind::Metadata, text))
    }

    /// Sends a form with further headers. Redirects are refused: the form contains secrets.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        form: &Form,
        mut headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<HttpResponse, AuthError> {
        headers.push((
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        ));
        self.post(url, headers, form.encode().into()).await
    }

    /// Sends JSON.
    pub(crate) async fn post_json(
        &self,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<HttpResponse, AuthError> {
        let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post(url, vec![content_type], body.to_string().into())
            .await
    }

    async fn post(
        &self,
        url: &Url,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpResponse, AuthError> {
        headers.push((ACCEPT, HeaderValue::from_static("application/json")));
        let request = self.request(Method::POST, url.clone(), headers, body)?;
        let response = self.client.send(request).await?;
        if (300..400).contains(&response.status) {
            let text = format!(
                "{} redirects a request with secrets ({})",
                guard::shown(url),
                response.status
            );
            return Err(AuthError::new(AuthErrorKind::Refused, text));
        }
        Ok(response)
    }

    fn request(
        &self,
        method: Method,
        url: Url,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpRequest, AuthError> {
        guard::check_url(&url, self.reach)?;
        let is_server = url.origin() == self.server.origin();
        // Only the server itself gets our client certificate.
        let tls_files = if is_server {
            self.tls_files.clone()
        } else {
            TlsFiles {
                ca: self.tls_files.ca.clone(),
                ..TlsFiles::default()
            }
        };
        Ok(HttpRequest {
            method,
            url,
            headers,
            body,
            reach: self.reach,
            tls_files,
        })
    }
}

fn redirect_target(from: &Url, response: &HttpResponse) -> Result<Url, AuthError> {
    let refuse = |text: String| AuthError::new(AuthErrorKind::Refused, text);
    let location = response.headers.get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let to = location.and_then(|location| from.join(location).ok());
    let shown = guard::shown(from);
    let to = to.ok_or_else(|| refuse(format!("{shown} redirects without a valid location")))?;
    if to.origin() != from.origin() {
        let to = guard::shown(&to);
        return Err(refuse(format!("{shown} redirects to another origin: {to}")));
    }
    Ok(to)
}

/// The form fields with secret values.
const SECRET_FIELDS: [&str; 7] = [
    "assertion",
    "code",
    "code_verifier",
    "device_code",
    "refresh_token",
    "subject_token",
    "token",
];

/// The fields of a form.
#[derive(Clone, Default)]
pub(crate) struct Form(Vec<(&'static str, String)>);

impl Form {
    pub(crate) fn new(grant_type: &str) -> Self {
        Self::default().with("grant_type", grant_type)
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    #[must_use]
    pub(crate) fn with_some(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The values that are secret.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let secret = self
            .0
            .iter()
            .filter(|(name, _)| SECRET_FIELDS.contains(name));
        secret.map(|(_, value)| Secret::new(value)).collect()
    }

    fn encode(&self) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(self.0.iter().map(|(name, value)| (*name, value.as_str())));
        form.finish()
    }
}

#[cfg(test)]
mod tests {
    use trunkline_testkit::net::RawHttp;

    use super::*;

    fn request(url: &str, reach: Reach) -> HttpRequest {
        HttpRequest {
            method: Method::GET,
            url: url.parse().unwrap(),
            headers: Vec::new(),
            body: Bytes::new(),
            reach,
            tls_files: TlsFiles::default(),
        }
    }

    #[tokio::test]
    async fn the_resolved_address_is_checked_when_it_is_dialled() {
        let private = RawHttp::start(|_, reply| _ = reply.status(200));
        let client = TransportClient::new(Dialer::with_vars(|_| None));
        // A name whose spelling tells nothing, for a public server: as if it had been rebound.
        let by_name = format!("http://localhost:{}/", private.port());
        for url in [by_name.as_str(), &private.url_of("/")] {
            for reach in [Reach::Public, Reach::Private] {
                let error = client.send(request(url, reach)).await.unwrap_err();
                assert_eq!(error.kind(), AuthErrorKind::Refused, "{url} {error}");
            }
            let response = client.send(request(url, Reach::Loopback)).await.unwrap();
            assert_eq!(response.status, 200);
        }
        assert_eq!(private.connections(), 2);
    }

    #[tokio::test]
    async fn a_long_body_is_refused() {
        let server =
            RawHttp::start(|_, reply| _ = reply.respond(200, &[], "x".repeat(MAX_BODY + 1)));
        let client = TransportClient::new(Dialer::with_vars(|_| None));
        let sent = client.send(request(&server.url(), Reach::Loopback)).await;
        assert_eq!(sent.unwrap_err().kind(), AuthErrorKind::Metadata);
    }

    #[tokio::test]
    async fn a_form_is_not_redirected() {
        let server = RawHttp::start(|_, reply| {
            reply.respond(307, &[("location", "/elsewhere")], "");
        });
        let client = std::sync::Arc::new(TransportClient::new(Dialer::with_vars(|_| None)));
        let url: Url = server.url().parse().unwrap();
        let http = Requester::new(client, url.clone(), TlsFiles::default()).await;
        let form = Form::new("refresh_token").with("refresh_token", "hunter2");
        let error = http.post_form(&url, &form, Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::Refused);
        assert_eq!(server.requests().len(), 1);
    }

    #[test]
    fn redirects_stay_within_the_origin() {
        let from = Url::parse("https://a.example/.well-known/x").unwrap();
        let cases = [
            (Some("/y"), Some("https://a.example/y")),
            (Some("https://a.example/z"), Some("https://a.example/z")),
            (Some("https://b.example/z"), None),
            (Some("http://a.example/z"), None),
            (Some("https://a.example:8443/z"), None),
            (Some("file:///etc/passwd"), None),
            (None, None),
        ];
        for (location, expected) in cases {
            let mut response = HttpResponse::default();
            if let Some(location) = location {
                let value = HeaderValue::from_static(location);
                response.headers.insert(LOCATION, value);
            }
            let target = redirect_target(&from, &response).ok();
            assert_eq!(target.as_ref().map(Url::as_str), expected, "{location:?}");
        }
    }
}
