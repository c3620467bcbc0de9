//! Who a request is from: a bearer token of ours, an access token of the issuer, or anybody on
//! loopback.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::Instant;

use super::guard::single;
use super::oauth::{Resource, TokenError};
use crate::store::{Digest, StoreError, TokenRecord, TokenStatus, TokenStore, now_millis};

/// A token that was found is not looked up again for this long. A revocation takes effect after
/// it.
const REMEMBER: Duration = Duration::from_secs(1);

/// The beginning of the key of a client with a token of ours.
const TOKEN_KEY: &str = "token:";

/// The maximum number of tokens that are remembered.
const MAX_REMEMBERED: usize = 1024;

/// The longest `Authorization` header. Access tokens with many groups are long.
const MAX_CREDENTIALS: usize = 16 * 1024;

/// The client that a request is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Distinguishes clients: sessions, rates and limits belong to it.
    pub(super) key: String,
    /// A name for people.
    pub(super) label: String,
    /// The profile; `None` for the gateway's default.
    pub(super) profile: Option<String>,
}

/// The reason that a request has no identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuthFailure {
    /// It has no token and needs one.
    Missing,
    /// Its token is not accepted.
    Invalid(String),
    /// Its token lacks a scope.
    InsufficientScope,
    /// The token cannot be checked now.
    Unavailable(String),
}

impl From<StoreError> for AuthFailure {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Finds the identities of requests.
pub(super) struct Authenticator {
    tokens: Arc<dyn TokenStore>,
    required: bool,
    pub(super) oauth: Option<Resource>,
    remembered: Mutex<HashMap<Digest, (Instant, TokenRecord)>>,
}

impl Authenticator {
    pub(super) fn new(
        tokens: Arc<dyn TokenStore>,
        required: bool,
        oauth: Option<Resource>,
    ) -> Self {
        Self {
            tokens,
            required,
            oauth,
            remembered: Mutex::default(),
        }
    }

    /// Returns those of `keys` whose token of ours is not valid any more. Tokens of the issuer end
    /// only by themselves.
    pub(super) async fn ended(&self, keys: Vec<String>) -> Result<Vec<String>, StoreError> {
        let id = |key: &str| key.strip_prefix(TOKEN_KEY).map(str::to_owned);
        if !keys.iter().any(|key| id(key).is_some()) {
            return Ok(Vec::new());
        }
        let now = now_millis();
        let records = self.tokens.list().await?;
        let valid: HashSet<String> = records
            .into_iter()
            .filter(|record| record.status(now) == TokenStatus::Valid)
            .map(|record| record.id)
            .collect();
        let has_ended = |key: &String| id(key).is_some_and(|id| !valid.contains(&id));
        Ok(keys.into_iter().filter(has_ended).collect())
    }

    pub(super) async fn identify(&self, headers: &HeaderMap) -> Result<Identity, AuthFailure> {
        let invalid = |reason: &str| AuthFailure::Invalid(reason.to_owned());
        if !headers.contains_key(AUTHORIZATION) {
            if self.required {
                return Err(AuthFailure::Missing);
            }
            return Ok(Identity {
                key: "local".to_owned(),
                label: "http".to_owned(),
                profile: None,
            });
        }
        let header = single(headers, &AUTHORIZATION);
        let header = header.filter(|header| header.len() <= MAX_CREDENTIALS);
        let token = header
            .and_then(|header| bearer(header.to_str().ok()?))
            .ok_or_else(|| invalid("the Authorization header is not one bearer token"))?;
        if let Some(record) = self.find(token).await? {
            return match record.status(now_millis()) {
                TokenStatus::Valid => Ok(Identity {
                    key: format!("{TOKEN_KEY}{}", record.id),
                    label: record.label,
                    profile: record.profile,
                }),
                TokenStatus::Expired => Err(invalid("the token has expired")),
                TokenStatus::Revoked => Err(invalid("the token was revoked")),
            };
        }
        let Some(oauth) = &self.oauth else {
            return Err(invalid("the token is unknown"));
        };
        match oauth.verify(token).await {
            Ok(subject) => Ok(Identity {
                key: format!("oauth:{subject}"),
                label: subject,
                profile: oauth.profile.clone(),
            }),
            Err(TokenError::InsufficientScope) => Err(AuthFailure::InsufficientScope),
            Err(TokenError::Invalid(reason)) => Err(invalid(reason)),
            Err(TokenError::Unavailable(reason)) => Err(AuthFailure::Unavailable(reason)),
        }
    }

    async fn find(&self, token: &str) -> Result<Option<TokenRecord>, StoreError> {
        let digest = Digest::of(token);
        let now = Instant::now();
        {
            let remembered = self
                .remembered
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some((since, record)) = remembered.get(&digest)
                && now.duration_since(*since) < REMEMBER
            {
                return Ok(Some(record.clone()));
            }
        }
        let found = self.tokens.find(digest).await?;
        if let Some(record) = &found {
            let mut remembered = self
                .remembered
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(digest, (now, record.clone()));
        }
        Ok(found)
    }
}

/// Returns the token of `Bearer <token>`.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let valid = !token.is_empty() && token.bytes().all(valid);
    (scheme.eq_ignore_ascii_case("bearer") && valid).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::store::{MemoryTokenStore, NewToken};

    #[test]
    fn only_one_well_formed_bearer_token_counts() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  a.b-c_d~e+f/g=="), Some("a.b-c_d~e+f/g=="));
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "Basic abc",
            "Bearer a b",
            "Bearer a,b",
            "abc",
        ] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_names_its_client_until_it_is_revoked() {
        let tokens = Arc::new(MemoryTokenStore::default());
        let new = NewToken::generate("laptop", Some("review"), 0, None).unwrap();
        let old = NewToken::generate("old", None, 0, Some(1)).unwrap();
        for record in [&new.record, &old.record] {
            tokens.insert(record.clone()).await.unwrap();
        }
        let required = Authenticator::new(Arc::clone(&tokens) as _, true, None);
        let optional = Authenticator::new(Arc::clone(&tokens) as _, false, None);
        let with = |token: &str| {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            HeaderMap::from_iter([(AUTHORIZATION, value)])
        };
        let none = HeaderMap::new();
        assert_eq!(required.identify(&none).await, Err(AuthFailure::Missing));
        assert_eq!(optional.identify(&none).await.unwrap().key, "local");
        for auth in [&required, &optional] {
            let found = auth.identify(&with(&new.token)).await.unwrap();
            assert_eq!(found.label, "laptop");
            assert_eq!(found.profile.as_deref(), Some("review"));
            for wrong in ["trunkline_wrong", &old.token, "x"] {
                let failure = auth.identify(&with(wrong)).await;
                assert!(matches!(failure, Err(AuthFailure::Invalid(_))), "{wrong}");
            }
        }
        tokens.revoke("laptop", 5).await.unwrap();
        tokio::time::advance(REMEMBER).await;
        let failure = required.identify(&with(&new.token)).await.unwrap_err();
        assert_eq!(
            failure,
            AuthFailure::Invalid("the token was revoked".into())
        );
    }
}
