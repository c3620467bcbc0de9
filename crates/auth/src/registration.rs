//! How this client is known to an authorization server: by a pre-registered id, by the URL of its
//! metadata document, or by dynamic registration, in that order (AUTH-1).

use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::Secret;
use crate::discovery::AuthorizationServer;
use crate::error::{AuthError, AuthErrorKind};
use crate::flow::oauth_error;
use crate::http::Requester;
use crate::tokens::exposed;

/// The name that users see on consent pages.
const CLIENT_NAME: &str = "Trunkline";

/// The longest id or secret of a client, in bytes. Both are stored.
const MAX_CREDENTIAL: usize = 8 * 1024;

/// How the client was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ClientSource {
    /// By the user, in the settings.
    Preregistered,
    /// By the URL of a Client ID Metadata Document.
    MetadataDocument,
    /// By us (RFC 7591).
    Dynamic,
}

/// How the client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// A client, as one issuer knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Client {
    pub(crate) id: String,
    #[serde(
        with = "exposed::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_expires_at: Option<u64>,
    pub(crate) auth_method: AuthMethod,
    pub(crate) source: ClientSource,
    /// The redirect URI that was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redirect_uri: Option<String>,
}

impl Client {
    /// Creates a pre-registered client.
    pub(crate) fn preregistered(
        id: String,
        secret: Option<Secret>,
        issuer: &AuthorizationServer,
    ) -> Self {
        Self {
            id,
            auth_method: choose_auth_method(secret.is_some(), None, issuer.auth_methods.as_deref()),
            secret,
            secret_expires_at: None,
            source: ClientSource::Preregistered,
            redirect_uri: None,
        }
    }

    /// Creates a pre-registered client that authenticates with a private key.
    pub(crate) fn with_key(id: String) -> Self {
        Self {
            id,
            auth_method: AuthMethod::PrivateKeyJwt,
            secret: None,
            secret_expires_at: None,
            source: ClientSource::Preregistered,
            redirect_uri: None,
        }
    }

    /// Whether the issuer still knows the client, by what it told us.
    pub(crate) fn is_valid_at(&self, now: u64) -> bool {
        self.secret_expires_at.is_none_or(|expires| now < expires)
    }
}

/// The way to become a client of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RegistrationPlan {
    /// Use this id from the settings.
    Preregistered(String),
    /// Use the URL of our metadata document as the id.
    MetadataDocument(Url),
    /// Register at this endpoint.
    Dynamic(Url),
}

/// Chooses the way to become a client of an issuer. An id from the settings that is the URL of a
/// metadata document is used as such where the issuer accepts one, and as a pre-registered id
/// elsewhere.
pub(crate) fn plan(
    configured_id: Option<&str>,
    metadata_document: Option<&Url>,
    issuer: &AuthorizationServer,
) -> Result<RegistrationPlan, AuthError> {
    if let Some(id) = configured_id {
        return Ok(match document_url(id) {
            Some(url) if issuer.accepts_client_metadata_url => {
                RegistrationPlan::MetadataDocument(url)
            }
            _ => RegistrationPlan::Preregistered(id.to_owned()),
        });
    }
    match (metadata_document, &issuer.registration_endpoint) {
        (Some(url), _) if issuer.accepts_client_metadata_url => {
            Ok(RegistrationPlan::MetadataDocument(url.clone()))
        }
        (_, Some(endpoint)) => Ok(RegistrationPlan::Dynamic(endpoint.clone())),
        _ => Err(AuthError::new(
            AuthErrorKind::Registration,
            "the authorization server does not register clients, and no `oauth.clientId` is set",
        )),
    }
}

/// The URL of a Client ID Metadata Document that a client id is: https, with a path, and in the
/// spelling that the issuer will compare with the document.
fn document_url(id: &str) -> Option<Url> {
    let url = Url::parse(id).ok()?;
    let is_plain = url.fragment().is_none() && url.username().is_empty();
    let is_document = url.scheme() == "https" && url.path() != "/" && url.as_str() == id;
    (is_document && is_plain && url.password().is_none()).then_some(url)
}

