//! The overview of one server: why it does not run, where it is configured, what it can do.

use std::time::SystemTime;

use trunkline::Host;
use trunkline::server::{Connected, ServerStatus, State};
use trunkline_config::{Server as ConfiguredServer, ServerSet};

use super::data::{Detail, Key, Server, Snapshot, Status};
use super::doc::{DocLine, Tone};
use super::text;
use crate::commands::accounts;
use crate::commands::list::resource_count;
use crate::output::{inline, name};
use crate::standing;

/// The lines of stderr in the overview.
const STDERR_LINES: usize = 15;

/// The most notes on a catalog in the overview, which may have one for each tool.
const NOTES: usize = 5;

/// Reads the overview of one server.
pub(super) fn read(host: &Host, snapshot: &Snapshot, key: &Key) -> Option<Detail> {
    let server = snapshot.get(key)?;
    let configured = server.entry.and_then(|at| snapshot.set.servers.get(at));
    let running = server.runs().then(|| host.server(server.name())).flatten();
    let mut lines = Vec::new();
    state_lines(
        server,
        configured,
        running.as_deref(),
        &snapshot.set,
        &mut lines,
    );
    if let Some(configured) = configured {
        config_lines(configured, &mut lines);
    }
    if server.takes_sign_in && running.is_some() {
        let account = host
            .server_auth(server.name())
            .and_then(|auth| auth.listed_account());
        lines.push(match account {
            Some(account) => {
                DocLine::field("signed in", accounts::describe(&account, SystemTime::now()))
            }
            None => DocLine::field("sign-in", "nobody is signed in"),
        });
    }
    if let Some(running) = &running {
        offer_lines(running, &mut lines);
    }
    Some(Detail {
        key: key.clone(),
        lines,
    })
}

fn state_lines(
    server: &Server,
    configured: Option<&ConfiguredServer>,
    running: Option<&ServerStatus>,
    set: &ServerSet,
    lines: &mut Vec<DocLine>,
) {
    if !server.cause.is_empty() {
        let line = DocLine::field("cause", server.cause.clone());
        lines.push(line.tone(server.status.tone()));
    }
    let reason = configured.and_then(standing::reason);
    if let Some((reason, _)) = &reason
        && server.cause.is_empty()
    {
        lines.push(DocLine::field("state", inline(reason)).tone(Tone::Warn));
    }
    let hint = match (&reason, server.status) {
        (Some((_, hint)), _) => hint.clone(),
        (None, Status::Disabled) => Some(standing::enable_hint(server.name())),
        (None, _) => running.and_then(standing::state_hint),
    };
    if let Some(hint) = hint {
        // A hint outside of this screen repeats the cause.
        let cure = hint.strip_prefix(&*server.cause);
        let cure = cure.and_then(|rest| rest.strip_prefix(": "));
        let hint = cure.unwrap_or(&hint);
        lines.push(DocLine::field("cure", text::line(hint)).tone(Tone::Hint));
    }
    let about = set.diagnostics_for(server.name());
    for problem in about {
        let line = DocLine::field("problem", inline(&problem.to_string()));
        lines.push(line.tone(Tone::Warn));
    }
    let changes = configured.map(standing::differences).unwrap_or_default();
    for line in standing::difference_lines(&changes) {
        lines.push(DocLine::field("changed", text::line(&line)).tone(Tone::Warn));
    }
}

fn config_lines(configured: &ConfiguredServer, lines: &mut Vec<DocLine>) {
    let entry = &configured.entry;
    let source = format!("{} ({} scope)", text::line(&entry.source), entry.scope);
    lines.push(DocLine::field("source", source));
    for shadowed in &configured.shadows {
        lines.push(DocLine::field("shadows", text::line(&shadowed.to_string())));
    }
    let shown = entry.redacted();
    for (field, value) in shown.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        lines.push(DocLine::field(
            "entry",
            format!("{}: {}", name(field), text::line(&value)),
        ));
    }
}

fn offer_lines(running: &ServerStatus, lines: &mut Vec<DocLine>) {
    let catalog = &running.catalog;
    let stderr = match &running.state {
        State::Connected(connected) => {
            connected_lines(connected, lines);
            connected.stderr(STDERR_LINES)
        }
        State::NeedsAuth(failure) => failure.stderr.clone(),
        state => {
            let failure = state.failure();
            failure
                .map(|failure| failure.stderr.clone())
                .unwrap_or_default()
        }
    };
    let mut offers = vec![text::count(catalog.tools().len(), "tool")];
    offers.push(text::count(resource_count(catalog), "resource"));
    offers.push(text::count(catalog.prompts.len(), "prompt"));
    let kept = if catalog.cached {
        " (from an earlier connection)"
    } else {
        ""
    };
    lines.push(DocLine::field(
        "offers",
        format!("{}{kept}", offers.join(", ")),
    ));
    let notes = || catalog.notes.iter().chain(catalog.diagnostics.iter());
    for note in notes().take(NOTES) {
        lines.push(DocLine::field("note", inline(note)).tone(Tone::Warn));
    }
    let more = notes().count().saturating_sub(NOTES);
    if more > 0 {
        let more = format!("… {}", text::count(more, "more note"));
        lines.push(DocLine::field("", more).tone(Tone::Dim));
    }
    if let Some(instructions) = catalog.instructions() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Instructions"));
        lines.extend(DocLine::foreign(&instructions));
    }
    if !stderr.is_empty() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Standard error"));
        let last = stderr.len().saturating_sub(STDERR_LINES);
        for line in stderr.iter().skip(last) {
            lines.extend(DocLine::foreign(&inline(line)));
        }
    }
}

fn connected_lines(connected: &Connected, lines: &mut Vec<DocLine>) {
    let identity = connected.identity();
    if let Some(info) = &identity.info {
        let shown = format!("{} {}", name(&info.name), text::line(&info.version));
        lines.push(DocLine::field("server", shown));
    }
    let version = text::line(&identity.protocol_version);
    lines.push(DocLine::field(
        "protocol",
        format!("{version} ({})", connected.era()),
    ));
    let capabilities = &identity.capabilities;
    let all = [
        (capabilities.tools, "tools"),
        (capabilities.resources, "resources"),
        (capabilities.subscribe, "subscriptions"),
        (capabilities.prompts, "prompts"),
        (capabilities.completions, "completions"),
        (capabilities.tasks, "tasks"),
        (capabilities.skills, "skills"),
        (
            capabilities.list_changed.iter().any(|on| *on),
            "list changes",
        ),
    ];
    let offered: Vec<&str> = all
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    let offered = if offered.is_empty() {
        "none".to_owned()
    } else {
        offered.join(", ")
    };
    lines.push(DocLine::field("can do", offered));
}
