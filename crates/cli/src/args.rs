//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use trunkline::log::Since;
use trunkline::tool::Format;
use trunkline_config::Scope;

use crate::help::{
    ADD_HELP, AFTER_HELP, CALL_HELP, CLEAN_HELP, COMPLETIONS_HELP, DOCTOR_HELP, EDIT_HELP,
    LOGIN_HELP, LOGS_HELP, PROMPT_HELP, READ_HELP, SDK_HELP, SEARCH_HELP, TOOLS_HELP, XAA_HELP,
};
use crate::output::ColorWhen;

/// Configure MCP servers, list their tools and call them
#[derive(Parser)]
#[command(name = "trunkline", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Print the result as one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show more, and log to stderr; `RUST_LOG` selects what
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWhen,

    /// Do not page long output
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options for where servers come from and when they start. Accepted before and after the command;
/// both add up.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ConfigArgs {
    /// Load servers from a JSON file or string (repeatable)
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,

    /// Use only this server (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) mcp_server: Vec<String>,

    /// Use only servers from --mcp-config
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,

    /// Load the plugin in this directory (repeatable)
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// Approve the project's servers for this run only
    #[arg(long)]
    pub(crate) approve_project: bool,

    /// Start servers with a cached catalog only when they are called
    #[arg(long)]
    pub(crate) lazy: bool,

    /// Neither read nor write cached catalogs and protocol versions
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Write all messages to a file as JSON lines, without secrets (`-` for stderr)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

const MCP_CONFIG: &str = "--mcp-config";

/// Inserts one `--mcp-config` before each of its values: as in Claude Code, several may follow one
/// flag. Only JSON and names that end in `.json` count as values, because other words follow as
/// well.
pub(crate) fn expand_mcp_config(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut expanded: Vec<OsString> = Vec::new();
    // The number of values since the last flag; none once another word has followed.
    let mut values = None;
    // Words after `--` belong to a server's command.
    let mut ours = true;
    for word in words {
        ours &= word != "--";
        if !ours {
            expanded.push(word);
            continue;
        }
        let text = word.to_str().unwrap_or_default();
        let is_file = || Path::new(text).extension().is_some_and(|end| end == "json");
        let is_value = text.starts_with('{') || (!text.starts_with('-') && is_file());
        values = match values {
            _ if text == MCP_CONFIG => Some(0),
            _ if text.starts_with("--mcp-config=") => Some(1),
            // The first word after the flag is its value, whatever it looks like.
            Some(0) => Some(1),
            Some(count) if is_value => {
                expanded.push(MCP_CONFIG.into());
                Some(count + 1)
            }
            _ => None,
        };
        expanded.push(word);
    }
    expanded
}

impl ConfigArgs {
    /// Merges the options before the command with those after it.
    pub(crate) fn and(self, after: Self) -> Self {
        Self {
            mcp_config: [self.mcp_config, after.mcp_config].concat(),
            mcp_server: [self.mcp_server, after.mcp_server].concat(),
            strict_mcp_config: self.strict_mcp_config || after.strict_mcp_config,
            plugin_dir: [self.plugin_dir, after.plugin_dir].concat(),
            approve_project: self.approve_project || after.approve_project,
            lazy: self.lazy || after.lazy,
            no_cache: self.no_cache || after.no_cache,
            trace: after.trace.or(self.trace),
        }
    }
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

        /// The scope to remove it from [default: the one that has it]
        #[arg(short, long)]
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
    /// Import servers from other MCP clients
    Import(ImportArgs),
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

        /// Print tool definitions for a model's API
        #[arg(long)]
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
    /// Show and try the sandboxes of servers
    Sandbox(crate::commands::sandbox::SandboxArgs),
    /// Print or install a shell completion script
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands
    Man {
        /// Write a page for each command to this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// The servers [default: all]
    pub(crate) names: Vec<String>,

    /// Show only servers that failed or need you
    #[arg(long)]
    pub(crate) failed: bool,
}

/// The API for which tools are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolFormat {
    /// Anthropic's Messages API
    Anthropic,
    /// OpenAI's Chat Completions API and compatible ones
    Openai,
    /// OpenAI's Responses API
    OpenaiResponses,
    /// MCP's `tools/list`
    Mcp,
}

impl From<ToolFormat> for Format {
    fn from(format: ToolFormat) -> Self {
        match format {
            ToolFormat::Anthropic => Self::Anthropic,
            ToolFormat::Openai => Self::OpenAi,
            ToolFormat::OpenaiResponses => Self::OpenAiResponses,
            ToolFormat::Mcp => Self::Mcp,
        }
    }
}

