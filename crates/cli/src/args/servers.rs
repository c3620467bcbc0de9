//! Options of the commands that show and change the configured servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use trunkline_config::Scope;

use super::duration::positive_duration;

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// The servers [default: all]
    pub(crate) names: Vec<String>,

    /// Show only servers that failed or need you
    #[arg(long)]
    pub(crate) failed: bool,
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
    /// The scope to add it to: local (you, in this project), project (everyone who works on it, in
    /// .mcp.json) or user (you, in every project)
    #[arg(short, long, default_value = "local", hide_possible_values = true)]
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

    /// The scope of the entry, if several have one: local, project or user
    #[arg(short, long, hide_possible_values = true)]
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

    /// Set the timeout of a tool call: 4s, 500ms, or milliseconds
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Set the timeout for connecting: 4s, 500ms, or milliseconds
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) connect_timeout: Option<Duration>,

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

    /// The scope to import into: local, project or user
    #[arg(short, long, default_value = "user", hide_possible_values = true)]
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
