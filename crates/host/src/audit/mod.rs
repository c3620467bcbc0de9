//! The audit log (SEC-6): calls, connections, approvals, sign-ins, and changes of policy and
//! configuration, for whoever must answer for them later.
//!
//! [`AuditLog`] writes hash-chained JSON lines; [`HostBuilder::audit`] takes any [`AuditSink`].
//! The user's settings and the managed settings may ask for a log as well, and the managed ones
//! require it: calls are refused while it cannot be written.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use trunkline::audit::{AuditRecord, AuditSink};
//! use trunkline::{Builtin, CallOptions, Host};
//!
//! #[derive(Clone, Default)]
//! struct Events(Arc<Mutex<Vec<&'static str>>>);
//!
//! impl AuditSink for Events {
//!     fn record(&self, record: AuditRecord) {
//!         self.0.lock().unwrap().push(record.event.name());
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let events = Events::default();
//! let host = Host::builder().audit(events.clone()).builtin(Builtin::new("clock")).start();
//! host.ready().await;
//! let _ = host.call("mcp__clock__now", serde_json::json!({}), CallOptions::new()).await;
//! assert_eq!(events.0.lock().unwrap()[..], ["connection", "call"]);
//! # host.shutdown().await;
//! # }
//! ```
//!
//! [`HostBuilder::audit`]: crate::HostBuilder::audit

mod chain;
mod events;
mod file;
mod log;
#[cfg(feature = "http")]
mod otlp;
mod read;
mod record;
#[cfg(unix)]
mod syslog;
#[cfg(test)]
mod tests;
mod trail;

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
pub use trunkline_config::AuditSettings;
use trunkline_config::{AuditArguments, Blocked};

pub use log::AuditLog;
pub use read::{AuditFollow, AuditProblem, AuditReport, follow, records, verify};
pub use record::{AuditEvent, AuditRecord, CallDecision, CallRecord, RecordedArguments};
pub(crate) use trail::Trail;

use crate::permission::pattern::ToolPattern;

/// Takes the records of a host.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes a record. Called on the host's tasks: it must not block.
    fn record(&self, record: AuditRecord);

    /// Returns why calls must be refused at the moment. Called before every call.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Returns why records are not written at the moment.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Returns whether records must be stored before a call is sent, and before its result is
    /// returned. The host then waits for [`flush`](Self::flush), within a bound.
    fn is_synchronous(&self) -> bool {
        false
    }

    /// Waits until all earlier records are stored, at most for `limit`. Returns whether they are.
    fn flush(&self, limit: Duration) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let _ = limit;
        Box::pin(ready(true))
    }
}

/// The audit log of a host and its agents.
#[derive(Default)]
pub(crate) struct Audit {
    /// The sinks of the embedding program.
    given: Vec<Arc<dyn AuditSink>>,
    /// Everything that is in effect; `None` without a sink, so that a call costs one load.
    active: ArcSwapOption<ActiveAudit>,
    /// The servers that policy blocks, as far as they are recorded.
    blocked: Mutex<BTreeMap<String, Blocked>>,
}

/// The sinks in effect.
pub(crate) struct ActiveAudit {
    sinks: Vec<Arc<dyn AuditSink>>,
    settings: Option<Arc<AuditSettings>>,
    arguments: Vec<(ToolPattern, AuditArguments)>,
}

impl Audit {
    pub(crate) fn new(given: Vec<Arc<dyn AuditSink>>) -> Self {
        let audit = Self {
            given,
            active: ArcSwapOption::empty(),
            blocked: Mutex::default(),
        };
        audit.apply(None);
        audit
    }

    /// Replaces the log that the settings ask for.
    pub(crate) fn set(&self, settings: Option<&Arc<AuditSettings>>) {
        let current = self.active.load();
        let current = current.as_ref().and_then(|active| active.settings.as_ref());
        if current != settings {
            self.apply(settings);
        }
    }

    fn apply(&self, settings: Option<&Arc<AuditSettings>>) {
        let mut sinks = self.given.clone();
        if let Some(settings) = settings {
            sinks.push(Arc::new(AuditLog::from_settings(settings)));
            #[cfg(unix)]
            if settings.syslog {
                sinks.push(Arc::new(syslog::Syslog::default()));
            }
            #[cfg(feature = "http")]
            if let Some(url) = &settings.otlp {
                sinks.push(Arc::new(otlp::Otlp::new(url.clone())));
            }
        }
        let rules = settings.iter().flat_map(|settings| &settings.arguments);
        let active = ActiveAudit {
            arguments: rules
                .map(|(rule, mode)| (ToolPattern::of_rule(rule), *mode))
                .collect(),
            settings: settings.cloned(),
            sinks,
        };
        let active = (!active.sinks.is_empty()).then(|| Arc::new(active));
        self.active.store(active);
    }

    /// Returns the sinks, if there are any.
    pub(crate) fn active(&self) -> Option<Arc<ActiveAudit>> {
        self.active.load().as_ref().map(Arc::clone)
    }

    /// Records an event, if anybody wants it.
    pub(crate) fn record(&self, event: impl FnOnce() -> AuditEvent) {
        if let Some(active) = &*self.active.load() {
            active.record(event());
        }
    }

    /// Returns the problems of all sinks.
    pub(crate) fn problems(&self) -> Vec<String> {
        let active = self.active.load();
        let sinks = active.iter().flat_map(|active| &active.sinks);
        sinks.filter_map(|sink| sink.problem()).collect()
    }

    /// Waits until everything is stored, at most for `limit`.
    pub(crate) async fn flush(&self, limit: Duration) {
        if let Some(active) = self.active() {
            active.flush(limit).await;
        }
    }
}

impl ActiveAudit {
    pub(crate) fn record(&self, event: AuditEvent) {
        let record = AuditRecord::now(event);
        let Some((last, others)) = self.sinks.split_last() else {
            return;
        };
        for sink in others {
            sink.record(record.clone());
        }
        last.record(record);
    }

    /// Returns why calls must be refused at the moment.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.sinks.iter().find_map(|sink| sink.refusal())
    }

    pub(crate) fn is_synchronous(&self) -> bool {
        self.sinks.iter().any(|sink| sink.is_synchronous())
    }

    /// Returns whether everything is stored within the limit.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
        let mut stored = true;
        for sink in &self.sinks {
            stored &= sink.flush(limit).await;
        }
        stored
    }
}
