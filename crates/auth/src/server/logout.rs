//! Signing out, with revocation (AUTH-10).

use std::sync::Arc;

use super::{Inner, blocking};
use crate::error::AuthError;
use crate::flow::{TokenEndpoint, revoke};
use crate::registration::AuthMethod;
use crate::tokens::Record;

/// The result of signing out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logout {
    /// Whether anybody was signed in.
    pub was_signed_in: bool,
    /// Whether the authorization server revoked the tokens.
    pub revocation: Revocation,
}

/// Whether tokens were revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// There was nothing to revoke.
    Nothing,
    /// The authorization server revoked them.
    Revoked,
    /// The authorization server cannot revoke tokens; they expire by themselves.
    Unsupported,
    /// The revocation failed. The tokens are deleted here all the same.
    Failed(AuthError),
}

impl Inner {
    pub(super) async fn logout(self: &Arc<Self>) -> Result<Logout, AuthError> {
        let login = self.login_slot().take();
        if let Some(login) = login {
            login.cancel();
        }
        let this = Arc::clone(self);
        let taken = blocking(move || -> Result<_, AuthError> {
            let _lock = this.store().lock(&this.identity)?;
            // An unreadable record is deleted too.
            let record = this.store().load(&this.identity).ok().flatten();
            // First: if this fails, nothing is lost.
            let used_foreign = this.foreign_tokens().is_some();
            if this.may_use_foreign() {
                this.store().ignore_foreign(&this.identity)?;
            }
            let was_stored = this.store().delete(&this.identity)?;
            this.shared.needs_auth.clear(this.identity.key());
            Ok((record, was_stored, used_foreign))
        });
        let (record, was_stored, used_foreign) = taken.await??;
        {
            let mut state = self.state();
            *state = super::State {
                challenge: state.challenge.take(),
                ..super::State::default()
            };
        }
        let revocation = match &record {
            Some(record) => self.revoke(record).await,
            None => Revocation::Nothing,
        };
        Ok(Logout {
            was_signed_in: used_foreign
                || record.map_or(was_stored, |record| record.tokens.is_some()),
            revocation,
        })
    }

    async fn revoke(&self, record: &Record) -> Revocation {
        let (Some(tokens), Some(client)) = (&record.tokens, &record.client) else {
            return Revocation::Nothing;
        };
        let Some(url) = &record.endpoints.revocation else {
            return Revocation::Unsupported;
        };
        let http = self.requester().await;
        let key = match client.auth_method {
            AuthMethod::PrivateKeyJwt => match self.signing_key().await {
                Ok(key) => key,
                Err(error) => return Revocation::Failed(error),
            },
            _ => None,
        };
        // The refresh token first: revoking it usually revokes the access token as well.
        let refresh = tokens
            .refresh
            .as_ref()
            .map(|token| (token, "refresh_token"));
        let both = refresh
            .into_iter()
            .chain([(&tokens.access, "access_token")]);
        let mut failure = None;
        for (token, kind) in both {
            let endpoint = TokenEndpoint {
                http: &http,
                url,
                issuer: &record.issuer,
                client,
                key: key.as_deref(),
                dpop: None,
                now: self.shared.now(),
            };
            if let Err(error) = revoke(endpoint, token, kind).await {
                let is_away = error.is_retryable();
                failure.get_or_insert(error);
                // An issuer that does not respond would keep the user waiting once more.
                if is_away {
                    break;
                }
            }
        }
        failure.map_or(Revocation::Revoked, Revocation::Failed)
    }
}
