//! Carries requests to one server: with its entry's headers and our credentials, patiently with a server that asks for
//! patience. Everything that HTTP can do to a request comes out of here as an answer or as an [`DeliveryError`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use url::Url;

use super::body::Held;
use super::client::{Answer, Client, Place, SendError};
use super::credentials::{AfterRefusal, Credentials, Refusal, Token};
use super::helper::HeadersHelper;
use super::letter::{Letter, Prepared};
use crate::net::{Dialer, TlsFiles};

/// How long a server may take until the head of its answer is there (TRN-1).
pub const ANSWER_LIMIT: Duration = Duration::from_mins(1);

/// Longer than anything runs.
const NO_LIMIT: Duration = Duration::from_hours(24 * 365);

/// How often a server may put us off, and for how long at a time.
const MAX_PUT_OFF: usize = 3;
const LONGEST_PUT_OFF: Duration = Duration::from_mins(1);

/// How long the text of a refusal may take to come.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// How much of a refusal's text is shown.
const SHOWN: usize = 200;

/// Carries requests to one server.
pub(super) struct Courier {
    pub(super) client: Client,
    /// Where the entry says the server is.
    pub(super) place: Place,
    credentials: Option<Arc<dyn Credentials>>,
    helper: Option<Arc<HeadersHelper>>,
}

/// One request.
pub(super) struct Errand<'e> {
    pub(super) method: Method,
    pub(super) place: &'e Place,
    pub(super) headers: Arc<Prepared>,
    /// For this one alone.
    pub(super) more: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    /// How long the head of the answer may take.
    pub(super) limit: Option<Duration>,
}

impl Errand<'_> {
    fn letter<'e>(&'e self, token: Option<&'e Token>) -> Letter<'e> {
        Letter {
            method: &self.method,
            headers: &self.headers,
            more: &self.more,
            token: token.map(Token::header),
            body: &self.body,
        }
    }

    /// All headers, with those that a command has printed. One that prints an `Authorization` of its own is there to be obeyed.
    fn with(&self, token: Option<&Token>, helped: &HeaderMap) -> Prepared {
        let mut headers = self.headers.map.clone();
        headers.extend(self.more.iter().cloned());
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, token.header().clone());
        }
        headers.extend(helped.clone());
        headers.into()
    }
}

impl Courier {
    pub(super) fn new(
        dialer: &Dialer,
        url: &Url,
        files: TlsFiles,
        credentials: Option<Arc<dyn Credentials>>,
        helper: Option<Arc<HeadersHelper>>,
    ) -> Result<Self, DeliveryError> {
        Ok(Self {
            client: Client::new(dialer.clone(), url, files)
                .map_err(|error| delivery_error(&error))?,
            place: Place::new(url).map_err(|error| delivery_error(&error))?,
            credentials,
            helper,
        })
    }

    /// Sends a request and waits for the head of the answer. One that turns us down for good is an error.
    pub(super) async fn send(&self, errand: &Errand<'_>) -> Result<Box<Answer>, DeliveryError> {
        if self.credentials.is_some() || self.helper.is_some() {
            return Box::pin(self.insist(errand, None)).await;
        }
        let answer = self.send_once(errand, &errand.letter(None)).await?;
        if is_final(answer.status) {
            return Ok(answer);
        }
        // Boxed, because it seldom comes to this.
        Box::pin(self.insist(errand, Some(answer))).await
    }

