//! The calls in flight on one connection, to tell which of them a server's request belongs to.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

tokio::task_local! {
    static CURRENT: Arc<Origin>;
}

/// The most warnings that are kept for a call.
const MAX_WARNINGS: usize = 20;

/// The call or read that a server may ask questions about.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The tool's name in the pool; `None` for reads.
    pub(crate) tool: Option<String>,
    /// The client on whose behalf it is made.
    pub(crate) client: Option<Arc<str>>,
    /// Whether it has ended.
    ended: watch::Sender<bool>,
    /// Problems with the answers to its elicitations.
    warnings: Mutex<Vec<String>>,
}

impl Origin {
    pub(crate) fn new(tool: Option<String>, client: Option<Arc<str>>) -> Arc<Self> {
        Arc::new(Self {
            tool,
            client,
            ended: watch::Sender::new(false),
            warnings: Mutex::default(),
        })
    }

    fn warn(&self, warning: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS {
            warnings.push(warning.to_owned());
        }
    }

    /// Takes the problems with the answers to its elicitations.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The calls that a server's request may belong to.
#[derive(Debug)]
pub(crate) struct Asking {
    /// One call if the server's request can belong to no other.
    calls: Vec<Arc<Origin>>,
    /// Whether the call's own task handles the request, and ends with the call.
    pub(crate) in_call: bool,
}

impl Asking {
    /// The call that the request belongs to, if it is known.
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        match &self.calls[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Adds a warning to the result of the call.
    pub(crate) fn warn(&self, warning: &str) {
        if let Some(origin) = self.origin() {
            origin.warn(warning);
        }
    }

    /// Waits until every call that the request may belong to has ended (ELI-5). A request of a
    /// server without calls belongs to none, and stays.
    pub(crate) async fn ended(&self) {
        if self.in_call || self.calls.is_empty() {
            return std::future::pending().await;
        }
        for call in &self.calls {
            // The sender is in the origin, which is held here.
            let _ = call.ended.subscribe().wait_for(|ended| *ended).await;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Vec<Arc<Origin>>>);

impl InFlight {
    /// Runs `work` as part of a call.
    pub(crate) async fn track<T>(&self, origin: &Arc<Origin>, work: impl Future<Output = T>) -> T {
        let _entry = self.enter(origin);
        CURRENT.scope(Arc::clone(origin), work).await
    }

    /// The call that the current task makes; otherwise all in flight. A server that asks on its
    /// own, during several calls, may mean any of them.
    pub(crate) fn asking(&self) -> Asking {
        if let Ok(current) = CURRENT.try_with(Arc::clone) {
            return Asking {
                calls: vec![current],
                in_call: true,
            };
        }
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Asking {
            calls: calls.clone(),
            in_call: false,
        }
    }

    fn enter(&self, origin: &Arc<Origin>) -> Entry<'_> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Arc::clone(origin));
        Entry {
            calls: self,
            origin: Arc::clone(origin),
        }
    }
}

/// A call's place in the list, until it ends or is dropped.
struct Entry<'a> {
    calls: &'a InFlight,
    origin: Arc<Origin>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|origin| !Arc::ptr_eq(origin, &self.origin));
        drop(calls);
        self.origin.ended.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn named(tool: &str) -> Arc<Origin> {
        Origin::new(Some(tool.to_owned()), None)
    }

    #[tokio::test]
    async fn a_question_belongs_to_its_task_or_to_the_only_call() {
        let calls = InFlight::default();
        let tool = || {
            let asking = calls.asking();
            asking.origin().and_then(|origin| origin.tool.clone())
        };
        assert_eq!(tool(), None);
        let only = calls.enter(&named("a"));
        assert_eq!(tool().as_deref(), Some("a"));
        let inside = calls.track(&named("b"), async { tool() }).await;
        assert_eq!(inside.as_deref(), Some("b"));
        let second = calls.enter(&named("c"));
        assert_eq!(tool(), None, "either may be meant");
        drop(only);
        assert_eq!(tool().as_deref(), Some("c"));
        drop(second);
        assert_eq!(tool(), None);
    }

    #[tokio::test]
    async fn a_question_ends_with_the_last_call_that_it_may_belong_to() {
        let calls = InFlight::default();
        assert!(calls.asking().ended().now_or_never().is_none());
        let (first, second) = (calls.enter(&named("a")), calls.enter(&named("b")));
        let asking = calls.asking();
        let _later = calls.enter(&named("c"));
        drop(second);
        assert!(asking.ended().now_or_never().is_none());
        drop(first);
        assert!(asking.ended().now_or_never().is_some());
    }
}
