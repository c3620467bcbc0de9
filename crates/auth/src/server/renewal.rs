//! Refresh (AUTH-4): single flight in the process, locked across processes, re-checked under the
//! lock, and stored before use.
//!
//! A refresh runs in a task of its own, because a refresh token may be rotated: a caller that is
//! cancelled must not lose the response. Under the lock the vault is read again; if another process
//! has refreshed meanwhile, its token is used and no request is made. The response is stored and
//! synced before anybody uses it. Only the issuer's word that the refresh token is invalid deletes
//! it; every other failure leaves everything as it was, and delays the next attempt.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use tokio::task::AbortHandle;

use super::{Inner, SignInDemand, SignInReason, blocking};
use crate::Secret;
use crate::discovery::{self, is_same_issuer};
use crate::error::{AuthError, AuthErrorKind};
use crate::files::FileLock;
use crate::flow::TokenEndpoint;
use crate::http::Form;
use crate::registration::ClientSource;
use crate::server::config::Kind;
use crate::tokens::{Record, Tokens, is_due, refresh_time};

/// The first and the longest wait after a failed refresh.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Attempts to store new tokens, and the wait between them.
const SAVE_ATTEMPTS: usize = 3;
const SAVE_WAIT: Duration = Duration::from_millis(200);

/// Why a new token is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenewalCause {
    /// It expires soon.
    Due,
    /// The server refused it.
    Refused,
    /// It lacks scopes.
    StepUp,
}

/// The outcome of a renewal.
#[derive(Clone, Debug)]
pub(super) enum Renewal {
    /// There is a new token.
    Renewed,
    /// Only the user can get one.
    SignIn(AuthError),
    /// A later attempt may succeed.
    Failed(AuthError),
}

/// A renewal under way.
pub(super) struct Flight {
    task: AbortHandle,
    outcome: SharedFuture<BoxFuture<'static, Renewal>>,
}

impl Inner {
    /// Gets a new token in place of `seen`, or joins the renewal under way.
    pub(super) async fn renew(
        self: &Arc<Self>,
        seen: Option<&Secret>,
        cause: RenewalCause,
    ) -> Renewal {
        let outcome = {
            let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
            match &*flight {
                Some(running) if !running.task.is_finished() => running.outcome.clone(),
                _ => {
                    if let Some(failure) = self.recent_failure() {
                        return Renewal::Failed(failure);
                    }
                    let started = self.start_flight(seen.cloned(), cause);
                    flight.insert(started).outcome.clone()
                }
            }
        };
        outcome.await
    }

