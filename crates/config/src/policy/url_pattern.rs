//! `serverUrl` patterns, and the spellings of a URL that they deny (CFG-7).

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;

use super::url::{NormalizedUrl, decoded, folded, plain_host};
use crate::glob::matches;

/// A `serverUrl` pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlPattern {
    written: String,
    lower: String,
    /// The parts of the pattern; `None` if it matches everything.
    parts: Option<PatternParts>,
    /// The URL, if the pattern has no star.
    exact: Option<NormalizedUrl>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PatternParts {
    scheme: String,
    host: String,
    port: Port,
    /// `None` if the pattern ends after the host.
    path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    /// The default port of the scheme.
    Default,
    Any,
    Only(u16),
    /// Not a port; matches none.
    Never,
}

impl UrlPattern {
    pub(crate) fn new(written: &str) -> Self {
        Self {
            written: written.to_owned(),
            lower: written.to_ascii_lowercase(),
            // No scheme means any; the rest must still not match across the parts of a URL.
            parts: match written.trim() {
                "*" => None,
                whole if whole.contains("://") => PatternParts::new(whole),
                rest => PatternParts::new(&format!("*://{rest}")),
            },
            exact: (!written.contains('*'))
                .then(|| NormalizedUrl::new(written).ok())
                .flatten(),
        }
    }

    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// Whether the pattern allows a URL. Parts are compared separately, so that a `*` in the host
    /// cannot reach into the path of another host.
    pub(crate) fn allows(&self, url: &NormalizedUrl) -> bool {
        match &self.parts {
            Some(parts) => {
                // A rule without a star names the path exactly.
                let lenient = url
                    .lenient_path
                    .as_ref()
                    .filter(|_| parts.has_star_in_path());
                let mut paths = std::iter::once(&url.path).chain(lenient);
                parts.matches_origin(url)
                    && paths.all(|path| parts.matches_path(&url.with_query(path)))
            }
            None => matches(&self.written, &url.whole()),
        }
    }

    /// Whether the pattern denies a URL: with or without a query and a trailing slash, as a whole
    /// or in parts, and also behind a proxy.
    pub(crate) fn denies(&self, url: &DenyCandidates) -> bool {
        // If the host has no star, comparing the parts is sufficient.
        let stretches = |parts: &PatternParts| parts.host.contains('*');
        let whole = || {
            self.parts.as_ref().is_none_or(stretches)
                && url.texts.iter().any(|text| matches(&self.lower, text))
        };
        let is_exact = |exact| url.url.matches_exactly(exact);
        let in_parts = |parts: &PatternParts| {
            parts.matches_origin(&url.url) && url.paths.iter().any(|path| parts.matches_path(path))
        };
        whole()
            || self.parts.as_ref().is_some_and(in_parts)
            || self.exact.as_ref().is_some_and(is_exact)
            || url.others.iter().any(|other| self.denies(other))
    }
}

/// A URL in every form that a rule may deny, computed once for all rules.
pub(crate) struct DenyCandidates {
    url: NormalizedUrl,
    /// The whole URL in lower case.
    texts: Vec<String>,
    paths: Vec<String>,
    /// The vendor's URL, if this is the URL of a proxy, and the URL with other names of this
    /// machine.
    others: Vec<Self>,
}

impl DenyCandidates {
    pub(crate) fn of(mut url: NormalizedUrl) -> Self {
        let behind = url.behind.take();
        let on_loopback = url.on_loopback().into_iter().map(Self::single);
        let behind = behind.map(|vendor| Self::of(*vendor));
        let others = on_loopback.chain(behind).collect();
        Self {
            others,
            ..Self::single(url)
        }
    }

