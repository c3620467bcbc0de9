//! The calls made here: running ones with their progress, finished ones with their results.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::ui::doc::Doc;
use crate::ui::msg::{Progress, Request};

/// The most calls that are remembered.
const MAX_CALLS: usize = 200;

/// The state of a call.
#[derive(Debug)]
pub(in crate::ui) enum CallState {
    Running(Option<Progress>),
    Done { is_error: bool, took: Duration },
    Cancelled { took: Duration },
}

/// A call, a read or a prompt.
#[derive(Debug)]
pub(in crate::ui) struct Call {
    pub(in crate::ui) id: u64,
    pub(in crate::ui) request: Request,
    /// The command line that does the same.
    pub(in crate::ui) command: Option<String>,
    pub(in crate::ui) started: Instant,
    /// The time of day when it started.
    pub(in crate::ui) clock: String,
    pub(in crate::ui) state: CallState,
    pub(in crate::ui) result: Doc,
}

impl Call {
    pub(in crate::ui) fn is_running(&self) -> bool {
        matches!(self.state, CallState::Running(_))
    }

    pub(in crate::ui) fn elapsed(&self, now: Instant) -> Duration {
        match self.state {
            CallState::Running(_) => now.saturating_duration_since(self.started),
            CallState::Done { took, .. } | CallState::Cancelled { took } => took,
        }
    }
}

/// The newest calls, oldest first.
#[derive(Debug, Default)]
pub(in crate::ui) struct Calls(pub(in crate::ui) VecDeque<Call>);

impl Calls {
    pub(in crate::ui) fn push(&mut self, call: Call) {
        self.0.push_back(call);
        while self.0.len() > MAX_CALLS {
            // A running call keeps its place until it ends.
            let Some(at) = self.0.iter().position(|call| !call.is_running()) else {
                return;
            };
            self.0.remove(at);
        }
    }

    pub(in crate::ui) fn get(&self, id: u64) -> Option<&Call> {
        self.0.iter().find(|call| call.id == id)
    }

    /// Returns a call that still runs; results of others come too late.
    pub(in crate::ui) fn running(&mut self, id: u64) -> Option<&mut Call> {
        let mut calls = self.0.iter_mut();
        calls.find(|call| call.id == id && call.is_running())
    }

    /// Returns a call by its row, newest first.
    pub(in crate::ui) fn newest(&self, row: usize) -> Option<&Call> {
        self.0.iter().rev().nth(row)
    }
}
