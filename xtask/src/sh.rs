//! Runs commands with a time limit, and errors that name the command.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process_tree;

/// The polling interval of a running command.
const POLL: Duration = Duration::from_millis(20);

/// How long to wait for the output of a command that has ended.
const PIPE_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Returns a `cargo` command in the root, with `target/tools` on its PATH.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    without_package_vars(&mut command)
        .args(args)
        .current_dir(root())
        .env("PATH", path_with(&root().join("target/tools/bin")));
    command
}

/// Removes the variables that `cargo run` sets for the package `xtask`. Build scripts such as
/// ring's depend on them: with them, a build would not reuse what a build from a shell has
/// compiled.
pub(crate) fn without_package_vars(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_package_var) {
            command.env_remove(name);
        }
    }
    command
}

fn is_package_var(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns `PATH` with a folder in front.
pub(crate) fn path_with(folder: &Path) -> OsString {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&old));
    std::env::join_paths(all).unwrap_or(old)
}

/// Runs a command with its output on the terminal.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<()> {
    announce(command);
    let child = spawn(command)?;
    finish(command, child, limit)
}

/// Lines of a command's stderr to note or to hide.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    /// The last line that contains this is returned.
    pub(crate) noted: &'static str,
    /// Lines that contain one of these are not shown.
    pub(crate) hidden: &'static [&'static str],
}

/// Runs a command with its output on the terminal, and returns the noted line of its stderr.
pub(crate) fn run_noting(
    command: &mut Command,
    limit: Duration,
    lines: Lines,
) -> Result<Option<String>> {
    announce(command);
    let mut child = spawn(command.stderr(Stdio::piped()))?;
    let stderr = child.stderr.take().context("the stderr pipe is missing")?;
    let (done, noted) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(forward(BufReader::new(stderr), lines)));
    let finished = finish(command, child, limit);
    // The pipe closes with the command, unless a leftover process holds it.
    let noted = noted.recv_timeout(PIPE_TIMEOUT).ok().flatten();
    finished.map(|()| noted)
}

/// Runs a command and returns its stdout.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {}", line(&command)))?;
    if !output.status.success() {
        bail!("{} failed", line(&command));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns whether a command exists and succeeds, without its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Formats a duration: `840 ms`, `12.3 s`, `4 min 05 s`.
pub(crate) fn human(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..=59 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

fn announce(command: &Command) {
    println!("$ {}", line(command));
}

/// Formats the command line, with paths relative to the root.
fn line(command: &Command) -> String {
    let root = format!("{}/", root().display());
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ").replace(&root, "")
}

fn spawn(command: &mut Command) -> Result<Child> {
    let child = command.stdin(Stdio::null()).spawn();
    child.with_context(|| format!("could not start `{}`", line(command)))
}

fn finish(command: &Command, mut child: Child, limit: Duration) -> Result<()> {
    let Some(status) = wait(&mut child, limit)? else {
        bail!("`{}` took longer than {}", line(command), human(limit));
    };
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// Waits for the child. At the limit, kills its process tree and returns `None`.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            process_tree::end(child);
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Copies lines to our stderr, and returns the noted one without colours.
fn forward(from: impl BufRead, lines: Lines) -> Option<String> {
    let mut found = None;
    for bytes in from.split(b'\n').map_while(Result::ok) {
        let text = without_colours(&String::from_utf8_lossy(&bytes));
        if !lines.hidden.iter().any(|hidden| text.contains(hidden)) {
            let mut err = std::io::stderr().lock();
            let _ = err.write_all(&bytes);
            let _ = err.write_all(b"\n");
        }
        if text.contains(lines.noted) {
            found = Some(text.trim().to_owned());
        }
    }
    found
}

fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |kept, piece| {
        kept + piece.split_once('m').map_or(piece, |(_, rest)| rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let check = |ms, expected: &str| assert_eq!(human(Duration::from_millis(ms)), expected);
        check(7, "7 ms");
        check(12_340, "12.3 s");
        check(245_000, "4 min 05 s");
    }

    #[test]
    fn a_build_does_not_see_the_package_of_its_caller() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo(&["build"]);
        let mut removed = command.get_envs().filter(|(_, value)| value.is_none());
        assert!(removed.any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
        assert!(is_package_var("CARGO_PKG_NAME"));
        assert!(!is_package_var("CARGO_TARGET_DIR"));
    }

    #[test]
    fn colours_are_removed() {
        let check = |text, expected: &str| assert_eq!(without_colours(text), expected);
        check("plain [1s]", "plain [1s]");
        check("\u{1b}[32;1mSummary\u{1b}[0m [1s]", "Summary [1s]");
    }

    #[test]
    fn a_command_past_its_limit_ends_with_its_children() {
        let marker = "61.0257";
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep {marker} & sleep {marker}; true")]);
        let error = run(&mut command, Duration::from_millis(300)).unwrap_err();
        assert!(error.to_string().contains("took longer than"), "{error}");
        let left = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .filter(|line| line == format!("sleep\0{marker}\0").as_bytes())
            .count();
        assert_eq!(left, 0);
    }

    #[test]
    fn a_failing_command_is_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let error = run(&mut command, Duration::from_mins(1))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "`sh -c exit 3` failed (exit status: 3)");
    }

    #[test]
    fn the_wanted_line_is_noted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one >&2; echo two >&2; echo three >&2"]);
        let lines = Lines {
            noted: "tw",
            hidden: &["two"],
        };
        let noted = run_noting(&mut command, Duration::from_mins(1), lines).unwrap();
        assert_eq!(noted.as_deref(), Some("two"));
    }
}
