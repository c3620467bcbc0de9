//! Checks one server, step by step.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

use trunkline::Host;
use trunkline::server::{
    CloseReason, Closed, ConnectError, ConnectFailure, DeliveryErrorKind, FailureKind,
    RequestError, ServerStatus, State,
};
use trunkline::transport::Dialer;
use trunkline_config::redact::{Redactor, entry_secrets};
use trunkline_config::{Diagnostic, EntryStatus, Server, Severity};

use super::causes::auth::AuthEvidence;
use super::causes::http::{Sample, clock_skew};
use super::causes::process::ProcessEvidence;
use super::causes::{auth, http, process};
use super::diagnosis::{Diagnosis, Subject};
use super::progress::Progress;
use super::report::{ServerReport, Step, StepName, StepStatus, Verdict, exit_of};
use super::{network, probe, program};
use crate::commands::list::count;
use crate::exit::Exit;
use crate::standing;

/// The most lines of evidence.
const MAX_EVIDENCE: usize = 12;

/// How much of a response is shown.
const MAX_EXCERPT: usize = 300;

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

    /// Returns the steps that need neither a process nor the network.
    fn standing(&self) -> Vec<Step> {
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
    fn unset_variable(&self) -> Option<&str> {
        self.problems.iter().find_map(|problem| {
            let rest = problem.message.strip_prefix("the variable ")?;
            let (name, rest) = rest.split_once(' ')?;
            rest.starts_with("is not set").then_some(name)
        })
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

    /// Adds the steps of a connected server.
    fn connected(&self, status: &ServerStatus, steps: &mut Vec<Step>, summary: &mut String) {
        if let State::Connected(connected) = &status.state {
            let identity = connected.identity();
            let mut message = format!("protocol {}", identity.protocol_version);
            if let Some(info) = &identity.info {
                message = format!("{} {}, {message}", info.name, info.version);
            }
            steps.push(Step::ok(StepName::Handshake, message));
        }
        if !self.server.entry.transport.is_local() {
            let auth = self.host.server_auth(&self.server.entry.name);
            let message = match (
                self.authorization(),
                auth.and_then(|auth| auth.listed_account()),
            ) {
                (Some(_), _) => "the token of its header is accepted".to_owned(),
                (None, Some(account)) => {
                    format!(
                        "signed in: {}",
                        crate::commands::accounts::describe(&account, SystemTime::now())
                    )
                }
                (None, None) => "not needed".to_owned(),
            };
            steps.push(Step::ok(StepName::Auth, message));
        }
        let catalog = &status.catalog;
        let mut offers = vec![count(catalog.tools().len(), "tool")];
        for (number, what) in [
            (catalog.prompts.len(), "prompt"),
            (catalog.resources.len(), "resource"),
        ] {
            if number > 0 {
                offers.push(count(number, what));
            }
        }
        *summary = offers.join(", ");
        let problems: Vec<String> = catalog.diagnostics.iter().cloned().collect();
        let is_failure = |problem: &String| problem.starts_with("tools/list");
        let is_empty = catalog.tools().is_empty()
            && catalog.prompts.is_empty()
            && catalog.resources.is_empty();
        let fix = Subject::of(&self.server).command("logs");
        steps.push(if problems.iter().any(is_failure) {
            let message = "its tools could not be listed";
            let diagnosis = Diagnosis::new("lists-failed", message).fix(fix);
            Step::failed(StepName::Lists, diagnosis).evidence(problems)
        } else if !problems.is_empty() {
            let message = format!("{}, with problems", offers.join(", "));
            Step::warning(StepName::Lists, Diagnosis::new("lists", message).fix(fix))
                .evidence(problems)
        } else if is_empty {
            let diagnosis =
                Diagnosis::new("offers-nothing", "it offers no tools, prompts or resources");
            Step::warning(StepName::Lists, diagnosis.fix(fix))
        } else {
            Step::ok(StepName::Lists, offers.join(", "))
        });
    }

    /// Returns the entry's own `Authorization` header.
    fn authorization(&self) -> Option<&str> {
        let headers = self.server.entry.transport.headers()?;
        let mut headers = headers.iter();
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
        Some(found.1.expose())
    }

    /// Explains why the server asks for a sign-in.
    async fn sign_in(&self, status: &ServerStatus, failure: &ConnectFailure) -> Step {
        self.progress.show(&self.server.entry.name, StepName::Auth);
        let header = self.authorization();
        let unset = self.unset_variable();
        let unset = unset.filter(|name| header.is_some_and(|header| header.contains(name)));
        let auth = self.host.server_auth(&self.server.entry.name);
        let said = format!("{failure} {}", failure.challenge().unwrap_or_default());
        let hint = standing::state_hint(status);
        let evidence = AuthEvidence {
            header,
            unset,
            is_signed_in: auth.is_some_and(|auth| auth.listed_account().is_some()),
            said: &said,
            hint: hint.as_deref(),
        };
        let mut diagnosis =
            auth::diagnose(&Subject::of(&self.server), &evidence, SystemTime::now());
        // Tokens of a skewed clock are refused, and a new sign-in does not help.
        if (header.is_some() || evidence.is_signed_in)
            && let Some(skew) = self.skew().await
        {
            diagnosis = skew;
        }
        let mut lines = vec![failure.to_string()];
        lines.extend(
            failure
                .challenge()
                .map(|challenge| format!("WWW-Authenticate: {challenge}")),
        );
        Step::failed(StepName::Auth, diagnosis).evidence(lines)
    }

    /// Returns the cause if the clock of this machine differs from the server's.
    async fn skew(&self) -> Option<Diagnosis> {
        let url = self.server.entry.transport.url()?.parse().ok()?;
        let time = probe::server_time(&self.server.entry, &url, &self.dialer).await;
        clock_skew(time, SystemTime::now())
    }

    /// Explains why the handshake failed.
    async fn handshake(&self, failure: &ConnectFailure) -> Step {
        let subject = Subject::of(&self.server);
        let mut lines = vec![failure.to_string()];
        let diagnosis = if self.server.entry.transport.stdio().is_some() {
            let argv = self.server.entry.transport.argv().unwrap_or_default();
            let evidence = ProcessEvidence {
                argv: &argv,
                stderr: &failure.stderr,
                stdout: failure.nonsense.as_deref(),
                exited: closed(failure)
                    .is_some_and(|cause| matches!(cause.reason(), CloseReason::Exited { .. })),
            };
            process::diagnose(&subject, &evidence)
        } else {
            self.network_failure(&mut lines).await
        };
        let diagnosis = diagnosis
            .or_else(|| Self::secret(failure))
            .unwrap_or_else(|| self.unknown(failure));
        lines.extend(failure.stderr.iter().take(MAX_EVIDENCE).cloned());
        Step::failed(StepName::Handshake, diagnosis).evidence(lines)
    }

    /// Explains the failure of a server on the network, from samples of its responses.
    async fn network_failure(&self, lines: &mut Vec<String>) -> Option<Diagnosis> {
        let entry = &self.server.entry;
        let url = entry.transport.url()?.parse().ok()?;
        let flavour = entry.transport.http_flavour()?;
        if entry.transport.is_connector() {
            return None;
        }
        let evidence = probe::explore(entry, &url, flavour, &self.dialer).await;
        for (method, sample) in [("GET", &evidence.get), ("POST", &evidence.post)] {
            lines.extend(sample.as_ref().map(|sample| excerpt(method, sample)));
        }
        let skew = || clock_skew(probe::date(&evidence), SystemTime::now());
        http::diagnose(&Subject::of(&self.server), &evidence).or_else(skew)
    }

    /// Explains a secret that the keychain does not give.
    fn secret(failure: &ConnectFailure) -> Option<Diagnosis> {
        let FailureKind::Secret(_) = &failure.kind else {
            return None;
        };
        let fix = failure.hint().unwrap_or_default();
        Some(Diagnosis::new("keychain-secret", failure.to_string()).fix(fix))
    }

    /// Explains a failure without a known cause.
    fn unknown(&self, failure: &ConnectFailure) -> Diagnosis {
        if let Some(variable) = self.unset_variable() {
            let message = format!("{failure}; the variable {variable} of its entry is not set");
            return Diagnosis::new("variable-not-set", message)
                .fix(format!("export {variable}=VALUE"));
        }
        let is_exit = closed(failure)
            .is_some_and(|cause| matches!(cause.reason(), CloseReason::Exited { .. }));
        let cause = match &failure.kind {
            _ if is_exit => "exits",
            FailureKind::TimedOut(_) => "timed-out",
            FailureKind::MachineBusy(_) => "machine-busy",
            FailureKind::Unreachable(error)
                if matches!(error.kind, DeliveryErrorKind::Credentials) =>
            {
                "credentials"
            }
            FailureKind::Spawn(_) => "cannot-start",
            _ => "handshake-failed",
        };
        let fix = if is_exit {
            self.command_line()
                .map(|line| format!("run it in a terminal to see why: {line}"))
        } else {
            failure.hint().map(str::to_owned)
        };
        let fix = fix.unwrap_or_else(|| Subject::of(&self.server).command("logs"));
        Diagnosis::new(cause, failure.to_string()).fix(fix)
    }

    /// Returns the command as configured, without secrets.
    fn command_line(&self) -> Option<String> {
        let shown = self.server.entry.redacted();
        let command = shown.get("command")?.as_str()?;
        let args = shown.get("args").and_then(|args| args.as_array());
        let args = args.into_iter().flatten().filter_map(|word| word.as_str());
        let words: Vec<String> = std::iter::once(command)
            .chain(args)
            .map(standing::quoted)
            .collect();
        Some(words.join(" "))
    }
}

/// Returns why the link closed, if that ended the handshake.
fn closed(failure: &ConnectFailure) -> Option<&Closed> {
    match &failure.kind {
        FailureKind::Lost(cause)
        | FailureKind::Handshake(
            ConnectError::ClosedDuringProbe(cause)
            | ConnectError::Request(RequestError::Closed { cause, .. }),
        ) => Some(cause),
        _ => None,
    }
}

/// Returns the command between backquotes, or else the whole hint.
fn command_in(hint: &str) -> String {
    let quoted = hint.split('`').nth(1);
    quoted.unwrap_or(hint).to_owned()
}

/// Formats a response on one line.
fn excerpt(method: &str, sample: &Sample) -> String {
    let words: Vec<&str> = sample.body.split_whitespace().collect();
    let mut body = words.join(" ");
    if let Some((end, _)) = body.char_indices().nth(MAX_EXCERPT) {
        body.truncate(end);
        body.push('…');
    }
    let kind = sample.content_type.split(';').next().unwrap_or_default();
    format!("{method}: status {}, {kind} {body}", sample.status)
}
