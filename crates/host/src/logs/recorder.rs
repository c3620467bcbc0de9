//! All that is written down about one connection, in one value that its task holds.

use std::borrow::Cow;
use std::sync::Arc;

use trunkline_config::ServerEntry;
use trunkline_config::redact::{entry_secrets, header_secrets};
use trunkline_transport::http::{
    AfterRefusal, Credentials, CredentialsError, Later, Refusal, Token,
};
use trunkline_transport::stdio::Tee;
use trunkline_transport::{Trace, Traced, Transport};
use trunkline_wire::peer::Handler;
use trunkline_wire::{Json, Peer};

use super::redact::Redactor;
use super::trace::Tracer;
use super::{LogStore, ServerLog, messages};
use crate::catalog::Catalog;
use crate::connection::{ServerStatus, State};

/// Writes down what happens to one connection. Clones write to the same places; the default writes nowhere.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    pub(crate) log: ServerLog,
    trace: Option<Arc<dyn Trace>>,
    redactor: Redactor,
}

impl Recorder {
    pub(crate) fn new(
        server: &str,
        entry: Option<&ServerEntry>,
        logs: Option<&LogStore>,
        tracer: Option<&Tracer>,
    ) -> Self {
        let redactor = Redactor::default();
        let log = logs.map(|logs| logs.redacted(server, redactor.clone()));
        let trace = tracer.map(|tracer| tracer.server(server, redactor.clone()));
        let recorder = Self {
            log: log.unwrap_or_default(),
            trace,
            redactor,
        };
        if let Some(entry) = entry {
            recorder.hide_entry_secrets(entry);
        }
        recorder
    }

    /// Learns the secrets of an entry, so that they are not written. To be called again once those of the keychain are in
    /// their places.
    pub(crate) fn hide_entry_secrets(&self, entry: &ServerEntry) {
        let secrets = entry_secrets(entry);
        self.redactor.hide_all(secrets.iter().map(String::as_str));
    }

    /// Learns a secret.
    pub(crate) fn hide(&self, secret: &str) {
        self.redactor.hide(secret);
    }

    /// Learns a header that a `headersHelper` printed.
    pub(crate) fn hide_header(&self, name: &str, value: &str) {
        let secrets = header_secrets(name, value);
        self.redactor.hide_all(secrets.iter().map(String::as_str));
    }

    /// Credentials whose tokens are learned before they are sent.
    pub(crate) fn credentials(
        &self,
        credentials: Option<Arc<dyn Credentials>>,
    ) -> Option<Arc<dyn Credentials>> {
        let credentials = credentials?;
        Some(Arc::new(RedactedCredentials {
            credentials,
            redactor: self.redactor.clone(),
        }))
    }

    /// A text by the server, in which it may repeat what we sent, with our secrets masked.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.text(text)
    }

    /// Where a child's stderr goes besides being kept; nowhere if there is no log.
    pub(crate) fn stderr(&self) -> Option<Tee> {
        let log = self.log.is_on().then(|| self.log.clone())?;
        Some(Arc::new(move |bytes: &[u8]| log.stderr(bytes)))
    }

    /// Starts to speak over a transport, with every message traced if there is a trace.
    pub(crate) fn peer<T: Transport>(&self, transport: T, handler: Arc<dyn Handler>) -> Peer {
        match &self.trace {
            Some(trace) => Peer::start(Traced::new(transport, Arc::clone(trace)), handler),
            None => Peer::start(transport, handler),
        }
    }

    /// The state it is in before anything was done.
    pub(crate) fn log_initial_state(&self, state: &State) {
        if self.log.is_on() && !matches!(state, State::Disabled) {
            self.log.state(&messages::state(state, &Catalog::default()));
        }
    }

    /// A new state or new lists, and what is wrong with those, unless that was said before.
    pub(crate) fn log_change(&self, before: &ServerStatus, state: &State, catalog: &Catalog) {
        if !self.log.is_on() {
            return;
        }
        match (&before.state, state) {
            (State::Connected(before), State::Connected(now)) if Arc::ptr_eq(before, now) => {
                self.log.state(&messages::lists(catalog));
            }
            _ => self.log.state(&messages::state(state, catalog)),
        }
        if *catalog.diagnostics != *before.catalog.diagnostics {
            for problem in &*catalog.diagnostics {
                self.log.notice(problem);
            }
        }
    }

    /// Something arrived that is no use to anyone.
    pub(crate) fn nonsense(&self, what: &str, frame: &[u8]) {
        if self.log.is_on() {
            self.log
                .notice(&messages::unusable_frame(what, frame, &self.redactor));
        }
    }

    /// Something of ours that is worth knowing.
    pub(crate) fn notice(&self, text: &str) {
        if self.log.is_on() {
            self.log.notice(&self.redactor.text(text));
        }
    }

    /// A log message that the server sent.
    pub(crate) fn message(&self, params: &Json) {
        if self.log.is_on() {
            self.log.notice(&messages::message(params, &self.redactor));
        }
    }
}

/// Credentials under whose tokens a redactor looks.
struct RedactedCredentials {
    credentials: Arc<dyn Credentials>,
    redactor: Redactor,
}

impl Credentials for RedactedCredentials {
    fn token(&self) -> Later<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async {
            let token = self.credentials.token().await?;
            if let Some(token) = &token {
                let secrets = header_secrets("Authorization", token.expose());
                self.redactor.hide_all(secrets.iter().map(String::as_str));
            }
            Ok(token)
        })
    }

    fn refused(&self, refusal: Refusal) -> Later<'_, AfterRefusal> {
        self.credentials.refused(refusal)
    }
}
