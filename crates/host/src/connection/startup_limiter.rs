//! How many servers start at once (LIF-2).
//!
//! A local starter holds one of a few places. One that waits gives its place to the next and goes on, so
//! that slow starters overlap; one that burns a processor keeps it while the processors are full of them.
//! Beside the places there is a bound on all starters that have not answered and are not idle.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::machine::{Machine, Seen, Starter, Watch};

/// How long a slow local starter keeps others waiting.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long it keeps them waiting at least: below that, it may just not have had its turn on a processor.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// How long one that burns a processor keeps its place: some never do anything else.
const LONGEST_HOLD: Duration = Duration::from_secs(5);

/// How often one that is slow is looked at while it has a place, and afterwards.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const GLANCE_EVERY: Duration = Duration::from_millis(250);

/// One that has done nothing for this long is no load and does not count towards the bound, until it
/// does something again.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// How many must have answered before it is known how long answering takes.
const ENOUGH: usize = 3;

/// For each local place but one, how many starters may have given theirs up before their time. It bounds how many processes start at
/// once should those that answered first have been the quick ones; and who wants them one by one gets them so.
const EARLY: usize = 3;

/// The two groups of places: starting processes is heavy, connecting over a network is not.
pub(crate) struct StartupLimiter {
    machine: Machine,
    local: Semaphore,
    remote: Semaphore,
    early: Semaphore,
    /// Whether one local starter may give its place to another at all.
    overlap: bool,
    /// How many local starters have not answered and are not idle.
    active: AtomicUsize,
    /// Told when one more may become active.
    room: Notify,
    pace: Mutex<Pace>,
    answered: Notify,
}

/// How long local servers took to answer.
#[derive(Default)]
struct Pace {
    answers: usize,
    slowest: Duration,
}

impl Pace {
    /// How long one more may take before it counts as slow: twice as long as any before it.
    fn patience(&self) -> Duration {
        if self.answers < ENOUGH {
            return PATIENCE;
        }
        (self.slowest * 2).clamp(LEAST_PATIENCE, PATIENCE)
    }
}

/// What is known of a starter when it is decided whether it keeps its place.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// How long it has been starting.
    age: Duration,
    /// From when on it counts as slow.
    patience: Duration,
    /// It burns a processor, and so do as many others as the machine should bear.
    in_need: bool,
    /// It may go before its time.
    may_be_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// It keeps its place, and is looked at again after this long.
    Keep(Duration),
    GiveUp,
}

/// Decides whether a starter keeps its place.
fn decide(standing: Standing) -> Decision {
    let Standing {
        age,
        patience,
        in_need,
        may_be_early,
    } = standing;
    if age < patience {
        return Decision::Keep(patience.saturating_sub(age));
    }
    if in_need && age < LONGEST_HOLD {
        return Decision::Keep(LOOK_EVERY);
    }
    if age >= PATIENCE || may_be_early {
        return Decision::GiveUp;
    }
    Decision::Keep(LOOK_EVERY.min(PATIENCE.saturating_sub(age)))
}

impl StartupLimiter {
    pub(crate) fn new(local: usize, remote: usize, machine: Machine) -> Self {
        let early = local.saturating_sub(1).saturating_mul(EARLY);
        Self {
            machine,
            local: Semaphore::new(local.min(Semaphore::MAX_PERMITS)),
            remote: Semaphore::new(remote.min(Semaphore::MAX_PERMITS)),
            early: Semaphore::new(early.min(Semaphore::MAX_PERMITS)),
            overlap: local > 1,
            active: AtomicUsize::new(0),
            room: Notify::new(),
            pace: Mutex::default(),
            answered: Notify::new(),
        }
    }

    /// The machine that local servers start on.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, local: bool) -> StartupPermit<'_> {
        let places = if local { &self.local } else { &self.remote };
        // The semaphore is never closed; if it were, starting anyway would be right.
        let permit = places.acquire().await.ok();
        let load = if local { Some(self.load().await) } else { None };
        StartupPermit {
            limiter: self,
            permit,
            load,
        }
    }

    /// Waits until the machine bears one starter more.
    async fn load(&self) -> Load<'_> {
        let most = self.machine.starters();
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            let one_more = |active| (active < most).then_some(active + 1);
            let order = Ordering::Relaxed;
            if self.active.fetch_update(order, order, one_more).is_ok() {
                return Load {
                    limiter: self,
                    active: true,
                    burning: false,
                };
            }
            room.await;
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered_after(&self, time: Duration) {
        let mut pace = self.pace();
        pace.answers = pace.answers.saturating_add(1);
        pace.slowest = pace.slowest.max(time.min(PATIENCE));
        drop(pace);
        self.answered.notify_waiters();
    }
}

