//! Which tools a model is shown from the start, and which it has to search for (TOOL-9).

use std::sync::Arc;

use super::TOOL_SEARCH;
use crate::catalog::{Definition, Format, Pool, PoolTool, export};
use crate::host_tool::HostTool;

/// How much of a model's context the tools may take before most of them are left to be searched for, in percent (TOOL-9).
const DEFAULT_PERCENT: u8 = 10;

/// How many bytes of a definition are two tokens, about.
const BYTES_FOR_TWO_TOKENS: usize = 7;

/// Which of the servers' tools a model is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMode {
    /// All of them.
    All,
    /// Those that are always loaded; the others are searched for.
    Search,
    /// All of them, unless they would take more of the model's context than so many percent.
    Auto {
        /// The share of the context.
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
    /// What `ENABLE_TOOL_SEARCH` says: `true`, `false`, `auto` or `auto:N`; `None` for anything else.
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

/// The tools as one model sees them.
#[derive(Clone, Debug, Default)]
pub struct ModelTools {
    /// The host's own tools, the search only where there is something to search for.
    pub own: Vec<HostTool>,
    /// The servers' tools that it is shown, sorted by name.
    pub loaded: Vec<Arc<PoolTool>>,
    /// The servers' tools that it has to search for, sorted by name. They can be called all the same.
    pub deferred: Vec<Arc<PoolTool>>,
    /// The names of the tools that are left out because a rule denies them; the host's own first, each sorted.
    pub denied: Vec<String>,
}

impl Pool {
    /// The tools as a model with a context of so many tokens is to see them.
    ///
    /// A pool knows no rules: [`Host::offered`](crate::Host::offered) leaves out what is denied.
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
        // A model that may not search must be shown everything.
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

    /// How many tokens the definitions of all the servers' tools take, about.
    pub fn tokens(&self) -> usize {
        tokens(self.offered().map(|tool| &**tool))
    }
}

fn tokens<'t>(tools: impl Iterator<Item = &'t PoolTool>) -> usize {
    let sizes = tools.map(|tool| Definition::Server(tool).size());
    sizes.sum::<usize>() * 2 / BYTES_FOR_TWO_TOKENS
}

impl ModelTools {
    /// The tools that it is shown, as one JSON array.
    pub fn export(&self, format: Format) -> String {
        let own = self.own.iter().map(Definition::Own);
        let loaded = self.loaded.iter().map(|tool| Definition::Server(tool));
        export(format, own.chain(loaded))
    }

    /// Shows it a tool that it has found, from now on; false if there is none of that name to be found.
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
