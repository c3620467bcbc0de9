//! Finds the authorization server of an MCP server (AUTH-1).
//!
//! The protected-resource metadata names the issuers; the metadata of the first usable one names
//! its endpoints. Servers of MCP 2025-03-26 have no resource metadata: their own origin is the
//! issuer, with default endpoints if it has no metadata either.

mod metadata;
pub(crate) mod urls;

use url::Url;

pub(crate) use metadata::{AuthorizationServer, Pkce, ProtectedResource, is_same_issuer};

use crate::challenge::Challenge;
use crate::error::{AuthError, AuthErrorKind};
use crate::guard;
use crate::http::Requester;
use crate::scopes::usable;

/// A server and its authorization server.
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    /// The `resource` parameter of requests (RFC 8707); none for an identity provider.
    pub(crate) resource: Option<String>,
    /// `scopes_supported` of the resource.
    pub(crate) resource_scopes: Vec<String>,
    /// Whether the resource wants tokens that are bound to a key.
    pub(crate) wants_dpop: bool,
    pub(crate) issuer: AuthorizationServer,
}

#[cfg(test)]
pub(crate) fn test_issuer(server: &Url) -> AuthorizationServer {
    AuthorizationServer::default_at(server)
}

/// What a probe of a well-known URL found.
enum Probe<T> {
    Found(T),
    /// There is no such document. An HTML page with status 200 counts as none.
    Absent,
    /// The server failed, so the document may exist.
    Failed(AuthError),
    /// The document exists and must not be used.
    Invalid(AuthError),
}

