//! Options of the commands that use tools, resources and prompts.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use trunkline::tool::Format;

use super::duration::positive_duration;

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

#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// `<server> <tool>` or `mcp__<server>__<tool>`, followed by arguments
    #[arg(required = true, value_name = "TOOL", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Arguments as one JSON object (`-` for stdin)
    #[arg(long, value_name = "JSON")]
    pub(crate) json_args: Option<String>,

    /// The timeout, including the connection: 4s, 500ms, or milliseconds [default: the entry's, or
    /// `MCP_TOOL_TIMEOUT`]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) timeout: Option<Duration>,

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

    /// The timeout, including the connection: 4s, 500ms, or milliseconds
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(clap::Args)]
pub(crate) struct PromptArgs {
    /// `<server> <prompt>` or `mcp__<server>__<prompt>`, followed by arguments
    #[arg(required = true, value_name = "PROMPT", num_args = 1.., allow_hyphen_values = false)]
    pub(crate) words: Vec<String>,

    /// Positional arguments, taken literally
    #[arg(last = true, value_name = "WORDS")]
    pub(crate) literal: Vec<String>,

    /// The timeout, including the connection: 4s, 500ms, or milliseconds
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) timeout: Option<Duration>,
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}