/// Chooses how to authenticate: as the registration response says, or else by what the issuer
/// supports. Without a list, the default is `client_secret_basic` (RFC 8414).
pub(crate) fn choose_auth_method(
    has_secret: bool,
    granted: Option<&str>,
    supported: Option<&[String]>,
) -> AuthMethod {
    let supports = |method: &str| {
        supported.map_or(method == "client_secret_basic", |list| {
            list.iter().any(|supported| supported == method)
        })
    };
    match granted {
        _ if !has_secret => AuthMethod::None,
        Some("none") => AuthMethod::None,
        Some("client_secret_basic") => AuthMethod::ClientSecretBasic,
        Some("client_secret_post") => AuthMethod::ClientSecretPost,
        _ if supports("client_secret_basic") => AuthMethod::ClientSecretBasic,
        _ if supports("client_secret_post") => AuthMethod::ClientSecretPost,
        _ => AuthMethod::ClientSecretBasic,
    }
}

/// The authentication method to register with: none where possible, because a program on the
/// user's machine keeps no secret from its user. `client_secret_post` comes before
/// `client_secret_basic`, with which a client cannot revoke tokens at servers of the Python SDK.
fn requested_auth_method(supported: Option<&[String]>) -> &'static str {
    let supported = supported.unwrap_or_default();
    let has = |method: &str| supported.iter().any(|supported| supported == method);
    if supported.is_empty() || has("none") {
        "none"
    } else if has("client_secret_post") {
        "client_secret_post"
    } else if has("client_secret_basic") {
        "client_secret_basic"
    } else {
        "none"
    }
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: Option<String>,
    client_secret: Option<Secret>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers the client (RFC 7591).
