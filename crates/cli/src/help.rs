//! What `--help` says below the options.

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 the tool reported an error, or its server was lost during the call, 2 bad usage or configuration,
3 could not connect, or disabled, 4 needs authentication, 5 refused (policy, approval, permission, pin), 6 timed out,
130 interrupted. After 3 no tool has run; after 1, 6 and 130 it may have.

Try it: trunkline demo";

pub(crate) const ADD_HELP: &str = "\
Examples:
  trunkline add git uvx mcp-server-git
  trunkline add files -- npx -y @modelcontextprotocol/server-filesystem /tmp
  trunkline add -e TOKEN=abc -s user github -- github-mcp-server stdio
  trunkline add -t http sentry https://mcp.sentry.dev/mcp -H 'X-Team: core'

A command with flags of its own comes after `--`. Write ${VAR} or ${keyring:service/account} in place of a secret.

The server is written first and then connected to once. A server that cannot be reached stays written, and the
exit code is 0 all the same; --json says what was found under \"check\". A project's server is not started before
`trunkline approve`. --no-check skips all of this.";

pub(crate) const EDIT_HELP: &str = "\
Examples:
  trunkline edit github -e GITHUB_TOKEN='${GITHUB_TOKEN}'
  trunkline edit files --arg /tmp --unset-arg /home
  trunkline edit files -- npx -y @modelcontextprotocol/server-filesystem /tmp
  trunkline edit sentry --url https://mcp.sentry.dev/mcp --timeout 60000
  trunkline edit github --set 'tools={\"deny\": [\"delete_*\"]}'
  trunkline edit github --editor

Only the fields that change are rewritten. `trunkline get <name>` connects to the server afterwards.";

pub(crate) const CLEAN_HELP: &str = "\
A server is gone when no configuration file names it: yours, those of the projects in ~/.claude.json, and those of this
directory. Servers of --mcp-config and --plugin-dir count as gone unless they are named here, and so do those of
programs that embed this one and of another CLAUDE_CONFIG_DIR. Configuration files are not changed, except that the approval of a project's server that is gone is taken back. While another trunkline process
runs, files of the last 24 hours stay.";

pub(crate) const SDK_HELP: &str = "\
One JSON object a line, in both directions; docs/sdk.md describes them. It ends when standard input does.";

pub(crate) const LOGS_HELP: &str = "\
Every command that connects to servers adds to their logs: what they write to stderr, messages that cannot be used,
log messages that they send, and how the connection fares. Times are UTC. docs/logs.md says where the files are.";

pub(crate) const SEARCH_HELP: &str = "\
Examples:
  trunkline search read a file
  trunkline search +github open issues      a word with a + must be in the tool's name
  trunkline search select:mcp__git__git_log,mcp__git__git_diff";

pub(crate) const TOOLS_HELP: &str = "\
Examples:
  trunkline tools                            all tools, one a line
  trunkline tools github                     those of one server
  trunkline tools github create_issue        one tool: what it does, and every argument
  trunkline tools mcp__github__create_issue --json";

pub(crate) const READ_HELP: &str = "\
Text goes to standard output as it is, and so do bytes where nobody reads along; on a terminal, -o writes them to a file.
Several contents go to files that are numbered. The variables of a template follow it as key=value.

Examples:
  trunkline read everything demo://resource/static/document/features.md
  trunkline read @github:issue://123
  trunkline read everything 'demo://resource/dynamic/text/{resourceId}' resourceId=1
  trunkline read everything demo://resource/dynamic/blob/1 -o blob.bin";

pub(crate) const PROMPT_HELP: &str = "\
A word key=value is an argument by name, and any other one by position. What looks like the one and is the other comes after `--`.

Examples:
  trunkline prompt everything args-prompt Paris
  trunkline prompt everything args-prompt city=Paris state=Texas
  trunkline prompt everything args-prompt -- x=y
  trunkline prompt '/mcp__everything__args-prompt \"New York\"'
  trunkline prompt mcp__everything__simple-prompt --json";

pub(crate) const CALL_HELP: &str = "\
How arguments are written:
  key=value    a text, or whatever the tool's schema asks for
  key:=json    a JSON value: n:=3, list:='[1,2]', on:=true
  --json-args  all of them at once; `-` reads standard input

Examples:
  trunkline call everything get-sum a:=2 b:=3
  trunkline call mcp__git__git_status repo_path=.
  echo '{\"a\":2,\"b\":3}' | trunkline call everything get-sum --json-args -

`trunkline tools <server> <tool>` shows what a tool takes. TRUNKLINE_CHANGED_TOOLS says what is done about a tool that is not
what it was: warn, ask (as it is when nothing is said) or block.";
