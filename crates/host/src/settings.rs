//! The limits and defaults of a host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_config::{Secret, env_vars};

use crate::search::LoadMode;

/// Limit for opening and handshake together (LIF-4).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit for one tool call: 100,000,000 ms (CALL-4).
const CALL_TIMEOUT: Duration = Duration::from_secs(100_000);
/// Local servers that start at a time (LIF-2).
const MAX_LOCAL_STARTS: usize = 3;
/// Remote servers that connect at a time (LIF-2).
const MAX_REMOTE_STARTS: usize = 20;
/// Limit for the silence of a local server during a call (TRN-4).
const LOCAL_IDLE_TIMEOUT: Duration = Duration::from_mins(30);
/// Limit for the silence of a remote server during a call (TRN-4).
const REMOTE_IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// Delay before the first attempt to restore a lost connection (LIF-10).
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// The context size of a model in tokens (TOOL-9).
const CONTEXT_TOKENS: usize = 200_000;

/// Longer limits count as infinite; a clock cannot represent much more.
pub(crate) const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

/// The moment at which something that starts now exceeds `limit`.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(FOR_EVER)
}

/// The limits and defaults of a host.
///
/// ```
/// use std::time::Duration;
/// use trunkline::Settings;
///
/// let settings = Settings::default().call_timeout(Duration::from_secs(60)).lazy(true);
/// assert_eq!(settings.connect_timeout, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Limit for opening and handshake together.
    pub connect_timeout: Duration,
    /// Limit for one tool call, unless the server's entry or the call sets another.
    pub call_timeout: Duration,
    /// Local servers that start at a time.
    pub max_local_starts: usize,
    /// Remote servers that connect at a time.
    pub max_remote_starts: usize,
    /// Limit for the silence of a local server during a call; `None` is unlimited.
    pub local_idle_timeout: Option<Duration>,
    /// Limit for the silence of a remote server during a call; `None` is unlimited.
    pub remote_idle_timeout: Option<Duration>,
    /// Delay before a lost connection is restored, give or take a quarter; doubles with each
    /// attempt.
    pub reconnect_delay: Duration,
    /// Never speak the modern protocol.
    pub legacy_only: bool,
    /// Start a server whose catalog is known from an earlier run when it is first needed (LIF-13),
    /// unless its entry decides.
    pub lazy: bool,
    /// Call the tools of servers in the embedding program (`sdk`, [`Builtin`](crate::Builtin)) by
    /// their bare names, without `mcp__<server>__` (TOOL-2).
    pub sdk_without_prefix: bool,
    /// The tools to load for a model when there are many (TOOL-9).
    pub tool_loading: LoadMode,
    /// The context size of the model in tokens, for [`LoadMode::Auto`].
    pub context_tokens: usize,
    /// The project: the servers' root, working directory and `CLAUDE_PROJECT_DIR`.
    pub project_dir: Option<PathBuf>,
    /// The environment that local servers inherit, instead of that of this process.
    pub environment: Option<Arc<BTreeMap<String, Secret>>>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Setters of the fields of the same names.
        impl Settings {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets [`Settings::connect_timeout`].
    connect_timeout: Duration,
    /// Sets [`Settings::call_timeout`].
    call_timeout: Duration,
    /// Sets [`Settings::max_local_starts`].
    max_local_starts: usize,
    /// Sets [`Settings::max_remote_starts`].
    max_remote_starts: usize,
    /// Sets [`Settings::local_idle_timeout`].
    local_idle_timeout: Option<Duration>,
    /// Sets [`Settings::remote_idle_timeout`].
    remote_idle_timeout: Option<Duration>,
    /// Sets [`Settings::reconnect_delay`].
    reconnect_delay: Duration,
    /// Sets [`Settings::legacy_only`].
    legacy_only: bool,
    /// Sets [`Settings::lazy`].
    lazy: bool,
    /// Sets [`Settings::sdk_without_prefix`].
    sdk_without_prefix: bool,
    /// Sets [`Settings::tool_loading`].
    tool_loading: LoadMode,
    /// Sets [`Settings::context_tokens`].
    context_tokens: usize,
    /// Sets [`Settings::project_dir`].
    project_dir: Option<PathBuf>,
    /// Sets [`Settings::environment`].
    environment: Option<Arc<BTreeMap<String, Secret>>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            max_local_starts: MAX_LOCAL_STARTS,
            max_remote_starts: MAX_REMOTE_STARTS,
            local_idle_timeout: Some(LOCAL_IDLE_TIMEOUT),
            remote_idle_timeout: Some(REMOTE_IDLE_TIMEOUT),
            reconnect_delay: RECONNECT_DELAY,
            legacy_only: false,
            lazy: false,
            sdk_without_prefix: false,
            tool_loading: LoadMode::default(),
            context_tokens: CONTEXT_TOKENS,
            project_dir: None,
            environment: None,
        }
    }
}

impl Settings {
    /// The defaults, changed by environment variables.
    pub fn from_env() -> Self {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    /// The defaults, changed by variables that `variable` looks up. Invalid values are ignored.
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
            max_local_starts: at_once(
                env_vars::MCP_SERVER_CONNECTION_BATCH_SIZE,
                defaults.max_local_starts,
            ),
            max_remote_starts: at_once(
                env_vars::MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE,
                defaults.max_remote_starts,
            ),
            local_idle_timeout: idle(defaults.local_idle_timeout),
            remote_idle_timeout: idle(defaults.remote_idle_timeout),
            reconnect_delay: defaults.reconnect_delay,
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
            environment: None,
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
        let idle =
            |settings: &Settings| (settings.local_idle_timeout, settings.remote_idle_timeout);
        assert_eq!(with("MCP_TIMEOUT", "1000").connect_timeout, second);
        assert_eq!(with("MCP_TOOL_TIMEOUT", " 1000 ").call_timeout, second);
        for nonsense in ["0", "", "-1", "soon", "1.5"] {
            let settings = with("MCP_TIMEOUT", nonsense);
            assert_eq!(settings.connect_timeout, CONNECT_TIMEOUT, "{nonsense}");
            let settings = with("MCP_SERVER_CONNECTION_BATCH_SIZE", nonsense);
            assert_eq!(settings.max_local_starts, MAX_LOCAL_STARTS, "{nonsense}");
        }
        assert_eq!(
            with("MCP_SERVER_CONNECTION_BATCH_SIZE", "7").max_local_starts,
            7
        );
        let remote = with("MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE", "9");
        assert_eq!(remote.max_remote_starts, 9);
        let silent = |value| with("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", value);
        assert_eq!(idle(&silent("1000")), (Some(second), Some(second)));
        assert_eq!(idle(&silent("0")), (None, None));
        assert_eq!(
            idle(&silent("x")),
            (Some(LOCAL_IDLE_TIMEOUT), Some(REMOTE_IDLE_TIMEOUT))
        );
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
