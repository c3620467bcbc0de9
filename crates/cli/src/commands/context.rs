//! What reading resources and using prompts share: which servers are started for it, and how failures are told.

use std::time::{Duration, Instant};

use trunkline::{ContextError, Host, Progress, may_belong_to, normalize_name};

use super::call::{MORE_TIME, describe, ready_in_time};
use super::tools::no_servers;
use crate::args::ConfigArgs;
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
    let mut builder = configured.host().only(target.wanted());
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

/// Explains why something could not be had. `limited` says that the user set a limit to it.
pub(crate) fn fail(error: &ContextError, limited: bool) -> Exit {
    let hint = match error.hint() {
        None if error.is_timeout() && limited => Some(MORE_TIME.to_owned()),
        hint => hint,
    };
    output::error(&error.to_string(), hint.as_deref());
    output::stderr_lines(error.stderr());
    error.into()
}
