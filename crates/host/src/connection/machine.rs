//! What the machine can bear, and what it lets a starting server do (LIF-2, LIF-4).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline_transport::stdio::proc_fs::{self, Activity, MachineUsage, Usage};

/// The machine is looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// With less than half a processor idle there is none to spare.
const IDLE_SHARE: f64 = 0.5;

/// So many starters for each processor are enough.
const CROWD: usize = 3;

/// A starter that has had a processor for a quarter of the time, or waits for one, burns it.
const BURNING_SHARE: u32 = 4;

/// One that has had less than a twentieth waits for something else.
const WAITING_SHARE: u32 = 20;

/// Where the figures come from.
pub(crate) trait Figures: Send + Sync {
    /// What a process and its descendants have done so far, if that can be told.
    fn usage(&self, pid: u32) -> Option<Usage>;
    /// What the machine has done so far, if that can be told.
    fn machine(&self) -> Option<MachineUsage>;
}

/// The kernel's own.
struct Kernel;

impl Figures for Kernel {
    fn usage(&self, pid: u32) -> Option<Usage> {
        proc_fs::usage(pid)
    }

    fn machine(&self) -> Option<MachineUsage> {
        proc_fs::machine_usage()
    }
}

/// The machine that local servers start on.
pub(crate) struct Machine {
    cores: usize,
    figures: Box<dyn Figures>,
    /// How many starters burn a processor now.
    burning: AtomicUsize,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    look: Option<(Instant, MachineUsage)>,
    /// How many processors were idle between the last two looks.
    idle: Option<f64>,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        let cores = std::thread::available_parallelism();
        Self::new(cores.map_or(1, Into::into), Box::new(Kernel))
    }

    pub(crate) fn new(cores: usize, figures: Box<dyn Figures>) -> Self {
        Self {
            cores,
            figures,
            burning: AtomicUsize::new(0),
            last: Mutex::default(),
        }
    }

    /// How many local servers may be starting at once (LIF-2).
    pub(super) fn starters(&self) -> usize {
        self.cores.saturating_mul(4).max(6)
    }

    /// Whether there is no processor to spare: those that we may use are taken by our own starters, or
    /// all of the machine's by whomever.
    pub(super) fn is_busy(&self) -> bool {
        let idle = self.idle();
        self.burning.load(Ordering::Relaxed) >= self.cores || idle.is_some_and(is_none_idle)
    }

    /// Whether as many starters burn a processor as should at once. More than there are processors, so that
    /// other programs do not leave ours with nothing, and fewer than may start.
    pub(super) fn is_crowded(&self) -> bool {
        let enough = self.cores.saturating_mul(CROWD);
        self.burning.load(Ordering::Relaxed) >= enough
    }

    /// Takes note that one starter more, or one less, burns a processor.
    pub(super) fn burns(&self, does: bool) {
        if does {
            self.burning.fetch_add(1, Ordering::Relaxed);
        } else {
            self.burning.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn idle(&self) -> Option<f64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((at, _)) = last.look
            && now - at < LOOK_EVERY
        {
            return last.idle;
        }
        let usage = self.figures.machine()?;
        if let Some((at, before)) = last.look.replace((now, usage)) {
            let idle = usage.idle.saturating_sub(before.idle);
            last.idle = Some(idle.as_secs_f64() / (now - at).as_secs_f64());
        }
        last.idle
    }
}

fn is_none_idle(idle: f64) -> bool {
    idle < IDLE_SHARE
}

/// A server that is starting, as the kernel knows it.
#[derive(Default)]
pub(super) struct Starter {
    /// Its process; 0 while it has none.
    pid: AtomicU32,
}

impl Starter {
    /// Its process has been started, perhaps not for the first time.
    pub(super) fn started(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }
}

/// Looks at a starter now and then.
pub(super) struct Watch<'a> {
    machine: &'a Machine,
    starter: &'a Starter,
    pid: u32,
    at: Instant,
    cpu: Duration,
}

/// What a starter did between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// How long that was.
    pub(super) elapsed: Duration,
    /// What it did with that, where that can be told.
    pub(super) did: Option<Did>,
}

/// How a starter spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Did {
    /// The processor time that it had.
    pub(super) cpu: Duration,
    /// What it was about at the end.
    pub(super) activity: Activity,
}

impl Did {
    /// Nothing, as far as this machine is concerned.
    pub(super) const NOTHING: Self = Self {
        cpu: Duration::ZERO,
        activity: Activity::Waiting,
    };
}

impl Seen {
    /// Whether it needs a processor.
    pub(super) fn burns(self) -> bool {
        self.did.is_some_and(|did| {
            did.activity == Activity::Running || did.cpu * BURNING_SHARE >= self.elapsed
        })
    }

    /// Whether it is known to have done next to nothing: one that waits may look now and then whether
    /// its wait is over.
    pub(super) fn waits(self) -> bool {
        self.did.is_some_and(|did| {
            did.activity == Activity::Waiting && did.cpu * WAITING_SHARE <= self.elapsed
        })
    }
}

