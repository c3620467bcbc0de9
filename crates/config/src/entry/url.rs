//! A server's URL, which may carry credentials.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

use crate::secret::HIDDEN;

/// A URL as it stands in an entry, expanded. Shown without its user name, its password and the values of its query.
///
/// ```
/// let url = trunkline_config::ServerUrl::new("https://me:pw@host/mcp?key=abc");
/// assert_eq!(url.to_string(), "https://***@host/mcp?key=***");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl(String);

impl ServerUrl {
    /// Takes a URL as it is written; nothing is checked.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The URL itself, credentials included.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// It, parsed; the error is in words.
    pub fn parse(&self) -> Result<Url, String> {
        Url::parse(self.0.trim()).map_err(|error| error.to_string())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", redacted(&self.0))
    }
}

impl Serialize for ServerUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&redacted(&self.0))
    }
}

/// A URL's text without what may be a secret. References to variables are none and stay.
pub(crate) fn redacted(text: &str) -> String {
    let (text, fragment) = match text.split_once('#') {
        Some((text, _)) => (text, "#***"),
        None => (text, ""),
    };
    let (before, query) = match text.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (text, None),
    };
    let mut shown = String::with_capacity(text.len());
    // A URL parser takes any run of slashes, in either direction, and none at all.
    match before.split_once(':') {
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
            let (slashes, rest) = rest.split_at(slashes);
            let authority = rest.find(['/', '\\']).unwrap_or(rest.len());
            let host = rest[..authority].rfind('@').map_or(0, |at| at + 1);
            shown.push_str(scheme);
            shown.push(':');
            shown.push_str(slashes);
            if host > 0 {
                shown.push_str(HIDDEN);
                shown.push('@');
            }
            shown.push_str(&rest[host..]);
        }
        _ => shown.push_str(before),
    }
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if value.starts_with("${") => format!("{name}={value}"),
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None if pair.is_empty() => String::new(),
            None => HIDDEN.to_owned(),
        });
        shown.push('?');
        shown.push_str(&pairs.collect::<Vec<_>>().join("&"));
    }
    shown.push_str(fragment);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        for (url, shown) in [
            ("https://host/mcp", "https://host/mcp"),
            ("https://u:p@host:1/mcp", "https://***@host:1/mcp"),
            ("https://a@b@host/x@y", "https://***@host/x@y"),
            (
                "https://h/?k=v&flag&x=${KEY}",
                "https://h/?k=***&***&x=${KEY}",
            ),
            ("https://h/#token=1", "https://h/#***"),
            ("https:u:p@h/x", "https:***@h/x"),
            ("https:/\\u:p@h/x", "https:/\\***@h/x"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(ServerUrl::new(url).to_string(), shown);
            assert!(!format!("{:?}", ServerUrl::new("https://u:p@h/?k=v")).contains('v'));
        }
    }
}
