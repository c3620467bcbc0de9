//! The `trunkline` program: commands for the person who configures, debugs and uses MCP servers.
//!
//! Each command is a file in [`commands`]. They share [`session`], which runs a host for them, and
//! [`output`], the only module that prints.

mod args;
mod arguments;
mod audit;
mod background;
mod browser;
mod change;
mod commands;
mod complete;
#[cfg(unix)]
mod daemon_use;
mod elicit;
mod example;
mod exit;
mod hardening;
mod help;
mod history;
mod interrupt;
mod lockable;
mod output;
mod permit;
mod pixels;
mod program;
mod running;
mod schema;
mod scripts;
mod session;
mod session_token;
mod standing;
mod stored;
mod telemetry;
mod ui;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use args::{Args, Command};
use exit::Exit;
use stored::Catalogs;

/// How long blocked threads may delay the exit.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before anything starts a thread.
    if let Some(exit) = sandbox_launcher() {
        return exit;
    }
    if complete::answer() {
        return ExitCode::SUCCESS;
    }
    let words = args::expand_mcp_config(claude_aliases(std::env::args_os().collect()));
    output::decide_colours(&words);
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => {
            return report_usage(&words, &error).into();
        }
    };
    hardening::apply();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let exit = match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(run(args));
            // A locked keychain must not delay the exit.
            runtime.shutdown_timeout(SHUTDOWN_GRACE);
            exit
        }
        Err(error) => {
            output::error(&format!("could not start: {error}"), None);
            Exit::Failed
        }
    };
    let exit = match exit {
        Exit::Done if output::lost() => Exit::Failed,
        exit => exit,
    };
    output::finish(exit);
    exit.into()
}

/// Becomes a sandboxed server, if a host started this program as the launcher (SEC-5).
#[cfg(target_os = "linux")]
fn sandbox_launcher() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let is_launcher = args.next()? == trunkline_sandbox::LAUNCHER_ARG;
    is_launcher.then(|| trunkline_sandbox::launcher::run(args.next().as_deref()))
}

/// Elsewhere there is no launcher, and a host refuses sandboxed servers.
#[cfg(not(target_os = "linux"))]
fn sandbox_launcher() -> Option<ExitCode> {
    None
}

/// Returns the command. Without one, the terminal interface opens where it can (UI-4), and the help
/// is shown elsewhere.
fn command_or_interface(command: Option<Command>) -> Result<Command, Exit> {
    let interface = Command::Ui {
        config: args::ConfigArgs::default(),
    };
    match command {
        Some(command) => Ok(command),
        None if ui::is_possible() => Ok(interface),
        None => {
            let words: Vec<OsString> = std::env::args_os().collect();
            if output::is_json() {
                let hint = Some("see `trunkline --help`");
                output::error("a command is missing", hint);
            } else {
                let help = Args::command().render_help();
                output::usage_error(&help.to_string(), &words);
            }
            if ui::is_dumb() && output::on_terminal() {
                output::note(output::Lines::one(
                    "\nTERM=dumb cannot show the terminal interface; all commands work",
                ));
            }
            Err(Exit::Usage)
        }
    }
}

/// Reports a bad command line, or prints the help or version that it asks for.
fn report_usage(words: &[OsString], error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    // Words after `--` belong to a server's command.
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    let adding = own.iter().any(|word| word == "add");
    let hint = (adding && error.kind() == ErrorKind::UnknownArgument).then_some(
        "put a command with flags after `--`: trunkline add <name> -- <command> <flags>",
    );
    if own.iter().any(|word| word == "--json") {
        output::use_json();
        let text = error.to_string();
        let what = text.split("\n\n").next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what);
        output::error(what, hint.or(Some("see `trunkline --help`")));
        output::finish(Exit::Usage);
        return Exit::Usage;
    }
    output::usage_error(&error.render().to_string(), words);
    if let Some(hint) = hint {
        output::hint(hint);
    }
    Exit::Usage
}

/// Accepts `trunkline mcp …` and `add-from-claude-desktop`, as Claude Code spells them.
fn claude_aliases(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "mcp") {
        words.remove(1);
    }
    if words
        .get(1)
        .is_some_and(|word| word == "add-from-claude-desktop")
    {
        words.splice(1..2, ["import", "claude-desktop"].map(OsString::from));
    }
    words
}

