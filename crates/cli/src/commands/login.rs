//! `trunkline login`: signs in to a server (AUTH-2, AUTH-10).

use std::io::{self, IsTerminal};
use std::sync::Arc;

use serde_json::json;
use trunkline::Host;
use trunkline::auth::{Account, AuthError, AuthErrorKind, Login, ServerAuth, server_config};
use trunkline::server::State;

use super::list::count;
use crate::args::ConfigArgs;
use crate::browser;
use crate::exit::Exit;
use crate::output::{self, Lines, StatusLine, inline};
use crate::session;
use crate::standing;

/// Where the user signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In a browser on this machine.
    Browser,
    /// At a URL that is only printed.
    Url,
    /// On another device, with a code.
    Device,
}

impl Way {
    pub(crate) fn new(device: bool, no_browser: bool) -> Self {
        match (device, no_browser || !browser::has_display()) {
            (true, _) => Self::Device,
            (false, true) => Self::Url,
            (false, false) => Self::Browser,
        }
    }
}

pub(crate) async fn run(config: &ConfigArgs, name: &str, way: Way, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let Some(server) = configured.foremost(name) else {
        return configured.unknown(name);
    };
    if let Some((reason, hint)) = standing::reason(server) {
        output::error(
            &format!("\"{name}\" does not run: {reason}"),
            hint.as_deref(),
        );
        return Exit::Refused;
    }
    if server_config(&server.entry).is_none() {
        let what = format!("\"{name}\" takes no sign-in");
        let hint = "only servers over HTTP without an \"Authorization\" header do";
        output::error(&what, Some(hint));
        return Exit::Usage;
    }
    let wanted = name.to_owned();
    let builder = configured.host().only(move |name| name == wanted);
    session::with_host(builder, |host| sign_in(host, name, way, as_json)).await
}

/// Signs in, and connects to the server.
async fn sign_in(host: Host, name: &str, way: Way, as_json: bool) -> Exit {
    session::ready(&host).await;
    let (Some(server), Some(auth)) = (host.server(name), host.server_auth(name)) else {
        return Exit::NotConnected;
    };
    match &server.state {
        State::NeedsAuth(_) => {}
        State::Connected(_) => return report_connected(name, &auth, as_json).await,
        state => {
            let what = match state.failure() {
                Some(failure) => format!("could not connect to \"{name}\": {failure}"),
                None => format!("could not connect to \"{name}\""),
            };
            output::error(&what, state.hint());
            return Exit::NotConnected;
        }
    }
    let account = match way {
        Way::Device => with_device(&auth).await,
        Way::Browser | Way::Url => with_url(&auth, way).await,
    };
    let account = match account {
        Ok(account) => account,
        Err(error) => return fail(name, &error),
    };
    // The server may need more than the sign-in.
    let _ = host.reconnect(name).await;
    let _ = host.ready_for(name).await;
    report(&host, name, &account, as_json)
}

/// Signs in at a URL, opened here or elsewhere.
async fn with_url(auth: &ServerAuth, way: Way) -> Result<Account, AuthError> {
    let login = auth.start_login().await?;
    let opened = way == Way::Browser && browser::open(login.url()).is_ok();
    let mut lines = Lines::new();
    lines.push(if opened {
        "Your browser opens this page; sign in there:"
    } else {
        "Open this page in a browser and sign in:"
    });
    output::instruction(lines);
    output::url(login.url());
    let mut line = StatusLine::new();
    if io::stdin().is_terminal() {
        line.show("Waiting for the sign-in (or paste the URL that you were sent to)");
        tokio::spawn(read_pasted(Arc::clone(&login)));
    } else {
        line.show("Waiting for the sign-in");
    }
    login.wait().await
}

/// Completes the sign-in with URLs that the user pastes, until it ends.
async fn read_pasted(login: Arc<Login>) {
    loop {
        let read = tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            io::stdin().read_line(&mut text).map(|bytes| (bytes, text))
        });
        let Ok(Ok((1.., text))) = read.await else {
            return;
        };
        if text.trim().is_empty() {
            continue;
        }
        match login.finish(text.trim()).await {
            Ok(_) => return,
            Err(error) => output::warning(&error.to_string()),
        }
    }
}

/// Signs in on another device.
async fn with_device(auth: &ServerAuth) -> Result<Account, AuthError> {
    let login = auth.start_device_login().await?;
    let mut lines = Lines::new();
    lines.push(format!(
        "Enter the code {} on this page, on any device:",
        inline(login.user_code())
    ));
    output::instruction(lines);
    output::url(login.verification_url());
    let mut line = StatusLine::new();
    line.show("Waiting for the sign-in");
    login.wait().await
}

/// Reports that there is nothing to do.
async fn report_connected(name: &str, auth: &ServerAuth, as_json: bool) -> Exit {
    let account = auth.account().await.ok().flatten();
    if as_json {
        output::json(&json!({"server": name, "state": "connected", "account": account}));
        return Exit::Done;
    }
    let mut lines = Lines::new();
    match account {
        Some(account) => lines.push(format!(
            "already signed in to \"{}\" at {}",
            output::name(name),
            inline(&account.issuer)
        )),
        None => lines.push(format!(
            "\"{}\" connects without a sign-in",
            output::name(name)
        )),
    }
    output::result(lines);
    Exit::Done
}

fn report(host: &Host, name: &str, account: &Account, as_json: bool) -> Exit {
    let server = host.server(name);
    let state = server.as_ref().map(|server| &server.state);
    let is_connected = matches!(state, Some(State::Connected(_)));
    let tools = server
        .as_ref()
        .map_or(0, |server| server.catalog.tools().len());
    if as_json {
        let state = state.map(State::name);
        output::json(&json!({"server": name, "state": state, "account": account, "tools": tools}));
    } else {
        let mut lines = Lines::new();
        let (shown, issuer) = (output::name(name), inline(&account.issuer));
        lines.push(format!("signed in to \"{shown}\" at {issuer}"));
        if is_connected {
            lines.push(format!("  connected: {}", count(tools, "tool")));
        }
        output::result(lines);
    }
    if is_connected {
        return Exit::Done;
    }
    let reason = state.and_then(|state| state.sign_in().or(state.failure()));
    let reason = reason.map_or_else(String::new, |failure| format!(": {failure}"));
    let what = format!("signed in to \"{name}\", but it does not connect{reason}");
    output::error(&what, state.and_then(State::hint));
    match state {
        Some(State::NeedsAuth(_)) => Exit::NeedsAuth,
        _ => Exit::NotConnected,
    }
}

/// Reports a sign-in or sign-out that failed.
pub(super) fn fail(name: &str, error: &AuthError) -> Exit {
    let (hint, exit) = match error.kind() {
        AuthErrorKind::TimedOut => (Some("try again"), Exit::TimedOut),
        AuthErrorKind::InProgress => (Some("finish the other sign-in first"), Exit::NeedsAuth),
        AuthErrorKind::Registration => (
            Some("register a client with the provider and set \"oauth\": {\"clientId\": …}"),
            Exit::NeedsAuth,
        ),
        AuthErrorKind::Unavailable => (Some("try again later"), Exit::NotConnected),
        _ => (None, Exit::NeedsAuth),
    };
    output::error(&format!("could not sign in to \"{name}\": {error}"), hint);
    exit
}