/// A scope that servers can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteScope {
    /// For you, in this project
    Local,
    /// For everyone who works on the project: .mcp.json
    Project,
    /// For you, in every project
    User,
}

impl From<WriteScope> for Scope {
    fn from(scope: WriteScope) -> Self {
        match scope {
            WriteScope::Local => Self::Local,
            WriteScope::Project => Self::Project,
            WriteScope::User => Self::User,
        }
    }
}

/// The transport of a new server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewTransport {
    Stdio,
    Sse,
    Http,
    Ws,
}

#[derive(clap::Args)]
pub(crate) struct AddArgs {
    /// The server's name, its command or URL, and arguments
    #[arg(required = true, value_name = "NAME COMMAND|URL ARGS", num_args = 1..)]
    pub(crate) words: Vec<String>,

    /// A command with its own flags
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub(crate) command: Vec<String>,

    /// The transport [default: http for a URL, otherwise stdio]
    #[arg(short, long)]
    pub(crate) transport: Option<NewTransport>,

    /// Set an environment variable of the server (repeatable)
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,

    /// Send an HTTP header (repeatable)
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// The OAuth client ID
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// The port of the OAuth redirect
    #[arg(long, value_name = "PORT")]
    pub(crate) callback_port: Option<u16>,

    #[command(flatten)]
    pub(crate) options: AddOptions,
}

/// Options for writing a new server.
#[derive(clap::Args)]
pub(crate) struct AddOptions {
    /// The scope to add it to
    #[arg(short, long, default_value = "local")]
    pub(crate) scope: WriteScope,

    /// Prompt for the OAuth client secret (or read `MCP_CLIENT_SECRET`) and store it in the
    /// keychain
    #[arg(long)]
    pub(crate) client_secret: bool,

    /// Replace an existing server
    #[arg(long)]
    pub(crate) force: bool,

    /// Do not connect to it
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(clap::Args)]
pub(crate) struct AddJsonArgs {
    /// The server's name
    pub(crate) name: String,

    /// The entry as JSON (`-` for stdin)
    pub(crate) entry: String,

    #[command(flatten)]
    pub(crate) options: AddOptions,
}

#[derive(clap::Args)]
pub(crate) struct EditArgs {
    /// The server's name
    pub(crate) name: String,

    /// Replace the command and its arguments
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub(crate) command_line: Vec<String>,

    /// The scope of the entry, if several have one
    #[arg(short, long)]
    pub(crate) scope: Option<WriteScope>,

    /// Set an environment variable (repeatable)
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,

    /// Remove an environment variable (repeatable)
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_env: Vec<String>,

    /// Set an HTTP header (repeatable)
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// Remove an HTTP header (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) unset_header: Vec<String>,

    /// Set the command and keep its arguments
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) command: Option<String>,

    /// Append an argument (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) arg: Vec<String>,

    /// Remove an argument (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) unset_arg: Vec<String>,

    /// Set the URL
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// Set the working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,

    /// Set the timeout of a tool call
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,

    /// Set the timeout for connecting
    #[arg(long, value_name = "MS")]
    pub(crate) connect_timeout: Option<u64>,

    /// Set any field, such as `lazy` or `oauth.scopes`, to a JSON value or a string (repeatable)
    #[arg(long, value_name = "FIELD=JSON")]
    pub(crate) set: Vec<String>,

    /// Remove a field (repeatable)
    #[arg(long, value_name = "FIELD")]
    pub(crate) unset: Vec<String>,

    /// Open the entry in $VISUAL or $EDITOR (default on a terminal)
    #[arg(long)]
    pub(crate) editor: bool,
}

#[derive(Subcommand)]
pub(crate) enum XaaCommand {
    /// Set the identity provider
    Setup {
        /// The issuer, an https URL
        #[arg(long, value_name = "URL")]
        issuer: String,

        /// The client id that the identity provider knows trunkline by
        #[arg(long, value_name = "ID")]
        client_id: String,

        /// Prompt for the client secret (or set `MCP_XAA_IDP_CLIENT_SECRET`)
        #[arg(long)]
        client_secret: bool,

        /// The port for the callback of the browser
        #[arg(long, value_name = "PORT")]
        callback_port: Option<u16>,
    },
    /// Sign in at the identity provider
    Login {
        /// Print the URL instead of opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Show the identity provider and who is signed in
    Show,
    /// Sign out, and forget the identity provider and its secret
    Clear,
}

#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// The client: claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, opencode or goose
    pub(crate) client: Option<String>,

