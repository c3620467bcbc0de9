//! One line per server while the checks run.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::report::StepName;
use crate::output;

/// How often a line moves.
const TICK: Duration = Duration::from_millis(120);

/// The lines on stderr; none without a terminal. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Progress(Option<Arc<Shown>>);

struct Shown {
    all: MultiProgress,
    lines: Mutex<HashMap<String, ProgressBar>>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let is_wanted = std::io::stderr().is_terminal()
            && !output::is_json()
            && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
        Self(is_wanted.then(|| {
            Arc::new(Shown {
                all: MultiProgress::new(),
                lines: Mutex::default(),
            })
        }))
    }

    /// Shows the step that a server is at.
    pub(super) fn show(&self, server: &str, step: StepName) {
        let Some(shown) = &self.0 else {
            return;
        };
        let mut lines = shown.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(server.to_owned()).or_insert_with(|| {
            let line = shown.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}  {msg}") {
                line.set_style(style);
            }
            line.set_prefix(output::name(server));
            line.enable_steady_tick(TICK);
            line
        });
        line.set_message(step.text());
    }

    /// Removes the line of a server.
    pub(super) fn finish(&self, server: &str) {
        let Some(shown) = &self.0 else {
            return;
        };
        let mut lines = shown.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.remove(server) {
            line.finish_and_clear();
        }
    }

    /// Removes all lines.
    pub(super) fn clear(&self) {
        if let Some(shown) = &self.0 {
            let mut lines = shown.lines.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, line) in lines.drain() {
                line.finish_and_clear();
            }
            let _ = shown.all.clear();
        }
    }
}
