//! Whether commands use the daemon, and where it is.

use std::path::PathBuf;

use trunkline_config::env_vars;
use trunkline_gateway::socket::{SocketPlace, default_place};

use crate::session;

/// Returns the place of the user's daemon; `None` without a home directory.
pub(crate) fn place() -> Option<SocketPlace> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let moved = std::env::var(env_vars::CLAUDE_CONFIG_DIR).ok();
    let moved = moved.filter(|moved| !moved.is_empty());
    let id = moved.map(|moved| format!("{:08x}", fnv(moved.as_bytes())));
    Some(default_place(
        runtime.as_deref(),
        &session::state_dir()?,
        id.as_deref(),
    ))
}

/// Whether the environment opts out of the daemon.
pub(crate) fn is_off() -> bool {
    let value = std::env::var(env_vars::TRUNKLINE_NO_DAEMON).unwrap_or_default();
    env_vars::as_flag(&value).unwrap_or(false)
}

/// The FNV-1a hash, which names a directory by something short and stable.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
