//! The servers for a pipe: one row each, with what is wrong below.

use std::fmt::Write as _;

use trunkline::server::{ServerStatus, State};
use unicode_width::UnicodeWidthStr;

use super::Timings;
use super::row::{Row, target};
use super::summary::offers;
use super::view::milliseconds;
use crate::output::{Lines, name};

/// The maximum width of the name column in a pipe. A longer name shifts only its own row.
const MAX_NAME_WIDTH: usize = 40;

/// How much is said about each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One row, and what is wrong with it.
    Short,
    /// Also its file, name and protocol.
    Full,
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
    let lengths = rows.iter().map(|row| row.shown_state().len());
    let state_width = lengths.max().unwrap_or(0);
    rows.iter()
        .zip(names)
        .map(|(row, name)| {
            let padding = width.saturating_sub(name.width());
            let status = row.status().map(|status| status_text(status, detail));
            format!(
                "{name}{:padding$}  {:<state_width$}  {:<10}  {:<10}{}",
                "",
                row.shown_state(),
                row.scope_or_none(),
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
