//! A server's URL, which may carry credentials.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

use crate::redact::redact_url;

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
        f.write_str(&redact_url(&self.0))
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", redact_url(&self.0))
    }
}

impl Serialize for ServerUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&redact_url(&self.0))
    }
}
