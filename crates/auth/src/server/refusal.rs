//! The reaction to a request that the server refused.

use std::sync::Arc;

use trunkline_transport::http::{AfterRefusal, Refusal};

use super::renewal::{Renewal, RenewalCause};
use super::{Current, Inner, SignInDemand, SignInReason, blocking};
use crate::challenge::{Challenge, Reaction, react};
use crate::error::AuthError;
use crate::scopes::{union, usable};

/// A token this young, in seconds, is not refreshed because the server refuses it: another one
/// would be refused too. A token that lives for seconds may expire a little early by the clock of
/// the server, so of its lifetime only the first half counts.
const FRESH: u64 = 10;

fn is_fresh(current: &Current, now: u64) -> bool {
    let lifetime = current
        .timing
        .map(|timing| timing.expires_at.saturating_sub(current.obtained_at));
    let fresh = lifetime.map_or(FRESH, |lifetime| FRESH.min(lifetime / 2));
    let age = now.checked_sub(current.obtained_at);
    age.is_some_and(|age| age < fresh)
}

impl Inner {
    pub(super) async fn refused(self: &Arc<Self>, refusal: Refusal) -> AfterRefusal {
        let challenge = refusal.challenge.as_deref().and_then(Challenge::parse);
        let reaction = react(refusal.status, challenge.as_ref());
        if challenge.is_some() {
            self.state().challenge.clone_from(&challenge);
        }
        let outcome = match reaction {
            Reaction::Forbidden => return AfterRefusal::GiveUp,
            Reaction::Renew => self.renew_refused(&refusal).await,
            Reaction::StepUp(scopes) => self.step_up(&refusal, scopes).await,
        };
        let Some((reason, message)) = outcome else {
            return AfterRefusal::Retry;
        };
        if let Some(reason) = reason {
            let is_missing_scopes = matches!(reason, SignInReason::MissingScopes(_));
            self.state().demand = Some(SignInDemand {
                reason,
                challenge: challenge.clone(),
                message,
            });
            if !is_missing_scopes {
                self.remember_demand(challenge.unwrap_or_default()).await;
            }
        }
        AfterRefusal::GiveUp
    }

    /// Gets a new token after a refusal. `None` if there is one; otherwise why not, with the reason
    /// for a sign-in unless a later attempt may succeed without one.
    async fn renew_refused(
        self: &Arc<Self>,
        refusal: &Refusal,
    ) -> Option<(Option<SignInReason>, String)> {
        let current = self.state().current.clone();
        match &current {
            // Another request got a new token meanwhile.
            Some(current) if Some(&current.token) != refusal.sent.as_ref() => return None,
            Some(current) if current.is_own && is_fresh(current, self.now()) => {
                let text = "the server refuses the token that was just issued for it";
                return Some((Some(SignInReason::TokenRefused), text.to_owned()));
            }
            _ => {}
        }
        let seen = current.as_ref().map(|current| &current.access);
        match self.renew(seen, RenewalCause::Refused).await {
            Renewal::Renewed => None,
            Renewal::SignIn(error) => {
                // The request before this one may have learned that the sign-in has ended.
                let known = self.state().demand.clone();
                let ended = known.filter(|known| known.reason == SignInReason::Ended);
                let (reason, message) = match (ended, &current) {
                    (Some(ended), _) => (ended.reason, ended.message),
                    (None, Some(_)) => (SignInReason::Ended, error.to_string()),
                    (None, None) => (SignInReason::SignedOut, error.to_string()),
                };
                Some((Some(reason), message))
            }
            Renewal::Failed(error) => Some((None, error.to_string())),
        }
    }

    /// Reacts to missing scopes: a grant without the user gets a new token with all scopes; for
    /// others they are stored for the next sign-in.
    async fn step_up(
        self: &Arc<Self>,
        refusal: &Refusal,
        scopes: Vec<String>,
    ) -> Option<(Option<SignInReason>, String)> {
        let sent = refusal.sent.clone();
        let this = Arc::clone(self);
        let added = scopes.clone();
        // Another process may have signed in with more scopes meanwhile.
        let stored = blocking(move || -> Result<_, AuthError> {
            let _lock = this.store().lock(&this.identity)?;
            let Some(mut record) = this.store().load(&this.identity)? else {
                return Ok(false);
            };
            let newer = record.tokens.as_ref().is_some_and(|tokens| {
                let stored = this.current_of(tokens, true);
                stored.is_some_and(|stored| Some(stored.token) != sent)
            });
            if newer {
                this.adopt(&record);
                return Ok(true);
            }
            // A server could name other scopes each time.
            let bounded = |scopes: Vec<String>| usable(scopes.iter().map(String::as_str));
            let requested = bounded(union(&record.requested_scopes, &added));
            let missing = bounded(union(&record.missing_scopes, &added));
            if requested != record.requested_scopes || missing != record.missing_scopes {
                record.requested_scopes = requested;
                record.missing_scopes = missing;
                this.store().save(&this.identity, &record)?;
            }
            Ok(false)
        });
        match stored.await.and_then(|stored| stored) {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => return Some((None, error.to_string())),
        }
        let text = "the request needs more permissions than were granted; sign in again";
        let missing = || {
            Some((
                Some(SignInReason::MissingScopes(scopes.clone())),
                text.to_owned(),
            ))
        };
        if self.config.grant.needs_user() {
            return missing();
        }
        let current = self.state().current.clone();
        let seen = current.as_ref().map(|current| &current.access);
        // A grant that has the scopes already would get the same again.
        let granted = self.granted_scopes().await;
        if scopes.iter().all(|scope| granted.contains(scope)) {
            return missing();
        }
        match self.renew(seen, RenewalCause::StepUp).await {
            Renewal::Renewed => None,
            Renewal::SignIn(_) => missing(),
            Renewal::Failed(error) => Some((None, error.to_string())),
        }
    }

    async fn granted_scopes(&self) -> Vec<String> {
        let record = self.read_record().await.ok().flatten();
        let tokens = record.and_then(|record| record.tokens);
        tokens.map(|tokens| tokens.scopes).unwrap_or_default()
    }

    async fn remember_demand(self: &Arc<Self>, challenge: Challenge) {
        let this = Arc::clone(self);
        let remembered = blocking(move || {
            let now = this.shared.now();
            let key = this.identity.key();
            this.shared.needs_auth.remember(key, &challenge, now);
        });
        // The memory is an optimisation.
        let _ = remembered.await;
    }
}
