//! Signs in to servers over HTTP (AUTH-1).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use trunkline_auth::{Auth, AuthError, Grant, Login, ServerAuth, ServerConfig, SignInDemand};
use trunkline_config::{GrantType, OAuthEntry, ServerEntry, TlsEntry, TransportEntry};
use trunkline_transport::credentials::Credentials;
use trunkline_transport::net::TlsFiles;

use crate::audit::AuditEvent;
use crate::builder::HostBuilder;
use crate::connection::Connection;
use crate::host::Host;
use crate::sanitize::one_line;
use crate::tool_output::{ToolError, ToolOutput};

/// How long [`Host::shutdown`] waits for a refresh: a rotated token that is not stored is lost.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Completes the sign-in settings of a server.
type ConfigureSignIn = Box<dyn Fn(&ServerEntry, ServerConfig) -> ServerConfig + Send + Sync>;

/// The sign-ins of a host's servers. Each connection keeps its sign-in, so that all requests of a
/// server share one refresh, also over reconnections.
pub(crate) struct SignIns {
    auth: Auth,
    configure: ConfigureSignIn,
    /// By the key of their identity.
    servers: Mutex<HashMap<String, Vec<KnownSignIn>>>,
    /// The sign-ins that end with a new connection, each with that connection.
    followed: Mutex<Vec<(Weak<Login>, Weak<Connection>)>>,
}

/// A sign-in and the settings that it was created with. Not all of them are part of its identity.
struct KnownSignIn {
    oauth: OAuthEntry,
    tls: TlsEntry,
    auth: Weak<ServerAuth>,
}

impl SignIns {
    fn new(auth: Auth, configure: ConfigureSignIn) -> Self {
        Self {
            auth,
            configure,
            servers: Mutex::default(),
            followed: Mutex::default(),
        }
    }

    /// Returns the sign-in of a server; `None` if its entry takes none. Entries that differ in
    /// their settings share the stored tokens and nothing else, so that a change takes effect.
    pub(crate) fn server(&self, entry: &ServerEntry) -> Option<Arc<ServerAuth>> {
        let TransportEntry::Http(http) = &entry.transport else {
            return None;
        };
        let config = (self.configure)(entry, server_config(entry)?);
        let server = self.auth.server(config);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = servers.entry(server.identity().key().to_owned());
        let known = known.or_default();
        known.retain(|known| known.auth.strong_count() > 0);
        let same = |known: &&KnownSignIn| known.oauth == http.oauth && known.tls == http.tls;
        if let Some(found) = known
            .iter()
            .find(same)
            .and_then(|known| known.auth.upgrade())
        {
            return Some(found);
        }
        // A sign-in with the old settings would keep the new one waiting.
        for old in known.iter().filter_map(|known| known.auth.upgrade()) {
            old.cancel_login();
        }
        known.push(KnownSignIn {
            oauth: http.oauth.clone(),
            tls: http.tls.clone(),
            auth: Arc::downgrade(&server),
        });
        Some(server)
    }

    /// Returns the identity that a server's catalog belongs to: the empty text if nobody is signed
    /// in, `None` if it cannot be told.
    pub(crate) fn identity(&self, entry: &ServerEntry) -> Option<String> {
        let Some(server) = self.server(entry) else {
            return Some(String::new());
        };
        if server.uses_foreign_token() {
            return None;
        }
        let Some(account) = server.listed_account() else {
            // The list is kept as well as possible: a token that it does not know is somebody's.
            return (!server.has_token()).then(String::new);
        };
        // Another process may have signed in to another account since.
        if server.has_token() && !server.uses(&account) {
            return None;
        }
        let (key, issuer) = (server.identity().key(), &account.issuer);
        Some(format!("{key}\n{issuer}\n{}", account.signed_in_at))
    }

    /// Returns why the last attempt to get a token failed, although no sign-in is needed.
    pub(crate) fn failure(&self, entry: &ServerEntry) -> Option<AuthError> {
        let server = self.server(entry)?;
        server
            .last_failure()
            .filter(|_| server.sign_in_demand().is_none())
    }

