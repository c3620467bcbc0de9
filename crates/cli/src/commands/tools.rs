//! `trunkline tools`: shows the tools of all servers, or of one, as a model sees them.

use std::fmt::Write as _;

use serde::Serialize;
use trunkline::{Found, Host, Json, PoolTool, ServerSet, State, nearest};
use trunkline_config::Standing;

use crate::args::{ConfigArgs, ToolFormat};
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::session::{self, Configured};
use crate::standing;

/// How much of a description is shown on one line.
pub(super) const SHOWN: usize = 100;

pub(crate) async fn run(
    config: &ConfigArgs,
    server: Option<&str>,
    format: Option<ToolFormat>,
    as_json: bool,
) -> Exit {
    with_servers(config, server, async |host| {
        let pool = host.pool();
        let tools = pool.offered().map(|tool| &**tool);
        match format {
            Some(format) => output::json_text(&pool.export(format.into())),
            None if as_json => output::json(&document(tools)),
            None => output::result(&table(tools)),
        }
    })
    .await
}

/// Connects to all servers, or to one, shows what they offer, and says which cannot offer anything, and why.
pub(super) async fn with_servers(
    config: &ConfigArgs,
    server: Option<&str>,
    show: impl AsyncFnOnce(&Host),
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
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
        match report_failures(&host) {
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
    output::error(what, hint);
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
fn report_failures(host: &Host) -> Exit {
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
            let name = standing::quoted(&server.name);
            output::warning(&format!(
                "server \"{}\" is disabled; `trunkline enable {name}` switches it on",
                server.name
            ));
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

/// One tool a line.
pub(crate) fn table<'a>(tools: impl Iterator<Item = &'a PoolTool>) -> String {
    let mut text = String::new();
    for tool in tools {
        let first_line = tool
            .description
            .trim_start()
            .lines()
            .next()
            .unwrap_or_default();
        let mut shown: String = first_line.chars().take(SHOWN).collect();
        if shown.len() < first_line.len() {
            shown.push('…');
        }
        let _ = writeln!(text, "{}  {}", tool.name, harmless(&shown));
    }
    text
}

/// Tools for `--json`.
pub(crate) fn document<'a>(tools: impl Iterator<Item = &'a PoolTool>) -> impl Serialize {
    tools.map(ToolJson::of).collect::<Vec<_>>()
}

/// Tools that were found, for `--json`.
pub(crate) fn found_document(found: &[Found]) -> impl Serialize {
    fn scored(found: &Found) -> ToolJson<'_> {
        ToolJson {
            score: Some((f64::from(found.score) * 1000.0).round() / 1000.0),
            ..ToolJson::of(&found.tool)
        }
    }
    found.iter().map(scored).collect::<Vec<_>>()
}

/// One tool, as UI-2 says; its schema is what the server wrote, byte for byte.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolJson<'a> {
    name: &'a str,
    server: &'a str,
    original_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: &'a str,
    input_schema: &'a Json,
    read_only: bool,
    destructive: bool,
    open_world: bool,
    always_load: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

impl<'a> ToolJson<'a> {
    fn of(tool: &'a PoolTool) -> Self {
        Self {
            name: &tool.name,
            server: &tool.server,
            original_name: &tool.tool.name,
            title: tool.title.as_deref(),
            description: &tool.description,
            input_schema: &tool.tool.input_schema,
            read_only: tool.is_read_only(),
            destructive: tool.is_destructive(),
            open_world: tool.is_open_world(),
            always_load: tool.always_load,
            search_hint: tool.search_hint.as_deref(),
            score: None,
        }
    }
}
