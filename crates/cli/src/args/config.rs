//! Where servers come from and when they start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The heading of these options.
const SERVERS: &str = "Servers and catalogs";

/// Options for where servers come from and when they start. Accepted before and after the command;
/// both add up.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ConfigArgs {
    /// Load servers from a JSON file or string (repeatable)
    #[arg(long, value_name = "FILE|JSON", help_heading = SERVERS)]
    pub(crate) mcp_config: Vec<String>,

    /// Use only this server (repeatable)
    #[arg(long, value_name = "NAME", help_heading = SERVERS)]
    pub(crate) mcp_server: Vec<String>,

    /// Use only servers from --mcp-config
    #[arg(long, help_heading = SERVERS)]
    pub(crate) strict_mcp_config: bool,

    /// Load the plugin in this directory (repeatable)
    #[arg(long, value_name = "DIR", help_heading = SERVERS)]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// Approve the project's servers for this run only
    #[arg(long, help_heading = SERVERS)]
    pub(crate) approve_project: bool,

    /// Start servers with a cached catalog only when they are called
    #[arg(long, help_heading = SERVERS)]
    pub(crate) lazy: bool,

    /// Neither read nor write cached catalogs and protocol versions
    #[arg(long, help_heading = SERVERS)]
    pub(crate) no_cache: bool,

    /// Start local servers here even if a daemon runs them
    #[arg(long)]
    pub(crate) no_daemon: bool,

    /// Write all messages to a file as JSON lines, without secrets (`-` for stderr)
    #[arg(long, value_name = "FILE", help_heading = SERVERS)]
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
    /// Returns the options that select the same servers, except --mcp-server.
    pub(crate) fn selection(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        for config in &self.mcp_config {
            words.push(format!("{MCP_CONFIG}={config}").into());
        }
        for dir in &self.plugin_dir {
            let mut word = OsString::from("--plugin-dir=");
            word.push(dir);
            words.push(word);
        }
        if self.strict_mcp_config {
            words.push("--strict-mcp-config".into());
        }
        if self.approve_project {
            words.push("--approve-project".into());
        }
        words
    }

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
            no_daemon: self.no_daemon || after.no_daemon,
            trace: after.trace.or(self.trace),
        }
    }
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
