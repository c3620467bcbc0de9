//! The `claudeai` scope: the connectors of the user's account, which somebody else has fetched.

use super::Scope;
use crate::diagnostic::Diagnostic;
use crate::entry::{ServerEntry, ServerUrl, TransportEntry};
use crate::load_state::LoadState;
use crate::names::{quotable, unshowable};

/// Where connectors come from, in messages.
const SOURCE: &str = "claude.ai";

/// A connector, as the account lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorEntry {
    /// `claude.ai <display name>`.
    pub name: String,
    /// By which the proxy knows it.
    pub id: String,
    /// The vendor's server behind it.
    pub url: String,
    /// Where the proxy to it is.
    pub proxy_url: String,
}

pub(crate) fn entries(gather: &mut LoadState, connectors: &[ConnectorEntry]) {
    let fits = |connector: &&ConnectorEntry| unshowable(&connector.name).is_none();
    for connector in connectors.iter().filter(|connector| !fits(connector)) {
        let message = unshowable(&connector.name).unwrap_or_default();
        let problem = Diagnostic::error(SOURCE, message).about(quotable(&connector.name));
        gather.diagnostics.push(problem);
    }
    let entry = |connector: &ConnectorEntry| ServerEntry {
        scope: Scope::ClaudeAi,
        source: SOURCE.to_owned(),
        ..ServerEntry::new(
            &connector.name,
            TransportEntry::ClaudeAiProxy {
                url: ServerUrl::new(&connector.url),
                id: Some(connector.id.clone()),
                proxy: Some(ServerUrl::new(&connector.proxy_url)),
            },
        )
    };
    gather
        .entries
        .extend(connectors.iter().filter(fits).map(entry));
}
