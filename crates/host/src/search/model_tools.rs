//! Selects the tools that a model sees from the start and those it must search for (TOOL-9).

use std::sync::Arc;

use serde_json::Value;

use super::TOOL_SEARCH;
use crate::catalog::{Definition, Format, Pool, PoolTool, export, parsed};
use crate::host_tool::HostTool;

/// Default share of a model's context, in percent, above which tools are deferred (TOOL-9).
const DEFAULT_PERCENT: u8 = 10;

/// Estimated bytes per two tokens.
const BYTES_FOR_TWO_TOKENS: usize = 7;

/// Which of the servers' tools a model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadMode {
    /// All tools.
    All,
    /// Always-loaded tools; the others must be searched for.
    Search,
    /// All tools, unless they exceed a share of the model's context.
    Auto {
        /// The share in percent.
        percent: u8,
    },
}

impl Default for LoadMode {
    fn default() -> Self {
        Self::Auto {
            percent: DEFAULT_PERCENT,
        }
    }
}

impl LoadMode {
    /// Parses `ENABLE_TOOL_SEARCH`: `true`, `false`, `auto` or `auto:N`.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match &*text {
            "true" | "1" | "yes" | "on" => Some(Self::Search),
            "false" | "0" | "no" | "off" => Some(Self::All),
            "auto" => Some(Self::default()),
            _ => {
                let percent = text.strip_prefix("auto:")?.trim().parse().ok()?;
                (percent <= 100).then_some(Self::Auto { percent })
            }
        }
    }

    fn defers(self, tokens: usize, context_tokens: usize) -> bool {
        match self {
            Self::All => false,
            Self::Search => true,
            Self::Auto { percent } => tokens > context_tokens / 100 * usize::from(percent),
        }
    }
}

/// The tools as a model sees them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelTools {
    /// The host's own tools; the search only if there are deferred tools.
    pub own: Vec<HostTool>,
    /// The servers' tools that the model sees, sorted by name.
    pub loaded: Vec<Arc<PoolTool>>,
    /// The servers' tools that the model must search for, sorted by name. They can still be called.
    pub deferred: Vec<Arc<PoolTool>>,
    /// Names of the tools that a rule denies: the host's own, then the servers', each sorted.
    pub denied: Vec<String>,
}

impl Pool {
    /// Returns the tools for a model with the given context size.
    ///
    /// A pool has no rules: [`Host::tools_for_model`](crate::Host::tools_for_model)
    /// omits denied tools.
    pub fn for_model(&self, mode: LoadMode, context_tokens: usize) -> ModelTools {
        self.offered_to_model(mode, context_tokens, |_| false)
    }

    pub(super) fn offered_to_model(
        &self,
        mode: LoadMode,
        context_tokens: usize,
        is_denied: impl Fn(&str) -> bool,
    ) -> ModelTools {
        let (denied_own, own): (Vec<_>, Vec<_>) =
            self.own().iter().partition(|tool| is_denied(&tool.name));
        let (denied, tools): (Vec<_>, Vec<_>) =
            self.offered().partition(|tool| is_denied(&tool.name));
        // Without a search, every tool must be visible.
        let can_search = own.iter().any(|tool| tool.name == TOOL_SEARCH);
        let defers =
            can_search && mode.defers(tokens(tools.iter().map(|tool| &***tool)), context_tokens);
        let (deferred, loaded): (Vec<_>, Vec<_>) = tools
            .into_iter()
            .cloned()
            .partition(|tool| defers && !tool.always_load);
        let own = own.into_iter();
        let own = own.filter(|tool| tool.name != TOOL_SEARCH || !deferred.is_empty());
        let denied_own = denied_own
            .into_iter()
            .filter(|tool| tool.name != TOOL_SEARCH);
        ModelTools {
            own: own.cloned().collect(),
            loaded,
            deferred,
            denied: denied_own
                .map(|tool| &tool.name)
                .chain(denied.into_iter().map(|tool| &tool.name))
                .cloned()
                .collect(),
        }
    }

    /// Returns the approximate number of tokens of all tool definitions.
    pub fn tokens(&self) -> usize {
        tokens(self.offered().map(|tool| &**tool))
    }
}

fn tokens<'t>(tools: impl Iterator<Item = &'t PoolTool>) -> usize {
    let sizes = tools.map(|tool| Definition::Server(tool).size());
    sizes.sum::<usize>() * 2 / BYTES_FOR_TWO_TOKENS
}

impl ModelTools {
    /// Serializes the visible tools as a JSON array.
    pub fn export(&self, format: Format) -> String {
        let own = self.own.iter().map(Definition::Own);
        let loaded = self.loaded.iter().map(|tool| Definition::Server(tool));
        export(format, own.chain(loaded))
    }

    /// As [`ModelTools::export`], parsed.
    pub fn export_value(&self, format: Format) -> Value {
        parsed(&self.export(format))
    }

    /// Makes a deferred tool visible; returns false if there is none with this name.
    pub fn load(&mut self, name: &str) -> bool {
        let by_name = |tool: &Arc<PoolTool>| tool.name.as_str().cmp(name);
        let Ok(at) = self.deferred.binary_search_by(by_name) else {
            return false;
        };
        let tool = self.deferred.remove(at);
        let at = self.loaded.partition_point(|other| other.name < tool.name);
        self.loaded.insert(at, tool);
        true
    }
}
