//! One line per server while the checks run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::report::StepName;
use crate::output::{self, Line, Lines, Live, Status, Stream, Style};

/// The rows on stdout, where the report takes their place; none without a terminal. Clones share
/// them.
#[derive(Clone)]
pub(super) struct Progress(Option<Arc<Mutex<Rows>>>);

struct Rows {
    screen: Live,
    /// The step that each server is at.
    steps: BTreeMap<String, StepName>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let is_wanted = output::is_animated(Stream::Out) && !output::is_json();
        let rows = || Rows {
            screen: Live::new(),
            steps: BTreeMap::new(),
        };
        Self(is_wanted.then(|| Arc::new(Mutex::new(rows()))))
    }

    /// Shows the step that a server is at.
    pub(super) fn show(&self, server: &str, step: StepName) {
        self.change(|steps| {
            steps.insert(server.to_owned(), step);
        });
    }

    /// Removes the line of a server.
    pub(super) fn finish(&self, server: &str) {
        self.change(|steps| {
            steps.remove(server);
        });
    }

    /// Removes all lines.
    pub(super) fn clear(&self) {
        self.change(BTreeMap::clear);
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, StepName>)) {
        let Some(rows) = &self.0 else {
            return;
        };
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut rows.steps);
        let mut lines = Lines::new();
        // Rows above the screen could not be redrawn.
        let most = output::height(Stream::Out).unwrap_or(24).saturating_sub(2);
        for (server, step) in rows.steps.iter().take(most) {
            let line = Line::status(Status::Busy).and(Style::Name, output::name(server));
            lines.push_line(line.and(Style::Dim, format_args!("  {}", step.text())));
        }
        rows.screen.draw(&lines);
    }
}
