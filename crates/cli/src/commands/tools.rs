//! `trunkline tools`: lists tools as a model sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline::Host;
use trunkline::config::ServerSet;
use trunkline::server::{ServerStatus, State};
use trunkline::text::nearest;
use trunkline::tool::{ModelTools, PoolTool, TOOL_SEARCH};
use trunkline_config::{EntryStatus, env_vars};

use super::list::count;
use super::resources::first_line;
use super::tool;
use super::tool_json::marked_document;
use super::tool_ref::ToolRef;
use crate::args::{ConfigArgs, ToolFormat};
use crate::background::Checker;
use crate::exit::Exit;
use crate::output::{self, Column, Group, Line, Lines, Stream, Style, Table, name};
use crate::session::{self, Configured, Patience};
use crate::standing::{self, last_word};
use crate::stored::{self, Catalogs};

pub(crate) async fn run(
    config: &ConfigArgs,
    words: &[String],
    format: Option<ToolFormat>,
    catalogs: Catalogs,
    as_json: bool,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured.with_catalogs(catalogs),
        Err(exit) => return exit,
    };
    let server = match words {
        [] => None,
        [word] if !ToolRef::is_tool(word, &configured) => Some(word.as_str()),
        words => return tool::run(configured, words, format, as_json).await,
    };
    with_configured(configured, server, async |host| {
        let pool = host.pool();
        let tools = pool.offered().map(|tool| &**tool);
        match format {
            Some(format) => output::json_text(&offered(host).export(format.into())),
            None if as_json => output::json(&marked_document(host, tools)),
            None => output::paged(by_server(tools, |tool| is_denied(host, tool))),
        }
        if pool.offered().next().is_none() {
            note_empty(host, "tools");
        }
    })
    .await
}

/// Notes that a connected server has nothing to list.
pub(super) fn note_empty(host: &Host, what: &str) {
    let servers = host.servers();
    if servers
        .iter()
        .any(|server| server.catalog.cached || matches!(server.state, State::Connected(_)))
    {
        output::note(Lines::one(format!("no {what}")));
    }
}

/// Returns the tools offered to a model, with notes on the others.
fn offered(host: &Host) -> ModelTools {
    let tools = host.tools_for_model(None);
    let marks = "`trunkline tools` marks";
    match tools.denied.len() {
        0 => {}
        1 => output::note(Lines::one(format!(
            "1 tool is denied by a rule and not included; {marks} it"
        ))),
        count => output::note(Lines::one(format!(
            "{count} tools are denied by rules and not included; {marks} them"
        ))),
    }
    if !tools.deferred.is_empty() {
        let (count, set) = (tools.deferred.len(), env_vars::ENABLE_TOOL_SEARCH);
        let tools = if count == 1 { "tool is" } else { "tools are" };
        output::note(Lines::one(format!(
            "{count} {tools} deferred to {TOOL_SEARCH}; set {set}=false to include all"
        )));
    }
    tools
}

fn is_denied(host: &Host, tool: &PoolTool) -> bool {
    host.denial(&tool.name).is_some()
}

/// Loads the configuration, then runs [`with_configured`].
pub(super) async fn with_servers(
    config: &ConfigArgs,
    server: Option<&str>,
    catalogs: Catalogs,
    show: impl AsyncFnOnce(&Host),
) -> Exit {
    match session::configuration(config) {
        Ok(configured) => {
            let configured = configured.with_catalogs(catalogs);
            with_configured(configured, server, show).await
        }
        Err(exit) => exit,
    }
}

