//! One host and its clients.

use std::sync::Arc;

use trunkline::{Host, HostBuilder};

use crate::client::{ClientInfo, ConnectError};
use crate::session::ClientSession;

/// Options of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The name that clients see.
    pub name: String,
    /// The version that clients see.
    pub version: String,
    /// Shows `ToolSearch` and `CallTool` instead of every tool (GW-3).
    pub search: bool,
    /// The profile of clients that name none.
    pub profile: Option<String>,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            search: false,
            profile: None,
        }
    }
}

/// One host, seen by any number of clients as one MCP server. Clones share it.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) shared: Arc<GatewayShared>,
}

pub(crate) struct GatewayShared {
    pub(crate) host: Host,
    pub(crate) options: GatewayOptions,
}

impl Gateway {
    /// Starts a host that sends its servers' questions to the clients of this gateway.
    pub fn start(builder: HostBuilder, options: GatewayOptions) -> Self {
        let host = builder.start();
        Self {
            shared: Arc::new(GatewayShared { host, options }),
        }
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Connects a client.
    pub fn connect(&self, client: ClientInfo) -> Result<Arc<ClientSession>, ConnectError> {
        Ok(ClientSession::new(Arc::clone(&self.shared), client))
    }

    /// Closes all sessions, then the host.
    pub async fn shutdown(&self) {
        self.shared.host.shutdown().await;
    }
}
