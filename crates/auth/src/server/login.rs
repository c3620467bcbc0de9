//! The sign-in of a user in the browser (AUTH-2).

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Inner, blocking};
use crate::callback::{CallbackHost, CallbackServer, Page, port_of};
use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind};
use crate::files::FileLock;
use crate::flow::{AuthorizationRequest, DpopKey, PendingAuthorization, Redirect, TokenEndpoint};
use crate::guard::BrowserUrl;
use crate::http::{Form, Requester};
use crate::registration::{Client, ClientSource};
use crate::tokens::{Account, Record, Tokens};

/// How long a sign-in waits for the user.
const LOGIN_LIMIT: Duration = Duration::from_mins(10);

type Outcome = Result<Account, AuthError>;

/// A sign-in in the browser that is under way.
///
/// It ends by itself when the browser reaches the callback, whether or not anybody waits.
pub struct Login {
    inner: Arc<Inner>,
    attempt: Attempt,
    pending: PendingAuthorization,
    redirect_uri: String,
    outcome: watch::Sender<Option<Outcome>>,
    /// Held while a code is redeemed: from the callback or pasted, but once.
    redeeming: tokio::sync::Mutex<()>,
    callback: Mutex<Option<AbortHandle>>,
    lock: Mutex<Option<FileLock>>,
}

/// Everything that is known before the user acts.
pub(super) struct Attempt {
    pub(super) http: Requester,
    pub(super) found: Discovery,
    pub(super) record: Record,
    pub(super) client: Client,
    pub(super) scopes: Vec<String>,
    /// The key to bind the tokens to.
    pub(super) dpop: Option<Arc<DpopKey>>,
}

impl Login {
    /// The URL to open in the browser.
    pub fn url(&self) -> &BrowserUrl {
        &self.pending.url
    }

    /// The redirect URI, whose port the callback server listens on.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits until the sign-in ends, in whichever way. Any number of callers may wait.
    pub async fn wait(&self) -> Result<Account, AuthError> {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(Option::is_some).await;
        ended
            .ok()
            .and_then(|outcome| outcome.clone())
            .unwrap_or_else(|| Err(cancelled()))
    }

    /// Completes the sign-in with the redirect URL that the user copied from the address bar, for
    /// a browser on another machine. An URL of another sign-in is an error, and the sign-in goes
    /// on.
    pub async fn finish(&self, pasted: &str) -> Result<Account, AuthError> {
        let redirect = self.pending.check_pasted(pasted);
        self.redeem(redirect).await
    }

    /// Cancels the sign-in and closes the callback server.
    pub fn cancel(&self) {
        self.end(Err(cancelled()));
    }

    /// Redeems the code of a redirect, and ends the sign-in unless the redirect is not for it.
    async fn redeem(&self, redirect: Result<Redirect, AuthError>) -> Outcome {
        let _redeeming = self.redeeming.lock().await;
        if let Some(outcome) = self.outcome.borrow().clone() {
            return outcome;
        }
        let outcome = match redirect {
            Err(error) if error.kind() == AuthErrorKind::WrongRedirect => return Err(error),
            Err(error) => Err(error),
            Ok(redirect) => {
                let form = Form::new("authorization_code")
                    .with("code", redirect.code.expose())
                    .with("redirect_uri", &self.redirect_uri)
                    .with("code_verifier", self.pending.verifier.expose());
                self.inner.complete(&self.attempt, form).await
            }
        };
        self.end(outcome.clone());
        outcome
    }

    fn end(&self, outcome: Outcome) {
        self.outcome.send_if_modified(|ended| {
            let is_first = ended.is_none();
            if is_first {
                *ended = Some(outcome);
            }
            is_first
        });
        let callback = self
            .callback
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(callback) = callback {
            callback.abort();
        }
        self.lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut slot = self.inner.login_slot();
        if slot
            .as_ref()
            .is_some_and(|login| std::ptr::eq(&raw const **login, self))
        {
            *slot = None;
        }
    }

