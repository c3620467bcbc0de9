//! Flow control for one connection (CALL-7).
//!
//! No server may delay the calls of another, so the reader of a connection is limited in three
//! ways:
//!
//! - A *turn* ends after a fixed time, and other tasks run before the next one. All busy
//!   connections share this time, so their number does not matter.
//! - Unsolicited messages are read at full speed up to a burst, then at a fixed rate. The buffer of
//!   the transport fills up, and the server waits.
//! - Junk has a lower limit. A connection that exceeds it is closed.
//!
//! Counters decide when to read the clock. A message that arrives alone costs no clock read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant as CpuInstant};

use tokio::time::Instant;

/// The length of a turn. Busy connections share it.
const TURN_LENGTH: Duration = Duration::from_micros(100);

/// The cost between two clock reads: one per message and one per [`COST_BYTES`].
const COST_PER_CLOCK_CHECK: usize = 8;
const COST_BYTES: usize = 4 * 1024;

/// The unsolicited messages and bytes between two checks of the buckets.
const FRAMES_PER_CHECK: u64 = 64;
const BYTES_PER_CHECK: u64 = 256 * 1024;

/// The burst of unsolicited traffic that is read at full speed, and the rate after it (SEC-4).
pub(super) const UNSOLICITED: RateLimit = RateLimit {
    frames: 10_000,
    bytes: 256 * 1024 * 1024,
    frames_per_second: 2_000,
    bytes_per_second: 64 * 1024 * 1024,
};

/// The junk after which a connection is closed, and the rate at which it drains (SEC-4).
pub(super) const JUNK: RateLimit = RateLimit {
    frames: 5_000,
    bytes: 512 * 1024 * 1024,
    frames_per_second: 500,
    bytes_per_second: 16 * 1024 * 1024,
};

/// The cost of a request, in unsolicited messages.
const FRAMES_PER_REQUEST: u64 = 10;

/// The junk messages that one response makes up for.
const JUNK_CREDIT_PER_RESPONSE: u64 = 100;

/// Junk messages up to this number are all reported; later ones are sampled.
pub(super) const MAX_REPORTED_JUNK: u64 = 32;

/// The longest pause of a reader. Longer delays consist of several pauses, so that responses get
/// through between them and a transport that sends while it receives can send.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// The number of connections that use up their turns.
static BUSY_LINKS: AtomicUsize = AtomicUsize::new(0);

/// The class of an incoming message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageClass {
    /// A response to one of our requests.
    Solicited,
    /// A valid message that was not requested.
    Unsolicited,
    /// A request, which also costs a response.
    Request,
    /// A request of a client that is being handled. Its concurrency is limited, not its rate.
    Served,
    /// A message without any use.
    Junk,
}

/// A burst, and the rate after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    frames_per_second: u64,
    bytes_per_second: u64,
}

/// A leaky bucket for messages and bytes.
#[derive(Debug, Default)]
struct LeakyBucket {
    frames: u64,
    bytes: u64,
}

