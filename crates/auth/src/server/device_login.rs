//! The sign-in of a user on another device (RFC 8628).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Inner;
use super::login::Attempt;
use crate::error::{AuthError, AuthErrorKind};
use crate::files::FileLock;
use crate::flow::{DEVICE_GRANT, DeviceAuthorization, PollStep, TokenEndpoint, next_poll};
use crate::guard::BrowserUrl;
use crate::http::Form;
use crate::tokens::Account;

/// A sign-in on another device that is under way. Dropping it ends it.
pub struct DeviceLogin {
    inner: Arc<Inner>,
    attempt: Attempt,
    authorization: DeviceAuthorization,
    deadline: Instant,
    _lock: FileLock,
}

impl DeviceLogin {
    /// The code that the user enters.
    pub fn user_code(&self) -> &str {
        &self.authorization.user_code
    }

    /// The page where the user enters the code.
    pub fn verification_url(&self) -> &BrowserUrl {
        &self.authorization.verification_uri
    }

    /// The page with the code filled in, for a QR code, if the authorization server has one.
    pub fn complete_url(&self) -> Option<&BrowserUrl> {
        self.authorization.verification_uri_complete.as_ref()
    }

    /// How long the code is valid from now.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits until the user has entered the code.
    pub async fn wait(self) -> Result<Account, AuthError> {
        let mut interval = self.authorization.interval;
        loop {
            let next = Instant::now() + interval;
            if next >= self.deadline {
                let text = "the code has expired; start again";
                return Err(AuthError::new(AuthErrorKind::TimedOut, text));
            }
            tokio::time::sleep_until(next).await;
            let form = Form::new(DEVICE_GRANT)
                .with("device_code", self.authorization.device_code.expose());
            match self.inner.complete(&self.attempt, form).await {
                Ok(account) => return Ok(account),
                Err(error) => match next_poll(error, interval) {
                    PollStep::Wait(longer) => interval = longer,
                    PollStep::Fail(error) => return Err(error),
                },
            }
        }
    }
}

impl std::fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("DeviceLogin").finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) async fn start_device_login(self: &Arc<Self>) -> Result<DeviceLogin, AuthError> {
        let lock = self.lock_login().await?;
        let http = self.requester().await;
        let found = self.discover(&http).await?;
        let endpoint = found.issuer.device_authorization_endpoint.clone();
        let endpoint = endpoint.filter(|_| found.issuer.offers(DEVICE_GRANT));
        let endpoint = endpoint.ok_or_else(|| {
            let text = "the authorization server offers no sign-in on another device";
            AuthError::new(AuthErrorKind::UnsupportedGrant, text)
        })?;
        let stored = self.stored().await?;
        let record = self.record_for(&found, stored)?;
        let scopes = self.scopes_for(&found, &record);
        let known = record.client.as_ref();
        let client = self.client_for(&http, &found, known, None, &scopes).await?;
        self.store_client(&record, &client).await?;
        let authorization = DeviceAuthorization::request(
            TokenEndpoint {
                http: &http,
                url: &endpoint,
                issuer: &found.issuer.issuer,
                client: &client,
                key: None,
                dpop: None,
                now: self.shared.now(),
            },
            &scopes,
            found.resource.as_deref(),
        )
        .await?;
        let uri = &authorization.verification_uri;
        let complete = authorization.verification_uri_complete.as_ref();
        for uri in [uri].into_iter().chain(complete) {
            http.check_browser_url(&uri.to_url()?).await?;
        }
        let dpop = self.new_dpop_key(&found, &record)?;
        Ok(DeviceLogin {
            inner: Arc::clone(self),
            deadline: Instant::now() + authorization.lifetime,
            attempt: Attempt {
                http,
                found,
                record,
                client,
                scopes,
                dpop,
            },
            authorization,
            _lock: lock,
        })
    }
}
