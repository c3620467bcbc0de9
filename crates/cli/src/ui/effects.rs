//! Runs effects: tasks that talk to the host. Their results are messages to the model; the loop
//! never waits for one.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use tokio::sync::{mpsc, oneshot};
use trunkline::Host;
use trunkline::auth::{BrowserUrl, Logout, Revocation, ServerAuth};
use trunkline::config::ServerEntry;
use trunkline::log::LogStore;
use trunkline_config::{Editor, EntryStatus, Layout, Project, Server};
use url::Url;

use super::asker::Asker;
use super::command;
use super::login::Logins;
use super::making::make;
use super::msg::{Effect, Msg, Request};
use crate::audit;
use crate::browser;
use crate::commands::demo;
use crate::output::{inline, name};
use crate::scripts;

/// The lines of a log that are read from its file.
const LOG_LINES: usize = 500;

type Inbox = mpsc::UnboundedSender<Msg>;

/// Runs effects with a host.
pub(super) struct Effects {
    pub(super) host: Host,
    pub(super) inbox: Inbox,
    pub(super) asker: Asker,
    pub(super) layout: Layout,
    pub(super) cwd: PathBuf,
    pub(super) logs: Option<LogStore>,
    logins: Logins,
    /// The running calls; dropping a sender cancels its call.
    calls: HashMap<u64, oneshot::Sender<()>>,
}

impl Effects {
    pub(super) fn new(
        host: Host,
        inbox: Inbox,
        asker: Asker,
        (layout, cwd): (Layout, PathBuf),
        logs: Option<LogStore>,
    ) -> Self {
        Self {
            host,
            inbox,
            asker,
            layout,
            cwd,
            logs,
            logins: Logins::default(),
            calls: HashMap::new(),
        }
    }

    /// Starts an effect. Those of the terminal are the loop's.
    pub(super) fn run(&mut self, effect: Effect) {
        match effect {
            Effect::Reconnect(task, servers) => self.reconnect(task, servers),
            Effect::SetEnabled(task, entry, on) => self.set_enabled(task, entry, on),
            Effect::Approve(task, entry) => self.decide(task, entry, true),
            Effect::Reject(task, entry) => self.decide(task, entry, false),
            Effect::ReadScripts(server) => self.read_scripts(server),
            Effect::Login(task, server) => self.login(task, server),
            Effect::FinishLogin(task, pasted) => self.finish_login(task, pasted),
            Effect::CancelLogin(task) => {
                self.logins.cancel(task);
            }
            Effect::Logout(task, server) => self.logout(task, server),
            Effect::OpenUrl(task, url) => {
                let outcome = open(&url);
                let _ = self.inbox.send(Msg::ActionDone(task, outcome));
            }
            Effect::Call(id, request) => self.call(id, request),
            Effect::CancelCall(id) => {
                self.calls.remove(&id);
            }
            Effect::Answer(id, answer) => self.asker.answer(id, answer),
            Effect::ReadLog(server) => self.read_log(server),
            Effect::Save(task, content) => self.save(task, content),
            Effect::Demo(task) => {
                self.host.add_builtin(demo::calculator());
                self.host.add_builtin(demo::kitchen());
                let done = "the demo servers run inside this program".to_owned();
                let _ = self.inbox.send(Msg::ActionDone(task, Ok(done)));
            }
            Effect::Copy { .. }
            | Effect::Mouse(_)
            | Effect::Redraw
            | Effect::Suspend
            | Effect::Quit => {}
        }
    }

    fn reconnect(&self, task: u64, servers: Vec<String>) {
        for server in servers {
            let (host, inbox) = (self.host.clone(), self.inbox.clone());
            tokio::spawn(async move {
                if let Err(error) = host.reconnect(&server).await {
                    let problem = inline(&error.to_string());
                    let _ = inbox.send(Msg::ActionDone(task, Err(problem)));
                }
            });
        }
    }

    fn read_scripts(&self, server: Box<Server>) {
        let (inbox, root) = (self.inbox.clone(), Project::at(&self.cwd).root);
        tokio::task::spawn_blocking(move || {
            let changes = scripts::changes(&server, &root);
            let _ = inbox.send(Msg::Scripts(server.entry.name, changes));
        });
    }

