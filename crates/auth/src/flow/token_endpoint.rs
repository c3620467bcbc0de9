//! Requests to the token and revocation endpoints.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::jwt::claims;
use super::random::random_text;
use super::{DpopKey, SigningKey};
use crate::Secret;
use crate::error::{AuthError, AuthErrorKind, foreign};
use crate::http::{Form, HttpResponse, Requester};
use crate::registration::{AuthMethod, Client};

/// How long a client assertion is valid.
const ASSERTION_LIFETIME: Duration = Duration::from_mins(5);

const JWT_BEARER_CLIENT: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The largest response of a token endpoint, in bytes: all of it is stored, beside the tokens of
/// other servers.
const MAX_RESPONSE: usize = 128 * 1024;

/// A token endpoint and the client that uses it.
pub(crate) struct TokenEndpoint<'r> {
    pub(crate) http: &'r Requester,
    pub(crate) url: &'r Url,
    pub(crate) issuer: &'r str,
    pub(crate) client: &'r Client,
    /// The key for `private_key_jwt`.
    pub(crate) key: Option<&'r SigningKey>,
    /// The key to bind tokens to.
    pub(crate) dpop: Option<&'r DpopKey>,
    pub(crate) now: SystemTime,
}

/// A successful response of a token endpoint.
#[derive(Clone, Debug)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: Secret,
    pub(crate) token_type: Option<String>,
    pub(crate) expires_in: Option<u64>,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) scope: Option<String>,
    pub(crate) id_token: Option<Secret>,
    pub(crate) issued_token_type: Option<String>,
}

impl TokenResponse {
    /// Decodes a document with an access token; `None` without one. An optional member of another
    /// type counts as absent: a rotated refresh token must not be lost for it.
    pub(crate) fn decode(document: &Value) -> Option<Self> {
        let text = |member: &str| document[member].as_str();
        let secret = |member| text(member).map(Secret::new);
        // Some vendors list the scopes.
        let scope = match &document["scope"] {
            Value::Array(scopes) => {
                let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
                Some(scopes.join(" "))
            }
            scope => scope.as_str().map(str::to_owned),
        };
        // An empty list grants nothing, and is a mistake.
        let scope = scope.filter(|scope| !scope.trim().is_empty());
        Some(Self {
            access_token: secret("access_token")?,
            token_type: text("token_type").map(str::to_owned),
            expires_in: seconds(&document["expires_in"]),
            refresh_token: secret("refresh_token"),
            scope,
            id_token: secret("id_token"),
            issued_token_type: text("issued_token_type").map(str::to_owned),
        })
    }

    /// Whether the access token is bound to the key of the request.
    pub(crate) fn is_bound(&self) -> bool {
        self.token_type.as_deref().is_some_and(is_dpop)
    }
}

