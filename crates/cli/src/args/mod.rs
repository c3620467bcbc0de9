//! The command line: one file per topic, and the list of commands here.

mod config;
mod duration;
mod servers;
mod sign_in;
mod support;
#[cfg(test)]
mod tests;
mod use_servers;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::config::{ConfigArgs, expand_mcp_config};
#[cfg(unix)]
pub(crate) use self::duration::positive_duration;
pub(crate) use self::servers::{
    AddArgs, AddJsonArgs, AddOptions, EditArgs, ImportArgs, ListArgs, NewTransport, WriteScope,
};
pub(crate) use self::sign_in::XaaCommand;
pub(crate) use self::support::{CompletionsArgs, DoctorArgs, LogsArgs};
use self::use_servers::at_least_one;
pub(crate) use self::use_servers::{CallArgs, PromptArgs, ReadArgs, ToolFormat};
use crate::commands::audit::AuditArgs;
#[cfg(unix)]
use crate::commands::daemon::{DAEMON_HELP, DaemonArgs};
use crate::commands::install::{INSTALL_HELP, InstallArgs, UninstallArgs};
use crate::commands::lock::LockArgs;
use crate::commands::policy::PolicyArgs;
use crate::commands::serve::ServeArgs;
use crate::help::{
    ADD_HELP, AFTER_HELP, CALL_HELP, CLEAN_HELP, COMPLETIONS_HELP, DOCTOR_HELP, EDIT_HELP,
    LOGIN_HELP, LOGS_HELP, PROMPT_HELP, READ_HELP, SDK_HELP, SEARCH_HELP, TOOLS_HELP, XAA_HELP,
};
use crate::output::ColorWhen;

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// The widest help, in columns.
const MAX_HELP_WIDTH: usize = 100;

