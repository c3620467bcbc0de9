//! Counts open streams.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<AtomicUsize>);

impl Streams {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// A guard that counts as a stream from its opening until it is dropped.
    pub(crate) fn guard(&self) -> Guard {
        Guard {
            streams: self.clone(),
            open: std::cell::Cell::new(false),
        }
    }
}

pub(crate) struct Guard {
    streams: Streams,
    open: std::cell::Cell<bool>,
}

impl Guard {
    pub(crate) fn open(&self) {
        if !self.open.replace(true) {
            self.streams.0.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.open.get() {
            self.streams.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
