//! URLs as policy compares them: in one spelling, so that no other spelling gets past a rule (CFG-7).

use percent_encoding::percent_decode_str;
use url::Url;

use crate::dedupe::{proxied, unwrap_proxy};
use crate::glob::matches;

/// A URL in its one spelling, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalUrl {
    scheme: String,
    /// In lower case and ASCII, without a trailing dot.
    host: String,
    /// Only when it is not the scheme's own.
    port: Option<u16>,
    /// The scheme's own too.
    known_port: Option<u16>,
    /// With what need not be encoded decoded, and without `.` and `..`.
    path: String,
    query: Option<String>,
    /// The vendor's URL, where this is a proxy's.
    behind: Option<Box<Self>>,
}

impl NormalUrl {
    /// The error says why it cannot be compared with anything.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Self::nested(text, 3)
    }

    fn nested(text: &str, depth: u8) -> Result<Self, String> {
        if text.contains("${") {
            return Err("a part of it is not known yet".to_owned());
        }
        let url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds a user name".to_owned());
        }
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        if proxied(&url) > 1 {
            return Err("it carries several URLs".to_owned());
        }
        let behind = match unwrap_proxy(&url) {
            Some(vendor) if depth > 0 => Some(Box::new(Self::nested(&vendor, depth - 1)?)),
            Some(_) => return Err("it is a proxy of a proxy of a proxy".to_owned()),
            None => None,
        };
        // `%2e%2e` that was itself encoded shows only now; a URL parser has to take it out again.
        let mut base = url.clone();
        base.set_path(&decoded(url.path()));
        let path = decoded(base.path());
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host: host.to_ascii_lowercase(),
            port: url.port(),
            known_port: url.port_or_known_default(),
            path,
            query: url.query().filter(|query| !query.is_empty()).map(decoded),
            behind,
        })
    }

    fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    fn whole(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        format!(
            "{}://{}{}{}",
            self.scheme,
            self.authority(),
            self.path,
            query.unwrap_or_default()
        )
    }

    /// Whether a URL without stars means this place, or, where it has no query, any query of it.
    fn is_at(&self, place: &Self) -> bool {
        let folded = |url: &Self| folded(&url.path).trim_end_matches('/').to_owned();
        (&self.host, &self.scheme, self.port) == (&place.host, &place.scheme, place.port)
            && (place.query.is_none() || place.query == self.query)
            && folded(self) == folded(place)
    }

    /// The path with its query, as a pattern's path is held against it.
    fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// A path in which slashes that follow each other are one, as they are for many servers.
fn folded(path: &str) -> String {
    let mut folded = path.to_owned();
    while folded.contains("//") {
        folded = folded.replace("//", "/");
    }
    folded
}

