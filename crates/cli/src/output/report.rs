//! Errors, warnings and notes on stderr: as lines, or with `--json` as one object at the end
//! (UI-2).

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use trunkline::auth::BrowserUrl;
use trunkline_config::redact::redact_text;

use super::line::Line;
use super::lines::{Lines, bounded, inline};
use super::style::Style;
use super::{write_err, write_raw_err};
use crate::exit::Exit;
use crate::standing::last_word;

/// Whether stderr is one JSON object.
static JSON: AtomicBool = AtomicBool::new(false);

/// The maximum length of a line of a server's stderr. The log has all of it.
const MAX_STDERR_LINE: usize = 400;

/// The reports so far, with `--json`.
static REPORTED: Mutex<Reported> = Mutex::new(Reported {
    errors: Vec::new(),
    warnings: Vec::new(),
});

struct Reported {
    errors: Vec<Problem>,
    warnings: Vec<String>,
}

/// An error in JSON.
#[derive(Clone, Serialize)]
struct Problem {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stderr: Vec<String>,
    /// The difference between two definitions of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// The object on stderr.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The error behind a non-zero exit code.
#[derive(Serialize)]
struct Failure {
    #[serde(flatten)]
    problem: Problem,
    kind: &'static str,
    #[serde(rename = "exitCode")]
    exit_code: u8,
}

/// Switches reports to JSON.
pub(crate) fn use_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Returns whether reports are JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

fn reported() -> MutexGuard<'static, Reported> {
    REPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports an error with a hint, one line each.
pub(crate) fn error(what: &str, hint: Option<&str>) {
    if is_json() {
        let masked = |text: &str| redact_text(text).into_owned();
        reported().errors.push(Problem {
            message: masked(what),
            hint: hint.map(masked),
            stderr: Vec::new(),
            diff: None,
        });
        return;
    }
    let mut lines = Lines::from(headed(Style::Error, "error:", what));
    if let Some(hint) = hint {
        lines.push_hint("  ", &inline(hint));
    }
    write_err(&lines);
}

/// Returns a message behind a coloured word.
fn headed(style: Style, word: &'static str, what: &str) -> Line {
    Line::of(style, word).and(Style::Plain, format_args!(" {}", inline(what)))
}

/// Prints an error of the command-line parser. Line breaks in words of the command line are
/// escaped.
pub(crate) fn usage_error(text: &str, words: &[OsString]) {
    let mut text = text.to_owned();
    let words = words.iter().map(|word| word.to_string_lossy());
    for word in words.filter(|word| word.contains(['\n', '\r'])) {
        // The parser repeats the whole word or only its value.
        let value = word.split_once('=').map_or("", |(_, value)| value);
        let attached = word.get(2..).unwrap_or_default();
        for part in [&*word, value, attached] {
            if part.contains(['\n', '\r']) {
                text = text.replace(part, &inline(part));
            }
        }
    }
    let mut lines = Lines::new();
    for line in text.lines() {
        match line.strip_prefix("error:") {
            Some(rest) => {
                lines.push_line(Line::of(Style::Error, "error:").and(Style::Plain, rest));
            }
            None => lines.push(line),
        }
    }
    write_err(&lines);
}

/// Reports a warning, on one line.
pub(crate) fn warning(what: &str) {
    if is_json() {
        let what = redact_text(what).into_owned();
        reported().warnings.push(what);
        return;
    }
    write_err(&headed(Style::Warning, "warning:", what).into());
}

/// Adds a hint to the last warning.
pub(crate) fn hint(text: &str) {
    if is_json() {
        if let Some(last) = reported().warnings.last_mut() {
            last.push_str("; hint: ");
            last.push_str(&redact_text(text));
        }
        return;
    }
    let mut lines = Lines::new();
    lines.push_hint("  ", &inline(text));
    write_err(&lines);
}

/// Prints a note; nothing with `--json`.
pub(crate) fn note(lines: impl Into<Lines>) {
    if !is_json() {
        write_err(&lines.into());
    }
}

/// Writes what the user has to do now to stderr, even with --json.
pub(crate) fn instruction(lines: impl Into<Lines>) {
    write_err(&lines.into());
}

/// Writes a URL to open, on a row of its own that is never broken or masked.
pub(crate) fn url(url: &BrowserUrl) {
    write_raw_err(&format!("  {url}\n"));
}

/// Adds a diff to the last error in JSON.
pub(crate) fn json_diff(text: &str) {
    if let Some(error) = reported().errors.last_mut() {
        error.diff = Some(redact_text(text).into_owned());
    }
}

/// Prints foreign text as a block.
pub(crate) fn block(text: &str) {
    let mut lines = Lines::new();
    lines.push_block("  ", &redact_text(text));
    note(lines);
}

/// Adds lines of a server's stderr to the last error.
pub(crate) fn stderr_lines(server: &str, stderr: &[String]) {
    if is_json() {
        if let Some(error) = reported().errors.last_mut() {
            error.stderr = stderr.to_vec();
        }
        return;
    }
    write_err(&indented_stderr(server, stderr, "  "));
}

/// Formats lines of a server's stderr.
pub(crate) fn indented_stderr(server: &str, stderr: &[String], indent: &str) -> Lines {
    let mut lines = Lines::new();
    if stderr.is_empty() {
        return lines;
    }
    let logs = last_word(server);
    let mut heading = Line::plain(indent);
    heading.push_prose(&format!("stderr (see `trunkline logs {logs}`):"));
    lines.push_line(heading);
    for line in stderr {
        lines.push_block(&format!("{indent}  "), &bounded(line, MAX_STDERR_LINE));
    }
    lines
}

/// Writes the reports as one object, with `--json`.
pub(crate) fn finish(exit: Exit) {
    if !is_json() {
        return;
    }
    let mut reported = reported();
    let mut errors = std::mem::take(&mut reported.errors).into_iter();
    let mut warnings = std::mem::take(&mut reported.warnings);
    let error = match exit {
        Exit::Done => None,
        // The result has the error of the tool.
        Exit::Failed if errors.as_slice().is_empty() => None,
        exit => Some(Failure {
            problem: errors.next().unwrap_or_else(|| Problem {
                message: exit.kind().replace('-', " "),
                hint: None,
                stderr: Vec::new(),
                diff: None,
            }),
            kind: exit.kind(),
            exit_code: exit as u8,
        }),
    };
    warnings.extend(errors.map(|problem| match problem.hint {
        Some(hint) => format!("{}; hint: {hint}", problem.message),
        None => problem.message,
    }));
    if error.is_none() && warnings.is_empty() {
        return;
    }
    if let Ok(text) = serde_json::to_string(&Document { error, warnings }) {
        super::write_raw_err(&(super::harmless_json(&text) + "\n"));
    }
}
