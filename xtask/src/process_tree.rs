//! Kills a command with its descendants.
//!
//! Commands stay in our process group, so that Ctrl-C reaches them. Descendants are found in
//! `/proc`; elsewhere than on Linux only the command itself is killed.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::sh;

/// How long killed processes may take to exit.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Kills a child and its descendants, and waits for them.
pub(crate) fn end(child: &mut Child) {
    let descendants = descendants(child.id());
    let _ = child.kill();
    let mut kill = Command::new("kill");
    kill.arg("-9")
        .args(descendants.iter().map(ToString::to_string));
    sh::succeeds(&mut kill);
    let _ = child.wait();
    let start = Instant::now();
    while descendants.iter().copied().any(is_alive) && start.elapsed() < GONE_WITHIN {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn descendants(of: u32) -> Vec<u32> {
    let mut found = children(of);
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children(parent));
        next += 1;
    }
    found
}

fn children(of: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| state_and_parent(*pid).is_some_and(|(_, parent)| parent == of))
        .collect()
}

fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// Parses `pid (name) state ppid …`, where the name may contain spaces and brackets.
fn state_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
