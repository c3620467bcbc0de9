//! Real servers from the registries, among those that `cargo xtask interop` installs.
//!
//! Every client starts one command as often as it wants servers. The command is a script that counts how often it
//! was started in a run, and becomes another server each time.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Layout;
use super::install::path_text;

/// A line of shell for each server: variables, program and arguments. `$N` runs a script in `node_modules`,
/// `$P` and `$L` name the two Python environments, `$D` is a folder of its own.
const SERVERS: [&str; 24] = [
    "$N @modelcontextprotocol/server-everything/dist/index.js stdio",
    "$P/mcp-server-time --local-timezone UTC",
    "TAVILY_API_KEY=none $N tavily-mcp/build/index.js",
    "$L/mcp-server-sqlite --db-path $D/test.db",
    "$N @modelcontextprotocol/server-filesystem/dist/index.js $D",
    "EXA_API_KEY=none $N exa-mcp-server/dist/stdio.cjs",
    "GRAFANA_URL=http://127.0.0.1:9 $P/mcp-grafana",
    "$N @upstash/context7-mcp/dist/index.js",
    "$P/mcp-server-git",
    "BRAVE_API_KEY=none $N @brave/brave-search-mcp-server/dist/index.js",
    "$N @modelcontextprotocol/server-memory/dist/index.js",
    "$L/mcp-server-calculator",
    "$N @modelcontextprotocol/server-github/dist/index.js",
    "GITLAB_PERSONAL_ACCESS_TOKEN=none $N @modelcontextprotocol/server-gitlab/dist/index.js",
    "$P/mcp-server-fetch",
    "SLACK_BOT_TOKEN=none SLACK_TEAM_ID=T0 $N @modelcontextprotocol/server-slack/dist/index.js",
    "GOOGLE_MAPS_API_KEY=none $N @modelcontextprotocol/server-google-maps/dist/index.js",
    "$L/redis-mcp-server --url redis://127.0.0.1:9/0",
    "EVERART_API_KEY=none $N @modelcontextprotocol/server-everart/dist/index.js",
    "PRIVATE_APP_ACCESS_TOKEN=none $N @hubspot/mcp-server/dist/index.js",
    "$P/duckduckgo-mcp-server",
    "$N @antv/mcp-server-chart/build/index.js",
    "$N @kazuph/mcp-taskmanager/dist/index.js",
    "NOTION_TOKEN=none $N @notionhq/notion-mcp-server/bin/cli.mjs",
];

/// How many there are.
pub(super) const COUNT: usize = SERVERS.len();

/// Writes the script. Its command line is completed by [`fresh`].
pub(super) fn script(layout: &Layout, installed: &Path) -> Result<Vec<String>, String> {
    let modules = installed.join("node_modules");
    let node = modules.join("node/bin/node");
    if !node.is_file() {
        return Err("the foreign servers are not installed".to_owned());
    }
    let (node, modules) = (path_text(&node), path_text(&modules));
    let mut text = format!(
        "D=$1; n=0\nwhile ! mkdir \"$D/$n\" 2>/dev/null; do n=$((n+1)); done\n\
         P='{}'; L='{}'\ncase $((n % {COUNT})) in\n",
        path_text(&installed.join("venv/bin")),
        path_text(&installed.join("venv-legacy/bin")),
    );
    for (number, server) in SERVERS.iter().enumerate() {
        let server = server.replace("$N ", &format!("'{node}' '{modules}'/"));
        let _ = writeln!(text, "{number}) exec env {server};;");
    }
    text += "esac\n";
    let script = layout.out.join("tmp/real.sh");
    fs::write(&script, text).map_err(|error| format!("cannot write a script: {error}"))?;
    Ok(vec!["/bin/sh".to_owned(), path_text(&script)])
}

/// The folder in which the servers of one run are counted.
pub(super) fn fresh(layout: &Layout) -> Result<String, String> {
    let folder = layout.out.join("tmp/real");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot clear a folder: {error}"))?;
    }
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create a folder: {error}"))?;
    Ok(path_text(&folder))
}