impl LeakyBucket {
    fn add(&mut self, frames: u64, bytes: u64) {
        self.frames = self.frames.saturating_add(frames);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn leak(&mut self, limit: &RateLimit, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let leaked = |per_second: u64| per_second.saturating_mul(millis) / 1000;
        self.frames = self.frames.saturating_sub(leaked(limit.frames_per_second));
        self.bytes = self.bytes.saturating_sub(leaked(limit.bytes_per_second));
    }

    fn credit(&mut self, frames: u64, bytes: u64) {
        self.frames = self.frames.saturating_sub(frames);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns the time until the bucket is within its limit, or zero.
    fn excess(&self, limit: &RateLimit) -> Duration {
        let wait = |level: u64, limit: u64, per_second: u64| {
            let millis = level.saturating_sub(limit).saturating_mul(1000) / per_second;
            Duration::from_millis(millis)
        };
        let frames = wait(self.frames, limit.frames, limit.frames_per_second);
        let bytes = wait(self.bytes, limit.bytes, limit.bytes_per_second);
        frames.max(bytes)
    }

    fn is_over(&self, limit: &RateLimit) -> bool {
        self.frames > limit.frames || self.bytes > limit.bytes
    }
}

/// Counts a connection as busy.
#[derive(Debug)]
struct BusyLink;

impl BusyLink {
    fn new() -> Self {
        BUSY_LINKS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for BusyLink {
    fn drop(&mut self) {
        BUSY_LINKS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The flow control state of one connection.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    /// The cost since the last clock read.
    cost: usize,
    /// The first clock read of this turn.
    began: Option<CpuInstant>,
    /// The turn has ended.
    over: bool,
    busy: Option<BusyLink>,
    unsolicited: LeakyBucket,
    junk: LeakyBucket,
    /// The unsolicited messages and bytes since the last check of the buckets.
    since_check: LeakyBucket,
    checked_at: Option<Instant>,
    /// Another pause is needed.
    excess: bool,
    /// The bytes of incomplete messages that are already counted.
    partial: u64,
    junk_seen: u64,
}

impl FlowControl {
    /// Starts a new turn, because the reader has nothing to read.
    pub(super) fn start_turn(&mut self) {
        self.cost = 0;
        self.began = None;
        self.over = false;
        self.busy = None;
    }

    /// Charges the cost of one message, or of bytes that do not complete one.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.cost += 1 + bytes / COST_BYTES;
        let limit = match self.busy {
            None => COST_PER_CLOCK_CHECK,
            Some(_) => 1,
        };
        if self.cost >= limit {
            self.check_clock();
        }
    }

    #[cold]
    fn check_clock(&mut self) {
        self.cost = 0;
        let now = CpuInstant::now();
        let began = *self.began.get_or_insert(now);
        let shares = BUSY_LINKS.load(Ordering::Relaxed).max(1);
        let slice = TURN_LENGTH / u32::try_from(shares).unwrap_or(u32::MAX);
        self.over = now.duration_since(began) >= slice;
    }

    /// Counts the bytes of an incomplete message, whose class is not known yet.
    pub(super) fn count_partial(&mut self, bytes: usize) {
        self.partial = self.partial.saturating_add(bytes as u64);
        self.add_unsolicited(0, bytes as u64);
    }

    /// Counts a message by its class.
    pub(super) fn count(&mut self, class: MessageClass, bytes: usize) {
        let bytes = bytes as u64;
        // The bytes of this message may already be counted as partial.
        let counted = std::mem::take(&mut self.partial).min(bytes);
        self.unsolicited.credit(0, counted);
        match class {
            MessageClass::Solicited => self.junk.credit(JUNK_CREDIT_PER_RESPONSE, 0),
            MessageClass::Unsolicited => self.add_unsolicited(1, bytes),
            MessageClass::Request => self.add_unsolicited(FRAMES_PER_REQUEST, bytes),
            MessageClass::Served => {}
            MessageClass::Junk => self.add_junk(1, bytes),
        }
    }

    /// Counts junk without a report.
    pub(super) fn add_junk(&mut self, frames: u64, bytes: u64) {
        self.junk.add(frames, bytes);
        self.add_unsolicited(frames, bytes);
    }

    /// Undoes the count of a message that turned out to be a response.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.junk.credit(JUNK_CREDIT_PER_RESPONSE, bytes);
        self.unsolicited.credit(1, bytes);
    }

    fn add_unsolicited(&mut self, frames: u64, bytes: u64) {
        self.unsolicited.add(frames, bytes);
        self.since_check.add(frames, bytes);
    }

    /// Counts a junk message. Returns its number if it is to be reported.
    pub(super) fn sample_junk(&mut self) -> Option<u64> {
        self.junk_seen += 1;
        let number = self.junk_seen;
        (number <= MAX_REPORTED_JUNK || number.is_power_of_two()).then_some(number)
    }

    /// Returns true if [`FlowControl::throttle`] must run.
    pub(super) fn needs_throttling(&self) -> bool {
        self.over
            || self.excess
            || self.since_check.frames >= FRAMES_PER_CHECK
            || self.since_check.bytes >= BYTES_PER_CHECK
    }

    /// Lets other tasks run, and pauses for as long as the limits require. Fails if the connection
    /// has sent too much junk.
    pub(super) async fn throttle(&mut self) -> Result<(), String> {
        let pause = self.check_buckets(Instant::now())?;
        self.excess = pause > MAX_PAUSE;
        if self.over || !pause.is_zero() {
            if pause.is_zero() {
                self.busy.get_or_insert_with(BusyLink::new);
                tokio::task::yield_now().await;
            } else {
                // A sleeping reader needs no share of the turn.
                self.busy = None;
                tokio::time::sleep(pause.min(MAX_PAUSE)).await;
            }
            self.cost = 0;
            self.began = None;
            self.over = false;
        }
        Ok(())
    }

    fn check_buckets(&mut self, now: Instant) -> Result<Duration, String> {
        self.since_check = LeakyBucket::default();
        let elapsed = match self.checked_at {
            Some(before) => now.saturating_duration_since(before),
            None => Duration::ZERO,
        };
        // Shorter intervals add up until the next check.
        if self.checked_at.is_none() || elapsed >= Duration::from_millis(1) {
            self.unsolicited.leak(&UNSOLICITED, elapsed);
            self.junk.leak(&JUNK, elapsed);
            self.checked_at = Some(now);
        }
        if self.junk.is_over(&JUNK) {
            return Err(format!(
                "closed because the peer sent mostly junk ({} unusable messages)",
                self.junk_seen
            ));
        }
        Ok(self.unsolicited.excess(&UNSOLICITED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_after_its_length_and_not_before() {
        let mut flow = FlowControl::default();
        let began = CpuInstant::now();
        while !flow.needs_throttling() {
            flow.charge(10);
        }
        assert!(began.elapsed() >= TURN_LENGTH / 2 && began.elapsed() < Duration::from_secs(1));
        flow.start_turn();
        for _ in 0..COST_PER_CLOCK_CHECK - 1 {
            flow.charge(10);
        }
        assert!(!flow.needs_throttling() && flow.began.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn unsolicited_messages_are_throttled_after_a_burst() {
        let mut flow = FlowControl::default();
        let started = Instant::now();
        for _ in 0..UNSOLICITED.frames + 2 * UNSOLICITED.frames_per_second {
            flow.count(MessageClass::Unsolicited, 100);
            if flow.needs_throttling() {
                flow.throttle().await.unwrap();
            }
        }
        let took = started.elapsed();
        assert!(took > Duration::from_millis(1500), "{took:?}");
        assert!(took < Duration::from_millis(2500), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn long_messages_are_throttled_by_size_unless_they_are_responses() {
        const PART: usize = 1024 * 1024;
        const PARTS: usize = 64;
        for (class, seconds) in [(MessageClass::Unsolicited, 8), (MessageClass::Solicited, 0)] {
            let mut flow = FlowControl::default();
            let started = Instant::now();
            // Four messages make up the burst; each of the other eight takes a second.
            for _ in 0..12 {
                for _ in 0..PARTS {
                    flow.count_partial(PART);
                    if flow.needs_throttling() {
                        flow.throttle().await.unwrap();
                    }
                }
                flow.count(class, PARTS * PART);
                if flow.needs_throttling() {
                    flow.throttle().await.unwrap();
                }
            }
            let took = started.elapsed().as_secs_f64();
            assert!(
                (took - f64::from(seconds)).abs() < 0.5,
                "{class:?}: {took} s"
            );
            assert!(flow.busy.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_delay_consists_of_several_pauses() {
        let mut flow = FlowControl::default();
        flow.add_unsolicited(0, UNSOLICITED.bytes + UNSOLICITED.bytes_per_second);
        let (started, mut pauses) = (Instant::now(), 0);
        while flow.needs_throttling() {
            flow.throttle().await.unwrap();
            pauses += 1;
        }
        let took = started.elapsed();
        assert!(took > Duration::from_millis(900), "{took:?}");
        assert!(took < Duration::from_millis(1100), "{took:?}");
        assert!(pauses >= 20, "{pauses}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_mostly_junk_is_closed_and_one_with_responses_is_not() {
        for (answers, ended) in [(false, true), (true, false)] {
            let mut flow = FlowControl::default();
            let mut outcome = Ok(());
            for n in 0..4 * JUNK.frames {
                flow.count(MessageClass::Junk, 100);
                if answers && n % 50 == 0 {
                    flow.count(MessageClass::Solicited, 100);
                }
                if flow.needs_throttling() {
                    outcome = outcome.and(flow.throttle().await);
                }
            }
            assert_eq!(outcome.is_err(), ended, "{outcome:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn old_junk_drains() {
        let mut flow = FlowControl::default();
        for _ in 0..100 {
            for _ in 0..FRAMES_PER_CHECK {
                flow.count(MessageClass::Junk, 100);
            }
            flow.throttle().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    #[test]
    fn the_first_junk_messages_are_all_reported_and_later_ones_sampled() {
        let mut flow = FlowControl::default();
        let reported: Vec<_> = (0..200).filter_map(|_| flow.sample_junk()).collect();
        assert_eq!(reported.len() as u64, MAX_REPORTED_JUNK + 2);
        assert!(reported.ends_with(&[32, 64, 128]));
    }
}