    /// The forms of a URL under its own name.
    fn single(url: NormalizedUrl) -> Self {
        let (mut texts, mut paths) = (vec![url.whole()], Vec::new());
        for path in std::iter::once(&url.path).chain(&url.lenient_path) {
            let bare = format!("{}://{}{path}", url.scheme, url.authority());
            texts.extend([bare.trim_end_matches('/').to_owned(), bare]);
            let trimmed = path.trim_end_matches('/');
            paths.extend([
                url.with_query(path),
                trimmed.to_owned(),
                path.clone(),
                format!("{trimmed}/"),
                folded(path),
            ]);
        }
        Self {
            texts: deduplicated(texts.iter().map(|text| text.to_ascii_lowercase())),
            paths: deduplicated(paths),
            url,
            others: Vec::new(),
        }
    }
}

fn deduplicated(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let texts: BTreeSet<String> = texts.into_iter().collect();
    texts.into_iter().collect()
}

impl PatternParts {
    fn new(written: &str) -> Option<Self> {
        let (scheme, rest) = written.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.rsplit_once(':') {
            // An IPv6 address contains colons.
            Some((host, port)) if !port.ends_with(']') => {
                let port = match (port, port.parse()) {
                    ("*", _) => Port::Any,
                    (_, Ok(port)) if Some(port) == default_port(&scheme) => Port::Default,
                    (_, Ok(port)) => Port::Only(port),
                    (_, Err(_)) => Port::Never,
                };
                (host, port)
            }
            _ => (authority, Port::Default),
        };
        let any_rest = path.is_empty() && host.ends_with('*');
        Some(Self {
            scheme,
            port: if any_rest { Port::Any } else { port },
            host: normal_host(host),
            path: match path {
                "" if any_rest => None,
                "" => Some("/".to_owned()),
                path => {
                    let path = path.split('#').next().unwrap_or(path);
                    Some(decoded(path.strip_suffix('?').unwrap_or(path)))
                }
            },
        })
    }

    fn matches_origin(&self, url: &NormalizedUrl) -> bool {
        let port = match self.port {
            Port::Default => url.port.is_none(),
            Port::Any => true,
            Port::Only(port) => url.known_port == Some(port),
            Port::Never => false,
        };
        port && matches(&self.host, &url.host) && matches(&self.scheme, &url.scheme)
    }