/// Gets the catalogs of all servers or of one, runs `show`, and reports the servers that failed.
async fn with_configured(
    configured: Configured,
    server: Option<&str>,
    show: impl AsyncFnOnce(&Host),
) -> Exit {
    let checker = Checker::of(&configured);
    let is_refresh = configured.is_refresh();
    let connectors = session::connectors(configured.loader.layout());
    if configured.set.servers.is_empty() && connectors.is_none() {
        return no_servers(&configured);
    }
    let known: Vec<String> = configured.names().into_iter().map(str::to_owned).collect();
    let wanted = server.map(str::to_owned);
    if let Some(name) = server {
        match configured.foremost(name) {
            Some(server) if standing::reason(server).is_some() => return standing::refuse(server),
            None if connectors.is_none() => return configured.unknown(name),
            _ => {}
        }
    }
    let mut builder = configured.host_with_daemon();
    if let Some(wanted) = wanted {
        builder = builder.only(move |name| name == wanted);
    }
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    // One server is worth waiting for, and --refresh asks to.
    let patience = if server.is_some() || is_refresh {
        Patience::Full
    } else {
        Patience::WhileProgressing
    };
    session::with_ready_host(builder, patience, async |host| {
        let set = host.config();
        for diagnostic in &set.diagnostics {
            let about = diagnostic.server.as_deref();
            if server.is_none() || about.is_none() || about == server {
                output::warning(&diagnostic.to_string());
            }
        }
        if let (Some(name), true) = (server, set.servers.is_empty()) {
            return unknown_server(name, known.iter().map(String::as_str), NO_SERVERS);
        }
        report_refusals(&set);
        show(host).await;
        stored::note(host, &checker);
        match report_failures(host, server) {
            Exit::Done if host.servers().is_empty() && !set.servers.is_empty() => Exit::Refused,
            exit => exit,
        }
    })
    .await
}

/// Reports that there are no servers.
pub(crate) fn no_servers(configured: &Configured) -> Exit {
    configured.warn();
    let (what, hint) = if configured.set.exclusive.is_some() {
        (
            "the enterprise configuration has exclusive control and no servers",
            None,
        )
    } else if let (true, Some(why)) = (configured.diagnostics().is_empty(), configured.left_out()) {
        output::error(why, Some("pass --mcp-config FILE"));
        return Exit::Usage;
    } else if configured.diagnostics().is_empty() {
        (
            NO_SERVERS,
            Some("add one with `trunkline add`, pass --mcp-config FILE, or try `trunkline demo`"),
        )
    } else {
        ("no servers could be loaded", Some("fix the problems above"))
    };
    let loader = &configured.loader;
    let above = session::project_above(loader.layout(), &loader.project().cwd);
    output::error(what, above.as_deref().or(hint));
    Exit::Usage
}

/// Reports the servers that may not run.
fn report_refusals(set: &ServerSet) {
    for server in &set.servers {
        if matches!(
            server.status,
            EntryStatus::Shadowed { .. } | EntryStatus::Suppressed { .. } | EntryStatus::OwnGateway
        ) {
            continue;
        }
        if let Some((reason, hint)) = standing::reason(server) {
            output::warning(&format!(
                "server \"{}\" does not run: {reason}",
                server.entry.name
            ));
            if let Some(hint) = hint {
                output::hint(&hint);
            }
        }
    }
}

/// The message without any servers.
pub(crate) const NO_SERVERS: &str = "no servers are configured";

/// Reports an unknown server; `none` is the hint if there are no others.
pub(crate) fn unknown_server<'a>(
    wanted: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    none: &str,
) -> Exit {
    let hint = match nearest(wanted, known.clone()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.clone().next().is_none() => none.to_owned(),
        None => format!("available: {}", known.collect::<Vec<_>>().join(", ")),
    };
    output::error(&format!("there is no server \"{wanted}\""), Some(&hint));
    Exit::Usage
}

/// Reports failed servers and bad lists; an error only if every server failed. Each of several
/// servers takes at most two lines, because `get` and `logs` have the rest.
fn report_failures(host: &Host, only: Option<&str>) -> Exit {
    let servers = host.servers();
    for server in &servers {
        if only.is_some() || matches!(server.state, State::Connected(_)) {
            for problem in &*server.catalog.diagnostics {
                output::warning(&format!("server \"{}\": {problem}", name(&server.name)));
            }
        }
        match &server.state {
            State::Disabled if only.is_some() => return standing::disabled(&server.name),
            State::Disabled => {
                let how = standing::enable_hint(&server.name);
                let name = name(&server.name);
                output::warning(&format!("server \"{name}\" is disabled; {how}"));
            }
            state => report_state(server, state, only),
        }
    }
    for problem in host.pool().diagnostics() {
        output::warning(problem);
    }
    let failed = |server: &&Arc<ServerStatus>| server.state.failure().is_some();
    match servers.iter().filter(failed).count() {
        failed if failed > 0 && failed == servers.len() => Exit::NotConnected,
        _ => sign_in_exit(host),
    }
}

