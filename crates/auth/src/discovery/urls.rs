//! Well-known URLs (RFC 9728, RFC 8414, OpenID Connect Discovery).

use url::Url;

/// The URLs of the protected-resource metadata of a server: with its path, then at the root.
pub(crate) fn protected_resource(server: &Url) -> Vec<Url> {
    let mut urls = vec![
        inserted(server, "oauth-protected-resource"),
        rooted(server, "oauth-protected-resource"),
    ];
    // The query of the server's URL belongs to the first only (RFC 9728, section 3.1).
    if let Some(query) = server.query() {
        urls[0].set_query(Some(query));
    }
    urls.dedup();
    urls
}

/// The URLs of the metadata of an issuer, in the order of the MCP specification.
pub(crate) fn authorization_server(issuer: &Url) -> Vec<Url> {
    let mut urls = vec![
        inserted(issuer, "oauth-authorization-server"),
        inserted(issuer, "openid-configuration"),
        appended(issuer, "openid-configuration"),
    ];
    urls.dedup();
    urls
}

/// `https://host/.well-known/name/path`.
fn inserted(base: &Url, name: &str) -> Url {
    let path = base.path().trim_end_matches('/').to_owned();
    with_path(base, &format!("/.well-known/{name}{path}"))
}

/// `https://host/path/.well-known/name`.
fn appended(base: &Url, name: &str) -> Url {
    let path = base.path().trim_end_matches('/').to_owned();
    with_path(base, &format!("{path}/.well-known/{name}"))
}

/// `https://host/.well-known/name`.
fn rooted(base: &Url, name: &str) -> Url {
    with_path(base, &format!("/.well-known/{name}"))
}

/// The origin of `base` with another path.
pub(crate) fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// The canonical URI of a server, for `resource` (RFC 8707): without fragment and credentials, and
/// without a slash for an empty path.
pub(crate) fn canonical_resource(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let text = url.to_string();
    match (url.path(), url.query()) {
        ("/", None) => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// Whether metadata with this `resource` describes the server: the same origin, and a path that
/// contains the server's.
pub(crate) fn describes(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let within = |path: &str, folder: &str| {
        let folder = folder.trim_end_matches('/');
        let rest = path.trim_end_matches('/').strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    resource.origin() == server.origin()
        && within(server.path(), resource.path())
        && (resource.query().is_none() || resource.query() == server.query())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn a_server_has_well_known_urls() {
        let with_path = protected_resource(&"https://a.example/public/mcp?x=1".parse().unwrap());
        assert_eq!(
            list(&with_path),
            [
                "https://a.example/.well-known/oauth-protected-resource/public/mcp?x=1",
                "https://a.example/.well-known/oauth-protected-resource",
            ]
        );
        let root = protected_resource(&"https://a.example/".parse().unwrap());
        assert_eq!(
            list(&root),
            ["https://a.example/.well-known/oauth-protected-resource"]
        );
    }

    #[test]
    fn an_issuer_has_well_known_urls() {
        let with_path = authorization_server(&"https://a.example/tenant1".parse().unwrap());
        assert_eq!(
            list(&with_path),
            [
                "https://a.example/.well-known/oauth-authorization-server/tenant1",
                "https://a.example/.well-known/openid-configuration/tenant1",
                "https://a.example/tenant1/.well-known/openid-configuration",
            ]
        );
        let root = authorization_server(&"https://a.example".parse().unwrap());
        assert_eq!(
            list(&root),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_resource_describes_servers_below_it() {
        let cases = [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://A.example:443/", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/m", "https://a.example/mcp", false),
            ("https://a.example/mcp/x", "https://a.example/mcp", false),
            ("https://a.example:8443/mcp", "https://a.example/mcp", false),
            ("https://evil.example/mcp", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("a.example/mcp", "https://a.example/mcp", false),
            (
                "https://a.example/mcp?t=1",
                "https://a.example/mcp?t=2",
                false,
            ),
        ];
        for (resource, server, expected) in cases {
            assert_eq!(
                describes(resource, &server.parse().unwrap()),
                expected,
                "{resource}"
            );
        }
    }

    #[test]
    fn a_resource_is_canonical() {
        let cases = [
            ("https://MCP.example/", "https://mcp.example"),
            ("https://mcp.example/mcp", "https://mcp.example/mcp"),
            ("https://mcp.example/mcp/", "https://mcp.example/mcp/"),
            (
                "https://u:p@mcp.example:8443/#f",
                "https://mcp.example:8443",
            ),
        ];
        for (url, expected) in cases {
            assert_eq!(canonical_resource(&url.parse().unwrap()), expected);
        }
    }
}
