//! Records of commands in the audit log (SEC-6). Calls and connections are recorded by the host.

use serde_json::Value;
use trunkline::audit::{AuditEvent, AuditLog, AuditRecord, AuditSettings};
use trunkline_config::WriteOutcome;

use crate::output;
use crate::session;

/// Records an event, if the settings ask for a log. Warns if it cannot be written.
pub(crate) fn record(event: AuditEvent) {
    if let Err(problem) = try_record(event) {
        output::warning(&problem);
    }
}

/// As [`record`], without a warning: for the terminal interface. Blocks.
fn try_record(event: AuditEvent) -> Result<(), String> {
    let Some(settings) = AuditSettings::load(&session::layout()) else {
        return Ok(());
    };
    AuditLog::write(&settings, &AuditRecord::now(event)).map_err(|error| {
        let dir = settings.directory.display();
        format!("the audit log in {dir} cannot be written: {error}")
    })
}

/// Records a change of the configuration, as `document` describes it.
pub(crate) fn record_change(written: &WriteOutcome, document: &Value) {
    if !written.changed {
        return;
    }
    for (key, decision) in [
        ("approved", "approved"),
        ("rejected", "rejected"),
        ("reset", "reset"),
    ] {
        if let Some(servers) = document.get(key) {
            let servers = texts(servers);
            return record(AuditEvent::Approval { servers, decision });
        }
    }
    let members = document.as_object().into_iter().flatten();
    let changes = members
        .filter(|(key, _)| !matches!(key.as_str(), "file" | "files" | "check"))
        .map(|(key, value)| (key.clone(), texts(value)))
        .filter(|(_, texts)| !texts.is_empty())
        .collect();
    let file = Some(written.file.display().to_string());
    record(AuditEvent::Configuration { changes, file });
}

/// Records a sign-in or sign-out.
pub(crate) fn record_sign_in(server: &str, action: &'static str, is_done: bool) {
    record(sign_in(server, action, is_done));
}

/// Records a sign-in or sign-out in the terminal interface, which shows the problem.
pub(crate) async fn record_sign_in_aside(
    server: &str,
    action: &'static str,
    is_done: bool,
) -> Result<(), String> {
    let event = sign_in(server, action, is_done);
    let recorded = tokio::task::spawn_blocking(move || try_record(event)).await;
    recorded.unwrap_or_else(|error| Err(error.to_string()))
}

fn sign_in(server: &str, action: &'static str, is_done: bool) -> AuditEvent {
    AuditEvent::SignIn {
        server: server.to_owned(),
        action,
        outcome: if is_done { "done" } else { "failed" },
    }
}

/// The texts of a value: names of servers and fields, never contents.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        // A changed field of an entry.
        Value::Object(members) => members.get("field").map(texts).unwrap_or_default(),
        _ => Vec::new(),
    }
}
