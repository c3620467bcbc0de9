//! The endpoint as an OAuth protected resource (RFC 9728): its metadata, and the access tokens of
//! its issuer.

mod issuer;
mod jwt;

use http::HeaderValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_transport::net::Dialer;

use self::issuer::{Fetch, Issuer, Network};
use self::jwt::{Expected, Jwt};
use super::options::OAuthOptions;
use crate::store::now_millis;

/// The path of the metadata, before the path of the endpoint.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The reason that an access token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// It is not valid for this resource.
    Invalid(&'static str),
    /// It lacks a scope.
    InsufficientScope,
    /// The keys of the issuer are unknown now.
    Unavailable(String),
}

/// The protected resource.
pub(super) struct Resource {
    options: OAuthOptions,
    issuer: Issuer,
    pub(super) profile: Option<String>,
}

impl Resource {
    pub(super) fn new(options: OAuthOptions, dialer: Dialer) -> Self {
        Self::with_fetch(options, Box::new(Network::new(dialer)))
    }

    fn with_fetch(options: OAuthOptions, fetch: Box<dyn Fetch>) -> Self {
        Self {
            issuer: Issuer::new(options.issuer.clone(), options.jwks.clone(), fetch),
            profile: options.profile.clone(),
            options,
        }
    }

    /// Checks an access token and returns its subject.
    pub(super) async fn verify(&self, token: &str) -> Result<String, TokenError> {
        let jwt = Jwt::parse(token).map_err(TokenError::Invalid)?;
        // The claims first: a token that cannot be accepted anyway fetches no keys.
        #[expect(clippy::cast_precision_loss, reason = "a time in seconds")]
        let now = now_millis() as f64 / 1000.0;
        let expected = Expected {
            issuer: self.options.issuer.as_str(),
            audience: self.options.resource.as_str(),
            now,
        };
        jwt.claims.check(&expected).map_err(TokenError::Invalid)?;
        let keys = self.issuer.keys(jwt.key_id.as_deref(), Instant::now());
        let keys = keys.await.map_err(TokenError::Unavailable)?;
        let mut candidates = keys
            .iter()
            .filter(|key| jwt.key_id.is_none() || key.id.is_none() || key.id == jwt.key_id);
        if !candidates.any(|key| jwt.is_signed_by(key)) {
            return Err(TokenError::Invalid(
                "the access token is not signed by its issuer",
            ));
        }
        if !jwt.claims.has_scopes(&self.options.scopes) {
            return Err(TokenError::InsufficientScope);
        }
        let subject = jwt.claims.subject();
        subject
            .map(str::to_owned)
            .ok_or(TokenError::Invalid("the access token names no subject"))
    }

    /// Returns the metadata.
    pub(super) fn metadata(&self) -> Value {
        json!({
            "resource": self.options.resource.as_str().trim_end_matches('/'),
            "authorization_servers": [self.options.issuer.as_str().trim_end_matches('/')],
            "scopes_supported": self.options.scopes,
            "bearer_methods_supported": ["header"],
        })
    }

    /// Returns the challenge for a request without a valid token. `error` is a code of RFC 6750.
    pub(super) fn challenge(&self, error: Option<&str>) -> Option<HeaderValue> {
        let mut url = self.options.resource.clone();
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{METADATA_PATH}{path}"));
        let mut text = format!("Bearer resource_metadata=\"{url}\"");
        if !self.options.scopes.is_empty() {
            text.push_str(&format!(", scope=\"{}\"", self.options.scopes.join(" ")));
        }
        if let Some(error) = error {
            text.push_str(&format!(", error=\"{error}\""));
        }
        HeaderValue::try_from(text).ok()
    }
}

#[cfg(test)]
mod tests;
