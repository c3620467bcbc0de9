//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use trunkline::log::Since;
use trunkline::tool::Format;
use trunkline_config::Scope;

use crate::help::{
    ADD_HELP, AFTER_HELP, CALL_HELP, CLEAN_HELP, EDIT_HELP, LOGS_HELP, PROMPT_HELP, READ_HELP,
    SDK_HELP, SEARCH_HELP, TOOLS_HELP,
};

/// Connects to MCP servers, shows what they offer and calls their tools
#[derive(Parser)]
#[command(name = "trunkline", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Print one JSON document to standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where servers come from, and when they start. Taken before and after the command alike: what stands in both places adds up.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ConfigArgs {
    /// Also use the servers in this file, or in this JSON text; may be repeated, and several files that end in .json, or
    /// JSON texts, may follow one flag
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,

    /// Use only this one of the configured servers; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) mcp_server: Vec<String>,

    /// Use only the servers that --mcp-config names
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,

    /// Also use the plugin in this directory; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// Approve the project's own servers, for this run only
    #[arg(long)]
    pub(crate) approve_project: bool,

    /// Start a server only when one of its tools is called, if its tools are known from an earlier run
    #[arg(long)]
    pub(crate) lazy: bool,

    /// Do not use what is known of servers from earlier runs, and do not keep what they say now
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Write every message to and from servers into this file, as JSON lines without secrets; `-` is standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// The flag that names configuration.
const MCP_CONFIG: &str = "--mcp-config";

/// The command line with one `--mcp-config` before each of its values: several may follow one flag, as for Claude Code.
/// Only what is plainly such a value counts, because names and arguments follow as well.
pub(crate) fn spelled_out(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut spelled: Vec<OsString> = Vec::new();
    // How many values the last flag has had, if nothing else came since.
    let mut values = None;
    // What follows `--` is somebody else's command.
    let mut ours = true;
    for word in words {
        ours &= word != "--";
        if !ours {
            spelled.push(word);
            continue;
        }
        let text = word.to_str().unwrap_or_default();
        let is_file = || Path::new(text).extension().is_some_and(|end| end == "json");
        let is_value = text.starts_with('{') || (!text.starts_with('-') && is_file());
        values = match values {
            _ if text == MCP_CONFIG => Some(0),
            _ if text.starts_with("--mcp-config=") => Some(1),
            // Its own, whatever it is.
            Some(0) => Some(1),
            Some(count) if is_value => {
                spelled.push(MCP_CONFIG.into());
                Some(count + 1)
            }
            _ => None,
        };
        spelled.push(word);
    }
    spelled
}

