//! Causes that the evidence of a failure shows by itself, for the hints of other commands: nothing
//! is started, and nothing is asked.

use trunkline::server::{CloseReason, ConnectFailure, FailureKind};
use trunkline_config::ServerEntry;
use trunkline_config::redact::display_redactor;

use super::causes::process::{self, ProcessEvidence};
use super::connection::closed;
use super::diagnosis::{Diagnosis, Subject};
use super::program;

/// Programs whose command lines are fixes that can be pasted.
const PROGRAMS: [&str; 8] = [
    "trunkline",
    "docker",
    "sudo",
    "export",
    "npm",
    "pip",
    "open",
    "chmod",
];

/// Causes that are no better than the hint of the failure.
const SAID_ALREADY: [&str; 3] = ["command-line", "stdout-text", "no-directory"];

/// Returns the cause that the output and the end of a process show.
pub(super) fn of_process(
    subject: &Subject,
    entry: &ServerEntry,
    failure: &ConnectFailure,
) -> Option<Diagnosis> {
    entry.transport.stdio()?;
    let argv = entry.transport.argv().unwrap_or_default();
    let exited =
        closed(failure).is_some_and(|cause| matches!(cause.reason(), CloseReason::Exited { .. }));
    let evidence = ProcessEvidence {
        argv: &argv,
        stderr: &failure.stderr,
        stdout: failure.nonsense.as_deref(),
        exited,
    };
    process::diagnose(subject, &evidence)
}

/// Returns the cause of a failure on one line, from the output of the process alone; `None` if that
/// says no more than the failure.
pub(crate) fn cause_of_output(entry: &ServerEntry, failure: &ConnectFailure) -> Option<String> {
    let found = of_process(&Subject::of_entry(entry), entry, failure)?;
    let is_more = !SAID_ALREADY.contains(&found.cause);
    is_more.then(|| display_redactor(entry).known(&found.message).into_owned())
}

/// Returns a hint with the cause of a failure and its fix, from the output of the process alone.
pub(crate) fn hint_of_output(entry: &ServerEntry, failure: &ConnectFailure) -> Option<String> {
    hint_of(
        entry,
        &of_process(&Subject::of_entry(entry), entry, failure)?,
    )
}

/// As [`hint_of_output`], and looks for a program that could not be started.
pub(crate) fn hint(entry: &ServerEntry, failure: &ConnectFailure) -> Option<String> {
    if let FailureKind::Spawn(_) = &failure.kind {
        let found = program::diagnose(&Subject::of_entry(entry), entry)?;
        return hint_of(entry, &found.err()?);
    }
    hint_of_output(entry, failure)
}

/// Replaces `KEY=VALUE` by a reference to the variable: a value would be masked as a secret.
fn with_reference(fix: &str) -> String {
    let Some(before) = fix.strip_suffix("=VALUE") else {
        return fix.to_owned();
    };
    match before.rsplit_once(" -e ") {
        Some((before, key)) => format!("{before} -e '{key}=${{{key}}}'"),
        None => fix.to_owned(),
    }
}

/// Returns the cause and the fix on one line; a command is in backticks.
fn hint_of(entry: &ServerEntry, found: &Diagnosis) -> Option<String> {
    // The failure itself says as much, or the fix repeats arguments, which may be secret.
    if SAID_ALREADY.contains(&found.cause) {
        return None;
    }
    let fix = found.fix.as_deref()?;
    let is_vague = fix.ends_with("--command PATH") || fix.starts_with("correct the \"command\"");
    if found.cause == "program-not-found" && is_vague {
        return None;
    }
    let fix = &with_reference(fix);
    let program = fix.split(' ').next().unwrap_or_default();
    let message = &found.message;
    let hint = if PROGRAMS.contains(&program) && !fix.contains(", ") {
        format!("{message}: `{fix}`")
    } else {
        format!("{message}: {fix}")
    };
    Some(display_redactor(entry).known(&hint).into_owned())
}
