//! The authentication of one server: its tokens as the transport's [`Credentials`].

mod client_key;
mod config;
mod device_login;
mod enterprise;
mod login;
mod logout;
mod obtain;
mod refusal;
mod renewal;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_transport::http::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, Refusal, Token,
};

pub use config::{AssertionSource, Grant, IdpConfig, ServerConfig};
pub use device_login::DeviceLogin;
pub use login::Login;
pub use logout::{Logout, Revocation};

use self::config::Kind;
use self::renewal::{Flight, Renewal, RenewalCause};
use crate::Secret;
use crate::challenge::Challenge;
use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind};
use crate::flow::{BoundKey, DpopKey, random_fraction};
use crate::guard;
use crate::http::Requester;
use crate::needs_auth::seconds;
use crate::scopes::union;
use crate::shared::Shared;
use crate::tokens::{
    Account, Record, RefreshTiming, ServerIdentity, TokenStore, Tokens, is_due, refresh_time,
};

/// Authenticates requests to one server for one account. See the [crate] documentation.
///
/// It implements [`Credentials`]: [`token`](Credentials::token) refreshes a token that is due, and
/// [`refused`](Credentials::refused) one that the server refuses. Refreshes are single-flight in
/// the process and locked across processes. Dropping it cancels a sign-in that is under way.
pub struct ServerAuth {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    config: ServerConfig,
    kind: Kind,
    identity: ServerIdentity,
    state: Mutex<State>,
    flight: Mutex<Option<Flight>>,
    login: Mutex<Option<Arc<Login>>>,
    /// The last key that tokens were bound to, with the nonces that it has learned.
    dpop: Mutex<Option<Arc<DpopKey>>>,
    start: tokio::sync::Mutex<()>,
}

/// What this process knows.
#[derive(Default)]
struct State {
    /// Whether the vault was read.
    loaded: bool,
    current: Option<Current>,
    /// When the sign-in of the token in use happened.
    signed_in_at: u64,
    /// The last challenge of the server.
    challenge: Option<Challenge>,
    demand: Option<SignInDemand>,
    /// Failed refreshes in a row, and when the next may follow.
    failures: u32,
    retry_at: Option<std::time::Instant>,
    last_failure: Option<AuthError>,
    storage_warning: Option<String>,
}

/// The token in use.
#[derive(Clone)]
struct Current {
    token: Token,
    access: Secret,
    timing: Option<RefreshTiming>,
    obtained_at: u64,
    /// Whether it comes from this crate's vault.
    is_own: bool,
}

/// A server that waits for the user to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignInDemand {
    /// Why.
    pub reason: SignInReason,
    /// The server's challenge, if it sent one.
    pub challenge: Option<Challenge>,
    /// A sentence for the user.
    pub message: String,
}

/// Why the user has to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInReason {
    /// Nobody has signed in yet.
    SignedOut,
    /// The sign-in has ended: the refresh token is no longer accepted, or there is none.
    Ended,
    /// The server refuses a valid token.
    TokenRefused,
    /// A request needs these scopes in addition (AUTH-6).
    MissingScopes(Vec<String>),
}

impl ServerAuth {
    pub(crate) fn new(shared: Arc<Shared>, config: ServerConfig) -> Self {
        let identity = ServerIdentity::new(
            &config.name,
            &config.url,
            &config.oauth,
            config.account.as_deref(),
        );
        Self::with_kind(shared, config, Kind::Resource, identity)
    }

    /// A sign-in as it is stored, whatever the settings of its server are now.
    pub(crate) fn stored(
        shared: Arc<Shared>,
        config: ServerConfig,
        identity: ServerIdentity,
    ) -> Self {
        Self::with_kind(shared, config, Kind::Resource, identity)
    }

    pub(crate) fn new_idp(shared: Arc<Shared>, idp: IdpConfig) -> Self {
        let identity = ServerIdentity::of_idp(idp.issuer.as_str(), &idp.client_id);
        let (config, kind) = idp.into_server();
        Self::with_kind(shared, config, kind, identity)
    }

