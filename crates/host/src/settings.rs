//! The numbers a host works by.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_config::env_vars;

use crate::search::LoadMode;

/// How long opening and handshake may take together (LIF-4).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one tool call may take: 100,000,000 ms (CALL-4).
const CALL_TIMEOUT: Duration = Duration::from_secs(100_000);
/// How many local servers start at a time (LIF-2).
const LOCAL_AT_ONCE: usize = 3;
/// How many remote servers are connected at a time (LIF-2).
const REMOTE_AT_ONCE: usize = 20;
/// How long a local server may send nothing while a call waits (TRN-4).
const IDLE_LOCAL: Duration = Duration::from_mins(30);
/// How long a remote server may send nothing while a call waits (TRN-4).
const IDLE_REMOTE: Duration = Duration::from_mins(5);

/// How long to wait before a lost connection is tried again for the first time (LIF-10).
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// The context size of a model, in tokens, unless the program says otherwise (TOOL-9).
const CONTEXT_TOKENS: usize = 200_000;

/// Longer than this is for ever; a clock cannot count much further.
pub(crate) const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

/// When something that starts now and may take `limit` is over.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(FOR_EVER)
}

/// The numbers a host works by; each has SPEC's default.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long opening and handshake may take together.
    pub connect_timeout: Duration,
    /// How long one tool call may take, unless the server's entry or the call says otherwise.
    pub call_timeout: Duration,
    /// How many local servers start at a time.
    pub local_at_once: usize,
    /// How many remote servers are connected at a time.
    pub remote_at_once: usize,
    /// How long a local server may send nothing while a call waits; `None` is for ever.
    pub idle_local: Option<Duration>,
    /// How long a remote server may send nothing while a call waits; `None` is for ever.
    pub idle_remote: Option<Duration>,
    /// How long to wait, give or take a quarter, before a lost connection is tried again; twice as long before each further
    /// attempt.
    pub reconnect_after: Duration,
    /// Never speak the modern protocol.
    pub legacy_only: bool,
    /// Start a server whose catalog is known from an earlier run only when it is first needed (LIF-13), unless its entry says
    /// otherwise.
    pub lazy: bool,
    /// The tools of servers in the embedding program (`sdk`, [`Builtin`](crate::Builtin)) are called by their own names, without
    /// `mcp__<server>__` (TOOL-2).
    pub sdk_without_prefix: bool,
    /// Which tools a model is shown when there are many (TOOL-9).
    pub tool_loading: LoadMode,
    /// The context size of the model, in tokens: what [`LoadMode::Auto`] compares the tools with.
    pub context_tokens: usize,
    /// The project: what servers are told as their root, and `CLAUDE_PROJECT_DIR`.
    pub project_dir: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            local_at_once: LOCAL_AT_ONCE,
            remote_at_once: REMOTE_AT_ONCE,
            idle_local: Some(IDLE_LOCAL),
            idle_remote: Some(IDLE_REMOTE),
            reconnect_after: RECONNECT_AFTER,
            legacy_only: false,
            lazy: false,
            sdk_without_prefix: false,
            tool_loading: LoadMode::default(),
            context_tokens: CONTEXT_TOKENS,
            project_dir: None,
        }
    }
}

impl Settings {
    /// The defaults, changed by the variables in [`trunkline_config::env_vars`].
    pub fn from_env() -> Self {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    /// The defaults, changed by variables that are looked up here. A value that means nothing does not count.
    fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let defaults = Self::default();
        let number = |name| env_vars::as_number(&variable(name)?);
        let flag = |name| env_vars::as_flag(&variable(name)?);
        let at_once = |name, default| {
            let number = number(name).and_then(|number| usize::try_from(number).ok());
            number.filter(|number| *number > 0).unwrap_or(default)
        };
        let limit = |name, default| {
            let limit = number(name).filter(|milliseconds| *milliseconds > 0);
            limit.map_or(default, Duration::from_millis)
        };
        let idle = |default| match number(env_vars::CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT) {
            Some(0) => None,
            set => set.map(Duration::from_millis).or(default),
        };
        Self {
            connect_timeout: limit(env_vars::MCP_TIMEOUT, defaults.connect_timeout),
            call_timeout: limit(env_vars::MCP_TOOL_TIMEOUT, defaults.call_timeout),
            local_at_once: at_once(
                env_vars::MCP_SERVER_CONNECTION_BATCH_SIZE,
                defaults.local_at_once,
            ),
            remote_at_once: at_once(
                env_vars::MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE,
                defaults.remote_at_once,
            ),
            idle_local: idle(defaults.idle_local),
            idle_remote: idle(defaults.idle_remote),
            reconnect_after: defaults.reconnect_after,
            legacy_only: variable(env_vars::MCP_PROTOCOL_NEGOTIATION)
                .is_some_and(|value| value == "legacy"),
            lazy: flag(env_vars::TRUNKLINE_LAZY).unwrap_or(defaults.lazy),
            sdk_without_prefix: flag(env_vars::CLAUDE_AGENT_SDK_MCP_NO_PREFIX)
                .unwrap_or(defaults.sdk_without_prefix),
            tool_loading: variable(env_vars::ENABLE_TOOL_SEARCH)
                .and_then(|value| LoadMode::read(&value))
                .unwrap_or(defaults.tool_loading),
            context_tokens: defaults.context_tokens,
            project_dir: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Settings {
        Settings::from_variables(&|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn every_variable_changes_its_setting_and_nonsense_does_not_count() {
        let second = Duration::from_secs(1);
        let idle = |settings: &Settings| (settings.idle_local, settings.idle_remote);
        assert_eq!(with("MCP_TIMEOUT", "1000").connect_timeout, second);
        assert_eq!(with("MCP_TOOL_TIMEOUT", " 1000 ").call_timeout, second);
        for nonsense in ["0", "", "-1", "soon", "1.5"] {
            let settings = with("MCP_TIMEOUT", nonsense);
            assert_eq!(settings.connect_timeout, CONNECT_TIMEOUT, "{nonsense}");
            let settings = with("MCP_SERVER_CONNECTION_BATCH_SIZE", nonsense);
            assert_eq!(settings.local_at_once, LOCAL_AT_ONCE, "{nonsense}");
        }
        assert_eq!(
            with("MCP_SERVER_CONNECTION_BATCH_SIZE", "7").local_at_once,
            7
        );
        let remote = with("MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE", "9");
        assert_eq!(remote.remote_at_once, 9);
        let silent = |value| with("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", value);
        assert_eq!(idle(&silent("1000")), (Some(second), Some(second)));
        assert_eq!(idle(&silent("0")), (None, None));
        assert_eq!(idle(&silent("x")), (Some(IDLE_LOCAL), Some(IDLE_REMOTE)));
        assert!(with("MCP_PROTOCOL_NEGOTIATION", "legacy").legacy_only);
        assert!(!with("MCP_PROTOCOL_NEGOTIATION", "auto").legacy_only);
        for (value, on) in [
            ("true", true),
            ("1", true),
            ("off", false),
            ("maybe", false),
        ] {
            assert_eq!(with("TRUNKLINE_LAZY", value).lazy, on, "{value}");
            let settings = with("CLAUDE_AGENT_SDK_MCP_NO_PREFIX", value);
            assert_eq!(settings.sdk_without_prefix, on, "{value}");
        }
        let loading = |value| with("ENABLE_TOOL_SEARCH", value).tool_loading;
        assert_eq!(Some(loading("auto:20")), LoadMode::read("auto:20"));
        assert_eq!(loading("x"), LoadMode::default());
    }
}
