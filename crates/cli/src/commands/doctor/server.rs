//! Checks one server, step by step.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::{Duration, Instant};

use trunkline::Host;
use trunkline::server::{FailureKind, ServerStatus, State};
use trunkline::transport::Dialer;
use trunkline_config::redact::{Redactor, entry_secrets};
use trunkline_config::{Diagnostic, EntryStatus, Server};

use super::diagnosis::Diagnosis;
use super::progress::Progress;
use super::report::{ServerReport, Step, StepName, StepStatus, Verdict, exit_of};
use super::{network, package, program};
use crate::exit::Exit;

/// How long a connection is waited for after an earlier step has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Whether the connection was decided in time.
enum Connecting<S> {
    /// The status, unless the server is gone.
    Settled(Option<S>),
    Unsettled,
}

/// Whether the user asked for the server by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    ByName,
    WithAll,
}

/// Everything that the check of one server needs.
pub(super) struct Check {
    pub(super) host: Host,
    pub(super) server: Server,
    /// The problems of its entry.
    pub(super) problems: Vec<Diagnostic>,
    pub(super) dialer: Dialer,
    pub(super) asked: Asked,
    pub(super) progress: Progress,
}

impl Check {
    /// Checks the server. Nothing is started that may not run.
    pub(super) async fn run(self) -> ServerReport {
        let begun = Instant::now();
        let mut steps = self.standing();
        let is_stopped = steps.iter().any(|step| step.status == StepStatus::Failed);
        let is_active = self.server.status == EntryStatus::Active;
        let mut summary = String::new();
        let mut exit = Exit::Done;
        if is_active && !is_stopped {
            let (more, timed_out) = self.connect(&mut summary).await;
            steps.extend(more);
            if let Some(failed) = steps.iter().find(|step| step.status == StepStatus::Failed) {
                exit = exit_of(failed.name, timed_out);
            } else {
                let _ = write!(summary, ", {:.1} s", begun.elapsed().as_secs_f64());
            }
        } else if let Some(failed) = steps.iter().find(|step| step.status == StepStatus::Failed) {
            exit = exit_of(failed.name, false);
        }
        let verdict = match (is_active, exit) {
            (true, Exit::Done) => Verdict::Healthy,
            (false, Exit::Done) => Verdict::Off,
            _ => Verdict::Failed,
        };
        if verdict == Verdict::Off {
            summary = steps
                .last()
                .map(|step| step.message.clone())
                .unwrap_or_default();
        }
        // A server that is disabled cannot be connected.
        if verdict == Verdict::Failed && self.server.status == EntryStatus::Disabled {
            exit = Exit::NotConnected;
        }
        self.progress.finish(&self.server.entry.name);
        let entry = &self.server.entry;
        let mut report = ServerReport {
            name: entry.name.clone(),
            scope: Some(entry.scope.name()),
            transport: Some(entry.transport.kind()),
            source: Some(entry.source.clone()),
            verdict,
            summary,
            steps,
            exit,
        };
        self.redact(&mut report);
        report
    }

    /// Masks the server's secrets, which it may have echoed (SEC-1).
    fn redact(&self, report: &mut ServerReport) {
        let redactor = Redactor::default();
        let secrets = entry_secrets(&self.server.entry);
        redactor.hide_all(secrets.iter().map(String::as_str));
        let mask = |text: &mut String| *text = redactor.text(text).into_owned();
        for step in &mut report.steps {
            mask(&mut step.message);
            // Its placeholders look like secrets.
            if let Some(fix) = &mut step.fix {
                *fix = redactor.known(fix).into_owned();
            }
            step.evidence.iter_mut().for_each(mask);
        }
        mask(&mut report.summary);
    }

    /// Connects, and returns the steps with whether a time limit expired.
    async fn connect(&self, summary: &mut String) -> (Vec<Step>, bool) {
        let name = &self.server.entry.name;
        self.progress.show(
            name,
            if self.server.entry.transport.is_local() {
                StepName::Program
            } else {
                StepName::Connect
            },
        );
        let connecting = async {
            // A lazy server starts only when it is needed.
            let lazy =
                |status: &ServerStatus| matches!(status.state, State::Pending { attempt: 0, .. });
            let status = self.host.ready_for(name).await.ok()?;
            if !lazy(&status) {
                return Some(status);
            }
            self.host.reconnect(name).await.ok()?;
            self.host.ready_for(name).await.ok()
        };
        let reaching = async {
            let mut steps: Vec<Step> = program::check(&self.server).into_iter().collect();
            steps.extend(package::check(&self.server));
            steps.extend(network::check(&self.server, &self.dialer).await);
            if !steps.iter().any(|step| step.status == StepStatus::Failed) {
                self.progress.show(name, StepName::Handshake);
            }
            steps
        };
        let (status, mut steps) = Self::join(connecting, reaching).await;
        if let Connecting::Unsettled = status {
            steps.push(Step::skipped(StepName::Handshake, "not reached"));
            return (steps, false);
        }
        let Connecting::Settled(Some(status)) = status else {
            let diagnosis = Diagnosis::new("handshake-failed", "the server was removed meanwhile");
            steps.push(Step::failed(StepName::Handshake, diagnosis));
            return (steps, false);
        };
        match &status.state {
            State::Connected(_) => {
                // The connection proves more than a check of its parts.
                for step in steps
                    .iter_mut()
                    .filter(|step| step.status == StepStatus::Failed)
                {
                    step.status = StepStatus::Warning;
                }
                self.connected(&status, &mut steps, summary);
                (steps, false)
            }
            State::NeedsAuth(failure) => {
                let message = "the server answers";
                steps.push(Step::ok(StepName::Handshake, message));
                let step = self.sign_in(&status, failure).await;
                steps.push(step);
                (steps, false)
            }
            state => {
                let failure = state.failure().cloned();
                if steps.iter().any(|step| step.status == StepStatus::Failed) {
                    steps.push(Step::skipped(StepName::Handshake, "not reached"));
                    return (steps, false);
                }
                let Some(failure) = failure else {
                    let message = format!("the server is {}", state.name());
                    let diagnosis = Diagnosis::new("handshake-failed", message);
                    steps.push(Step::failed(StepName::Handshake, diagnosis));
                    return (steps, false);
                };
                let timed_out = matches!(
                    failure.kind,
                    FailureKind::TimedOut(_) | FailureKind::MachineBusy(_)
                );
                steps.push(self.handshake(&failure).await);
                (steps, timed_out)
            }
        }
    }

    /// Waits for the connection and for the steps before it. Once one of these has failed, the
    /// connection has little time left to prove the contrary.
    async fn join<S>(
        connecting: impl Future<Output = Option<S>>,
        reaching: impl Future<Output = Vec<Step>>,
    ) -> (Connecting<S>, Vec<Step>) {
        let mut connecting = pin!(connecting);
        let mut reaching = pin!(reaching);
        let steps = tokio::select! {
            status = &mut connecting => {
                return (Connecting::Settled(status), reaching.await);
            }
            steps = &mut reaching => steps,
        };
        if steps.iter().all(|step| step.status != StepStatus::Failed) {
            return (Connecting::Settled(connecting.await), steps);
        }
        let status = tokio::time::timeout(AFTER_FAILURE, connecting).await;
        (
            status.map_or(Connecting::Unsettled, Connecting::Settled),
            steps,
        )
    }
}
