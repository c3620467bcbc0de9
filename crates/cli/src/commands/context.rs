//! Shared by `read` and `prompt`: starts the servers concerned and reports failures.

use std::time::{Duration, Instant};

use trunkline::call::{CallErrorKind, Progress};
use trunkline::config::normalize_name;
use trunkline::server::State;
use trunkline::tool::may_belong_to;
use trunkline::{CallError, Host};

use super::call::{MORE_TIME, describe, fraction, ready_in_time, with_logs};
use super::tools::no_servers;
use crate::args::ConfigArgs;
use crate::elicit::TerminalElicit;
use crate::exit::Exit;
use crate::output::{self, StatusLine};
use crate::session;
use crate::standing;

/// The servers concerned; no other starts.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// A server by name.
    Server(&'a str),
    /// All servers that `mcp__<server>__<prompt>` may belong to.
    Command(&'a str),
}

impl Target<'_> {
    fn wanted(self) -> impl Fn(&str) -> bool + Send + Sync + 'static + use<> {
        let (exact, name) = match self {
            Self::Server(name) => (true, name.to_owned()),
            Self::Command(name) => (false, name.to_owned()),
        };
        move |server| {
            if exact {
                server == name
            } else {
                may_belong_to(&name, server)
            }
        }
    }
}

/// Starts the servers concerned and runs `work` with the remaining time.
pub(crate) async fn with_target(
    config: &ConfigArgs,
    target: Target<'_>,
    timeout: Option<Duration>,
    work: impl AsyncFnOnce(&Host, Option<Duration>) -> Exit,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let connectors = session::connectors(configured.loader.layout());
    if configured.set.servers.is_empty() && connectors.is_none() {
        return no_servers(&configured);
    }
    if let Target::Server(name) = target {
        match configured.foremost(name) {
            Some(server) if standing::reason(server).is_some() => return standing::refuse(server),
            None if connectors.is_none() => return configured.unknown(name),
            _ => {}
        }
    }
    configured.warn_about(target.wanted());
    let builder = configured.host_with_daemon().only(target.wanted());
    let mut builder = builder.elicit(TerminalElicit::default());
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        let started = Instant::now();
        if !ready_in_time(&host, timeout).await {
            return Exit::TimedOut;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        work(&host, left).await
    })
    .await
}

/// Splits a mention `@server:uri` into server and URI; `None` for any other word.
pub(crate) fn mentioned(
    config: &ConfigArgs,
    mention: &str,
) -> Result<Option<(String, String)>, Exit> {
    let Some(rest) = mention.strip_prefix('@') else {
        return Ok(None);
    };
    let configured = session::configuration(config)?;
    let written = |name: &str| {
        let uri = rest.strip_prefix(name)?.strip_prefix(':')?;
        Some((name.len(), uri.to_owned()))
    };
    let names = configured.names().into_iter();
    let known = names.filter_map(|name| {
        let (length, uri) = written(name).or_else(|| written(&normalize_name(name)))?;
        Some((length, name.to_owned(), uri))
    });
    if let Some((_, server, uri)) = known.max() {
        return Ok(Some((server, uri)));
    }
    // For an unknown server, the first colon ends the name.
    Ok(rest
        .split_once(':')
        .map(|(server, uri)| (server.to_owned(), uri.to_owned())))
}

/// Returns a callback that shows progress on a terminal.
pub(crate) fn progress_line() -> impl FnMut(Progress) + Send {
    let mut line = StatusLine::about("waiting");
    move |progress| line.progress(&describe(&progress), fraction(&progress))
}

/// The request that failed, for its report.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The command that lists what is available.
    pub(crate) listing: &'a str,
    /// The timeout that the user set.
    pub(crate) timeout: Option<Duration>,
}

/// Reports a failed request.
pub(crate) fn fail(error: &CallError, asked: Request) -> Exit {
    let Request { listing, timeout } = asked;
    let shows = |server: &str| {
        let server = standing::last_word(server);
        format!("list them with `trunkline {listing} {server}`")
    };
    let hint = match (error.hint(), error.kind(), error.server()) {
        (_, _, Some(server)) if matches!(error.state(), Some(State::Disabled)) => {
            Some(standing::enable_hint(server))
        }
        (_, CallErrorKind::AuthRequired, Some(server)) => Some(standing::login_hint(server)),
        (Some(hint), ..) => Some(hint),
        (None, CallErrorKind::Timeout, Some(server)) => {
            let more = if timeout.is_some() {
                MORE_TIME
            } else {
                MORE_ENTRY_TIME
            };
            Some(with_logs(more, server))
        }
        (
            None,
            CallErrorKind::ServerError
            | CallErrorKind::HttpStatus
            | CallErrorKind::Credentials
            | CallErrorKind::InvalidResponse,
            Some(server),
        ) => Some(shows(server)),
        (None, CallErrorKind::UnknownPrompt, _) => {
            Some("list them with `trunkline prompts`".to_owned())
        }
        (None, ..) => None,
    };
    let mut what = error.to_string();
    // Report the timeout as given, not the part left after connecting.
    if let (Some(asked), Some((before, _))) = (timeout, what.split_once("no answer after "))
        && error.is_timeout()
    {
        what = format!("{before}no answer within {} ms", asked.as_millis());
    }
    output::error(&what, hint.as_deref());
    if let Some(server) = error.server() {
        output::stderr_lines(server, error.stderr());
    }
    error.into()
}

const MORE_ENTRY_TIME: &str =
    "allow more time with MCP_TOOL_TIMEOUT (ms) or \"timeout\" in its entry";
