//! Enterprise-managed authorization (AUTH-9): the ID token of the identity provider is exchanged
//! for an ID-JAG (RFC 8693), which the server's authorization server accepts as an assertion.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use url::Url;

use super::config::Kind;
use super::obtain::joined;
use super::renewal::{Renewal, RenewalCause};
use super::{Inner, blocking};
use crate::Secret;
use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind};
use crate::flow::TokenEndpoint;
use crate::http::{Form, Requester};
use crate::registration::Client;
use crate::tokens::{is_due, refresh_time};

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// A sign-in at an identity provider, ready to be exchanged.
struct IdpSession {
    issuer: String,
    token_endpoint: Url,
    client: Client,
    id_token: Secret,
}

impl Inner {
    /// Exchanges the sign-in at this identity provider for an assertion that `found` accepts from
    /// the client `client_id`.
    pub(super) async fn exchange_for_assertion(
        self: &Arc<Self>,
        found: &Discovery,
        client_id: &str,
        scopes: &[String],
    ) -> Result<Secret, AuthError> {
        let http = self.requester().await;
        let IdpSession {
            issuer,
            token_endpoint,
            client,
            id_token,
        } = self.idp_session(&http).await?;
        let endpoint = TokenEndpoint {
            http: &http,
            url: &token_endpoint,
            issuer: &issuer,
            client: &client,
            key: None,
            dpop: None,
            now: self.shared.now(),
        };
        let form = Form::new(TOKEN_EXCHANGE)
            .with("requested_token_type", ID_JAG)
            .with("audience", &found.issuer.issuer)
            .with_some("resource", found.resource.as_deref())
            .with_some("scope", joined(scopes))
            .with("subject_token", id_token.expose())
            .with("subject_token_type", ID_TOKEN);
        let response = endpoint.request(form).await.map_err(|error| {
            let error = error.context("the identity provider");
            match error.kind() {
                // The ID token is ours to renew, not the server's sign-in to repeat.
                AuthErrorKind::InvalidGrant => error.with_kind(AuthErrorKind::SignInRequired),
                _ => error,
            }
        })?;
        if response.issued_token_type.as_deref() != Some(ID_JAG) {
            let text = "the identity provider issued something else than an ID-JAG";
            return Err(AuthError::new(AuthErrorKind::Rejected, text));
        }
        let assertion = response.access_token;
        check_assertion(&assertion, found, client_id)?;
        Ok(assertion)
    }

    /// A current ID token, from the program or from the user's sign-in.
    async fn idp_session(self: &Arc<Self>, http: &Requester) -> Result<IdpSession, AuthError> {
        let Kind::Idp {
            id_tokens: Some(source),
            ..
        } = &self.kind
        else {
            let (record, id_token) = self.id_token().await?;
            return Ok(IdpSession {
                client: record.client.ok_or_else(signed_out)?,
                token_endpoint: record.endpoints.token,
                issuer: record.issuer,
                id_token,
            });
        };
        let found = self.discover(http).await?;
        let client = self.client_for(http, &found, None, None, &[]).await?;
        let issuer = found.issuer.issuer;
        let (source, asked) = (Arc::clone(source), issuer.clone());
        let id_token = blocking(move || source.assertion(&asked)).await?;
        let id_token = id_token.map_err(|error| {
            AuthError::new(AuthErrorKind::SignInRequired, error)
                .context("the program supplies no ID token")
        })?;
        check_id_token(Some(&id_token), &issuer, &client.id, self.now())?;
        Ok(IdpSession {
            issuer,
            token_endpoint: found.issuer.token_endpoint,
            client,
            id_token,
        })
    }

    /// The ID token of the user's sign-in, renewed if it is due.
    async fn id_token(self: &Arc<Self>) -> Result<(crate::tokens::Record, Secret), AuthError> {
        for attempt in 0..2 {
            let record = self.read_record().await?.ok_or_else(signed_out)?;
            let tokens = record.tokens.as_ref().ok_or_else(signed_out)?;
            let due = is_due(refresh_time(tokens, 1.0), self.now());
            match (&tokens.id, due) {
                (Some(id), false) => {
                    let id = id.clone();
                    return Ok((record, id));
                }
                (Some(_), true) if attempt == 0 => {
                    let seen = tokens.access.clone();
                    match self.renew(Some(&seen), RenewalCause::Due).await {
                        Renewal::Renewed => {}
                        Renewal::SignIn(_) => return Err(signed_out()),
                        Renewal::Failed(error) => return Err(error),
                    }
                }
                _ => return Err(signed_out()),
            }
        }
        Err(signed_out())
    }
}

fn signed_out() -> AuthError {
    AuthError::new(
        AuthErrorKind::SignInRequired,
        "nobody is signed in at the identity provider; run `trunkline xaa login`",
    )
}

