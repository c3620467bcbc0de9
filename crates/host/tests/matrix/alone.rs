//! Runs one test by itself, and proves that it leaves nothing behind: no task, and no descriptor of this process.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::waiting::eventually;

/// Tests of one process would count each other's descriptors.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test on a runtime of its own.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // What hears of ended children is opened once a process, by the first to ask.
        let child = tokio::process::Command::new("true").status().await;
        assert!(child.unwrap().success());
        let before = descriptors();
        test.await;
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        eventually("all tasks to end", || tasks() == 0).await;
        eventually("all descriptors to be closed", || descriptors() == before).await;
    });
}

/// How many descriptors this process has open.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How much memory this process holds, in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes.unwrap().parse::<usize>().unwrap() * 1024
}
