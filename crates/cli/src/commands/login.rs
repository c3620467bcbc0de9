//! `trunkline login`: signs in to a server (AUTH-2, AUTH-10).

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use trunkline::Host;
use trunkline::auth::{Account, AuthError, AuthErrorKind, Login, ServerAuth, server_config};
use trunkline::server::{ServerStatus, State};
use trunkline_config::{EntryStatus, Server};

use super::list::count;
use super::login_errors::{SignInTarget, fail};
use crate::args::ConfigArgs;
use crate::audit;
use crate::browser;
use crate::exit::Exit;
use crate::output::{self, Lines, StatusLine, inline};
use crate::session;
use crate::standing::{self, quoted};

/// How long a sign-in in the browser may take.
const LOGIN_LIMIT: Duration = Duration::from_mins(10);

/// Where the user signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginMethod {
    /// In a browser on this machine.
    Browser,
    /// At a URL that is only printed.
    Url,
    /// On another device, with a code.
    Device,
    /// On another device if the provider has codes, otherwise at a URL.
    Headless,
}

impl LoginMethod {
    pub(crate) fn new(device: bool, no_browser: bool) -> Self {
        match (device, no_browser) {
            (true, _) => Self::Device,
            (false, true) => Self::Url,
            (false, false) if browser::has_display() => Self::Browser,
            (false, false) => Self::Headless,
        }
    }
}

pub(crate) async fn run(
    config: &ConfigArgs,
    name: &str,
    account: Option<&str>,
    method: LoginMethod,
    as_json: bool,
) -> Exit {
    let mut configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Err(exit) = configured.use_account(name, account) {
        return exit;
    }
    let Some(server) = configured.foremost(name) else {
        return configured.unknown(name);
    };
    if standing::reason(server).is_some() {
        return standing::refuse(server);
    }
    if server.entry.disabled || server.status == EntryStatus::Disabled {
        return standing::disabled(name);
    }
    if server_config(&server.entry).is_none() {
        return takes_no_sign_in(server);
    }
    let wanted = name.to_owned();
    let builder = configured.host().only(move |name| name == wanted);
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        match sign_in(&host, name, method).await {
            Ok(signed_in) => signed_in.report(as_json),
            Err(exit) => exit,
        }
    })
    .await
}

/// Signs in to every server that waits for it. Servers that fail do not stop the others.
pub(crate) async fn run_all(config: &ConfigArgs, method: LoginMethod, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    session::with_host(configured.host(), |host| async move {
        session::ready(&host).await;
        let servers = host.servers();
        let waits = |server: &&Arc<ServerStatus>| {
            let auth = host.server_auth(&server.name);
            matches!(server.state, State::NeedsAuth(_))
                && auth.is_some_and(|auth| auth.needs_user())
        };
        let waiting: Vec<_> = servers.iter().filter(waits).collect();
        let (mut exit, mut values) = (Exit::Done, Vec::new());
        for (index, server) in waiting.iter().enumerate() {
            let (number, total) = (index + 1, waiting.len());
            let shown = output::name(&server.name);
            output::instruction(Lines::one(format!("{shown} ({number} of {total})")));
            let outcome = match sign_in(&host, &server.name, method).await {
                Ok(signed_in) if as_json => {
                    values.push(signed_in.as_value());
                    signed_in.exit()
                }
                Ok(signed_in) => signed_in.report(false),
                Err(failed) => {
                    values.push(json!({"server": &*server.name, "state": "needs-auth"}));
                    failed
                }
            };
            // The first failure counts.
            exit = if exit == Exit::Done { outcome } else { exit };
        }
        if as_json {
            output::json(&values);
        } else if waiting.is_empty() {
            output::note("no server waits for a sign-in");
        }
        exit
    })
    .await
}

/// The outcome of a sign-in.
struct SignedIn {
    server: Arc<ServerStatus>,
    account: Option<Account>,
    /// Whether the user signed in just now.
    is_new: bool,
    uses_foreign_token: bool,
}

