//! `trunkline call`: calls one tool.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use trunkline::connectors::ClaudeAi;
use trunkline::{
    CallError, CallOptions, CallOutput, Content, Host, Json, OnChange, Progress, SavedFile, State,
    may_belong_to, nearest,
};
use trunkline_config::{CONNECTOR_PREFIX, Server};

use super::tools::no_servers;
use crate::args::{CallArgs, ConfigArgs};
use crate::arguments;
use crate::exit::Exit;
use crate::output::{self, StatusLine};
use crate::permit::Typed;
use crate::session::{self, Configured};
use crate::standing;

pub(crate) async fn run(config: &ConfigArgs, call: &CallArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let wanted = match Wanted::read(&call.words, &configured) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    configured.warn_about(wanted.servers());
    // Before anything starts: waiting for a person's input must not keep a server waiting.
    let json_args = match read_json_args(call.json_args.as_deref()) {
        Ok(json_args) => json_args,
        Err(problem) => {
            output::error(&problem, None);
            return Exit::Usage;
        }
    };
    let timeout = call.timeout.map(Duration::from_millis);
    let (wanted, json_args) = (&wanted, json_args.as_deref());
    let accept_changes = call.accept_changes;
    let mut builder = configured
        .host()
        .only(wanted.servers())
        .permit(Typed { accept_changes });
    if accept_changes {
        // Whatever is done about changes otherwise, these are agreed to.
        builder = builder.on_change(OnChange::Ask);
    }
    if !as_json {
        builder = builder.results(session::results().for_people());
    }
    if let Some(connectors) = wanted.connectors() {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        let started = Instant::now();
        if !ready_in_time(&host, timeout).await {
            return Exit::TimedOut;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let options = CallOptions {
            timeout: left,
            unchecked: call.no_validate,
            ..CallOptions::default()
        };
        call_and_show(&host, wanted, json_args, options, as_json).await
    })
    .await
}

/// Waits for the servers, but not longer than the user said; false, explained, if that was not enough.
pub(crate) async fn ready_in_time(host: &Host, timeout: Option<Duration>) -> bool {
    let Some(timeout) = timeout else {
        session::ready(host).await;
        return true;
    };
    let ready = tokio::time::timeout(timeout, session::ready(host))
        .await
        .is_ok();
    if !ready {
        let waited_for = session::starting(host, |_| true);
        let limit = timeout.as_millis();
        let what = format!("no connection to {waited_for} within {limit} ms");
        output::error(&what, Some(MORE_TIME));
    }
    ready
}

pub(crate) const MORE_TIME: &str = "--timeout (ms) gives it more time";

/// Which tool is wanted, and the words behind it.
enum Wanted<'a> {
    /// `<server> <tool>`
    Of {
        server: &'a str,
        tool: &'a str,
        words: &'a [String],
    },
    /// `mcp__<server>__<tool>`
    Named { name: &'a str, words: &'a [String] },
}

impl<'a> Wanted<'a> {
    fn read(words: &'a [String], configured: &Configured) -> Result<Self, Exit> {
        let names = configured.names();
        let is_known = |name: &str| names.contains(&name) || name.starts_with(CONNECTOR_PREFIX);
        if names.is_empty() && session::connectors(configured.loader.layout()).is_none() {
            return Err(no_servers(configured));
        }
        match words {
            [name, words @ ..] if name.starts_with("mcp__") && !is_known(name) => {
                let of_it = || {
                    let all = configured.set.servers.iter();
                    all.filter(|server| may_belong_to(name, &server.entry.name))
                };
                let runs = |server: &Server| standing::reason(server).is_none();
                match of_it().next() {
                    Some(server) if !of_it().any(runs) => Err(standing::refuse(server)),
                    _ => Ok(Self::Named { name, words }),
                }
            }
            [server, ..] if !is_known(server) => Err(configured.unknown(server)),
            [server, tool, words @ ..] => {
                if let Some(server) = configured.foremost(server)
                    && standing::reason(server).is_some()
                {
                    return Err(standing::refuse(server));
                }
                Ok(Self::Of {
                    server,
                    tool,
                    words,
                })
            }
            _ => {
                let hint = "write `call <server> <tool>`; `trunkline tools <server>` shows them";
                output::error("which tool?", Some(hint));
                Err(Exit::Usage)
            }
        }
    }

