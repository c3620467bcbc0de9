//! The device grant (RFC 8628): the user enters a code on another device.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::token_endpoint::TokenEndpoint;
use crate::Secret;
use crate::error::{AuthError, AuthErrorKind, foreign};
use crate::flow::oauth_error;
use crate::guard::BrowserUrl;
use crate::http::Form;

/// The grant type.
pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The interval between polls without another one from the issuer, and bounds for the issuer's.
const DEFAULT_INTERVAL: u64 = 5;
const MAX_INTERVAL: Duration = Duration::from_mins(1);
/// The longest code, in characters.
const MAX_USER_CODE: usize = 32;
/// How much `slow_down` adds.
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// The lifetime of a code without one from the issuer, and the longest accepted.
const DEFAULT_LIFETIME: u64 = 900;
const MAX_LIFETIME: u64 = 3600;

#[derive(Deserialize)]
struct RawAuthorization {
    device_code: Secret,
    user_code: String,
    verification_uri: Option<String>,
    // The name in an early draft, still used by some.
    verification_url: Option<String>,
    verification_uri_complete: Option<String>,
    expires_in: Option<u64>,
    interval: Option<u64>,
}

/// A code for the user to enter.
#[derive(Clone, Debug)]
pub(crate) struct DeviceAuthorization {
    pub(crate) device_code: Secret,
    pub(crate) user_code: String,
    pub(crate) verification_uri: BrowserUrl,
    pub(crate) verification_uri_complete: Option<BrowserUrl>,
    pub(crate) lifetime: Duration,
    pub(crate) interval: Duration,
}

impl DeviceAuthorization {
    /// Requests a code from the device authorization endpoint.
    pub(crate) async fn request(
        endpoint: TokenEndpoint<'_>,
        scopes: &[String],
        resource: Option<&str>,
    ) -> Result<Self, AuthError> {
        let scope = (!scopes.is_empty()).then(|| scopes.join(" "));
        let form = Form::default()
            .with_some("scope", scope)
            .with_some("resource", resource);
        let secrets = endpoint.secrets(&form);
        let response = endpoint.send(form).await?;
        if !(200..300).contains(&response.status) {
            return Err(oauth_error(response.status, &response.body, &secrets));
        }
        Self::parse(&response.body, &secrets)
    }

    fn parse(body: &[u8], secrets: &[Secret]) -> Result<Self, AuthError> {
        let invalid = || {
            let text = "the response of the device authorization endpoint is invalid";
            AuthError::new(AuthErrorKind::Rejected, text)
        };
        let Ok(raw) = serde_json::from_slice::<RawAuthorization>(body) else {
            // Some vendors answer 200 with an error.
            let error = oauth_error(400, body, secrets);
            return Err(if error.oauth_code().is_some() {
                error
            } else {
                invalid()
            });
        };
        let browser = |url: &str| {
            Url::parse(url)
                .ok()
                .and_then(|url| BrowserUrl::new(&url).ok())
        };
        let uri = raw.verification_uri.or(raw.verification_url);
        let lifetime = raw.expires_in.unwrap_or(DEFAULT_LIFETIME).min(MAX_LIFETIME);
        let interval = Duration::from_secs(raw.interval.unwrap_or(DEFAULT_INTERVAL).max(1));
        let user_code = foreign(&raw.user_code);
        // A person types it; anything longer is no code but a message.
        if user_code.is_empty() || user_code.chars().count() > MAX_USER_CODE {
            return Err(invalid());
        }
        Ok(Self {
            device_code: raw.device_code,
            user_code,
            verification_uri: uri.as_deref().and_then(browser).ok_or_else(invalid)?,
            verification_uri_complete: raw.verification_uri_complete.as_deref().and_then(browser),
            lifetime: Duration::from_secs(lifetime),
            interval: interval.min(MAX_INTERVAL),
        })
    }
}

/// What follows after a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PollStep {
    /// Poll again after this interval.
    Wait(Duration),
    /// The sign-in failed.
    Fail(AuthError),
}

/// Decides what follows after a poll that gave no token.
pub(crate) fn next_poll(error: AuthError, interval: Duration) -> PollStep {
    match error.oauth_code() {
        Some("authorization_pending") => PollStep::Wait(interval),
        Some("slow_down") => PollStep::Wait((interval + SLOW_DOWN).min(MAX_INTERVAL)),
        Some("expired_token") => PollStep::Fail(AuthError::new(
            AuthErrorKind::TimedOut,
            "the code has expired; start again",
        )),
        // A poll that failed on the way is repeated more slowly.
        _ if error.is_retryable() => PollStep::Wait((interval * 2).min(MAX_INTERVAL)),
        _ => PollStep::Fail(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_with_defaults_and_bounds() {
        let parse = |body: &str| {
            DeviceAuthorization::parse(body.as_bytes(), &[]).map(|found| {
                let (lifetime, interval) = (found.lifetime.as_secs(), found.interval.as_secs());
                format!(
                    "{} {} {lifetime} {interval}",
                    found.user_code, found.verification_uri
                )
            })
        };
        let good =
            r#"{"device_code":"d","user_code":"A-B","verification_uri":"https://a.example/d""#;
        assert_eq!(
            parse(&format!("{good}}}")).unwrap(),
            "A-B https://a.example/d 900 5"
        );
        assert_eq!(
            parse(&format!("{good},\"expires_in\":999999,\"interval\":0}}")).unwrap(),
            "A-B https://a.example/d 3600 1"
        );
        let google =
            r#"{"device_code":"d","user_code":"A","verification_url":"https://a.example/"}"#;
        assert_eq!(parse(google).unwrap(), "A https://a.example/ 900 5");
        for bad in [
            "{}",
            r#"{"device_code":"d","user_code":"A"}"#,
            r#"{"device_code":"d","user_code":"A","verification_uri":"javascript:alert(1)"}"#,
            r#"{"device_code":"d","user_code":"A, then run the command that the page shows","verification_uri":"https://a.example/"}"#,
            r#"{"error":"invalid_client"}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn polling_waits_slows_down_and_ends() {
        let five = Duration::from_secs(5);
        let step = |code: &str| {
            let body = format!(r#"{{"error":"{code}"}}"#);
            match next_poll(oauth_error(400, body.as_bytes(), &[]), five) {
                PollStep::Wait(interval) => Ok(interval.as_secs()),
                PollStep::Fail(error) => Err(error.kind()),
            }
        };
        assert_eq!(step("authorization_pending"), Ok(5));
        assert_eq!(step("slow_down"), Ok(10));
        assert_eq!(step("temporarily_unavailable"), Ok(10));
        assert_eq!(step("expired_token"), Err(AuthErrorKind::TimedOut));
        assert_eq!(step("access_denied"), Err(AuthErrorKind::Denied));
        assert_eq!(step("invalid_grant"), Err(AuthErrorKind::InvalidGrant));
    }
}
