//! Sends requests to one server with its entry's headers and credentials, and honours
//! `Retry-After`. The outcome is a [`Response`] or a [`DeliveryError`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use url::Url;

use super::body::BufferBudget;
use super::connection_pool::{ConnectionPool, Response, SendError};
use super::credentials::{AfterRefusal, Credentials, Refusal, Token};
use super::headers_helper::HeadersHelper;
use super::request::{HttpRequest, RequestTarget};
use crate::net::{Dialer, TlsFiles};
use crate::response_head::joined;

/// Time limit for the head of a response (TRN-1).
pub const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Longer than any process runs.
const NO_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// The most `Retry-After` waits for one request, and the longest of them.
const MAX_RETRIES: usize = 3;
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Time limit for the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of an error response's body is shown, in characters.
const MAX_SHOWN: usize = 200;

/// The header with the nonce for the next proofs (RFC 9449).
const DPOP_NONCE: &str = "dpop-nonce";

/// Sends requests to one server.
pub(super) struct HttpClient {
    pub(super) pool: ConnectionPool,
    /// The URL of the server's entry.
    pub(super) target: RequestTarget,
    credentials: Option<Arc<dyn Credentials>>,
    helper: Option<Arc<HeadersHelper>>,
}

impl HttpClient {
    pub(super) fn new(
        dialer: &Dialer,
        url: &Url,
        tls_files: TlsFiles,
        credentials: Option<Arc<dyn Credentials>>,
        helper: Option<Arc<HeadersHelper>>,
    ) -> Result<Self, DeliveryError> {
        let pool = ConnectionPool::new(dialer.clone(), url, tls_files);
        Ok(Self {
            pool: pool.map_err(|error| delivery_error(&error))?,
            target: RequestTarget::new(url).map_err(|error| delivery_error(&error))?,
            credentials,
            helper,
        })
    }

    /// Sends a request and waits for the head of the response. A final 401 or 403 is an error.
    pub(super) async fn send(
        &self,
        request: &mut HttpRequest<'_>,
    ) -> Result<Box<Response>, DeliveryError> {
        if self.helper.is_some() {
            return Box::pin(self.send_with_retries(request, None)).await;
        }
        request.token = self.token().await?;
        let response = self.send_once(request).await?;
        take_nonce(request.token.as_ref(), &response.headers);
        if is_final(response.status) {
            return Ok(response);
        }
        // Boxed, because it is rare.
        Box::pin(self.send_with_retries(request, Some(response))).await
    }

    /// Sends a request until the response is final, starting with a response that may be there.
    async fn send_with_retries(
        &self,
        request: &mut HttpRequest<'_>,
        mut first: Option<Box<Response>>,
    ) -> Result<Box<Response>, DeliveryError> {
        let mut reauthenticated = false;
        let mut retried_nonce = false;
        let mut retries = 0;
        loop {
            let mut printed = None;
            let mut response = if let Some(response) = first.take() {
                // Its request had the token that is in `request`.
                response
            } else {
                printed = self.helper_headers().await?;
                request.token = self.token().await?;
                match &printed {
                    None => self.send_once(request).await?,
                    Some(printed) => {
                        let merged = request.with_helper_headers(printed);
                        self.send_once(&merged).await?
                    }
                }
            };
            let has_nonce = take_nonce(request.token.as_ref(), &response.headers);
            match response.status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let challenge = joined(&response.headers, WWW_AUTHENTICATE);
                    if has_nonce && !retried_nonce && asks_for_nonce(challenge.as_deref()) {
                        retried_nonce = true;
                        self.pool.drain(&mut response.body).await;
                        continue;
                    }
                    let refusal = Refusal {
                        status: response.status.as_u16(),
                        challenge: challenge.clone(),
                        sent: request.token.take(),
                    };
                    if !reauthenticated && self.reauthenticate(refusal, printed).await {
                        reauthenticated = true;
                        self.pool.drain(&mut response.body).await;
                        continue;
                    }
                    return Err(refused(&mut response, challenge).await);
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                    if retries < MAX_RETRIES =>
                {
                    match retry_after(&response.headers, SystemTime::now()) {
                        // A server that asks for a retry has not acted on the request.
                        Some(wait) if wait <= MAX_RETRY_AFTER => {
                            retries += 1;
                            self.pool.drain(&mut response.body).await;
                            tokio::time::sleep(wait).await;
                        }
                        _ => return Ok(response),
                    }
                }
                _ => return Ok(response),
            }
        }
    }

    async fn send_once(&self, request: &HttpRequest<'_>) -> Result<Box<Response>, DeliveryError> {
        let handed_over = AtomicBool::new(false);
        let sending = self.pool.send(request, &handed_over);
        let limit = request.timeout.unwrap_or(NO_TIMEOUT);
        match tokio::time::timeout(limit, sending).await {
            Ok(sent) => sent.map_err(|error| delivery_error(&error)),
            Err(_) => Err(timed_out(limit, handed_over.load(Ordering::Relaxed))),
        }
    }

    /// The token to send.
    async fn token(&self) -> Result<Option<Token>, DeliveryError> {
        let Some(credentials) = &self.credentials else {
            return Ok(None);
        };
        if let Some(token) = credentials.token_at_hand() {
            return Ok(Some(token));
        }
        let token = credentials.token().await;
        token.map_err(|error| no_credentials(&error))
    }

    /// The helper's headers to send.
    async fn helper_headers(&self) -> Result<Option<Arc<HeaderMap>>, DeliveryError> {
        match &self.helper {
            Some(helper) => {
                let headers = helper.headers().await;
                headers.map(Some).map_err(|error| no_credentials(&error))
            }
            None => Ok(None),
        }
    }

    /// Reports a refusal to the helper and the credentials; true if a retry may succeed.
    async fn reauthenticate(&self, refusal: Refusal, printed: Option<Arc<HeaderMap>>) -> bool {
        let renewed = match (&self.helper, printed) {
            (Some(helper), Some(sent)) => helper.refused(&sent).await,
            _ => false,
        };
        match &self.credentials {
            Some(credentials) => {
                let decision = credentials.refused(refusal).await;
                renewed || decision == AfterRefusal::Retry
            }
            None => renewed,
        }
    }
}

