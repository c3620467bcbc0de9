//! Runs the command of a hook: JSON on its stdin, bounded output, a time limit.
//!
//! The command runs through a shell, as in Claude Code: it is the user's own. It leads its process
//! group, of which nothing is left when it ends, its time is over, or its call is cancelled.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;
use trunkline_config::{Hook, env_vars};

/// The most bytes of a hook's output that are kept. The rest is read and dropped: the exit code
/// counts however much a hook prints.
const MAX_OUTPUT: usize = 1024 * 1024;

/// How long a process that the hook left behind may hold its output open.
const DRAIN: Duration = Duration::from_millis(200);

/// How the command of a hook ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With this exit code; `None` if a signal ended it.
    Exited {
        code: Option<i32>,
        /// What it printed; `None` if that is too long.
        stdout: Option<Vec<u8>>,
        stderr: Vec<u8>,
    },
    TimedOut(Duration),
    NotStarted(String),
}

/// Runs the command of a hook with this input.
pub(super) async fn run(hook: &Hook, input: Vec<u8>, project_dir: Option<&Path>) -> Ended {
    let mut command = shell_command(&hook.command);
    for name in env_vars::secrets() {
        command.env_remove(name);
    }
    if let Some(dir) = project_dir {
        command.current_dir(dir).env("CLAUDE_PROJECT_DIR", dir);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ended::NotStarted(error.to_string()),
    };
    let _group = ProcessGroup(child.id());
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Ended::NotStarted("its pipes are missing".to_owned());
    };
    let (mut printed, mut errors) = (Vec::new(), Vec::new());
    let work = async {
        let write = async {
            // A hook need not read its input.
            let _ = stdin.write_all(&input).await;
            drop(stdin);
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
    let ended = timeout(hook.timeout, work).await;
    match ended {
        Err(_) => Ended::TimedOut(hook.timeout),
        Ok(Err(error)) => Ended::NotStarted(error.to_string()),
        Ok(Ok(status)) => Ended::Exited {
            code: status.code(),
            stdout: Some(printed).filter(|printed| printed.len() <= MAX_OUTPUT),
            stderr: errors,
        },
    }
}

/// Reads a stream to its end, and keeps up to one byte more than [`MAX_OUTPUT`].
async fn read_bounded(stream: impl AsyncRead + Unpin, bytes: &mut Vec<u8>) {
    let mut stream = stream.take(MAX_OUTPUT as u64 + 1);
    let _ = stream.read_to_end(bytes).await;
    let _ = tokio::io::copy(&mut stream.into_inner(), &mut tokio::io::sink()).await;
}

/// The process group of a hook, killed on drop.
struct ProcessGroup(Option<u32>);

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
fn shell_command(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(not(unix))]
fn shell_command(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use trunkline_config::{HookEvent, HookMatcher};

    use super::*;

    async fn ended(command: &str, limit: Duration) -> Ended {
        let hook = Hook::new(
            HookEvent::PreToolUse,
            HookMatcher::default(),
            command,
            limit,
        );
        run(&hook, b"{\"a\":1}".to_vec(), None).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_hook_reads_stdin_and_prints() {
        let Ended::Exited {
            code,
            stdout,
            stderr,
        } = ended("cat; echo oh >&2; exit 3", LONG).await
        else {
            panic!("it ran");
        };
        assert_eq!(
            (code, stdout.as_deref(), &*stderr),
            (Some(3), Some(&b"{\"a\":1}"[..]), &b"oh\n"[..])
        );
    }

    #[tokio::test]
    async fn a_hook_that_misbehaves_costs_bounded_time_and_memory() {
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
    async fn nothing_is_left_of_a_hook() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let command = format!("sleep 60 & echo $! > {}; wait", file.display());
        let hook = ended(&command, LONG);
        let pid = async {
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                if let Ok(pid) = text.trim().parse::<u32>() {
                    return pid;
                }
                tokio::task::yield_now().await;
            }
        };
        let pid = tokio::select! {
            ended = hook => panic!("{ended:?}"),
            pid = pid => pid,
        };
        let stat = format!("/proc/{pid}/stat");
        let begun = Instant::now();
        while let Ok(stat) = std::fs::read_to_string(&stat)
            && !stat.contains(") Z ")
        {
            assert!(begun.elapsed() < LONG, "{stat}");
            tokio::task::yield_now().await;
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

    /// Runs itself again with a secret in the environment, which a test cannot set for itself.
    #[tokio::test]
    async fn our_secrets_are_not_inherited() {
        const NAME: &str = "hooks::process::tests::our_secrets_are_not_inherited";
        let secret = env_vars::secrets().next().unwrap();
        if std::env::var_os(secret).is_none() {
            let again = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .env(secret, "hidden")
                .env("NO_SECRET", "visible")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&again.stdout);
            assert!(again.status.success(), "{printed}");
            assert!(printed.contains("1 passed"), "{printed}");
            return;
        }
        let Ended::Exited { stdout, .. } = ended("env", LONG).await else {
            panic!("it ran");
        };
        let stdout = String::from_utf8(stdout.unwrap()).unwrap();
        assert!(!stdout.contains(&format!("{secret}=")), "{secret}");
        assert!(stdout.contains("NO_SECRET=visible"));
    }
}
