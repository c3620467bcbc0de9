//! Limits how many servers start concurrently (LIF-2).
//!
//! A local starter holds one of a few permits. A waiting starter releases its permit and continues,
//! so slow starters overlap; a CPU-bound one keeps it while the cores are full. The total number of
//! active starters without an answer is bounded as well.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::machine::{Machine, Sample, Starter, UsageSampler};

/// A local starter that takes longer counts as slow.
const SLOW_AFTER: Duration = Duration::from_millis(250);

/// Lower bound of the slow threshold: a shorter delay may be mere scheduling.
const MIN_SLOW_AFTER: Duration = Duration::from_millis(10);

/// Maximum time that a CPU-bound starter keeps its permit; some never stop.
const MAX_HOLD: Duration = Duration::from_secs(5);

/// Sampling intervals with and without a permit.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(250);

/// A starter idle for this long does not count towards the bound until it becomes active again.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Number of answers needed to estimate how long an answer takes.
const MIN_ANSWERS: usize = 3;

/// Early releases allowed per local permit beyond the first. Bounds concurrent starts if the first
/// answers came from quick servers; a limit of one starts servers one by one.
const EARLY_PER_PERMIT: usize = 3;

/// Permits for local processes, which are expensive to start, and for remote connections, which are
/// not.
pub(crate) struct StartupLimiter {
    machine: Machine,
    local: Semaphore,
    remote: Semaphore,
    early_releases: Semaphore,
    /// Whether a local starter may pass on its permit.
    may_overlap: bool,
    /// Number of local starters that have not answered and are not idle.
    active: AtomicUsize,
    /// Notified when another starter may become active.
    slot_freed: Notify,
    answer_times: Mutex<AnswerTimes>,
    answered: Notify,
}

/// Times that local servers took to answer.
#[derive(Default)]
struct AnswerTimes {
    answers: usize,
    slowest: Duration,
}

impl AnswerTimes {
    /// Returns the slow threshold: twice the slowest answer so far.
    fn slow_after(&self) -> Duration {
        if self.answers < MIN_ANSWERS {
            return SLOW_AFTER;
        }
        (self.slowest * 2).clamp(MIN_SLOW_AFTER, SLOW_AFTER)
    }
}

/// Input for the decision whether a starter keeps its permit.
#[derive(Clone, Copy, Debug)]
struct StarterState {
    /// Time since the start.
    age: Duration,
    /// Age from which the starter counts as slow.
    slow_after: Duration,
    /// It is CPU-bound, and so are as many others as the machine supports.
    needs_cpu: bool,
    may_release_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Keep the permit and decide again after this time.
    Keep(Duration),
    Release,
}

fn decide(state: StarterState) -> Decision {
    let StarterState {
        age,
        slow_after,
        needs_cpu,
        may_release_early,
    } = state;
    if age < slow_after {
        return Decision::Keep(slow_after.saturating_sub(age));
    }
    if needs_cpu && age < MAX_HOLD {
        return Decision::Keep(SAMPLE_INTERVAL);
    }
    if age >= SLOW_AFTER || may_release_early {
        return Decision::Release;
    }
    Decision::Keep(SAMPLE_INTERVAL.min(SLOW_AFTER.saturating_sub(age)))
}

impl StartupLimiter {
    pub(crate) fn new(local: usize, remote: usize, machine: Machine) -> Self {
        let early_releases = local.saturating_sub(1).saturating_mul(EARLY_PER_PERMIT);
        Self {
            machine,
            local: Semaphore::new(local.min(Semaphore::MAX_PERMITS)),
            remote: Semaphore::new(remote.min(Semaphore::MAX_PERMITS)),
            early_releases: Semaphore::new(early_releases.min(Semaphore::MAX_PERMITS)),
            may_overlap: local > 1,
            active: AtomicUsize::new(0),
            slot_freed: Notify::new(),
            answer_times: Mutex::default(),
            answered: Notify::new(),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) async fn acquire(&self, local: bool) -> StartupPermit<'_> {
        let permits = if local { &self.local } else { &self.remote };
        // The semaphore is never closed; if it were, starting anyway would be right.
        let permit = permits.acquire().await.ok();
        let load = if local {
            Some(self.wait_for_load().await)
        } else {
            None
        };
        StartupPermit {
            limiter: self,
            permit,
            load,
        }
    }

    /// Waits until the machine supports another starter.
    async fn wait_for_load(&self) -> StarterLoad<'_> {
        let most = self.machine.max_starters();
        loop {
            let mut slot_freed = pin!(self.slot_freed.notified());
            slot_freed.as_mut().enable();
            let one_more = |active| (active < most).then_some(active + 1);
            let order = Ordering::Relaxed;
            if self.active.fetch_update(order, order, one_more).is_ok() {
                return StarterLoad {
                    limiter: self,
                    active: true,
                    cpu_bound: false,
                };
            }
            slot_freed.await;
        }
    }

    fn answer_times(&self) -> MutexGuard<'_, AnswerTimes> {
        self.answer_times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn record_answer(&self, time: Duration) {
        let mut answer_times = self.answer_times();
        answer_times.answers = answer_times.answers.saturating_add(1);
        answer_times.slowest = answer_times.slowest.max(time.min(SLOW_AFTER));
        drop(answer_times);
        self.answered.notify_waiters();
    }
}

