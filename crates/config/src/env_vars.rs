//! Every environment variable that Trunkline reads, in one place.

use std::time::Duration;

/// How long connecting to a server may take, in milliseconds (LIF-4). Default: 30000.
pub const MCP_TIMEOUT: &str = "MCP_TIMEOUT";
/// How long one tool call may take, in milliseconds (CALL-4). Default: 100000000.
pub const MCP_TOOL_TIMEOUT: &str = "MCP_TOOL_TIMEOUT";
/// How many local servers start at a time (LIF-2). Default: 3.
pub const MCP_SERVER_CONNECTION_BATCH_SIZE: &str = "MCP_SERVER_CONNECTION_BATCH_SIZE";
/// How many remote servers are connected at a time (LIF-2). Default: 20.
pub const MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE: &str = "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE";
/// `auto` probes for the modern protocol first, `legacy` never does (LIF-5). Default: auto.
pub const MCP_PROTOCOL_NEGOTIATION: &str = "MCP_PROTOCOL_NEGOTIATION";
/// How long a server may send nothing while a call waits, in milliseconds; 0 switches it off (TRN-4).
/// Default: 1800000 for child processes.
pub const CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT: &str = "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT";

/// The value of `name` as milliseconds; `None` when it is unset or not a number.
pub fn milliseconds(name: &str) -> Option<Duration> {
    number(name).map(Duration::from_millis)
}

/// The value of `name` as a number; `None` when it is unset or not one.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
