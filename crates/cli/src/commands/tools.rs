//! `trunkline tools`: shows the tools of all servers, or of one, as a model sees them.

use std::fmt::Write as _;

use trunkline::{Host, LoadMode, ModelTools, PoolTool, ServerSet, State, nearest};
use trunkline_config::Standing;

use super::resources::first_line;
use super::tool;
pub(crate) use super::tool_json::document;
use super::tool_json::marked_document;
use super::wanted::Wanted;
use crate::args::{ConfigArgs, ToolFormat};
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::session::{self, Configured};
use crate::standing;

pub(crate) async fn run(
    config: &ConfigArgs,
    words: &[String],
    format: Option<ToolFormat>,
    as_json: bool,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let server = match words {
        [] => None,
        [word] if !Wanted::is_tool(word, &configured) => Some(word.as_str()),
        words => return tool::run(configured, words, format, as_json).await,
    };
    with_configured(configured, server, async |host| {
        let pool = host.pool();
        let tools = pool.offered().map(|tool| &**tool);
        match format {
            Some(format) => output::json_text(&permitted(host).export(format.into())),
            None if as_json => output::json(&marked_document(host, tools)),
            None => output::result(&table(tools, |tool| is_denied(host, tool))),
        }
        if pool.offered().next().is_none() {
            nothing(host, "tools");
        }
    })
    .await
}

/// Says that there is nothing to show, where that is not because no server runs.
pub(super) fn nothing(host: &Host, what: &str) {
    let servers = host.servers();
    if servers
        .iter()
        .any(|server| matches!(server.state, State::Connected(_)))
    {
        output::note(&format!("there are no {what}\n"));
    }
}

/// The tools that a model is shown: those that a rule denies are of no use to it.
fn permitted(host: &Host) -> ModelTools {
    let mut tools = host.pool().for_model(LoadMode::All, 0);
    let count = tools.own.len() + tools.loaded.len();
    tools.own.retain(|tool| host.denial(&tool.name).is_none());
    tools.loaded.retain(|tool| !is_denied(host, tool));
    let left_out = count - tools.own.len() - tools.loaded.len();
    let marks = "`trunkline tools` marks";
    match left_out {
        0 => {}
        1 => output::note(&format!(
            "1 tool is left out, because a rule denies it; {marks} it\n"
        )),
        count => output::note(&format!(
            "{count} tools are left out, because rules deny them; {marks} them\n"
        )),
    }
    tools
}

fn is_denied(host: &Host, tool: &PoolTool) -> bool {
    host.denial(&tool.name).is_some()
}

/// Reads the configuration, and does as [`with_configured`].
pub(super) async fn with_servers(
    config: &ConfigArgs,
    server: Option<&str>,
    show: impl AsyncFnOnce(&Host),
) -> Exit {
    match session::configuration(config) {
        Ok(configured) => with_configured(configured, server, show).await,
        Err(exit) => exit,
    }
}

/// Connects to all servers, or to one, shows what they offer, and says which cannot offer anything, and why.
async fn with_configured(
    configured: Configured,
    server: Option<&str>,
    show: impl AsyncFnOnce(&Host),
) -> Exit {
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
    let mut builder = configured.host();
    if let Some(wanted) = wanted {
        builder = builder.only(move |name| name == wanted);
    }
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        let set = host.config();
        for diagnostic in &set.diagnostics {
            let about = diagnostic.server.as_deref();
            if server.is_none() || about.is_none() || about == server {
                output::warning(&diagnostic.to_string());
            }
        }
        if let (Some(name), true) = (server, set.servers.is_empty()) {
            return unknown_server(name, known.iter().map(String::as_str));
        }
        report_refusals(&set);
        show(&host).await;
        match report_failures(&host, server) {
            Exit::Done if host.servers().is_empty() && !set.servers.is_empty() => Exit::Refused,
            exit => exit,
        }
    })
    .await
}

/// Explains that there is nothing to work with.
pub(crate) fn no_servers(configured: &Configured) -> Exit {
    configured.warn();
    let (what, hint) = if configured.set.exclusive.is_some() {
        (
            "the enterprise configuration has exclusive control and no servers",
            None,
        )
    } else if configured.diagnostics().is_empty() {
        (
            "no servers are configured",
            Some(
                "add one with `trunkline add`, name a file with --mcp-config FILE, or see it all at work with `trunkline demo`",
            ),
        )
    } else {
        (
            "no servers could be loaded",
            Some("mend what is named above"),
        )
    };
    let loader = &configured.loader;
    let above = session::project_above(loader.layout(), &loader.project().cwd);
    output::error(what, above.as_deref().or(hint));
    Exit::Usage
}

/// Says which servers may not run, and why.
fn report_refusals(set: &ServerSet) {
    for server in &set.servers {
        if matches!(
            server.standing,
            Standing::Shadowed { .. } | Standing::Suppressed { .. }
        ) {
            continue;
        }
        if let Some((reason, hint)) = standing::reason(server) {
            output::warning(&format!(
                "server \"{}\" does not run: {reason}",
                server.entry.name
            ));
            if let Some(hint) = hint {
                output::note(&format!("  hint: {}\n", harmless(&hint)));
            }
        }
    }
}

/// Explains that there is no such server.
pub(crate) fn unknown_server<'a>(
    wanted: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Exit {
    let hint = match nearest(wanted, known.clone()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.clone().next().is_none() => "no servers are configured".to_owned(),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    output::error(&format!("there is no server \"{wanted}\""), Some(&hint));
    Exit::Usage
}

/// Says which servers failed, which lists could not be used, and why; an error only if no server is left.
fn report_failures(host: &Host, only: Option<&str>) -> Exit {
    let servers = host.servers();
    let mut failed = 0;
    for server in &servers {
        for problem in &*server.catalog.diagnostics {
            output::warning(&format!("server \"{}\": {problem}", server.name));
        }
        if let Some(failure) = server.state.failure() {
            failed += 1;
            output::error(
                &format!("server \"{}\": {failure}", server.name),
                failure.hint(),
            );
            output::stderr_lines(&failure.stderr);
        }
        if matches!(server.state, State::NeedsAuth) {
            let what = format!("server \"{}\" asks for a sign-in", server.name);
            output::error(&what, server.state.hint());
        }
        if matches!(server.state, State::Disabled) {
            if only.is_some() {
                return standing::disabled(&server.name);
            }
            let how = standing::enabling(&server.name);
            output::warning(&format!("server \"{}\" is disabled; {how}", server.name));
        }
    }
    for problem in host.pool().diagnostics() {
        output::warning(problem);
    }
    if failed > 0 && failed == servers.len() {
        Exit::NotConnected
    } else {
        Exit::Done
    }
}

/// One tool a line; one that a rule denies is marked.
pub(crate) fn table<'a>(
    tools: impl Iterator<Item = &'a PoolTool>,
    is_denied: impl Fn(&PoolTool) -> bool,
) -> String {
    let mut text = String::new();
    for tool in tools {
        let mark = if is_denied(tool) { "[denied] " } else { "" };
        let shown = first_line(&tool.description);
        let _ = writeln!(text, "{}  {mark}{}", tool.name, harmless(&shown));
    }
    text
}