/// Reports why one server is not connected.
fn report_state(server: &ServerStatus, state: &State, only: Option<&str>) {
    let shown = name(&server.name);
    if let Some(asked) = state.sign_in() {
        let hint = standing::state_hint(server);
        output::error(&format!("server \"{shown}\": {asked}"), hint.as_deref());
    }
    let Some(failure) = state.failure() else {
        if matches!(state, State::Pending { attempt: 1.., .. }) {
            output::warning(&format!(
                "server \"{shown}\" is still starting and not included"
            ));
            let name = last_word(&server.name);
            output::hint(&format!(
                "--refresh waits for it; `trunkline doctor {name}` finds out what it does"
            ));
        }
        return;
    };
    let what = format!("server \"{shown}\": {failure}");
    if only.is_some() {
        output::error(&what, standing::thorough_hint(server).as_deref());
        output::stderr_lines(&server.name, &failure.stderr);
    } else {
        // Without --refresh, `get` would show the stored catalog.
        let refresh = if server.catalog.cached {
            "--refresh "
        } else {
            ""
        };
        let more = format!("see `trunkline get {refresh}{}`", last_word(&server.name));
        let hint = failure.hint().filter(|_| failure.stderr.is_empty());
        let known = standing::known_cause(server);
        let what = known.map_or(what, |cause| format!("server \"{shown}\": {cause}"));
        output::error(&what, hint.or(Some(&more)));
    }
}

/// Returns [`Exit::NeedsAuth`] if every server needs a sign-in.
pub(super) fn sign_in_exit(host: &Host) -> Exit {
    let servers = host.servers();
    let needs_auth = |server: &Arc<ServerStatus>| matches!(server.state, State::NeedsAuth(_));
    if !servers.is_empty() && servers.iter().all(needs_auth) {
        Exit::NeedsAuth
    } else {
        Exit::Done
    }
}

/// Formats tools: grouped by server on a terminal, otherwise one per line with its whole name.
pub(crate) fn by_server<'a>(
    tools: impl Iterator<Item = &'a PoolTool>,
    is_denied: impl Fn(&PoolTool) -> bool,
) -> Lines {
    let Some(width) = output::width(Stream::Out) else {
        return table(tools, is_denied);
    };
    let mut groups: BTreeMap<&str, Vec<&PoolTool>> = BTreeMap::new();
    for tool in tools {
        groups.entry(&tool.server).or_default().push(tool);
    }
    let mut lines = Lines::new();
    for (server, tools) in groups {
        if !lines.is_empty() {
            lines.push_gap();
        }
        let mut group = Group::new(&name(server), &count(tools.len(), "tool"));
        for tool in tools {
            let shown = Line::of(Style::Literal, name(&tool.tool.name));
            group.entry_marked(shown, denied_mark(is_denied(tool)), &tool.description);
        }
        lines.append(group.lines(width));
    }
    lines
}

/// Formats tools in their order, as a table on a terminal.
pub(crate) fn in_order<'a>(
    tools: impl Iterator<Item = &'a PoolTool>,
    is_denied: impl Fn(&PoolTool) -> bool,
) -> Lines {
    let width = output::width(Stream::Out);
    if width.is_none() {
        return table(tools, is_denied);
    }
    let mut found = Table::new([Column::Keep, Column::Keep, Column::Flexible]);
    for tool in tools {
        let mut about = denied_mark(is_denied(tool));
        about.push(Style::Plain, first_line(&tool.description));
        found.row([
            Line::of(Style::Name, name(&tool.server)),
            Line::of(Style::Literal, name(&tool.tool.name)),
            about,
        ]);
    }
    found.lines(width)
}

fn denied_mark(is_denied: bool) -> Line {
    if is_denied {
        Line::of(Style::Failed, "denied").and(Style::Plain, " ")
    } else {
        Line::new()
    }
}

/// Formats one tool per line; denied tools are marked.
fn table<'a>(
    tools: impl Iterator<Item = &'a PoolTool>,
    is_denied: impl Fn(&PoolTool) -> bool,
) -> Lines {
    let mut lines = Lines::new();
    for tool in tools {
        let mark = if is_denied(tool) { "[denied] " } else { "" };
        let shown = first_line(&tool.description);
        lines.push(format!("{}  {mark}{shown}", tool.name));
    }
    lines
}
