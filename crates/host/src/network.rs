//! How servers on the network are reached, and the credentials for them.

use std::sync::{Arc, OnceLock};

use trunkline_config::ServerEntry;
use trunkline_transport::credentials::Credentials;
use trunkline_transport::net::Dialer;

use crate::builder::HostBuilder;

/// Looks up the credentials for a server.
type CredentialsLookup = Arc<dyn Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync>;

/// The network as the program configured it.
#[derive(Clone, Default)]
pub(crate) struct Network {
    /// That of the environment unless the program sets one.
    dialer: OnceLock<Dialer>,
    credentials: Option<CredentialsLookup>,
    /// Credentials for the proxy of claude.ai's connectors.
    pub(crate) connector_credentials: Option<Arc<dyn Credentials>>,
}

impl Network {
    pub(crate) fn dialer(&self) -> &Dialer {
        self.dialer.get_or_init(Dialer::from_env)
    }

    /// Returns the program's credentials for a server.
    pub(crate) fn credentials(&self, entry: &ServerEntry) -> Option<Arc<dyn Credentials>> {
        self.credentials.as_ref().and_then(|find| find(entry))
    }

    /// Returns whether the program signs in to a server.
    pub(crate) fn has_credentials(&self, entry: &ServerEntry) -> bool {
        self.credentials(entry).is_some()
    }
}

/// The network.
impl HostBuilder {
    /// Supplies credentials for each HTTP server: its token, and a callback when the server refuses
    /// it. Not called for an entry with an `Authorization` header.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trunkline::Host;
    /// use trunkline::auth::{Credentials, Token};
    ///
    /// let github: Arc<dyn Credentials> = Arc::new(async || Ok(Token::bearer("secret")));
    /// let builder = Host::builder()
    ///     .credentials(move |entry| (entry.name == "github").then(|| Arc::clone(&github)));
    /// # drop(builder);
    /// ```
    pub fn credentials(
        mut self,
        find: impl Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync + 'static,
    ) -> Self {
        self.network.credentials = Some(Arc::new(find));
        self
    }

    /// Sets how servers on the network are reached. Defaults to the environment's proxies.
    pub fn dialer(mut self, dialer: Dialer) -> Self {
        self.network.dialer = OnceLock::from(dialer);
        self
    }
}