    /// Returns why a server waits for a sign-in, if that is known.
    pub(crate) fn demand(&self, entry: &ServerEntry) -> Option<SignInDemand> {
        self.server(entry)?.sign_in_demand()
    }

    /// Returns whether a server asked for a sign-in in the last minutes, in any process, and nobody
    /// has signed in since (AUTH-7).
    pub(crate) async fn is_demanded(&self, entry: &ServerEntry) -> bool {
        // Other grants may succeed at any time.
        let server = self.server(entry).filter(|server| server.needs_user());
        let Some(server) = server else {
            return false;
        };
        // Another program may have signed in.
        server.recent_demand().await.is_some() && matches!(server.token().await, Ok(None))
    }

    /// Starts a sign-in, or joins the one that is under way. Once it succeeds, the server is
    /// connected again.
    async fn start(
        &self,
        server: &ServerAuth,
        connection: &Arc<Connection>,
    ) -> Result<Arc<Login>, AuthError> {
        let login = server.start_login().await?;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|(login, _)| login.strong_count() > 0);
        let is_known = |(known, of): &(Weak<Login>, Weak<Connection>)| {
            std::ptr::eq(known.as_ptr(), Arc::as_ptr(&login))
                && std::ptr::eq(of.as_ptr(), Arc::as_ptr(connection))
        };
        if !followed.iter().any(is_known) {
            let connection = Arc::downgrade(connection);
            followed.push((Arc::downgrade(&login), Weak::clone(&connection)));
            let login = Arc::clone(&login);
            tokio::spawn(async move {
                let outcome = login.wait().await;
                let Some(connection) = connection.upgrade() else {
                    return;
                };
                connection.audit().record(|| AuditEvent::SignIn {
                    server: connection.source().name().to_owned(),
                    action: "sign-in-tool",
                    outcome: if outcome.is_ok() { "done" } else { "failed" },
                });
                if outcome.is_ok() {
                    connection.reconnect().await;
                }
            });
        }
        Ok(login)
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
    let mut config = ServerConfig::new(&entry.name, http.url.parse().ok()?);
    if let Some(account) = &http.account {
        config = config.account(account);
    }
    if http.oauth.grant_type == GrantType::ClientCredentials {
        config = config.grant(Grant::ClientCredentials { key: None });
    }
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

    /// Sets whether the tool `mcp__<server>__authenticate` stands in for the tools of a server that
    /// waits for a sign-in (AUTH-8). Defaults to true. A program that signs in by other means turns
    /// it off.
    pub fn sign_in_tools(mut self, offered: bool) -> Self {
        self.network.no_sign_in_tools = !offered;
        self
    }
}

impl Host {
    /// Starts the sign-in to a server for a model, and returns the URL for the user (AUTH-8).
    pub(crate) async fn start_sign_in(
        &self,
        server: &str,
        connection: &Arc<Connection>,
    ) -> ToolOutput {
        let sign_ins = self.network().sign_ins.as_ref();
        let found = sign_ins.zip(self.server_auth(server));
        let Some((sign_ins, auth)) = found else {
            return ToolOutput::from(ToolError::from("the server takes no sign-in"));
        };
        let server = one_line(server).0;
        let started = sign_ins.start(&auth, connection).await;
        self.audit().record(|| AuditEvent::SignIn {
            server: server.to_string(),
            action: "sign-in-tool",
            outcome: if started.is_ok() { "started" } else { "failed" },
        });
        match started {
            Ok(login) => ToolOutput::text(format!(
                "Ask the user to open this URL in a browser and to sign in to \"{server}\":\n\n{}\n\n\
                 The tools of \"{server}\" are available once that is done.",
                login.url()
            )),
            Err(error) => ToolOutput::from(ToolError::from(format!(
                "the sign-in to \"{server}\" could not be started: {error}"
            ))),
        }
    }

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