pub(crate) async fn register(
    http: &Requester,
    endpoint: &Url,
    issuer: &AuthorizationServer,
    redirect_uri: Option<&str>,
    scopes: &[String],
) -> Result<Client, AuthError> {
    // Without a redirect URI the code grant must not be requested: OpenID providers reject that.
    let mut grant_types = vec!["refresh_token"];
    if redirect_uri.is_some() {
        grant_types.push("authorization_code");
    }
    if issuer.device_authorization_endpoint.is_some() {
        grant_types.push(crate::flow::DEVICE_GRANT);
    }
    let response_types: &[&str] = match redirect_uri {
        Some(_) => &["code"],
        None => &[],
    };
    let mut request = json!({
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "redirect_uris": redirect_uri.into_iter().collect::<Vec<_>>(),
        "grant_types": grant_types,
        "response_types": response_types,
        "token_endpoint_auth_method": requested_auth_method(issuer.auth_methods.as_deref()),
    });
    if !scopes.is_empty() {
        request["scope"] = scopes.join(" ").into();
    }
    let response = http.post_json(endpoint, &request).await?;
    let failed = |text: &str| AuthError::new(AuthErrorKind::Registration, text);
    let parsed: Option<RegistrationResponse> = serde_json::from_slice(&response.body).ok();
    let parsed = match parsed {
        Some(parsed) if (200..300).contains(&response.status) => parsed,
        _ => {
            let error = oauth_error(response.status, &response.body, &[]);
            let error = if error.is_retryable() {
                error
            } else {
                error.with_kind(AuthErrorKind::Registration)
            };
            return Err(error.context("the client could not be registered"));
        }
    };
    let secret = parsed.client_secret.as_ref().map(Secret::expose);
    let longest = parsed.client_id.as_deref().into_iter().chain(secret);
    if longest.map(str::len).max() > Some(MAX_CREDENTIAL) {
        return Err(failed(
            "the authorization server registered us with an id or secret that is too long",
        ));
    }
    let id = parsed.client_id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| failed("the authorization server registered us without an id"))?;
    let secret = parsed
        .client_secret
        .filter(|secret| !secret.expose().is_empty());
    Ok(Client {
        id,
        auth_method: choose_auth_method(
            secret.is_some(),
            parsed.token_endpoint_auth_method.as_deref(),
            issuer.auth_methods.as_deref(),
        ),
        // 0 means that the secret does not expire.
        secret_expires_at: parsed
            .client_secret_expires_at
            .filter(|expires| *expires != 0 && secret.is_some()),
        secret,
        source: ClientSource::Dynamic,
        redirect_uri: redirect_uri.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_way_to_register_is_chosen_in_order() {
        let server: Url = "https://a.example".parse().unwrap();
        let document: Url = "https://trunkline.example/client.json".parse().unwrap();
        let mut issuer = crate::discovery::AuthorizationServer {
            accepts_client_metadata_url: true,
            ..crate::discovery::test_issuer(&server)
        };
        let endpoint = issuer.registration_endpoint.clone().unwrap();
        let document_plan = RegistrationPlan::MetadataDocument(document.clone());
        assert_eq!(
            plan(Some("id"), Some(&document), &issuer).unwrap(),
            RegistrationPlan::Preregistered("id".to_owned())
        );
        assert_eq!(plan(None, Some(&document), &issuer).unwrap(), document_plan);
        // Where both are set, the user's document comes before the program's.
        let theirs = "https://me.example/client.json";
        assert_eq!(
            plan(Some(theirs), Some(&document), &issuer).unwrap(),
            RegistrationPlan::MetadataDocument(theirs.parse().unwrap())
        );
        for id in [
            "http://me.example/client.json",
            "https://me.example/",
            "https://me.example/c#f",
            "https://u@me.example/c",
            "https://ME.example/c",
        ] {
            let expected = RegistrationPlan::Preregistered(id.to_owned());
            assert_eq!(plan(Some(id), None, &issuer).unwrap(), expected);
        }
        assert_eq!(
            plan(None, None, &issuer).unwrap(),
            RegistrationPlan::Dynamic(endpoint.clone())
        );
        issuer.accepts_client_metadata_url = false;
        assert_eq!(
            plan(Some(theirs), None, &issuer).unwrap(),
            RegistrationPlan::Preregistered(theirs.to_owned())
        );
        assert_eq!(
            plan(None, Some(&document), &issuer).unwrap(),
            RegistrationPlan::Dynamic(endpoint)
        );
        issuer.registration_endpoint = None;
        let error = plan(None, Some(&document), &issuer).unwrap_err();
        assert!(error.to_string().contains("oauth.clientId"), "{error}");
    }

    #[test]
    fn the_authentication_method_is_chosen() {
        use AuthMethod::{ClientSecretBasic as Basic, ClientSecretPost as Post, None as No};
        let cases = [
            (false, None, None, No),
            (false, Some("client_secret_basic"), None, No),
            (true, None, None, Basic),
            (
                true,
                Some("client_secret_post"),
                Some("client_secret_basic"),
                Post,
            ),
            (true, None, Some("client_secret_post"), Post),
            (
                true,
                None,
                Some("client_secret_post client_secret_basic"),
                Basic,
            ),
            (true, Some("none"), None, No),
            (true, Some("unknown"), Some("none"), Basic),
        ];
        for (has_secret, granted, supported, expected) in cases {
            let supported = supported.map(list);
            let chosen = choose_auth_method(has_secret, granted, supported.as_deref());
            assert_eq!(chosen, expected, "{has_secret} {granted:?} {supported:?}");
        }
    }

    #[test]
    fn a_client_without_a_secret_is_preferred() {
        for (supported, expected) in [
            (None, "none"),
            (Some("client_secret_post none"), "none"),
            (
                Some("client_secret_basic client_secret_post"),
                "client_secret_post",
            ),
            (Some("client_secret_basic"), "client_secret_basic"),
            (Some("client_secret_post"), "client_secret_post"),
            (Some("private_key_jwt"), "none"),
        ] {
            let supported = supported.map(list);
            assert_eq!(requested_auth_method(supported.as_deref()), expected);
        }
    }
}
