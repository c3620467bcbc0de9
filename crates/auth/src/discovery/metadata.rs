//! The metadata documents of protected resources and authorization servers, and their checks.

use serde::Deserialize;
use url::Url;

use super::urls;
use crate::error::{AuthError, AuthErrorKind, foreign};
use crate::flow::DPOP_ALGORITHM;
use crate::guard::{self, Reach};

/// The most authorization servers of a resource that are considered.
pub(super) const MAX_ISSUERS: usize = 8;

/// Metadata of a protected resource (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ProtectedResource {
    pub(crate) resource: Option<String>,
    #[serde(default)]
    pub(crate) authorization_servers: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) scopes_supported: Option<Vec<String>>,
    /// The resource accepts only tokens that are bound to a key.
    #[serde(default)]
    pub(crate) dpop_bound_access_tokens_required: Option<bool>,
}

impl ProtectedResource {
    /// Decodes and checks the metadata of the server at `server`.
    pub(super) fn parse(body: &[u8], server: &Url) -> Result<Self, AuthError> {
        let found: Self = decode(body)?;
        if let Some(resource) = &found.resource {
            guard::check_length(resource, "resource")?;
        }
        match &found.resource {
            Some(resource) if !urls::describes(resource, server) => {
                let text = format!(
                    "the protected-resource metadata is for {:?}, not for {}",
                    foreign(resource),
                    guard::shown(server)
                );
                Err(AuthError::new(AuthErrorKind::Refused, text))
            }
            _ => Ok(found),
        }
    }

    pub(crate) fn issuers(&self) -> &[String] {
        let issuers = self.authorization_servers.as_deref().unwrap_or_default();
        &issuers[..issuers.len().min(MAX_ISSUERS)]
    }
}

/// The document as it is served.
#[derive(Debug, Deserialize)]
struct RawServer {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    grant_types_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
    client_id_metadata_document_supported: Option<bool>,
    dpop_signing_alg_values_supported: Option<Vec<String>>,
}

/// Checked metadata of an authorization server (RFC 8414): every endpoint may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<Url>,
    pub(crate) token_endpoint: Url,
    pub(crate) registration_endpoint: Option<Url>,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) device_authorization_endpoint: Option<Url>,
    pub(crate) scopes: Vec<String>,
    pub(crate) grant_types: Option<Vec<String>>,
    pub(crate) pkce: Pkce,
    pub(crate) auth_methods: Option<Vec<String>>,
    /// The server adds `iss` to its redirects (RFC 9207).
    pub(crate) sends_issuer: bool,
    pub(crate) accepts_client_metadata_url: bool,
    /// The server binds tokens to keys like ours (RFC 9449).
    pub(crate) binds_tokens: bool,
}

/// Whether an authorization server supports PKCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pkce {
    /// It supports S256.
    S256,
    /// Its metadata does not say so, so it does not.
    Unsupported,
    /// It has no metadata, and the specification of 2025-03-26 requires it.
    Assumed,
}

