//! Every environment variable that Trunkline reads, in one place; the reference page is made from [`ALL`].

use std::time::Duration;

/// One environment variable.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is when it is not set.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Whether its value is a secret of this program's own, which no server gets.
    pub secret: bool,
}

/// `NAME = default;`, or `NAME = secret;` for a variable whose value no server gets.
macro_rules! variables {
    (@default secret) => { "" };
    (@default $default:literal) => { $default };
    (@secret secret) => { true };
    (@secret $default:literal) => { false };
    ($($(#[doc = $doc:literal])+ $name:ident = $default:tt;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = stringify!($name);)*

        /// All of them, in the order of the reference page.
        pub const ALL: &[Variable] = &[$(Variable {
            name: $name,
            default: variables!(@default $default),
            doc: concat!($($doc),+),
            secret: variables!(@secret $default),
        },)*];
    };
}

variables! {
    /// Where the user's files are, in place of `~/.claude` and `~/.claude.json`.
    CLAUDE_CONFIG_DIR = "";
    /// `false` leaves the claude.ai connectors out.
    ENABLE_CLAUDEAI_MCP_SERVERS = "true";
    /// The token with which claude.ai connectors are listed, in place of the one in `~/.claude/.credentials.json`.
    CLAUDE_CODE_OAUTH_TOKEN = secret;
    /// Where the list of claude.ai connectors is fetched (https, or http on this machine), with `CLAUDE_CODE_OAUTH_TOKEN`.
    TRUNKLINE_CLAUDEAI_URL = "";
    /// The secret for `add --client-secret`, instead of asking for it.
    MCP_CLIENT_SECRET = secret;
    /// How long connecting to a server may take, in milliseconds (LIF-4).
    MCP_TIMEOUT = "30000";
    /// How long one tool call may take, in milliseconds (CALL-4).
    MCP_TOOL_TIMEOUT = "100000000";
    /// How many local servers start at a time (LIF-2).
    MCP_SERVER_CONNECTION_BATCH_SIZE = "3";
    /// How many remote servers are connected at a time (LIF-2).
    MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE = "20";
    /// `auto` probes for the modern protocol first, `legacy` never does (LIF-5).
    MCP_PROTOCOL_NEGOTIATION = "auto";
    /// How long a server may send nothing while a call waits, in milliseconds; a remote server has 300000 by default; 0 switches it off (TRN-4).
    CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT = "1800000";
    /// What to do about a tool that is not what it was when it was first called: `warn`, `ask` or `block` (TOOL-11).
    TRUNKLINE_CHANGED_TOOLS = "ask";
    /// About how many tokens of text a result may have before it is saved to a file; more are more characters too, of which
    /// 100,000 are the limit otherwise (RES-4).
    MAX_MCP_OUTPUT_TOKENS = "25000";
    /// `true` starts a server whose tools are known from an earlier run only when one of them is called (LIF-13).
    TRUNKLINE_LAZY = "false";
    /// Spans and events to print to stderr, for example `trunkline=info`; `--verbose` is the same.
    RUST_LOG = "";
    /// `true` leaves `mcp__<server>__` out of the names of the embedding program's own tools (TOOL-2).
    CLAUDE_AGENT_SDK_MCP_NO_PREFIX = "false";
    /// Whether a model finds tools by searching instead of being shown all of them: `true`, `false`, `auto` (when they would take
    /// more than 10 % of its context) or `auto:N` for another percentage (TOOL-9).
    ENABLE_TOOL_SEARCH = "auto";
    /// The proxy for servers with `https:` and `wss:` URLs, or `https_proxy`: `http://`, `https://` or `socks5://`, with
    /// `user:password@` if need be (TRN-2).
    HTTPS_PROXY = "";
    /// The proxy for servers with `http:` and `ws:` URLs, or `http_proxy`; not read from a CGI program's environment.
    HTTP_PROXY = "";
    /// The proxy for servers of both kinds, where there is none of its own, or `all_proxy`.
    ALL_PROXY = "";
    /// Hosts to reach without a proxy, or `no_proxy`: names with all below them, addresses, networks, each with a port if
    /// need be; `*` for all. This machine is always one of them.
    NO_PROXY = "";
    /// A PEM file with authorities to trust besides those of the system.
    NODE_EXTRA_CA_CERTS = "";
    /// A PEM file with the authorities to trust in place of those of the system.
    SSL_CERT_FILE = "";
    /// Folders with the authorities to trust in place of those of the system.
    SSL_CERT_DIR = "";
    /// A PEM file with our certificate, for servers that ask for one and whose entry names none.
    CLAUDE_CODE_CLIENT_CERT = "";
    /// A PEM file with the key of `CLAUDE_CODE_CLIENT_CERT`, if it is not in the same file.
    CLAUDE_CODE_CLIENT_KEY = "";
    /// Anything switches colours off.
    NO_COLOR = "";
}

/// Secrets that Trunkline does not read, but the program around it may have: those of Claude Code's own sign-in.
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
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
    "CLAUDE_SESSION_INGRESS_TOKEN_FILE",
    "CLAUDE_TRUSTED_DEVICE_TOKEN",
    "MCP_XAA_IDP_CLIENT_SECRET",
    "SESSION_INGRESS_AUTH_TOKEN",
];

/// The variables that hold secrets of this program's own, or of Claude Code's. Servers do not inherit them, and entries
/// outside the company's file cannot refer to them.
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

/// Whether a variable holds such a secret. On Windows case does not count.
pub fn is_secret(name: &str) -> bool {
    secrets().any(|secret| {
        if cfg!(windows) {
            secret.eq_ignore_ascii_case(name)
        } else {
            secret == name
        }
    })
}

/// The value of `name` as yes or no; `None` when it is unset or neither.
pub fn flag(name: &str) -> Option<bool> {
    as_flag(&std::env::var(name).ok()?)
}

/// A value as yes or no; `None` when it is neither.
pub fn as_flag(value: &str) -> Option<bool> {
    match &*value.trim().to_ascii_lowercase() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The value of `name` as milliseconds; `None` when it is unset or not a number.
pub fn milliseconds(name: &str) -> Option<Duration> {
    number(name).map(Duration::from_millis)
}

/// The value of `name` as a number; `None` when it is unset or not one.
pub fn number(name: &str) -> Option<u64> {
    as_number(&std::env::var(name).ok()?)
}

/// A value as a number; `None` when it is none.
pub fn as_number(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}