    fn with_kind(
        shared: Arc<Shared>,
        config: ServerConfig,
        kind: Kind,
        identity: ServerIdentity,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                shared,
                config,
                kind,
                identity,
                state: Mutex::default(),
                flight: Mutex::default(),
                login: Mutex::default(),
                dpop: Mutex::default(),
                start: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// The identity under which the sign-in is stored.
    pub fn identity(&self) -> &ServerIdentity {
        &self.inner.identity
    }

    /// Returns who is signed in, until when and with which scopes; `None` if nobody is.
    pub async fn account(&self) -> Result<Option<Account>, AuthError> {
        let record = self.inner.load().await?;
        Ok(record.as_ref().and_then(Account::of))
    }

    /// Returns who is signed in according to the list of accounts: no keychain is asked. Blocks
    /// for a small file.
    pub fn listed_account(&self) -> Option<Account> {
        self.inner.store().account(&self.inner.identity)
    }

    /// Returns whether the user signs in, not the program itself.
    pub fn needs_user(&self) -> bool {
        self.inner.needs_user()
    }

    /// Returns whether a token is in use: from this vault, or of another program such as Claude
    /// Code.
    pub fn has_token(&self) -> bool {
        self.inner.state().current.is_some()
    }

    /// Returns whether the token in use belongs to another program, such as Claude Code.
    pub fn uses_foreign_token(&self) -> bool {
        let state = self.inner.state();
        state
            .current
            .as_ref()
            .is_some_and(|current| !current.is_own)
    }

    /// Returns whether the token in use comes from this sign-in. Another process may have signed in
    /// to another account since.
    pub fn uses(&self, account: &Account) -> bool {
        let state = self.inner.state();
        state.current.is_some() && state.signed_in_at == account.signed_in_at
    }

    /// Returns why the last attempt to get a token failed, although no sign-in is needed. A later
    /// attempt may succeed.
    pub fn last_failure(&self) -> Option<AuthError> {
        self.inner.state().last_failure.clone()
    }

    /// Returns the scopes that another sign-in would add: those that requests have lacked since the
    /// last one, in any process (AUTH-6), and those of the settings that were never requested.
    pub async fn missing_scopes(&self) -> Result<Vec<String>, AuthError> {
        let Some(record) = self.inner.read_record().await? else {
            return Ok(Vec::new());
        };
        let configured = self.inner.config.oauth.scopes.iter().flatten();
        let new: Vec<String> = configured
            .filter(|scope| !record.requested_scopes.contains(scope))
            .cloned()
            .collect();
        Ok(union(&record.missing_scopes, &new))
    }

    /// Returns why the user has to sign in, if a request was refused for that.
    pub fn sign_in_demand(&self) -> Option<SignInDemand> {
        self.inner.state().demand.clone()
    }

    /// Returns the challenge of the server if it asked for a sign-in in the last 15 minutes, in
    /// any process, and nobody has signed in since: then there is no point in connecting (AUTH-7).
    pub async fn recent_demand(&self) -> Option<Challenge> {
        let inner = Arc::clone(&self.inner);
        let recalled = blocking(move || {
            let now = inner.shared.now();
            inner.shared.needs_auth.recall(inner.identity.key(), now)
        });
        recalled.await.ok().flatten()
    }

    /// Returns a warning about where the last tokens are stored (AUTH-3): in a file because there
    /// is no keychain, or only in this process because the vault failed. To be shown once.
    pub fn storage_warning(&self) -> Option<String> {
        self.inner.state().storage_warning.clone()
    }

    /// Reports the challenge of a refusal that did not pass through [`Credentials::refused`].
    pub fn set_challenge(&self, challenge: Challenge) {
        self.inner.state().challenge = Some(challenge);
    }

    /// Starts a sign-in in the browser, or returns the one that is under way. The server's
    /// challenge, if one is known, decides the authorization server and the scopes.
    ///
    /// The sign-in ends with the first of: the callback, [`Login::finish`], ten minutes,
    /// [`Login::cancel`].
    pub async fn start_login(&self) -> Result<Arc<Login>, AuthError> {
        self.inner.start_login().await
    }

    /// Starts a sign-in on another device (RFC 8628).
    pub async fn start_device_login(&self) -> Result<DeviceLogin, AuthError> {
        self.inner.start_device_login().await
    }

    /// Cancels the sign-in in the browser that is under way, if there is one.
    pub fn cancel_login(&self) {
        let login = self.inner.login_slot().take();
        if let Some(login) = login {
            login.cancel();
        }
    }

    /// Signs out: revokes the tokens where the authorization server can (RFC 7009), and deletes
    /// them in any case.
    pub async fn logout(&self) -> Result<Logout, AuthError> {
        self.inner.logout().await
    }
}

impl Drop for ServerAuth {
    fn drop(&mut self) {
        self.cancel_login();
    }
}

impl std::fmt::Debug for ServerAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ServerAuth")
            .field("identity", &self.inner.identity)
            .finish_non_exhaustive()
    }
}

