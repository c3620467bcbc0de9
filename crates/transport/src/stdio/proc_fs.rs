//! Process and CPU usage from `/proc`. Without `/proc` there is none, and callers do without.

use std::time::Duration;

/// The usage of a server's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Their CPU time.
    pub cpu: Duration,
    /// The activity of the busiest of them.
    pub activity: Activity,
}

/// The activity of a process, from idle to busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It sleeps.
    #[default]
    Waiting,
    /// It waits for a disk.
    Disk,
    /// It runs or is ready to run.
    Running,
}

/// The usage of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineUsage {
    /// Idle time.
    pub idle: Duration,
    /// Total time.
    pub total: Duration,
}

/// Returns the usage of the process `pid` and its descendants; `None` if it is gone or unknown.
pub fn usage(pid: u32) -> Option<Usage> {
    linux::usage(pid)
}

/// Returns the usage of the machine; `None` if unknown.
pub fn machine_usage() -> Option<MachineUsage> {
    linux::machine_usage()
}

/// Returns a running process of the group, or `None`. Zombies do not count, whether or not they are
/// reaped.
#[cfg(unix)]
pub(super) fn live_member(group: u32, last_seen: Option<u32>) -> Option<u32> {
    linux::live_member(group, last_seen)
}

/// Whether [`live_member`] works.
#[cfg(unix)]
pub(super) fn is_available() -> bool {
    cfg!(target_os = "linux") && std::path::Path::new("/proc/self/stat").exists()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::time::Duration;

    use super::{Activity, MachineUsage, Usage};

    /// The most processes of one server that are examined.
    const MAX_PROCESSES: usize = 64;

    /// The length of a tick in `/proc`; `USER_HZ` is 100 on every architecture that Rust supports.
    const TICK: Duration = Duration::from_millis(10);

    pub(super) fn usage(pid: u32) -> Option<Usage> {
        let mut found = Usage::default();
        let mut open = vec![pid];
        let mut seen = 0;
        while let Some(pid) = open.pop() {
            let Some(stat) = Stat::of(pid) else {
                if seen == 0 {
                    return None;
                }
                continue;
            };
            seen += 1;
            found.cpu += stat.cpu;
            found.activity = found.activity.max(stat.activity());
            let room = MAX_PROCESSES.saturating_sub(seen + open.len());
            open.extend(children(pid).take(room));
        }
        Some(found)
    }

    /// Each thread lists the processes that it started.
    fn children(pid: u32) -> impl Iterator<Item = u32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
        let lists = threads
            .flatten()
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        lists.flat_map(|list| {
            let numbers = list.split_ascii_whitespace();
            numbers
                .filter_map(|number| number.parse().ok())
                .collect::<Vec<_>>()
        })
    }

    pub(super) fn machine_usage() -> Option<MachineUsage> {
        parse_machine(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Waiting for a
    /// disk is not idle; guests are part of `user` and `nice` already.
    pub(super) fn parse_machine(text: &str) -> Option<MachineUsage> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_ascii_whitespace()
            .take(8)
            .map_while(|number| number.parse().ok())
            .collect();
        Some(MachineUsage {
            idle: time(*ticks.get(3)?),
            total: time(ticks.iter().sum()),
        })
    }

    pub(super) fn live_member(group: u32, last_seen: Option<u32>) -> Option<u32> {
        let is_member = |pid: &u32| {
            Stat::of(*pid)
                .is_some_and(|stat| stat.group == group && !matches!(stat.state, 'Z' | 'X' | 'x'))
        };
        last_seen.filter(is_member).or_else(|| {
            let entries = fs::read_dir("/proc").ok()?.flatten();
            entries
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .find(is_member)
        })
    }

    fn time(ticks: u64) -> Duration {
        TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
    }

    /// One process.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Stat {
        pub(super) state: char,
        pub(super) group: u32,
        /// Its own time and that of the children it has reaped.
        pub(super) cpu: Duration,
    }

    impl Stat {
        fn activity(&self) -> Activity {
            match self.state {
                'R' => Activity::Running,
                'D' => Activity::Disk,
                _ => Activity::Waiting,
            }
        }

        fn of(pid: u32) -> Option<Self> {
            Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        }

        /// From `pid (name) state ppid pgrp …`, where the name may hold spaces and brackets.
        pub(super) fn parse(text: &str) -> Option<Self> {
            let (_, rest) = text.rsplit_once(')')?;
            let mut fields = rest.split_ascii_whitespace();
            let state = fields.next()?.chars().next()?;
            let group = fields.nth(1)?.parse().ok()?;
            // utime, stime, cutime and cstime are the fields 14 to 17.
            let ticks = fields.skip(8).take(4).map(|field| field.parse().ok());
            let ticks: Option<Vec<u64>> = ticks.collect();
            Some(Self {
                state,
                group,
                cpu: time(ticks.filter(|ticks| ticks.len() == 4)?.iter().sum()),
            })
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod linux {
    use super::{MachineUsage, Usage};

    pub(super) fn usage(_: u32) -> Option<Usage> {
        None
    }

    pub(super) fn machine_usage() -> Option<MachineUsage> {
        None
    }

    #[cfg(unix)]
    pub(super) fn live_member(_: u32, _: Option<u32>) -> Option<u32> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{Stat, parse_machine};
    use super::*;

    #[test]
    fn stat_is_parsed_for_any_process_name() {
        let numbers = "1 77 77 0 -1 4194560 1 2 3 4 5 7 11 13 20 0 1 0 100 0 0";
        for name in ["sh", "a b", "a) R 9 9 (b", ""] {
            let stat = Stat::parse(&format!("99 ({name}) S {numbers}")).unwrap();
            let expected = Stat {
                state: 'S',
                group: 77,
                cpu: Duration::from_millis(360),
            };
            assert_eq!(stat, expected, "{name:?}");
        }
        for broken in [
            "",
            "99",
            "99 (sh)",
            "99 (sh) S 1",
            "99 (sh) S 1 x 1 1 1 1 1",
        ] {
            assert_eq!(Stat::parse(broken), None, "{broken:?}");
        }
        let machine = parse_machine("cpu  10 1 5 70 4 0 0 10 3 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(machine.idle, Duration::from_millis(700));
        assert_eq!(machine.total, Duration::from_secs(1));
        assert_eq!(parse_machine("cpu0 1 1 1 1"), None);
        assert_eq!(parse_machine("cpu 1 1"), None);
    }

    #[test]
    fn this_process_has_usage() {
        // This thread need not be the one that the kernel shows.
        assert!(usage(std::process::id()).is_some());
        assert!(machine_usage().unwrap().total > Duration::ZERO);
        assert_eq!(super::usage(u32::MAX), None);
    }
}
