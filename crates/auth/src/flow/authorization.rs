//! The authorization-code grant: the request, and the redirect that ends it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use url::Url;

use super::DpopKey;
use super::random::random_text;
use crate::Secret;
use crate::discovery::{AuthorizationServer, Pkce};
use crate::error::{AuthError, AuthErrorKind};
use crate::guard::BrowserUrl;

/// The longest redirect that is read.
const MAX_REDIRECT: usize = 16 * 1024;

/// A request for authorization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthorizationRequest<'r> {
    pub(crate) issuer: &'r AuthorizationServer,
    pub(crate) client_id: &'r str,
    pub(crate) redirect_uri: &'r str,
    pub(crate) scopes: &'r [String],
    /// The `resource` parameter; none for an identity provider.
    pub(crate) resource: Option<&'r str>,
    /// The key to bind the code and its tokens to.
    pub(crate) dpop: Option<&'r DpopKey>,
}

/// A request that waits for its redirect. All that the redirect is checked against is recorded
/// before the user leaves for the browser.
#[derive(Debug)]
pub(crate) struct PendingAuthorization {
    pub(crate) url: BrowserUrl,
    state: String,
    issuer: String,
    /// The redirect must have `iss` (RFC 9207).
    requires_issuer: bool,
    pub(crate) verifier: Secret,
}

/// A valid redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) code: Secret,
}

impl AuthorizationRequest<'_> {
    /// Creates the URL for the browser, with a new state and PKCE verifier.
    pub(crate) fn start(self) -> Result<PendingAuthorization, AuthError> {
        self.start_with(random_text()?, random_text()?)
    }

    fn start_with(
        self,
        state: String,
        verifier: String,
    ) -> Result<PendingAuthorization, AuthError> {
        let issuer = self.issuer;
        if issuer.pkce == Pkce::Unsupported {
            let text = "the authorization server does not support PKCE with S256";
            return Err(AuthError::new(AuthErrorKind::Metadata, text));
        }
        let Some(endpoint) = &issuer.authorization_endpoint else {
            let text = "the authorization server has no authorization endpoint";
            return Err(AuthError::new(AuthErrorKind::Metadata, text));
        };
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let mut url = endpoint.clone();
        url.set_fragment(None);
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", self.client_id)
                .append_pair("redirect_uri", self.redirect_uri)
                .append_pair("state", &state)
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256");
            if !self.scopes.is_empty() {
                query.append_pair("scope", &self.scopes.join(" "));
            }
            // OpenID Connect gives a refresh token only with consent.
            if self.scopes.iter().any(|scope| scope == "offline_access") {
                query.append_pair("prompt", "consent");
            }
            if let Some(resource) = self.resource {
                query.append_pair("resource", resource);
            }
            if let Some(dpop) = self.dpop {
                query.append_pair("dpop_jkt", dpop.thumbprint());
            }
        }
        Ok(PendingAuthorization {
            url: BrowserUrl::new(&url)?,
            state,
            issuer: issuer.issuer.clone(),
            requires_issuer: issuer.sends_issuer,
            verifier: Secret::new(verifier),
        })
    }
}

impl PendingAuthorization {
    /// Checks the query of a redirect. Nothing of it counts, not even its error, unless it belongs
    /// to this request and comes from the issuer.
    pub(crate) fn check(&self, query: &str) -> Result<Redirect, AuthError> {
        let wrong = |text: &str| AuthError::new(AuthErrorKind::WrongRedirect, text);
        if query.len() > MAX_REDIRECT {
            return Err(wrong("the redirect is too long"));
        }
        let only = |name: &str| -> Result<Option<String>, AuthError> {
            let mut found = url::form_urlencoded::parse(query.as_bytes())
                .filter(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned());
            match (found.next(), found.next()) {
                (_, Some(_)) => Err(wrong("the redirect repeats a parameter")),
                (found, None) => Ok(found),
            }
        };
        let state = only("state")?;
        if !state.is_some_and(|state| is_equal(&state, &self.state)) {
            return Err(wrong("the redirect belongs to another sign-in"));
        }
        match only("iss")? {
            Some(issuer) if issuer != self.issuer => {
                return Err(wrong(
                    "the redirect comes from another authorization server",
                ));
            }
            None if self.requires_issuer => {
                return Err(wrong("the redirect does not name its authorization server"));
            }
            _ => {}
        }
        if let Some(error) = only("error")? {
            let kind = match error.as_str() {
                "access_denied" => AuthErrorKind::Denied,
                "server_error" | "temporarily_unavailable" => AuthErrorKind::Unavailable,
                _ => AuthErrorKind::Rejected,
            };
            let description = only("error_description")?;
            return Err(AuthError::from_oauth(
                kind,
                &error,
                description.as_deref(),
                &[],
            ));
        }
        let code = only("code")?.filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| wrong("the redirect contains no code"))?;
        Ok(Redirect {
            code: Secret::new(code),
        })
    }

    /// Checks a redirect that the user copied from the address bar: the whole URL, or its query.
    pub(crate) fn check_pasted(&self, pasted: &str) -> Result<Redirect, AuthError> {
        let pasted = pasted.trim().trim_matches(['"', '\'', '<', '>']);
        let query = match Url::parse(pasted) {
            Ok(url) => url.query().unwrap_or_default().to_owned(),
            Err(_) => pasted.trim_start_matches('?').to_owned(),
        };
        if !query.contains('=') {
            let text =
                "that is not the URL of a redirect; paste the whole address from the browser";
            return Err(AuthError::new(AuthErrorKind::WrongRedirect, text));
        }
        self.check(&query)
    }
}