/// What a local starter that has not answered costs the machine.
struct Load<'a> {
    limiter: &'a StartupLimiter,
    active: bool,
    burning: bool,
}

impl Load<'_> {
    fn set(&mut self, active: bool, burning: bool) {
        if active != self.active {
            self.active = active;
            if active {
                // It is there, whether or not there is room for it.
                self.limiter.active.fetch_add(1, Ordering::Relaxed);
            } else {
                self.limiter.active.fetch_sub(1, Ordering::Relaxed);
                self.limiter.room.notify_waiters();
            }
        }
        if burning != self.burning {
            self.burning = burning;
            self.limiter.machine.burns(burning);
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.set(false, false);
    }
}

/// A place in the window.
pub(crate) struct StartupPermit<'a> {
    limiter: &'a StartupLimiter,
    permit: Option<SemaphorePermit<'a>>,
    /// Of a local starter alone.
    load: Option<Load<'a>>,
}

impl StartupPermit<'_> {
    /// Runs `start` in this place. A local one that is not done soon may give its place to the next and go on.
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
        let Some(load) = load.filter(|_| limiter.overlap) else {
            let _held = permit;
            return start.await;
        };
        let since = Instant::now();
        let mut slow = Slow {
            limiter,
            since,
            load,
            watch: Watch::over(&limiter.machine, starter),
            idle: Duration::ZERO,
        };
        let outcome = {
            let (mut start, slow) = (pin!(start), pin!(slow.overlap(permit)));
            tokio::select! {
                biased;
                outcome = &mut start => outcome,
                never = slow => never,
            }
        };
        if outcome.is_ok() {
            limiter.answered_after(since.elapsed());
        }
        outcome
    }
}

/// A starter that may turn out to be slow.
struct Slow<'a> {
    limiter: &'a StartupLimiter,
    since: Instant,
    load: Load<'a>,
    watch: Watch<'a>,
    /// For how long it has done nothing.
    idle: Duration,
}

impl<'a> Slow<'a> {
    /// Keeps the place as long as it should, then only counts.
    async fn overlap<T>(&mut self, permit: Option<SemaphorePermit<'_>>) -> T {
        let early = self.outlast().await;
        drop(permit);
        if early.is_some() {
            self.look_until(self.since + PATIENCE).await;
        }
        drop(early);
        loop {
            self.look_until(Instant::now() + GLANCE_EVERY).await;
        }
    }