/// The load of a local starter that has not answered.
struct StarterLoad<'a> {
    limiter: &'a StartupLimiter,
    active: bool,
    cpu_bound: bool,
}

impl StarterLoad<'_> {
    fn update(&mut self, active: bool, cpu_bound: bool) {
        if active != self.active {
            self.active = active;
            if active {
                // The process exists, whether or not there is a slot for it.
                self.limiter.active.fetch_add(1, Ordering::Relaxed);
            } else {
                self.limiter.active.fetch_sub(1, Ordering::Relaxed);
                self.limiter.slot_freed.notify_waiters();
            }
        }
        if cpu_bound != self.cpu_bound {
            self.cpu_bound = cpu_bound;
            self.limiter.machine.count_cpu_bound(cpu_bound);
        }
    }
}

impl Drop for StarterLoad<'_> {
    fn drop(&mut self) {
        self.update(false, false);
    }
}

/// A permit to start a server.
pub(crate) struct StartupPermit<'a> {
    limiter: &'a StartupLimiter,
    permit: Option<SemaphorePermit<'a>>,
    /// Set for local starters only.
    load: Option<StarterLoad<'a>>,
}

impl StartupPermit<'_> {
    /// Runs `start` with this permit. A slow local starter may release the permit and continue.
    pub(super) async fn run<T, E>(
        self,
        starter: &Starter,
        start: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Self {
            limiter,
            permit,
            load,
        } = self;
        let Some(load) = load.filter(|_| limiter.may_overlap) else {
            let _held = permit;
            return start.await;
        };
        let since = Instant::now();
        let mut monitor = StarterMonitor {
            limiter,
            since,
            load,
            sampler: UsageSampler::new(&limiter.machine, starter),
            idle: Duration::ZERO,
        };
        let outcome = {
            let (mut start, monitor) = (pin!(start), pin!(monitor.watch(permit)));
            tokio::select! {
                biased;
                outcome = &mut start => outcome,
                never = monitor => never,
            }
        };
        if outcome.is_ok() {
            limiter.record_answer(since.elapsed());
        }
        outcome
    }
}

/// Watches a starter that may turn out to be slow.
struct StarterMonitor<'a> {
    limiter: &'a StartupLimiter,
    since: Instant,
    load: StarterLoad<'a>,
    sampler: UsageSampler<'a>,
    /// How long it has been idle.
    idle: Duration,
}

impl<'a> StarterMonitor<'a> {
    /// Releases the permit when due, then keeps sampling.
    async fn watch<T>(&mut self, permit: Option<SemaphorePermit<'_>>) -> T {
        let early_releases = self.until_release().await;
        drop(permit);
        if early_releases.is_some() {
            self.sample_at(self.since + SLOW_AFTER).await;
        }
        drop(early_releases);
        loop {
            self.sample_at(Instant::now() + BACKGROUND_INTERVAL).await;
        }
    }

