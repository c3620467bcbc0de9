//! `trunkline sandbox`: what a server may do, and a shell that may do the same (SEC-5).

mod learn;

use clap::Subcommand;
use serde_json::json;
use trunkline::sandbox::{Launch, explain};
use trunkline_config::{Server, TransportEntry};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, inline};
use crate::session::{self, Configured};

#[derive(clap::Args)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Subcommand)]
enum SandboxCommand {
    /// Show what a server may do, and why
    Explain {
        /// The server
        name: String,
    },
    /// Run a shell, or another command, in the sandbox of a server
    Try {
        /// The server
        name: String,
        /// The command [default: sh]
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Observe a server in a sandbox, and propose the smallest profile for what it does
    Learn(learn::LearnArgs),
}

pub(crate) async fn run(config: &ConfigArgs, args: &SandboxArgs, as_json: bool) -> Exit {
    let name = match &args.command {
        SandboxCommand::Explain { name } | SandboxCommand::Try { name, .. } => name,
        SandboxCommand::Learn(args) => &args.name,
    };
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let Some(server) = configured.foremost(name) else {
        return configured.unknown(name);
    };
    if let SandboxCommand::Learn(args) = &args.command {
        return learn::run(&configured, server, args, as_json).await;
    }
    let launch = match launch(&configured, server) {
        Ok(launch) => launch,
        Err(reason) => {
            let what = format!(
                "{} has no usable sandbox: {}",
                output::name(name),
                inline(&reason)
            );
            let hint = format!("fix it in {}", inline(&server.entry.source));
            output::error(&what, Some(&hint));
            return Exit::Usage;
        }
    };
    match &args.command {
        SandboxCommand::Explain { .. } => show(server, launch.as_ref(), as_json),
        SandboxCommand::Try { command, .. } => {
            let Some(launch) = launch else {
                let what = format!("{} runs without a sandbox", output::name(name));
                output::error(&what, Some(&free_hint(server)));
                return Exit::Usage;
            };
            enter(launch, command)
        }
        SandboxCommand::Learn(_) => Exit::Done,
    }
}

fn launch(configured: &Configured, server: &Server) -> Result<Option<Launch>, String> {
    let builder = session::builder(Some(configured.loader.layout()));
    builder.sandboxed(&server.entry)
}

fn free_hint(server: &Server) -> String {
    match server.entry.transport {
        TransportEntry::Stdio(_) => {
            format!(
                "write \"sandbox\": true into its entry in {}",
                inline(&server.entry.source)
            )
        }
        _ => "only servers that trunkline starts can have one".to_owned(),
    }
}

fn show(server: &Server, launch: Option<&Launch>, as_json: bool) -> Exit {
    let reasons = match server.entry.confined() {
        Ok(Some(sandbox)) => sandbox.reasons,
        _ => Vec::new(),
    };
    let landlock = landlock_version();
    if as_json {
        output::json(&json!({
            "server": server.entry.name, "sandboxed": launch.is_some(), "reasons": reasons,
            "rules": launch.map(|launch| &launch.rules), "landlock": landlock,
        }));
        return Exit::Done;
    }
    let name = output::name(&server.entry.name);
    let Some(launch) = launch else {
        let text = format!("{name} runs without a sandbox; {}", free_hint(server));
        let mut lines = Lines::new();
        lines.push_line(Line::of(Style::Plain, text));
        output::note(lines);
        return Exit::Done;
    };
    let mut lines = Lines::new();
    let reasons: Vec<String> = reasons.iter().map(|reason| inline(reason)).collect();
    let head = Line::of(Style::Name, name);
    let why = format!(" runs in a sandbox: {}", reasons.join(", "));
    lines.push_line(head.and(Style::Plain, why));
    let mut last = "";
    for (about, text) in explain(&launch.rules) {
        let shown = if about == last { "" } else { about };
        last = about;
        let line = Line::of(Style::Plain, format_args!("  {shown:<8} {}", inline(&text)));
        lines.push_line(line);
    }
    let landlock = match landlock {
        Some(version) => format!(", Landlock (ABI {version})"),
        None => String::new(),
    };
    let text = format!("  {:<8} namespaces, seccomp, limits{landlock}", "enforced");
    lines.push_line(Line::of(Style::Plain, text));
    output::result(lines);
    Exit::Done
}

#[cfg(target_os = "linux")]
fn landlock_version() -> Option<u32> {
    trunkline_sandbox::launcher::landlock_abi()
}

#[cfg(not(target_os = "linux"))]
fn landlock_version() -> Option<u32> {
    None
}

/// Becomes the command, in the sandbox: its exit code is that of this program.
#[cfg(target_os = "linux")]
fn enter(mut launch: Launch, command: &[String]) -> Exit {
    use std::os::unix::process::CommandExt;

    let (program, args) = match command.split_first() {
        Some((program, args)) => (program.clone(), args.to_vec()),
        None => ("sh".to_owned(), Vec::new()),
    };
    launch.command = program;
    launch.args = args;
    let Some(launcher) = session::sandbox_launcher() else {
        output::error("the path of this program is unknown", None);
        return Exit::NotConnected;
    };
    let mut launcher = std::process::Command::new(launcher);
    launcher
        .arg(trunkline_sandbox::LAUNCHER_ARG)
        .env_clear()
        .envs(launch.to_variables());
    let error = launcher.exec();
    output::error(&format!("the sandbox could not be started: {error}"), None);
    Exit::NotConnected
}

#[cfg(not(target_os = "linux"))]
fn enter(_: Launch, _: &[String]) -> Exit {
    output::error("sandboxes exist on Linux only", None);
    Exit::NotConnected
}
