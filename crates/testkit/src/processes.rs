//! Running processes from `/proc`, to prove that none is left behind (Linux).

use std::{
    fs, process,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::poll;

/// The environment variable that carries a [`Marker`].
pub const MARKER_VAR: &str = "TRUNKLINE_TESTKIT_MARKER";

/// A unique value in a process's environment, inherited by all its descendants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Marker(String);

impl Marker {
    /// Creates a unique marker.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos());
        Self(format!(
            "{now:x}-{}-{}",
            process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    /// The variable and value to set: `command.envs([marker.env()])`.
    pub fn env(&self) -> (&'static str, &str) {
        (MARKER_VAR, &self.0)
    }

    /// The running processes that carry it, except this one.
    pub fn processes(&self) -> Vec<u32> {
        processes_with_env(&format!("{MARKER_VAR}={}", self.0))
    }

    /// Waits until no process carries it.
    ///
    /// # Panics
    /// If one still does after `limit`, naming each.
    #[track_caller]
    pub fn assert_gone(&self, limit: Duration) {
        let mut left = Vec::new();
        let gone = poll(limit, || {
            left = self.processes();
            left.is_empty().then_some(())
        });
        assert!(
            gone.is_some(),
            "still alive after {limit:?}: {}",
            describe(&left)
        );
    }

    /// Kills every process that carries it.
    pub fn kill_all(&self) {
        for pid in self.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have exited already.
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }
}

impl Default for Marker {
    fn default() -> Self {
        Self::new()
    }
}

/// The running processes, except this one, whose initial environment contains `entry`
/// (`NAME=value`).
pub fn processes_with_env(entry: &str) -> Vec<u32> {
    let here = process::id();
    let holds = |pid: u32| {
        // Exited processes and those of other users have no readable environment.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|var| var == entry.as_bytes())
    };
    all()
        .filter(|stat| stat.alive && stat.pid != here && holds(stat.pid))
        .map(|stat| stat.pid)
        .collect()
}

/// The running processes of a group; zombies do not count.
pub fn processes_in_group(group: u32) -> Vec<u32> {
    all()
        .filter(|stat| stat.alive && stat.group == group)
        .map(|stat| stat.pid)
        .collect()
}

/// The running descendants of `pid`, while the chain of parents is unbroken.
pub fn descendants(pid: u32) -> Vec<u32> {
    let stats: Vec<_> = all().collect();
    let mut found = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for stat in stats.iter().filter(|stat| stat.parent == parent) {
            parents.push(stat.pid);
            if stat.alive {
                found.push(stat.pid);
            }
        }
    }
    found
}

/// Whether a process is running; a zombie is not.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.alive)
}

struct Stat {
    pid: u32,
    parent: u32,
    group: u32,
    alive: bool,
}

fn all() -> impl Iterator<Item = Stat> {
    fs::read_dir("/proc")
        .expect("these helpers need /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and brackets.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Stat {
        pid,
        parent,
        group,
        alive: !matches!(state, "Z" | "X" | "x"),
    })
}

fn describe(pids: &[u32]) -> String {
    let one = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&line).replace('\0', " ");
        format!(
            "{pid} ({})",
            text.trim_end().chars().take(120).collect::<String>()
        )
    };
    pids.iter().map(one).collect::<Vec<_>>().join(", ")
}