impl Credentials for ServerAuth {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async {
            let token = self.inner.token().await;
            token.map_err(|error| CredentialsError(error.to_string()))
        })
    }

    fn token_at_hand(&self) -> Option<Token> {
        self.inner.valid_token()
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        Box::pin(self.inner.refused(refusal))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn login_slot(&self) -> MutexGuard<'_, Option<Arc<Login>>> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> &TokenStore {
        &self.shared.store
    }

    fn now(&self) -> u64 {
        seconds(self.shared.now())
    }

    async fn requester(&self) -> Requester {
        let http = Arc::clone(&self.shared.http);
        Requester::new(http, self.config.url.clone(), self.config.tls_files.clone()).await
    }

    /// The token, if it is not due. The path of nearly every request.
    fn valid_token(&self) -> Option<Token> {
        let state = self.state();
        let current = state.current.as_ref()?;
        (!is_due(current.timing, self.now())).then(|| current.token.clone())
    }

    async fn token(self: &Arc<Self>) -> Result<Option<Token>, AuthError> {
        if !self.state().loaded {
            self.load().await?;
        }
        if let Some(token) = self.valid_token() {
            return Ok(Some(token));
        }
        let Some(current) = self.state().current.clone() else {
            return Ok(None);
        };
        match self.renew(Some(&current.access), RenewalCause::Due).await {
            Renewal::Renewed => Ok(self.state().current.as_ref().map(|now| now.token.clone())),
            // Without a refresh token the server decides: our clock may be wrong.
            Renewal::SignIn(_) => Ok(self.state().current.as_ref().map(|now| now.token.clone())),
            Renewal::Failed(error) => {
                let expired = current
                    .timing
                    .is_some_and(|timing| self.now() >= timing.expires_at);
                if expired {
                    Err(error.context("the expired token could not be refreshed"))
                } else {
                    Ok(Some(current.token))
                }
            }
        }
    }

    /// Reads the vault and uses what it holds.
    async fn load(self: &Arc<Self>) -> Result<Option<Record>, AuthError> {
        let record = self.read_record().await?;
        match &record {
            _ if self.check_confidential().await.is_err() => self.state().current = None,
            Some(record) if record.tokens.is_some() => self.adopt(record),
            _ => self.adopt_foreign().await,
        }
        self.state().loaded = true;
        Ok(record)
    }

    /// Checks that tokens for the server do not travel through the internet in the clear.
    async fn check_confidential(&self) -> Result<(), AuthError> {
        let url = &self.config.url;
        if url.scheme() == "https" || guard::is_loopback_url(url) {
            return Ok(());
        }
        guard::check_confidential(url, self.requester().await.reach())
    }

    async fn read_record(&self) -> Result<Option<Record>, AuthError> {
        let store = self.store().clone();
        let identity = self.identity.clone();
        blocking(move || store.load(&identity)).await?
    }

    /// Uses the tokens of a record from now on.
    fn adopt(&self, record: &Record) {
        let current = record
            .tokens
            .as_ref()
            .and_then(|tokens| self.current_of(tokens, true));
        let mut state = self.state();
        if current.is_some() {
            state.demand = None;
            state.failures = 0;
            state.retry_at = None;
            state.last_failure = None;
        }
        state.current = current;
        state.signed_in_at = record.signed_in_at;
        state.loaded = true;
    }

    /// Whether a token of Claude Code may stand in. It belongs to the user who signed in there, so
    /// not for a named account, nor for the program itself.
    fn may_use_foreign(&self) -> bool {
        self.shared.claude_code.is_some()
            && matches!(self.kind, Kind::Resource)
            && self.needs_user()
            && self.identity.is_default_account()
    }

    /// A valid token of Claude Code, unless the user has signed out here. Blocks.
    fn foreign_tokens(&self) -> Option<Tokens> {
        let tokens = self.shared.claude_code.as_ref();
        let tokens = tokens.filter(|_| self.may_use_foreign())?;
        let found = tokens.find(&self.config.name, &self.config.url, self.now())?;
        (!self.store().ignores_foreign(&self.identity)).then_some(found)
    }

    /// Uses a valid token of Claude Code, if there is one.
    async fn adopt_foreign(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let found = blocking(move || this.foreign_tokens());
        let found = found.await.ok().flatten();
        let current = found.and_then(|tokens| self.current_of(&tokens, false));
        self.state().current = current;
    }

    fn dpop_slot(&self) -> MutexGuard<'_, Option<Arc<DpopKey>>> {
        self.dpop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that tokens are bound to. The key in use stays, because it has learned nonces.
    fn dpop_key(&self, tokens: &Tokens) -> Option<Arc<DpopKey>> {
        let secret = tokens.dpop_key.as_ref().or(tokens.refresh_key.as_ref())?;
        let mut slot = self.dpop_slot();
        if let Some(known) = slot.as_ref().filter(|known| known.secret() == secret) {
            return Some(Arc::clone(known));
        }
        let key = Arc::new(DpopKey::from_secret(secret)?);
        Some(Arc::clone(slot.insert(key)))
    }

    /// A key to bind the tokens of a sign-in to, if its server wants that and its issuer can do it.
    /// Tokens that replace bound ones are bound too, whatever the last challenge says.
    fn new_dpop_key(
        &self,
        found: &Discovery,
        record: &Record,
    ) -> Result<Option<Arc<DpopKey>>, AuthError> {
        let previous = record.tokens.as_ref();
        let is_bound = previous.is_some_and(|tokens| tokens.dpop_key.is_some());
        if !found.issuer.binds_tokens || !(found.wants_dpop || is_bound) {
            return Ok(None);
        }
        let key = Arc::new(DpopKey::generate()?);
        Ok(Some(Arc::clone(self.dpop_slot().insert(key))))
    }

    /// `None` if the tokens cannot be used.
    fn current_of(&self, tokens: &Tokens, is_own: bool) -> Option<Current> {
        let access = &tokens.access;
        let token = if tokens.dpop_key.is_some() {
            let clock = Arc::clone(&self.shared.clock);
            let key = BoundKey::new(self.dpop_key(tokens)?, access, clock);
            Token::dpop(access.expose(), Arc::new(key))
        } else {
            Token::bearer(access.expose())
        };
        Some(Current {
            token: token?,
            access: access.clone(),
            timing: refresh_time(tokens, random_fraction()),
            obtained_at: tokens.obtained_at,
            is_own,
        })
    }
}

/// Runs what blocks off the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| AuthError::new(AuthErrorKind::Storage, error.to_string()))
}
