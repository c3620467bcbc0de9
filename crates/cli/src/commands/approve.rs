//! `trunkline approve`, `reject` and `reset-project-choices` (CFG-6).

use std::path::Path;

use serde_json::json;
use trunkline_config::redact::{RedactMode, redact_entry};
use trunkline_config::{EntryStatus, Server, ServerEntry};

use crate::args::ConfigArgs;
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, name};
use crate::scripts::{self, ScriptLine};
use crate::session::{self, Configured};
use crate::standing;

pub(crate) fn approve(
    config: &ConfigArgs,
    names: &[String],
    all: bool,
    yes: bool,
    as_json: bool,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let wanted = match selected(&configured, names) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    if wanted.is_empty() {
        configured.warn();
        return nothing_pending(&configured, as_json);
    }
    let ask = !yes && !as_json && output::can_ask();
    if names.is_empty() && !all && !ask {
        let pending: Vec<_> = wanted
            .iter()
            .map(|server| server.entry.name.as_str())
            .collect();
        let hint = format!("name them or pass --all; pending: {}", pending.join(", "));
        output::error("which servers?", Some(&hint));
        return Exit::Usage;
    }
    let mut approved: Vec<&ServerEntry> = Vec::new();
    for server in wanted {
        if ask {
            output::note(description(server, &configured.loader.project().root));
        }
        if ask && !output::ask(&format!("approve \"{}\"?", name(&server.entry.name))) {
            continue;
        }
        approved.push(&server.entry);
    }
    if approved.is_empty() {
        output::note("nothing approved");
        return Exit::Done;
    }
    let written = match configured.editor().approve(&approved) {
        Ok(written) => written,
        Err(error) => return change::fail(&error, None),
    };
    let names: Vec<&str> = approved.iter().map(|entry| entry.name.as_str()).collect();
    let what = format!("approved {}", quoted_list(&names));
    let document = json!({"approved": names, "file": change::path(&written)});
    let exit = change::report(&what, &written, document, as_json);
    warn_if_still_blocked(config, &names);
    exit
}

/// Returns the named servers, or all pending ones.
fn selected<'c>(configured: &'c Configured, names: &[String]) -> Result<Vec<&'c Server>, Exit> {
    let of_project = || {
        let servers = configured.set.servers.iter();
        servers.filter(|server| server.entry.needs_approval())
    };
    if names.is_empty() {
        let pending =
            |server: &&Server| matches!(server.status, EntryStatus::PendingApproval { .. });
        return Ok(of_project().filter(pending).collect());
    }
    let mut wanted = Vec::new();
    for name in names {
        let of_name: Vec<_> = of_project()
            .filter(|server| server.entry.name == *name)
            .collect();
        match (of_name.is_empty(), configured.foremost(name)) {
            (false, _) => wanted.extend(of_name),
            (true, Some(server)) => {
                let scope = server.entry.scope;
                let what = format!("\"{name}\" is in the {scope} scope and needs no approval");
                output::error(&what, Some("only servers of a project's .mcp.json need it"));
                return Err(Exit::Usage);
            }
            (true, None) => {
                let names: Vec<_> = of_project()
                    .map(|server| server.entry.name.as_str())
                    .collect();
                let cwd = &configured.loader.project().cwd;
                let has_file = cwd.ancestors().any(|dir| dir.join(".mcp.json").exists());
                let none = if has_file {
                    "this project's .mcp.json has no servers"
                } else {
                    "this project has no .mcp.json"
                };
                return Err(configured.unknown_among(name, &names, none));
            }
        }
    }
    Ok(wanted)
}

fn nothing_pending(configured: &Configured, as_json: bool) -> Exit {
    let all = configured.set.approve_all.as_ref();
    if as_json {
        let mut document = json!({"approved": []});
        if let Some(all) = all {
            document["approveAll"] = json!(all);
        }
        output::json(&document);
        return Exit::Done;
    }
    output::result("no servers are pending");
    if let Some(all) = all {
        output::note(Lines::one(format!("  {all}")));
    }
    Exit::Done
}

