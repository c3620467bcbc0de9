//! Flow control of one link (CALL-7).
//!
//! No server may hold up the calls of another, so the reader of a link is limited in three ways:
//!
//! - A *turn* ends after a slice of time, and other tasks run before the next. All links that use up their
//!   turns share one slice, so their number does not matter.
//! - Unsolicited messages are taken at full speed up to a burst, then at a fixed rate. The transport's
//!   buffer fills up meanwhile, and the server waits.
//! - Junk has a smaller allowance. A link that exceeds it is ended.
//!
//! Counters decide when to look at the clock; a message that arrives alone costs no clock read here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant as CpuInstant};

use tokio::time::Instant;

/// The time that one turn of a reader may take. Links that use up their turns share it.
const TURN_LENGTH: Duration = Duration::from_micros(100);

/// Cost of a turn between two looks at the clock: one for a message and one for each [`COST_BYTES`].
const COST_PER_CLOCK_CHECK: usize = 8;
const COST_BYTES: usize = 4 * 1024;

/// Unsolicited messages and bytes between two looks at the buckets.
const FRAMES_PER_CHECK: u64 = 64;
const BYTES_PER_CHECK: u64 = 256 * 1024;

/// Unsolicited traffic that is taken at full speed, and the rate beyond it (SEC-4).
pub(super) const UNSOLICITED: RateLimit = RateLimit {
    frames: 10_000,
    bytes: 256 * 1024 * 1024,
    frames_per_second: 2_000,
    bytes_per_second: 64 * 1024 * 1024,
};

/// Junk beyond which a link is ended, and the rate at which old junk is forgotten (SEC-4).
pub(super) const JUNK: RateLimit = RateLimit {
    frames: 5_000,
    bytes: 512 * 1024 * 1024,
    frames_per_second: 500,
    bytes_per_second: 16 * 1024 * 1024,
};

/// What a request counts for, in unsolicited messages.
const FRAMES_PER_REQUEST: u64 = 10;

/// Junk messages that the answer to a call makes up for.
const JUNK_CREDIT_PER_RESPONSE: u64 = 100;

/// Junk messages that are reported one by one; later ones are sampled.
pub(super) const MAX_REPORTED_JUNK: u64 = 32;

/// The longest pause of a reader whose server sends too fast. Pauses are repeated until the excess is gone:
/// between two of them answers come through, and a transport that sends while it receives gets to send.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Links whose readers use up their turns.
static BUSY_LINKS: AtomicUsize = AtomicUsize::new(0);

/// What an incoming message is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageClass {
    /// It answers one of our requests.
    Solicited,
    /// It is a valid message that nobody asked for.
    Unsolicited,
    /// It is a request, which costs an answer too.
    Request,
    /// It is of no use to anyone.
    Junk,
}

/// How much of something may arrive at once, and how much per second after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    frames_per_second: u64,
    bytes_per_second: u64,
}

/// A leaky bucket.
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

    /// How long it takes until the bucket holds no more than its allowance; zero if it does now.
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

/// Counts a link among the busy ones.
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

/// Flow control of one link.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    /// Cost since the last look at the clock.
    cost: usize,
    /// When the turn began, as far as the clock was looked at.
    began: Option<CpuInstant>,
    /// The turn is over.
    over: bool,
    busy: Option<BusyLink>,
    unsolicited: LeakyBucket,
    junk: LeakyBucket,
    /// Unsolicited messages and bytes since the last look at the buckets.
    since_check: LeakyBucket,
    checked_at: Option<Instant>,
    /// One pause was not enough.
    excess: bool,
    /// Bytes of unfinished messages that are counted already.
    partial: u64,
    junk_seen: u64,
}

impl FlowControl {
    /// Nothing more has arrived: the next message begins a new turn.
    pub(super) fn start_turn(&mut self) {
        self.cost = 0;
        self.began = None;
        self.over = false;
        self.busy = None;
    }

    /// Counts the work for one message, or for bytes that complete none.
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

    /// Counts bytes of a message that is not complete. Until it is, nobody knows what it is worth.
    pub(super) fn count_partial(&mut self, bytes: usize) {
        self.partial = self.partial.saturating_add(bytes as u64);
        self.add_unsolicited(0, bytes as u64);
    }

    /// Counts a message by its worth.
    pub(super) fn count(&mut self, class: MessageClass, bytes: usize) {
        let bytes = bytes as u64;
        // Its own bytes count once.
        let counted = std::mem::take(&mut self.partial).min(bytes);
        self.unsolicited.credit(0, counted);
        match class {
            MessageClass::Solicited => self.junk.credit(JUNK_CREDIT_PER_RESPONSE, 0),
            MessageClass::Unsolicited => self.add_unsolicited(1, bytes),
            MessageClass::Request => self.add_unsolicited(FRAMES_PER_REQUEST, bytes),
            MessageClass::Junk => self.add_junk(1, bytes),
        }
    }

