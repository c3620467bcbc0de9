//! The terminal interface (UI-4): `trunkline` alone on a terminal.
//!
//! `model` is the state and its pure update, `view` draws it, `input` maps keys to actions,
//! `effects` talks to the host and writes files, `terminal` owns the screen, and `run` is the event
//! loop.

mod asker;
mod command;
mod data;
mod doc;
mod effects;
mod feed;
mod help;
mod input;
mod login;
mod making;
mod model;
mod msg;
mod overview;
mod picture;
mod rendering;
mod run;
mod snapshot;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Instant, SystemTime};

use tokio::sync::mpsc;
use trunkline::Host;

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output;
use crate::session;
use crate::standing::quoted;
use asker::Asker;
use effects::Effects;
use feed::Feed;
use model::Model;
use run::{Input, Sources};
use terminal::Tui;
use view::Theme;

/// Returns whether the interface can run here.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb()
}

/// Returns whether the terminal cannot move the cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Runs the interface.
pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    if as_json || !is_possible() {
        output::error(
            "the terminal interface needs a terminal",
            Some("in scripts, use `trunkline list --json`; see `trunkline --help`"),
        );
        return Exit::Usage;
    }
    let is_dash = |file: &std::path::PathBuf| file.as_os_str() == "-";
    if config.trace.as_ref().is_some_and(is_dash) && io::stderr().is_terminal() {
        output::error(
            "--trace - would write over the interface",
            Some("name a file: `trunkline --trace trace.jsonl`"),
        );
        return Exit::Usage;
    }
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let layout = configured.loader.layout().clone();
    let cwd = configured.loader.project().cwd.clone();
    let connectors = session::connectors(&layout);
    let (sender, inbox) = mpsc::unbounded_channel();
    let (asker, feed) = (Asker::new(sender.clone()), Feed::default());
    let (messages, logs) = (feed.clone(), feed.clone());
    let mut builder = configured
        .host_with_daemon()
        .permit(asker.clone())
        .elicit(asker.clone())
        .on_message(move |message| messages.message(message))
        .on_log(move |line| logs.log(line))
        .watch(true);
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    let program = program(config);
    let work = |host: Host| async move {
        let mut tui = match Tui::open(Theme::from_env()) {
            Ok(tui) => tui,
            Err(error) => {
                output::error(&format!("cannot use the terminal: {error}"), None);
                return Exit::Failed;
            }
        };
        let size = tui.size().unwrap_or((80, 24));
        let now = (Instant::now(), SystemTime::now());
        let model = Model::new(now, size, place(&cwd), program);
        let effects = Effects::new(host.clone(), sender, asker, (layout, cwd), session::logs());
        let sources = Sources {
            input: read_input(),
            inbox,
            events: host.events(),
            feed,
        };
        match run::run(model, host, effects, &mut tui, sources).await {
            Ok(exit) => exit,
            Err(error) => {
                drop(tui);
                output::error(&format!("the terminal failed: {error}"), None);
                Exit::Failed
            }
        }
    };
    session::with_host(builder, work).await
}

/// Reads the terminal on a thread of its own, which ends with the program.
fn read_input() -> mpsc::UnboundedReceiver<Input> {
    let (sender, input) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = crossterm::event::read() {
            let at = Instant::now();
            if sender.send(Input { at, event }).is_err() {
                return;
            }
        }
    });
    input
}

/// Returns the directory for the header, with `~` for the home directory.
fn place(cwd: &Path) -> String {
    let home = std::env::home_dir();
    let below = home.as_ref().and_then(|home| cwd.strip_prefix(home).ok());
    let shown = match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => cwd.display().to_string(),
    };
    text::line(&shown)
}

/// Returns the program with the options that commands need to find the same servers.
fn program(config: &ConfigArgs) -> String {
    let mut words = vec!["trunkline".to_owned()];
    for source in &config.mcp_config {
        words.push(format!("--mcp-config {}", quoted(source)));
    }
    if config.strict_mcp_config {
        words.push("--strict-mcp-config".to_owned());
    }
    for dir in &config.plugin_dir {
        let dir = quoted(&dir.display().to_string());
        words.push(format!("--plugin-dir {dir}"));
    }
    words.join(" ")
}
