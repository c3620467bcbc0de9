//! The text that `--help` prints below the options.

pub(crate) const AFTER_HELP: &str = "\
Exit codes:
  0    success
  1    the tool reported an error, or its server was lost during the call
  2    bad usage or configuration
  3    could not connect, or disabled
  4    needs authentication
  5    refused by policy, approval, permission or a pin
  6    timed out
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP
The tool may have run after 1, 6 and 130, and never after 3.

Try `trunkline demo`.";

pub(crate) const ADD_HELP: &str = "\
Examples:
  trunkline add git uvx mcp-server-git
  trunkline add files -- npx -y @modelcontextprotocol/server-filesystem /tmp
  trunkline add -e TOKEN=abc -s user github -- github-mcp-server stdio
  trunkline add -t http sentry https://mcp.sentry.dev/mcp -H 'X-Team: core'

Put a command with flags after `--`. Use ${VAR} or ${keyring:service/account} for secrets.

After writing the entry, `add` connects to the server once and reports the result; --json has it \
under \"check\". The exit code is 0 even if the server cannot be reached. A project's server starts \
only after `trunkline approve`.";

pub(crate) const EDIT_HELP: &str = "\
Examples:
  trunkline edit github -e GITHUB_TOKEN='${GITHUB_TOKEN}'
  trunkline edit files --arg /tmp --unset-arg /home
  trunkline edit files -- npx -y @modelcontextprotocol/server-filesystem /tmp
  trunkline edit sentry --url https://mcp.sentry.dev/mcp --timeout 60000
  trunkline edit github --set 'tools={\"deny\": [\"delete_*\"]}'
  trunkline edit github --editor

Only the changed fields are rewritten. `trunkline get <name>` connects to the server afterwards.";

pub(crate) const LOGIN_HELP: &str = "\
Opens the server's sign-in page in the browser and waits until you have signed in. Tokens are stored \
in the keychain of the system, or in a file that only you can read, and are refreshed on their own.

Without a display, `login` shows a code for another device, or prints the URL if the provider has no \
codes. Open it on any machine; if the browser cannot reach this one afterwards, paste the URL of the \
page that failed to load.

With several accounts at one server, sign in to each with --account, and choose one in the entry: \
`trunkline edit NAME --set account=work`.";

pub(crate) const XAA_HELP: &str = "\
One sign-in at the identity provider serves every server whose entry has \"oauth\": {\"xaa\": true}: \
its tokens are exchanged without a browser (enterprise-managed authorization). The provider is \
\"xaaIdp\" in your settings file, or in that of your organisation; its client secret is in the \
keychain.";

pub(crate) const CLEAN_HELP: &str = "\
A server no longer exists if no configuration file names it: neither yours, nor those of the \
projects in ~/.claude.json, nor those of this directory. Servers of --mcp-config and --plugin-dir \
count only if those options are given here; servers of embedding programs and of another \
CLAUDE_CONFIG_DIR never count. Approvals of such servers are removed from ~/.claude.json; nothing \
else in your configuration changes. While another trunkline process runs, files of the last 24 \
hours are kept.";

pub(crate) const SDK_HELP: &str = "\
Speaks one JSON object per line in both directions, as described in docs/sdk.md, until stdin ends.";

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  trunkline completions --install
  trunkline completions bash > trunkline.bash

In bash, zsh and fish, names of servers, tools, arguments, prompts and resources are completed too, \
from the configuration and the stored catalogs; nothing is started. Names with spaces, quotes or \
other characters that a shell interprets are not offered.";

pub(crate) const DOCTOR_HELP: &str = "\
Examples:
  trunkline doctor
  trunkline doctor github -v
  trunkline doctor --fix --dry-run
  trunkline doctor --bundle

Checks each server step by step: its entry, policy and approval, its program or the way to its host, \
the handshake, the sign-in and its lists. The exit code is that of the first failure; servers that \
you switched off do not count unless you name them. -v shows all steps.

--fix changes only entries of your own files, and only where nothing has to be guessed. Servers that \
are not approved or that policy blocks are never started.";

pub(crate) const LOGS_HELP: &str = "\
Logs hold what servers write to stderr, messages that could not be used, log messages of the \
protocol, and connection states. Every command that connects to servers adds to them. Times are \
UTC. See docs/logs.md for the files.";

pub(crate) const SEARCH_HELP: &str = "\
Examples:
  trunkline search read a file
  trunkline search +github open issues      +WORD must occur in the tool's name
  trunkline search select:mcp__git__git_log,mcp__git__git_diff";

pub(crate) const TOOLS_HELP: &str = "\
Examples:
  trunkline tools                            all tools, by server
  trunkline tools github                     tools of one server
  trunkline tools github create_issue        one tool with its arguments
  trunkline tools mcp__github__create_issue --json

Stored catalogs are shown without connecting; --refresh connects.";

pub(crate) const READ_HELP: &str = "\
Text is printed as it is. Binary content is printed only to a pipe or file; on a terminal, use -o.

Examples:
  trunkline read everything demo://resource/static/document/features.md
  trunkline read @github:issue://123
  trunkline read everything 'demo://resource/dynamic/text/{resourceId}' resourceId=1
  trunkline read everything demo://resource/dynamic/blob/1 -o blob.bin";

pub(crate) const PROMPT_HELP: &str = "\
Arguments are key=value or positional. Words after `--` are positional even if they contain `=`.

Examples:
  trunkline prompt everything args-prompt Paris
  trunkline prompt everything args-prompt city=Paris state=Texas
  trunkline prompt everything args-prompt -- x=y
  trunkline prompt '/mcp__everything__args-prompt \"New York\"'
  trunkline prompt mcp__everything__simple-prompt --json";

pub(crate) const CALL_HELP: &str = "\
Arguments:
  key=value    a string, or the type that the tool's schema asks for
  key:=json    a JSON value: n:=3, list:='[1,2]', on:=true
  --json-args  all arguments as one object; `-` reads stdin

Examples:
  trunkline call everything get-sum a:=2 b:=3
  trunkline call mcp__git__git_status repo_path=.
  echo '{\"a\":2,\"b\":3}' | trunkline call everything get-sum --json-args -

`trunkline tools <server> <tool>` shows the arguments of a tool. TRUNKLINE_CHANGED_TOOLS sets what \
happens to a tool that has changed: warn, ask (the default) or block.";
