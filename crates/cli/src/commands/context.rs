//! What reading resources and using prompts share: which servers are started for it, and how failures are told.

use std::time::{Duration, Instant};

use trunkline::Host;
use trunkline::call::Progress;
use trunkline::config::normalize_name;
use trunkline::context::ContextError;
use trunkline::server::State;
use trunkline::tool::may_belong_to;

use super::call::{MORE_TIME, describe, ready_in_time, with_logs};
use super::tools::no_servers;
use crate::args::ConfigArgs;
use crate::elicit::Unanswered;
use crate::exit::Exit;
use crate::output::{self, StatusLine};
use crate::session;
use crate::standing;

/// Which servers may have it; no other need start.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// This one.
    Server(&'a str),
    /// Whichever `mcp__<server>__<prompt>` may belong to.
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

/// Starts the servers that may have it and does the work, with the time that is left for it.
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
    let builder = configured.host().only(target.wanted());
    let mut builder = builder.elicit(Unanswered);
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

/// The server and the address in a mention, `@server:uri`; `None` if it is none.
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
    // Of a server that is not there, the first colon ends the name.
    Ok(rest
        .split_once(':')
        .map(|(server, uri)| (server.to_owned(), uri.to_owned())))
}

/// Shows progress to a person at a terminal.
pub(crate) fn progress_line() -> Box<dyn FnMut(Progress) + Send> {
    let mut line = StatusLine::new();
    Box::new(move |progress| line.show(&describe(&progress)))
}

/// What was asked for, for whoever explains why it could not be had.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The command that lists such things.
    pub(crate) listing: &'a str,
    /// The limit that the user set to it.
    pub(crate) timeout: Option<Duration>,
}

/// Explains why something could not be had.
pub(crate) fn fail(error: &ContextError, asked: Asked) -> Exit {
    let Asked { listing, timeout } = asked;
    let shows = |server: &str| {
        let server = standing::quoted(server);
        format!("`trunkline {listing} {server}` shows what there is")
    };
    let hint = match (error.hint(), error) {
        (Some(hint), _) => Some(hint),
        (
            None,
            ContextError::NotConnected {
                server,
                state: State::Disabled,
            },
        ) => Some(standing::enabling(server)),
        (None, ContextError::Failed { server, .. }) if error.is_timeout() => {
            let more = if timeout.is_some() {
                MORE_TIME
            } else {
                ENTRYS_TIME
            };
            Some(with_logs(more, server))
        }
        (None, ContextError::Failed { server, .. }) if !error.is_connection() => {
            Some(shows(server))
        }
        (None, ContextError::UnknownPrompt { .. }) => {
            Some("`trunkline prompts` shows what there is".to_owned())
        }
        (None, _) => None,
    };
    let mut what = error.to_string();
    // What was asked for, not what connecting left of it.
    if let (Some(asked), Some((before, _))) = (timeout, what.split_once("no answer after "))
        && error.is_timeout()
    {
        what = format!("{before}no answer within {} ms", asked.as_millis());
    }
    output::error(&what, hint.as_deref());
    if let ContextError::NotConnected { server, .. } | ContextError::Failed { server, .. } = error {
        output::stderr_lines(server, error.stderr());
    }
    error.into()
}

const ENTRYS_TIME: &str = "MCP_TOOL_TIMEOUT (ms) or the entry's \"timeout\" gives it more time";
