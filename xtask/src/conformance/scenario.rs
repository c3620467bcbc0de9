//! Runs one scenario in its own process group and reads the suite's verdict.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;

use super::suite::Case;

/// The suite's timeout for the client, in milliseconds. The client gives up earlier.
const CLIENT_LIMIT: &str = "30000";

/// The time limit of a scenario, including the suite's start and end.
const LIMIT: Duration = Duration::from_secs(45);

/// The polling interval of a running scenario.
const POLL: Duration = Duration::from_millis(20);

/// Where scenarios run.
pub(super) struct Lab {
    /// The client's program.
    pub(super) client: PathBuf,
    /// `target/conformance`.
    pub(super) folder: PathBuf,
    /// Print what the suite says.
    pub(super) verbose: bool,
}

/// The result of a scenario.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether it succeeded and at least one check passed.
    pub(super) passed: bool,
    /// The failed checks.
    pub(super) complaints: Vec<Complaint>,
    /// The last lines of the client.
    pub(super) last_words: String,
}

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) name: String,
    pub(super) message: String,
}

/// How the suite itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    Badly,
    TooLate,
}

/// A check in the suite's results.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
}

impl Lab {
    /// Runs one scenario.
    pub(super) fn play(&self, case: &Case) -> Result<Verdict> {
        let name = case.scenario.replace('/', "_");
        let place = self.folder.join("results").join(case.run()).join(name);
        let home = place.join("home");
        if place.exists() {
            fs::remove_dir_all(&place).with_context(|| clear_failed(&place))?;
        }
        fs::create_dir_all(&home)
            .with_context(|| format!("could not create {}", home.display()))?;
        let log = place.join("suite.log");
        let mut command = case.command(&self.folder);
        command
            .arg("--command")
            .arg(&self.client)
            .args(["--timeout", CLIENT_LIMIT, "--output-dir"])
            .arg(&place)
            .env("HOME", &home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        let end = run_in_group(&mut command, &log, LIMIT)?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        if self.verbose {
            println!("── {} {}\n{said}", case.run(), case.scenario);
        }
        let read = |name| find(&place, name).and_then(|file| fs::read_to_string(file).ok());
        let checks: Option<Vec<Check>> =
            read("checks.json").and_then(|text| serde_json::from_str(&text).ok());
        let last_words = match read("stderr.txt") {
            Some(words) if !words.trim().is_empty() => words,
            // Without results, report the suite's output.
            _ if checks.is_none() => said,
            _ => String::new(),
        };
        Ok(judge(end, &checks.unwrap_or_default(), last_words))
    }
}

fn clear_failed(place: &Path) -> String {
    format!("could not clear {}", place.display())
}

/// A scenario passes when the suite succeeds and at least one check passed: without a check, it
/// proves nothing.
fn judge(end: End, checks: &[Check], last_words: String) -> Verdict {
    let succeeded = checks.iter().any(|check| check.status == "SUCCESS");
    let passed = end == End::Well && succeeded;
    let mut complaints: Vec<Complaint> = checks
        .iter()
        .filter(|check| matches!(check.status.as_str(), "FAILURE" | "WARNING"))
        .map(|check| Complaint {
            name: check.name.clone(),
            message: check
                .error_message
                .clone()
                .unwrap_or_else(|| check.description.clone()),
        })
        .collect();
    let also = match end {
        End::TooLate => Some("(took too long)"),
        End::Well if !succeeded => Some("(no check succeeded)"),
        End::Badly if complaints.is_empty() => Some("(the client failed)"),
        End::Well | End::Badly => None,
    };
    complaints.extend(also.map(|name| Complaint {
        name: name.to_owned(),
        message: String::new(),
    }));
    Verdict {
        passed,
        complaints,
        last_words,
    }
}

/// Runs a command in its own process group, and kills what is left of the group.
pub(super) fn run_in_group(command: &mut Command, log: &Path, limit: Duration) -> Result<End> {
    let out = File::create(log).with_context(|| format!("could not create {}", log.display()))?;
    let err = out.try_clone()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .context("could not start the suite")?;
    let group = Pid::from_child(&child);
    let in_time = ends_in_time(group, limit);
    // The child is not reaped yet, so its group id cannot be reused.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    Ok(match in_time {
        false => End::TooLate,
        true if status.success() => End::Well,
        true => End::Badly,
    })
}

/// Waits for a child without reaping it.
fn ends_in_time(child: Pid, limit: Duration) -> bool {
    let start = Instant::now();
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while start.elapsed() < limit {
        if !matches!(waitid(WaitId::Pid(child), peek), Ok(None)) {
            return true;
        }
        std::thread::sleep(POLL);
    }
    false
}

/// Finds a file of this name below `folder`: the suite's folders have the time in their names.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    let here = entries.iter().find(|entry| entry.file_name() == name);
    here.map(fs::DirEntry::path).or_else(|| {
        let mut folders = entries.iter().filter(|entry| entry.path().is_dir());
        folders.find_map(|entry| find(&entry.path(), name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(end: End, statuses: &[&str]) -> (bool, Vec<String>) {
        let checks: Vec<Check> = statuses
            .iter()
            .map(|status| Check {
                name: format!("Check{status}"),
                status: (*status).to_owned(),
                description: String::new(),
                error_message: None,
            })
            .collect();
        let verdict = judge(end, &checks, String::new());
        let names = verdict
            .complaints
            .into_iter()
            .map(|complaint| complaint.name);
        (verdict.passed, names.collect())
    }

    #[test]
    fn a_pass_needs_a_good_end_and_a_success() {
        let check = |end, statuses: &[&str], passed, complaint: Option<&str>| {
            let (did, names) = verdict(end, statuses);
            assert_eq!(did, passed, "{end:?} {statuses:?}");
            assert_eq!(names.first().map(String::as_str), complaint);
        };
        check(End::Well, &["SUCCESS", "SKIPPED"], true, None);
        check(End::Well, &[], false, Some("(no check succeeded)"));
        check(
            End::Well,
            &["SKIPPED", "INFO"],
            false,
            Some("(no check succeeded)"),
        );
        check(End::Badly, &["SUCCESS"], false, Some("(the client failed)"));
        check(
            End::Badly,
            &["SUCCESS", "WARNING"],
            false,
            Some("CheckWARNING"),
        );
        check(End::TooLate, &["SUCCESS"], false, Some("(took too long)"));
    }

    #[test]
    fn nothing_of_the_group_is_left() {
        let log = std::env::temp_dir().join(format!("xtask-group-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 61.0371 & echo started; exit 0"]);
        assert_eq!(run_in_group(&mut command, &log, LIMIT).unwrap(), End::Well);
        assert_eq!(fs::read_to_string(&log).unwrap(), "started\n");
        fs::remove_file(&log).unwrap();
        let alive = || {
            fs::read_dir("/proc")
                .unwrap()
                .flatten()
                .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
                .any(|line| line == b"sleep\x0061.0371\0")
        };
        let start = Instant::now();
        while alive() {
            assert!(start.elapsed() < Duration::from_secs(10));
            std::thread::sleep(POLL);
        }
    }
}