    fn start_flight(self: &Arc<Self>, seen: Option<Secret>, cause: RenewalCause) -> Flight {
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            let renewal = this.renew_locked(seen, cause).await;
            let renewal = renewal.unwrap_or_else(|error| {
                if error.is_sign_in_required() {
                    Renewal::SignIn(error)
                } else {
                    Renewal::Failed(error)
                }
            });
            match &renewal {
                Renewal::Failed(error) => this.note_failure(error.clone()),
                // Nobody signs in between two attempts of the program itself.
                Renewal::SignIn(error) if this.config.grant.is_programs() => {
                    this.note_failure(error.clone());
                }
                Renewal::SignIn(_) | Renewal::Renewed => {}
            }
            renewal
        });
        let abort = task.abort_handle();
        let outcome = task.map(|done| {
            done.unwrap_or_else(|error| {
                let text = format!("the refresh ended early: {error}");
                Renewal::Failed(AuthError::new(AuthErrorKind::Unavailable, text))
            })
        });
        Flight {
            task: abort,
            outcome: outcome.boxed().shared(),
        }
    }

    /// The failure of the last renewal, if it is too early for another one.
    fn recent_failure(&self) -> Option<AuthError> {
        let state = self.state();
        let wait = state.retry_at.is_some_and(|at| Instant::now() < at);
        wait.then(|| state.last_failure.clone())?
    }

    fn note_failure(&self, error: AuthError) {
        let mut state = self.state();
        let wait = FIRST_RETRY * 2_u32.saturating_pow(state.failures.min(6));
        state.retry_at = Some(Instant::now() + wait.min(LAST_RETRY));
        state.failures += 1;
        state.last_failure = Some(error);
    }

    async fn renew_locked(
        self: &Arc<Self>,
        seen: Option<Secret>,
        cause: RenewalCause,
    ) -> Result<Renewal, AuthError> {
        let settled = self.shared.settled.load(Ordering::SeqCst);
        let (lock, record) = self.lock_and_load().await?;
        // From here on a token may be lost, so the exit of the process waits.
        let _running = self.shared.running.read().await;
        if self.shared.settled.load(Ordering::SeqCst) != settled {
            let text = "the program ended while another process refreshed the token";
            return Err(AuthError::new(AuthErrorKind::Unavailable, text));
        }
        let renewed = self.renew_record(record, seen, cause).await;
        // Held until the new token is stored.
        drop(lock);
        renewed
    }

    /// Takes the lock and loads the record under it. A renewal that waits for another process has
    /// nothing to lose, so it holds no thread, and the exit of the process does not wait for it.
    async fn lock_and_load(self: &Arc<Self>) -> Result<(FileLock, Option<Record>), AuthError> {
        let lock = self.store().lock_async(&self.identity).await?;
        let this = Arc::clone(self);
        let record = blocking(move || this.store().load(&this.identity));
        Ok((lock, record.await??))
    }

    async fn renew_record(
        self: &Arc<Self>,
        record: Option<Record>,
        seen: Option<Secret>,
        cause: RenewalCause,
    ) -> Result<Renewal, AuthError> {
        if let Some(record) = &record
            && self.is_renewed(record, seen.as_ref())
        {
            self.adopt(record);
            return Ok(Renewal::Renewed);
        }
        if !self.config.grant.needs_user() {
            let record = self.obtain(record).await?;
            self.keep(record).await?;
            return Ok(Renewal::Renewed);
        }
        let Some(mut record) = record.filter(|record| record.tokens.is_some()) else {
            return self.renew_foreign(seen.as_ref()).await;
        };
        if cause == RenewalCause::Refused && self.has_new_issuer(&record).await {
            // Nothing of the old issuer may reach the new one.
            let text = "the authorization server of this server has changed";
            let error = AuthError::new(AuthErrorKind::SignInRequired, text);
            self.forget(record, Forget::Client, &error).await?;
            return Err(error);
        }
        match self.refresh(&record).await {
            Ok(Refreshed { tokens, unusable }) => {
                record.tokens = Some(tokens);
                self.keep(record).await?;
                unusable.map_or(Ok(Renewal::Renewed), Err)
            }
            Err(error) if error.kind() == AuthErrorKind::InvalidGrant => {
                let error = error.context("the sign-in has ended");
                self.forget(record, Forget::Tokens, &error).await?;
                Err(error)
            }
            Err(error) if error.kind() == AuthErrorKind::InvalidClient => {
                let error = error.context("the registration of the client has ended");
                self.forget(record, Forget::Client, &error).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether another task or process has replaced the token.
    fn is_renewed(&self, record: &Record, seen: Option<&Secret>) -> bool {
        let known_since = self
            .state()
            .current
            .as_ref()
            .map(|current| current.obtained_at);
        record.tokens.as_ref().is_some_and(|tokens| {
            // Some issuers return the same access token again.
            let is_newer = known_since.is_some_and(|known| tokens.obtained_at > known);
            let is_other = Some(&tokens.access) != seen;
            (is_other || is_newer) && !is_due(refresh_time(tokens, 1.0), self.now())
        })
    }

    /// Looks for a token of another program, which renews it itself.
    async fn renew_foreign(self: &Arc<Self>, seen: Option<&Secret>) -> Result<Renewal, AuthError> {
        self.adopt_foreign().await;
        let state = self.state();
        match &state.current {
            Some(current) if Some(&current.access) != seen => Ok(Renewal::Renewed),
            _ => Err(AuthError::new(
                AuthErrorKind::SignInRequired,
                "nobody is signed in",
            )),
        }
    }

    /// Whether the server now names other authorization servers. Only asked when it refuses a token
    /// before its time.
    async fn has_new_issuer(&self, record: &Record) -> bool {
        let tokens = record.tokens.as_ref();
        let is_early = tokens.is_some_and(|tokens| !is_due(refresh_time(tokens, 0.0), self.now()));
        let is_configured = self.config.oauth.auth_server_metadata_url.is_some();
        if !is_early || is_configured || !matches!(self.kind, Kind::Resource) {
            return false;
        }
        let http = self.requester().await;
        let challenge = self.state().challenge.clone();
        let found =
            discovery::protected_resource(&http, &self.config.url, challenge.as_ref()).await;
        match found {
            Ok(Some(resource)) if !resource.issuers().is_empty() => !resource
                .issuers()
                .iter()
                .any(|issuer| is_same_issuer(issuer, &record.issuer)),
            _ => false,
        }
    }

    async fn refresh(&self, record: &Record) -> Result<Refreshed, AuthError> {
        let sign_in = |text: &str| AuthError::new(AuthErrorKind::SignInRequired, text);
        let previous = record.tokens.as_ref();
        let refresh = previous.and_then(|tokens| tokens.refresh.as_ref());
        let refresh =
            refresh.ok_or_else(|| sign_in("the token has expired and cannot be refreshed"))?;
        let client = record.client.as_ref();
        let client = client.ok_or_else(|| sign_in("the client is not registered any more"))?;
        if !client.is_valid_at(self.now()) {
            let text = "the registration of the client has expired";
            return Err(AuthError::new(AuthErrorKind::InvalidClient, text));
        }
        let http = self.requester().await;
        // The refresh token of a public client is bound to the key too.
        let dpop = previous.and_then(|tokens| self.dpop_key(tokens));
        let endpoint = TokenEndpoint {
            http: &http,
            url: &record.endpoints.token,
            issuer: &record.issuer,
            client,
            key: None,
            dpop: dpop.as_deref(),
            now: self.shared.now(),
        };
        let form = Form::new("refresh_token")
            .with("refresh_token", refresh.expose())
            .with_some("resource", record.resource.as_deref());
        // The lifetime of the token may have begun with the request.
        let requested_at = self.now();
        let response = endpoint.exchange(form).await?;
        if let Err(error) = endpoint.check_usable(&response) {
            let kept = previous.cloned().map(|previous| Tokens {
                refresh: response.refresh_token.or(previous.refresh),
                ..previous
            });
            return Ok(Refreshed {
                tokens: kept.ok_or_else(|| error.clone())?,
                unusable: Some(error),
            });
        }
        let tokens = Tokens::from_response(
            response,
            &record.requested_scopes,
            previous,
            dpop.as_deref(),
            requested_at,
        );
        let checked = self.checked(tokens.clone(), &record.issuer, &client.id);
        Ok(match checked {
            Ok(tokens) => Refreshed {
                tokens,
                unusable: None,
            },
            Err(error) => Refreshed {
                tokens: Tokens {
                    id: previous.and_then(|tokens| tokens.id.clone()),
                    expires_at: previous.and_then(|tokens| tokens.expires_at),
                    ..tokens
                },
                unusable: Some(error),
            },
        })
    }

    /// Stores a record, then uses it. If the vault fails, the tokens are still used in this
    /// process: the old ones may be worthless by now.
    pub(super) async fn keep(self: &Arc<Self>, record: Record) -> Result<(), AuthError> {
        let mut warning = None;
        for attempt in 0..SAVE_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(SAVE_WAIT).await;
            }
            let this = Arc::clone(self);
            let copy = record.clone();
            let saved = blocking(move || this.store().save(&this.identity, &copy)).await?;
            match saved {
                Ok(stored_in) => {
                    warning = stored_in.warning();
                    break;
                }
                Err(error) => {
                    let error = error.context("the new tokens could not be stored");
                    warning = Some(error.to_string());
                }
            }
        }
        self.adopt(&record);
        self.state().storage_warning = warning;
        Ok(())
    }

    /// Deletes what the issuer no longer accepts.
    async fn forget(
        self: &Arc<Self>,
        mut record: Record,
        what: Forget,
        error: &AuthError,
    ) -> Result<(), AuthError> {
        record.tokens = None;
        let source = record.client.as_ref().map(|client| client.source);
        if what == Forget::Client && source == Some(ClientSource::Dynamic) {
            record.client = None;
        }
        self.adopt(&record);
        self.state().demand = Some(SignInDemand {
            reason: SignInReason::Ended,
            challenge: None,
            message: error.to_string(),
        });
        let this = Arc::clone(self);
        blocking(move || this.store().save(&this.identity, &record)).await??;
        Ok(())
    }
}

/// The tokens of a refresh. They are stored in any case: the refresh token may have been rotated.
struct Refreshed {
    tokens: Tokens,
    /// Why the access token, or the ID token of an identity provider, cannot be used; `tokens` has
    /// the old one.
    unusable: Option<AuthError>,
}

/// What to delete from a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forget {
    Tokens,
    /// The tokens and the registration.
    Client,
}
