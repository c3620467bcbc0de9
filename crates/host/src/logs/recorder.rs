//! Records everything about one connection.

use std::borrow::Cow;
use std::sync::Arc;

use trunkline_config::ServerEntry;
use trunkline_config::redact::entry_secrets;
use trunkline_transport::stdio::Tee;
use trunkline_transport::{Trace, Traced, Transport};
use trunkline_wire::mcp::ServerIdentity;
use trunkline_wire::peer::Handler;
use trunkline_wire::{Json, Peer};

use super::redact::Redactor;
use super::tap::{Both, MessageTap, ServerTap};
use super::trace::Tracer;
use super::{LogStore, ServerLog, messages};
use crate::catalog::Catalog;
use crate::connection::{ServerStatus, State};

/// Records the log and the trace of one connection. Clones share their destinations; the default
/// discards everything.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    pub(crate) log: ServerLog,
    trace: Option<Arc<dyn Trace>>,
    pub(super) redactor: Redactor,
}

impl Recorder {
    pub(crate) fn new(
        server: &str,
        entry: Option<&ServerEntry>,
        logs: Option<&LogStore>,
        tracer: Option<&Tracer>,
        tap: Option<&MessageTap>,
    ) -> Self {
        let redactor = Redactor::default();
        let log = logs.map(|logs| logs.redacted(server, redactor.clone()));
        let trace = tracer.map(|tracer| tracer.server(server, redactor.clone()));
        let tap = tap.map(|tap| -> Arc<dyn Trace> {
            Arc::new(ServerTap {
                server: server.to_owned(),
                redactor: redactor.clone(),
                tap: Arc::clone(tap),
            })
        });
        let trace = match (trace, tap) {
            (Some(trace), Some(tap)) => Some(Arc::new(Both(trace, tap)) as Arc<dyn Trace>),
            (trace, tap) => trace.or(tap),
        };
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

    /// Hides the secrets of an entry. Called again once keychain secrets are resolved.
    pub(crate) fn hide_entry_secrets(&self, entry: &ServerEntry) {
        let secrets = entry_secrets(entry);
        self.redactor.hide_all(secrets.iter().map(String::as_str));
    }

    /// Hides a secret.
    pub(crate) fn hide(&self, secret: &str) {
        self.redactor.hide(secret);
    }

    /// Masks our secrets in a server's text, which may echo them.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.text(text)
    }

    /// Masks our secrets in what a server says about itself.
    pub(crate) fn mask_identity(&self, identity: &mut ServerIdentity) {
        let mask = |text: &mut String| {
            if let Cow::Owned(shown) = self.redactor.known(text) {
                *text = shown;
            }
        };
        if let Some(info) = &mut identity.info {
            mask(&mut info.name);
            info.title.iter_mut().for_each(mask);
            mask(&mut info.version);
        }
        identity.instructions.iter_mut().for_each(mask);
        let raw = &mut identity.capabilities.raw;
        if let Cow::Owned(shown) = self.redactor.known(raw.as_str()) {
            *raw = Json::parse(shown).unwrap_or_else(|_| Json::empty_object());
        }
    }

    /// Returns a sink for a child's stderr, if there is a log.
    pub(crate) fn stderr(&self) -> Option<Tee> {
        let log = self.log.is_on().then(|| self.log.clone())?;
        Some(Arc::new(move |bytes: &[u8]| log.stderr(bytes)))
    }

    /// Starts a peer over a transport, traced if requested.
    pub(crate) fn peer<T: Transport>(&self, transport: T, handler: Arc<dyn Handler>) -> Peer {
        match &self.trace {
            Some(trace) => Peer::start(Traced::new(transport, Arc::clone(trace)), handler),
            None => Peer::start(transport, handler),
        }
    }

    /// Logs the initial state.
    pub(crate) fn log_initial_state(&self, state: &State) {
        // Nothing happens to a server that is not needed yet.
        if self.log.is_on() && !matches!(state, State::Disabled) && !state.is_lazy() {
            self.log.state(&messages::state(state, &Catalog::default()));
        }
    }

    /// Logs a new state or new lists, with new diagnostics.
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

    /// Logs an unusable frame.
    pub(crate) fn nonsense(&self, what: &str, frame: &[u8]) {
        if self.log.is_on() {
            self.log
                .notice(&messages::unusable_frame(what, frame, &self.redactor));
        }
    }

    /// Logs a remark of ours.
    pub(crate) fn notice(&self, text: &str) {
        if self.log.is_on() {
            self.log.notice(&self.redactor.text(text));
        }
    }

    /// Logs a log message from the server.
    pub(crate) fn message(&self, params: &Json) {
        if self.log.is_on() {
            self.log.notice(&messages::message(params, &self.redactor));
        }
    }
}
