//! The servers on a terminal: columns that adapt to its width.

use std::time::Duration;

use trunkline::server::State;
use unicode_width::UnicodeWidthStr;

use super::Timings;
use super::plain::{Detail, table};
use super::row::{Row, target};
use super::summary::{Summary, cure};
use crate::output::{self, Column, Line, Lines, Status, Stream, Style, Table, name, separator};
use crate::standing::known_cause;

/// The most lines of a server's stderr in a table.
const MAX_STDERR: usize = 2;

/// A longer explanation is below its row, so that the columns stay together on a wide terminal.
const MAX_SUMMARY: usize = 48;

/// A longer command is below its row, in one piece.
const MAX_CURE: usize = 36;

/// The column of the table that explains a state.
const SUMMARY: usize = 1;

/// Formats one server on a terminal: its state, what it is, and its problems.
pub(crate) fn card(row: &Row) -> Lines {
    let summary = Summary::of(row, Duration::ZERO);
    let mut heading = Line::status(summary.status).and(Style::Name, name(row.name()));
    // The problems below say why.
    let problems = row.problems_alone();
    let text = match &summary.tools {
        None if !problems.is_empty() => summary.short,
        _ => &summary.text,
    };
    heading.push(summary.style, format_args!("  {text}"));
    let mut lines = Lines::from(heading.hang(4));
    let mut put = |field: &str, value: &str| {
        let line = Line::plain("  ").and(Style::Dim, format_args!("{field}:"));
        lines.push_line(line.and(Style::Plain, format_args!(" {value}")));
    };
    put("transport", row.transport());
    put("scope", row.scope_or_none());
    if let Some(source) = row.source() {
        put("from", source);
    }
    if let Some(server) = row.server {
        for place in &server.shadows {
            put("shadows", &place.to_string());
        }
    }
    if let Some(State::Connected(connected)) = row.status().map(|status| &status.state) {
        let identity = connected.identity();
        if let Some(info) = &identity.info {
            put(
                "server",
                &format!("{} {}", name(&info.name), name(&info.version)),
            );
        }
        put("protocol", &identity.protocol_version);
    }
    if let Some(signed_in) = row.signed_in() {
        lines.push_line(Line::plain("  ").and(Style::Plain, signed_in));
    }
    lines.append(problems);
    lines
}

/// Formats servers for a terminal or a pipe.
pub(crate) fn overview(rows: &[Row]) -> Lines {
    match output::width(Stream::Out) {
        Some(width) => on_screen(rows, Duration::ZERO, None, width),
        None => table(rows, Detail::Full),
    }
}

/// Lays the servers out for a terminal, with a summary below.
pub(super) fn screen(
    rows: &[Row],
    elapsed: Duration,
    timings: Option<&Timings>,
    width: usize,
) -> Lines {
    let mut lines = on_screen(rows, elapsed, timings, width);
    lines.push_line(footer(rows, elapsed, width));
    lines
}

/// As [`screen`], with only the servers that are still starting.
pub(super) fn unsettled(rows: &[Row], elapsed: Duration, width: usize) -> Lines {
    let is_busy = |row: &&Row| Summary::of(row, elapsed).status == Status::Busy;
    let mut lines = on_screen(rows.iter().filter(is_busy), elapsed, None, width);
    lines.push_line(footer(rows, elapsed, width));
    lines
}

fn on_screen<'r>(
    rows: impl IntoIterator<Item = &'r Row<'r>>,
    elapsed: Duration,
    timings: Option<&Timings>,
    width: usize,
) -> Lines {
    let mut table = Table::new([
        Column::Keep,
        Column::Flexible,
        Column::Keep,
        Column::Keep,
        Column::Keep,
    ]);
    for row in rows {
        let summary = Summary::of(row, elapsed);
        let cure = cure(row, &summary);
        let scope = row.scope_or_none();
        let is_short = |cure: &&str| cure.width() <= MAX_CURE;
        let beside = cure.as_deref().filter(is_short);
        let (short, whole) = summary.shortened();
        let is_long = summary.text.width() > MAX_SUMMARY;
        let placed = table.row([
            Line::status(summary.status).and(Style::Name, name(row.name())),
            if is_long {
                short.clone()
            } else {
                summary.line()
            },
            Line::of(Style::Dim, row.transport()),
            Line::of(Style::Dim, scope),
            Line::of(Style::Literal, beside.unwrap_or_default()),
        ]);
        if is_long {
            placed.below(whole);
        } else {
            placed.or_short(SUMMARY, short, whole);
        }
        if let (Some(cure), None) = (&cure, beside) {
            placed.below(Line::plain("    ").and(Style::Literal, cure).hang(4));
        }
        let is_whole = timings.is_some();
        placed.below(below(row, cure.is_some(), is_whole));
        if let Some(timings) = timings {
            placed.below(more(row, timings));
        }
    }
    table.lines(Some(width))
}

