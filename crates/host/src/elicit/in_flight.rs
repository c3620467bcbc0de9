//! The calls in flight on one connection, to tell which of them a server's request belongs to.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

tokio::task_local! {
    static CURRENT: Arc<Origin>;
}

/// The call or read that a server may ask questions about.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The tool's name in the pool; `None` for reads.
    pub(crate) tool: Option<String>,
    /// The client on whose behalf it is made.
    pub(crate) client: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Vec<Arc<Origin>>>);

impl InFlight {
    /// Runs `work` as part of a call.
    pub(crate) async fn track<T>(&self, origin: Origin, work: impl Future<Output = T>) -> T {
        let origin = Arc::new(origin);
        let _entry = self.enter(&origin);
        CURRENT.scope(origin, work).await
    }

    /// The call that the current task makes; otherwise the only one in flight. A server that asks
    /// on its own, during several calls, may mean any of them.
    pub(crate) fn origin(&self) -> Option<Arc<Origin>> {
        CURRENT.try_with(Arc::clone).ok().or_else(|| {
            let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &calls[..] {
                [only] => Some(Arc::clone(only)),
                _ => None,
            }
        })
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tool: &str) -> Origin {
        Origin {
            tool: Some(tool.to_owned()),
            client: None,
        }
    }

    #[tokio::test]
    async fn a_question_belongs_to_its_task_or_to_the_only_call() {
        let calls = InFlight::default();
        let tool = || calls.origin().and_then(|origin| origin.tool.clone());
        assert_eq!(tool(), None);
        let only = calls.enter(&Arc::new(named("a")));
        assert_eq!(tool().as_deref(), Some("a"));
        let inside = calls.track(named("b"), async { tool() }).await;
        assert_eq!(inside.as_deref(), Some("b"));
        let second = calls.enter(&Arc::new(named("c")));
        assert_eq!(tool(), None, "either may be meant");
        drop(only);
        assert_eq!(tool().as_deref(), Some("c"));
        drop(second);
        assert_eq!(tool(), None);
    }
}
