//! `trunkline call`: calls one tool.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::call::{CallErrorKind, Progress};
use trunkline::elicit::Form;
use trunkline::server::State;
use trunkline::tool::OnChange;
use trunkline::{CallError, CallOptions, Host, Json};

use super::arguments_form;
pub(crate) use super::result::document;
use super::result::{Presentation, show};
use super::tool_ref::{ResolvedTool, ToolRef};
use crate::args::{CallArgs, ConfigArgs};
use crate::arguments::{self, CallArguments};
use crate::elicit::{ElicitFlags, TerminalElicit};
use crate::exit::Exit;
use crate::output::{self, Lines, StatusLine};
use crate::permit::TypedCalls;
use crate::session;
use crate::standing::{self, last_word, quoted};

pub(crate) async fn run(config: &ConfigArgs, call: &CallArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let wanted = match ToolRef::parse(&call.words, &configured) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    configured.warn_about(wanted.servers());
    // Parse arguments before any server starts, so that a mistake costs no start.
    let given = read_json_args(call.json_args.as_deref())
        .and_then(|json_args| CallArguments::parse(wanted.words(), json_args.as_deref()));
    let flags = ElicitFlags::parse(&call.elicit, call.elicit_defaults, call.no_input);
    let (given, flags) = match given.and_then(|given| Ok((given, Arc::new(flags?)))) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let shown = wanted.usage_hint();
            output::error(&problem, Some(&shown));
            return Exit::Usage;
        }
    };
    let timeout = call.timeout;
    let (wanted, given) = (&wanted, &given);
    let has_json_args = call.json_args.is_some();
    let elicit = TerminalElicit::new(Arc::clone(&flags));
    let accept_changes = call.accept_changes;
    let mut builder = wanted
        .host(configured)
        .permit(TypedCalls { accept_changes })
        .elicit(elicit);
    if accept_changes {
        // --accept-changes overrides `warn` and `block`.
        builder = builder.on_change(OnChange::Ask);
    }
    if !as_json {
        builder = builder.results(session::results().for_people());
    }
    session::with_host(builder, |host| async move {
        let started = Instant::now();
        if !ready_in_time(&host, timeout).await {
            return Exit::TimedOut;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        let options = CallOptions::new().timeout(left).unchecked(call.no_validate);
        let style = Presentation::new(as_json, call.raw);
        let asks = given.is_empty() && !has_json_args && !call.no_input && output::can_prompt();
        let exit = call_and_show(&host, wanted, (given, asks), (options, timeout), style).await;
        if exit == Exit::Done {
            warn_of_unused(&flags);
        }
        exit
    })
    .await
}

/// Warns of `--elicit` keys that no question had: probably misspelt.
fn warn_of_unused(flags: &ElicitFlags) {
    for key in flags.unused() {
        output::warning(&format!("--elicit: the server did not ask for \"{key}\""));
    }
}

/// Waits for the servers within the timeout. Reports it and returns false on expiry.
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

pub(crate) const MORE_TIME: &str = "allow more time with --timeout";

/// Adds the command that shows the server's log to a hint.
pub(crate) fn with_logs(hint: &str, server: &str) -> String {
    let server = last_word(server);
    format!("{hint}; see `trunkline logs {server}`")
}

/// A call in flight. Notes on an interrupt that the tool may have run.
struct InFlight<'n> {
    name: &'n str,
    ended: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // During a prompt the call has not been sent.
        if !self.ended && !output::asking() {
            let what = format!("interrupted; \"{}\" may have run", self.name);
            output::note(Lines::one(&what));
        }
    }
}

async fn call_and_show(
    host: &Host,
    wanted: &ToolRef<'_>,
    (given, asks): (&CallArguments, bool),
    (options, asked): (CallOptions<'_>, Option<Duration>),
    style: Presentation,
) -> Exit {
    let pool = host.pool();
    let Some(found) = wanted.find(&pool) else {
        return wanted.report_missing(host);
    };
    let (name, server, schema) = match &found {
        ResolvedTool::Server(tool) => (&tool.name, Some(&*tool.server), &tool.tool.input_schema),
        ResolvedTool::BuiltIn(tool) => (&tool.name, None, &tool.input_schema),
    };
    let shown = wanted.usage_hint();
    let form = asks.then(|| Form::from_schema(schema));
    let form = form.filter(|form| form.fields.iter().any(|field| field.required));
    let arguments = match form {
        None => given.to_json(schema),
        Some(form) => match arguments_form::ask(form, wanted).await {
            Ok(arguments) => arguments,
            Err(exit) => return exit,
        },
    };
    warn_of_unknown(wanted, &arguments, schema, &shown);
    // The name in the pool would leave no room for the progress.
    let mut line = StatusLine::about(match &found {
        ResolvedTool::Server(tool) => &tool.tool.name,
        ResolvedTool::BuiltIn(tool) => &tool.name,
    });
    let options = options.on_progress(|progress| {
        line.progress(&describe(&progress), fraction(&progress));
    });
    let mut in_flight = InFlight { name, ended: false };
    let outcome = host.call(name, arguments, options).await;
    in_flight.ended = true;
    // Erase the progress before anything is printed over it.
    drop(line);
    match outcome {
        Ok(output) => {
            show(&output, server, style);
            for problem in &output.warnings {
                output::warning(problem);
            }
            if output.is_error {
                Exit::Failed
            } else {
                Exit::Done
            }
        }
        Err(mut error) => {
            // Report the timeout as given, not the part left after connecting.
            if let Some(asked) = asked {
                error = error.with_timeout(asked);
            }
            fail_within(&error, asked.is_some(), server.is_none())
        }
    }
}

/// Returns the hint to the arguments of a tool.
fn usage_hint(server: Option<&str>, tool: &str) -> String {
    let words: Vec<_> = server.into_iter().chain([tool]).map(quoted).collect();
    format!(
        "see `trunkline tools {}` for its arguments",
        words.join(" ")
    )
}

impl ToolRef<'_> {
    /// Returns the hint to the arguments of the tool.
    fn usage_hint(&self) -> String {
        match self {
            Self::Of { server, tool, .. } => usage_hint(Some(server), tool),
            Self::Named { name, .. } | Self::BuiltIn { name, .. } => usage_hint(None, name),
        }
    }
}

