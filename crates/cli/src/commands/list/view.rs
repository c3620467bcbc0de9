//! The servers as a table: columns that adapt to a terminal, and plain lines for a pipe.

use std::fmt::Write as _;
use std::time::Duration;

use trunkline::server::{ServerStatus, State};
use unicode_width::UnicodeWidthStr;

use super::row::{Row, target};
use super::{Timings, count};
use crate::output::{
    self, Column, Line, Lines, Status, Stream, Style, Table, inline, name, separator,
};
use crate::standing::quoted;

/// The maximum width of the name column in a pipe. A longer name shifts only its own row.
const MAX_NAME_WIDTH: usize = 40;

/// The most lines of a server's stderr in a table.
const MAX_STDERR: usize = 2;

/// A longer explanation is below its row, so that the columns stay together on a wide terminal.
const MAX_SUMMARY: usize = 48;

/// The column of the table that explains a state.
const SUMMARY: usize = 1;

/// How much is said about each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One row, and what is wrong with it.
    Short,
    /// Also its file, name and protocol.
    Full,
}

/// How a server fares, in a few words.
struct Summary {
    status: Status,
    text: String,
    /// The text in one or two words, if there is too little room.
    short: &'static str,
    /// The same for a healthy server, which needs no second line.
    tools: Option<String>,
    style: Style,
}

/// Returns the glyph of a state by its name.
pub(crate) fn status_of(state: &str) -> Status {
    match state {
        "connected" => Status::Done,
        "pending" => Status::Busy,
        "needs-auth" | "pending-approval" => Status::Attention,
        "failed" | "blocked" => Status::Failed,
        _ => Status::Off,
    }
}

impl Summary {
    fn new(status: Status, text: impl Into<String>, short: &'static str) -> Self {
        let style = match status {
            Status::Done => Style::Plain,
            Status::Busy => Style::Dim,
            status => status.style(),
        };
        Self {
            status,
            text: text.into(),
            short,
            tools: None,
            style,
        }
    }

    fn of(row: &Row, elapsed: Duration) -> Self {
        let Some(status) = row.status() else {
            return Self::of_entry(row);
        };
        if let Some(interruption) = row.interruption() {
            return Self::new(Status::Failed, interruption, "interrupted");
        }
        match &status.state {
            State::Connected(_) => {
                let summary = Self::new(Status::Done, offers(status), "connected");
                // A server without tools is probably not what the user wants.
                let style = if status.catalog.tools().is_empty() {
                    Style::Attention
                } else {
                    Style::Plain
                };
                let tools = count(status.catalog.tools().len(), "tool");
                Self {
                    style,
                    tools: Some(tools),
                    ..summary
                }
            }
            State::Pending { attempt: 0, .. } => {
                let text = format!("not started, {}", offers(status));
                Self::new(Status::Off, text, "not started")
            }
            State::Pending {
                last_failure: Some(failure),
                ..
            } => Self::new(
                Status::Busy,
                format!("retrying: {}", inline(&failure.to_string())),
                "retrying",
            ),
            State::Pending { .. } => {
                let text = match elapsed.as_secs() {
                    0 => "starting".to_owned(),
                    seconds => format!("starting, {seconds} s"),
                };
                Self::new(Status::Busy, text, "starting")
            }
            State::NeedsAuth(_) => Self::new(Status::Attention, "needs sign-in", "needs sign-in"),
            State::Failed(failure) => {
                Self::new(Status::Failed, inline(&failure.to_string()), "failed")
            }
            _ => Self::new(Status::Off, "off", "off"),
        }
    }

    /// Describes a server that may not run.
    fn of_entry(row: &Row) -> Self {
        let reason = row.reason().map(|(reason, _)| inline(&reason));
        let (status, short) = match row.state() {
            "pending-approval" => (Status::Attention, "needs approval"),
            "rejected" => (Status::Off, "rejected"),
            "suppressed" => (Status::Off, "duplicate"),
            "shadowed" => (Status::Off, "shadowed"),
            "disabled" => return Self::new(Status::Off, "off", "off"),
            "blocked" => (Status::Failed, "blocked"),
            _ => (Status::Failed, "failed"),
        };
        let text = match row.state() {
            "pending-approval" | "rejected" => short.to_owned(),
            _ => reason.unwrap_or_else(|| short.to_owned()),
        };
        Self::new(status, text, short)
    }

    fn line(&self) -> Line {
        Line::of(self.style, &self.text)
    }

    /// Returns the short text, and the whole one for the line below.
    fn shortened(&self) -> (Line, Lines) {
        if let Some(tools) = &self.tools {
            return (Line::of(self.style, tools), Lines::new());
        }
        let whole = Line::plain("    ").and(self.style, &self.text).hang(4);
        (Line::of(self.style, self.short), whole.into())
    }
}

/// Returns whether a server failed or waits for the user.
pub(super) fn needs_care(row: &Row) -> bool {
    let summary = Summary::of(row, Duration::ZERO);
    matches!(summary.status, Status::Failed | Status::Attention) || summary.short == "retrying"
}

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
    put("scope", row.scope().unwrap_or("-"));
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

/// Counts what a server offers.
fn offers(status: &ServerStatus) -> String {
    let catalog = &status.catalog;
    let mut text = count(catalog.tools().len(), "tool");
    for (number, what) in [
        (catalog.prompts.len(), "prompt"),
        (catalog.resources.len(), "resource"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {}", count(number, what));
        }
    }
    if catalog.cached {
        text += " (cached)";
    }
    text
}

