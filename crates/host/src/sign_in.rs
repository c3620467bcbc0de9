//! Signs in to servers over HTTP (AUTH-1).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_auth::{Auth, ServerAuth, ServerConfig};
use trunkline_config::{ServerEntry, TransportEntry};
use trunkline_transport::net::TlsFiles;

use crate::builder::HostBuilder;
use crate::host::Host;

/// How long [`Host::shutdown`] waits for a refresh: a rotated token that is not stored is lost.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Completes the sign-in settings of a server.
type ConfigureSignIn = Box<dyn Fn(&ServerEntry, ServerConfig) -> ServerConfig + Send + Sync>;

/// The sign-ins of a host's servers. A server keeps its sign-in over reconnections, so that all of
/// its requests share one refresh.
pub(crate) struct SignIns {
    auth: Auth,
    configure: ConfigureSignIn,
    servers: Mutex<HashMap<String, Arc<ServerAuth>>>,
}

impl SignIns {
    fn new(auth: Auth, configure: ConfigureSignIn) -> Self {
        Self {
            auth,
            configure,
            servers: Mutex::default(),
        }
    }

    /// Returns the sign-in of a server; `None` if its entry takes none.
    pub(crate) fn server(&self, entry: &ServerEntry) -> Option<Arc<ServerAuth>> {
        let config = (self.configure)(entry, server_config(entry)?);
        let server = self.auth.server(config);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = server.identity().key().to_owned();
        Some(Arc::clone(servers.entry(key).or_insert(server)))
    }

    /// Returns whether somebody is signed in to a server.
    pub(crate) fn is_signed_in(&self, entry: &ServerEntry) -> bool {
        let accounts = self.auth.accounts();
        accounts.iter().any(|account| account.server == entry.name)
    }

    /// Waits until no refresh is in flight.
    pub(crate) async fn settle(&self) {
        self.auth.settle(SETTLE_TIMEOUT).await;
    }
}

/// Returns the sign-in settings of an entry. An entry over another transport than HTTP, with an
/// `Authorization` header or with an invalid URL has none.
pub fn server_config(entry: &ServerEntry) -> Option<ServerConfig> {
    let TransportEntry::Http(http) = &entry.transport else {
        return None;
    };
    let mut headers = http.headers.keys();
    if headers.any(|name| name.eq_ignore_ascii_case("authorization")) {
        return None;
    }
    let config = ServerConfig::new(&entry.name, http.url.parse().ok()?);
    Some(config.oauth(http.oauth.clone()).tls_files(TlsFiles {
        ca: http.tls.ca.clone(),
        cert: http.tls.cert.clone(),
        key: http.tls.key.clone(),
    }))
}

/// Sign-in.
impl HostBuilder {
    /// Signs in to servers over HTTP with the user's stored sign-ins, and refreshes their tokens.
    /// [`HostBuilder::credentials`] takes precedence.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use trunkline::Host;
    /// use trunkline::auth::{Auth, TransportClient, Vault};
    /// use trunkline::transport::Dialer;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let vault = Arc::new(Vault::new("/home/me/.local/state/my-agent/secrets.json"));
    /// let http = Arc::new(TransportClient::new(Dialer::from_env()));
    /// let auth = Auth::builder(vault, "/home/me/.local/state/my-agent/auth", http).build();
    /// let host = Host::builder().auth(auth).start();
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn auth(self, auth: Auth) -> Self {
        self.auth_with(auth, |_, config| config)
    }

    /// Signs in as [`HostBuilder::auth`] does, with settings that entries do not have: `configure`
    /// returns the settings of each server, for example with another [`Grant`] than the user's
    /// sign-in, a client secret or an account.
    ///
    /// ```no_run
    /// use trunkline::Host;
    /// use trunkline::auth::{Auth, Grant, Secret};
    ///
    /// # fn example(auth: Auth, secret: Secret) {
    /// // The program itself signs in, with the `oauth.clientId` of the entry and this secret.
    /// let builder = Host::builder().auth_with(auth, move |entry, config| {
    ///     if entry.name == "reports" {
    ///         let grant = Grant::ClientCredentials { key: None };
    ///         config.client_secret(secret.clone()).grant(grant)
    ///     } else {
    ///         config
    ///     }
    /// });
    /// # drop(builder);
    /// # }
    /// ```
    ///
    /// [`Grant`]: crate::auth::Grant
    pub fn auth_with(
        mut self,
        auth: Auth,
        configure: impl Fn(&ServerEntry, ServerConfig) -> ServerConfig + Send + Sync + 'static,
    ) -> Self {
        let sign_ins = SignIns::new(auth, Box::new(configure));
        self.network.sign_ins = Some(Arc::new(sign_ins));
        self
    }
}

impl Host {
    /// Returns the sign-in of a server, to start or end it. After a sign-in, [`Host::reconnect`]
    /// connects the server. `None` without [`HostBuilder::auth`], and for servers that take no
    /// sign-in.
    pub fn server_auth(&self, server: &str) -> Option<Arc<ServerAuth>> {
        let connection = self.connection(server)?;
        let entry = connection.source().entry()?;
        let sign_ins = self.network().sign_ins.as_ref()?;
        sign_ins.server(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_servers_without_a_header_of_their_own_are_signed_in_to() {
        let http = |url: &str| ServerEntry::http("s", url);
        let cases = [
            (http("https://a.example/mcp"), true),
            (ServerEntry::sse("s", "https://a.example/sse"), true),
            (http("https://a.example/mcp").header("X-Team", "core"), true),
            (
                http("https://a.example/mcp").header("authorization", "Bearer x"),
                false,
            ),
            (http("not a url"), false),
            (ServerEntry::ws("s", "wss://a.example/"), false),
            (ServerEntry::stdio("s", "server", [""; 0]), false),
        ];
        for (entry, expected) in cases {
            assert_eq!(server_config(&entry).is_some(), expected, "{entry:?}");
        }
    }
}
