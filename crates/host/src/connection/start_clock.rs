//! The time limit of a connection attempt (LIF-4), counted in time in which the machine let the server run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::machine::{Machine, Seen, Starter, Watch};

/// How often the time is counted.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// However busy the machine is, an attempt ends after this many times its limit.
const CEILING: u32 = 4;

/// The machine counts as busy if it kept a server waiting for one part in this many of its time.
const BUSY_SHARE: u32 = 4;

/// Counts the time of one attempt.
pub(super) struct StartClock<'a> {
    machine: &'a Machine,
    limit: Duration,
    began: Instant,
    count: Mutex<Count<'a>>,
}

struct Count<'a> {
    watch: Watch<'a>,
    counted_at: Instant,
    charged: Duration,
}

/// An attempt whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    /// How long it took.
    pub(super) after: Duration,
    /// How much of that the machine gave to others.
    pub(super) kept_waiting: Duration,
}

impl Overdue {
    /// Whether the machine is to blame, rather than the server.
    pub(super) fn is_machine_busy(&self) -> bool {
        !self.kept_waiting.is_zero() && self.kept_waiting * BUSY_SHARE >= self.after
    }
}

impl<'a> StartClock<'a> {
    /// Starts to count.
    pub(super) fn start(machine: &'a Machine, starter: &'a Starter, limit: Duration) -> Self {
        let began = Instant::now();
        Self {
            machine,
            limit: limit.min(crate::settings::FOR_EVER),
            began,
            count: Mutex::new(Count {
                watch: Watch::over(machine, starter),
                counted_at: began,
                charged: Duration::ZERO,
            }),
        }
    }

    /// Waits until the time is up. Safe to drop while it waits.
    pub(super) async fn expired(&self) -> Overdue {
        loop {
            let (until, rest) = {
                let count = self.lock();
                let rest = self.limit.saturating_sub(count.charged);
                (count.counted_at + rest.min(COUNT_EVERY), rest)
            };
            let ceiling = self.began + self.limit * CEILING;
            if rest.is_zero() || Instant::now() >= ceiling {
                return self.overdue();
            }
            tokio::time::sleep_until(until.min(ceiling)).await;
            self.count();
        }
    }

    /// How long what follows may take: more where the machine has proved to be busy.
    pub(super) fn limit_from_here(&self) -> Duration {
        let overdue = self.overdue();
        if overdue.is_machine_busy() {
            self.limit * CEILING
        } else {
            self.limit
        }
    }

    fn count(&self) {
        // The machine is asked first: it wants to have been looked at before.
        let busy = self.machine.is_busy();
        let mut count = self.lock();
        let seen = count.watch.look();
        count.counted_at = Instant::now();
        count.charged += charge(seen, busy);
    }

    fn overdue(&self) -> Overdue {
        let count = self.lock();
        let after = self.began.elapsed();
        let counted = count.counted_at - self.began;
        Overdue {
            after,
            kept_waiting: counted.saturating_sub(count.charged),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Count<'a>> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of the time that has passed counts. On a machine with a processor to spare all of it does, and
/// so does time in which the server waited for something else; otherwise the processor time that it had.
fn charge(seen: Seen, busy: bool) -> Duration {
    match seen.did {
        Some(did) if busy && !seen.waits() => did.cpu.min(seen.elapsed),
        _ => seen.elapsed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unnecessary_wraps,
        reason = "what is not always known is known in these tests"
    )]

    use trunkline_transport::stdio::proc_fs::{Activity, Usage};

    use super::super::machine::Did;
    use super::super::machine::testing::{machine, starter, unknown, waits};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn only_time_in_which_the_machine_let_it_run_counts() {
        let ms = Duration::from_millis;
        let did = |cpu, activity| {
            Some(Did {
                cpu: ms(cpu),
                activity,
            })
        };
        for (did, busy, counts) in [
            (did(100, Activity::Running), true, 100),
            (did(100, Activity::Running), false, 500),
            (did(0, Activity::Running), true, 0),
            (did(0, Activity::Disk), true, 0),
            (did(100, Activity::Waiting), true, 100),
            // It waits for something that is not of this machine.
            (did(0, Activity::Waiting), true, 500),
            (did(20, Activity::Waiting), true, 500),
            (did(0, Activity::Waiting), false, 500),
            // Several threads at once.
            (did(900, Activity::Running), true, 500),
            (None, true, 500),
        ] {
            let seen = Seen {
                elapsed: ms(500),
                did,
            };
            assert_eq!(charge(seen, busy), ms(counts), "{seen:?} {busy}");
        }
    }

    /// It gets a tenth of a processor.
    fn starved(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 10,
            activity: Activity::Running,
        })
    }

    /// It gets half of one.
    fn slowed(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 2,
            activity: Activity::Running,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_stretched_on_a_busy_machine_and_not_beyond_four_times() {
        type Does = fn(u32, Duration) -> Option<Usage>;
        for (does, idle, after, kept_waiting) in [
            (waits as Does, 0.0, 30, 0),
            (waits, 1.0, 30, 0),
            (unknown, 0.0, 30, 0),
            (slowed, 1.0, 30, 0),
            (slowed, 0.0, 60, 30),
            (starved, 0.0, 120, 108),
        ] {
            let (machine, starter) = (machine(2, idle, does), starter(1));
            // The first look has nothing to compare with.
            machine.is_busy();
            tokio::time::advance(Duration::from_millis(100)).await;
            let clock = StartClock::start(&machine, &starter, LIMIT);
            let overdue = clock.expired().await;
            let seconds = |time: Duration| (time + Duration::from_millis(500)).as_secs();
            assert_eq!(
                (seconds(overdue.after), seconds(overdue.kept_waiting)),
                (after, kept_waiting)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_limit_is_kept_to_the_millisecond_and_goes_on_where_it_was() {
        let (machine, starter) = (machine(2, 1.0, waits), starter(1));
        let limit = Duration::from_millis(700);
        let clock = StartClock::start(&machine, &starter, limit);
        let first = tokio::time::timeout(Duration::from_millis(550), clock.expired()).await;
        assert!(first.is_err());
        assert_eq!(clock.expired().await.after, limit);
        assert_eq!(clock.limit_from_here(), limit);
    }
}
