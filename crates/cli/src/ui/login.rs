//! Sign-ins of the interface: in the browser, or on any device with a code.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};
use trunkline::auth::{Account, AuthError, AuthErrorKind, Login, ServerAuth};

use super::msg::Msg;
use crate::browser;

/// The sign-ins under way, by task.
#[derive(Clone, Default)]
pub(super) struct Logins(Arc<Mutex<HashMap<u64, OpenLogin>>>);

enum OpenLogin {
    Page(Arc<Login>),
    /// Notified to cancel it.
    Code(Arc<Notify>),
}

impl Logins {
    /// Returns the sign-in whose page may redirect to a URL that the user pastes.
    pub(super) fn page(&self, task: u64) -> Option<Arc<Login>> {
        match self.lock().get(&task)? {
            OpenLogin::Page(login) => Some(Arc::clone(login)),
            OpenLogin::Code(_) => None,
        }
    }

    pub(super) fn cancel(&self, task: u64) {
        match self.lock().remove(&task) {
            Some(OpenLogin::Page(login)) => login.cancel(),
            Some(OpenLogin::Code(cancelled)) => cancelled.notify_one(),
            None => {}
        }
    }

    /// Signs in, and tells the interface where. Without a display, a code comes first. `None` if
    /// the user cancelled it.
    pub(super) async fn sign_in(
        &self,
        auth: &ServerAuth,
        task: u64,
        inbox: &mpsc::UnboundedSender<Msg>,
    ) -> Result<Option<Account>, AuthError> {
        if !browser::has_display() {
            match self.with_code(auth, task, inbox).await {
                Err(error) if error.kind() == AuthErrorKind::UnsupportedGrant => {}
                outcome => return outcome,
            }
        }
        let login = auth.start_login().await?;
        self.lock()
            .insert(task, OpenLogin::Page(Arc::clone(&login)));
        let _ = inbox.send(Msg::LoginUrl(task, login.url().as_str().to_owned()));
        let account = login.wait().await;
        self.lock().remove(&task);
        account.map(Some)
    }

    async fn with_code(
        &self,
        auth: &ServerAuth,
        task: u64,
        inbox: &mpsc::UnboundedSender<Msg>,
    ) -> Result<Option<Account>, AuthError> {
        let login = auth.start_device_login().await?;
        let cancelled = Arc::new(Notify::new());
        self.lock()
            .insert(task, OpenLogin::Code(Arc::clone(&cancelled)));
        let page = login.verification_url().as_str().to_owned();
        let code = login.user_code().to_owned();
        let _ = inbox.send(Msg::LoginCode(task, code, page));
        let account = tokio::select! {
            account = login.wait() => account.map(Some),
            () = cancelled.notified() => Ok(None),
        };
        self.lock().remove(&task);
        account
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, OpenLogin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