    /// Waits until the permit should be released.
    async fn until_release(&mut self) -> Option<SemaphorePermit<'a>> {
        let limiter = self.limiter;
        loop {
            let answered = limiter.answered.notified();
            let age = self.since.elapsed();
            let slow_after = limiter.answer_times().slow_after();
            let needs_cpu =
                age >= slow_after && self.sample().is_cpu_bound() && limiter.machine.is_crowded();
            let early_releases = limiter
                .early_releases
                .try_acquire()
                .ok()
                .filter(|_| age < SLOW_AFTER);
            let state = StarterState {
                age,
                slow_after,
                needs_cpu,
                may_release_early: early_releases.is_some(),
            };
            let pause = match decide(state) {
                Decision::Release => return early_releases,
                Decision::Keep(pause) => pause,
            };
            drop(early_releases);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Answers of others change the threshold.
                () = answered => {}
            }
        }
    }

    async fn sample_at(&mut self, until: Instant) {
        tokio::time::sleep_until(until).await;
        self.sample();
    }

    fn sample(&mut self) -> Sample {
        let sample = self.sampler.sample();
        self.idle = if sample.is_waiting() {
            self.idle + sample.elapsed
        } else {
            Duration::ZERO
        };
        self.load
            .update(self.idle < IDLE_AFTER, sample.is_cpu_bound());
        sample
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::super::machine::testing::{cpu_bound, machine, starter, unknown, waiting};
    use super::*;

    /// Two busy cores.
    fn limiter(local: usize) -> StartupLimiter {
        StartupLimiter::new(local, 20, machine(2, 0.0, waiting))
    }

    async fn takes(milliseconds: u64) -> Result<(), ()> {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        Ok(())
    }

    /// Returns when each server answered, in milliseconds, given how long each takes.
    async fn answers(limiter: &StartupLimiter, take: &[u64]) -> Vec<u128> {
        let started = Instant::now();
        let starts = take.iter().map(|&take| async move {
            let server = starter(1);
            let permit = limiter.acquire(true).await;
            let _ = permit.run(&server, takes(take)).await;
            started.elapsed().as_millis()
        });
        futures_util::future::join_all(starts).await
    }

    #[test]
    fn quick_or_cpu_bound_starters_keep_their_permit() {
        let ms = Duration::from_millis;
        for (age, slow_after, needs_cpu, may_release_early, decision) in [
            (0, 250, false, true, Decision::Keep(ms(250))),
            (9, 10, false, true, Decision::Keep(ms(1))),
            (10, 10, false, true, Decision::Release),
            (10, 10, true, true, Decision::Keep(SAMPLE_INTERVAL)),
            // No early releases left.
            (10, 10, false, false, Decision::Keep(SAMPLE_INTERVAL)),
            (230, 10, false, false, Decision::Keep(ms(20))),
            (250, 250, false, false, Decision::Release),
            (250, 250, true, false, Decision::Keep(SAMPLE_INTERVAL)),
            (4_999, 250, true, false, Decision::Keep(SAMPLE_INTERVAL)),
            (5_000, 250, true, false, Decision::Release),
        ] {
            let state = StarterState {
                age: ms(age),
                slow_after: ms(slow_after),
                needs_cpu,
                may_release_early,
            };
            assert_eq!(decide(state), decision, "{state:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_starter_among_quick_ones_releases_its_permit_early() {
        const HANGS: u64 = 60_000;
        let mut take = [5; 100];
        for index in (7..100).step_by(20) {
            take[index] = HANGS;
        }
        let quick = answers(&limiter(3), &[5; 95]).await;
        let mixed = answers(&limiter(3), &take).await;
        let last = mixed.iter().filter(|&&at| at < 1_000).max().unwrap();
        assert!(last * 10 <= quick.iter().max().unwrap() * 12, "{mixed:?}");

        // The first three set the threshold; only some of the others start immediately.
        let mut take = vec![5; 3];
        take.extend([2_000; 20]);
        let limiter = limiter(3);
        let at = answers(&limiter, &take).await;
        let began = |index: usize| at[index] - 2_000;
        assert!(began(3 + 7) < 50, "{at:?}");
        assert!(began(3 + 8) >= 250, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_local_starters_overlap_up_to_the_machine_limit() {
        // Eight at once on two cores: three, three more after 250 ms, two more after 500 ms. The
        // rest start as the first ones answer.
        let at = answers(&limiter(3), &[900; 12]).await;
        assert_eq!(at[..8].iter().max().unwrap() / 10, 140, "{at:?}");
        assert_eq!(at.iter().max().unwrap() / 10, 205, "{at:?}");

        // Without usage figures no starter counts as idle.
        let untold = StartupLimiter::new(3, 20, machine(2, 0.0, unknown));
        let at = answers(&untold, &[10_000; 9]).await;
        assert!(at[8] >= 20_000, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_starters_stop_counting() {
        const HANGS: u64 = 60_000;
        let mut take = [HANGS; 30];
        take[29] = 100;
        let at = answers(&limiter(3), &take).await;
        assert!(at[29] < 6_000, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_bound_starters_keep_their_permits_while_cores_are_full() {
        // Three per core. At the first decision the others are not known to be CPU-bound.
        let crowded = StartupLimiter::new(3, 20, machine(1, 0.0, cpu_bound));
        let at = answers(&crowded, &[2_000; 9]).await;
        let first = at.iter().filter(|&&at| at < 3_000).count();
        assert!((3..=5).contains(&first), "{at:?}");
        // No permit is kept forever.
        let mut take = [60_000; 6];
        take[5] = 100;
        let at = answers(&crowded, &take).await;
        assert!((5_000..5_500).contains(&at[5]), "{at:?}");
        // With idle cores, others may start.
        let roomy = StartupLimiter::new(3, 20, machine(16, 9.0, cpu_bound));
        let at = answers(&roomy, &[2_000; 6]).await;
        assert!(at[5] < 2_400, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn limit_of_one_starts_servers_one_by_one() {
        let at = answers(&limiter(1), &[1_000; 3]).await;
        assert_eq!(at, [1_000, 2_000, 3_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn quick_starters_stay_within_the_limit() {
        let limiter = Arc::new(limiter(3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let quick: Vec<_> = (0..30)
            .map(|_| {
                let (limiter, now, most) =
                    (Arc::clone(&limiter), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    let work = async {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, ()>(())
                    };
                    let starter = Starter::default();
                    let permit = limiter.acquire(true).await;
                    permit.run(&starter, work).await.unwrap();
                })
            })
            .collect();
        for task in quick {
            task.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
        assert_eq!(limiter.active.load(Ordering::SeqCst), 0);
    }
}