    /// Sends a request until the answer is the server's last word, beginning with what it may have said already.
    async fn insist(
        &self,
        errand: &Errand<'_>,
        mut first: Option<Box<Answer>>,
    ) -> Result<Box<Answer>, DeliveryError> {
        let mut asked_again = false;
        let mut put_off = 0;
        loop {
            let (token, helped) = self.introduction().await?;
            let merged = helped
                .as_ref()
                .map(|helped| errand.with(token.as_ref(), helped));
            let letter = match &merged {
                None => errand.letter(token.as_ref()),
                Some(merged) => Letter {
                    headers: merged,
                    more: &[],
                    ..errand.letter(None)
                },
            };
            let mut answer = match first.take() {
                Some(answer) => answer,
                None => self.send_once(errand, &letter).await?,
            };
            match answer.status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let challenge = challenge(&answer.headers);
                    let refusal = Refusal {
                        status: answer.status.as_u16(),
                        challenge: challenge.clone(),
                        sent: token,
                    };
                    if !asked_again && self.try_again(refusal, helped).await {
                        asked_again = true;
                        self.client.finish(&mut answer.body).await;
                        continue;
                    }
                    return Err(refused(&mut answer, challenge).await);
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                    if put_off < MAX_PUT_OFF =>
                {
                    match retry_after(&answer.headers, SystemTime::now()) {
                        Some(wait) if wait <= LONGEST_PUT_OFF => {
                            put_off += 1;
                            // Whoever asks for patience has not acted on the request.
                            self.client.finish(&mut answer.body).await;
                            tokio::time::sleep(wait).await;
                        }
                        _ => return Ok(answer),
                    }
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn send_once(
        &self,
        errand: &Errand<'_>,
        letter: &Letter<'_>,
    ) -> Result<Box<Answer>, DeliveryError> {
        let handed_over = AtomicBool::new(false);
        let sending = self.client.send(letter, errand.place, &handed_over);
        let limit = errand.limit.unwrap_or(NO_LIMIT);
        match tokio::time::timeout(limit, sending).await {
            Ok(sent) => sent.map_err(|error| delivery_error(&error)),
            Err(_) => Err(silence(limit, handed_over.load(Ordering::Relaxed))),
        }
    }

    /// What tells the server who we are.
    async fn introduction(&self) -> Result<(Option<Token>, Option<Arc<HeaderMap>>), DeliveryError> {
        let failed =
            |reason: String| DeliveryError::new(DeliveryErrorKind::Credentials, reason, false);
        let helped = match &self.helper {
            Some(helper) => Some(
                helper
                    .headers()
                    .await
                    .map_err(|error| failed(error.to_string()))?,
            ),
            None => None,
        };
        let token = match &self.credentials {
            Some(credentials) => credentials
                .token()
                .await
                .map_err(|error| failed(error.to_string()))?,
            None => None,
        };
        Ok((token, helped))
    }

    /// Whether somebody has something better to send than what was refused.
    async fn try_again(&self, refusal: Refusal, printed: Option<Arc<HeaderMap>>) -> bool {
        let renewed = match (&self.helper, printed) {
            (Some(helper), Some(sent)) => helper.refused(&sent).await,
            _ => false,
        };
        match &self.credentials {
            Some(credentials) => {
                let answer = credentials.refused(refusal).await;
                renewed || answer == AfterRefusal::Retry
            }
            None => renewed,
        }
    }
}

/// Whether nothing that we could do would lead to another answer.
fn is_final(status: StatusCode) -> bool {
    !matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    )
}

fn challenge(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter();
    let values: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

async fn refused(answer: &mut Answer, challenge: Option<String>) -> DeliveryError {
    let said = said(answer).await;
    if answer.status == StatusCode::UNAUTHORIZED {
        let text = format!("the server asks for a sign-in (401){said}");
        return DeliveryError::new(DeliveryErrorKind::Unauthorized { challenge }, text, false);
    }
    let text = format!("the server refuses access (403){said}");
    DeliveryError::new(DeliveryErrorKind::Forbidden { challenge }, text, false)
}

/// What stands in an answer that is no success, to be shown behind it; untrusted text.
pub(super) async fn said(answer: &mut Answer) -> String {
    let held = Held::default();
    let reading = answer.body.whole(SHOWN * 64, &held, || {});
    let Ok(Ok(body)) = tokio::time::timeout(REST_LIMIT, reading).await else {
        return String::new();
    };
    in_words(&body)
}

/// A body as text to be shown behind something else; nothing if it is for a browser.
pub(super) fn in_words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let markup = text.trim_start().starts_with('<');
    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() || markup {
        return String::new();
    }
    if words.chars().count() > SHOWN {
        words = words.chars().take(SHOWN).chain(['…']).collect();
    }
    format!(": {words}")
}

/// How long a server wants to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn silence(limit: Duration, may_have_run: bool) -> DeliveryError {
    let text = format!(
        "the server has not begun to answer within {} s",
        limit.as_secs()
    );
    DeliveryError::new(DeliveryErrorKind::Timeout, text, may_have_run)
}

pub(super) fn delivery_error(error: &SendError) -> DeliveryError {
    let (kind, may_have_run) = match error {
        SendError::Dial(_) | SendError::BadUrl => (DeliveryErrorKind::Unreachable, false),
        SendError::Lost { sent, .. } => (DeliveryErrorKind::Broken, *sent),
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
    use super::*;

    #[test]
    fn a_server_says_when_to_come_back_in_seconds_or_by_date() {
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