/// Checks the claims of an ID token. It comes straight from the token endpoint over TLS, so its
/// signature need not be checked (OpenID Connect Core, section 3.1.3.7). Returns when it expires.
pub(super) fn check_id_token(
    token: Option<&Secret>,
    issuer: &str,
    client_id: &str,
    now: u64,
) -> Result<u64, AuthError> {
    let invalid = |text: &str| AuthError::new(AuthErrorKind::Rejected, text);
    let token = token.ok_or_else(|| invalid("the identity provider issued no ID token"))?;
    let (_, claims) =
        decode(token).ok_or_else(|| invalid("the identity provider issued no valid ID token"))?;
    if claims["iss"].as_str() != Some(issuer) {
        return Err(invalid("the ID token comes from another issuer"));
    }
    if !names(&claims["aud"], client_id) {
        return Err(invalid("the ID token is for another client"));
    }
    let expires = claims["exp"].as_u64();
    expires
        .filter(|expires| *expires > now)
        .ok_or_else(|| invalid("the ID token has expired; check the clock of this machine"))
}

/// Checks that an ID-JAG is for the authorization server, the resource and the client. The
/// authorization server verifies the signature.
fn check_assertion(
    assertion: &Secret,
    found: &Discovery,
    client_id: &str,
) -> Result<(), AuthError> {
    let invalid = |what: &str| {
        let text = format!("the ID-JAG of the identity provider {what}");
        Err(AuthError::new(AuthErrorKind::Rejected, text))
    };
    let Some((header, claims)) = decode(assertion) else {
        return invalid("is not a JWT");
    };
    if header["typ"].as_str() != Some("oauth-id-jag+jwt") {
        return invalid("has another type");
    }
    if !names(&claims["aud"], &found.issuer.issuer) {
        return invalid("is for another authorization server");
    }
    match (&claims["resource"], &found.resource) {
        (Value::Null, _) | (_, None) => {}
        (claimed, Some(resource)) if names(claimed, resource) => {}
        _ => return invalid("is for another resource"),
    }
    match &claims["client_id"] {
        Value::Null => Ok(()),
        claimed if claimed.as_str() == Some(client_id) => Ok(()),
        _ => invalid("is for another client"),
    }
}

/// Whether a claim is `value`, or a list with it.
fn names(claim: &Value, value: &str) -> bool {
    match claim {
        Value::String(claim) => claim == value,
        Value::Array(claims) => claims.iter().any(|claim| claim == value),
        _ => false,
    }
}

/// The header and the claims of a JWT, unverified.
fn decode(token: &Secret) -> Option<(Value, Value)> {
    let mut parts = token.expose().split('.');
    let mut part = || -> Option<Value> {
        let bytes = URL_SAFE_NO_PAD
            .decode(parts.next()?.trim_end_matches('='))
            .ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    Some((part()?, part()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jwt(header: &Value, claims: &Value) -> Secret {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        Secret::new(format!("{}.{}.sig", encode(header), encode(claims)))
    }

    #[test]
    fn id_tokens_are_checked() {
        let good = json!({"iss": "https://idp.example", "aud": "me", "exp": 100});
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        let cases = [
            (good.clone(), true),
            (with("aud", json!(["other", "me"])), true),
            (with("aud", json!("other")), false),
            (with("iss", json!("https://idp.example/")), false),
            (with("exp", json!(50)), false),
            (with("exp", json!("100")), false),
        ];
        for (claims, valid) in cases {
            let token = jwt(&json!({}), &claims);
            let checked = check_id_token(Some(&token), "https://idp.example", "me", 50);
            assert_eq!(checked.is_ok(), valid, "{claims}");
        }
        let check = |token: Option<&Secret>| check_id_token(token, "i", "me", 0);
        assert!(check(None).is_err());
        assert!(check(Some(&Secret::new("hunter2"))).is_err());
    }

    #[test]
    fn assertions_are_checked() {
        let found = Discovery {
            resource: Some("https://mcp.example/mcp".to_owned()),
            resource_scopes: Vec::new(),
            wants_dpop: false,
            issuer: crate::discovery::test_issuer(&"https://as.example".parse().unwrap()),
        };
        let header = json!({"typ": "oauth-id-jag+jwt"});
        let good = json!({
            "aud": "https://as.example", "resource": "https://mcp.example/mcp", "client_id": "me",
        });
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        let cases = [
            (&header, good.clone(), true),
            (&header, with("resource", Value::Null), true),
            (&header, with("aud", json!("https://evil.example")), false),
            (
                &header,
                with("resource", json!("https://evil.example")),
                false,
            ),
            (&header, with("client_id", json!("you")), false),
            (&json!({"typ": "JWT"}), good.clone(), false),
        ];
        for (header, claims, valid) in cases {
            let checked = check_assertion(&jwt(header, &claims), &found, "me");
            assert_eq!(checked.is_ok(), valid, "{header} {claims}");
        }
    }
}
