//! Measures calls of tools.

use std::sync::Arc;
use std::time::Instant;

use trunkline::Host;
use trunkline_wire::{Json, RpcError};

use super::metrics::{CallOutcome, Metrics};
use crate::client::View;

/// A longer result is not searched for an error.
const SEARCHED: usize = 64 * 1024;

/// Counts a call when it ends.
pub(super) struct CallTimer {
    metrics: Arc<Metrics>,
    server: Arc<str>,
    tool: String,
    started: Instant,
    outcome: CallOutcome,
}

impl CallTimer {
    /// Starts the timer of a `tools/call`.
    pub(super) fn start(
        metrics: &Arc<Metrics>,
        host: &Host,
        view: &View,
        method: &str,
        params: Option<&Json>,
    ) -> Option<Self> {
        if method != "tools/call" {
            return None;
        }
        let name = params.and_then(|params| params.get("name")?.as_string());
        let name = name.unwrap_or_default();
        let pool = host.pool();
        let tool = match view {
            View::All => pool.get(&name),
            View::Server(server) => pool.find(server, &name),
        };
        // Clients choose names; only those of real tools become labels.
        let (server, tool) = match tool {
            Some(tool) => (Arc::clone(&tool.server), tool.tool.name.to_string()),
            None => ("unknown".into(), "unknown".to_owned()),
        };
        Some(Self {
            metrics: Arc::clone(metrics),
            server,
            tool,
            started: Instant::now(),
            outcome: CallOutcome::Cancelled,
        })
    }

    /// Notes how the call ended.
    pub(super) fn ended(&mut self, outcome: &Result<Json, RpcError>) {
        let failed = |result: &Json| {
            result.as_str().len() <= SEARCHED && result.field("isError") == Some(true)
        };
        self.outcome = match outcome {
            Ok(result) if failed(result) => CallOutcome::ToolError,
            Ok(_) => CallOutcome::Ok,
            Err(_) => CallOutcome::Error,
        };
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.metrics
            .called(&self.server, &self.tool, self.outcome, took);
    }
}
