//! The only place that prints. Results go to standard output, everything else to standard error, and text that a server
//! controls is made harmless for a terminal on the way (SEC-3).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
pub(crate) use trunkline::harmless;
use trunkline::harmless_with;
use trunkline_config::env_vars;
use unicode_width::UnicodeWidthChar;

/// Whether a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether nobody reads results any more.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether a person was asked something, and whether the answer is still to come.
static ASKED: AtomicBool = AtomicBool::new(false);
static ASKING: AtomicBool = AtomicBool::new(false);

/// Writes a result. A reader that has gone away (`| head`) is no error; a full disk is one, see [`lost`].
pub(crate) fn result(text: &str) {
    result_bytes(text.as_bytes());
}

/// As [`result`], for what is not text.
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
        Ok(text) => result(&(text + "\n")),
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
        result(&(text + "\n"));
    }
}

/// Writes a JSON document that is text already: as it is into a pipe or file, made harmless on a terminal.
pub(crate) fn json_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_json(text).into()
    } else {
        text.into()
    };
    result(&format!("{text}\n"));
}

/// Writes what a tool gave back: as it is into a pipe or file, made harmless on a terminal.
pub(crate) fn tool_text(text: &str) {
    let text: Cow<str> = if io::stdout().is_terminal() {
        harmless_lines(text).into()
    } else {
        text.into()
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    result(&format!("{text}{newline}"));
}

/// Writes an error with what to do about it.
pub(crate) fn error(what: &str, hint: Option<&str>) {
    let mut text = format!("error: {}\n", harmless_lines(what));
    if let Some(hint) = hint {
        let _ = writeln!(text, "  hint: {}", harmless_lines(hint));
    }
    note(&text);
}

/// Writes a warning.
pub(crate) fn warning(what: &str) {
    note(&format!("warning: {}\n", harmless_lines(what)));
}

/// Whether there is a person who can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
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
    note(&format!("{} [y/N] ", harmless_lines(question)));
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

/// Writes a server's last words below an error.
pub(crate) fn stderr_lines(lines: &[String]) {
    note(&indented_stderr(lines, "  "));
}

/// A server's last words as they are shown below its failure.
pub(crate) fn indented_stderr(lines: &[String], indent: &str) -> String {
    let mut text = String::new();
    if !lines.is_empty() {
        let _ = writeln!(text, "{indent}its last lines on stderr:");
    }
    for line in lines {
        let _ = writeln!(text, "{indent}  | {}", harmless(line));
    }
    text
}

/// Writes to standard error.
pub(crate) fn note(text: &str) {
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
            note(&format!("\r\x1b[K{}", fitting(&harmless(text), width())));
        }
    }
}

/// How wide the terminal is, less the last column, where some begin a new line.
fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
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
            note("\r\x1b[K");
        }
    }
}

/// A text of several lines, with everything in it that could steer a terminal shown instead of sent.
pub(crate) fn harmless_lines(text: &str) -> String {
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
    use trunkline::is_harmful;

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