/// Warns of arguments that the tool does not declare: probably misspelt.
fn warn_of_unknown(wanted: &ToolRef, arguments: &Json, schema: &Json, shown: &str) {
    let unknown = arguments::unknown(arguments, schema);
    let tool = match wanted {
        ToolRef::Of { tool, .. } => tool,
        ToolRef::Named { name, .. } | ToolRef::BuiltIn { name, .. } => name,
    };
    for name in &unknown {
        output::warning(&format!(
            "\"{tool}\" does not declare an argument \"{name}\""
        ));
    }
    if !unknown.is_empty() {
        output::hint(shown);
    }
}

/// Returns the value of `--json-args`, read from stdin for `-`.
fn read_json_args(given: Option<&str>) -> Result<Option<String>, String> {
    if given != Some("-") {
        return Ok(given.map(str::to_owned));
    }
    let mut input = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut input);
    read.map_err(|error| format!("cannot read stdin: {error}"))?;
    if input.trim().is_empty() {
        return Err(
            "stdin is empty; --json-args - expects a JSON object, such as {\"a\": 1}".to_owned(),
        );
    }
    Ok(Some(input))
}

/// Formats a progress notification.
pub(crate) fn describe(progress: &Progress) -> String {
    let message = progress.message.as_deref().unwrap_or_default();
    match progress.total {
        Some(total) => format!("[{}/{total}] {message}", progress.progress),
        None => format!("[{}] {message}", progress.progress),
    }
}

/// Returns the done part of a known total.
pub(crate) fn fraction(progress: &Progress) -> Option<f64> {
    let total = progress.total.filter(|total| *total > 0.0)?;
    Some(progress.progress / total)
}

/// Reports a failed call.
pub(crate) fn fail(error: &CallError) -> Exit {
    fail_within(error, false, false)
}

/// Reports a failed call; `limited` if the user set a timeout, `own` for a built-in tool.
fn fail_within(error: &CallError, limited: bool, own: bool) -> Exit {
    let (kind, server) = (error.kind(), error.server());
    let hint = match (kind, server, error.tool()) {
        (CallErrorKind::InvalidArguments, Some(server), Some(tool)) => {
            let shown = usage_hint(Some(server).filter(|_| !own), tool);
            Some(format!("{shown}; --no-validate sends them anyway"))
        }
        _ if error.change().is_some() => {
            Some("to accept the change, pass --accept-changes".to_owned())
        }
        _ if error.rule().is_some_and(|rule| rule.is_unreadable) => {
            Some("correct the file; `trunkline list` shows what is wrong with it".to_owned())
        }
        _ if error.rule().is_some() => Some("to allow it, remove the rule".to_owned()),
        (_, Some(server), _) if matches!(error.state(), Some(State::Disabled)) => {
            Some(standing::enable_hint(server))
        }
        (CallErrorKind::Timeout, ..) => {
            let hint = if limited {
                Some(MORE_TIME.to_owned())
            } else {
                error.hint()
            };
            let server = server.filter(|_| !own);
            hint.map(|hint| server.map_or(hint.clone(), |server| with_logs(&hint, server)))
        }
        (CallErrorKind::AuthRequired, Some(server), _) => Some(standing::login_hint(server)),
        _ => error.hint(),
    };
    // The prompt has shown the diff already.
    if let (Some(change), false) = (error.change(), output::asked()) {
        output::block(&change.diff());
    }
    output::error(&error.to_string(), hint.as_deref());
    if let Some(change) = error.change() {
        output::json_diff(&change.diff());
    }
    if let Some(server) = server {
        output::stderr_lines(server, error.stderr());
    }
    error.into()
}