    /// Returns when it should give its place up.
    async fn outlast(&mut self) -> Option<SemaphorePermit<'a>> {
        let limiter = self.limiter;
        loop {
            let answered = limiter.answered.notified();
            let age = self.since.elapsed();
            let patience = limiter.pace().patience();
            let in_need = age >= patience && self.look().burns() && limiter.machine.is_crowded();
            let early = limiter.early.try_acquire().ok().filter(|_| age < PATIENCE);
            let standing = Standing {
                age,
                patience,
                in_need,
                may_be_early: early.is_some(),
            };
            let pause = match decide(standing) {
                Decision::GiveUp => return early,
                Decision::Keep(pause) => pause,
            };
            drop(early);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Others set the pace.
                () = answered => {}
            }
        }
    }

    async fn look_until(&mut self, until: Instant) {
        tokio::time::sleep_until(until).await;
        self.look();
    }

    fn look(&mut self) -> Seen {
        let seen = self.watch.look();
        self.idle = if seen.waits() {
            self.idle + seen.elapsed
        } else {
            Duration::ZERO
        };
        self.load.set(self.idle < IDLE_AFTER, seen.burns());
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::super::machine::testing::{burns, machine, starter, unknown, waits};
    use super::*;

    /// A window on two processors, none of which is idle.
    fn limiter(local: usize) -> StartupLimiter {
        StartupLimiter::new(local, 20, machine(2, 0.0, waits))
    }

    async fn takes(milliseconds: u64) -> Result<(), ()> {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        Ok(())
    }

    /// When each of the servers that take so many milliseconds has answered, in milliseconds from the start.
    async fn answers(limiter: &StartupLimiter, take: &[u64]) -> Vec<u128> {
        let started = Instant::now();
        let starts = take.iter().map(|&take| async move {
            let server = starter(1);
            let place = limiter.enter(true).await;
            let _ = place.run(&server, takes(take)).await;
            started.elapsed().as_millis()
        });
        futures_util::future::join_all(starts).await
    }

    #[test]
    fn a_place_is_kept_by_who_is_quick_or_burns() {
        let ms = Duration::from_millis;
        for (age, patience, in_need, may_be_early, decision) in [
            (0, 250, false, true, Decision::Keep(ms(250))),
            (9, 10, false, true, Decision::Keep(ms(1))),
            (10, 10, false, true, Decision::GiveUp),
            (10, 10, true, true, Decision::Keep(LOOK_EVERY)),
            // Enough have gone early.
            (10, 10, false, false, Decision::Keep(LOOK_EVERY)),
            (230, 10, false, false, Decision::Keep(ms(20))),
            (250, 250, false, false, Decision::GiveUp),
            (250, 250, true, false, Decision::Keep(LOOK_EVERY)),
            (4_999, 250, true, false, Decision::Keep(LOOK_EVERY)),
            (5_000, 250, true, false, Decision::GiveUp),
        ] {
            let standing = Standing {
                age: ms(age),
                patience: ms(patience),
                in_need,
                may_be_early,
            };
            assert_eq!(decide(standing), decision, "{standing:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_others_are_quick_a_slow_one_gives_its_place_up_sooner() {
        const HANGS: u64 = 60_000;
        let mut take = [5; 100];
        for index in (7..100).step_by(20) {
            take[index] = HANGS;
        }
        let quick = answers(&limiter(3), &[5; 95]).await;
        let mixed = answers(&limiter(3), &take).await;
        let last = mixed.iter().filter(|&&at| at < 1_000).max().unwrap();
        assert!(last * 10 <= quick.iter().max().unwrap() * 12, "{mixed:?}");

        // The first three say how long it takes here: those that follow find a place at once, but not all of them.
        let mut take = vec![5; 3];
        take.extend([2_000; 20]);
        let limiter = limiter(3);
        let at = answers(&limiter, &take).await;
        let began = |index: usize| at[index] - 2_000;
        assert!(began(3 + 7) < 50, "{at:?}");
        assert!(began(3 + 8) >= 250, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_local_starters_overlap_up_to_what_the_machine_bears() {
        // Eight at once on two processors: three, three more after 250 ms, two more after 500 ms; those after them begin
        // when the first have answered.
        let at = answers(&limiter(3), &[900; 12]).await;
        assert_eq!(at[..8].iter().max().unwrap() / 10, 140, "{at:?}");
        assert_eq!(at.iter().max().unwrap() / 10, 205, "{at:?}");

        // Without figures nobody is known to be idle.
        let untold = StartupLimiter::new(3, 20, machine(2, 0.0, unknown));
        let at = answers(&untold, &[10_000; 9]).await;
        assert!(at[8] >= 20_000, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_hang_do_not_count_for_long() {
        const HANGS: u64 = 60_000;
        let mut take = [HANGS; 30];
        take[29] = 100;
        let at = answers(&limiter(3), &take).await;
        assert!(at[29] < 6_000, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_burn_keep_their_places_while_the_processors_are_full_of_them() {
        // Three for each processor. When the first are looked at, the others are not known to burn yet.
        let crowded = StartupLimiter::new(3, 20, machine(1, 0.0, burns));
        let at = answers(&crowded, &[2_000; 9]).await;
        let first = at.iter().filter(|&&at| at < 3_000).count();
        assert!((3..=5).contains(&first), "{at:?}");
        // For ever is too long.
        let mut take = [60_000; 6];
        take[5] = 100;
        let at = answers(&crowded, &take).await;
        assert!((5_000..5_500).contains(&at[5]), "{at:?}");
        // With processors to spare, others may have them.
        let roomy = StartupLimiter::new(3, 20, machine(16, 9.0, burns));
        let at = answers(&roomy, &[2_000; 6]).await;
        assert!(at[5] < 2_400, "{at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_them_one_by_one_gets_them_so() {
        let at = answers(&limiter(1), &[1_000; 3]).await;
        assert_eq!(at, [1_000, 2_000, 3_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn quick_ones_stay_within_the_window() {
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
                    let place = limiter.enter(true).await;
                    place.run(&starter, work).await.unwrap();
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
