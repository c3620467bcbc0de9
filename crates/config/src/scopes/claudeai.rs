//! The `claudeai` scope: the connectors of the user's account, fetched by the caller.

use super::Scope;
use crate::diagnostic::Diagnostic;
use crate::entry::{ServerEntry, ServerUrl, TransportEntry};
use crate::load::LoadState;
use crate::names::{check_displayable, quoted_name};

/// The source of connectors in messages.
const SOURCE: &str = "claude.ai";

/// A connector as listed by the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorEntry {
    /// `claude.ai <display name>`.
    pub name: String,
    /// The id for the proxy.
    pub id: String,
    /// The URL of the vendor's server.
    pub url: String,
    /// The URL of the proxy.
    pub proxy_url: String,
}

pub(crate) fn entries(state: &mut LoadState, connectors: &[ConnectorEntry]) {
    for connector in connectors {
        if let Err(message) = check_displayable(&connector.name) {
            let problem = Diagnostic::error(SOURCE, message).about(quoted_name(&connector.name));
            state.diagnostics.push(problem);
            continue;
        }
        let transport = TransportEntry::ClaudeAiProxy {
            url: ServerUrl::new(&connector.url),
            id: Some(connector.id.clone()),
            proxy: Some(ServerUrl::new(&connector.proxy_url)),
        };
        state.entries.push(ServerEntry {
            scope: Scope::ClaudeAi,
            source: SOURCE.to_owned(),
            ..ServerEntry::new(&connector.name, transport)
        });
    }
}
