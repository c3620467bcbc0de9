//! URLs in a normalised form, so that no other spelling evades a rule (CFG-7).

use std::net::{IpAddr, Ipv6Addr};

use url::Url;

use crate::dedupe::{proxied, unwrap_proxy};

/// How often a path may be percent-encoded.
const MAX_ENCODINGS: usize = 4;

/// A normalised URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalizedUrl {
    pub(super) scheme: String,
    /// In lower case and ASCII, without a trailing dot.
    pub(super) host: String,
    /// `None` for the default port of the scheme.
    pub(super) port: Option<u16>,
    /// The port, including the default.
    pub(super) known_port: Option<u16>,
    /// With unreserved characters decoded, and dot segments resolved.
    pub(super) path: String,
    /// The path as a lenient server may read it, if different.
    pub(super) lenient_path: Option<String>,
    pub(super) query: Option<String>,
    /// The vendor's URL, if this is the URL of a proxy.
    pub(super) behind: Option<Box<Self>>,
}

impl NormalizedUrl {
    /// Normalises a URL. The error says why it cannot be compared.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Self::nested(text, 3)
    }

    fn nested(text: &str, depth: u8) -> Result<Self, String> {
        if text.contains("${") {
            return Err("a part of it is not known yet".to_owned());
        }
        let url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it contains a user name".to_owned());
        }
        let host = plain_host(url.host_str().unwrap_or_default());
        if proxied(&url) > 1 {
            return Err("it carries several URLs".to_owned());
        }
        let behind = match unwrap_proxy(&url) {
            Some(vendor) if depth > 0 => Some(Box::new(Self::nested(&vendor, depth - 1)?)),
            Some(_) => return Err("it is a proxy of a proxy of a proxy".to_owned()),
            None => None,
        };
        let path = resolved(&url, &decoded(url.path()));
        let lenient_path = lenient_path(&url, &path)?;
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host,
            port: url.port(),
            known_port: url.port_or_known_default(),
            path,
            lenient_path,
            query: url.query().filter(|query| !query.is_empty()).map(decoded),
            behind,
        })
    }

    /// The same URL with the other names of this machine.
    pub(super) fn on_loopback(&self) -> Vec<Self> {
        if !is_loopback(&self.host) {
            return Vec::new();
        }
        let hosts = ["localhost", "127.0.0.1", "[::1]"];
        let others = hosts.iter().filter(|host| **host != self.host);
        others
            .map(|host| Self {
                host: (*host).to_owned(),
                behind: None,
                ..self.clone()
            })
            .collect()
    }

    pub(super) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    pub(super) fn whole(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        format!(
            "{}://{}{}{}",
            self.scheme,
            self.authority(),
            self.path,
            query.unwrap_or_default()
        )
    }

    /// Whether a rule without stars denotes this URL; without a query it denotes any query.
    pub(super) fn matches_exactly(&self, rule: &Self) -> bool {
        let folded = |url: &Self| folded(&url.path).trim_end_matches('/').to_owned();
        (&self.host, &self.scheme, self.port) == (&rule.host, &rule.scheme, rule.port)
            && (rule.query.is_none() || rule.query == self.query)
            && folded(self) == folded(rule)
    }

    /// A path of this URL with its query, for comparison with the path of a pattern.
    pub(super) fn with_query(&self, path: &str) -> String {
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

/// A host in lower case, without a trailing dot, and an IPv4 address in IPv6 form as IPv4.
pub(super) fn plain_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let mapped = inner
        .and_then(|inner| inner.parse::<Ipv6Addr>().ok())
        .and_then(|address| address.to_ipv4_mapped());
    mapped.map_or(host, |address| address.to_string())
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    let inner = host.trim_start_matches('[').trim_end_matches(']');
    match inner.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The path with its dot segments resolved. Decoding may have produced new ones.
fn resolved(url: &Url, path: &str) -> String {
    let mut base = url.clone();
    base.set_path(path);
    decoded(base.path())
}

/// The path as a server may read it that decodes slashes, decodes twice, or ignores path
/// parameters: `/ok/..%2fevil`, `/ok/%252e%252e/evil` and `/ok/..;/evil` all lead to `/evil`.
fn lenient_path(url: &Url, path: &str) -> Result<Option<String>, String> {
    let mut lenient = path.to_owned();
    for _ in 0..=MAX_ENCODINGS {
        let segments = lenient
            .split('/')
            .map(|segment| match segment.split_once(';') {
                Some((segment, _)) => segment,
                None => segment,
            });
        let plain = segments.collect::<Vec<_>>().join("/");
        let plain = plain
            .replace("%2F", "/")
            .replace("%5C", "/")
            .replace("%25", "%");
        let next = resolved(url, &decoded(&plain));
        if next == lenient {
            return Ok((lenient != path).then_some(lenient));
        }
        lenient = next;
    }
    Err("its path is encoded several times".to_owned())
}

/// The path with runs of slashes collapsed, as many servers do.
pub(super) fn folded(path: &str) -> String {
    let mut folded = path.to_owned();
    while folded.contains("//") {
        folded = folded.replace("//", "/");
    }
    folded
}

/// Decodes unnecessary percent-encodings and writes the others in upper case.
pub(super) fn decoded(text: &str) -> String {
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
