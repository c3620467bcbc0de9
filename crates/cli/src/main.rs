//! The `trunkline` program: commands for the person who configures, debugs and uses MCP servers.
//!
//! Each command is a file in [`commands`]; what they share is in [`session`] (the host they work with) and [`output`] (the
//! only place that prints).

mod args;
mod arguments;
mod commands;
mod exit;
mod interrupt;
mod output;
mod session;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, ConfigArgs};
use exit::Exit;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and version come this way too, and are no mistake.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            }
            .into();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let exit = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => {
            output::error(&format!("the program could not start: {error}"), None);
            Exit::Failed
        }
    };
    match exit {
        Exit::Done if output::lost() => Exit::Failed,
        exit => exit,
    }
    .into()
}

async fn run(args: Args) -> Exit {
    let Args {
        config: before,
        json,
        command,
    } = args;
    let both = |after: ConfigArgs| [before.mcp_config, after.mcp_config].concat();
    match command {
        Command::Demo => commands::demo::run(json).await,
        Command::List { config } => commands::list::run(&both(config), json).await,
        Command::Tools { config, server } => {
            commands::tools::run(&both(config), server.as_deref(), json).await
        }
        Command::Call { config, call } => commands::call::run(&both(config), &call, json).await,
        Command::Completions { shell } => commands::completions::run(shell),
    }
}
