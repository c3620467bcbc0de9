//! How servers on the network are reached, and the credentials for them.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "http")]
use trunkline_auth::SignInReason;
use trunkline_config::ServerEntry;
use trunkline_transport::credentials::Credentials;
use trunkline_transport::net::Dialer;

use crate::builder::HostBuilder;
#[cfg(feature = "http")]
use crate::sign_in::SignIns;

/// Looks up the credentials for a server.
type CredentialsLookup = Arc<dyn Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync>;

/// The network as the program configured it.
#[derive(Clone, Default)]
pub(crate) struct Network {
    /// That of the environment unless the program sets one.
    dialer: OnceLock<Dialer>,
    credentials: Option<CredentialsLookup>,
    #[cfg(feature = "http")]
    pub(crate) sign_ins: Option<Arc<SignIns>>,
    /// Whether no tool starts sign-ins (AUTH-8).
    #[cfg(feature = "http")]
    pub(crate) no_sign_in_tools: bool,
    /// Credentials for the proxy of claude.ai's connectors.
    pub(crate) connector_credentials: Option<Arc<dyn Credentials>>,
}

impl Network {
    pub(crate) fn dialer(&self) -> &Dialer {
        self.dialer.get_or_init(Dialer::from_env)
    }

    /// Returns the credentials for a server: the program's, or else the user's sign-in.
    pub(crate) fn credentials(&self, entry: &ServerEntry) -> Option<Arc<dyn Credentials>> {
        let credentials = self.program_credentials(entry);
        #[cfg(feature = "http")]
        let credentials = credentials.or_else(|| {
            let server = self.sign_in(entry)?;
            Some(server as Arc<dyn Credentials>)
        });
        credentials
    }

    /// Returns the sign-in of a server, if it has one.
    #[cfg(feature = "http")]
    pub(crate) fn sign_in(&self, entry: &ServerEntry) -> Option<Arc<trunkline_auth::ServerAuth>> {
        self.sign_ins.as_ref()?.server(entry)
    }

    fn program_credentials(&self, entry: &ServerEntry) -> Option<Arc<dyn Credentials>> {
        self.credentials.as_ref().and_then(|find| find(entry))
    }

    /// Returns the identity that a server's catalog belongs to: the empty text without a sign-in,
    /// `None` if it cannot be told.
    pub(crate) fn identity(&self, entry: &ServerEntry) -> Option<String> {
        if self.program_credentials(entry).is_some() {
            return None;
        }
        #[cfg(feature = "http")]
        if let Some(sign_ins) = &self.sign_ins {
            return sign_ins.identity(entry);
        }
        Some(String::new())
    }

    /// Returns why a server waits for a sign-in, if that is known, as a sentence.
    pub(crate) fn sign_in_message(&self, entry: &ServerEntry) -> Option<String> {
        #[cfg(feature = "http")]
        if let Some(sign_ins) = &self.sign_ins {
            let demand = sign_ins.demand(entry)?;
            let needs_user = sign_ins
                .server(entry)
                .is_some_and(|server| server.needs_user());
            return match demand.reason {
                SignInReason::SignedOut if needs_user => None,
                // The server says why.
                SignInReason::TokenRefused => None,
                SignInReason::MissingScopes(scopes) => Some(format!(
                    "the server needs permissions that the sign-in lacks: {}",
                    scopes.join(" ")
                )),
                _ => Some(demand.message),
            };
        }
        let _ = entry;
        None
    }

    /// Returns why the last attempt to get a token failed, although no sign-in is needed.
    pub(crate) fn token_failure(&self, entry: &ServerEntry) -> Option<String> {
        #[cfg(feature = "http")]
        if let Some(sign_ins) = &self.sign_ins {
            let failure = sign_ins.failure(entry)?;
            return Some(format!("could not get a token: {failure}"));
        }
        let _ = entry;
        None
    }

    /// Returns whether there is no point in connecting: the server asked for a sign-in shortly ago
    /// (AUTH-7).
    pub(crate) async fn is_sign_in_demanded(&self, entry: &ServerEntry) -> bool {
        #[cfg(feature = "http")]
        if self.program_credentials(entry).is_none()
            && let Some(sign_ins) = &self.sign_ins
        {
            return sign_ins.is_demanded(entry).await;
        }
        let _ = entry;
        false
    }

    /// Returns whether a tool starts the sign-in to a server (AUTH-8).
    pub(crate) fn has_sign_in_tool(&self, entry: &ServerEntry) -> bool {
        #[cfg(feature = "http")]
        if !self.no_sign_in_tools
            && self.program_credentials(entry).is_none()
            && let Some(sign_ins) = &self.sign_ins
        {
            let server = sign_ins.server(entry);
            return server.is_some_and(|server| server.needs_user());
        }
        let _ = entry;
        false
    }

    /// Returns the scopes that a refused request lacks, by the server's challenge (AUTH-6).
    pub(crate) fn scopes_of(&self, entry: &ServerEntry, challenge: Option<&str>) -> Vec<String> {
        #[cfg(feature = "http")]
        {
            let challenge = challenge.and_then(trunkline_auth::Challenge::parse);
            let error = challenge.and_then(|challenge| challenge.error);
            if error.as_deref() == Some("insufficient_scope") {
                return self.missing_scopes(entry);
            }
        }
        let _ = (entry, challenge);
        Vec::new()
    }

    /// Returns the scopes that requests to a server lack (AUTH-6).
    pub(crate) fn missing_scopes(&self, entry: &ServerEntry) -> Vec<String> {
        #[cfg(feature = "http")]
        if let Some(sign_ins) = &self.sign_ins
            && let Some(demand) = sign_ins.demand(entry)
            && let SignInReason::MissingScopes(scopes) = demand.reason
        {
            return scopes;
        }
        let _ = entry;
        Vec::new()
    }

    /// Waits until nothing is left to store.
    pub(crate) async fn settle(&self) {
        #[cfg(feature = "http")]
        if let Some(sign_ins) = &self.sign_ins {
            sign_ins.settle().await;
        }
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
