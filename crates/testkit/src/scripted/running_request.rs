//! A request in progress, which may be cancelled.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::Request;

#[derive(Debug)]
pub(super) struct RunningRequest {
    pub(super) request: Request,
    /// Runs on the reader, so that no response can arrive meanwhile.
    pub(super) inline: bool,
    /// The client's response to the last request of this one.
    pub(super) answer: Mutex<Option<Value>>,
    cancelled: Mutex<bool>,
    wake: Condvar,
}

impl RunningRequest {
    pub(super) fn new(request: Request, inline: bool) -> Self {
        Self {
            request,
            inline,
            answer: Mutex::default(),
            cancelled: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    pub(super) fn cancel(&self) {
        *self.cancelled.lock().unwrap() = true;
        self.wake.notify_all();
    }

    pub(super) fn cancelled(&self) -> bool {
        *self.cancelled.lock().unwrap()
    }

    /// Sleeps, or wakes early when cancelled.
    pub(super) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut cancelled = self.cancelled.lock().unwrap();
        while !*cancelled
            && let Some(left) = end
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())
        {
            cancelled = self.wake.wait_timeout(cancelled, left).unwrap().0;
        }
    }
}
