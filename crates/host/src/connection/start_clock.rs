//! The time limit of a connection attempt (LIF-4), charged only while the machine lets the server
//! run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::machine::{Machine, Sample, Starter, UsageSampler};

/// Interval at which time is charged.
const CHARGE_INTERVAL: Duration = Duration::from_millis(500);

/// An attempt ends after this multiple of its limit, however busy the machine is.
const MAX_STRETCH: u32 = 4;

/// The machine counts as busy if it starved the server for 1/4 of its time.
const BUSY_SHARE: u32 = 4;

/// Charges the time of one attempt.
pub(super) struct StartClock<'a> {
    machine: &'a Machine,
    limit: Duration,
    began: Instant,
    progress: Mutex<Progress<'a>>,
}

struct Progress<'a> {
    sampler: UsageSampler<'a>,
    charged_at: Instant,
    charged: Duration,
}

/// An expired attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    /// Wall-clock time of the attempt.
    pub(super) after: Duration,
    /// Time that the machine gave to other processes.
    pub(super) starved: Duration,
}

impl Expired {
    /// Returns whether the machine rather than the server was slow.
    pub(super) fn is_machine_busy(&self) -> bool {
        !self.starved.is_zero() && self.starved * BUSY_SHARE >= self.after
    }
}

impl<'a> StartClock<'a> {
    /// Starts the clock.
    pub(super) fn start(machine: &'a Machine, starter: &'a Starter, limit: Duration) -> Self {
        let began = Instant::now();
        Self {
            machine,
            limit: limit.min(crate::settings::FOR_EVER),
            began,
            progress: Mutex::new(Progress {
                sampler: UsageSampler::new(machine, starter),
                charged_at: began,
                charged: Duration::ZERO,
            }),
        }
    }

    /// Waits until the time is up. Cancel safe.
    pub(super) async fn expired(&self) -> Expired {
        loop {
            let (until, rest) = {
                let progress = self.lock();
                let rest = self.limit.saturating_sub(progress.charged);
                (progress.charged_at + rest.min(CHARGE_INTERVAL), rest)
            };
            let ceiling = self.began + self.limit * MAX_STRETCH;
            if rest.is_zero() || Instant::now() >= ceiling {
                return self.expired_now();
            }
            tokio::time::sleep_until(until.min(ceiling)).await;
            self.charge_elapsed();
        }
    }

    /// Returns the time limit for fetching lists, extended on a busy machine.
    pub(super) fn list_timeout(&self) -> Duration {
        let expired_now = self.expired_now();
        if expired_now.is_machine_busy() {
            self.limit * MAX_STRETCH
        } else {
            self.limit
        }
    }

    fn charge_elapsed(&self) {
        // Sample the machine first: it compares with its previous sample.
        let busy = self.machine.is_busy();
        let mut progress = self.lock();
        let sample = progress.sampler.sample();
        progress.charged_at = Instant::now();
        progress.charged += charge(sample, busy);
    }

    fn expired_now(&self) -> Expired {
        let progress = self.lock();
        let after = self.began.elapsed();
        let counted = progress.charged_at - self.began;
        Expired {
            after,
            starved: counted.saturating_sub(progress.charged),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress<'a>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how much of the elapsed time to charge: all of it on a machine with an idle core or when
/// the server waited for something else, otherwise the CPU time it used.
fn charge(sample: Sample, busy: bool) -> Duration {
    match sample.cpu_use {
        Some(cpu_use) if busy && !sample.is_waiting() => cpu_use.cpu.min(sample.elapsed),
        _ => sample.elapsed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unnecessary_wraps,
        reason = "what is not always known is known in these tests"
    )]

    use trunkline_transport::stdio::proc_fs::{Activity, Usage};

    use super::super::machine::CpuUse;
    use super::super::machine::testing::{machine, starter, unknown, waiting};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn only_runnable_time_is_charged() {
        let ms = Duration::from_millis;
        let cpu_use = |cpu, activity| {
            Some(CpuUse {
                cpu: ms(cpu),
                activity,
            })
        };
        for (cpu_use, busy, counts) in [
            (cpu_use(100, Activity::Running), true, 100),
            (cpu_use(100, Activity::Running), false, 500),
            (cpu_use(0, Activity::Running), true, 0),
            (cpu_use(0, Activity::Disk), true, 0),
            (cpu_use(100, Activity::Waiting), true, 100),
            // Waits for something outside this machine.
            (cpu_use(0, Activity::Waiting), true, 500),
            (cpu_use(20, Activity::Waiting), true, 500),
            (cpu_use(0, Activity::Waiting), false, 500),
            // Several threads.
            (cpu_use(900, Activity::Running), true, 500),
            (None, true, 500),
        ] {
            let sample = Sample {
                elapsed: ms(500),
                cpu_use,
            };
            assert_eq!(charge(sample, busy), ms(counts), "{sample:?} {busy}");
        }
    }

    /// Uses a tenth of a core.
    fn starved(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 10,
            activity: Activity::Running,
        })
    }

    /// Uses half a core.
    fn half_speed(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 2,
            activity: Activity::Running,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn limit_stretches_up_to_four_times_on_a_busy_machine() {
        type UsageOf = fn(u32, Duration) -> Option<Usage>;
        for (usage_of, idle, after, starved) in [
            (waiting as UsageOf, 0.0, 30, 0),
            (waiting, 1.0, 30, 0),
            (unknown, 0.0, 30, 0),
            (half_speed, 1.0, 30, 0),
            (half_speed, 0.0, 60, 30),
            (starved, 0.0, 120, 108),
        ] {
            let (machine, starter) = (machine(2, idle, usage_of), starter(1));
            // The first sample has no predecessor.
            machine.is_busy();
            tokio::time::advance(Duration::from_millis(100)).await;
            let clock = StartClock::start(&machine, &starter, LIMIT);
            let expired = clock.expired().await;
            let seconds = |time: Duration| (time + Duration::from_millis(500)).as_secs();
            assert_eq!(
                (seconds(expired.after), seconds(expired.starved)),
                (after, starved)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_limit_is_exact_and_resumes_after_a_dropped_wait() {
        let (machine, starter) = (machine(2, 1.0, waiting), starter(1));
        let limit = Duration::from_millis(700);
        let clock = StartClock::start(&machine, &starter, limit);
        let first = tokio::time::timeout(Duration::from_millis(550), clock.expired()).await;
        assert!(first.is_err());
        assert_eq!(clock.expired().await.after, limit);
        assert_eq!(clock.list_timeout(), limit);
    }
}