/// Configure MCP servers, list their tools and call them
#[derive(Parser)]
#[command(name = "trunkline", version, after_help = AFTER_HELP, max_term_width = MAX_HELP_WIDTH)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Print the result as one JSON document
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Show more, and log to stderr; `RUST_LOG` selects what
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub(crate) verbose: bool,

    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = GLOBAL
    )]
    pub(crate) color: ColorWhen,

    /// Do not page long output
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_pager: bool,

    /// Without one, the terminal interface opens.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Open the terminal interface, as `trunkline` alone does on a terminal
    Ui {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// See servers, tools and calls at work, with nothing installed
    Demo,
    /// Connect to all servers and show their status
    List {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        list: ListArgs,
    },
    /// Show the status and configuration of a server
    Get {
        #[command(flatten)]
        config: ConfigArgs,

        /// The server's name
        name: String,

        /// Show the values of env and headers (terminal only)
        #[arg(long)]
        show_secrets: bool,

        /// Connect instead of answering from stored catalogs
        #[arg(long)]
        refresh: bool,
    },
    /// Add a server
    #[command(after_help = ADD_HELP)]
    Add(AddArgs),
    /// Add a server from a JSON entry
    AddJson(AddJsonArgs),
    /// Change a server's entry in place
    #[command(after_help = EDIT_HELP)]
    Edit(EditArgs),
    /// Remove a server
    #[command(visible_alias = "rm")]
    Remove {
        /// The server's name
        name: String,

        /// The scope to remove it from: local, project or user [default: the one that has it]
        #[arg(short, long, hide_possible_values = true)]
        scope: Option<WriteScope>,
    },
    /// Enable a server in this project
    Enable {
        /// The server's name
        name: String,
    },
    /// Disable a server in this project
    Disable {
        /// The server's name
        name: String,
    },
    /// Approve servers of the project
    Approve {
        /// The servers [default: prompt for each pending one]
        names: Vec<String>,

        /// Approve all pending servers
        #[arg(long, conflicts_with = "names")]
        all: bool,

        /// Skip the prompt
        #[arg(short, long)]
        yes: bool,
    },
    /// Reject servers of the project
    Reject {
        /// The servers
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Forget all approvals and rejections of this project
    ResetProjectChoices,
    /// Sign in to a server
    #[command(after_help = LOGIN_HELP)]
    Login {
        #[command(flatten)]
        config: ConfigArgs,

        /// The server
        #[arg(required_unless_present = "all")]
        name: Option<String>,

        /// Sign in to every server that waits for it, one after the other
        #[arg(long, conflicts_with_all = ["name", "account"])]
        all: bool,

        /// Sign in with another account than the entry's
        #[arg(long, value_name = "NAME")]
        account: Option<String>,

        /// Print the URL instead of opening a browser
        #[arg(long)]
        no_browser: bool,

        /// Sign in on another device with a code
        #[arg(long, conflicts_with = "no_browser")]
        device: bool,
    },
    /// Sign out of a server: revoke its tokens and delete them
    Logout {
        /// The server
        name: String,

        /// Sign out of another account than the entry's
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
    /// List the servers that you are signed in to
    Accounts,
    /// Sign in through the identity provider of your company
    #[command(after_help = XAA_HELP)]
    Xaa {
        #[command(subcommand)]
        command: XaaCommand,
    },
    /// Show, try and learn the sandboxes of servers
    Sandbox(crate::commands::sandbox::SandboxArgs),
    /// Show the policy for calls, and test what it does to one
    Policy(PolicyArgs),
    /// Show and verify the audit log
    Audit(AuditArgs),
    /// Lock the versions and contents of the project's servers
    Lock(LockArgs),
    /// Import servers from other MCP clients
    Import(ImportArgs),
    /// Put the gateway into the configuration of another MCP client
    #[command(after_help = INSTALL_HELP)]
    Install(InstallArgs),
    /// Take the gateway out of the configuration of another MCP client
    Uninstall(UninstallArgs),
    /// Remove logs, caches, pins and approvals of servers that no longer exist
    #[command(after_help = CLEAN_HELP)]
    Clean {
        #[command(flatten)]
        config: ConfigArgs,

        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// List tools, or show one in detail
    #[command(after_help = TOOLS_HELP)]
    Tools {
        #[command(flatten)]
        config: ConfigArgs,

        /// List only the tools of this server (or show the tool `mcp__<server>__<tool>`)
        server: Option<String>,

        /// Show this tool of the server in detail
        tool: Option<String>,

        /// Print tool definitions for a model's API: anthropic (Messages), openai (Chat
        /// Completions), openai-responses or mcp (`tools/list`)
        #[arg(long, hide_possible_values = true)]
        format: Option<ToolFormat>,

        /// Connect instead of answering from stored catalogs
        #[arg(long)]
        refresh: bool,
    },
    /// Search tools by what they do
    #[command(after_help = SEARCH_HELP)]
    Search {
        #[command(flatten)]
        config: ConfigArgs,

        /// What the tool should do
        #[arg(required = true)]
        words: Vec<String>,

        /// The maximum number of results
        #[arg(short = 'n', long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
        limit: usize,

        /// Connect instead of answering from stored catalogs
        #[arg(long)]
        refresh: bool,
    },
    /// Call a tool
    #[command(after_help = CALL_HELP)]
    Call {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        call: CallArgs,
    },
    /// List resources
    Resources {
        #[command(flatten)]
        config: ConfigArgs,

        /// List only those of this server
        server: Option<String>,

        /// Connect instead of answering from stored catalogs
        #[arg(long)]
        refresh: bool,
    },
    /// Read a resource
    #[command(after_help = READ_HELP)]
    Read {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        read: ReadArgs,
    },
    /// List prompts and skills
    Prompts {
        #[command(flatten)]
        config: ConfigArgs,

        /// List only those of this server
        server: Option<String>,

        /// Connect instead of answering from stored catalogs
        #[arg(long)]
        refresh: bool,
    },
    /// Get a prompt
    #[command(after_help = PROMPT_HELP)]
    Prompt {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        prompt: PromptArgs,
    },
    /// Summarise servers, tools, resources and prompts
    Status {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Find out why servers do not work, and how to mend them
    #[command(after_help = DOCTOR_HELP)]
    Doctor {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        doctor: DoctorArgs,
    },
    /// Show the logs of servers
    #[command(after_help = LOGS_HELP)]
    Logs(LogsArgs),
    /// Serve an embedding program over stdin and stdout
    #[command(after_help = SDK_HELP)]
    Sdk {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Run one process of each server for all clients
    #[cfg(unix)]
    #[command(after_help = DAEMON_HELP)]
    Daemon(DaemonArgs),
    /// Serve all servers as one MCP server
    Serve(Box<ServeArgs>),
    /// Print or install a shell completion script
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Check stored catalogs in the background, for commands that answered from them
    #[command(name = crate::background::COMMAND, hide = true)]
    CheckCatalogs,
    /// Print the manual page, or write those of all commands
    Man {
        /// Write a page for each command to this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}