    fn has_star_in_path(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.contains('*'))
    }

    fn matches_path(&self, path: &str) -> bool {
        let pattern = self.path.as_ref();
        pattern.is_none_or(|pattern| matches(pattern, path))
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

/// Normalises a host pattern: labels without a star in ASCII and lower case.
fn normal_host(host: &str) -> String {
    let host = percent_decode_str(host).decode_utf8_lossy();
    let host = host.trim_end_matches('.');
    if !host.contains('*') {
        let host = url::Host::parse(host).map_or_else(|_| host.to_owned(), |host| host.to_string());
        return plain_host(&host);
    }
    let label = |label: &str| {
        if label.contains('*') {
            label.to_lowercase()
        } else {
            idna::domain_to_ascii(label).unwrap_or_else(|_| label.to_ascii_lowercase())
        }
    };
    host.split('.').map(label).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denies(pattern: &str, url: &str) -> bool {
        NormalizedUrl::new(url).is_err()
            || UrlPattern::new(pattern)
                .denies(&DenyCandidates::of(NormalizedUrl::new(url).unwrap()))
    }

    fn allows(pattern: &str, url: &str) -> bool {
        NormalizedUrl::new(url).is_ok_and(|url| UrlPattern::new(pattern).allows(&url))
    }

    #[test]
    fn no_spelling_of_an_address_gets_through() {
        for pattern in [
            "http://127.0.0.1:9/*",
            "http://127.0.0.1:9/mcp",
            "http://[::ffff:127.0.0.1]:9/*",
            "http://localhost:9/*",
        ] {
            for url in [
                "http://127.0.0.1:9/mcp",
                "http://[::ffff:127.0.0.1]:9/mcp",
                "http://[::ffff:7f00:1]:9/mcp",
                "http://2130706433:9/mcp",
                "http://127.1:9/mcp",
                "http://0.0.0.0:9/mcp",
                "http://[::1]:9/mcp",
                "http://[::]:9/mcp",
                "http://localhost.:9/mcp",
                "https://h/?MCP_URL=http://127.0.0.1:9/mcp",
                "https://h/?Mcp_Url=http://127.0.0.1:9/mcp",
            ] {
                assert!(denies(pattern, url), "{pattern} {url}");
            }
            assert!(!denies(pattern, "http://127.0.0.1:8/mcp"));
            assert!(!denies(pattern, "http://[::2]:9/mcp"));
        }
        assert!(denies("http://10.0.0.1/*", "http://[::ffff:10.0.0.1]/"));
        assert!(!allows("http://localhost/*", "http://127.0.0.1/"));
    }

    #[test]
    fn no_spelling_of_a_denied_url_gets_through() {
        for pattern in [
            "https://evil.example/mcp",
            "https://EVIL.example:443/mcp",
            "https://evil.example/*",
        ] {
            for url in [
                "https://evil.example/mcp",
                "HTTPS://Evil.Example:443/mcp",
                "https://user@evil.example/mcp",
                "https://good.example@evil.example/mcp",
                "https://evil.example/a/../mcp",
                "https://evil.example/a/%2e%2e/mcp",
                "https://evil.example/a/%2E./mcp",
                "https://evil.example/./mcp",
                "https://evil.example./mcp",
                "https://evil.example/%6dcp",
                "https://evil.example/%6Dcp",
                "https://evil.example\\mcp",
                "https:/\\evil.example/mcp",
                "https:evil.example/mcp",
                "https://evil.example/mcp?x=1",
                "https://evil.example/mcp?",
                "https://evil.example/mcp#x",
                "https://evil.example/mcp/",
                " https://evil.example/mcp\n",
                "https://ev\til.example/mcp",
                "https://ｅｖｉｌ.example/mcp",
                "https://evil%2eexample/mcp",
                "https://evil.example。/mcp",
                "https://evil.example//mcp",
                "https://evil.example///a/..//mcp",
                "https://proxy.example/x?mcp_url=https%3A%2F%2Fevil.example%2Fmcp",
            ] {
                assert!(denies(pattern, url), "{pattern} {url}");
            }
        }
    }

    #[test]
    fn a_rule_in_an_odd_spelling_denies_at_least_itself() {
        for rule in [
            "http:/h/p",
            "http:\\\\h\\p",
            "https://h/x?#f",
            "https://h//x",
            "HTTPS://H:443/a/../x",
        ] {
            assert!(denies(rule, rule), "{rule}");
        }
        assert!(denies("https://h/admin*", "https://h//admin"));
        assert!(denies("evil.example/*", "https://evil.example/x"));
        for url in [
            "https://p/?mcp_url=https://good&mcp_url=https://bad",
            "https://p/?mcp_url=&mcp_url=https://bad/",
        ] {
            assert!(denies("https://bad/*", url), "{url}");
        }
        assert!(!denies("https://h/x?a=1", "https://h/x?a=2"));
    }

    #[test]
    fn punycode_and_addresses_have_one_spelling() {
        for (pattern, url) in [
            (
                "https://bücher.example/*",
                "https://xn--bcher-kva.example/x",
            ),
            (
                "https://xn--bcher-kva.example/*",
                "https://BÜCHER.example/x",
            ),
            (
                "https://*.bücher.example/*",
                "https://a.xn--bcher-kva.example/x",
            ),
            ("http://127.0.0.1/*", "http://0x7f.1/x"),
            ("http://127.0.0.1/*", "http://2130706433/x"),
            ("http://[::1]:8080/*", "http://[0:0::1]:8080/x"),
            ("http://h:*/*", "http://h:81/x"),
            ("http://h:80/*", "http://h/x"),
            ("*evil*", "https://sub.EVIL.example/x"),
            ("https://*", "https://any.example:8443/x?y"),
            ("https://h", "https://h/"),
            ("https://h/x?", "https://h/x"),
            ("https://h//x/y", "https://h//x/y"),
        ] {
            assert!(denies(pattern, url), "{pattern} {url}");
            assert!(
                allows(pattern, url) || pattern == "*evil*",
                "{pattern} {url}"
            );
        }
    }

    #[test]
    fn an_allow_pattern_cannot_be_stretched_over_another_host() {
        for (pattern, url, expected) in [
            (
                "https://*.example.com/*",
                "https://mcp.example.com/a/b",
                true,
            ),
            (
                "https://*.example.com/*",
                "https://evil.com/.example.com/a",
                false,
            ),
            (
                "https://*.example.com/*",
                "https://evil.com?.example.com/a",
                false,
            ),
            (
                "https://*.example.com/*",
                "https://evil.com#.example.com/a",
                false,
            ),
            (
                "https://*.example.com/*",
                "https://a.example.com.evil.com/",
                false,
            ),
            ("https://*.example.com/*", "https://example.com/", false),
            ("https://*.example.com/*", "http://a.example.com/", false),
            ("https://example.com/*", "https://example.com:8443/", false),
            (
                "https://example.com/a/*",
                "https://example.com/a/../b",
                false,
            ),
            (
                "https://example.com/a/*",
                "https://example.com/a/%2e%2e/b",
                false,
            ),
            (
                "https://example.com/mcp",
                "https://example.com/mcp?x",
                false,
            ),
            (
                "https://example.com/*",
                "https://example.com@evil.com/",
                false,
            ),
            (
                "https://example.com:nonsense/*",
                "https://example.com/",
                false,
            ),
            ("*", "wss://anything/x", true),
            ("*.corp.example/*", "https://mcp.corp.example/x", true),
            (
                "*.corp.example/*",
                "https://evil.com/.corp.example/x",
                false,
            ),
            ("*://h:443/*", "https://h/x", true),
        ] {
            assert_eq!(allows(pattern, url), expected, "{pattern} {url}");
        }
    }

    #[test]
    fn an_encoded_slash_or_dot_segment_does_not_leave_the_allowed_path() {
        for escape in [
            "..%2fevil",
            "..%2Fevil",
            "%2e%2e%2fevil",
            "x/..%2f..%2fevil",
            "..%5cevil",
            "%252e%252e%252fevil",
            "%252e%252e/evil",
            "..;/evil",
            "..;x=1/evil",
            "%25252525252525252e/evil",
        ] {
            let url = format!("https://h/ok/{escape}");
            assert!(!allows("https://h/ok/*", &url), "{url}");
            assert!(
                denies("https://h/evil", &url) || denies("https://h/evil*", &url),
                "{url}"
            );
            assert!(
                !denies("https://other/*", &url) || escape.len() > 20,
                "{url}"
            );
        }
        // The whole host is allowed, the path stays inside, or the rule names it.
        for (pattern, url) in [
            ("https://h/*", "https://h/ok/..%2fevil"),
            ("https://h/ok/*", "https://h/ok/a%2Fb"),
            ("https://h/ok/*", "https://h/ok/a;b/c"),
            ("https://h/ok/*", "https://h/ok/100%25"),
            ("https://h/a%2Fb", "https://h/a%2fb"),
            ("*", "https://h/ok/..%2fevil"),
        ] {
            assert!(allows(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn other_servers_are_not_denied() {
        for (pattern, url) in [
            ("https://evil.example/mcp", "https://evil.example/other"),
            (
                "https://evil.example/*",
                "https://good.example/evil.example/",
            ),
            ("https://evil.example/*", "https://not-evil.example/mcp"),
            ("https://evil.example:8443/*", "https://evil.example/mcp"),
        ] {
            assert!(!denies(pattern, url), "{pattern} {url}");
        }
    }
}