fn no_credentials(error: &impl ToString) -> DeliveryError {
    DeliveryError::new(DeliveryErrorKind::Credentials, error.to_string(), false)
}

/// Uses the nonce of a response in the proofs for a bound token (RFC 9449, section 9). Returns
/// whether there is one.
fn take_nonce(token: Option<&Token>, headers: &HeaderMap) -> bool {
    let Some(key) = token.and_then(Token::key) else {
        return false;
    };
    let nonce = headers.get(DPOP_NONCE);
    if let Some(nonce) = nonce {
        key.set_nonce(nonce);
    }
    nonce.is_some()
}

/// Whether a server refuses a request only because its proof lacks a nonce.
fn asks_for_nonce(challenge: Option<&str>) -> bool {
    challenge.is_some_and(|challenge| challenge.contains("use_dpop_nonce"))
}

/// Whether sending again would not change the response.
fn is_final(status: StatusCode) -> bool {
    !matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    )
}

async fn refused(response: &mut Response, challenge: Option<String>) -> DeliveryError {
    let detail = error_detail(response).await;
    if response.status == StatusCode::UNAUTHORIZED {
        let text = format!("the server asks for a sign-in (401){detail}");
        return DeliveryError::new(DeliveryErrorKind::Unauthorized { challenge }, text, false);
    }
    let text = format!("the server refuses access (403){detail}");
    DeliveryError::new(DeliveryErrorKind::Forbidden { challenge }, text, false)
}

/// The body of an error response as a suffix for an error message; untrusted text.
pub(super) async fn error_detail(response: &mut Response) -> String {
    let budget = BufferBudget::default();
    let reading = response.body.collect(MAX_SHOWN * 64, &budget, || {});
    let Ok(Ok(body)) = tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await else {
        return String::new();
    };
    detail(&body)
}

/// The error of a response whose status is not a success.
pub(super) async fn status_error(
    response: &mut Response,
    kind: DeliveryErrorKind,
    may_have_run: bool,
) -> DeliveryError {
    let detail = error_detail(response).await;
    let status = response.status.as_u16();
    let text = format!("the server answered with status {status}{detail}");
    DeliveryError::new(kind, text, may_have_run)
}

/// A body as a suffix for an error message; empty for HTML.
pub(super) fn detail(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let markup = text.trim_start().starts_with('<');
    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() || markup {
        return String::new();
    }
    if let Some((end, _)) = words.char_indices().nth(MAX_SHOWN) {
        // Between words: a part of a secret that the server repeats would not be masked.
        words.truncate(words[..end].rfind(' ').unwrap_or(0));
        words.push('…');
    }
    format!(": {words}")
}

/// The wait that a `Retry-After` header asks for: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn timed_out(limit: Duration, may_have_run: bool) -> DeliveryError {
    let text = format!("the server did not respond within {} s", limit.as_secs());
    DeliveryError::new(DeliveryErrorKind::Timeout, text, may_have_run)
}

pub(super) fn delivery_error(error: &SendError) -> DeliveryError {
    let (kind, may_have_run) = match error {
        SendError::Dial(_) | SendError::BadUrl => (DeliveryErrorKind::Unreachable, false),
        SendError::Exchange(error) => (DeliveryErrorKind::Broken, error.may_have_run),
        SendError::Redirected(_) => (DeliveryErrorKind::Redirected, false),
    };
    let text = match error {
        SendError::Dial(error) => match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        },
        error => error.to_string(),
    };
    DeliveryError::new(kind, text, may_have_run)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Mon, 16 Nov 2026 10:00:00 GMT").unwrap();
        for (value, seconds) in [
            ("3", Some(3)),
            (" 0 ", Some(0)),
            ("Mon, 16 Nov 2026 10:00:07 GMT", Some(7)),
            ("Mon, 16 Nov 2026 09:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
            assert_eq!(
                retry_after(&headers, now),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
