//! Runs a command line of the user's: JSON in, JSON out, a time limit, bounded output.
//!
//! Hooks and `headersHelper` are such commands. They run through a shell, as in Claude Code. A
//! command leads its process group, of which nothing is left when its time is over or when nobody
//! waits for it any more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// The most bytes of each stream that are kept. The rest is read and dropped: the exit code counts
/// however much a command prints.
pub const MAX_OUTPUT: usize = 1024 * 1024;

/// How long a process that the command left behind may hold its output open.
const DRAIN: Duration = Duration::from_millis(200);

/// How a command ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself.
    Exited {
        /// Its exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// What it printed; `None` if that is longer than [`MAX_OUTPUT`].
        stdout: Option<Vec<u8>>,
        /// What it printed to stderr, cut to [`MAX_OUTPUT`].
        stderr: Vec<u8>,
    },
    /// It took longer than this.
    TimedOut(Duration),
    /// It could not be started.
    NotStarted(String),
}

/// What happens to processes that a command left in the background when it exits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// They end with it.
    Killed,
    /// They may go on, as the agent that a helper starts for the next time.
    Kept,
}

/// A command line for the shell.
#[derive(Clone, Debug)]
pub struct ShellCommand {
    line: String,
    timeout: Duration,
    env: Vec<(OsString, OsString)>,
    env_remove: Vec<String>,
    cwd: Option<PathBuf>,
    background: Background,
}

impl ShellCommand {
    /// Creates a command with a time limit. It inherits the environment.
    pub fn new(line: impl Into<String>, timeout: Duration) -> Self {
        Self {
            line: line.into(),
            timeout,
            env: Vec::new(),
            env_remove: Vec::new(),
            cwd: None,
            background: Background::Killed,
        }
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets variables that it does not inherit. Those that are set count nevertheless.
    #[must_use]
    pub fn env_remove<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.env_remove.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory; by default that of this process.
    #[must_use]
    pub fn in_dir(mut self, dir: Option<&Path>) -> Self {
        self.cwd = dir.map(Path::to_owned);
        self
    }

    /// Sets what happens to background processes.
    #[must_use]
    pub fn background(mut self, background: Background) -> Self {
        self.background = background;
        self
    }

    /// Runs the command with this input. Dropping the future kills its process group.
    pub async fn run(&self, input: &[u8]) -> Ended {
        let mut command = shell(&self.line);
        for name in &self.env_remove {
            command.env_remove(name);
        }
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(if input.is_empty() {
                Stdio::null()
            } else {
                Stdio::piped()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ended::NotStarted(error.to_string()),
        };
        let group = ProcessGroup(child.id());
        let stdin = child.stdin.take();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Ended::NotStarted("its pipes are missing".to_owned());
        };
        let (mut printed, mut errors) = (Vec::new(), Vec::new());
        let work = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A command need not read its input.
                    let _ = stdin.write_all(input).await;
                }
            };
            let mut streams = std::pin::pin!(async {
                tokio::join!(
                    write,
                    read_bounded(stdout, &mut printed),
                    read_bounded(stderr, &mut errors),
                )
            });
            tokio::select! {
                _ = &mut streams => child.wait().await,
                status = child.wait() => {
                    // What it printed is in the pipes, unless a process of its own still prints.
                    let _ = timeout(DRAIN, &mut streams).await;
                    status
                }
            }
        };
        match timeout(self.timeout, work).await {
            Err(_) => Ended::TimedOut(self.timeout),
            Ok(Err(error)) => Ended::NotStarted(error.to_string()),
            Ok(Ok(status)) => {
                if self.background == Background::Kept {
                    group.disarm();
                }
                errors.truncate(MAX_OUTPUT);
                Ended::Exited {
                    code: status.code(),
                    stdout: Some(printed).filter(|printed| printed.len() <= MAX_OUTPUT),
                    stderr: errors,
                }
            }
        }
    }
}

/// Reads a stream to its end, and keeps up to one byte more than [`MAX_OUTPUT`].
async fn read_bounded(stream: impl AsyncRead + Unpin, bytes: &mut Vec<u8>) {
    let mut stream = stream.take(MAX_OUTPUT as u64 + 1);
    let _ = stream.read_to_end(bytes).await;
    let _ = tokio::io::copy(&mut stream.into_inner(), &mut tokio::io::sink()).await;
}

/// The process group of a command, killed on drop unless disarmed.
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self
            .0
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    async fn ended(line: &str, limit: Duration) -> Ended {
        ShellCommand::new(line, limit).run(b"{\"a\":1}").await
    }

    /// Returns whether a process has ended, or is at least no more than an entry of the table.
    fn is_gone(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
    }

    /// Waits for a file with a process ID in it.
    async fn pid_in(file: &Path) -> u32 {
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if let Ok(pid) = text.trim().parse::<u32>() {
                return pid;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_command_that_misbehaves_costs_bounded_time_and_memory() {
        let begun = Instant::now();
        for (command, limit) in [
            ("sleep 60", Duration::from_millis(200)),
            ("sleep 60 & sleep 60", Duration::from_millis(200)),
            ("exec cat /dev/zero", Duration::from_millis(200)),
            ("exec cat /dev/zero >&2", Duration::from_millis(200)),
            ("exec head -c 100000000 /dev/zero", LONG),
            // It leaves a process behind that holds its output open.
            ("sleep 60 & exit 0", LONG),
            ("trap '' TERM INT; kill -9 $$", LONG),
        ] {
            let ended = ended(command, limit).await;
            let expected = match command {
                _ if limit < LONG => matches!(ended, Ended::TimedOut(_)),
                "sleep 60 & exit 0" => matches!(ended, Ended::Exited { code: Some(0), .. }),
                "trap '' TERM INT; kill -9 $$" => matches!(ended, Ended::Exited { code: None, .. }),
                _ => matches!(ended, Ended::Exited { stdout: None, .. }),
            };
            assert!(expected, "{command}");
        }
        assert!(begun.elapsed() < LONG);
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_command_that_nobody_waits_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let line = format!("sleep 60 & echo $! > {}; wait", file.display());
        let pid = tokio::select! {
            ended = ended(&line, LONG) => panic!("{ended:?}"),
            pid = pid_in(&file) => pid,
        };
        let begun = Instant::now();
        while !is_gone(pid) {
            assert!(begun.elapsed() < LONG);
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn background_processes_are_killed_or_kept() {
        let directory = tempfile::tempdir().unwrap();
        for background in [Background::Killed, Background::Kept] {
            let file = directory.path().join(format!("{background:?}"));
            let line = format!(
                "sleep 60 >&- 2>&- </dev/null & echo $! > {}",
                file.display()
            );
            let command = ShellCommand::new(line, LONG).background(background);
            let ended = command.run(b"").await;
            assert!(matches!(ended, Ended::Exited { .. }), "{ended:?}");
            let pid = pid_in(&file).await;
            if background == Background::Kept {
                assert!(!is_gone(pid));
                let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            let begun = Instant::now();
            while !is_gone(pid) {
                assert!(begun.elapsed() < LONG, "{background:?}");
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn the_exit_code_counts_however_much_is_printed() {
        for (stream, is_kept) in [("1", false), ("2", true)] {
            let command = format!("head -c 3000000 /dev/zero >&{stream}; exit 2");
            let Ended::Exited { code, stdout, .. } = ended(&command, LONG).await else {
                panic!("it ran");
            };
            assert_eq!((code, stdout.is_some()), (Some(2), is_kept), "{stream}");
        }
    }
}
