//! The schema of a stored sign-in.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::Secret;
use crate::discovery::AuthorizationServer;
use crate::error::{AuthError, AuthErrorKind};
use crate::flow::{DpopKey, TokenResponse};
use crate::registration::Client;
use crate::scopes::usable;

/// The version of the schema.
const VERSION: u32 = 1;

/// The largest record, in bytes: a server must not fill the vault, where other servers have theirs.
const MAX_RECORD: usize = 320 * 1024;

/// The sign-in of one account at one server. Everything in it belongs to one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    version: u32,
    pub(crate) server: String,
    pub(crate) url: String,
    pub(crate) account: String,
    pub(crate) issuer: String,
    /// The `resource` parameter of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    pub(crate) endpoints: Endpoints,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Tokens>,
    /// All scopes requested so far (AUTH-6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) requested_scopes: Vec<String>,
    /// The scopes that requests lacked since the sign-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_scopes: Vec<String>,
    /// When the sign-in happened, in seconds since 1970. A refresh does not change it.
    #[serde(default)]
    pub(crate) signed_in_at: u64,
}

/// The endpoints that are used after the sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    #[serde(with = "url_text")]
    pub(crate) token: Url,
    #[serde(
        with = "url_text::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) revocation: Option<Url>,
}

impl From<&AuthorizationServer> for Endpoints {
    fn from(issuer: &AuthorizationServer) -> Self {
        Self {
            token: issuer.token_endpoint.clone(),
            revocation: issuer.revocation_endpoint.clone(),
        }
    }
}

/// Tokens. Times are in seconds since 1970, by the clock of this machine: an issuer's clock never
/// matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tokens {
    #[serde(with = "exposed")]
    pub(crate) access: Secret,
    #[serde(
        with = "exposed::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) refresh: Option<Secret>,
    #[serde(
        with = "exposed::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) id: Option<Secret>,
    /// The key that the access token is bound to.
    #[serde(
        with = "exposed::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) dpop_key: Option<Secret>,
    /// The key of the proof in the request that issued the refresh token, which may be bound to it
    /// even if the access token is not (RFC 9449, section 5).
    #[serde(
        with = "exposed::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) refresh_key: Option<Secret>,
    pub(crate) obtained_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    /// The granted scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scopes: Vec<String>,
}

impl Tokens {
    /// Creates tokens from the response to a request with a proof of `dpop`, if any. Without new
    /// ones, the refresh token, the ID token and the scopes of the predecessor stay.
    pub(crate) fn from_response(
        response: TokenResponse,
        requested_scopes: &[String],
        previous: Option<&Self>,
        dpop: Option<&DpopKey>,
        now: u64,
    ) -> Self {
        let refresh_key = dpop.map(|key| key.secret().clone());
        let dpop = dpop.filter(|_| response.is_bound());
        let scopes = match (&response.scope, previous) {
            (Some(scope), _) => usable(scope.split_whitespace()),
            (None, Some(previous)) => previous.scopes.clone(),
            (None, None) => requested_scopes.to_vec(),
        };
        let refresh = response
            .refresh_token
            .filter(|token| !token.expose().is_empty());
        Self {
            access: response.access_token,
            refresh: refresh.or_else(|| previous.and_then(|previous| previous.refresh.clone())),
            id: response
                .id_token
                .or_else(|| previous.and_then(|previous| previous.id.clone())),
            dpop_key: dpop.map(|key| key.secret().clone()),
            refresh_key,
            obtained_at: now,
            expires_at: response
                .expires_in
                .map(|seconds| now.saturating_add(seconds)),
            scopes,
        }
    }
}

impl Record {
    pub(crate) fn new(
        server: &str,
        url: &str,
        account: &str,
        issuer: &AuthorizationServer,
        resource: Option<String>,
    ) -> Self {
        Self {
            version: VERSION,
            server: server.to_owned(),
            url: url.to_owned(),
            account: account.to_owned(),
            issuer: issuer.issuer.clone(),
            resource,
            endpoints: Endpoints::from(issuer),
            client: None,
            tokens: None,
            requested_scopes: Vec::new(),
            missing_scopes: Vec::new(),
            signed_in_at: 0,
        }
    }

    pub(crate) fn parse(text: &Secret) -> Result<Self, AuthError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let invalid = |text: &str| AuthError::new(AuthErrorKind::Storage, text);
        // The message of `serde_json` may quote a token.
        let version: Version = serde_json::from_str(text.expose())
            .map_err(|_| invalid("the stored sign-in is unreadable; sign in again"))?;
        if version.version > VERSION {
            return Err(invalid(
                "a newer version of this program stored the sign-in; update, or sign in again",
            ));
        }
        serde_json::from_str(text.expose())
            .map_err(|_| invalid("the stored sign-in is unreadable; sign in again"))
    }

    pub(crate) fn to_secret(&self) -> Result<Secret, AuthError> {
        let failed = |text: &str| AuthError::new(AuthErrorKind::Storage, text);
        let text = serde_json::to_string(self).map(Secret::new);
        let text = text.map_err(|_| failed("the sign-in cannot be stored"))?;
        if text.expose().len() > MAX_RECORD {
            return Err(failed("the sign-in is too large to be stored"));
        }
        Ok(text)
    }
}

