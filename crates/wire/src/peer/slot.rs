//! The slot in which one call waits for progress updates and its outcome.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Progress, RequestError};
use crate::json::Json;

/// The maximum number of unread progress updates. Older ones are dropped.
const MAX_PROGRESS: usize = 256;

/// The outcome of a call.
pub(super) type Outcome = Result<Json, RequestError>;

/// The event that woke the caller.
pub(super) enum Event {
    Progress(Progress),
    Done(Outcome),
}

/// The status of a call, for a transport.
#[derive(Clone, Default)]
pub struct CallStatus(pub(super) Arc<Slot>);

impl CallStatus {
    /// Returns true if the caller still waits for a response.
    pub fn is_waiting(&self) -> bool {
        !self.0.lock().ended
    }
}

impl fmt::Debug for CallStatus {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Call").field(&self.is_waiting()).finish()
    }
}

#[derive(Default)]
pub(super) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    progress: VecDeque<Progress>,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    /// The call has completed or was abandoned.
    ended: bool,
}

impl Slot {
    /// Completes the call. The first outcome counts.
    pub(super) fn finish(&self, outcome: Outcome) {
        self.update(|state| {
            state.outcome.get_or_insert(outcome);
            state.ended = true;
        });
    }

    /// Marks the call as abandoned by its caller.
    pub(super) fn abandon(&self) {
        self.lock().ended = true;
    }

    pub(super) fn progress(&self, progress: Progress) {
        self.update(|state| {
            if state.progress.len() == MAX_PROGRESS {
                state.progress.pop_front();
            }
            state.progress.push_back(progress);
        });
    }

    pub(super) fn poll(&self, context: &mut Context) -> Poll<Event> {
        let mut state = self.lock();
        if let Some(progress) = state.progress.pop_front() {
            return Poll::Ready(Event::Progress(progress));
        }
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Event::Done(outcome));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn update(&self, update: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.lock();
            update(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
