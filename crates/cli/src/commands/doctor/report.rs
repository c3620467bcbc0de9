//! The outcome of the checks, as data.

use serde::Serialize;
use serde_json::{Value, json};

use super::diagnosis::{Diagnosis, Repair};
use crate::exit::Exit;

/// A step on the way to a working server (UI-5), in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepName {
    Config,
    Policy,
    Approval,
    Program,
    Dns,
    Connect,
    Tls,
    Handshake,
    Auth,
    Lists,
}

impl StepName {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Policy => "policy",
            Self::Approval => "approval",
            Self::Program => "program",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Handshake => "handshake",
            Self::Auth => "auth",
            Self::Lists => "lists",
        }
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepStatus {
    Ok,
    /// Probably not as intended, but no obstacle.
    Warning,
    Failed,
    Skipped,
}

/// A step and its outcome. All of its texts may quote foreign text, without secrets.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) name: StepName,
    pub(super) status: StepStatus,
    pub(super) message: String,
    /// Lines that show it: of stderr, of a response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) evidence: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
    #[serde(skip)]
    pub(super) repair: Option<Repair>,
}

impl Step {
    fn new(name: StepName, status: StepStatus, message: impl Into<String>) -> Self {
        Self {
            name,
            status,
            message: message.into(),
            evidence: Vec::new(),
            cause: None,
            fix: None,
            repair: None,
        }
    }

    pub(super) fn ok(name: StepName, message: impl Into<String>) -> Self {
        Self::new(name, StepStatus::Ok, message)
    }

    pub(super) fn skipped(name: StepName, message: impl Into<String>) -> Self {
        Self::new(name, StepStatus::Skipped, message)
    }

    pub(super) fn failed(name: StepName, diagnosis: Diagnosis) -> Self {
        Self {
            cause: Some(diagnosis.cause),
            fix: diagnosis.fix,
            repair: diagnosis.repair,
            ..Self::new(name, StepStatus::Failed, diagnosis.message)
        }
    }

    pub(super) fn warning(name: StepName, diagnosis: Diagnosis) -> Self {
        Self {
            status: StepStatus::Warning,
            ..Self::failed(name, diagnosis)
        }
    }

    pub(super) fn evidence(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(lines);
        self
    }
}

/// Whether a server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Healthy,
    /// It does not run because someone decided so.
    Off,
    Failed,
}

impl Verdict {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Healthy => "ok",
            Self::Off => "off",
            Self::Failed => "failed",
        }
    }
}

/// The checks of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerReport {
    pub(super) name: String,
    pub(super) scope: Option<&'static str>,
    pub(super) transport: Option<&'static str>,
    pub(super) source: Option<String>,
    pub(super) verdict: Verdict,
    /// What it offers, or why it is off.
    pub(super) summary: String,
    pub(super) steps: Vec<Step>,
    /// The exit code that fits its failure.
    pub(super) exit: Exit,
}

impl ServerReport {
    /// Returns the step that failed.
    pub(super) fn failure(&self) -> Option<&Step> {
        let mut steps = self.steps.iter();
        steps.find(|step| step.status == StepStatus::Failed)
    }

    pub(super) fn as_value(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "scope": self.scope,
            "transport": self.transport,
            "source": self.source,
            "status": self.verdict.text(),
            "summary": self.summary,
            "steps": self.steps,
        });
        if let Some(step) = self.failure() {
            value["failedStep"] = json!(step.name);
            value["cause"] = json!(step.cause);
            value["fix"] = json!(step.fix);
        }
        value
    }
}

/// Returns the exit code of a failed step.
pub(super) fn exit_of(step: StepName, timed_out: bool) -> Exit {
    match step {
        StepName::Config => Exit::Usage,
        StepName::Policy | StepName::Approval => Exit::Refused,
        StepName::Auth => Exit::NeedsAuth,
        StepName::Lists => Exit::Failed,
        _ if timed_out => Exit::TimedOut,
        StepName::Program
        | StepName::Dns
        | StepName::Connect
        | StepName::Tls
        | StepName::Handshake => Exit::NotConnected,
    }
}