/// Serializes the text of secrets, for the vault alone.
pub(crate) mod exposed {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Secret, D::Error> {
        Secret::deserialize(from)
    }

    pub(crate) mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        use crate::Secret;

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(crate) fn serialize<S: Serializer>(
            secret: &Option<Secret>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match secret {
                Some(secret) => to.serialize_some(secret.expose()),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
            from: D,
        ) -> Result<Option<Secret>, D::Error> {
            Option::<Secret>::deserialize(from)
        }
    }
}

/// Serializes URLs as text.
mod url_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use url::Url;

    pub(super) fn serialize<S: Serializer>(url: &Url, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(url.as_str())
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Url, D::Error> {
        let text = String::deserialize(from)?;
        Url::parse(&text).map_err(D::Error::custom)
    }

    pub(super) mod option {
        use serde::{Deserialize, Deserializer, Serializer, de::Error};
        use url::Url;

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(crate) fn serialize<S: Serializer>(
            url: &Option<Url>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match url {
                Some(url) => to.serialize_some(url.as_str()),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
            from: D,
        ) -> Result<Option<Url>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            let url = text.as_deref().map(Url::parse).transpose();
            url.map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::test_issuer;
    use crate::registration::{AuthMethod, ClientSource};

    fn decode(json: &str) -> TokenResponse {
        TokenResponse::decode(&serde_json::from_str(json).unwrap()).unwrap()
    }

    fn record() -> Record {
        let issuer = test_issuer(&"https://as.example".parse().unwrap());
        let mut record = Record::new("a", "https://a.example/mcp", "work", &issuer, None);
        record.client = Some(Client {
            id: "id".to_owned(),
            secret: Some(Secret::new("s3cret")),
            secret_expires_at: Some(7),
            auth_method: AuthMethod::ClientSecretPost,
            source: ClientSource::Dynamic,
            redirect_uri: Some("http://127.0.0.1:1/callback".to_owned()),
        });
        record.tokens = Some(Tokens {
            access: Secret::new("acc"),
            refresh: Some(Secret::new("ref")),
            id: None,
            dpop_key: Some(Secret::new("k3y")),
            refresh_key: None,
            obtained_at: 1,
            expires_at: Some(2),
            scopes: vec!["x".to_owned()],
        });
        record.requested_scopes = vec!["x".to_owned(), "y".to_owned()];
        record
    }

    #[test]
    fn a_record_survives_its_text() {
        let record = record();
        let text = record.to_secret().unwrap();
        assert_eq!(Record::parse(&text).unwrap(), record);
        // Nothing else prints it.
        let printed = format!("{record:?} {text:?}");
        assert!(
            !printed.contains("s3cret") && !printed.contains("acc\"") && !printed.contains("k3y"),
            "{printed}"
        );
    }

    #[test]
    fn unreadable_records_are_errors_without_their_contents() {
        let newer = record().to_secret().unwrap();
        let newer = newer.expose().replace("\"version\":1", "\"version\":2");
        for (text, expected) in [
            ("hunter2", "unreadable"),
            (r#"{"version":1,"server":"hunter2"}"#, "unreadable"),
            (newer.as_str(), "newer version"),
        ] {
            let error = Record::parse(&Secret::new(text)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_response_without_a_refresh_token_keeps_the_old_one() {
        let previous = record().tokens;
        let response = |json: &str| decode(json);
        let bare = response(r#"{"access_token":"new","expires_in":60}"#);
        let tokens = Tokens::from_response(bare, &[], previous.as_ref(), None, 100);
        assert_eq!(tokens.refresh, Some(Secret::new("ref")));
        assert_eq!(tokens.scopes, ["x"]);
        assert_eq!((tokens.obtained_at, tokens.expires_at), (100, Some(160)));
        let full = response(r#"{"access_token":"n","refresh_token":"r2","scope":"p q"}"#);
        let tokens = Tokens::from_response(full, &[], previous.as_ref(), None, 100);
        assert_eq!(tokens.refresh, Some(Secret::new("r2")));
        assert_eq!(tokens.scopes, ["p", "q"]);
        assert_eq!(tokens.expires_at, None);
    }

    #[test]
    fn only_a_bound_token_keeps_the_key() {
        let key = DpopKey::generate().unwrap();
        for (token_type, expected) in [("DPoP", Some(key.secret().clone())), ("Bearer", None)] {
            let json = format!(r#"{{"access_token":"a","token_type":"{token_type}"}}"#);
            let response = decode(&json);
            let tokens = Tokens::from_response(response, &[], None, Some(&key), 100);
            assert_eq!(tokens.dpop_key, expected, "{token_type}");
            // The refresh token may be bound in any case.
            assert_eq!(tokens.refresh_key.as_ref(), Some(key.secret()));
        }
    }
}