/// Whether a token can be sent (RFC 6750, section 2.1, and leniently everything that is visible).
fn is_sendable(token: &Secret) -> bool {
    let token = token.expose();
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_dpop(token_type: &str) -> bool {
    token_type.eq_ignore_ascii_case("dpop")
}

/// Whether the issuer rejects a request only because its proof lacks a nonce. It has not acted on
/// the request then.
fn asks_for_nonce(response: &HttpResponse) -> bool {
    let is_error = (400..500).contains(&response.status);
    let error = || oauth_error(response.status, &response.body, &[]);
    is_error && error().oauth_code() == Some("use_dpop_nonce")
}

impl TokenEndpoint<'_> {
    /// Requests tokens.
    pub(crate) async fn request(&self, form: Form) -> Result<TokenResponse, AuthError> {
        let tokens = self.exchange(form).await?;
        self.check_usable(&tokens)?;
        Ok(tokens)
    }

    /// Requests tokens, of which the access token may be unusable.
    pub(crate) async fn exchange(&self, form: Form) -> Result<TokenResponse, AuthError> {
        let secrets = self.secrets(&form);
        let response = self.send(form).await?;
        parse_response(response.status, &response.body, &secrets)
    }

    /// Checks that an access token can be sent.
    pub(crate) fn check_usable(&self, tokens: &TokenResponse) -> Result<(), AuthError> {
        let is_known = |kind: &str| {
            kind.eq_ignore_ascii_case("bearer") || (self.dpop.is_some() && is_dpop(kind))
        };
        if !is_sendable(&tokens.access_token) {
            let text = "the authorization server issued a token that no header can hold";
            return Err(AuthError::new(AuthErrorKind::Rejected, text));
        }
        match &tokens.token_type {
            // Token exchange answers N_A for a token that is not an access token (RFC 8693).
            Some(kind) if !is_known(kind) && tokens.issued_token_type.is_none() => {
                let kind = foreign(kind);
                let text = format!("the authorization server issued a token of type {kind:?}");
                Err(AuthError::new(AuthErrorKind::Rejected, text))
            }
            _ => Ok(()),
        }
    }

    /// The secrets of a request, which a server could repeat in an error.
    pub(crate) fn secrets(&self, form: &Form) -> Vec<Secret> {
        let mut secrets = form.secrets();
        secrets.extend(self.client.secret.clone());
        secrets
    }

    /// Sends a form with the authentication of the client. An assertion that the issuer rejects is
    /// sent once more with the issuer's time, in case our clock is wrong.
    pub(crate) async fn send(&self, form: Form) -> Result<HttpResponse, AuthError> {
        if self.client.auth_method != AuthMethod::PrivateKeyJwt {
            return self.post(&form, None).await;
        }
        let response = self.post(&form, Some(self.now)).await?;
        match self.skewed_clock(&response) {
            Some(theirs) => self.post(&form, Some(theirs)).await,
            None => Ok(response),
        }
    }

    /// Sends a form, once more if the issuer asks for a nonce in the DPoP proof (RFC 9449,
    /// section 8).
    async fn post(
        &self,
        form: &Form,
        assertion_time: Option<SystemTime>,
    ) -> Result<HttpResponse, AuthError> {
        let response = self.post_once(form, assertion_time).await?;
        let Some(dpop) = self.dpop else {
            return Ok(response);
        };
        if !dpop.issuer_nonce.take(&response.headers) || !asks_for_nonce(&response) {
            return Ok(response);
        }
        let response = self.post_once(form, assertion_time).await?;
        dpop.issuer_nonce.take(&response.headers);
        Ok(response)
    }

    async fn post_once(
        &self,
        form: &Form,
        assertion_time: Option<SystemTime>,
    ) -> Result<HttpResponse, AuthError> {
        let mut form = form.clone();
        let mut headers = Vec::new();
        let secret = self.client.secret.as_ref();
        match self.client.auth_method {
            AuthMethod::ClientSecretBasic => {
                let secret = secret.map(Secret::expose).unwrap_or_default();
                headers.push((AUTHORIZATION, basic(&self.client.id, secret)?));
                // The Python SDK looks the client up by this field, and RFC 6749, section 3.2.1,
                // allows it for every client.
                form = form.with("client_id", &self.client.id);
            }
            AuthMethod::ClientSecretPost => {
                form = form
                    .with("client_id", &self.client.id)
                    .with_some("client_secret", secret.map(Secret::expose));
            }
            AuthMethod::PrivateKeyJwt => {
                let assertion = self.assertion(assertion_time.unwrap_or(self.now))?;
                form = form
                    .with("client_id", &self.client.id)
                    .with("client_assertion_type", JWT_BEARER_CLIENT)
                    .with("client_assertion", assertion);
            }
            AuthMethod::None => form = form.with("client_id", &self.client.id),
        }
        if let Some(dpop) = self.dpop {
            let proof = dpop.token_proof(self.url, self.now)?;
            headers.push((HeaderName::from_static("dpop"), proof));
        }
        self.http.post_form(self.url, &form, headers).await
    }

    /// Signs the assertion that authenticates the client (RFC 7523, with the issuer as audience).
    fn assertion(&self, now: SystemTime) -> Result<String, AuthError> {
        let key = self.key.ok_or_else(|| {
            AuthError::new(AuthErrorKind::Settings, "the client has no private key")
        })?;
        let id = &self.client.id;
        let mut claims = claims(id, id, self.issuer, now, ASSERTION_LIFETIME);
        claims["jti"] = random_text()?.into();
        key.sign(&claims)
    }

    /// The issuer's time, if it rejected an assertion and its clock differs much from ours.
    fn skewed_clock(&self, response: &HttpResponse) -> Option<SystemTime> {
        if !matches!(response.status, 400 | 401) {
            return None;
        }
        let date = response.headers.get(http::header::DATE)?.to_str().ok()?;
        let theirs = httpdate::parse_http_date(date).ok()?;
        let apart = theirs
            .duration_since(self.now)
            .unwrap_or_else(|earlier| earlier.duration());
        (apart > ASSERTION_LIFETIME / 5).then_some(theirs)
    }
}