    fn set_enabled(&self, task: u64, entry: Box<ServerEntry>, on: bool) {
        let editor = Editor::new(self.layout.clone(), self.cwd.clone());
        let (host, inbox) = (self.host.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let server = entry.name.clone();
            let written = tokio::task::spawn_blocking(move || editor.set_enabled(&entry, on)).await;
            let outcome = match written {
                Ok(Ok(written)) => {
                    host.reload().await;
                    let (done, word) = if on {
                        ("enabled", "enable")
                    } else {
                        ("disabled", "disable")
                    };
                    let file = inline(&written.file.display().to_string());
                    let equal = command::equal(command::about("trunkline", word, &server));
                    Ok(format!("{done} {} in {file}{equal}", name(&server)))
                }
                Ok(Err(error)) => Err(inline(&error.to_string())),
                Err(error) => Err(inline(&error.to_string())),
            };
            let _ = inbox.send(Msg::ActionDone(task, outcome));
        });
    }

    fn decide(&self, task: u64, entry: Box<ServerEntry>, approved: bool) {
        let (host, inbox) = (self.host.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let outcome = if approved {
                host.approve(&entry).await
            } else {
                host.reject(&entry).await
            };
            let shown = name(&entry.name);
            let outcome = match (outcome, approved) {
                (Ok(EntryStatus::Active), true) => Ok(format!("approved {shown}")),
                (Ok(EntryStatus::PendingApproval { .. }), true) => Err(format!(
                    "{shown} has changed while you read it; review it again"
                )),
                (Ok(EntryStatus::Rejected { .. }), false) => Ok(format!("rejected {shown}")),
                (Ok(status), _) => Err(format!(
                    "stored, but {shown} is {} for another reason",
                    status.name().unwrap_or("off")
                )),
                (Err(error), _) => Err(chain(&error)),
            };
            let _ = inbox.send(Msg::ActionDone(task, outcome));
        });
    }

    fn login(&self, task: u64, server: String) {
        let Some(auth) = self.host.server_auth(&server) else {
            let problem = format!("{} takes no sign-in", name(&server));
            let _ = self.inbox.send(Msg::LoginDone(task, Err(problem)));
            return;
        };
        let (host, inbox) = (self.host.clone(), self.inbox.clone());
        let logins = self.logins.clone();
        tokio::spawn(async move {
            let failed = |error: &dyn std::fmt::Display| {
                let reason = inline(&error.to_string());
                format!("could not sign in to {}: {reason}", name(&server))
            };
            let outcome = async {
                if !auth.needs_user() {
                    return Err(failed(&"it signs in without a user; see `trunkline xaa`"));
                }
                let signed_in = logins.sign_in(&auth, task, &inbox).await;
                if !matches!(signed_in, Ok(None)) {
                    audit::record_sign_in_aside(&server, "login", signed_in.is_ok()).await?;
                }
                match signed_in {
                    Ok(None) => Err(failed(&"it was cancelled")),
                    Ok(Some(_)) => {
                        let _ = host.reconnect(&server).await;
                        Ok(format!("signed in to {}", name(&server)))
                    }
                    Err(error) => Err(failed(&error)),
                }
            };
            let outcome = outcome.await;
            let _ = inbox.send(Msg::LoginDone(task, outcome));
        });
    }

    fn finish_login(&self, task: u64, pasted: String) {
        let Some(login) = self.logins.page(task) else {
            return;
        };
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            // Success ends `wait`, which reports it.
            if let Err(error) = login.finish(&pasted).await {
                let problem = inline(&error.to_string());
                let _ = inbox.send(Msg::ActionDone(task, Err(problem)));
            }
        });
    }

    fn logout(&self, task: u64, server: String) {
        let (host, inbox) = (self.host.clone(), self.inbox.clone());
        let auth = host.server_auth(&server);
        tokio::spawn(async move {
            let shown = name(&server);
            let outcome = match auth {
                None => Err(format!("{shown} takes no sign-in")),
                Some(auth) => match logged_out(&auth, &server).await {
                    Err(problem) => Err(problem),
                    Ok(logout) => {
                        let _ = host.reconnect(&server).await;
                        match logout.revocation {
                            Revocation::Failed(error) => Err(format!(
                                "signed out of {shown}, but the tokens were not revoked: {}",
                                inline(&error.to_string())
                            )),
                            _ if logout.was_signed_in => Ok(format!("signed out of {shown}")),
                            _ => Ok(format!("nobody was signed in to {shown}")),
                        }
                    }
                },
            };
            let _ = inbox.send(Msg::ActionDone(task, outcome));
        });
    }

    fn call(&mut self, id: u64, request: Request) {
        let (host, inbox) = (self.host.clone(), self.inbox.clone());
        let (cancel, cancelled) = oneshot::channel::<()>();
        self.calls.retain(|_, call| !call.is_closed());
        self.calls.insert(id, cancel);
        tokio::spawn(async move {
            let outcome = make(&host, id, request, &inbox, cancelled).await;
            let _ = inbox.send(Msg::CallDone(id, outcome));
        });
    }

    fn read_log(&self, server: String) {
        let Some(logs) = self.logs.clone() else {
            let _ = self.inbox.send(Msg::LogHistory(server, Vec::new()));
            return;
        };
        let inbox = self.inbox.clone();
        tokio::task::spawn_blocking(move || {
            let lines = logs.read(Some(&server), Some(LOG_LINES), None);
            let _ = inbox.send(Msg::LogHistory(server, lines));
        });
    }

    fn save(&self, task: u64, content: String) {
        let (cwd, inbox) = (self.cwd.clone(), self.inbox.clone());
        tokio::task::spawn_blocking(move || {
            let outcome = save(&cwd, &content)
                .map(|path| format!("saved to {}", inline(&path.display().to_string())))
                .map_err(|error| format!("could not save the messages: {error}"));
            let _ = inbox.send(Msg::ActionDone(task, outcome));
        });
    }
}
/// Opens a page in the user's browser; only http and https.
fn open(url: &str) -> Result<String, String> {
    let parsed = Url::parse(url).map_err(|error| format!("cannot open the page: {error}"))?;
    let page = BrowserUrl::new(&parsed).map_err(|error| inline(&error.to_string()))?;
    browser::open(&page).map_err(|error| format!("could not open a browser: {error}"))?;
    Ok("your browser opens the page".to_owned())
}

/// Writes a new private file with the messages.
fn save(cwd: &std::path::Path, content: &str) -> std::io::Result<PathBuf> {
    for number in 1..1000 {
        let path = cwd.join(format!("trunkline-messages-{number}.jsonl"));
        let mut options = std::fs::File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&path) {
            Ok(mut file) => {
                file.write_all(content.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Joins an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    inline(&text)
}

/// Signs out, and records it. A problem is for the screen.
async fn logged_out(auth: &ServerAuth, server: &str) -> Result<Logout, String> {
    let logout = auth.logout().await;
    audit::record_sign_in_aside(server, "logout", logout.is_ok()).await?;
    logout.map_err(|error| inline(&error.to_string()))
}
