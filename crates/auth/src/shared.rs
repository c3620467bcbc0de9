//! Everything that the servers of a process share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::RwLock;
use url::Url;

use crate::error::AuthError;
use crate::http::HttpClient;
use crate::needs_auth::NeedsAuthMemory;
use crate::server::{IdpConfig, Logout, Revocation, ServerAuth, ServerConfig};
use crate::tokens::{Account, ClaudeCodeTokens, TokenStore};
use crate::vault::Vault;

pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The sign-ins of a user. Cheap to clone.
#[derive(Clone)]
pub struct Auth(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: TokenStore,
    pub(crate) http: Arc<dyn HttpClient>,
    pub(crate) needs_auth: NeedsAuthMemory,
    pub(crate) client_metadata_url: Option<Url>,
    pub(crate) claude_code: Option<ClaudeCodeTokens>,
    pub(crate) clock: Clock,
    /// Held for reading by every task that must not be interrupted.
    pub(crate) running: RwLock<()>,
    /// How often [`Auth::settle`] was called: a task that waited meanwhile does not begin.
    pub(crate) settled: AtomicU64,
}

impl Shared {
    pub(crate) fn now(&self) -> SystemTime {
        (self.clock)()
    }
}

/// Configures an [`Auth`].
pub struct AuthBuilder {
    vault: Arc<Vault>,
    directory: PathBuf,
    http: Arc<dyn HttpClient>,
    client_metadata_url: Option<Url>,
    claude_code: Option<PathBuf>,
    clock: Clock,
}

impl AuthBuilder {
    /// Sets the URL of our Client ID Metadata Document, for authorization servers that accept one.
    #[must_use]
    pub fn client_metadata_url(mut self, url: Url) -> Self {
        self.client_metadata_url = Some(url);
        self
    }

    /// Also uses valid access tokens from Claude Code's credentials file
    /// (`~/.claude/.credentials.json`). They are never refreshed, and the file is never written.
    #[must_use]
    pub fn claude_code_credentials(mut self, file: impl Into<PathBuf>) -> Self {
        self.claude_code = Some(file.into());
        self
    }

    /// Replaces the clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Creates the [`Auth`]. Nothing is read before it is needed.
    pub fn build(self) -> Auth {
        Auth(Arc::new(Shared {
            needs_auth: NeedsAuthMemory::at(self.directory.join("needs-auth.json")),
            store: TokenStore::new(self.vault, self.directory),
            http: self.http,
            client_metadata_url: self.client_metadata_url,
            claude_code: self.claude_code.map(ClaudeCodeTokens::at),
            clock: self.clock,
            running: RwLock::default(),
            settled: AtomicU64::new(0),
        }))
    }
}

/// Which outcome of several is reported: one that failed, or else one of somebody signed in.
fn weight(logout: &Logout) -> u8 {
    match logout.revocation {
        Revocation::Failed(_) => 2,
        _ => u8::from(logout.was_signed_in),
    }
}

impl Auth {
    /// Starts to configure. `directory` holds locks, the needs-auth memory and the list of
    /// accounts, all without secrets; all processes of a user share it.
    pub fn builder(
        vault: Arc<Vault>,
        directory: impl Into<PathBuf>,
        http: Arc<dyn HttpClient>,
    ) -> AuthBuilder {
        AuthBuilder {
            vault,
            directory: directory.into(),
            http,
            client_metadata_url: None,
            claude_code: None,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Returns the authentication of one server. A process needs one per server and account:
    /// concurrent requests share its tokens and its refresh.
    pub fn server(&self, config: ServerConfig) -> Arc<ServerAuth> {
        Arc::new(ServerAuth::new(Arc::clone(&self.0), config))
    }

    /// Returns the sign-in at an enterprise identity provider (AUTH-9), for
    /// [`Grant::Enterprise`](crate::Grant::Enterprise). One sign-in serves all servers.
    pub fn idp(&self, config: IdpConfig) -> Arc<ServerAuth> {
        Arc::new(ServerAuth::new_idp(Arc::clone(&self.0), config))
    }

    /// Lists the stored sign-ins of all servers, without secrets. Reads a small file, not the
    /// keychain.
    pub fn accounts(&self) -> Vec<Account> {
        self.0.store.accounts()
    }

    /// Signs out of a server that is no longer configured, or configured otherwise: of all its
    /// stored sign-ins, or of those of one account. `None` if there are none.
    pub async fn logout_stored(
        &self,
        server: &str,
        account: Option<&str>,
    ) -> Result<Option<Logout>, AuthError> {
        let mut logout: Option<Logout> = None;
        for (identity, stored) in self.0.store.identities() {
            let is_wanted =
                stored.server == server && account.is_none_or(|account| account == stored.account);
            let Some(url) = stored.url.parse().ok().filter(|_| is_wanted) else {
                continue;
            };
            let config = ServerConfig::new(server, url);
            let ended = ServerAuth::stored(Arc::clone(&self.0), config, identity);
            let ended = ended.logout().await?;
            if logout
                .as_ref()
                .is_none_or(|known| weight(&ended) > weight(known))
            {
                logout = Some(ended);
            }
        }
        Ok(logout)
    }

    /// The memory of servers that asked for a sign-in (AUTH-7).
    pub fn needs_auth(&self) -> &NeedsAuthMemory {
        &self.0.needs_auth
    }

    /// Waits until no refresh is in flight, at most `limit`. Call it before the process exits: a
    /// refresh token that is rotated but not stored is lost. Returns whether all ended.
    pub async fn settle(&self, limit: Duration) -> bool {
        self.0.settled.fetch_add(1, Ordering::SeqCst);
        tokio::time::timeout(limit, self.0.running.write())
            .await
            .is_ok()
    }
}