impl AuthorizationServer {
    /// Decodes and checks the metadata that was fetched for `issuer`; `None` accepts any issuer,
    /// for a metadata URL from the settings.
    pub(super) fn parse(
        body: &[u8],
        issuer: Option<&str>,
        reach: Reach,
    ) -> Result<Self, AuthError> {
        let invalid = |text: String| AuthError::new(AuthErrorKind::Metadata, text);
        let raw: RawServer = decode(body)?;
        let Some(named) = raw.issuer else {
            return Err(invalid(
                "the metadata of the authorization server names no issuer".to_owned(),
            ));
        };
        guard::check_length(&named, "issuer")?;
        if let Some(issuer) = issuer
            && !is_same_issuer(issuer, &named)
        {
            let text = format!(
                "the metadata of {:?} claims to be that of {:?}",
                foreign(issuer),
                foreign(&named)
            );
            return Err(AuthError::new(AuthErrorKind::Refused, text));
        }
        let url = |url: Option<String>, what: &str| {
            url.map(|url| guard::parse_url(&url, what, reach))
                .transpose()
        };
        let token_endpoint = url(raw.token_endpoint, "token endpoint")?;
        let methods = raw.code_challenge_methods_supported.unwrap_or_default();
        let pkce = if methods.iter().any(|method| method == "S256") {
            Pkce::S256
        } else {
            Pkce::Unsupported
        };
        Ok(Self {
            issuer: named,
            authorization_endpoint: url(raw.authorization_endpoint, "authorization endpoint")?,
            token_endpoint: token_endpoint.ok_or_else(|| {
                invalid("the authorization server has no token endpoint".to_owned())
            })?,
            registration_endpoint: url(raw.registration_endpoint, "registration endpoint")?,
            revocation_endpoint: url(raw.revocation_endpoint, "revocation endpoint")?,
            device_authorization_endpoint: url(
                raw.device_authorization_endpoint,
                "device authorization endpoint",
            )?,
            scopes: raw.scopes_supported.unwrap_or_default(),
            grant_types: raw.grant_types_supported,
            pkce,
            auth_methods: raw.token_endpoint_auth_methods_supported,
            sends_issuer: raw
                .authorization_response_iss_parameter_supported
                .unwrap_or(false),
            accepts_client_metadata_url: raw.client_id_metadata_document_supported.unwrap_or(false),
            binds_tokens: raw
                .dpop_signing_alg_values_supported
                .is_some_and(|algorithms| algorithms.iter().any(|name| name == DPOP_ALGORITHM)),
        })
    }

    /// The default endpoints at the origin of a server without metadata (MCP 2025-03-26).
    pub(super) fn default_at(server: &Url) -> Self {
        let at = |path| urls::with_path(server, path);
        Self {
            issuer: at("").as_str().trim_end_matches('/').to_owned(),
            authorization_endpoint: Some(at("/authorize")),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            revocation_endpoint: None,
            device_authorization_endpoint: None,
            scopes: Vec::new(),
            grant_types: None,
            pkce: Pkce::Assumed,
            auth_methods: None,
            sends_issuer: false,
            accepts_client_metadata_url: false,
            binds_tokens: false,
        }
    }

    /// Whether the server says that it signs in programs and not users. Lists without
    /// `authorization_code` alone do not count, because many are incomplete.
    pub(crate) fn is_for_programs(&self) -> bool {
        let lists = |grant_type| self.grant_types.is_some() && self.offers(grant_type);
        lists("client_credentials") && !self.offers("authorization_code")
    }

    /// Whether the server offers a grant. A server that lists none has the default grants.
    pub(crate) fn offers(&self, grant_type: &str) -> bool {
        match &self.grant_types {
            Some(types) => types.iter().any(|offered| offered == grant_type),
            None => true,
        }
    }
}

/// Compares issuers as text, except that an empty path equals `/`: frameworks that normalise URLs
/// add the slash, and RFC 3986 calls both the same resource.
pub(crate) fn is_same_issuer(one: &str, other: &str) -> bool {
    let bare = |issuer: &str| -> Option<String> {
        let root = issuer.strip_suffix('/')?;
        let host = root.split_once("://")?.1;
        (!host.contains(['/', '?', '#'])).then(|| root.to_owned())
    };
    one == other || bare(one).as_deref() == Some(other) || bare(other).as_deref() == Some(one)
}