impl<'a> Watch<'a> {
    pub(super) fn over(machine: &'a Machine, starter: &'a Starter) -> Self {
        Self {
            machine,
            starter,
            pid: 0,
            at: Instant::now(),
            cpu: Duration::ZERO,
        }
    }

    /// What it did since the last look.
    pub(super) fn look(&mut self) -> Seen {
        let now = Instant::now();
        let elapsed = now - self.at;
        self.at = now;
        let pid = self.starter.pid.load(Ordering::Relaxed);
        if pid != self.pid {
            // A process that is new has had all its time since.
            self.pid = pid;
            self.cpu = Duration::ZERO;
        }
        let did = if pid == 0 {
            Some(Did::NOTHING)
        } else {
            self.machine.figures.usage(pid).map(|usage| {
                let cpu = usage.cpu.saturating_sub(self.cpu);
                self.cpu = usage.cpu;
                Did {
                    cpu,
                    activity: usage.activity,
                }
            })
        };
        Seen { elapsed, did }
    }
}

#[cfg(test)]
pub(super) mod testing {
    #![allow(
        clippy::unnecessary_wraps,
        reason = "what is not always known is known in some tests"
    )]

    use super::*;

    /// A machine on which every process does what its number says, and so does the machine.
    pub(crate) struct Fake {
        pub(crate) began: Instant,
        /// How many processors are idle.
        pub(crate) idle: f64,
        /// What process `n` does.
        pub(crate) does: fn(u32, Duration) -> Option<Usage>,
    }

    impl Figures for Fake {
        fn usage(&self, pid: u32) -> Option<Usage> {
            (self.does)(pid, self.began.elapsed())
        }

        fn machine(&self) -> Option<MachineUsage> {
            let time = self.began.elapsed();
            Some(MachineUsage {
                idle: time.mul_f64(self.idle),
                total: time * 2,
            })
        }
    }

    pub(crate) fn machine(
        cores: usize,
        idle: f64,
        does: fn(u32, Duration) -> Option<Usage>,
    ) -> Machine {
        let began = Instant::now();
        Machine::new(cores, Box::new(Fake { began, idle, does }))
    }

    /// It has had every second processor cycle since the beginning.
    pub(crate) fn burns(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 2,
            activity: Activity::Running,
        })
    }

    /// It does nothing.
    pub(crate) fn waits(_: u32, _: Duration) -> Option<Usage> {
        Some(Usage::default())
    }

    /// Nothing is known of it.
    pub(crate) fn unknown(_: u32, _: Duration) -> Option<Usage> {
        None
    }

    pub(crate) fn starter(pid: u32) -> Starter {
        let starter = Starter::default();
        starter.started(pid);
        starter
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{burns, machine, starter, waits};
    use super::*;

    #[test]
    fn as_many_may_start_as_the_machine_bears() {
        for (cores, starters) in [(1, 6), (2, 8), (3, 12), (16, 64)] {
            assert_eq!(machine(cores, 0.0, waits).starters(), starters);
        }
    }

    #[test]
    fn one_that_needs_a_processor_burns_and_one_that_does_nothing_waits() {
        let ms = Duration::from_millis;
        for (cpu, activity, burns, waits) in [
            (0, Activity::Waiting, false, true),
            (0, Activity::Disk, false, false),
            // It wants to run, and the machine does not let it.
            (0, Activity::Running, true, false),
            (5, Activity::Waiting, false, true),
            (10, Activity::Waiting, false, false),
            (30, Activity::Waiting, true, false),
            (100, Activity::Running, true, false),
        ] {
            let seen = Seen {
                elapsed: ms(100),
                did: Some(Did {
                    cpu: ms(cpu),
                    activity,
                }),
            };
            assert_eq!((seen.burns(), seen.waits()), (burns, waits), "{seen:?}");
        }
        let untold = Seen {
            elapsed: ms(100),
            did: None,
        };
        assert!(!untold.burns() && !untold.waits());
    }

    #[tokio::test(start_paused = true)]
    async fn the_machine_is_busy_when_no_processor_is_left() {
        for (idle, burning, busy) in [
            (2.0, 0, false),
            (0.6, 0, false),
            (0.4, 0, true),
            (0.0, 0, true),
            (0.6, 1, false),
            // Others may have processors to spare that we are not allowed to use.
            (6.0, 2, true),
        ] {
            let machine = machine(2, idle, waits);
            (0..burning).for_each(|_| machine.burns(true));
            machine.is_busy();
            tokio::time::advance(LOOK_EVERY).await;
            assert_eq!(machine.is_busy(), busy, "{idle} {burning}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_tells_what_happened_since_the_last() {
        let machine = machine(2, 0.0, burns);
        let starter = starter(1);
        let mut watch = Watch::over(&machine, &starter);
        for ms in [100, 50] {
            let step = Duration::from_millis(ms);
            tokio::time::advance(step).await;
            let seen = watch.look();
            assert_eq!((seen.elapsed, seen.did.unwrap().cpu), (step, step / 2));
        }
        // Another process has a count of its own.
        starter.started(2);
        assert_eq!(watch.look().did.unwrap().cpu, Duration::from_millis(75));
        let none = Starter::default();
        assert!(Watch::over(&machine, &none).look().waits());
    }
}
