//! The connectors of the user's claude.ai account: the `claudeai` scope of CFG-1.
//!
//! `claude_ai` asks for the list, `credentials` finds the token to ask with, `page` reads an answer. An embedder that knows
//! the connectors from elsewhere implements [`Connectors`]. `account` is who we are to the proxy that they are behind.

mod account;
mod claude_ai;
mod credentials;
mod error;
mod page;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use claude_ai::ClaudeAi;
pub use error::ConnectorsError;

use trunkline_config::normalize_name;
use trunkline_transport::http::Credentials;
use trunkline_transport::net::Dialer;

/// One connector of the user's claude.ai account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connector {
    /// What claude.ai calls it.
    pub id: String,
    /// What people call it.
    pub display_name: String,
    /// Where the vendor's server is, which nobody connects to directly; by it a connector's twin is known (CFG-8).
    pub url: String,
    /// Where the `claudeai-proxy` transport connects.
    pub proxy_url: String,
}

/// The connectors, and what was wrong with those that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectorList {
    /// In the order they were listed.
    pub connectors: Vec<Connector>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

impl ConnectorList {
    /// The server name of each connector, in the same order, no two of which normalise to the same one.
    ///
    /// ```
    /// use trunkline::connectors::{Connector, ConnectorList};
    ///
    /// let named = |display_name: &str| Connector {
    ///     id: "id".to_owned(),
    ///     display_name: display_name.to_owned(),
    ///     url: "https://mcp.example".to_owned(),
    ///     proxy_url: "https://proxy.example/id".to_owned(),
    /// };
    /// let list = ConnectorList {
    ///     connectors: vec![named("Slack"), named("Slack!"), named("Slack")],
    ///     warnings: Vec::new(),
    /// };
    /// assert_eq!(list.names(), ["claude.ai Slack", "claude.ai Slack! (2)", "claude.ai Slack (3)"]);
    /// ```
    pub fn names(&self) -> Vec<String> {
        let mut taken = HashSet::new();
        self.connectors
            .iter()
            .map(|connector| unique(name_of(&connector.display_name), &mut taken))
            .collect()
    }
}

/// The future list of connectors.
pub type Listing<'a> =
    Pin<Box<dyn Future<Output = Result<ConnectorList, ConnectorsError>> + Send + 'a>>;

/// Who lists the connectors; an embedder may supply its own.
pub trait Connectors: Send + Sync + 'static {
    /// All connectors of the account. Must end by itself.
    fn list(&self) -> Listing<'_>;

    /// As [`Connectors::list`], over the host's own way to the network: its proxies, authorities and client certificate.
    fn list_over<'a>(&'a self, dialer: &'a Dialer) -> Listing<'a> {
        let _ = dialer;
        self.list()
    }

    /// Who we are to the proxy that the connectors are behind.
    fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        None
    }
}

/// The name of the server that stands for a connector (CFG-1).
///
/// ```
/// assert_eq!(trunkline::connectors::name_of("Google Drive"), "claude.ai Google Drive");
/// ```
pub fn name_of(display_name: &str) -> String {
    format!("claude.ai {display_name}")
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
