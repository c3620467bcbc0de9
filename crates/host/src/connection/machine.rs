//! What the machine can bear, and what it lets a starting server do (LIF-2, LIF-4).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline_transport::stdio::proc_fs::{self, Activity, MachineUsage, Usage};

/// The machine is looked at no more often than this.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// With less than half a processor idle there is none to spare.
const MIN_IDLE_CORES: f64 = 0.5;

/// So many starters for each processor are enough.
const CPU_BOUND_PER_CORE: usize = 3;

/// A starter that has had a processor for a quarter of the time, or waits for one, burns it.
const CPU_BOUND_SHARE: u32 = 4;

/// One that has had less than a twentieth waits for something else.
const WAITING_SHARE: u32 = 20;

/// Where the source come from.
pub(crate) trait UsageSource: Send + Sync {
    /// What a process and its descendants have done so far, if that can be told.
    fn usage(&self, pid: u32) -> Option<Usage>;
    /// What the machine has done so far, if that can be told.
    fn machine(&self) -> Option<MachineUsage>;
}

/// The kernel's own.
struct ProcFs;

impl UsageSource for ProcFs {
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
    source: Box<dyn UsageSource>,
    /// How many starters burn a processor now.
    cpu_bound: AtomicUsize,
    last: Mutex<LastSample>,
}

#[derive(Default)]
struct LastSample {
    at: Option<(Instant, MachineUsage)>,
    /// How many processors were idle between the last two looks.
    idle: Option<f64>,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        let cores = std::thread::available_parallelism();
        Self::new(cores.map_or(1, Into::into), Box::new(ProcFs))
    }

    pub(crate) fn new(cores: usize, source: Box<dyn UsageSource>) -> Self {
        Self {
            cores,
            source,
            cpu_bound: AtomicUsize::new(0),
            last: Mutex::default(),
        }
    }

    /// How many local servers may be starting at once (LIF-2).
    pub(super) fn max_starters(&self) -> usize {
        self.cores.saturating_mul(4).max(6)
    }

    /// Whether there is no processor to spare: those that we may use are taken by our own starters, or
    /// all of the machine's by whomever.
    pub(super) fn is_busy(&self) -> bool {
        let idle = self.idle();
        self.cpu_bound.load(Ordering::Relaxed) >= self.cores || idle.is_some_and(has_no_idle_core)
    }

    /// Whether as many starters burn a processor as should at once. More than there are processors, so that
    /// other programs do not leave ours with nothing, and fewer than may start.
    pub(super) fn is_crowded(&self) -> bool {
        let enough = self.cores.saturating_mul(CPU_BOUND_PER_CORE);
        self.cpu_bound.load(Ordering::Relaxed) >= enough
    }

    /// Takes note that one starter more, or one less, burns a processor.
    pub(super) fn count_cpu_bound(&self, is_cpu_bound: bool) {
        if is_cpu_bound {
            self.cpu_bound.fetch_add(1, Ordering::Relaxed);
        } else {
            self.cpu_bound.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn idle(&self) -> Option<f64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((at, _)) = last.at
            && now - at < SAMPLE_INTERVAL
        {
            return last.idle;
        }
        let usage = self.source.machine()?;
        if let Some((at, before)) = last.at.replace((now, usage)) {
            let idle = usage.idle.saturating_sub(before.idle);
            last.idle = Some(idle.as_secs_f64() / (now - at).as_secs_f64());
        }
        last.idle
    }
}

fn has_no_idle_core(idle: f64) -> bool {
    idle < MIN_IDLE_CORES
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
pub(super) struct UsageSampler<'a> {
    machine: &'a Machine,
    starter: &'a Starter,
    pid: u32,
    at: Instant,
    cpu: Duration,
}

/// What a starter cpu_use between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// How long that was.
    pub(super) elapsed: Duration,
    /// What it cpu_use with that, where that can be told.
    pub(super) cpu_use: Option<CpuUse>,
}

/// How a starter spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuUse {
    /// The processor time that it had.
    pub(super) cpu: Duration,
    /// What it was about at the end.
    pub(super) activity: Activity,
}

impl CpuUse {
    /// Nothing, as far as this machine is concerned.
    pub(super) const IDLE: Self = Self {
        cpu: Duration::ZERO,
        activity: Activity::Waiting,
    };
}

impl Sample {
    /// Whether it needs a processor.
    pub(super) fn is_cpu_bound(self) -> bool {
        self.cpu_use.is_some_and(|cpu_use| {
            cpu_use.activity == Activity::Running || cpu_use.cpu * CPU_BOUND_SHARE >= self.elapsed
        })
    }

    /// Whether it is known to have done next to nothing: one that waits may sample now and then whether
    /// its wait is new.
    pub(super) fn is_waiting(self) -> bool {
        self.cpu_use.is_some_and(|cpu_use| {
            cpu_use.activity == Activity::Waiting && cpu_use.cpu * WAITING_SHARE <= self.elapsed
        })
    }
}

