//! The steps that need neither a process nor the network: the entry, policy and approval.

use trunkline_config::{Diagnostic, EntryStatus, Severity};

use super::diagnosis::Diagnosis;
use super::report::{Step, StepName, StepStatus};
use super::server::{Asked, Check};
use crate::standing;

impl Check {
    /// Returns the steps that need neither a process nor the network.
    pub(super) fn standing(&self) -> Vec<Step> {
        self.progress
            .show(&self.server.entry.name, StepName::Config);
        let mut steps = vec![self.config()];
        let entry = &self.server.entry;
        let (reason, hint) = match standing::reason(&self.server) {
            Some((reason, hint)) => (reason, hint),
            None if self.server.status == EntryStatus::Disabled => {
                let hint = standing::enable_hint(&entry.name);
                ("it is disabled".to_owned(), Some(hint))
            }
            None => {
                steps.push(Step::ok(StepName::Policy, "allowed"));
                let approval = if entry.needs_approval() {
                    "approved"
                } else {
                    "not needed"
                };
                steps.push(Step::ok(StepName::Approval, approval));
                return steps;
            }
        };
        let fix = hint.as_deref().map(command_in);
        let refused = |name: StepName, cause: &'static str, is_failure: bool| {
            let mut diagnosis = Diagnosis::new(cause, reason.clone());
            diagnosis.fix.clone_from(&fix);
            let mut step = Step::failed(name, diagnosis);
            if !is_failure {
                step.status = StepStatus::Skipped;
            }
            step
        };
        let is_wanted = self.asked == Asked::ByName;
        match &self.server.status {
            EntryStatus::Blocked(_) => {
                let mut step = refused(StepName::Policy, "blocked", true);
                step.fix = Some("ask the administrator of this machine".to_owned());
                steps.push(step);
            }
            EntryStatus::PendingApproval { .. } => {
                steps.push(Step::ok(StepName::Policy, "allowed"));
                let changes = standing::differences(&self.server);
                let step = refused(StepName::Approval, "pending-approval", true);
                steps.push(step.evidence(standing::difference_lines(&changes)));
            }
            EntryStatus::Rejected { .. } => {
                steps.push(Step::ok(StepName::Policy, "allowed"));
                steps.push(refused(StepName::Approval, "rejected", is_wanted));
            }
            EntryStatus::Disabled => steps.push(refused(StepName::Config, "disabled", is_wanted)),
            _ => steps.push(refused(StepName::Config, "not-in-effect", is_wanted)),
        }
        steps
    }

    /// Returns the step for the entry itself.
    fn config(&self) -> Step {
        let source = &self.server.entry.source;
        let Some(first) = self.problems.first() else {
            return Step::ok(StepName::Config, source.clone());
        };
        let diagnosis = match self.unset_variable() {
            Some(variable) => {
                let message = format!("the variable {variable} is not set");
                let fix = format!("export {variable}=VALUE");
                Diagnosis::new("variable-not-set", message).fix(fix)
            }
            None => Diagnosis::new("entry", first.message.clone())
                .fix(format!("correct {}", first.location())),
        };
        let lines = self.problems.iter().map(ToString::to_string);
        let is_error = |problem: &Diagnostic| problem.severity == Severity::Error;
        // An error here concerns another entry of the same name: this one was read.
        let mut step = Step::warning(StepName::Config, diagnosis);
        if self.problems.iter().any(is_error) && self.server.status != EntryStatus::Active {
            step.status = StepStatus::Failed;
        }
        step.evidence(lines)
    }

    /// Returns the first variable of the entry that is not set.
    pub(super) fn unset_variable(&self) -> Option<&str> {
        self.problems.iter().find_map(|problem| {
            let rest = problem.message.strip_prefix("the variable ")?;
            let (name, rest) = rest.split_once(' ')?;
            rest.starts_with("is not set").then_some(name)
        })
    }
}

/// Returns the command between backquotes, or else the whole hint.
fn command_in(hint: &str) -> String {
    let quoted = hint.split('`').nth(1);
    quoted.unwrap_or(hint).to_owned()
}
