//! The connectors of the user's claude.ai account: the `claudeai` scope of CFG-1.
//!
//! `claude_ai` requests the list, `credentials` finds the token for it, `page` parses a response,
//! and `account` signs in to the connectors' proxy. Embedders can implement [`Connectors`] instead.

mod account;
mod claude_ai;
mod credentials;
mod error;
mod page;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use claude_ai::ClaudeAi;
pub use error::ConnectorsError;

use tokio::time::timeout;
use trunkline_config::{ConnectorEntry, Diagnostic, normalize_name};
use trunkline_transport::credentials::Credentials;
use trunkline_transport::net::Dialer;

use crate::builder::HostBuilder;
use crate::network::Network;

/// Time limit for the list of connectors (CFG-1).
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// A connector of the user's claude.ai account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connector {
    /// The ID.
    pub id: String,
    /// The display name.
    pub display_name: String,
    /// The URL of the vendor's server. Connections go through the proxy; this URL identifies
    /// duplicates (CFG-8).
    pub url: String,
    /// The URL for the `claudeai-proxy` transport.
    pub proxy_url: String,
}

impl Connector {
    /// Creates a connector.
    pub fn new(
        id: impl Into<String>,
        display_name: impl Into<String>,
        url: impl Into<String>,
        proxy_url: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            display_name: display_name.into(),
            url: url.into(),
            proxy_url: proxy_url.into(),
        }
    }
}

/// The connectors and warnings about omitted ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectorList {
    /// The connectors in the order of the list.
    pub connectors: Vec<Connector>,
    /// Omitted connectors, with reasons.
    pub warnings: Vec<String>,
}

impl ConnectorList {
    /// Returns the server name of each connector in order. All names are unique after
    /// normalization.
    ///
    /// ```
    /// use trunkline::connectors::{Connector, ConnectorList};
    ///
    /// let named = |display_name: &str| {
    ///     Connector::new("id", display_name, "https://mcp.example", "https://proxy.example/id")
    /// };
    /// let list = ConnectorList::from(vec![named("Slack"), named("Slack!"), named("Slack")]);
    /// assert_eq!(
    ///     list.names(),
    ///     ["claude.ai Slack", "claude.ai Slack! (2)", "claude.ai Slack (3)"]
    /// );
    /// ```
    pub fn names(&self) -> Vec<String> {
        let mut taken = HashSet::new();
        self.connectors
            .iter()
            .map(|connector| unique(name_of(&connector.display_name), &mut taken))
            .collect()
    }
}

impl From<Vec<Connector>> for ConnectorList {
    fn from(connectors: Vec<Connector>) -> Self {
        Self {
            connectors,
            warnings: Vec::new(),
        }
    }
}

/// The future returned by [`Connectors::list`].
pub type Listing<'a> =
    Pin<Box<dyn Future<Output = Result<ConnectorList, ConnectorsError>> + Send + 'a>>;

/// Lists connectors; embedders can supply their own implementation.
pub trait Connectors: Send + Sync + 'static {
    /// Lists all connectors of the account. Must complete on its own.
    fn list(&self) -> Listing<'_>;

    /// Like [`Connectors::list`], over the host's dialer with its proxies, CA certificates and
    /// client certificate.
    fn list_over<'a>(&'a self, dialer: &'a Dialer) -> Listing<'a> {
        let _ = dialer;
        self.list()
    }

    /// Returns the credentials for the connectors' proxy.
    fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        None
    }
}

/// Returns the server name of a connector (CFG-1).
///
/// ```
/// assert_eq!(trunkline::connectors::name_of("Google Drive"), "claude.ai Google Drive");
/// ```
pub fn name_of(display_name: &str) -> String {
    format!("claude.ai {display_name}")
}

/// The program's connectors.
#[derive(Clone)]
pub(crate) struct ConnectorSource(Arc<dyn Connectors>);

impl ConnectorSource {
    /// Fetches the connectors within the time limit.
    pub(crate) async fn fetch(&self, network: &Network) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
        let source = "claude.ai connectors";
        match timeout(LIST_TIMEOUT, self.0.list_over(network.dialer())).await {
            Ok(Ok(list)) => {
                let named = list.names().into_iter().zip(list.connectors);
                let entry = |(name, connector): (String, Connector)| ConnectorEntry {
                    name,
                    id: connector.id,
                    url: connector.url,
                    proxy_url: connector.proxy_url,
                };
                let warnings = list.warnings.into_iter();
                let warnings = warnings.map(|warning| Diagnostic::warning(source, warning));
                (named.map(entry).collect(), warnings.collect())
            }
            Ok(Err(error)) => {
                let problem = Diagnostic::warning(source, error.to_string());
                (Vec::new(), vec![problem])
            }
            Err(_) => {
                let seconds = LIST_TIMEOUT.as_secs();
                let message = format!("the list took longer than {seconds} s");
                (Vec::new(), vec![Diagnostic::warning(source, message)])
            }
        }
    }
}

/// Connectors.
impl HostBuilder {
    /// Adds the user's claude.ai connectors.
    pub fn connectors(mut self, connectors: impl Connectors) -> Self {
        self.network.connector_credentials = connectors.credentials();
        self.discovery.connectors = Some(ConnectorSource(Arc::new(connectors)));
        self
    }
}

fn unique(name: String, taken: &mut HashSet<String>) -> String {
    if taken.insert(normalize_name(&name)) {
        return name;
    }
    let mut number = 2_usize;
    loop {
        let numbered = format!("{name} ({number})");
        if taken.insert(normalize_name(&numbered)) {
            return numbered;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(display_names: &[&str], expected: &[&str]) {
        let mut taken = HashSet::new();
        let names: Vec<String> = display_names
            .iter()
            .map(|name| unique(name_of(name), &mut taken))
            .collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn names_are_unique_after_normalization() {
        check(&[], &[]);
        check(&["Slack"], &["claude.ai Slack"]);
        check(&["Slack", "slack"], &["claude.ai Slack", "claude.ai slack"]);
        check(
            &["My Files", "My__Files", "My Files (2)"],
            &[
                "claude.ai My Files",
                "claude.ai My__Files (2)",
                "claude.ai My Files (2) (2)",
            ],
        );
        check(&["日本", "中国"], &["claude.ai 日本", "claude.ai 中国 (2)"]);
    }
}