    /// Import only this server (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Read this file instead of the client's default
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) file: Option<PathBuf>,

    /// The scope to import into
    #[arg(short, long, default_value = "user")]
    pub(crate) scope: WriteScope,

    /// With -s project, also import servers from your own files
    #[arg(long, requires = "only")]
    pub(crate) from_user: bool,

    /// Rename the server
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) rename: Option<String>,

    /// Replace existing servers
    #[arg(long)]
    pub(crate) force: bool,

    /// Skip the prompt
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Only show what would be written
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell [default with --install: that of $SHELL]
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub(crate) shell: Option<clap_complete::Shell>,

    /// Write the script to where the shell looks for it
    #[arg(long)]
    pub(crate) install: bool,

    /// Remove the script again
    #[arg(long, conflicts_with = "install")]
    pub(crate) uninstall: bool,
}

#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The servers [default: all]
    pub(crate) names: Vec<String>,

    /// Mend what can be mended safely in your own files
    #[arg(long)]
    pub(crate) fix: bool,

    /// Only show what --fix would change
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write an archive without secrets for a bug report
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the file is optional")]
    pub(crate) bundle: Option<Option<PathBuf>>,

    /// Replace an existing archive
    #[arg(long, requires = "bundle")]
    pub(crate) force: bool,
}

#[derive(clap::Args)]
pub(crate) struct LogsArgs {
    /// Show only the log of this server
    pub(crate) server: Option<String>,

    /// Follow the log
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// The number of newest lines [default: 100, or all with --since]
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,

    /// Show only newer lines: 90s, 10m, 2h, 7d, or a time such as 2026-11-16T02:03Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn since(text: &str) -> Result<Since, &'static str> {
    Since::parse(text)
        .ok_or("expected a duration such as 10m, or a UTC time such as 2026-11-16T02:03Z")
}

#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// `<server> <tool>` or `mcp__<server>__<tool>`, followed by arguments
    #[arg(required = true, value_name = "TOOL", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Arguments as one JSON object (`-` for stdin)
    #[arg(long, value_name = "JSON")]
    pub(crate) json_args: Option<String>,

    /// The timeout, including the connection [default: the entry's, or `MCP_TOOL_TIMEOUT`]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,

    /// Do not validate arguments against the tool's schema
    #[arg(long)]
    pub(crate) no_validate: bool,

    /// Accept a tool that has changed since its first call
    #[arg(long)]
    pub(crate) accept_changes: bool,

    /// Print the result as it is, as in a pipe
    #[arg(long)]
    pub(crate) raw: bool,

    /// Answer a question of the server: `key=value` or `key:=json` (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) elicit: Vec<String>,

    /// Answer questions of the server with their defaults
    #[arg(long)]
    pub(crate) elicit_defaults: bool,

    /// Never prompt: cancel questions that the flags do not answer
    #[arg(long)]
    pub(crate) no_input: bool,
}

#[derive(clap::Args)]
pub(crate) struct ReadArgs {
    /// `<server> <uri>` or `@server:uri`, followed by template variables as key=value
    #[arg(required = true, value_name = "RESOURCE", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Write the content to a file, numbered if there are several (`-` for stdout)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print text as it is, as in a pipe
    #[arg(long)]
    pub(crate) raw: bool,

    /// The timeout, including the connection
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct PromptArgs {
    /// `<server> <prompt>` or `mcp__<server>__<prompt>`, followed by arguments
    #[arg(required = true, value_name = "PROMPT", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Positional arguments, taken literally
    #[arg(last = true, value_name = "WORDS")]
    pub(crate) literal: Vec<String>,

    /// The timeout, including the connection
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flag_takes_several_configurations() {
        for (line, expected) in [
            (
                "t --mcp-config a.json b.json list",
                "t --mcp-config a.json --mcp-config b.json list",
            ),
            (
                "t list --mcp-config a {} c.json",
                "t list --mcp-config a --mcp-config {} --mcp-config c.json",
            ),
            (
                "t --mcp-config=a.json b.json",
                "t --mcp-config=a.json --mcp-config b.json",
            ),
            (
                "t --mcp-config a s tool.json",
                "t --mcp-config a s tool.json",
            ),
            (
                "t --mcp-config a.json call s",
                "t --mcp-config a.json call s",
            ),
            (
                "t add x -- c --mcp-config a.json b.json",
                "t add x -- c --mcp-config a.json b.json",
            ),
        ] {
            let words = line.split(' ').map(OsString::from);
            let expanded = expand_mcp_config(words);
            let expanded: Vec<_> = expanded.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(expanded.join(" "), expected);
        }
    }
}
