//! The URL of a server, which may contain credentials.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

use crate::redact::redact_url;

/// A URL as written in an entry, expanded. Displayed without its user information and its query
/// values.
///
/// ```
/// let url = trunkline_config::ServerUrl::new("https://me:pw@host/mcp?key=abc");
/// assert_eq!(url.to_string(), "https://***@host/mcp?key=***");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl(String);

impl ServerUrl {
    /// Creates a URL without checking it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The URL, including credentials.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Parses the URL.
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
