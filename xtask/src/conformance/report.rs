//! Prints the table and compares it with the baseline.

use anyhow::{Result, bail};

use super::baseline_path;
use super::scenario::Verdict;
use super::suite::Name;

/// The maximum number of failed checks in a row of the table.
const NAMED: usize = 4;

/// The number of client output lines printed for a failed scenario.
const LAST_WORDS: usize = 12;

/// A scenario and its result.
pub(super) struct Row {
    pub(super) name: Name,
    /// Why it is expected to fail.
    pub(super) reason: Option<String>,
    pub(super) verdict: Verdict,
}

/// The results of all scenarios.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pass,
    ExpectedFail,
    Fail,
    UnexpectedPass,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::ExpectedFail => "expected-fail",
            Self::Fail => "FAIL",
            Self::UnexpectedPass => "PASS, LISTED",
        }
    }
}

impl Row {
    fn outcome(&self) -> Outcome {
        match (self.verdict.passed, &self.reason) {
            (true, None) => Outcome::Pass,
            (true, Some(_)) => Outcome::UnexpectedPass,
            (false, None) => Outcome::Fail,
            (false, Some(_)) => Outcome::ExpectedFail,
        }
    }

    /// Returns the failed checks, or why they are expected.
    fn note(&self) -> String {
        let complaints = &self.verdict.complaints;
        let mut names: Vec<&str> = Vec::new();
        for complaint in complaints {
            if !names.contains(&complaint.name.as_str()) {
                names.push(&complaint.name);
            }
        }
        let more = names.split_off(names.len().min(NAMED)).len();
        let mut note = names.join(", ");
        if more > 0 {
            note = format!("{note} and {more} more");
        }
        match &self.reason {
            Some(reason) if note.is_empty() => reason.clone(),
            Some(reason) => format!("{reason}: {note}"),
            None => note,
        }
    }
}

impl Report {
    /// Prints the table and returns the summary line. Fails on a difference from the baseline.
    pub(super) fn print(&self) -> Result<String> {
        let wide = |of: fn(&Row) -> usize| self.rows.iter().map(of).max().unwrap_or_default();
        let run = wide(|row| row.name.run.len());
        let scenario = wide(|row| row.name.scenario.len());
        println!("\n{:<run$}  {:<scenario$}  result", "suite", "scenario");
        for row in &self.rows {
            let line = format!(
                "{:<run$}  {:<scenario$}  {:<13}  {}",
                row.name.run,
                row.name.scenario,
                row.outcome().word(),
                row.note()
            );
            println!("{}", line.trim_end());
        }
        for row in self.with(Outcome::Fail) {
            print_failure(row);
        }
        let summary = self.summary();
        println!("\n{summary}");
        self.check()?;
        Ok(summary)
    }

    fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.outcome() == outcome)
    }

    fn summary(&self) -> String {
        let count = |outcome| self.with(outcome).count();
        format!(
            "{} scenarios: {} passed, {} failed as expected, {} failed, {} passed although listed",
            self.rows.len(),
            count(Outcome::Pass),
            count(Outcome::ExpectedFail),
            count(Outcome::Fail),
            count(Outcome::UnexpectedPass)
        )
    }

    fn check(&self) -> Result<()> {
        let names = |outcome| -> Vec<String> {
            let named = |row: &Row| format!("{} ({})", row.name.scenario, row.name.run);
            self.with(outcome).map(named).collect()
        };
        let (failed, passed) = (names(Outcome::Fail), names(Outcome::UnexpectedPass));
        if !failed.is_empty() {
            bail!("did not pass: {}", failed.join(", "));
        }
        if !passed.is_empty() {
            bail!(
                "passes now, so remove it from {}: {}",
                baseline_path().display(),
                passed.join(", ")
            );
        }
        Ok(())
    }
}

fn print_failure(row: &Row) {
    println!("\n── {} {}", row.name.run, row.name.scenario);
    for complaint in &row.verdict.complaints {
        println!("{}: {}", complaint.name, complaint.message);
    }
    let lines: Vec<&str> = row.verdict.last_words.lines().collect();
    for line in &lines[lines.len().saturating_sub(LAST_WORDS)..] {
        println!("  | {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::scenario::Complaint;

    fn row(passed: bool, reason: Option<&str>, complaints: &[&str]) -> Row {
        let complaint = |name: &&str| Complaint {
            name: (*name).to_owned(),
            message: String::new(),
        };
        Row {
            name: Name {
                run: "0.1.16".to_owned(),
                scenario: "sse-retry".to_owned(),
            },
            reason: reason.map(str::to_owned),
            verdict: Verdict {
                passed,
                complaints: complaints.iter().map(complaint).collect(),
                last_words: String::new(),
            },
        }
    }

    fn check(row: Row, expected: Result<(), &str>) {
        let outcome = Report { rows: vec![row] }.check();
        match expected {
            Ok(()) => outcome.unwrap(),
            Err(part) => assert!(outcome.unwrap_err().to_string().contains(part)),
        }
    }

    #[test]
    fn the_baseline_may_only_shrink() {
        check(row(true, None, &[]), Ok(()));
        check(row(false, Some("later"), &[]), Ok(()));
        check(row(false, None, &[]), Err("did not pass: sse-retry"));
        check(row(true, Some("later"), &[]), Err("remove it from crates"));
    }

    #[test]
    fn a_note_names_each_check_once() {
        let note = row(false, None, &["A", "A", "B"]).note();
        assert_eq!(note, "A, B");
        let note = row(false, Some("later"), &["A", "B", "C", "D", "E"]).note();
        assert_eq!(note, "later: A, B, C, D and 1 more");
    }
}
