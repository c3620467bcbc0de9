//! The only module that prints. Results go to stdout, everything else to stderr. Foreign text is
//! escaped for a terminal (SEC-3); see [`Lines`].

mod group;
mod image;
mod json_view;
mod line;
mod lines;
mod live;
mod markdown;
mod pager;
mod prompt;
mod rendered;
mod report;
mod style;
mod table;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};
pub(crate) use trunkline::text::harmless;
use trunkline::text::harmless_with;

pub(crate) use group::Group;
pub(crate) use image::show_image;
pub(crate) use line::Line;
pub(crate) use lines::{Lines, inline, name};
pub(crate) use live::{Live, StatusLine, hold_status_lines, is_animated, is_ci, use_verbose};
pub(crate) use pager::{paged, paged_or_folded, use_no_pager};
pub(crate) use prompt::{
    Dialog, Prompted, StopOnDrop, StopSignal, Stopped, TextPrompt, is_possible as can_prompt,
};
pub(crate) use rendered::{TextKind, foreign};
pub(crate) use report::{
    block, error, finish, hint, indented_stderr, instruction, is_json, json_diff, note,
    stderr_lines, url, usage_error, use_json, warning,
};
pub(crate) use style::{ColorWhen, Status, Stream, Style, decide_colours, is_utf8, separator};
pub(crate) use table::{Column, Table};

/// The length of the text that is escaped at once, in bytes.
const ESCAPED_AT_ONCE: usize = 64 * 1024;

/// Whether a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether the reader of stdout has gone away.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether the user has been prompted, and whether a prompt is open.
static ASKED: AtomicBool = AtomicBool::new(false);
static ASKING: AtomicBool = AtomicBool::new(false);

/// Writes lines to stdout, wrapped on a terminal.
pub(crate) fn result(lines: impl Into<Lines>) {
    let text = lines
        .into()
        .render(width(Stream::Out), Stream::Out.is_coloured());
    result_bytes(text.as_bytes());
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
    if io::stdout().is_terminal() {
        // Escapes may be many times as long as the text, so it is not escaped as a whole.
        let mut rest = text;
        while !rest.is_empty() && !gone() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(ESCAPED_AT_ONCE));
            result_bytes(harmless_lines(part).as_bytes());
            rest = after;
        }
    } else {
        result_bytes(text.as_bytes());
    }
    if !text.ends_with('\n') {
        result_bytes(b"\n");
    }
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
    let _hold = hold_status_lines();
    let lines = Lines::one(inline(question));
    let mut lines = lines.render(width(Stream::Err), Stream::Err.is_coloured());
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

/// Writes lines to stderr, wrapped on a terminal.
fn write_err(lines: &Lines) {
    live::erase_status_line();
    write_raw_err(&lines.render(width(Stream::Err), Stream::Err.is_coloured()));
}

fn write_raw_err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Returns the width of a terminal, without the last column, where some terminals wrap; `None` for
/// a pipe or file.
pub(crate) fn width(stream: Stream) -> Option<usize> {
    let columns = size(stream).map_or(80, |(Width(columns), _)| usize::from(columns));
    stream.is_terminal().then(|| columns.saturating_sub(1))
}

/// Returns the height of a terminal, if it is known.
pub(crate) fn height(stream: Stream) -> Option<usize> {
    let (_, Height(rows)) = size(stream)?;
    stream.is_terminal().then(|| usize::from(rows))
}

fn size(stream: Stream) -> Option<(Width, Height)> {
    match stream {
        Stream::Out => terminal_size_of(io::stdout()),
        Stream::Err => terminal_size_of(io::stderr()),
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