    /// Which servers may have it; no other need start.
    fn servers(&self) -> impl Fn(&str) -> bool + Send + Sync + 'static + use<> {
        let (exact, name) = match self {
            Self::Of { server, .. } => (true, (*server).to_owned()),
            Self::Named { name, .. } => (false, (*name).to_owned()),
        };
        move |server| {
            if exact {
                server == name
            } else {
                may_belong_to(&name, server)
            }
        }
    }

    /// Who lists the connectors, if it may be one's.
    fn connectors(&self) -> Option<ClaudeAi> {
        let may_be = match self {
            Self::Of { server, .. } => server.starts_with(CONNECTOR_PREFIX),
            Self::Named { name, .. } => name.starts_with("mcp__claude_ai_"),
        };
        may_be
            .then(|| session::connectors(&session::layout()))
            .flatten()
    }

    fn words(&self) -> &'a [String] {
        match self {
            Self::Of { words, .. } | Self::Named { words, .. } => words,
        }
    }
}

async fn call_and_show(
    host: &Host,
    wanted: &Wanted<'_>,
    json_args: Option<&str>,
    mut options: CallOptions,
    as_json: bool,
) -> Exit {
    let pool = host.pool();
    let found = match wanted {
        Wanted::Of { server, tool, .. } => pool.find(server, tool),
        Wanted::Named { name, .. } => pool.get(name),
    };
    let Some(tool) = found else {
        return explain_missing(host, wanted);
    };
    let arguments = match arguments::read(wanted.words(), json_args, Some(&tool.tool.input_schema))
    {
        Ok(arguments) => arguments,
        Err(problem) => {
            output::error(&problem, None);
            return Exit::Usage;
        }
    };
    for name in arguments::unknown(&arguments, &tool.tool.input_schema) {
        output::warning(&format!(
            "\"{}\" says nothing of an argument \"{name}\"",
            tool.tool.name
        ));
    }
    let mut line = StatusLine::new();
    options.on_progress = Some(Box::new(move |progress| line.show(&describe(&progress))));
    let timeout = options.timeout;
    match host.call(&tool.name, arguments, options).await {
        Ok(output) => {
            show(&output, as_json);
            for problem in &output.warnings {
                output::warning(problem);
            }
            if output.is_error {
                Exit::Failed
            } else {
                Exit::Done
            }
        }
        Err(error) if error.is_timeout() && timeout.is_some() => {
            output::error(&error.to_string(), Some(MORE_TIME));
            Exit::TimedOut
        }
        Err(error) => fail(&error),
    }
}

/// The value of `--json-args`, from standard input if it says so.
fn read_json_args(given: Option<&str>) -> Result<Option<String>, String> {
    if given != Some("-") {
        return Ok(given.map(str::to_owned));
    }
    let mut input = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut input);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    Ok(Some(input))
}

/// One step of progress, for people.
pub(crate) fn describe(progress: &Progress) -> String {
    let message = progress.message.as_deref().unwrap_or_default();
    match progress.total {
        Some(total) => format!("[{}/{total}] {message}", progress.progress),
        None => format!("[{}] {message}", progress.progress),
    }
}

/// Says why a tool is not there: its server failed, or there is none of that name.
fn explain_missing(host: &Host, wanted: &Wanted<'_>) -> Exit {
    let servers = host.servers();
    for server in &servers {
        if let Some(failure) = server.state.failure() {
            output::error(
                &format!("could not connect to \"{}\": {failure}", server.name),
                failure.hint(),
            );
            output::stderr_lines(&failure.stderr);
            return Exit::NotConnected;
        }
        if matches!(server.state, State::NeedsAuth) {
            let what = format!("the server \"{}\" asks for a sign-in", server.name);
            output::error(&what, server.state.hint());
            return Exit::NeedsAuth;
        }
        // A list that could not be fetched explains it better than any guess.
        let failed = |problem: &&String| problem.starts_with("tools/list failed");
        if let Some(problem) = server.catalog.diagnostics.iter().find(failed) {
            output::error(
                &format!("the tools of \"{}\" are not known: {problem}", server.name),
                None,
            );
            if let State::Connected(connected) = &server.state {
                output::stderr_lines(&connected.stderr(10));
            }
            return Exit::NotConnected;
        }
    }
    if let Some(server) = servers
        .iter()
        .find(|server| matches!(server.state, State::Disabled))
    {
        let hint = format!(
            "`trunkline enable {}` switches it on",
            standing::quoted(&server.name)
        );
        let what = format!("the server \"{}\" is disabled", server.name);
        output::error(&what, Some(&hint));
        return Exit::NotConnected;
    }
    let pool = host.pool();
    let (what, near) = match wanted {
        Wanted::Of { server, tool, .. } => (
            format!("the server \"{server}\" has no tool \"{tool}\""),
            nearest(tool, pool.tools().iter().map(|tool| &*tool.tool.name)),
        ),
        Wanted::Named { name, .. } => (
            format!("there is no tool \"{name}\""),
            nearest(name, pool.tools().iter().map(|tool| tool.name.as_str())),
        ),
    };
    let hint = match near {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "`trunkline tools` shows what there is".to_owned(),
    };
    for problem in servers
        .iter()
        .flat_map(|server| server.catalog.diagnostics.iter())
    {
        output::warning(problem);
    }
    output::error(&what, Some(&hint));
    Exit::Usage
}

