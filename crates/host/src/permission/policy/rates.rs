//! Counts the calls of the last minute, for tools with a limit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time over which calls are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// The recent calls of each tool with a limit.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<String, VecDeque<Instant>>>);

impl Rates {
    /// Returns the number of calls in the last minute.
    pub(crate) fn recent(&self, tool: &str) -> usize {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get_mut(tool).map_or(0, |times| {
            expire(times);
            times.len()
        })
    }

    /// Counts a call unless that exceeds the limit. Returns whether it was counted.
    pub(crate) fn admit(&self, tool: &str, limit: u32) -> bool {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = calls.entry(tool.to_owned()).or_default();
        expire(times);
        let admitted = times.len() < limit as usize;
        if admitted {
            times.push_back(Instant::now());
        }
        admitted
    }
}

fn expire(times: &mut VecDeque<Instant>) {
    let now = Instant::now();
    while times
        .front()
        .is_some_and(|time| now.duration_since(*time) >= WINDOW)
    {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_count_for_a_minute() {
        let rates = Rates::default();
        assert!(rates.admit("a", 2) && rates.admit("a", 2));
        assert!(!rates.admit("a", 2));
        assert!(rates.admit("b", 2));
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(rates.recent("a"), 2);
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(rates.recent("a"), 0);
        assert!(rates.admit("a", 2));
        assert!(!rates.admit("a", 0));
    }
}