/// Finds the authorization server of `server`.
pub(crate) async fn discover(
    http: &Requester,
    server: &Url,
    challenge: Option<&Challenge>,
    metadata_url: Option<&Url>,
) -> Result<Discovery, AuthError> {
    let resource = protected_resource(http, server, challenge).await;
    if let Some(metadata_url) = metadata_url {
        // The settings name the issuer, so the resource metadata only adds details.
        let issuer = fetch_issuer(http, metadata_url, None).await;
        let issuer = issuer.into_result(metadata_url)?;
        check_origin(&issuer, metadata_url)?;
        return Ok(assemble(server, challenge, resource.ok().flatten(), issuer));
    }
    let resource = resource?;
    let Some(found) = resource
        .as_ref()
        .filter(|found| !found.issuers().is_empty())
    else {
        let issuer = legacy_issuer(http, server).await?;
        return Ok(assemble(server, challenge, resource, issuer));
    };
    let mut first_error = None;
    for issuer in found.issuers() {
        match issuer_metadata(http, issuer).await {
            Ok(issuer) => return Ok(assemble(server, challenge, resource, issuer)),
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    Err(first_error.unwrap_or_else(|| {
        AuthError::new(
            AuthErrorKind::Metadata,
            "the server names no authorization server",
        )
    }))
}

/// Checks that metadata from a URL of the settings speaks for its own issuer: otherwise whoever
/// wrote the entry could take over the sign-in at another one.
fn check_origin(issuer: &AuthorizationServer, metadata_url: &Url) -> Result<(), AuthError> {
    let claimed = Url::parse(&issuer.issuer).ok();
    if claimed.is_some_and(|claimed| claimed.origin() == metadata_url.origin()) {
        return Ok(());
    }
    let text = format!(
        "the metadata at {} claims to be that of {:?}, which is another site",
        guard::shown(metadata_url),
        crate::error::foreign(&issuer.issuer)
    );
    Err(AuthError::new(AuthErrorKind::Refused, text))
}

fn assemble(
    server: &Url,
    challenge: Option<&Challenge>,
    resource: Option<ProtectedResource>,
    issuer: AuthorizationServer,
) -> Discovery {
    let resource = resource.unwrap_or_default();
    Discovery {
        resource: resource
            .resource
            .or_else(|| Some(urls::canonical_resource(server))),
        resource_scopes: usable(
            resource
                .scopes_supported
                .iter()
                .flatten()
                .map(String::as_str),
        ),
        wants_dpop: resource.dpop_bound_access_tokens_required.unwrap_or(false)
            || challenge.is_some_and(|challenge| challenge.accepts_dpop),
        issuer,
    }
}

/// Fetches the protected-resource metadata: from the URL of the challenge, or else from the
/// well-known URLs. `None` if the server has none.
pub(crate) async fn protected_resource(
    http: &Requester,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<ProtectedResource>, AuthError> {
    let named = challenge.and_then(|challenge| challenge.resource_metadata.as_deref());
    let (candidates, is_named) = match named {
        Some(url) => {
            let url = Url::parse(url).map_err(|_| {
                let text = "the challenge of the server names an invalid metadata URL";
                AuthError::new(AuthErrorKind::Metadata, text)
            })?;
            (vec![url], true)
        }
        None => (urls::protected_resource(server), false),
    };
    let mut failure = None;
    for url in &candidates {
        match probe(http, url, |body| ProtectedResource::parse(body, server)).await {
            Probe::Found(found) => return Ok(Some(found)),
            Probe::Invalid(error) => return Err(error),
            Probe::Failed(error) => _ = failure.get_or_insert(error),
            Probe::Absent if is_named => {
                let url = guard::shown(url);
                let text = format!("there is no protected-resource metadata at {url}");
                return Err(AuthError::new(AuthErrorKind::Metadata, text));
            }
            Probe::Absent => {}
        }
    }
    failure.map_or(Ok(None), Err)
}

/// Fetches the metadata of an issuer from its well-known URLs.
pub(crate) async fn issuer_metadata(
    http: &Requester,
    issuer: &str,
) -> Result<AuthorizationServer, AuthError> {
    let url = guard::parse_url(issuer, "issuer", http.reach())?;
    let found = probe_issuer(http, &url, issuer).await?;
    found.ok_or_else(|| {
        let url = guard::shown(&url);
        let text = format!("{url} has no metadata of an authorization server");
        AuthError::new(AuthErrorKind::Metadata, text)
    })
}

async fn probe_issuer(
    http: &Requester,
    url: &Url,
    issuer: &str,
) -> Result<Option<AuthorizationServer>, AuthError> {
    let mut failure = None;
    for candidate in urls::authorization_server(url) {
        match fetch_issuer(http, &candidate, Some(issuer)).await {
            Probe::Found(found) => return Ok(Some(found)),
            Probe::Invalid(error) => return Err(error),
            Probe::Failed(error) => _ = failure.get_or_insert(error),
            Probe::Absent => {}
        }
    }
    failure.map_or(Ok(None), Err)
}

async fn legacy_issuer(http: &Requester, server: &Url) -> Result<AuthorizationServer, AuthError> {
    let origin = urls::with_path(server, "");
    let issuer = origin.as_str().trim_end_matches('/').to_owned();
    let found = probe_issuer(http, &origin, &issuer).await?;
    Ok(found.unwrap_or_else(|| AuthorizationServer::default_at(server)))
}

async fn fetch_issuer(
    http: &Requester,
    url: &Url,
    issuer: Option<&str>,
) -> Probe<AuthorizationServer> {
    let reach = http.reach();
    probe(http, url, |body| {
        AuthorizationServer::parse(body, issuer, reach)
    })
    .await
}

async fn probe<T>(
    http: &Requester,
    url: &Url,
    parse: impl Fn(&[u8]) -> Result<T, AuthError>,
) -> Probe<T> {
    let response = match http.get(url).await {
        Ok(response) => response,
        Err(error) if error.is_retryable() => return Probe::Failed(error),
        Err(error) => return Probe::Invalid(error),
    };
    match response.status {
        200..=299 if is_json(&response.body) => match parse(&response.body) {
            Ok(found) => Probe::Found(found),
            Err(error) => Probe::Invalid(error.context(&guard::shown(url))),
        },
        429 | 500..=599 => {
            let text = format!(
                "{} answered with status {}",
                guard::shown(url),
                response.status
            );
            Probe::Failed(AuthError::new(AuthErrorKind::Unavailable, text))
        }
        // A success is no document either: some servers answer every path with a page.
        _ => Probe::Absent,
    }
}

/// Whether a body is a JSON object, whatever its content type says.
fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

impl<T> Probe<T> {
    fn into_result(self, url: &Url) -> Result<T, AuthError> {
        match self {
            Self::Found(found) => Ok(found),
            Self::Failed(error) | Self::Invalid(error) => Err(error),
            Self::Absent => {
                let text = format!("there is no metadata at {}", guard::shown(url));
                Err(AuthError::new(AuthErrorKind::Metadata, text))
            }
        }
    }
}
