//! Running one program: pinned or free, with a time limit, and nothing left of it afterwards.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use rustix::thread::CpuSet;

use super::Layout;
use crate::sh;

/// How often a program's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What a program's memory was when it was last looked at.
type Peak = Mutex<Option<f64>>;

/// Where a program and its children may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    /// On one core, client and server together: free of the scheduler's choices, so this judges.
    Pinned,
    /// Wherever the kernel puts them.
    Free,
}

/// One program to run.
pub(super) struct Program<'a> {
    pub(super) argv: &'a [String],
    pub(super) env: &'a [(String, String)],
    pub(super) cores: Cores,
    pub(super) limit: Duration,
    /// Where its output goes: `<log>.out` and `<log>.err`. Files, so that a grandchild holding on to a pipe
    /// cannot keep the harness waiting.
    pub(super) log: PathBuf,
}

/// A program that ended with success.
#[derive(Debug)]
pub(super) struct Finished {
    /// From just before the start to the exit.
    pub(super) wall: Duration,
    pub(super) stdout: String,
}

impl Program<'_> {
    /// Runs to the end; the error is one line for the table.
    pub(super) fn run(&self) -> Result<Finished, String> {
        self.start(None)
    }

    /// Runs to the end and looks again and again how much memory it has used, in KB, which costs it some time. Its resource usage
    /// at the end would not do: that begins with what the harness has.
    pub(super) fn run_watched(&self) -> Result<(Finished, Option<f64>), String> {
        let peak = Mutex::new(None);
        let finished = self.start(Some(&peak))?;
        Ok((finished, peak.into_inner().unwrap_or(None)))
    }

    fn start(&self, peak: Option<&Peak>) -> Result<Finished, String> {
        let (program, arguments) = self.argv.split_first().ok_or("nothing to run")?;
        let (out, err) = (
            self.log.with_extension("out"),
            self.log.with_extension("err"),
        );
        let create =
            |path| File::create(path).map_err(|error| format!("cannot write a log: {error}"));
        let mut command = Command::new(program);
        sh::without_package_vars(&mut command)
            .args(arguments)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?)
            .process_group(0);

        let start = Instant::now();
        let mut child = on_cores(self.cores, || command.spawn())
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let in_time = wait(&child, self.limit, peak)?;
        let wall = start.elapsed();
        kill_group(&child);
        let status = child.wait().map_err(|error| error.to_string())?;

        let stdout = read_lossy(&out);
        let stderr = read_lossy(&err);
        if !in_time {
            return Err(format!("killed after {} s", self.limit.as_secs()));
        }
        if !status.success() {
            return Err(format!("{status}: {}", reason(&stderr, &stdout)));
        }
        Ok(Finished { wall, stdout })
    }
}

/// Waits for the exit without reaping, so that the process group's id stays ours until it has been killed.
fn wait(child: &Child, limit: Duration, peak: Option<&Peak>) -> Result<bool, String> {
    let pid = pid(child).ok_or("no process id")?;
    let (done, watched) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let end = Instant::now() + limit;
            loop {
                let left = end.saturating_duration_since(Instant::now());
                let pause = peak.map_or(left, |_| left.min(LOOK_EVERY));
                if watched.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return true;
                }
                if left.is_zero() {
                    kill_group_of(pid);
                    return false;
                }
                if let (Some(peak), Some(now)) = (peak, peak_kb(pid)) {
                    peak.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .replace(now);
                }
            }
        });
        let waited = loop {
            match rustix::process::waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        drop(done);
        let in_time = watchdog.join().unwrap_or(false);
        waited
            .map(|_| in_time)
            .map_err(|error| format!("cannot wait: {error}"))
    })
}

/// The most memory a running program has used, in KB; it never shrinks.
fn peak_kb(pid: Pid) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

fn kill_group(child: &Child) {
    if let Some(pid) = pid(child) {
        kill_group_of(pid);
    }
}

fn kill_group_of(pid: Pid) {
    // Fails when nothing is left, which is what is wanted.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
}

/// Runs `spawn` with the affinity its child is to inherit. Not `taskset`: its start would count as the program's.
pub(super) fn on_cores<T>(
    cores: Cores,
    spawn: impl FnOnce() -> std::io::Result<T>,
) -> std::io::Result<T> {
    if cores == Cores::Free {
        return spawn();
    }
    let before = rustix::thread::sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU)
        .find(|&cpu| before.is_set(cpu))
        .unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one)?;
    let spawned = spawn();
    rustix::thread::sched_setaffinity(None, &before)?;
    spawned
}

fn read_lossy(path: &PathBuf) -> String {
    std::fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// The line of a failed program's output that says most.
fn reason(stderr: &str, stdout: &str) -> String {
    let lines = || {
        stderr
            .lines()
            .chain(stdout.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let telling = lines().find(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("error") || line.contains("error:") || line.starts_with("npm error")
    });
    let line = telling
        .or_else(|| lines().next_back())
        .unwrap_or("no output");
    line.chars().take(160).collect()
}

/// The environment of every measured program: an empty home, so that no configuration of the developer's counts.
pub(super) fn clean_home(layout: &Layout) -> Vec<(String, String)> {
    let home = layout.out.join("home");
    let under = |name: &str| home.join(name).display().to_string();
    vec![
        ("HOME".to_owned(), home.display().to_string()),
        ("XDG_CONFIG_HOME".to_owned(), under(".config")),
        ("XDG_CACHE_HOME".to_owned(), under(".cache")),
        ("XDG_DATA_HOME".to_owned(), under(".local/share")),
        ("XDG_STATE_HOME".to_owned(), under(".local/state")),
        // The inspector would look for a keychain first.
        ("MCP_INSPECTOR_SECRET_STORE".to_owned(), "memory".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, name: &str) -> Result<Finished, String> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        let log = std::env::temp_dir().join(format!("xtask-bench-{}-{name}", std::process::id()));
        Program {
            argv: &argv,
            env: &[],
            cores: Cores::Pinned,
            limit,
            log,
        }
        .run()
    }

    #[test]
    fn output_and_exit_are_reported() {
        let finished =
            shell("echo one; echo two >&2", Duration::from_secs(20), "ok").expect("success");
        assert_eq!(finished.stdout, "one\n");
        let error = shell(
            "echo 'Error: broken' >&2; exit 3",
            Duration::from_secs(20),
            "fail",
        )
        .expect_err("failure");
        assert!(error.contains("3: Error: broken"), "{error}");
    }

    #[test]
    fn a_late_program_is_killed_with_its_children() {
        let error =
            shell("sleep 600 & sleep 600", Duration::from_millis(50), "late").expect_err("killed");
        assert!(error.starts_with("killed after"), "{error}");
    }

    #[test]
    fn memory_is_seen_while_a_program_runs() {
        let argv = ["sh", "-c", "sleep 0.2"].map(str::to_owned);
        let log = std::env::temp_dir().join(format!("xtask-bench-{}-peak", std::process::id()));
        let program = Program {
            argv: &argv,
            env: &[],
            cores: Cores::Free,
            limit: Duration::from_secs(20),
            log,
        };
        let (_, peak) = program.run_watched().expect("success");
        assert!(peak.is_some_and(|kb| kb > 100.0), "{peak:?}");
    }

    #[test]
    fn a_child_left_behind_does_not_hold_the_harness() {
        let finished =
            shell("sleep 600 & echo done", Duration::from_secs(20), "left").expect("success");
        assert_eq!(finished.stdout, "done\n");
        assert!(finished.wall < Duration::from_secs(20));
    }
}