/// Signs in, and connects to the server. An `Err` has been reported.
async fn sign_in(host: &Host, name: &str, method: LoginMethod) -> Result<SignedIn, Exit> {
    let (Some(server), Some(auth)) = (host.server(name), host.server_auth(name)) else {
        return Err(Exit::NotConnected);
    };
    match &server.state {
        State::NeedsAuth(_) => {}
        State::Connected(_) => {
            // A request may have lacked scopes (AUTH-6).
            let missing = auth.missing_scopes().await.unwrap_or_default();
            if missing.is_empty() {
                return Ok(SignedIn {
                    account: auth.account().await.ok().flatten(),
                    uses_foreign_token: auth.uses_foreign_token(),
                    server,
                    is_new: false,
                });
            }
            let scopes = inline(&missing.join(" "));
            output::instruction(Lines::one(format!("Missing permissions: {scopes}")));
        }
        state => {
            let reason = state.failure().map(|failure| format!(": {failure}"));
            let reason = reason.unwrap_or_default();
            let what = format!("cannot sign in to \"{name}\": it does not connect{reason}");
            output::error(&what, state.hint());
            return Err(Exit::NotConnected);
        }
    }
    if !auth.needs_user() {
        let reason = server.state.sign_in().map(|asked| format!(": {asked}"));
        let reason = reason.unwrap_or_default();
        let what = format!("\"{name}\" signs in by itself, and that failed{reason}");
        output::error(&what, standing::state_hint(&server).as_deref());
        return Err(Exit::NeedsAuth);
    }
    let account = match method {
        LoginMethod::Device => Box::pin(with_device(&auth)).await,
        LoginMethod::Headless => Box::pin(with_any_device(&auth)).await,
        LoginMethod::Browser | LoginMethod::Url => Box::pin(with_url(&auth, method)).await,
    };
    audit::record_sign_in(name, "login", account.is_ok());
    let account = account.map_err(|error| fail(SignInTarget::Server(name), method, &error))?;
    if let Some(warning) = auth.storage_warning() {
        output::warning(&warning);
    }
    // The server may need more than the sign-in.
    let _ = host.reconnect(name).await;
    let _ = host.ready_for(name).await;
    Ok(SignedIn {
        server: host.server(name).unwrap_or(server),
        account: Some(account),
        is_new: true,
        uses_foreign_token: false,
    })
}

/// Signs in at a URL, opened here or elsewhere.
pub(super) async fn with_url(auth: &ServerAuth, method: LoginMethod) -> Result<Account, AuthError> {
    let login = auth.start_login().await?;
    let opened = method == LoginMethod::Browser && browser::open(login.url()).is_ok();
    let mut lines = Lines::new();
    lines.push(if opened {
        "Your browser opens this page; sign in there:"
    } else {
        "Open this page in a browser and sign in:"
    });
    output::instruction(lines);
    output::url(login.url());
    if !io::stdin().is_terminal() {
        return waiting(LOGIN_LIMIT, login.wait()).await;
    }
    // Not redrawn: the user may be typing after it.
    let mut line = StatusLine::new();
    line.show("Waiting for the sign-in (or paste the URL of the page that failed to load)");
    let reading = tokio::spawn(read_pasted(Arc::clone(&login)));
    let outcome = login.wait().await;
    reading.abort();
    outcome
}

/// Waits for the end of a sign-in and shows how long it may take.
async fn waiting<T>(limit: Duration, ended: impl Future<Output = T>) -> T {
    let deadline = Instant::now() + limit;
    let mut line = StatusLine::new();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    tokio::pin!(ended);
    loop {
        tokio::select! {
            outcome = &mut ended => return outcome,
            _ = seconds.tick() => {
                let left = deadline.saturating_duration_since(Instant::now()).as_secs();
                let (minutes, seconds) = (left / 60, left % 60);
                line.show(&format!("Waiting for the sign-in ({minutes}:{seconds:02} left)"));
            }
        }
    }
}