    fn is_over(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

fn cancelled() -> AuthError {
    AuthError::new(AuthErrorKind::Cancelled, "the sign-in was cancelled")
}

impl Inner {
    pub(super) async fn start_login(self: &Arc<Self>) -> Result<Arc<Login>, AuthError> {
        let _starting = self.start.lock().await;
        if let Some(login) = self.login_slot().as_ref().filter(|login| !login.is_over()) {
            return Ok(Arc::clone(login));
        }
        let lock = self.lock_login().await?;
        let http = self.requester().await;
        let found = self.discover(&http).await?;
        if found.issuer.is_for_programs() {
            let text = "the authorization server signs in programs, not users: it offers client \
                        credentials and no authorization codes";
            return Err(AuthError::new(AuthErrorKind::UnsupportedGrant, text));
        }
        if let Some(url) = &found.issuer.authorization_endpoint {
            http.check_browser_url(url).await?;
        }
        let stored = self.stored().await?;
        let record = self.record_for(&found, stored)?;
        let scopes = self.scopes_for(&found, &record);
        let known = record.client.as_ref();
        let preferred = known
            .filter(|client| client.source == ClientSource::Dynamic)
            .and_then(|client| client.redirect_uri.as_deref())
            .and_then(port_of);
        let host = match self.config.oauth.client_id {
            Some(_) => CallbackHost::Localhost,
            None => CallbackHost::Address,
        };
        let callback =
            CallbackServer::bind(self.config.oauth.callback_port, preferred, host).await?;
        let redirect_uri = callback.redirect_uri();
        let client = self
            .client_for(&http, &found, known, Some(&redirect_uri), &scopes)
            .await?;
        let dpop = self.new_dpop_key(&found, &record)?;
        let pending = AuthorizationRequest {
            issuer: &found.issuer,
            client_id: &client.id,
            redirect_uri: &redirect_uri,
            scopes: &scopes,
            resource: found.resource.as_deref(),
            dpop: dpop.as_deref(),
        }
        .start()?;
        self.store_client(&record, &client).await?;
        let attempt = Attempt {
            http,
            found,
            record,
            client,
            scopes,
            dpop,
        };
        let login = Arc::new(Login {
            inner: Arc::clone(self),
            attempt,
            pending,
            redirect_uri,
            outcome: watch::Sender::new(None),
            redeeming: tokio::sync::Mutex::default(),
            callback: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        });
        let name = self.config.name.clone();
        let serving = tokio::spawn(receive(callback, Arc::downgrade(&login), name));
        *login
            .callback
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(serving.abort_handle());
        *self.login_slot() = Some(Arc::clone(&login));
        Ok(login)
    }

    /// Excludes sign-ins to the same server in other processes.
    pub(super) async fn lock_login(self: &Arc<Self>) -> Result<FileLock, AuthError> {
        if !self.needs_user() {
            let text = "the settings of the server get its tokens without a sign-in";
            return Err(AuthError::new(AuthErrorKind::Settings, text));
        }
        let this = Arc::clone(self);
        blocking(move || this.store().login_lock(&this.identity)).await?
    }

    /// The stored record; one that cannot be decoded counts as none, because a sign-in replaces it.
    pub(super) async fn stored(&self) -> Result<Option<Record>, AuthError> {
        let store = self.store().clone();
        let identity = self.identity.clone();
        blocking(move || store.load_decodable(&identity)).await?
    }

    /// Stores the registration before the user acts, so that a sign-in that is given up does not
    /// lead to another registration. Tokens that are still stored belong to another client or
    /// issuer, so they and their registration stay until the sign-in succeeds.
    pub(super) async fn store_client(
        self: &Arc<Self>,
        record: &Record,
        client: &Client,
    ) -> Result<(), AuthError> {
        if record.client.as_ref() == Some(client) || client.source != ClientSource::Dynamic {
            return Ok(());
        }
        let this = Arc::clone(self);
        let mut record = record.clone();
        record.client = Some(client.clone());
        blocking(move || {
            let _lock = this.store().lock(&this.identity)?;
            let stored = this.store().load_decodable(&this.identity)?;
            if stored.is_some_and(|stored| stored.tokens.is_some()) {
                return Ok(());
            }
            record.tokens = None;
            this.store().save(&this.identity, &record).map(|_| ())
        })
        .await?
    }

    /// Requests the tokens of a sign-in, stores them and uses them.
    pub(super) async fn complete(self: &Arc<Self>, attempt: &Attempt, form: Form) -> Outcome {
        let endpoint = TokenEndpoint {
            http: &attempt.http,
            url: &attempt.found.issuer.token_endpoint,
            issuer: &attempt.found.issuer.issuer,
            client: &attempt.client,
            key: None,
            dpop: attempt.dpop.as_deref(),
            now: self.shared.now(),
        };
        let form = form.with_some("resource", attempt.found.resource.as_deref());
        // The lifetime of the token may have begun with the request.
        let requested_at = self.now();
        let response = match endpoint.request(form).await {
            Ok(response) => response,
            Err(error) => {
                if error.kind() == AuthErrorKind::InvalidClient {
                    self.drop_client(&attempt.client).await;
                }
                return Err(error);
            }
        };
        let dpop = attempt.dpop.as_deref();
        let tokens = Tokens::from_response(response, &attempt.scopes, None, dpop, requested_at);
        let issuer = &attempt.found.issuer.issuer;
        let tokens = self.checked(tokens, issuer, &attempt.client.id)?;
        let mut record = attempt.record.clone();
        record.client = Some(attempt.client.clone());
        record.tokens = Some(tokens);
        record.requested_scopes.clone_from(&attempt.scopes);
        record.missing_scopes.clear();
        record.signed_in_at = self.now();
        let account = Account::of(&record);
        let this = Arc::clone(self);
        blocking(move || -> Result<(), AuthError> {
            let _lock = this.store().lock(&this.identity)?;
            let stored_in = this.store().save(&this.identity, &record)?;
            this.adopt(&record);
            this.state().storage_warning = stored_in.warning();
            this.shared.needs_auth.clear(this.identity.key());
            Ok(())
        })
        .await??;
        account.ok_or_else(|| AuthError::new(AuthErrorKind::Storage, "there are no tokens"))
    }

    /// Forgets a registration that the issuer does not know any more.
    async fn drop_client(self: &Arc<Self>, client: &Client) {
        let this = Arc::clone(self);
        let client = client.clone();
        let dropped = blocking(move || -> Result<(), AuthError> {
            let _lock = this.store().lock(&this.identity)?;
            if let Some(mut record) = this.store().load_decodable(&this.identity)?
                && record.client.as_ref() == Some(&client)
                && client.source == ClientSource::Dynamic
            {
                record.client = None;
                this.store().save(&this.identity, &record)?;
            }
            Ok(())
        });
        // The sign-in has failed already, for a better reason.
        let _ = dropped.await;
    }
}

/// Receives redirects until the sign-in is over. Redirects of other sign-ins do not end it.
async fn receive(mut callback: CallbackServer, login: Weak<Login>, server: String) {
    let receiving = async {
        while let Some(request) = callback.next().await {
            let Some(login) = login.upgrade() else { return };
            let redirect = match login.pending.check(&request.query) {
                Err(error) if error.kind() == AuthErrorKind::WrongRedirect => Err(error),
                _ if !request.is_own_user() => {
                    let text = "the redirect comes from another user of this machine";
                    Err(AuthError::new(AuthErrorKind::WrongRedirect, text))
                }
                redirect => redirect,
            };
            // The end of the sign-in aborts this task, which still has to show a page.
            let server = server.clone();
            let answer = tokio::spawn(async move {
                let outcome = login.redeem(redirect).await;
                let page = match &outcome {
                    Ok(_) => Page::success(&server),
                    Err(error) => Page::failure(&server, error),
                };
                request.respond(&page).await;
            });
            let _ = answer.await;
        }
    };
    let ended = tokio::time::timeout(LOGIN_LIMIT, receiving).await;
    if let (Err(_), Some(login)) = (ended, login.upgrade()) {
        let minutes = LOGIN_LIMIT.as_secs() / 60;
        let text = format!("nobody completed the sign-in within {minutes} minutes");
        login.end(Err(AuthError::new(AuthErrorKind::TimedOut, text)));
    }
}