/// Returns what else there is to know about a server on a terminal. What its process printed is
/// left out where the cause is known, unless the `whole` story is asked for.
fn below(row: &Row, has_cure: bool, whole: bool) -> Lines {
    let dim = |text: &str| Line::plain("    ").and(Style::Dim, text).hang(4);
    let mut lines = Lines::new();
    if let Some(signed_in) = row.signed_in() {
        lines.push_line(dim(&signed_in));
    }
    for change in row.changes() {
        lines.push_line(dim(&change));
    }
    let failure = row.status().and_then(|status| status.state.failure());
    let mut stderr = failure
        .map(|failure| &failure.stderr[..])
        .unwrap_or_default();
    let is_known = row.status().and_then(known_cause).is_some();
    let is_explained = has_cure && (failure.is_none() || is_known);
    if is_known && !whole {
        stderr = &[];
    }
    if stderr.is_empty()
        && !is_explained
        && let Some(hint) = row.hint()
    {
        lines.push_hint("    ", &hint);
    }
    for line in &stderr[stderr.len().saturating_sub(MAX_STDERR)..] {
        lines.push_block("    ", line);
    }
    lines
}

/// Returns the file, command, protocol and timing of a server.
fn more(row: &Row, timings: &Timings) -> Lines {
    let mut lines = Lines::new();
    let mut put = |field: &str, value: &str| {
        let line = Line::plain("    ").and(Style::Dim, format_args!("{field:<9}"));
        lines.push_line(line.and(Style::Plain, value).hang(13));
    };
    if let Some(source) = row.source() {
        put("file", source);
    }
    for place in row
        .server
        .map(|server| &server.shadows[..])
        .unwrap_or_default()
    {
        put("shadows", &place.to_string());
    }
    if let Some((field, value)) = row.server.and_then(target) {
        put(field, &value);
    }
    if let Some(State::Connected(connected)) = row.status().map(|status| &status.state) {
        let identity = connected.identity();
        if let Some(info) = &identity.info {
            put(
                "server",
                &format!("{} {}", name(&info.name), name(&info.version)),
            );
        }
        put("protocol", &identity.protocol_version);
    }
    if let Some(took) = timings.get(row.name()) {
        put("time", &milliseconds(*took));
    }
    lines
}

/// Formats a duration in seconds.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

/// Counts the servers by state, with the time at the right margin.
fn footer(rows: &[Row], elapsed: Duration, width: usize) -> Line {
    const ORDER: [(&str, &str); 10] = [
        ("connected", "connected"),
        ("starting", "starting"),
        ("retrying", "retrying"),
        ("needs sign-in", "needs sign-in"),
        ("needs approval", "needs approval"),
        ("failed", "failed"),
        ("blocked", "blocked"),
        ("interrupted", "interrupted"),
        ("not started", "not started"),
        ("off", "off"),
    ];
    let summaries: Vec<Summary> = rows.iter().map(|row| Summary::of(row, elapsed)).collect();
    let mut line = Line::new();
    let mut add = |count: usize, what: &str, status: Status| {
        if !line.is_empty() {
            line.push(Style::Dim, separator());
        }
        line.push(status.style(), format_args!("{count} {what}"));
    };
    for (short, word) in ORDER {
        let of_it = summaries.iter().filter(|summary| summary.short == short);
        let count = of_it.clone().count();
        let word = if count == 1 {
            word.to_owned()
        } else {
            word.replace("needs", "need")
        };
        if let Some(first) = of_it.clone().next() {
            add(count, &word, first.status);
        }
    }
    let is_other = |summary: &&Summary| !ORDER.iter().any(|(short, _)| *short == summary.short);
    let others = summaries.iter().filter(is_other).count();
    if others > 0 {
        add(others, "not used", Status::Off);
    }
    let time = seconds(elapsed);
    line.pad(
        width
            .saturating_sub(time.width())
            .min(78)
            .max(line.width() + 2),
    );
    line.and(Style::Dim, time)
}