/// Shows what a tool gave back.
pub(crate) fn show(result: &CallOutput, as_json: bool) {
    if as_json {
        output::json(&document(result));
        return;
    }
    for block in &result.content {
        match block.text() {
            Some(text) => output::tool_text(&text),
            None => output::tool_text(&summary(block)),
        }
    }
    if let (true, Some(structured)) = (result.content.is_empty(), &result.structured_content) {
        output::tool_text(structured.as_str());
    }
    if result.is_error {
        output::note("the tool reported an error\n");
    }
}

/// One line in place of a block that is not text.
pub(crate) fn summary(block: &Content) -> String {
    let raw = block.to_json();
    let field = |name: &str| raw.field::<String>(name);
    let kind = block.kind();
    match kind {
        "image" | "audio" => {
            let size = field("data").map_or(0, |data| data.len() / 4 * 3);
            let mime = field("mimeType").unwrap_or_default();
            format!("[{kind} {mime}, about {size} bytes; --json shows it]")
        }
        "resource_link" => format!("[resource {}]", field("uri").unwrap_or_default()),
        "resource" => {
            let resource = raw.get("resource");
            let text = resource
                .as_ref()
                .and_then(|resource| resource.field::<String>("text"));
            let uri = resource
                .as_ref()
                .and_then(|resource| resource.field::<String>("uri"));
            text.unwrap_or_else(|| {
                format!("[resource {}; --json shows it]", uri.unwrap_or_default())
            })
        }
        _ => raw.to_string(),
    }
}

/// A result for `--json`.
pub(crate) fn document(result: &CallOutput) -> impl Serialize {
    ResultJson::of(result)
}

/// A result, as UI-2 says; what is left of it as the server sent it is so byte for byte.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultJson<'a> {
    content: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Json>,
    is_error: bool,
    files: Vec<FileJson<'a>>,
}

/// What was saved instead of being in the content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileJson<'a> {
    path: &'a Path,
    mime_type: &'a str,
    size: u64,
}

impl<'a> ResultJson<'a> {
    fn of(result: &'a CallOutput) -> Self {
        Self {
            content: result.content.iter().map(Content::to_json).collect(),
            structured_content: result.structured_content.as_ref(),
            is_error: result.is_error,
            files: result.files.iter().map(FileJson::of).collect(),
        }
    }
}

impl<'a> FileJson<'a> {
    fn of(file: &'a SavedFile) -> Self {
        Self {
            path: &file.path,
            mime_type: &file.mime_type,
            size: file.size,
        }
    }
}

/// Explains why a call has no result.
pub(crate) fn fail(error: &CallError) -> Exit {
    let hint = match error {
        CallError::InvalidArguments { .. } => Some(
            "`trunkline tools --json` shows its schema; --no-validate sends them all the same"
                .to_owned(),
        ),
        CallError::Changed { .. } => Some(
            "if this is what you want, --accept-changes calls it and takes it for what it is now"
                .to_owned(),
        ),
        error => error.hint(),
    };
    if let CallError::Changed { change, .. } = error {
        output::note(&output::harmless_lines(&format!("{}\n", change.diff())));
    }
    output::error(&error.to_string(), hint.as_deref());
    output::stderr_lines(error.stderr());
    error.into()
}
