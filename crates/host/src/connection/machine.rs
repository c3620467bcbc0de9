//! Measures the CPU capacity available to starting servers (LIF-2, LIF-4).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline_transport::stdio::proc_fs::{self, Activity, MachineUsage, Usage};

/// Minimum interval between two samples of the machine.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// With fewer idle cores than this, the machine is busy.
const MIN_IDLE_CORES: f64 = 0.5;

/// Maximum number of CPU-bound starters per core.
const CPU_BOUND_PER_CORE: usize = 3;

/// A starter that used at least 1/4 of a core, or waits for one, is CPU-bound.
const CPU_BOUND_SHARE: u32 = 4;

/// A starter that used less than 1/20 of a core is waiting for something else.
const WAITING_SHARE: u32 = 20;

/// Source of CPU usage figures.
pub(crate) trait UsageSource: Send + Sync {
    /// Returns the usage of a process and its descendants, if known.
    fn usage(&self, pid: u32) -> Option<Usage>;
    /// Returns the usage of the whole machine, if known.
    fn machine(&self) -> Option<MachineUsage>;
}

/// Figures from the kernel.
struct ProcFs;

impl UsageSource for ProcFs {
    fn usage(&self, pid: u32) -> Option<Usage> {
        proc_fs::usage(pid)
    }

    fn machine(&self) -> Option<MachineUsage> {
        proc_fs::machine_usage()
    }
}

/// The machine on which local servers start.
pub(crate) struct Machine {
    cores: usize,
    source: Box<dyn UsageSource>,
    /// Number of CPU-bound starters.
    cpu_bound: AtomicUsize,
    last: Mutex<LastSample>,
}

#[derive(Default)]
struct LastSample {
    at: Option<(Instant, MachineUsage)>,
    /// Idle cores between the last two samples.
    idle: Option<f64>,
}

impl Machine {
    /// Returns the machine that runs this process.
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

    /// Maximum number of local servers starting concurrently (LIF-2).
    pub(super) fn max_starters(&self) -> usize {
        self.cores.saturating_mul(4).max(6)
    }

    /// Returns whether no core is idle: our starters use all cores available to us, or other
    /// processes use the whole machine.
    pub(super) fn is_busy(&self) -> bool {
        let idle = self.idle();
        self.cpu_bound.load(Ordering::Relaxed) >= self.cores || idle.is_some_and(has_no_idle_core)
    }

    /// Returns whether enough starters are CPU-bound. The limit exceeds the number of cores, so
    /// that other programs do not starve ours, but is below the starter limit.
    pub(super) fn is_crowded(&self) -> bool {
        let enough = self.cores.saturating_mul(CPU_BOUND_PER_CORE);
        self.cpu_bound.load(Ordering::Relaxed) >= enough
    }

    /// Adds or removes a CPU-bound starter.
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

/// A starting server.
#[derive(Default)]
pub(super) struct Starter {
    /// The process ID; 0 before the process starts.
    pid: AtomicU32,
}

impl Starter {
    /// Sets the process, which may have been restarted.
    pub(super) fn started(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }
}

/// Samples the CPU usage of a starter.
pub(super) struct UsageSampler<'a> {
    machine: &'a Machine,
    starter: &'a Starter,
    pid: u32,
    at: Instant,
    cpu: Duration,
}

/// The CPU usage of a starter between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// The time between the samples.
    pub(super) elapsed: Duration,
    /// The usage, if known.
    pub(super) cpu_use: Option<CpuUse>,
}

/// CPU time and final activity of a starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuUse {
    pub(super) cpu: Duration,
    pub(super) activity: Activity,
}

impl CpuUse {
    /// A starter without a process.
    pub(super) const IDLE: Self = Self {
        cpu: Duration::ZERO,
        activity: Activity::Waiting,
    };
}

impl Sample {
    /// Returns whether the starter needs a core.
    pub(super) fn is_cpu_bound(self) -> bool {
        self.cpu_use.is_some_and(|cpu_use| {
            cpu_use.activity == Activity::Running || cpu_use.cpu * CPU_BOUND_SHARE >= self.elapsed
        })
    }

    /// Returns whether the starter did next to nothing. A waiting process may still poll.
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

    /// Returns the usage since the last sample.
    pub(super) fn sample(&mut self) -> Sample {
        let now = Instant::now();
        let elapsed = now - self.at;
        self.at = now;
        let pid = self.starter.pid.load(Ordering::Relaxed);
        if pid != self.pid {
            // A new process starts counting at zero.
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

    /// A machine with scripted usage.
    pub(crate) struct FakeUsage {
        pub(crate) began: Instant,
        pub(crate) idle: f64,
        /// Usage of process `n` after a given time.
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

    /// Uses half a core.
    pub(crate) fn cpu_bound(_: u32, time: Duration) -> Option<Usage> {
        Some(Usage {
            cpu: time / 2,
            activity: Activity::Running,
        })
    }

    /// Uses nothing.
    pub(crate) fn waiting(_: u32, _: Duration) -> Option<Usage> {
        Some(Usage::default())
    }

    /// Reports nothing.
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
            // Runnable, but without a core.
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
            // Idle cores that this process may not use do not count.
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
        // Each process has its own count.
        starter.started(2);
        assert_eq!(
            watch.sample().cpu_use.unwrap().cpu,
            Duration::from_millis(75)
        );
        let none = Starter::default();
        assert!(UsageSampler::new(&machine, &none).sample().is_waiting());
    }
}
