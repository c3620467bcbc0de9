//! `trunkline call`: calls one tool.

use std::io::Read;
use std::time::{Duration, Instant};

use trunkline::call::Progress;
use trunkline::server::State;
use trunkline::tool::OnChange;
use trunkline::{CallError, CallOptions, Host, Json};

pub(crate) use super::result::document;
use super::result::show;
use super::wanted::{Found, Wanted};
use crate::args::{CallArgs, ConfigArgs};
use crate::arguments;
use crate::elicit::Unanswered;
use crate::exit::Exit;
use crate::output::{self, Lines, StatusLine};
use crate::permit::Typed;
use crate::session;
use crate::standing::{self, quoted};

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
    // Before anything starts: neither a person's input nor a mistake in it is worth a server's start.
    let json_args = read_json_args(call.json_args.as_deref()).and_then(|given| {
        arguments::read(wanted.words(), given.as_deref(), None)?;
        Ok(given)
    });
    let json_args = match json_args {
        Ok(json_args) => json_args,
        Err(problem) => {
            let shown = wanted.shown_by();
            output::error(&problem, Some(&shown));
            return Exit::Usage;
        }
    };
    let timeout = call.timeout.map(Duration::from_millis);
    let (wanted, json_args) = (&wanted, json_args.as_deref());
    let accept_changes = call.accept_changes;
    let mut builder = wanted
        .host(configured)
        .permit(Typed { accept_changes })
        .elicit(Unanswered);
    if accept_changes {
        // Whatever is done about changes otherwise, these are agreed to.
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
        let options = CallOptions {
            timeout: left,
            unchecked: call.no_validate,
            ..CallOptions::default()
        };
        call_and_show(&host, wanted, json_args, (options, timeout), as_json).await
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

/// Says where to look for what a server did instead of answering.
pub(crate) fn with_logs(hint: &str, server: &str) -> String {
    let server = quoted(server);
    format!("{hint}; `trunkline logs {server}` shows what it said meanwhile")
}

/// A call that is under way. Who gives it up learns that it may have been made.
struct UnderWay<'n> {
    name: &'n str,
    ended: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        // While somebody is asked about it, it has not been made.
        if !self.ended && !output::asking() {
            let what = format!("interrupted; \"{}\" may have run", self.name);
            output::note(Lines::one(&what));
        }
    }
}

async fn call_and_show(
    host: &Host,
    wanted: &Wanted<'_>,
    json_args: Option<&str>,
    (mut options, asked): (CallOptions, Option<Duration>),
    as_json: bool,
) -> Exit {
    let pool = host.pool();
    let (name, server, schema) = match wanted.find(&pool) {
        Some(Found::Server(tool)) => (&tool.name, Some(&*tool.server), &tool.tool.input_schema),
        Some(Found::Own(tool)) => (&tool.name, None, &tool.input_schema),
        None => return wanted.explain_missing(host),
    };
    let shown = wanted.shown_by();
    let arguments = match arguments::read(wanted.words(), json_args, Some(schema)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            output::error(&problem, Some(&shown));
            return Exit::Usage;
        }
    };
    warn_of_unknown(wanted, &arguments, schema, &shown);
    let mut line = StatusLine::new();
    options.on_progress = Some(Box::new(move |progress| line.show(&describe(&progress))));
    let mut under_way = UnderWay { name, ended: false };
    let outcome = host.call(name, arguments, options).await;
    under_way.ended = true;
    match outcome {
        Ok(output) => {
            show(&output, server, as_json);
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
            // What was asked for, not what connecting left of it.
            if let (CallError::TimedOut { after, .. }, Some(asked)) = (&mut error, asked) {
                *after = asked;
            }
            fail_within(&error, asked.is_some(), server.is_none())
        }
    }
}

/// The command that shows what a tool takes.
fn shown_by(server: Option<&str>, tool: &str) -> String {
    let words: Vec<_> = server.into_iter().chain([tool]).map(quoted).collect();
    format!("`trunkline tools {}` shows what it takes", words.join(" "))
}

impl Wanted<'_> {
    /// The command that shows what the tool takes.
    fn shown_by(&self) -> String {
        match self {
            Self::Of { server, tool, .. } => shown_by(Some(server), tool),
            Self::Named { name, .. } | Self::Own { name, .. } => shown_by(None, name),
        }
    }
}

/// Tells of arguments that the tool says nothing of: misspelt, probably.
fn warn_of_unknown(wanted: &Wanted, arguments: &Json, schema: &Json, shown: &str) {
    let unknown = arguments::unknown(arguments, schema);
    let tool = match wanted {
        Wanted::Of { tool, .. } => tool,
        Wanted::Named { name, .. } | Wanted::Own { name, .. } => name,
    };
    for name in &unknown {
        output::warning(&format!(
            "\"{tool}\" says nothing of an argument \"{name}\""
        ));
    }
    if !unknown.is_empty() {
        output::hint(shown);
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
    if input.trim().is_empty() {
        return Err(
            "standard input is empty; with --json-args - it must be a JSON object, such as {\"a\": 1}"
                .to_owned(),
        );
    }
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

/// Explains why a call has no result.
pub(crate) fn fail(error: &CallError) -> Exit {
    fail_within(error, false, false)
}

/// The same, where the user may have set a limit to it, and where the tool may be the host's own.
fn fail_within(error: &CallError, limited: bool, own: bool) -> Exit {
    let hint = match error {
        CallError::InvalidArguments { server, tool, .. } => {
            let shown = shown_by(Some(&**server).filter(|_| !own), tool);
            Some(format!("{shown}; --no-validate sends them all the same"))
        }
        CallError::Changed { .. } => Some(
            "if this is what you want, --accept-changes calls it and takes it for what it is now"
                .to_owned(),
        ),
        CallError::Denied { .. } => Some("if it is wanted, take the rule out of there".to_owned()),
        CallError::NotConnected {
            server,
            state: State::Disabled,
        } => Some(standing::enabling(server)),
        CallError::TimedOut { server, .. } | CallError::Idle { server, .. } => {
            let hint = if limited {
                Some(MORE_TIME.to_owned())
            } else {
                error.hint()
            };
            hint.map(|hint| if own { hint } else { with_logs(&hint, server) })
        }
        error if error.is_timeout() && limited => Some(MORE_TIME.to_owned()),
        error => error.hint(),
    };
    // Whoever was asked has seen it.
    if let (CallError::Changed { change, .. }, false) = (error, output::asked()) {
        output::block(&change.diff());
    }
    output::error(&error.to_string(), hint.as_deref());
    if let CallError::NotConnected { server, .. } | CallError::ConnectionLost { server, .. } = error
    {
        output::stderr_lines(server, error.stderr());
    }
    error.into()
}