impl<'a> UsageSampler<'a> {
    pub(super) fn new(machine: &'a Machine, starter: &'a Starter) -> Self {
        Self {
            machine,
            starter,
            pid: 0,
            at: Instant::now(),
            cpu: Duration::ZERO,
        }
    }

    /// What it cpu_use since the last sample.
    pub(super) fn sample(&mut self) -> Sample {
        let now = Instant::now();
        let elapsed = now - self.at;
        self.at = now;
        let pid = self.starter.pid.load(Ordering::Relaxed);
        if pid != self.pid {
            // A process that is new has had all its time since.
            self.pid = pid;
            self.cpu = Duration::ZERO;
        }
        let cpu_use = if pid == 0 {
            Some(CpuUse::IDLE)
        } else {
            self.machine.source.usage(pid).map(|usage| {
                let cpu = usage.cpu.saturating_sub(self.cpu);
                self.cpu = usage.cpu;
                CpuUse {
                    cpu,
                    activity: usage.activity,
                }
            })
        };
        Sample { elapsed, cpu_use }
    }
}

#[cfg(test)]
pub(super) mod testing {
    #![allow(
        clippy::unnecessary_wraps,
        reason = "what is not always known is known in some tests"
    )]

    use super::*;

    /// A machine on which every process usage_of what its number says, and so usage_of the machine.
    pub(crate) struct FakeUsage {
        pub(crate) began: Instant,
        /// How many processors are idle.
        pub(crate) idle: f64,
        /// What process `n` usage_of.
        pub(crate) usage_of: fn(u32, Duration) -> Option<Usage>,
    }

    impl UsageSource for FakeUsage {
        fn usage(&self, pid: u32) -> Option<Usage> {
            (self.usage_of)(pid, self.began.elapsed())
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
        usage_of: fn(u32, Duration) -> Option<Usage>,
    ) -> Machine {
        let began = Instant::now();
        Machine::new(
            cores,
            Box::new(FakeUsage {
                began,
                idle,
                usage_of,
            }),
        )
    }

    /// It has had every second processor cycle since the beginning.
    pub(crate) fn cpu_bound(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 2,
            activity: Activity::Running,
        })
    }

    /// It usage_of nothing.
    pub(crate) fn waiting(_: u32, _: Duration) -> Option<Usage> {
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
    use super::testing::{cpu_bound, machine, starter, waiting};
    use super::*;

    #[test]
    fn starter_limit_scales_with_cores() {
        for (cores, starters) in [(1, 6), (2, 8), (3, 12), (16, 64)] {
            assert_eq!(machine(cores, 0.0, waiting).max_starters(), starters);
        }
    }

    #[test]
    fn samples_are_classified_as_cpu_bound_or_waiting() {
        let ms = Duration::from_millis;
        for (cpu, activity, burns, waits) in [
            (0, Activity::Waiting, false, true),
            (0, Activity::Disk, false, false),
            // It wants to run, and the machine usage_of not let it.
            (0, Activity::Running, true, false),
            (5, Activity::Waiting, false, true),
            (10, Activity::Waiting, false, false),
            (30, Activity::Waiting, true, false),
            (100, Activity::Running, true, false),
        ] {
            let sample = Sample {
                elapsed: ms(100),
                cpu_use: Some(CpuUse {
                    cpu: ms(cpu),
                    activity,
                }),
            };
            assert_eq!(
                (sample.is_cpu_bound(), sample.is_waiting()),
                (burns, waits),
                "{sample:?}"
            );
        }
        let unknown_use = Sample {
            elapsed: ms(100),
            cpu_use: None,
        };
        assert!(!unknown_use.is_cpu_bound() && !unknown_use.is_waiting());
    }

    #[tokio::test(start_paused = true)]
    async fn machine_is_busy_when_no_core_is_idle() {
        for (idle, burning, busy) in [
            (2.0, 0, false),
            (0.6, 0, false),
            (0.4, 0, true),
            (0.0, 0, true),
            (0.6, 1, false),
            // Others may have processors to spare that we are not allowed to use.
            (6.0, 2, true),
        ] {
            let machine = machine(2, idle, waiting);
            (0..burning).for_each(|_| machine.count_cpu_bound(true));
            machine.is_busy();
            tokio::time::advance(SAMPLE_INTERVAL).await;
            assert_eq!(machine.is_busy(), busy, "{idle} {burning}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sample_covers_the_time_since_the_previous_one() {
        let machine = machine(2, 0.0, cpu_bound);
        let starter = starter(1);
        let mut watch = UsageSampler::new(&machine, &starter);
        for ms in [100, 50] {
            let step = Duration::from_millis(ms);
            tokio::time::advance(step).await;
            let sample = watch.sample();
            assert_eq!(
                (sample.elapsed, sample.cpu_use.unwrap().cpu),
                (step, step / 2)
            );
        }
        // Another process has a count of its own.
        starter.started(2);
        assert_eq!(
            watch.sample().cpu_use.unwrap().cpu,
            Duration::from_millis(75)
        );
        let none = Starter::default();
        assert!(UsageSampler::new(&machine, &none).sample().is_waiting());
    }
}
