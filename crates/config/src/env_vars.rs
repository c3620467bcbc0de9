//! Every environment variable that Trunkline reads; the reference page is generated from [`ALL`].

use std::time::Duration;

/// One environment variable.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The value if it is unset.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether its value is a secret of this program, which no server receives.
    pub secret: bool,
}

/// `NAME = default;`, or `NAME = secret;` for a variable whose value no server receives.
macro_rules! variables {
    (@default secret) => { "" };
    (@default $default:literal) => { $default };
    (@secret secret) => { true };
    (@secret $default:literal) => { false };
    ($($(#[doc = $doc:literal])+ $name:ident = $default:tt;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = stringify!($name);)*

        /// All variables, in the order of the reference page.
        pub const ALL: &[Variable] = &[$(Variable {
            name: $name,
            default: variables!(@default $default),
            doc: concat!($($doc),+),
            secret: variables!(@secret $default),
        },)*];
    };
}

variables! {
    /// The directory of the user's files, instead of `~/.claude` and `~/.claude.json`.
    CLAUDE_CONFIG_DIR = "";
    /// `false` disables the claude.ai connectors.
    ENABLE_CLAUDEAI_MCP_SERVERS = "true";
    /// The token for listing claude.ai connectors, instead of the one in
    /// `~/.claude/.credentials.json`.
    CLAUDE_CODE_OAUTH_TOKEN = secret;
    /// The token of a remote session, for Anthropic's own servers (AUTH-10).
    CLAUDE_CODE_SESSION_ACCESS_TOKEN = secret;
    /// The URL of the list of claude.ai connectors (https, or http on this machine), for use with
    /// `CLAUDE_CODE_OAUTH_TOKEN`.
    TRUNKLINE_CLAUDEAI_URL = "";
    /// The secret for `add --client-secret`, instead of a prompt.
    MCP_CLIENT_SECRET = secret;
    /// The secret for `xaa setup`, instead of a prompt (AUTH-9).
    MCP_XAA_IDP_CLIENT_SECRET = secret;
    /// The time limit for connecting to a server, in milliseconds (LIF-4).
    MCP_TIMEOUT = "30000";
    /// The time limit of a tool call, in milliseconds (CALL-4).
    MCP_TOOL_TIMEOUT = "100000000";
    /// How many local servers start at a time (LIF-2).
    MCP_SERVER_CONNECTION_BATCH_SIZE = "3";
    /// How many remote servers connect at a time (LIF-2).
    MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE = "20";
    /// `auto` probes for the modern protocol first, `legacy` never does (LIF-5).
    MCP_PROTOCOL_NEGOTIATION = "auto";
    /// How long a server may be silent during a call, in milliseconds; 300000 by default for a
    /// remote server; 0 disables the limit (TRN-4).
    CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT = "1800000";
    /// What to do about a tool that has changed since it was first called: `warn`, `ask` or `block`
    /// (TOOL-11).
    TRUNKLINE_CHANGED_TOOLS = "ask";
    /// Approximate number of tokens above which a text result is saved to a file; it also raises
    /// the limit of 100,000 characters (RES-4).
    MAX_MCP_OUTPUT_TOKENS = "25000";
    /// `true` starts a server whose tools are known from an earlier run only when one of them is
    /// called (LIF-13).
    TRUNKLINE_LAZY = "false";
    /// `true` starts local servers here even if a daemon runs them (GW-5).
    TRUNKLINE_NO_DAEMON = "false";
    /// `false` starts no check in the background after a command has answered from old stored
    /// catalogs (UI-6).
    TRUNKLINE_BACKGROUND_CHECK = "true";
    /// Spans and events to print to stderr, for example `trunkline=info`; `--verbose` is the same.
    RUST_LOG = "";
    /// `true` omits `mcp__<server>__` from the names of the embedding program's tools (TOOL-2).
    CLAUDE_AGENT_SDK_MCP_NO_PREFIX = "false";
    /// Whether a model searches for tools instead of seeing all of them: `true`, `false`, `auto`
    /// (if they would take more than 10 % of its context) or `auto:N` for another percentage
    /// (TOOL-9).
    ENABLE_TOOL_SEARCH = "auto";
    /// The proxy for `https:` and `wss:` servers, or `https_proxy`: an `http://`, `https://` or
    /// `socks5://` URL, optionally with `user:password@` (TRN-2).
    HTTPS_PROXY = "";
    /// The proxy for `http:` and `ws:` servers, or `http_proxy`; ignored in a CGI environment.
    HTTP_PROXY = "";
    /// The proxy for servers of either kind without a more specific one, or `all_proxy`.
    ALL_PROXY = "";
    /// Hosts to reach without a proxy, or `no_proxy`: domains with their subdomains, addresses and
    /// networks, each optionally with a port; `*` for all. This machine is always included.
    NO_PROXY = "";
    /// A PEM file with certificate authorities to trust in addition to those of the system.
    NODE_EXTRA_CA_CERTS = "";
    /// A PEM file with certificate authorities to trust instead of those of the system.
    SSL_CERT_FILE = "";
    /// Directories with certificate authorities to trust instead of those of the system.
    SSL_CERT_DIR = "";
    /// A PEM file with the client certificate for servers that request one and whose entry names
    /// none.
    CLAUDE_CODE_CLIENT_CERT = "";
    /// A PEM file with the key of `CLAUDE_CODE_CLIENT_CERT`, if it is not in the same file.
    CLAUDE_CODE_CLIENT_KEY = "";
    /// Any value disables colours, unless `--color always` is given.
    NO_COLOR = "";
    /// Any value but `0` uses colours in pipes too.
    CLICOLOR_FORCE = "";
    /// The pager for long output on a terminal, instead of `PAGER`; `cat` or an empty value for
    /// none.
    TRUNKLINE_PAGER = "";
    /// The pager for long output on a terminal.
    PAGER = "less";
}

/// Secrets of Claude Code's own sign-in. Trunkline does not read them, but the program around it
/// may have them.
const SECRETS_OF_CLAUDE_CODE: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_BRIDGE_OAUTH_TOKEN",
    "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
    "CLAUDE_SESSION_INGRESS_TOKEN_FILE",
    "CLAUDE_TRUSTED_DEVICE_TOKEN",
    "SESSION_INGRESS_AUTH_TOKEN",
];

/// The variables that hold secrets of this program or of Claude Code. Servers do not inherit them,
/// and entries outside the enterprise configuration cannot refer to them.
///
/// ```
/// use trunkline_config::env_vars::secrets;
///
/// assert!(secrets().any(|name| name == "CLAUDE_CODE_OAUTH_TOKEN"));
/// ```
pub fn secrets() -> impl Iterator<Item = &'static str> {
    let own = ALL.iter().filter(|variable| variable.secret);
    let own = own.map(|variable| variable.name);
    own.chain(SECRETS_OF_CLAUDE_CODE.iter().copied())
}

/// Whether a variable holds such a secret. On Windows case is ignored.
pub fn is_secret(name: &str) -> bool {
    secrets().any(|secret| {
        if cfg!(windows) {
            secret.eq_ignore_ascii_case(name)
        } else {
            secret == name
        }
    })
}

/// The value of `name` as a flag; `None` if it is unset or not a flag.
pub fn flag(name: &str) -> Option<bool> {
    as_flag(&std::env::var(name).ok()?)
}

/// A value as a flag; `None` if it is not one.
pub fn as_flag(value: &str) -> Option<bool> {
    match &*value.trim().to_ascii_lowercase() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The value of `name` as milliseconds; `None` if it is unset or not a number.
pub fn milliseconds(name: &str) -> Option<Duration> {
    number(name).map(Duration::from_millis)
}

/// The value of `name` as a number; `None` if it is unset or not one.
pub fn number(name: &str) -> Option<u64> {
    as_number(&std::env::var(name).ok()?)
}

/// A value as a number; `None` if it is not one.
pub fn as_number(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}