/// Completes the sign-in with URLs that the user pastes, until it ends.
async fn read_pasted(login: Arc<Login>) {
    let mut lines = typed_lines().lock().await;
    while let Some(text) = lines.recv().await {
        if text.trim().is_empty() {
            continue;
        }
        match login.finish(text.trim()).await {
            Ok(_) => return,
            Err(error) => output::warning(&error.to_string()),
        }
    }
}

/// The lines that the user types. One thread reads them for all sign-ins of the process, so that
/// none is lost to an earlier one.
fn typed_lines() -> &'static Mutex<mpsc::UnboundedReceiver<String>> {
    static LINES: OnceLock<Mutex<mpsc::UnboundedReceiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (lines, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Mutex::new(receiver)
    })
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
    waiting(login.remaining(), login.wait()).await
}

/// Signs in on another device if the provider has codes, otherwise at a URL.
async fn with_any_device(auth: &ServerAuth) -> Result<Account, AuthError> {
    match with_device(auth).await {
        Err(error) if error.kind() == AuthErrorKind::UnsupportedGrant => {
            with_url(auth, LoginMethod::Url).await
        }
        outcome => outcome,
    }
}

impl SignedIn {
    fn is_connected(&self) -> bool {
        matches!(self.server.state, State::Connected(_))
    }

    fn as_value(&self) -> Value {
        json!({
            "server": &*self.server.name,
            "state": self.server.state.name(),
            "account": self.account,
            "tools": self.server.catalog.tools().len(),
        })
    }

    /// Prints the outcome.
    fn report(&self, as_json: bool) -> Exit {
        let (name, state) = (&self.server.name, &self.server.state);
        if as_json {
            output::json(&self.as_value());
        } else {
            output::result(self.lines());
        }
        let exit = self.exit();
        if exit == Exit::Done {
            return exit;
        }
        let reason = state.sign_in().or(state.failure());
        let reason = reason.map_or_else(String::new, |failure| format!(": {failure}"));
        let what = format!("signed in to \"{name}\", but it does not connect{reason}");
        output::error(&what, self.hint().as_deref());
        exit
    }

    /// Returns what the user can do if the server does not connect. Signing in once more is no
    /// use.
    fn hint(&self) -> Option<String> {
        match &self.server.state {
            State::NeedsAuth(_) => {
                let name = quoted(&self.server.name);
                Some(format!("see what it says with `trunkline logs {name}`"))
            }
            state => state.hint().map(str::to_owned),
        }
    }

    fn exit(&self) -> Exit {
        match self.server.state {
            State::Connected(_) => Exit::Done,
            State::NeedsAuth(_) => Exit::NeedsAuth,
            _ => Exit::NotConnected,
        }
    }

    fn lines(&self) -> Lines {
        let name = output::name(&self.server.name);
        let mut lines = Lines::new();
        let Some(account) = &self.account else {
            lines.push(if self.uses_foreign_token {
                format!("\"{name}\" uses the sign-in of Claude Code")
            } else {
                format!("\"{name}\" connects without a sign-in")
            });
            return lines;
        };
        let already = if self.is_new { "" } else { "already " };
        let issuer = inline(&account.issuer);
        lines.push(format!("{already}signed in to \"{name}\" at {issuer}"));
        if self.is_new && self.is_connected() {
            let tools = self.server.catalog.tools().len();
            lines.push(format!("  connected: {}", count(tools, "tool")));
        }
        lines
    }
}

/// Reports that nobody signs in to a server.
pub(super) fn takes_no_sign_in(server: &Server) -> Exit {
    let name = &server.entry.name;
    let (reason, hint) = match server.entry.transport.kind() {
        "http" | "sse" => (
            "its entry has an \"Authorization\" header",
            Some(format!(
                "to sign in instead, run `trunkline edit {} --unset-header Authorization`",
                quoted(name)
            )),
        ),
        _ => ("only servers over HTTP do", None),
    };
    let what = format!("\"{name}\" takes no sign-in: {reason}");
    output::error(&what, hint.as_deref());
    Exit::Usage
}