impl ConfigArgs {
    /// What stands before and after the command, together.
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
    /// Show the whole path, from server to result, with nothing installed
    Demo,
    /// Connect to every server and show how it fares
    List {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Show one server: how it fares, where it comes from and how it is configured
    Get {
        #[command(flatten)]
        config: ConfigArgs,

        /// The server's name
        name: String,

        /// Show the values of env and headers too; only on a terminal
        #[arg(long)]
        show_secrets: bool,
    },
    /// Add a server
    #[command(after_help = ADD_HELP)]
    Add(AddArgs),
    /// Add a server from a JSON text
    AddJson(AddJsonArgs),
    /// Change a server's entry where it stands
    #[command(after_help = EDIT_HELP)]
    Edit(EditArgs),
    /// Remove a server
    #[command(visible_alias = "rm")]
    Remove {
        /// The server's name
        name: String,

        /// Where to remove it from; by default from where it is
        #[arg(short, long)]
        scope: Option<WriteScope>,
    },
    /// Switch a server on for this project
    Enable {
        /// The server's name
        name: String,
    },
    /// Switch a server off for this project
    Disable {
        /// The server's name
        name: String,
    },
    /// Approve servers of the project, as they are now
    Approve {
        /// Their names; by default each pending one is asked about
        names: Vec<String>,

        /// Approve all that are pending
        #[arg(long, conflicts_with = "names")]
        all: bool,

        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Reject servers of the project
    Reject {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Forget which of the project's servers were approved and rejected
    ResetProjectChoices,
    /// Take over the servers of other MCP clients
    Import(ImportArgs),
    /// Remove what is kept for servers that are gone: logs, results, catalogs, pins and approvals
    #[command(after_help = CLEAN_HELP)]
    Clean {
        #[command(flatten)]
        config: ConfigArgs,

        /// Show what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the tools of all servers, or of one, or all about one tool
    #[command(after_help = TOOLS_HELP)]
    Tools {
        #[command(flatten)]
        config: ConfigArgs,

        /// Only this server's; or the whole name of a tool, `mcp__<server>__<tool>`
        server: Option<String>,

        /// Everything about this tool of it
        tool: Option<String>,

        /// As the JSON that a model's interface takes, the schemas byte for byte
        #[arg(long)]
        format: Option<ToolFormat>,
    },
    /// Find tools by what they are for
    #[command(after_help = SEARCH_HELP)]
    Search {
        #[command(flatten)]
        config: ConfigArgs,

        /// What the tool should do
        #[arg(required = true)]
        words: Vec<String>,

        /// How many tools to show at most
        #[arg(short = 'n', long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
        limit: usize,
    },
    /// Call a tool
    #[command(after_help = CALL_HELP)]
    Call {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        call: CallArgs,
    },
    /// Show the resources of all servers, or of one
    Resources {
        #[command(flatten)]
        config: ConfigArgs,

        /// Only this server's
        server: Option<String>,
    },
    /// Read a resource
    #[command(after_help = READ_HELP)]
    Read {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show the prompts and skills of all servers, or of one
    Prompts {
        #[command(flatten)]
        config: ConfigArgs,

        /// Only this server's
        server: Option<String>,
    },
    /// Get what a prompt says
    #[command(after_help = PROMPT_HELP)]
    Prompt {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        prompt: PromptArgs,
    },
    /// Show the state of everything: servers, tools, resources, prompts; with --json all of it
    Status {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Show what servers said, and what became of them
    #[command(after_help = LOGS_HELP)]
    Logs(LogsArgs),
    /// Serve the program that started this one, over standard input and output: its tools and everybody else's
    #[command(after_help = SDK_HELP)]
    Sdk {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// A way to write down tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolFormat {
    /// Anthropic's Messages API
    Anthropic,
    /// The Chat Completions API, and those like it
    Openai,
    /// The Responses API
    OpenaiResponses,
    /// MCP's own list
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

/// How a new server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewTransport {
    Stdio,
    Sse,
    Http,
    Ws,
}

#[derive(clap::Args)]
pub(crate) struct AddArgs {
    /// The server's name, then the command or the URL, then the command's arguments
    #[arg(required = true, value_name = "NAME COMMAND|URL ARGS", num_args = 1..)]
    pub(crate) words: Vec<String>,

    /// The command and its arguments, flags of its own included
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub(crate) command: Vec<String>,

    /// How it is reached; by default stdio, or http for a URL
    #[arg(short, long)]
    pub(crate) transport: Option<NewTransport>,

    /// An environment variable for the server; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,

    /// An HTTP header to send; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// The OAuth client id that was registered for you
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// The port on which the browser comes back after signing in
    #[arg(long, value_name = "PORT")]
    pub(crate) callback_port: Option<u16>,

    #[command(flatten)]
    pub(crate) options: AddOptions,
}

/// How a new server is written.
#[derive(clap::Args)]
pub(crate) struct AddOptions {
    /// Who the server is for
    #[arg(short, long, default_value = "local")]
    pub(crate) scope: WriteScope,

    /// Ask for the OAuth client secret (or take it from `MCP_CLIENT_SECRET`) and keep it in the keychain
    #[arg(long)]
    pub(crate) client_secret: bool,

    /// Replace a server of the same name in that scope
    #[arg(long)]
    pub(crate) force: bool,

    /// Do not look for the program and do not connect
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(clap::Args)]
pub(crate) struct AddJsonArgs {
    /// The server's name
    pub(crate) name: String,

    /// Its entry as JSON; `-` reads it from standard input
    pub(crate) entry: String,

    #[command(flatten)]
    pub(crate) options: AddOptions,
}

#[derive(clap::Args)]
pub(crate) struct EditArgs {
    /// The server's name
    pub(crate) name: String,

    /// The program and its arguments, in place of the present ones
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub(crate) command_line: Vec<String>,

    /// The scope whose entry to change; needed where several have one
    #[arg(short, long)]
    pub(crate) scope: Option<WriteScope>,

    /// Set an environment variable; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,

    /// Remove an environment variable; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_env: Vec<String>,

    /// Set an HTTP header; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// Remove an HTTP header; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) unset_header: Vec<String>,

    /// Set the program, and keep its arguments
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) command: Option<String>,

    /// Append an argument; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) arg: Vec<String>,

    /// Remove an argument; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) unset_arg: Vec<String>,

    /// Set the URL
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// Set the working directory of the program
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,

    /// Set the time limit of a tool call, in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,

    /// Set the time limit for connecting, in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) connect_timeout: Option<u64>,

    /// Set any field, to a JSON value or else to the text; may be repeated
    #[arg(long, value_name = "FIELD=JSON")]
    pub(crate) set: Vec<String>,

    /// Remove a field; may be repeated
    #[arg(long, value_name = "FIELD")]
    pub(crate) unset: Vec<String>,

    /// Open the entry in $VISUAL or $EDITOR; on a terminal also without any option
    #[arg(long)]
    pub(crate) editor: bool,
}

#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// Only this client's servers: claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, opencode or goose
    pub(crate) client: Option<String>,

    /// Only these servers; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Read this file instead of the client's own
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) file: Option<PathBuf>,

    /// Who the servers are for
    #[arg(short, long, default_value = "user")]
    pub(crate) scope: WriteScope,

    /// With -s project: also take servers from your own files, which --only names
    #[arg(long, requires = "only")]
    pub(crate) from_user: bool,

    /// Give the server this name; for one server
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) rename: Option<String>,

    /// Replace servers of the same name in that scope
    #[arg(long)]
    pub(crate) force: bool,

    /// Write without asking
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

#[derive(clap::Args)]
pub(crate) struct LogsArgs {
    /// Only this server's; by default all of them, by time
    pub(crate) server: Option<String>,

    /// Go on showing what is added, until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// How many lines, counted from the newest; by default 100, or with --since all
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,

    /// Only what is newer: 90s, 10m, 2h, 7d, or a time such as 2026-11-16T02:03Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn since(text: &str) -> Result<Since, &'static str> {
    Since::parse(text).ok_or(
        "it is neither a time ago, such as 10m, nor a time in UTC, such as 2026-11-16T02:03Z",
    )
}

#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// `<server> <tool>` or `mcp__<server>__<tool>`, then the arguments
    #[arg(required = true, value_name = "TOOL", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// All arguments as one JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) json_args: Option<String>,

    /// Give up after this many milliseconds, connecting included; by default after what the server's entry or
    /// `MCP_TOOL_TIMEOUT` says, or 100000000
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,

    /// Send the arguments even if they do not fit the tool's schema
    #[arg(long)]
    pub(crate) no_validate: bool,

    /// Call the tool even if it is not what it was when it was first called, and take it for what it is now
    #[arg(long)]
    pub(crate) accept_changes: bool,
}

#[derive(clap::Args)]
pub(crate) struct ReadArgs {
    /// `<server> <uri>` or `@server:uri`; behind a template, its variables as key=value
    #[arg(required = true, value_name = "RESOURCE", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Write what it holds to this file, or to files numbered after it; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Give up after this many milliseconds, connecting included
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct PromptArgs {
    /// `<server> <prompt>` or `mcp__<server>__<prompt>`, then its arguments: by position, or as key=value
    #[arg(required = true, value_name = "PROMPT", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Arguments by position, whatever they look like
    #[arg(last = true, value_name = "WORDS")]
    pub(crate) literal: Vec<String>,

    /// Give up after this many milliseconds, connecting included
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_configurations_may_follow_one_flag() {
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
            let spelled = spelled_out(words);
            let spelled: Vec<_> = spelled.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(spelled.join(" "), expected);
        }
    }
}