#[allow(clippy::too_many_lines, reason = "one arm per command")]
async fn run(args: Args) -> Exit {
    let Args {
        config,
        json,
        verbose,
        // Decided before the command line was parsed.
        color: _,
        no_pager,
        command,
    } = args;
    if json {
        output::use_json();
    }
    if verbose {
        output::use_verbose();
    }
    if no_pager {
        output::use_no_pager();
    }
    let command = match command_or_interface(command) {
        Ok(command) => command,
        Err(exit) => return exit,
    };
    // There, it asks for more output of the command.
    let shows_more = matches!(command, Command::List { .. } | Command::Doctor { .. });
    // Log lines would paint over the interface.
    if !matches!(command, Command::Ui { .. }) {
        telemetry::init(verbose && !shows_more);
    }
    match command {
        Command::Ui { config: more } => ui::run(&config.and(more), json).await,
        Command::Demo => commands::demo::run(&config, json).await,
        Command::List { config: more, list } => {
            commands::list::run(&config.and(more), &list, verbose, json).await
        }
        Command::Get {
            config: more,
            name,
            show_secrets,
            refresh,
        } => {
            let catalogs = Catalogs::refreshed(refresh);
            commands::get::run(&config.and(more), &name, show_secrets, catalogs, json).await
        }
        Command::Add(add) => commands::add::run(&config, &add, json).await,
        Command::AddJson(add) => commands::add::run_json(&config, &add, json).await,
        Command::Edit(edit) => commands::edit::run(&config, &edit, json).await,
        Command::Remove { name, scope } => commands::remove::run(&config, &name, scope, json),
        Command::Enable { name } => commands::enable::run(&config, &name, true, json),
        Command::Disable { name } => commands::enable::run(&config, &name, false, json),
        Command::Approve { names, all, yes } => {
            commands::approve::approve(&config, &names, all, yes, json)
        }
        Command::Reject { names } => commands::approve::reject(&config, &names, json),
        Command::ResetProjectChoices => commands::approve::reset(&config, json),
        Command::Login {
            config: more,
            name,
            all: _,
            account,
            no_browser,
            device,
        } => {
            let method = commands::login::LoginMethod::new(device, no_browser);
            let config = config.and(more);
            match name {
                Some(name) => {
                    let account = account.as_deref();
                    commands::login::run(&config, &name, account, method, json).await
                }
                None => commands::login::run_all(&config, method, json).await,
            }
        }
        Command::Logout { name, account } => {
            commands::logout::run(&config, &name, account.as_deref(), json).await
        }
        Command::Accounts => commands::accounts::run(json),
        Command::Xaa { command } => commands::xaa::run(&command, json).await,
        Command::Audit(audit) => commands::audit::run(&audit, json).await,
        Command::Lock(lock) => commands::lock::run(config, lock, json).await,
        Command::Policy(policy) => commands::policy::run(config, policy, json).await,
        Command::Import(import) => commands::import::run(&config, &import, json),
        Command::Install(install) => commands::install::install(&install, json),
        Command::Uninstall(uninstall) => commands::install::uninstall(&uninstall, json),
        Command::Clean {
            config: more,
            dry_run,
        } => commands::clean::run(&config.and(more), dry_run, json),
        Command::Tools {
            config: more,
            server,
            tool,
            format,
            refresh,
        } => {
            let words: Vec<String> = server.into_iter().chain(tool).collect();
            let catalogs = Catalogs::refreshed(refresh);
            commands::tools::run(&config.and(more), &words, format, catalogs, json).await
        }
        Command::Search {
            config: more,
            words,
            limit,
            refresh,
        } => {
            let catalogs = Catalogs::refreshed(refresh);
            commands::search::run(&config.and(more), &words, limit, catalogs, json).await
        }
        Command::Call { config: more, call } => {
            commands::call::run(&config.and(more), &call, json).await
        }
        Command::Status { config: more } => commands::status::run(&config.and(more), json).await,
        Command::Resources {
            config: more,
            server,
            refresh,
        } => {
            let catalogs = Catalogs::refreshed(refresh);
            commands::resources::run(&config.and(more), server.as_deref(), catalogs, json).await
        }
        Command::Read { config: more, read } => {
            commands::read::run(&config.and(more), &read, json).await
        }
        Command::Prompts {
            config: more,
            server,
            refresh,
        } => {
            let catalogs = Catalogs::refreshed(refresh);
            commands::prompts::run(&config.and(more), server.as_deref(), catalogs, json).await
        }
        Command::Prompt {
            config: more,
            prompt,
        } => commands::prompt::run(&config.and(more), &prompt, json).await,
        Command::Doctor {
            config: more,
            doctor,
        } => {
            let detail = commands::doctor::Detail::new(verbose);
            commands::doctor::run(&config.and(more), &doctor, detail, json).await
        }
        Command::Logs(logs) => commands::logs::run(&config, &logs, json).await,
        Command::Sdk { config: more } => commands::sdk::run(config.and(more)).await,
        #[cfg(unix)]
        Command::Daemon(daemon) => commands::daemon::run(daemon, json).await,
        Command::Serve(serve) => commands::serve::run(config, *serve, json).await,
        Command::Sandbox(sandbox) => commands::sandbox::run(&config, &sandbox, json).await,
        Command::Completions(completions) => commands::completions::run(&completions, json),
        Command::CheckCatalogs => background::run(&config).await,
        Command::Man { out } => commands::man::run(out.as_deref(), json),
    }
}
