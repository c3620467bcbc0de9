//! How a server fares, in a few words, and the command that mends it.

use std::fmt::Write as _;
use std::time::Duration;

use trunkline::server::{Catalog, ServerStatus, State};

use super::count;
use super::row::Row;
use crate::output::{Line, Lines, Status, Style, inline};
use crate::standing::{known_cause, last_word};

/// How a server fares, in a few words.
pub(super) struct Summary {
    pub(super) status: Status,
    pub(super) text: String,
    /// The text in one or two words, if there is too little room.
    pub(super) short: &'static str,
    /// The same for a healthy server, which needs no second line.
    pub(super) tools: Option<String>,
    pub(super) style: Style,
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

    pub(super) fn of(row: &Row, elapsed: Duration) -> Self {
        let Some(status) = row.status() else {
            return Self::of_entry(row);
        };
        if let Some(interruption) = row.interruption() {
            return Self::new(Status::Off, interruption, "interrupted");
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
            } => {
                let why = known_cause(status).unwrap_or_else(|| failure.to_string());
                let text = format!("retrying: {}", inline(&why));
                Self::new(Status::Busy, text, "retrying")
            }
            State::Pending { .. } => {
                let text = match elapsed.as_secs() {
                    0 => "starting".to_owned(),
                    seconds => format!("starting, {seconds} s"),
                };
                Self::new(Status::Busy, text, "starting")
            }
            State::NeedsAuth(_) => Self::new(Status::Attention, "needs sign-in", "needs sign-in"),
            State::Failed(failure) => {
                let why = known_cause(status).unwrap_or_else(|| failure.to_string());
                Self::new(Status::Failed, inline(&why), "failed")
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

    pub(super) fn line(&self) -> Line {
        Line::of(self.style, &self.text)
    }

    /// Returns the short text, and the whole one for the line below.
    pub(super) fn shortened(&self) -> (Line, Lines) {
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

/// Counts resources and templates, which `trunkline resources` lists together.
pub(crate) fn resource_count(catalog: &Catalog) -> usize {
    catalog.resources.len() + catalog.templates.len()
}

/// Counts what a server offers.
pub(super) fn offers(status: &ServerStatus) -> String {
    let catalog = &status.catalog;
    let mut text = count(catalog.tools().len(), "tool");
    for (number, what) in [
        (catalog.prompts.len(), "prompt"),
        (resource_count(catalog), "resource"),
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
pub(super) fn cure(row: &Row, summary: &Summary) -> Option<String> {
    let hint = row.hint();
    let command = hint.as_deref().and_then(command_in);
    match (command, summary.status) {
        (Some(command), _) => Some(command.to_owned()),
        // Only what is configured can be examined.
        (None, Status::Failed) if row.server.is_some() && row.status().is_some() => {
            Some(format!("trunkline doctor {}", last_word(row.name())))
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
