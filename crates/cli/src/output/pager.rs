//! Shows output that is longer than the screen in a pager.

use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use trunkline_config::env_vars;

use super::line::Line;
use super::lines::Lines;
use super::style::{Stream, Style, ellipsis};
use super::{height, is_json, result_bytes, width};
use crate::program;

/// The pager without a variable.
const DEFAULT_PAGER: &str = "less";

/// Quit if it fits, show colours, leave the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// The fewest rows that remain of a folded text.
const MIN_FOLDED: usize = 5;

static UNWANTED: AtomicBool = AtomicBool::new(false);

/// Switches the pager off.
pub(crate) fn use_no_pager() {
    UNWANTED.store(true, Ordering::Relaxed);
}

/// Writes lines to stdout, through a pager if a terminal has too few rows for them.
pub(crate) fn paged(lines: impl Into<Lines>) {
    let lines = lines.into();
    let text = lines.render(width(Stream::Out), Stream::Out.is_coloured());
    if !is_long(&lines) || !page(&text) {
        result_bytes(text.as_bytes());
    }
}

/// As [`paged`]; without a pager, shows what fits on the screen and how to see the rest.
pub(crate) fn paged_or_folded(lines: impl Into<Lines>, how: &str) {
    let lines = lines.into();
    let coloured = Stream::Out.is_coloured();
    let width = width(Stream::Out);
    let rows = lines.rows(width);
    let room = height(Stream::Out)
        .unwrap_or(0)
        .saturating_sub(3)
        .max(MIN_FOLDED);
    let text = lines.render(width, coloured);
    if !is_long(&lines) || rows.len() <= room {
        return result_bytes(text.as_bytes());
    }
    if page(&text) {
        return;
    }
    let mut shown = Lines::new();
    let more = rows.len() - room;
    for row in rows.into_iter().take(room) {
        shown.push_line(row);
    }
    let more = format!("{} {more} more lines; {how}", ellipsis());
    shown.push_line(Line::of(Style::Dim, more));
    result_bytes(shown.render(None, coloured).as_bytes());
}

/// Returns whether lines take more rows than the terminal has.
fn is_long(lines: &Lines) -> bool {
    let (Some(height), Some(width)) = (height(Stream::Out), width(Stream::Out)) else {
        return false;
    };
    let rows = lines.rows(Some(width));
    let of = |row: &Line| row.width().div_ceil(width.max(1)).max(1);
    // The prompt of the shell takes a row.
    rows.iter().map(of).sum::<usize>() + 1 > height
}

/// Shows a text in the pager; false if there is none.
fn page(text: &str) -> bool {
    let Some(command) = command() else {
        return false;
    };
    let mut shell = program::command("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", LESS_OPTIONS);
    }
    let Ok(mut pager) = shell.spawn() else {
        return false;
    };
    if let Some(mut input) = pager.stdin.take() {
        // A pager that is left early closes its end.
        let _ = input.write_all(text.as_bytes());
    }
    // The shell's code for a program that does not exist.
    pager.wait().is_ok_and(|status| status.code() != Some(127))
}

/// Returns the command of the pager, unless none is wanted.
fn command() -> Option<String> {
    if UNWANTED.load(Ordering::Relaxed) || is_json() || !Stream::Out.is_terminal() {
        return None;
    }
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let set = |name: &str| std::env::var(name).ok();
    let command = set(env_vars::TRUNKLINE_PAGER)
        .or_else(|| set(env_vars::PAGER))
        .unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let is_wanted = !dumb && !command.trim().is_empty() && command.trim() != "cat";
    is_wanted.then_some(command)
}
