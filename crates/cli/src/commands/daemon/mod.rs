//! `trunkline daemon`: one process of each server for all clients (GW-5).

mod logs;
mod process;
mod service;
mod status;

use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use trunkline::Host;
use trunkline_gateway::daemon::{
    DRAIN, Daemon, DaemonOptions, Ended, HostFactory, SERVER_IDLE, StartError, request_status,
    request_stop,
};
use trunkline_gateway::socket::{ConnectFailure, LockError, SocketPlace};

use crate::args::positive_duration;
use crate::daemon_use;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Lines};
use crate::session;

pub(crate) const DAEMON_HELP: &str = "\
Examples:
  trunkline daemon start
  trunkline daemon status
  trunkline daemon restart               replace it without losing a call
  trunkline daemon install               let systemd start it when it is needed

While the daemon runs, commands and `trunkline serve` use its servers instead of starting their own:
one process of each, whoever uses it. Permissions, approvals and prompts stay where the command
runs. --no-daemon and TRUNKLINE_NO_DAEMON=true opt out. See docs/daemon.md.";

#[derive(clap::Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    command: DaemonCommand,
}

#[derive(Subcommand)]
enum DaemonCommand {
    /// Start the daemon in the background
    Start(RunOptions),
    /// Finish the calls in flight and stop
    Stop,
    /// Start a new daemon, which takes over; the old one finishes its calls
    Restart(RunOptions),
    /// Show clients, servers and memory
    Status,
    /// Show the log of the daemon
    Logs {
        /// How many lines to show
        #[arg(short = 'n', long, default_value_t = 100, value_name = "N")]
        lines: usize,

        /// Go on as lines are added
        #[arg(short, long)]
        follow: bool,
    },
    /// Write units for systemd, which starts the daemon when a client connects
    Install {
        /// Only show the files
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove the units for systemd
    Uninstall,
    /// Run in the foreground
    Run {
        #[command(flatten)]
        options: RunOptions,

        /// Take over from a running daemon
        #[arg(long)]
        take_over: bool,
    },
}

#[derive(clap::Args, Clone)]
struct RunOptions {
    /// How long a server without clients stays
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = positive_duration)]
    server_idle: Duration,

    /// How long the daemon stays without clients and servers [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    exit_idle: Option<Duration>,

    /// How long calls in flight may take when the daemon ends
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive_duration)]
    drain: Duration,
}

pub(crate) async fn run(args: DaemonArgs, as_json: bool) -> Exit {
    let Some(place) = daemon_use::place() else {
        output::error("there is no home directory", Some("set HOME"));
        return Exit::Usage;
    };
    match args.command {
        DaemonCommand::Start(options) => start(&place, &options, as_json).await,
        DaemonCommand::Stop => stop(&place, as_json).await,
        DaemonCommand::Restart(options) => restart(&place, &options, as_json).await,
        DaemonCommand::Status => status::run(&place, as_json).await,
        DaemonCommand::Logs { lines, follow } => logs::run(lines, follow).await,
        DaemonCommand::Install { dry_run } => service::install(dry_run, as_json),
        DaemonCommand::Uninstall => service::uninstall(as_json),
        DaemonCommand::Run { options, take_over } => serve(place, &options, take_over).await,
    }
}

async fn start(place: &SocketPlace, options: &RunOptions, as_json: bool) -> Exit {
    if let Ok(running) = request_status(place).await {
        return report("the daemon is running already", &running["pid"], as_json);
    }
    match process::start(place, options, process::Start::Alone).await {
        Ok(pid) => report("the daemon is running", &pid.into(), as_json),
        Err(exit) => exit,
    }
}

async fn restart(place: &SocketPlace, options: &RunOptions, as_json: bool) -> Exit {
    match process::start(place, options, process::Start::TakeOver).await {
        Ok(pid) => report("the daemon is running", &pid.into(), as_json),
        Err(exit) => exit,
    }
}

async fn stop(place: &SocketPlace, as_json: bool) -> Exit {
    match request_stop(place).await {
        Ok(pid) => report("the daemon has stopped", &pid.into(), as_json),
        Err(ConnectFailure::NotRunning) => {
            if as_json {
                output::json(&serde_json::json!({"pid": null}));
            } else {
                output::result("no daemon is running");
            }
            Exit::Done
        }
        Err(error) => fail(&error),
    }
}

fn report(what: &str, pid: &serde_json::Value, as_json: bool) -> Exit {
    if as_json {
        output::json(&serde_json::json!({"pid": pid}));
    } else {
        output::result(Lines::one(format!("{what} (pid {pid})")));
    }
    Exit::Done
}

fn fail(error: &ConnectFailure) -> Exit {
    output::error(&error.to_string(), None);
    Exit::NotConnected
}

/// Runs the daemon in this process.
async fn serve(place: SocketPlace, options: &RunOptions, take_over: bool) -> Exit {
    // Out of the terminal's session, so that closing it does not end the daemon. It fails only
    // where that is so already.
    let _ = rustix::process::setsid();
    let started = match service::activated_socket() {
        Ok(Some(listener)) => Daemon::activated(listener, place),
        Ok(None) if take_over => Daemon::take_over(place).await,
        Ok(None) => Daemon::start(place),
        Err(error) => Err(StartError::Io(error)),
    };
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(error) => {
            let hint = matches!(error, StartError::Lock(LockError::Held))
                .then_some("`trunkline daemon restart` replaces it");
            output::error(&error.to_string(), hint);
            return Exit::Failed;
        }
    };
    tracing::info!(socket = %daemon.socket().display(), version = env!("CARGO_PKG_VERSION"), "runs");
    let hosts: HostFactory = Arc::new(|| match session::logs() {
        Some(logs) => Host::builder().logs(logs),
        None => Host::builder(),
    });
    let mut daemon_options = DaemonOptions::new(hosts);
    daemon_options.server_idle = options.server_idle;
    daemon_options.exit_idle = options.exit_idle;
    daemon_options.drain = options.drain;
    let ended = daemon.run(daemon_options, interrupted()).await;
    tracing::info!("ends: {}", reason(ended));
    Exit::Done
}

fn reason(ended: Ended) -> &'static str {
    match ended {
        Ended::HandedOver => "a new daemon has taken over",
        Ended::Idle => "it has nothing to do",
        _ => "it was told to",
    }
}

impl RunOptions {
    /// The words that repeat these options.
    fn words(&self) -> Vec<String> {
        let time = |time: Duration| format!("{}ms", time.as_millis());
        let mut words = Vec::new();
        if self.server_idle != SERVER_IDLE {
            words.extend(["--server-idle".to_owned(), time(self.server_idle)]);
        }
        if let Some(idle) = self.exit_idle {
            words.extend(["--exit-idle".to_owned(), time(idle)]);
        }
        if self.drain != DRAIN {
            words.extend(["--drain".to_owned(), time(self.drain)]);
        }
        words
    }
}