/// Text with the percent-encodings of characters that need none undone, and the others in upper case.
fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at..at + 3);
        let byte = code.and_then(|code| u8::from_str_radix(&code[1..], 16).ok());
        match (code, byte) {
            (_, Some(byte)) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                plain.push(byte.into());
                rest = &rest[at + 3..];
            }
            (Some(code), Some(_)) => {
                plain.push_str(&code.to_ascii_uppercase());
                rest = &rest[at + 3..];
            }
            _ => {
                plain.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// A `serverUrl` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlPattern {
    written: String,
    lower: String,
    /// The pattern in parts, unless it stands for everything.
    parts: Option<PatternParts>,
    /// The one place that it means, where it has no star.
    place: Option<NormalUrl>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PatternParts {
    scheme: String,
    host: String,
    port: Port,
    /// `None` when the pattern ends with its host.
    path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    /// The scheme's own.
    Default,
    Any,
    Only(u16),
    /// Something that is no port: matches none.
    Never,
}

impl UrlPattern {
    pub(crate) fn new(written: &str) -> Self {
        Self {
            written: written.to_owned(),
            lower: written.to_ascii_lowercase(),
            // Without a scheme any is meant; the rest must not match across the parts of a URL for that.
            parts: match written.trim() {
                "*" => None,
                whole if whole.contains("://") => PatternParts::new(whole),
                rest => PatternParts::new(&format!("*://{rest}")),
            },
            place: (!written.contains('*'))
                .then(|| NormalUrl::new(written).ok())
                .flatten(),
        }
    }

    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// Whether a URL is one of those meant. Each part is held against its part, so that a `*` in the host cannot reach into
    /// the path of another host.
    pub(crate) fn allows(&self, url: &NormalUrl) -> bool {
        match &self.parts {
            Some(parts) => parts.matches_origin(url) && parts.matches_path(&url.path_and_query()),
            None => matches(&self.written, &url.whole()),
        }
    }

    /// Whether a URL is one of those meant, or may be: with or without a query and a final slash, whole or in parts, and also
    /// where it is only a proxy's way to one.
    pub(crate) fn denies(&self, url: &DenyForms) -> bool {
        // Where a host is written out, the parts say as much as the whole.
        let stretches = |parts: &PatternParts| parts.host.contains('*');
        let whole = || {
            self.parts.as_ref().is_none_or(stretches)
                && url.texts.iter().any(|text| matches(&self.lower, text))
        };
        let at_place = |place| url.url.is_at(place);
        let in_parts = |parts: &PatternParts| {
            parts.matches_origin(&url.url) && url.paths.iter().any(|path| parts.matches_path(path))
        };
        whole()
            || self.parts.as_ref().is_some_and(in_parts)
            || self.place.as_ref().is_some_and(at_place)
            || url
                .behind
                .as_ref()
                .is_some_and(|vendor| self.denies(vendor))
    }
}

/// A URL in every form in which a rule may deny it, made once for all rules.
pub(crate) struct DenyForms {
    url: NormalUrl,
    /// It as a whole, in lower case.
    texts: Vec<String>,
    paths: Vec<String>,
    /// The vendor's, where this is a proxy's.
    behind: Option<Box<Self>>,
}

impl DenyForms {
    pub(crate) fn of(mut url: NormalUrl) -> Self {
        let behind = url.behind.take();
        let bare = format!("{}://{}{}", url.scheme, url.authority(), url.path);
        let texts = [url.whole(), bare.trim_end_matches('/').to_owned(), bare];
        let trimmed = url.path.trim_end_matches('/');
        let paths = [
            url.path_and_query(),
            trimmed.to_owned(),
            url.path.clone(),
            format!("{trimmed}/"),
            folded(&url.path),
        ];
        Self {
            texts: different(texts.map(|text| text.to_ascii_lowercase())),
            paths: different(paths),
            url,
            behind: behind.map(|vendor| Box::new(Self::of(*vendor))),
        }
    }
}

/// The texts without repetitions.
fn different(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut different: Vec<String> = Vec::new();
    for text in texts {
        if !different.contains(&text) {
            different.push(text);
        }
    }
    different
}

impl PatternParts {
    fn new(written: &str) -> Option<Self> {
        let (scheme, rest) = written.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.rsplit_once(':') {
            // An IPv6 address has colons of its own.
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

    fn matches_origin(&self, url: &NormalUrl) -> bool {
        let port = match self.port {
            Port::Default => url.port.is_none(),
            Port::Any => true,
            Port::Only(port) => url.known_port == Some(port),
            Port::Never => false,
        };
        port && matches(&self.host, &url.host) && matches(&self.scheme, &url.scheme)
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

/// A host pattern in the spelling of normal hosts: labels without a star in ASCII and lower case.
fn normal_host(host: &str) -> String {
    let host = percent_decode_str(host).decode_utf8_lossy();
    let host = host.trim_end_matches('.');
    if !host.contains('*') {
        return url::Host::parse(host)
            .map_or_else(|_| host.to_ascii_lowercase(), |host| host.to_string());
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
        NormalUrl::new(url).is_err()
            || UrlPattern::new(pattern).denies(&DenyForms::of(NormalUrl::new(url).unwrap()))
    }

    fn allows(pattern: &str, url: &str) -> bool {
        NormalUrl::new(url).is_ok_and(|url| UrlPattern::new(pattern).allows(&url))
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
