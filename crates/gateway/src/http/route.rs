//! The paths of the endpoint.

use http::Uri;
use percent_encoding::percent_decode_str;

use super::endpoint::is_resource_metadata;
use crate::client::View;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/mcp`, and `/mcp/<server>`.
    Mcp(View),
    /// `/sse`, and `/sse/<server>`: the stream of HTTP+SSE.
    Sse(View),
    /// `/messages?session_id=…`: the messages of HTTP+SSE.
    Messages(String),
    /// `/healthz`
    Health,
    /// `/readyz`
    Ready,
    /// `/metrics`
    Metrics,
    /// `/.well-known/oauth-protected-resource`
    ResourceMetadata,
}

impl Route {
    pub(super) fn find(uri: &Uri) -> Option<Self> {
        let path = uri.path();
        Some(match path {
            "/healthz" => Self::Health,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/messages" => Self::Messages(session_id(uri.query()?)?),
            _ if is_resource_metadata(path) => Self::ResourceMetadata,
            _ => {
                let (name, rest) = path
                    .strip_prefix('/')?
                    .split_once('/')
                    .unwrap_or((path.strip_prefix('/')?, ""));
                match name {
                    "mcp" => Self::Mcp(view(rest)?),
                    "sse" => Self::Sse(view(rest)?),
                    _ => return None,
                }
            }
        })
    }
}

/// The server named by the rest of a path.
fn view(rest: &str) -> Option<View> {
    let name = rest.strip_suffix('/').unwrap_or(rest);
    if name.is_empty() {
        return Some(View::All);
    }
    let name = percent_decode_str(name).decode_utf8().ok()?;
    (!name.contains(['/', '\0'])).then(|| View::Server(name.into_owned()))
}

fn session_id(query: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, id) = pairs.find(|(name, _)| *name == "session_id")?;
    Some(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_route() {
        let server = |name: &str| View::Server(name.to_owned());
        let cases = [
            ("/mcp", Some(Route::Mcp(View::All))),
            ("/mcp/", Some(Route::Mcp(View::All))),
            ("/mcp?x=1", Some(Route::Mcp(View::All))),
            ("/mcp/github", Some(Route::Mcp(server("github")))),
            ("/mcp/my%20server/", Some(Route::Mcp(server("my server")))),
            ("/mcp/a/b", None),
            ("/mcp/a%2Fb", None),
            ("/mcp/%FF", None),
            ("/mcpx", None),
            ("/", None),
            ("//mcp", None),
            ("/sse", Some(Route::Sse(View::All))),
            ("/sse/github", Some(Route::Sse(server("github")))),
            ("/messages", None),
            (
                "/messages?session_id=abc",
                Some(Route::Messages("abc".to_owned())),
            ),
            (
                "/messages?a=b&session_id=x",
                Some(Route::Messages("x".to_owned())),
            ),
            ("/healthz", Some(Route::Health)),
            ("/readyz", Some(Route::Ready)),
            ("/metrics", Some(Route::Metrics)),
            (
                "/.well-known/oauth-protected-resource",
                Some(Route::ResourceMetadata),
            ),
            (
                "/.well-known/oauth-protected-resource/mcp",
                Some(Route::ResourceMetadata),
            ),
            ("/.well-known/oauth-protected-resourcex", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Route::find(&path.parse().unwrap()), expected, "{path}");
        }
    }
}
