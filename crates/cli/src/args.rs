//! The command line.

use clap::{Parser, Subcommand};

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

/// Where servers come from. Taken before and after the command alike: what stands in both places adds up.
#[derive(clap::Args)]
pub(crate) struct ConfigArgs {
    /// Use the servers in this file, or in this JSON text; may be repeated
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,
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
    /// Show the tools of all servers, or of one
    Tools {
        #[command(flatten)]
        config: ConfigArgs,

        /// Only this server's
        server: Option<String>,
    },
    /// Call a tool
    #[command(after_help = CALL_HELP)]
    Call {
        #[command(flatten)]
        config: ConfigArgs,

        #[command(flatten)]
        call: CallArgs,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
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
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 the tool reported an error, 2 bad usage or configuration, 3 could not connect,
4 needs authentication, 5 refused, 6 timed out, 130 interrupted.

Try it: trunkline demo";

const CALL_HELP: &str = "\
How arguments are written:
  key=value    a text, or whatever the tool's schema asks for
  key:=json    a JSON value: n:=3, list:='[1,2]', on:=true
  --json-args  all of them at once; `-` reads standard input

Examples:
  trunkline --mcp-config servers.json call everything get-sum a:=2 b:=3
  trunkline --mcp-config servers.json call mcp__git__git_status repo_path=.
  echo '{\"a\":2,\"b\":3}' | trunkline --mcp-config servers.json call everything get-sum --json-args -";
