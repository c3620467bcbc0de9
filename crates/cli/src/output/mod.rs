//! The only module that prints. Results go to stdout, everything else to stderr. Foreign text is
//! escaped for a terminal (SEC-3); see [`Lines`].

mod lines;
mod prompt;
mod report;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};
pub(crate) use trunkline::text::harmless;
use trunkline::text::harmless_with;
use trunkline_config::env_vars;
use unicode_width::UnicodeWidthChar;

pub(crate) use lines::{Lines, inline, name};
pub(crate) use prompt::{
    Dialog, Prompted, StopOnDrop, StopSignal, Stopped, TextPrompt, is_possible as can_prompt,
};
pub(crate) use report::{
    block, error, finish, hint, indented_stderr, instruction, is_json, json_diff, note,
    stderr_lines, url, usage_error, use_json, warning,
};

/// Whether a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether the reader of stdout has gone away.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether the user has been prompted, and whether a prompt is open.
static ASKED: AtomicBool = AtomicBool::new(false);
static ASKING: AtomicBool = AtomicBool::new(false);

/// Writes lines to stdout, wrapped on a terminal.
pub(crate) fn result(lines: impl Into<Lines>) {
    let lines = lines.into();
    if io::stdout().is_terminal() {
        result_bytes(
            lines
                .wrapped(width(terminal_size_of(io::stdout())))
                .as_bytes(),
        );
    } else {
        result_bytes(lines.as_str().as_bytes());
    }
}

/// Writes bytes to stdout. A closed pipe (`| head`) is not an error; a full disk is, see [`lost`].
pub(crate) fn result_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    match written {
        Ok(()) => {}
        Err(problem) if problem.kind() == io::ErrorKind::BrokenPipe => {
            GONE.store(true, Ordering::Relaxed);
        }
        Err(problem) => {
            if !LOST.swap(true, Ordering::Relaxed) {
                error(&format!("could not write the result: {problem}"), None);
            }
        }
    }
}

/// Returns whether further output is pointless: the reader has gone away, or writing failed.
pub(crate) fn gone() -> bool {
    GONE.load(Ordering::Relaxed) || lost()
}

/// Returns whether a result could not be written.
pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes a JSON document, indented on a terminal. Raw parts stay as the server sent them.
pub(crate) fn json(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value).map(|text| harmless_json(&text))
    } else {
        serde_json::to_string(value)
    };
    match text {
        Ok(text) => result_bytes((text + "\n").as_bytes()),
        Err(problem) => error(
            &format!("could not encode the result as JSON: {problem}"),
            None,
        ),
    }
}

/// Writes a JSON document on one line.
pub(crate) fn json_line(value: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(value) {
        let text = if io::stdout().is_terminal() {
            harmless_json(&text)
        } else {
            text
        };
        result_bytes((text + "\n").as_bytes());
    }
}

/// Writes encoded JSON, escaped on a terminal.
pub(crate) fn json_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_json(text).into()
    } else {
        text.into()
    };
    result_bytes(format!("{text}\n").as_bytes());
}

/// Writes the text of a tool, escaped on a terminal.
pub(crate) fn tool_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_lines(text).into()
    } else {
        text.into()
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    result_bytes(format!("{text}{newline}").as_bytes());
}

/// Returns whether the user can be prompted.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !is_json()
}

/// Returns whether the user has been prompted.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Returns whether a prompt is open.
pub(crate) fn asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// Prompts the user. Anything but yes is no.
pub(crate) fn ask(question: &str) -> bool {
    ASKED.store(true, Ordering::Relaxed);
    let mut lines = Lines::one(inline(question)).wrapped(width(terminal_size_of(io::stderr())));
    lines.truncate(lines.trim_end().len());
    write_raw_err(&format!("{lines} [y/N] "));
    let mut answer = String::new();
    ASKING.store(true, Ordering::Relaxed);
    let read = io::stdin().read_line(&mut answer);
    ASKING.store(false, Ordering::Relaxed);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Returns whether stdout is a terminal.
pub(crate) fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether output may have colours, honouring `NO_COLOR` and `TERM`.
pub(crate) fn coloured() -> bool {
    let unwanted = std::env::var_os(env_vars::NO_COLOR).is_some_and(|value| !value.is_empty());
    let unable = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    on_terminal() && !unwanted && !unable
}

/// Writes lines to stderr, wrapped on a terminal.
fn write_err(lines: &Lines) {
    if io::stderr().is_terminal() {
        write_raw_err(&lines.wrapped(width(terminal_size_of(io::stderr()))));
    } else {
        write_raw_err(lines.as_str());
    }
}

fn write_raw_err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A line on stderr that the next one replaces. Does nothing without a terminal.
pub(crate) struct StatusLine {
    shown: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self { shown: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if io::stderr().is_terminal() && !prompt::dialog_is_open() {
            self.shown = true;
            let shown = fitting(&inline(text), width(terminal_size_of(io::stderr())));
            write_raw_err(&format!("\r\x1b[K{shown}"));
        }
    }
}

/// Returns the terminal's width without the last column, where some terminals wrap.
fn width(size: Option<(Width, Height)>) -> usize {
    size.map_or(80, |(width, _)| usize::from(width.0))
        .saturating_sub(1)
}

/// Truncates a text to a width, because a wrapped line cannot be erased.
fn fitting(text: &str, width: usize) -> String {
    let mut cells = 0;
    let fits = |c: &char| {
        cells += c.width().unwrap_or(0);
        cells <= width
    };
    text.chars().take_while(fits).collect()
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.shown {
            write_raw_err("\r\x1b[K");
        }
    }
}

/// Escapes terminal controls in each line of a text.
fn harmless_lines(text: &str) -> String {
    text.split('\n')
        .map(harmless)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes terminal controls in a JSON document, where they occur only in strings.
fn harmless_json(text: &str) -> String {
    let shown = harmless_with(text, |c, shown| {
        if c == '\n' {
            shown.push(c);
            return;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    });
    shown.into_owned()
}

#[cfg(test)]
mod tests {
    use trunkline::text::is_harmful;

    use super::*;

    #[test]
    fn terminal_controls_are_escaped_in_every_line() {
        assert_eq!(harmless_lines("a\x07\nb"), "a\\u{7}\nb");
    }

    #[test]
    fn a_status_line_is_truncated_by_width() {
        assert_eq!(fitting("abcdef", 4), "abcd");
        assert_eq!(fitting("宽字符", 5), "宽字");
        assert_eq!(fitting("e\u{301}x", 1), "e\u{301}");
    }

    #[test]
    fn escaped_json_parses_to_the_same_value() {
        let value = serde_json::json!({"a": ["\u{9b}31m\u{7f}", "\u{202e}\u{e0041}é\n"]});
        let shown = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.chars().all(|c| c == '\n' || !is_harmful(c)));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