/// Describes everything that would run and all changes. Only secrets are masked: any other field
/// could be the one that matters.
fn description(server: &Server, root: &Path) -> Lines {
    let mut lines = Lines::from("\n");
    let entry = &server.entry;
    lines.push(format!("\"{}\" in {}", name(&entry.name), entry.source));
    let mut shown = entry.as_written();
    redact_entry(&mut shown, RedactMode::Approval);
    for (field, value) in shown.as_object().into_iter().flatten() {
        lines.push_whole(format!("  {}: {value}", name(field)));
    }
    // Show which program a relative command resolves to.
    let argv = entry.transport.argv();
    let command = argv.and_then(|argv| argv.first().copied());
    if let Some(program) = entry.program()
        && command != Some(program.as_str())
    {
        lines.push(format!("  program: {program}"));
    }
    if !entry.files.is_empty() {
        lines.push("  files of the repository that will run:");
    }
    for file in &entry.files {
        let hash = file.sha256.get(..12).unwrap_or(&file.sha256);
        lines.push(format!("    {} (sha256 {hash}…)", name(&file.path)));
    }
    let changes = standing::difference_lines(&standing::differences(server));
    if !changes.is_empty() {
        lines.push("  changed since you approved it:");
    }
    for line in changes {
        lines.push_whole(format!("    {line}"));
    }
    for change in scripts::changes(server, root) {
        lines.push(format!("  {}: {}", name(&change.path), change.facts));
        for line in change.lines {
            let (style, mark, text) = match &line {
                ScriptLine::Note(text) => (Style::Dim, "", text),
                ScriptLine::Same(text) => (Style::Plain, "  ", text),
                ScriptLine::Removed(text) => (Style::Failed, "- ", text),
                ScriptLine::Added(text) => (Style::Done, "+ ", text),
            };
            // A line of the file never starts a row, so it cannot pass for ours.
            let mut shown = Line::plain("    ");
            shown.push_whole(style, format_args!("{mark}{text}"));
            lines.push_line(shown.hang(6));
        }
    }
    lines
}

/// Warns if the servers still do not run, because of a rejection elsewhere or of policy.
fn warn_if_still_blocked(config: &ConfigArgs, names: &[&str]) {
    let Ok(configured) = session::configuration(config) else {
        return;
    };
    for server in &configured.set.servers {
        if !names.contains(&server.entry.name.as_str()) || !server.entry.needs_approval() {
            continue;
        }
        if let Some((reason, _)) = standing::reason(server) {
            let name = &server.entry.name;
            output::warning(&format!("\"{name}\" still does not run: {reason}"));
        }
    }
}

pub(crate) fn reject(config: &ConfigArgs, names: &[String], as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Err(exit) = selected(&configured, names) {
        return exit;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match configured.editor().reject(&names) {
        Ok(written) => {
            let what = format!("rejected {}", quoted_list(&names));
            let document = json!({"rejected": names, "file": change::path(&written)});
            change::report(&what, &written, document, as_json)
        }
        Err(error) => change::fail(&error, None),
    }
}

pub(crate) fn reset(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let changed = match configured.editor().reset_approvals() {
        Ok(changed) => changed,
        Err(error) => return change::fail(&error, None),
    };
    let files: Vec<String> = changed.iter().map(change::path).collect();
    let Some(written) = changed.first() else {
        if as_json {
            output::json(&json!({"reset": false, "files": files}));
        } else {
            output::result("this project has no approvals or rejections");
        }
        return Exit::Done;
    };
    let what = "forgot all approvals and rejections of this project";
    let document = json!({"reset": true, "file": change::path(written), "files": files});
    let exit = change::report(what, written, document, as_json);
    for written in changed.iter().skip(1).filter(|_| !as_json) {
        let file = change::path(written);
        output::result(Lines::one(format!("  written to {file}")));
    }
    exit
}

fn quoted_list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}
