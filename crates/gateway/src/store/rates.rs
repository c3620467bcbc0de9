//! Rates of requests, one token bucket per key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::StoreFuture;

/// The maximum number of keys. Beyond it, full buckets are forgotten: they are as good as new.
const MAX_KEYS: usize = 10_000;

/// A sustained rate and a burst above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The requests per second.
    pub per_second: f64,
    /// The requests at once.
    pub burst: f64,
}

/// Whether a request may proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// It may.
    Allowed,
    /// It may not, before this time has passed.
    Limited(Duration),
}

/// Limits the rate of requests.
pub trait RateLimiter: Send + Sync + 'static {
    /// Takes one request from the bucket of `key`.
    fn take<'a>(&'a self, key: &'a str, rate: Rate, now: u64) -> StoreFuture<'a, RateDecision>;
}

/// The state of one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) tokens: f64,
    pub(super) updated: u64,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: u64) -> Self {
        Self {
            tokens: rate.burst,
            updated: now,
        }
    }

    /// Adds the tokens of the time since the last update.
    fn refill(&mut self, rate: Rate, now: u64) {
        // A clock that goes back adds nothing.
        let passed = Duration::from_millis(now.saturating_sub(self.updated)).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.updated = self.updated.max(now);
    }

    pub(super) fn take(&mut self, rate: Rate, now: u64) -> RateDecision {
        self.refill(rate, now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return RateDecision::Allowed;
        }
        let seconds = (1.0 - self.tokens) / rate.per_second.max(f64::MIN_POSITIVE);
        // A rate of zero never allows another request; an hour says so well enough.
        RateDecision::Limited(Duration::from_secs_f64(seconds.min(3600.0)))
    }
}

/// Rates in memory.
#[derive(Default)]
pub struct MemoryRateLimiter(Mutex<HashMap<String, Bucket>>);

impl MemoryRateLimiter {
    fn decide(&self, key: &str, rate: Rate, now: u64) -> RateDecision {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(key) {
            return bucket.take(rate, now);
        }
        if buckets.len() >= MAX_KEYS {
            buckets.retain(|_, bucket| {
                bucket.refill(rate, now);
                bucket.tokens < rate.burst
            });
        }
        if buckets.len() >= MAX_KEYS {
            return RateDecision::Limited(Duration::from_secs(1));
        }
        let mut bucket = Bucket::full(rate, now);
        let decision = bucket.take(rate, now);
        buckets.insert(key.to_owned(), bucket);
        decision
    }
}

impl RateLimiter for MemoryRateLimiter {
    fn take<'a>(&'a self, key: &'a str, rate: Rate, now: u64) -> StoreFuture<'a, RateDecision> {
        let decision = self.decide(key, rate, now);
        Box::pin(async move { Ok(decision) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_keys_make_room_and_a_flood_of_keys_is_limited() {
        let limiter = MemoryRateLimiter::default();
        let rate = Rate {
            per_second: 1.0,
            burst: 2.0,
        };
        for key in 0..MAX_KEYS {
            assert_eq!(
                limiter.decide(&key.to_string(), rate, 0),
                RateDecision::Allowed
            );
        }
        assert_ne!(limiter.decide("one more", rate, 0), RateDecision::Allowed);
        assert_eq!(limiter.decide("later", rate, 5_000), RateDecision::Allowed);
        assert_eq!(limiter.0.lock().unwrap().len(), 1);
    }
}