/// Returns the command that mends a state.
fn cure(row: &Row, summary: &Summary) -> Option<String> {
    let hint = row.hint();
    let command = hint.as_deref().and_then(command_in);
    match (command, summary.status) {
        (Some(command), _) => Some(command.to_owned()),
        (None, Status::Failed) if row.status().is_some() => {
            Some(format!("trunkline doctor {}", quoted(row.name())))
        }
        _ => None,
    }
}

/// Returns the only command in a hint.
fn command_in(hint: &str) -> Option<&str> {
    let mut parts = hint.split('`').skip(1).step_by(2);
    let command = parts.next().filter(|part| part.starts_with("trunkline "))?;
    parts.next().is_none().then_some(command)
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

fn on_screen(rows: &[Row], elapsed: Duration, timings: Option<&Timings>, width: usize) -> Lines {
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
        let scope = row.scope().unwrap_or("-");
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
            Line::of(Style::Literal, cure.as_deref().unwrap_or_default()),
        ]);
        if is_long {
            placed.below(whole);
        } else {
            placed.or_short(SUMMARY, short, whole);
        }
        placed.below(below(row, cure.is_some()));
        if let Some(timings) = timings {
            placed.below(more(row, timings));
        }
    }
    table.lines(Some(width))
}

/// Returns what else there is to know about a server on a terminal.
fn below(row: &Row, has_cure: bool) -> Lines {
    let dim = |text: &str| Line::plain("    ").and(Style::Dim, text).hang(4);
    let mut lines = Lines::new();
    if let Some(signed_in) = row.signed_in() {
        lines.push_line(dim(&signed_in));
    }
    for change in row.changes() {
        lines.push_line(dim(&change));
    }
    let failure = row.status().and_then(|status| status.state.failure());
    let stderr = failure
        .map(|failure| &failure.stderr[..])
        .unwrap_or_default();
    let is_explained = has_cure && failure.is_none();
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

fn milliseconds(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

/// Counts the servers by state, with the time at the right margin.
fn footer(rows: &[Row], elapsed: Duration, width: usize) -> Line {
    const ORDER: [(&str, &str); 9] = [
        ("connected", "connected"),
        ("starting", "starting"),
        ("retrying", "retrying"),
        ("needs sign-in", "needs sign-in"),
        ("needs approval", "needs approval"),
        ("failed", "failed"),
        ("blocked", "blocked"),
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
        if let Some(first) = of_it.clone().next() {
            add(count, word, first.status);
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

/// Formats the servers for a pipe: one row each, with details below.
pub(crate) fn table(rows: &[Row], detail: Detail) -> Lines {
    if rows.is_empty() {
        return "no servers are configured; add one with `trunkline add`, import those of another client with \
                `trunkline import`, or try `trunkline demo`"
            .into();
    }
    let mut lines = Lines::new();
    for (row, line) in rows.iter().zip(plain_rows(rows, detail)) {
        lines.push(line);
        lines.append(details(row, detail));
    }
    lines
}

/// As [`table`], with the file, command, protocol and timing of each server.
pub(super) fn table_with(rows: &[Row], timings: Option<&Timings>) -> Lines {
    let mut lines = Lines::new();
    for (row, line) in rows.iter().zip(plain_rows(rows, Detail::Full)) {
        lines.push(line);
        lines.append(details(row, Detail::Full));
        let failed = row.status().and_then(|status| status.state.failure());
        if let (None, Some((field, value))) = (failed, row.server.and_then(target)) {
            lines.push(format!("  {field}: {value}"));
        }
        if let Some(took) = timings.and_then(|timings| timings.get(row.name())) {
            lines.push(format!("  time: {}", milliseconds(*took)));
        }
    }
    lines
}

fn plain_rows(rows: &[Row], detail: Detail) -> Vec<String> {
    let names: Vec<_> = rows.iter().map(|row| name(row.name())).collect();
    let widths = names.iter().map(|name| name.width());
    let width = widths.max().unwrap_or(0).min(MAX_NAME_WIDTH);
    let lengths = rows.iter().map(|row| row.state().len());
    let state_width = lengths.max().unwrap_or(0);
    rows.iter()
        .zip(names)
        .map(|(row, name)| {
            let padding = width.saturating_sub(name.width());
            let status = row.status().map(|status| status_text(status, detail));
            format!(
                "{name}{:padding$}  {:<state_width$}  {:<10}  {:<10}{}",
                "",
                row.state(),
                row.scope()
                    .unwrap_or(if row.is_invalid() { "-" } else { "program" }),
                row.transport(),
                status.unwrap_or_default(),
            )
        })
        .collect()
}

/// Formats the catalog and version of a server that runs or has a cached catalog.
fn status_text(status: &ServerStatus, detail: Detail) -> String {
    let mut text = String::new();
    if matches!(status.state, State::Connected(_)) || status.catalog.cached {
        let _ = write!(text, "  {}", offers(status));
    }
    if let (State::Connected(connected), Detail::Full) = (&status.state, detail) {
        let identity = connected.identity();
        if let Some(info) = &identity.info {
            let (name, version) = (name(&info.name), name(&info.version));
            let _ = write!(text, "  ({name} {version})");
        }
        let _ = write!(text, "  {}", identity.protocol_version);
    }
    text
}

/// Formats the lines below a row in a pipe.
fn details(row: &Row, detail: Detail) -> Lines {
    let mut lines = Lines::new();
    if let Some(signed_in) = row.signed_in() {
        lines.push(format!("  {signed_in}"));
    }
    let problems = row.problems();
    // A file matters where something has to be changed.
    if (detail == Detail::Full || !problems.is_empty())
        && let Some(source) = row.source()
    {
        lines.push(format!("  from {source}"));
    }
    if let Some(server) = row.server {
        for place in &server.shadows {
            lines.push(format!("  shadows {place}"));
        }
    }
    lines.append(problems);
    lines
}
