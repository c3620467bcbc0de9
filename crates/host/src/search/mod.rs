//! Searches tools by purpose (TOOL-9), so a model need not see all of them.

mod index;
mod model_tools;
mod offered;
mod query;
mod rank;
mod synonyms;
mod tool_search;
mod words;

use std::sync::Arc;

pub(crate) use index::Index;
pub use model_tools::{LoadMode, ModelTools};
pub use tool_search::TOOL_SEARCH;
pub(crate) use tool_search::add_tool_search;

use crate::catalog::{Pool, PoolTool};
use query::Query;
use rank::Ranking;

/// A tool found by a search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchHit {
    /// The tool.
    pub tool: Arc<PoolTool>,
    /// The score: higher is better, comparable only within one search.
    pub score: f32,
}

impl Pool {
    /// Returns up to `limit` tools that match `query`, best first.
    ///
    /// A query consists of words in any form and order that describe the tool. A word with a `+`
    /// must occur in the tool's name. `select:name,name` returns tools by their pool names or
    /// original names.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::{Builtin, Host};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) })
    ///     .tool("set_alarm", "Rings a bell later", &schema, |_| async { Ok("set".into()) });
    /// let host = Host::builder().builtin(clock).start();
    /// host.ready().await;
    /// let found = host.pool().search("what time is it", 5);
    /// assert_eq!(found[0].tool.name, "mcp__clock__now");
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn search(&self, query: &str, limit: usize) -> Vec<SearchHit> {
        let mut found = match Query::parse(query) {
            Query::Select(names) => self.selected(&names),
            Query::Find { terms, required } => self.ranked(&terms, &required, limit),
        };
        found.truncate(limit);
        found
    }

    fn selected(&self, names: &[String]) -> Vec<SearchHit> {
        let mut found: Vec<SearchHit> = Vec::new();
        for name in names {
            let by_original = || {
                let same = |tool: &&Arc<PoolTool>| tool.offered && *tool.tool.name == **name;
                self.tools().iter().find(same)
            };
            let tool = self.get(name).filter(|tool| tool.offered);
            if let Some(tool) = tool.or_else(by_original)
                && !found.iter().any(|known| Arc::ptr_eq(&known.tool, tool))
            {
                found.push(SearchHit {
                    tool: Arc::clone(tool),
                    score: 1.0,
                });
            }
        }
        found
    }

    fn ranked(&self, terms: &[String], required: &[String], limit: usize) -> Vec<SearchHit> {
        let scores = Ranking::of(self.parts()).scores(terms);
        let tools = self.parts().iter().flat_map(|part| part.iter());
        let fits = |tool: &PoolTool| {
            let name = || tool.name.to_lowercase();
            tool.offered
                && (required.is_empty()
                    || required.iter().all(|word| name().contains(word.as_str())))
        };
        let mut best: Vec<(f32, &Arc<PoolTool>)> = scores
            .into_iter()
            .zip(tools)
            .filter(|(score, tool)| (*score > 0.0 || !required.is_empty()) && fits(tool))
            .collect();
        let order = |a: &(f32, &Arc<PoolTool>), b: &(f32, &Arc<PoolTool>)| {
            b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name))
        };
        if limit > 0 && best.len() > limit {
            best.select_nth_unstable_by(limit - 1, order);
            best.truncate(limit);
        }
        best.sort_by(order);
        // An agent's pool may contain only some of the tools.
        let in_pool = |(score, tool)| {
            let tool = Arc::clone(self.of_part(tool)?);
            Some(SearchHit { tool, score })
        };
        best.into_iter().filter_map(in_pool).collect()
    }
}

#[cfg(test)]
mod tests;
