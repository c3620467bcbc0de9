//! The only place that prints. Results go to standard output, everything else to standard error, and text that a server
//! controls is made harmless for a terminal on the way (SEC-3): see [`Lines`].

mod lines;
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
pub(crate) use report::{
    block, error, finish, hint, indented_stderr, is_json, note, stderr_lines, usage_error,
    use_json, warning,
};

/// Whether a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether nobody reads results any more.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether a person was asked something, and whether the answer is still to come.
static ASKED: AtomicBool = AtomicBool::new(false);
static ASKING: AtomicBool = AtomicBool::new(false);

/// Writes a result of our own, wrapped on a terminal.
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

/// Writes a result as it is. A reader that has gone away (`| head`) is no error; a full disk is one, see [`lost`].
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
                error(&format!("the result could not be written: {problem}"), None);
            }
        }
    }
}

/// Whether there is no point in writing more results: the reader has gone away, or there is no room.
pub(crate) fn gone() -> bool {
    GONE.load(Ordering::Relaxed) || lost()
}

/// Whether a result was lost on its way out.
pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes a JSON document, indented on a terminal. Raw parts of it stay as a server wrote them.
pub(crate) fn json(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value).map(|text| harmless_json(&text))
    } else {
        serde_json::to_string(value)
    };
    match text {
        Ok(text) => result_bytes((text + "\n").as_bytes()),
        Err(problem) => error(
            &format!("the result cannot be written as JSON: {problem}"),
            None,
        ),
    }
}

/// Writes one JSON document on one line.
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

/// Writes a JSON document that is text already: as it is into a pipe or file, made harmless on a terminal.
pub(crate) fn json_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_json(text).into()
    } else {
        text.into()
    };
    result_bytes(format!("{text}\n").as_bytes());
}

/// Writes what a tool gave back: as it is into a pipe or file, made harmless on a terminal.
pub(crate) fn tool_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_lines(text).into()
    } else {
        text.into()
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    result_bytes(format!("{text}{newline}").as_bytes());
}

/// Whether there is a person who can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !is_json()
}

/// Whether a person was asked something in this run.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Whether a person is being asked something.
pub(crate) fn asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// Asks a person; anything but yes is no.
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

/// Whether results go to a terminal.
pub(crate) fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether results may be coloured: on a terminal that can, unless the user wants none.
pub(crate) fn coloured() -> bool {
    let unwanted = std::env::var_os(env_vars::NO_COLOR).is_some_and(|value| !value.is_empty());
    let unable = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    on_terminal() && !unwanted && !unable
}

/// Writes lines to standard error, wrapped on a terminal.
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

/// A line on a terminal's standard error that the next one replaces; nothing where there is no terminal.
pub(crate) struct StatusLine {
    shown: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self { shown: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            self.shown = true;
            let shown = fitting(&inline(text), width(terminal_size_of(io::stderr())));
            write_raw_err(&format!("\r\x1b[K{shown}"));
        }
    }
}

/// How wide the terminal is, less the last column, where some begin a new line.
fn width(size: Option<(Width, Height)>) -> usize {
    size.map_or(80, |(width, _)| usize::from(width.0))
        .saturating_sub(1)
}

/// As much of the text as fits: a line that wraps could not be taken back whole.
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

/// A text of several lines, with everything in it that could steer a terminal shown instead of sent.
fn harmless_lines(text: &str) -> String {
    text.split('\n')
        .map(harmless)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A JSON document that says the same, with what could steer a terminal written as escapes. Such characters stand only
/// inside strings.
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
    fn what_could_steer_a_terminal_is_shown_instead_in_every_line() {
        assert_eq!(harmless_lines("a\x07\nb"), "a\\u{7}\nb");
    }

    #[test]
    fn a_status_line_is_cut_by_the_cells_it_takes() {
        assert_eq!(fitting("abcdef", 4), "abcd");
        assert_eq!(fitting("宽字符", 5), "宽字");
        assert_eq!(fitting("e\u{301}x", 1), "e\u{301}");
    }

    #[test]
    fn json_for_a_terminal_says_the_same_without_steering_it() {
        let value = serde_json::json!({"a": ["\u{9b}31m\u{7f}", "\u{202e}\u{e0041}é\n"]});
        let shown = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.chars().all(|c| c == '\n' || !is_harmful(c)));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