    /// Counts junk that is not reported.
    pub(super) fn add_junk(&mut self, frames: u64, bytes: u64) {
        self.junk.add(frames, bytes);
        self.add_unsolicited(frames, bytes);
    }

    /// Takes back what was counted of a message that turned out to be an answer.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.junk.credit(JUNK_CREDIT_PER_RESPONSE, bytes);
        self.unsolicited.credit(1, bytes);
    }

    fn add_unsolicited(&mut self, frames: u64, bytes: u64) {
        self.unsolicited.add(frames, bytes);
        self.since_check.add(frames, bytes);
    }

    /// The number of this junk message, if it is one that is reported.
    pub(super) fn sample_junk(&mut self) -> Option<u64> {
        self.junk_seen += 1;
        let number = self.junk_seen;
        (number <= MAX_REPORTED_JUNK || number.is_power_of_two()).then_some(number)
    }

    /// Whether [`FlowControl::throttle`] has something to do.
    pub(super) fn needs_throttling(&self) -> bool {
        self.over
            || self.excess
            || self.since_check.frames >= FRAMES_PER_CHECK
            || self.since_check.bytes >= BYTES_PER_CHECK
    }

    /// Lets other tasks run, for as long as this link has to wait. Fails once it has sent too much junk.
    pub(super) async fn throttle(&mut self) -> Result<(), String> {
        let pause = self.check_buckets(Instant::now())?;
        self.excess = pause > MAX_PAUSE;
        if self.over || !pause.is_zero() {
            if pause.is_zero() {
                self.busy.get_or_insert_with(BusyLink::new);
                tokio::task::yield_now().await;
            } else {
                // Who sleeps needs no share of the slice.
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
        // Fractions of a millisecond add up.
        if self.checked_at.is_none() || elapsed >= Duration::from_millis(1) {
            self.unsolicited.leak(&UNSOLICITED, elapsed);
            self.junk.leak(&JUNK, elapsed);
            self.checked_at = Some(now);
        }
        if self.junk.is_over(&JUNK) {
            return Err(format!(
                "it was cut off because it sent mostly junk ({} unusable messages)",
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
    fn a_turn_ends_after_its_slice_and_not_before() {
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
    async fn unsolicited_messages_are_slowed_down_after_a_burst() {
        let mut flow = FlowControl::default();
        let begun = Instant::now();
        for _ in 0..UNSOLICITED.frames + 2 * UNSOLICITED.frames_per_second {
            flow.count(MessageClass::Unsolicited, 100);
            if flow.needs_throttling() {
                flow.throttle().await.unwrap();
            }
        }
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(1500), "{took:?}");
        assert!(took < Duration::from_millis(2500), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn long_messages_are_slowed_down_by_their_bytes_unless_they_are_answers() {
        const PART: usize = 1024 * 1024;
        const PARTS: usize = 64;
        for (class, seconds) in [(MessageClass::Unsolicited, 8), (MessageClass::Solicited, 0)] {
            let mut flow = FlowControl::default();
            let begun = Instant::now();
            // Four make up the burst; each of the other eight takes a second.
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
            let took = begun.elapsed().as_secs_f64();
            assert!(
                (took - f64::from(seconds)).abs() < 0.5,
                "{class:?}: {took} s"
            );
            assert!(flow.busy.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_message_is_paid_for_in_several_pauses() {
        let mut flow = FlowControl::default();
        flow.add_unsolicited(0, UNSOLICITED.bytes + UNSOLICITED.bytes_per_second);
        let (begun, mut pauses) = (Instant::now(), 0);
        while flow.needs_throttling() {
            flow.throttle().await.unwrap();
            pauses += 1;
        }
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(900), "{took:?}");
        assert!(took < Duration::from_millis(1100), "{took:?}");
        assert!(pauses >= 20, "{pauses}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_of_mostly_junk_is_ended_and_one_with_answers_is_not() {
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
    async fn old_junk_is_forgotten() {
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
    fn junk_is_reported_one_by_one_at_first_and_seldom_later() {
        let mut flow = FlowControl::default();
        let reported: Vec<_> = (0..200).filter_map(|_| flow.sample_junk()).collect();
        assert_eq!(reported.len() as u64, MAX_REPORTED_JUNK + 2);
        assert!(reported.ends_with(&[32, 64, 128]));
    }
}