fn decode<T: for<'d> Deserialize<'d>>(body: &[u8]) -> Result<T, AuthError> {
    serde_json::from_slice(body).map_err(|error| {
        // The message of `serde_json` may quote the document.
        let text = format!(
            "the metadata is invalid at line {}, column {}",
            error.line(),
            error.column()
        );
        AuthError::new(AuthErrorKind::Metadata, text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(document: &serde_json::Value, issuer: &str) -> Result<AuthorizationServer, AuthError> {
        let body = document.to_string();
        AuthorizationServer::parse(body.as_bytes(), Some(issuer), Reach::Public)
    }

    #[test]
    fn metadata_of_an_authorization_server_is_checked() {
        use AuthErrorKind::{Metadata, Refused};
        let good = json!({
            "issuer": "https://as.example",
            "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        assert_eq!(parse(&good, "https://as.example").unwrap().pkce, Pkce::S256);
        let cases = [
            ("issuer", json!(null), Metadata),
            ("issuer", json!("https://evil.example"), Refused),
            ("issuer", json!("https://as.example/tenant"), Refused),
            ("issuer", json!("https://AS.example"), Refused),
            ("issuer", json!("https://as.exam\tple"), Metadata),
            (
                "revocation_endpoint",
                json!(format!("https://as.example/{}", "é".repeat(1000))),
                Metadata,
            ),
            ("token_endpoint", json!(null), Metadata),
            ("token_endpoint", json!("http://as.example/token"), Refused),
            ("token_endpoint", json!("https://127.0.0.1/token"), Refused),
            ("token_endpoint", json!("/token"), Metadata),
            (
                "authorization_endpoint",
                json!("javascript:alert(1)"),
                Refused,
            ),
            (
                "authorization_endpoint",
                json!("file:///etc/passwd"),
                Refused,
            ),
            (
                "registration_endpoint",
                json!("https://169.254.169.254/"),
                Refused,
            ),
            ("revocation_endpoint", json!("https://10.0.0.1/"), Refused),
            (
                "device_authorization_endpoint",
                json!("https://[fe80::1]/"),
                Refused,
            ),
            ("scopes_supported", json!("a b"), Metadata),
        ];
        for (member, value, kind) in cases {
            let mut document = good.clone();
            document[member] = value.clone();
            let error = parse(&document, "https://as.example").unwrap_err();
            assert_eq!(error.kind(), kind, "{member}: {value}: {error}");
        }
        let mut document = good;
        document["code_challenge_methods_supported"] = json!(["plain"]);
        let found = parse(&document, "https://as.example").unwrap();
        assert_eq!(found.pkce, Pkce::Unsupported);
    }

    #[test]
    fn only_explicit_metadata_rules_users_out() {
        let server = "https://as.example".parse().unwrap();
        let cases: [(Option<&[&str]>, bool); 5] = [
            (None, false),
            (Some(&[]), false),
            (Some(&["refresh_token"]), false),
            (Some(&["client_credentials"]), true),
            (Some(&["client_credentials", "authorization_code"]), false),
        ];
        for (grant_types, expected) in cases {
            let issuer = AuthorizationServer {
                grant_types: grant_types
                    .map(|types| types.iter().map(|&name| name.to_owned()).collect()),
                ..AuthorizationServer::default_at(&server)
            };
            assert_eq!(issuer.is_for_programs(), expected, "{grant_types:?}");
        }
    }

    #[test]
    fn issuers_are_compared_as_text_except_for_an_empty_path() {
        let cases = [
            ("https://a.example", "https://a.example", true),
            ("https://a.example", "https://a.example/", true),
            ("https://a.example/", "https://a.example", true),
            ("https://a.example/t", "https://a.example/t/", false),
            ("https://a.example", "https://A.example", false),
            ("https://a.example", "https://a.example:443", false),
            ("https://a.example//", "https://a.example/", false),
            ("", "/", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(is_same_issuer(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn metadata_of_another_resource_is_refused() {
        let server = "https://a.example/mcp".parse().unwrap();
        let check = |document: serde_json::Value| {
            ProtectedResource::parse(document.to_string().as_bytes(), &server).map_err(|e| e.kind())
        };
        assert!(check(json!({"resource": "https://a.example/mcp"})).is_ok());
        assert!(check(json!({})).is_ok());
        assert_eq!(
            check(json!({"resource": "https://evil.example/mcp"})).unwrap_err(),
            AuthErrorKind::Refused
        );
        assert_eq!(check(json!([])).unwrap_err(), AuthErrorKind::Metadata);
        assert_eq!(
            check(json!({"authorization_servers": "x"})).unwrap_err(),
            AuthErrorKind::Metadata
        );
    }
}
