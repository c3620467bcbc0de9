//! Follows one call for the audit log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trunkline_config::AuditArguments;
use trunkline_config::redact::redact_text;
use trunkline_wire::Json;
use trunkline_wire::client::Arguments;

use super::{ActiveAudit, AuditEvent, CallDecision, CallRecord, RecordedArguments};
use crate::call::{CallError, CallErrorKind};
use crate::catalog::PoolTool;
use crate::host::Host;
use crate::permission::pattern::ToolPattern;
use crate::result::{CallOutput, ContentBlock};

/// Maximum wait for records that must be on disk before a call is sent.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// A call on its way. Dropping it before [`Trail::end`] records that it was abandoned.
pub(crate) struct Trail {
    host: Host,
    audit: Arc<ActiveAudit>,
    began: Instant,
    name: String,
    client: Option<Arc<str>>,
    seen: Mutex<Seen>,
}

/// What is known about the call so far.
#[derive(Default)]
struct Seen {
    tool: Option<Arc<PoolTool>>,
    arguments: Option<Json>,
    decision: Option<Arc<CallDecision>>,
    is_recorded: bool,
}

impl Trail {
    pub(crate) fn new(
        host: &Host,
        audit: Arc<ActiveAudit>,
        name: &str,
        arguments: &Arguments,
        client: Option<Arc<str>>,
    ) -> Self {
        Self {
            host: host.clone(),
            audit,
            began: Instant::now(),
            name: name.to_owned(),
            client,
            seen: Mutex::new(Seen {
                arguments: Some(arguments.to_json()),
                ..Seen::default()
            }),
        }
    }

    /// Refuses the call if a sink requires that.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        match self.audit.refusal() {
            Some(reason) => Err(CallError::not_recorded(&self.name, reason)),
            None => Ok(()),
        }
    }

    /// Remembers the tool that was found.
    pub(crate) fn found(&self, tool: &Arc<PoolTool>) {
        self.seen().tool = Some(Arc::clone(tool));
    }

    /// Remembers arguments that a hook changed.
    pub(crate) fn changed(&self, arguments: &Arguments) {
        self.seen().arguments = Some(arguments.to_json());
    }

    /// Remembers what permitted the call. Where records must be stored before, stores that it is
    /// about to be sent.
    pub(crate) async fn permitted(&self, decision: Arc<CallDecision>) -> Result<(), CallError> {
        self.seen().decision = Some(decision);
        if self.audit.is_synchronous() {
            let started = self.record();
            self.audit
                .record(AuditEvent::CallStarted(Box::new(started)));
            self.audit.flush(STORE_TIMEOUT).await;
            self.check()?;
        }
        Ok(())
    }

    /// Records how the call ended.
    pub(crate) async fn end(&self, outcome: &Result<CallOutput, CallError>) {
        let mut call = self.record();
        match outcome {
            Ok(output) => {
                call.outcome = if output.is_error { "tool-error" } else { "ok" };
                call.result_bytes = result_bytes(output);
            }
            Err(error) => {
                call.outcome = outcome_of(error);
                call.reason = Some(error.to_string());
                if error.is_refused() {
                    let rule = error.rule().or(error.policy_rule());
                    call.decision = CallDecision::new("refused", rule);
                }
            }
        }
        self.finish(call);
        if self.audit.is_synchronous() {
            // The call has been made: its result is not withheld.
            self.audit.flush(STORE_TIMEOUT).await;
        }
    }

    fn finish(&self, mut call: CallRecord) {
        self.seen().is_recorded = true;
        call.micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.audit.record(AuditEvent::Call(Box::new(call)));
    }

    fn record(&self) -> CallRecord {
        let (tool, arguments, decision) = {
            let seen = self.seen();
            (
                seen.tool.clone(),
                seen.arguments.clone(),
                seen.decision.clone(),
            )
        };
        let tool = tool.as_deref();
        CallRecord {
            tool: self.name.clone(),
            origin: tool.map(|tool| (tool.server.to_string(), tool.tool.name.to_string())),
            client: self.client.as_deref().map(str::to_owned),
            is_agent: self.host.is_agent(),
            arguments: arguments.map_or(RecordedArguments::None, |json| {
                self.recorded_arguments(tool, json)
            }),
            decision: decision.as_deref().cloned().unwrap_or_default(),
            ..CallRecord::default()
        }
    }

    fn recorded_arguments(&self, tool: Option<&PoolTool>, json: Json) -> RecordedArguments {
        let matches = |pattern: &ToolPattern| match tool {
            Some(tool) => pattern.forbids(tool),
            None => pattern.matches_host_tool(&self.name),
        };
        let mut rules = self.audit.arguments.iter().rev();
        let mode = rules.find_map(|(pattern, mode)| matches(pattern).then_some(*mode));
        match mode.unwrap_or_default() {
            AuditArguments::None => RecordedArguments::None,
            AuditArguments::Redacted => {
                let connection = tool.and_then(|tool| self.host.connection(&tool.server));
                let text = redact_text(json.as_str());
                let text = match &connection {
                    Some(connection) => connection.redact(&text).into_owned(),
                    None => text.into_owned(),
                };
                match Json::parse(text) {
                    Ok(redacted) => RecordedArguments::Redacted(redacted),
                    Err(_) => RecordedArguments::Digest(json),
                }
            }
            _ => RecordedArguments::Digest(json),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if !self.seen().is_recorded {
            let mut call = self.record();
            call.outcome = "abandoned";
            self.finish(call);
        }
    }
}

fn result_bytes(output: &CallOutput) -> u64 {
    let blocks = output.content.iter().map(|block| match block {
        ContentBlock::Text(text) => text.len(),
        ContentBlock::Other { raw, .. } => raw.as_str().len(),
    });
    let structured = output.structured_content.as_ref();
    let structured = structured.map_or(0, |json| json.as_str().len());
    let files: u64 = output.files.iter().map(|file| file.size).sum();
    (blocks.sum::<usize>() + structured) as u64 + files
}

/// The kind of an error in the log.
fn outcome_of(error: &CallError) -> &'static str {
    match error.kind() {
        CallErrorKind::UnknownTool => "unknown-tool",
        CallErrorKind::UnknownServer => "unknown-server",
        CallErrorKind::UnknownPrompt => "unknown-prompt",
        CallErrorKind::InvalidArguments => "invalid-arguments",
        CallErrorKind::Refused => "refused",
        CallErrorKind::NotApproved => "not-approved",
        CallErrorKind::Disabled => "disabled",
        CallErrorKind::NotConnected => "not-connected",
        CallErrorKind::AuthRequired => "auth-required",
        CallErrorKind::Credentials => "credentials",
        CallErrorKind::Unsupported => "unsupported",
        CallErrorKind::ServerError => "server-error",
        CallErrorKind::HttpStatus => "http-status",
        CallErrorKind::ConnectionLost => "connection-lost",
        CallErrorKind::Timeout => "timeout",
        CallErrorKind::InvalidResponse => "invalid-response",
        CallErrorKind::Unverified => "unverified",
        CallErrorKind::Cancelled => "cancelled",
        CallErrorKind::Busy => "busy",
        CallErrorKind::ShutDown => "shut-down",
    }
}
