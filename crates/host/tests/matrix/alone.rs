//! Runs one test alone and checks that it leaves no task and no file descriptor.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::waiting::{eventually, eventually_or};

/// Concurrent tests would count each other's descriptors.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test on its own runtime.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // The first child process opens a descriptor that stays open.
        let child = tokio::process::Command::new("true").status().await;
        assert!(child.unwrap().success());
        let before = open_files();
        test.await;
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        eventually("all tasks to end", || tasks() == 0).await;
        let left = || {
            format!(
                "all descriptors to be closed: {before:?}, now {:?}",
                open_files()
            )
        };
        eventually_or(left, || descriptors() <= before.len()).await;
    });
}

/// Returns the names of all open files.
fn open_files() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    files
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .map(|name| name.display().to_string())
        .collect()
}

/// Returns the number of open descriptors.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the resident memory in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes.unwrap().parse::<usize>().unwrap() * 1024
}