/// The characters that forms encode. A space is encoded as `%20`, which every decoder understands.
/// Nothing else is encoded, because some servers do not decode.
const FORM: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'*')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

/// The `Authorization` header of a client (RFC 6749, section 2.3.1: both parts form-encoded).
fn basic(id: &str, secret: &str) -> Result<HeaderValue, AuthError> {
    let encode = |text: &str| utf8_percent_encode(text, FORM).to_string();
    let pair = format!("{}:{}", encode(id), encode(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| AuthError::new(AuthErrorKind::Settings, "the client id is not usable"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Revokes a token (RFC 7009). An unknown token counts as revoked.
pub(crate) async fn revoke(
    endpoint: TokenEndpoint<'_>,
    token: &Secret,
    kind: &str,
) -> Result<(), AuthError> {
    let form = Form::default()
        .with("token", token.expose())
        .with("token_type_hint", kind);
    let secrets = endpoint.secrets(&form);
    let response = endpoint.send(form).await?;
    match response.status {
        200..=299 => Ok(()),
        status => Err(oauth_error(status, &response.body, &secrets)),
    }
}

/// Decodes the response of a token endpoint. A success that is an error body counts as 400, as
/// some vendors answer that way (AUTH-5).
fn parse_response(
    status: u16,
    body: &[u8],
    secrets: &[Secret],
) -> Result<TokenResponse, AuthError> {
    if body.len() > MAX_RESPONSE {
        let text = "the response of the token endpoint is too large";
        return Err(AuthError::new(AuthErrorKind::Rejected, text));
    }
    if (200..300).contains(&status) {
        let document: Value = serde_json::from_slice(without_mark(body)).unwrap_or_default();
        if let Some(tokens) = TokenResponse::decode(&document) {
            return Ok(tokens);
        }
        let error = oauth_error(400, body, secrets);
        if error.oauth_code().is_some() {
            return Err(error);
        }
        let text = "the authorization server answered with neither a token nor an error";
        return Err(AuthError::new(AuthErrorKind::Rejected, text));
    }
    Err(oauth_error(status, body, secrets))
}

/// A document without its byte order mark.
fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// The error in the response of an authorization server, which may repeat `secrets` of the request.
pub(crate) fn oauth_error(status: u16, body: &[u8], secrets: &[Secret]) -> AuthError {
    let document: Value = serde_json::from_slice(without_mark(body)).unwrap_or_default();
    let code = match &document["error"] {
        Value::String(code) => Some(code.as_str()),
        // Some vendors nest it.
        Value::Object(nested) => nested.get("code").and_then(Value::as_str),
        _ => None,
    };
    let description = document["error_description"].as_str();
    let Some(code) = code else {
        let kind = match status {
            408 | 425 | 429 | 500..=599 => AuthErrorKind::Unavailable,
            _ => AuthErrorKind::Rejected,
        };
        let text = format!("the authorization server answered with status {status}");
        return AuthError::new(kind, text);
    };
    AuthError::from_oauth(error_kind(status, code), code, description, secrets)
}

fn error_kind(status: u16, code: &str) -> AuthErrorKind {
    match code {
        "invalid_grant" | "invalid_refresh_token" | "expired_refresh_token" | "token_expired" => {
            AuthErrorKind::InvalidGrant
        }
        "invalid_client" => AuthErrorKind::InvalidClient,
        "access_denied" => AuthErrorKind::Denied,
        "server_error" | "temporarily_unavailable" => AuthErrorKind::Unavailable,
        _ if status == 429 || status >= 500 => AuthErrorKind::Unavailable,
        _ => AuthErrorKind::Rejected,
    }
}

/// Seconds as a number or, from some vendors, as text; anything else counts as absent.
fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked, and casts saturate"
    )]
    let whole = |number: f64| (number >= 0.0).then_some(number as u64);
    match value {
        Value::Number(number) => number.as_f64().and_then(whole),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_tokens_or_errors() {
        use AuthErrorKind::{Denied, InvalidClient, InvalidGrant, Rejected, Unavailable};
        let cases = [
            (
                200,
                r#"{"access_token":"t","token_type":"Bearer"}"#,
                Ok(None),
            ),
            (201, r#"{"access_token":"t","expires_in":60}"#, Ok(Some(60))),
            (
                200,
                r#"{"access_token":"t","expires_in":"60"}"#,
                Ok(Some(60)),
            ),
            (
                200,
                r#"{"access_token":"t","expires_in":59.9}"#,
                Ok(Some(59)),
            ),
            (200, r#"{"access_token":"t","expires_in":-1}"#, Ok(None)),
            (200, r#"{"access_token":"t","expires_in":null}"#, Ok(None)),
            // A token beside an error is a token.
            (
                200,
                r#"{"ok":true,"access_token":"t","error":"x"}"#,
                Ok(None),
            ),
            (
                200,
                r#"{"ok":false,"error":"invalid_refresh_token"}"#,
                Err(InvalidGrant),
            ),
            (
                200,
                r#"{"error":"expired_refresh_token"}"#,
                Err(InvalidGrant),
            ),
            (200, r#"{"error":"token_expired"}"#, Err(InvalidGrant)),
            (200, r#"{"error":"bad_verification_code"}"#, Err(Rejected)),
            (200, r#"{"access_token":1}"#, Err(Rejected)),
            (200, "<html>", Err(Rejected)),
            (200, "", Err(Rejected)),
            (400, r#"{"error":"invalid_grant"}"#, Err(InvalidGrant)),
            (401, r#"{"error":"invalid_client"}"#, Err(InvalidClient)),
            (400, r#"{"error":"access_denied"}"#, Err(Denied)),
            (
                400,
                r#"{"error":"temporarily_unavailable"}"#,
                Err(Unavailable),
            ),
            (
                400,
                r#"{"error":{"code":"invalid_grant"}}"#,
                Err(InvalidGrant),
            ),
            (400, "nonsense", Err(Rejected)),
            (404, "", Err(Rejected)),
            (429, "", Err(Unavailable)),
            (500, r#"{"error":"internal"}"#, Err(Unavailable)),
            (502, "<html>", Err(Unavailable)),
            // The issuer says what is wrong, whatever the status.
            (500, r#"{"error":"invalid_grant"}"#, Err(InvalidGrant)),
        ];
        for (status, body, expected) in cases {
            let parsed = parse_response(status, body.as_bytes(), &[]);
            let parsed = parsed.map(|tokens| tokens.expires_in);
            assert_eq!(
                parsed.map_err(|error| error.kind()),
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn a_token_must_fit_into_a_header_and_into_the_vault() {
        for (token, expected) in [
            ("abc.DEF-1_2~3+4/5==", true),
            ("a|b:c", true),
            ("", false),
            ("a b", false),
            ("a\r\nx: y", false),
            ("é", false),
        ] {
            assert_eq!(is_sendable(&Secret::new(token)), expected, "{token:?}");
        }
        let body = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(MAX_RESPONSE));
        assert!(parse_response(200, body.as_bytes(), &[]).is_err());
    }

    #[test]
    fn errors_do_not_repeat_tokens() {
        let body = br#"{"access_token":{"value":"hunter2"},"scope":["x"]}"#;
        let error = parse_response(200, body, &[]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn odd_optional_members_lose_no_refresh_token() {
        let odd = [
            r#""scope":["p","q"]"#,
            r#""scope":"p","scope":"p q""#,
            r#""scope":"p q","id_token":1"#,
            r#""scope":"p q","token_type":{}"#,
            r#""scope":"p q","expires_in":[]"#,
            r#""scope":"p q","issued_token_type":false"#,
        ];
        for members in odd {
            let body =
                format!("\u{feff}{{\"access_token\":\"a\",\"refresh_token\":\"r\",{members}}}");
            let tokens = parse_response(200, body.as_bytes(), &[]).unwrap();
            assert_eq!(tokens.refresh_token, Some(Secret::new("r")), "{members}");
            assert_eq!(tokens.scope.as_deref(), Some("p q"), "{members}");
        }
    }

    #[test]
    fn the_parts_of_basic_authentication_are_encoded() {
        for (id, secret, expected) in [
            ("a:b", "p@ss wörd", "a%3Ab:p%40ss%20w%C3%B6rd"),
            ("my-client_1.x*", "s~+", "my-client_1.x*:s%7E%2B"),
        ] {
            let value = basic(id, secret).unwrap();
            let pair = STANDARD
                .decode(value.to_str().unwrap().strip_prefix("Basic ").unwrap())
                .unwrap();
            assert_eq!(String::from_utf8(pair).unwrap(), expected);
            assert!(value.is_sensitive());
        }
    }
}
