//! What a connection, or the failure to make one, says about a server.

use std::time::SystemTime;

use trunkline::server::{
    CloseReason, Closed, ConnectError, ConnectFailure, DeliveryErrorKind, FailureKind,
    RequestError, ServerStatus, State,
};

use super::causes::auth::AuthEvidence;
use super::causes::http::{Sample, clock_skew};
use super::causes::{auth, http};
use super::diagnosis::{Diagnosis, Subject};
use super::report::{Step, StepName};
use super::server::Check;
use super::{known, probe};
use crate::commands::accounts;
use crate::commands::list::{count, resource_count};
use crate::output::ellipsis;
use crate::standing;

/// The most lines of evidence.
const MAX_EVIDENCE: usize = 12;

/// How much of a response is shown.
const MAX_EXCERPT: usize = 300;

impl Check {
    /// Adds the steps of a connected server.
    pub(super) fn connected(
        &self,
        status: &ServerStatus,
        steps: &mut Vec<Step>,
        summary: &mut String,
    ) {
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
                        accounts::describe(&account, SystemTime::now())
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
            (resource_count(catalog), "resource"),
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
            && resource_count(catalog) == 0;
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
    pub(super) async fn sign_in(&self, status: &ServerStatus, failure: &ConnectFailure) -> Step {
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
    pub(super) async fn handshake(&self, failure: &ConnectFailure) -> Step {
        let subject = Subject::of(&self.server);
        let mut lines = vec![failure.to_string()];
        let diagnosis = if self.server.entry.transport.stdio().is_some() {
            known::of_process(&subject, &self.server.entry, failure)
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
pub(super) fn closed(failure: &ConnectFailure) -> Option<&Closed> {
    match &failure.kind {
        FailureKind::Lost(cause)
        | FailureKind::Handshake(
            ConnectError::ClosedDuringProbe(cause)
            | ConnectError::Request(RequestError::Closed { cause, .. }),
        ) => Some(cause),
        _ => None,
    }
}

/// Formats a response on one line.
fn excerpt(method: &str, sample: &Sample) -> String {
    let words: Vec<&str> = sample.body.split_whitespace().collect();
    let mut body = words.join(" ");
    if let Some((end, _)) = body.char_indices().nth(MAX_EXCERPT) {
        body.truncate(end);
        body.push_str(ellipsis());
    }
    let kind = sample.content_type.split(';').next().unwrap_or_default();
    format!("{method}: status {}, {kind} {body}", sample.status)
}
