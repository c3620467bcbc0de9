//! How much of the machine other programs used while we measured: a benchmark on a busy machine should say so.

use std::fs;

/// Above this share of all cores, figures are not to be trusted. Below it are interrupts and the clients' own
/// servers that nobody waited for.
pub(super) const TOO_BUSY: f64 = 0.1;

/// A moment to measure from.
pub(super) struct Since {
    /// Busy and total ticks of all cores.
    machine: (f64, f64),
    /// Ticks of this process and of all the processes it has waited for.
    ours: f64,
}

impl Since {
    /// `None` where the kernel does not tell.
    pub(super) fn now() -> Option<Self> {
        Some(Self {
            machine: machine(&fs::read_to_string("/proc/stat").ok()?)?,
            ours: ours(&fs::read_to_string("/proc/self/stat").ok()?)?,
        })
    }

    /// The share of all cores, 0 to 1, that other programs have used since.
    pub(super) fn others(&self) -> Option<f64> {
        let now = Self::now()?;
        let busy = now.machine.0 - self.machine.0;
        let all = now.machine.1 - self.machine.1;
        (all > 0.0).then(|| ((busy - (now.ours - self.ours)) / all).max(0.0))
    }
}

/// Waiting for a disk is idle; time stolen by other machines is busy.
fn machine(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in these.
    let ticks = numbers(line, 8);
    let all: f64 = ticks.iter().sum();
    Some((all - ticks.get(3)? - ticks.get(4)?, all))
}

fn ours(stat: &str) -> Option<f64> {
    // The name of the program, in brackets, may hold anything. Then the state, and 10 fields on: utime, stime, cutime, cstime.
    let rest = stat.rsplit_once(") ")?.1.split_once(' ')?.1;
    let ticks = numbers(rest, 14);
    (ticks.len() == 14).then(|| ticks[10..].iter().sum())
}

fn numbers(line: &str, count: usize) -> Vec<f64> {
    let words = line.split_whitespace().take(count);
    words.map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{machine, ours};

    #[test]
    fn idle_and_iowait_are_not_busy() {
        let stat = "cpu  10 1 5 70 4 2 3 5 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine(stat), Some((26.0, 100.0)));
        assert_eq!(machine("intr 5"), None);
    }

    #[test]
    fn our_time_includes_children() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 3 4 50 60 20 0 1 0 999";
        assert_eq!(ours(stat), Some(117.0));
    }
}