/// Compares texts in a time that depends only on their lengths.
fn is_equal(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::test_issuer;

    fn pending(sends_issuer: bool) -> PendingAuthorization {
        let server: Url = "https://as.example".parse().unwrap();
        let issuer = AuthorizationServer {
            sends_issuer,
            ..test_issuer(&server)
        };
        AuthorizationRequest {
            issuer: &issuer,
            client_id: "me & you",
            redirect_uri: "http://127.0.0.1:1/callback",
            scopes: &["a".to_owned(), "offline_access".to_owned()],
            resource: Some("https://mcp.example/mcp"),
            dpop: None,
        }
        .start_with(
            "S".to_owned(),
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        )
        .unwrap()
    }

    #[test]
    fn the_url_has_everything() {
        // The verifier and its challenge are those of RFC 7636, appendix B.
        assert_eq!(
            pending(false).url.as_str(),
            "https://as.example/authorize?response_type=code&client_id=me+%26+you\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback&state=S\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
             &code_challenge_method=S256&scope=a+offline_access&prompt=consent\
             &resource=https%3A%2F%2Fmcp.example%2Fmcp"
        );
    }

    #[test]
    fn a_request_needs_pkce_and_an_endpoint() {
        let server: Url = "https://as.example".parse().unwrap();
        let without_pkce = AuthorizationServer {
            pkce: Pkce::Unsupported,
            ..test_issuer(&server)
        };
        let without_endpoint = AuthorizationServer {
            authorization_endpoint: None,
            ..test_issuer(&server)
        };
        for issuer in [&without_pkce, &without_endpoint] {
            let request = AuthorizationRequest {
                issuer,
                client_id: "me",
                redirect_uri: "http://127.0.0.1:1/callback",
                scopes: &[],
                resource: None,
                dpop: None,
            };
            assert_eq!(request.start().unwrap_err().kind(), AuthErrorKind::Metadata);
        }
    }

    #[test]
    fn redirects_are_checked() {
        use AuthErrorKind::{Denied, Rejected, WrongRedirect};
        let iss = "iss=https%3A%2F%2Fas.example";
        let cases = [
            (false, "code=c&state=S".to_owned(), Ok("c")),
            (false, format!("code=c&state=S&{iss}"), Ok("c")),
            (true, format!("code=c&state=S&{iss}"), Ok("c")),
            (true, "code=c&state=S".to_owned(), Err(WrongRedirect)),
            (
                false,
                format!("code=c&state=S&{iss}%2F"),
                Err(WrongRedirect),
            ),
            (
                false,
                "code=c&state=S&iss=https://evil.example".to_owned(),
                Err(WrongRedirect),
            ),
            (false, "code=c&state=T".to_owned(), Err(WrongRedirect)),
            (false, "code=c".to_owned(), Err(WrongRedirect)),
            (false, "state=S".to_owned(), Err(WrongRedirect)),
            (false, "code=&state=S".to_owned(), Err(WrongRedirect)),
            (
                false,
                "code=c&code=d&state=S".to_owned(),
                Err(WrongRedirect),
            ),
            (
                false,
                "code=c&state=S&state=S".to_owned(),
                Err(WrongRedirect),
            ),
            (false, "error=access_denied&state=S".to_owned(), Err(Denied)),
            (
                false,
                "error=invalid_scope&state=S".to_owned(),
                Err(Rejected),
            ),
            (
                false,
                "error=access_denied&state=T".to_owned(),
                Err(WrongRedirect),
            ),
            (
                true,
                "error=access_denied&state=S".to_owned(),
                Err(WrongRedirect),
            ),
            (false, String::new(), Err(WrongRedirect)),
            (
                false,
                format!("code={}&state=S", "c".repeat(20_000)),
                Err(WrongRedirect),
            ),
        ];
        for (sends_issuer, query, expected) in cases {
            let checked = pending(sends_issuer).check(&query);
            let checked = checked.map(|redirect| redirect.code.expose().to_owned());
            let expected = expected.map(str::to_owned);
            assert_eq!(checked.map_err(|error| error.kind()), expected, "{query}");
        }
    }

    #[test]
    fn an_error_of_somebody_else_is_not_shown() {
        let query = "error=x&error_description=call+this+number&state=T";
        let error = pending(false).check(query).unwrap_err();
        assert!(!error.to_string().contains("number"), "{error}");
    }

    #[test]
    fn a_pasted_redirect_is_a_url_or_a_query() {
        for pasted in [
            "http://127.0.0.1:1/callback?code=c&state=S",
            " \"http://127.0.0.1:1/callback?code=c&state=S\"\n",
            "http://localhost/callback?code=c&state=S#_=_",
            "code=c&state=S",
            "?code=c&state=S",
        ] {
            let redirect = pending(false).check_pasted(pasted).unwrap();
            assert_eq!(redirect.code.expose(), "c", "{pasted}");
        }
        for pasted in ["", "c", "http://127.0.0.1:1/callback"] {
            assert!(pending(false).check_pasted(pasted).is_err(), "{pasted}");
        }
    }
}
