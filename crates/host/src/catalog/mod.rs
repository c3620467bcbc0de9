//! What servers options, and the pool of all their tools.

mod cache;
mod confusables;
mod expiry;
mod export;
mod fetch;
mod lists;
mod names;
mod pool;
mod sanitize_list;
mod server_tools;
mod snapshot;
mod store;
#[cfg(test)]
pub(crate) mod testing;
mod tool;
mod unique;

use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use cache::FetchCache;
pub(crate) use expiry::Expiry;
pub use export::Format;
pub(crate) use export::{Definition, export};
pub(crate) use fetch::fetch;
pub(crate) use lists::Lists;
use lists::{ListState, Origin, PerList};
pub use names::{may_belong_to, tool_name};
pub use pool::{NormalizedNames, Pool};
pub(crate) use server_tools::{ServerTools, ToolOptions, server_tools};
pub(crate) use store::CatalogKey;
pub use store::CatalogStore;
use tokio::time::Instant;
pub use tool::PoolTool;
use trunkline_wire::mcp::{ListKind, Prompt, Resource, ResourceTemplate, ServerIdentity};
pub(crate) use unique::unique_name;

use crate::sanitize::shown;
use sanitize_list::sanitize_list;

/// What one server offers.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub(crate) tools: Arc<ServerTools>,
    /// Its resources; their texts are sanitised.
    pub resources: Arc<[Resource]>,
    /// Its resource templates; their texts are sanitised.
    pub templates: Arc<[ResourceTemplate]>,
    /// Its prompts; their texts are sanitised.
    pub prompts: Arc<[Prompt]>,
    /// What was wrong with its lists: bad entries, lists that could not be fetched.
    pub diagnostics: Arc<[String]>,
    /// What is worth knowing about its lists, and no harm: one that it declares and does not have, one
    /// that could not be fetched in an earlier run.
    pub notes: Arc<[String]>,
    /// Who the server said it is when it offered this.
    pub identity: Option<Arc<ServerIdentity>>,
    /// Some of it is what the server offered in an earlier run (LIF-13): until a fresh list takes its place, it may be out of
    /// date.
    pub cached: bool,
    lists: PerList<ListState>,
}

impl Catalog {
    /// Its tools, sorted by name.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }

    /// What the server says about how to use it, as a model sees it: sanitised, and cut after 2,048 characters (TOOL-3, LIF-7).
    pub fn instructions(&self) -> Option<Cow<'_, str>> {
        let (text, _) = shown(self.raw_instructions()?);
        Some(text).filter(|text| !text.is_empty())
    }

    /// What the server says about how to use it, as it says it.
    pub(crate) fn raw_instructions(&self) -> Option<&str> {
        self.identity.as_ref()?.instructions.as_deref()
    }

    /// Whether the server offers nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
            && self.resources.is_empty()
            && self.templates.is_empty()
            && self.prompts.is_empty()
    }

    /// Whether it is worth keeping for the next run: its tools were fetched from the server in this one, and
    /// each other list was as well, or is known to have failed.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let fetched = |list: &ListState| list.origin == Origin::Server && !list.failed;
        let mut lists = self.lists.iter();
        lists.all(|(kind, list)| fetched(list) || (list.failed && kind != ListKind::Tools))
    }

    /// The lists that are no longer fresh.
    pub(crate) fn stale(&self, now: Instant) -> Lists {
        let stale = self.lists.iter().filter(|(_, list)| {
            let freshness = list.freshness;
            freshness.is_some_and(|freshness| freshness.until <= now)
        });
        stale.fold(Lists::NONE, |lists, (kind, _)| lists | Lists::of(kind))
    }

    /// When the first of its lists that are still fresh becomes stale.
    pub(crate) fn stale_after(&self, now: Instant) -> Option<Instant> {
        let ends = self.lists.iter().filter_map(|(_, list)| list.freshness);
        ends.map(|freshness| freshness.until)
            .filter(|until| *until > now)
            .min()
    }

    /// Takes note of what is known about its lists. Every catalog passes here, fetched or cached, so that the texts of resources,
    /// templates and prompts are fit for a model (TOOL-3); a tool has its shown texts beside what its server says.
    fn with(mut self, mut lists: PerList<ListState>) -> Self {
        self.resources = sanitize_list(ListKind::Resources, &self.resources, &mut lists);
        self.templates = sanitize_list(ListKind::ResourceTemplates, &self.templates, &mut lists);
        self.prompts = sanitize_list(ListKind::Prompts, &self.prompts, &mut lists);
        let problems = lists.iter().flat_map(|(_, list)| list.problems.iter());
        self.diagnostics = problems.cloned().chain(self.hidden()).collect();
        let notes = lists.iter().filter_map(|(_, list)| list.note.as_deref());
        self.notes = notes.map(str::to_owned).collect();
        self.cached = lists.iter().any(|(_, list)| list.origin == Origin::Cache);
        self.lists = lists;
        self
    }

    /// What was hidden in the server's instructions.
    fn hidden(&self) -> Option<String> {
        let identity = self.identity.as_ref()?;
        let (_, removed) = shown(identity.instructions.as_deref()?);
        let were = if removed.total() == 1 { "was" } else { "were" };
        (!removed.is_empty()).then(|| format!("{removed} {were} removed from its instructions"))
    }

    /// Whether everything that anybody can see is as it is in `other`.
    pub(crate) fn shows_the_same(&self, other: &Self) -> bool {
        fn same<T>(one: &[T], other: &[T], raw: impl Fn(&T) -> &str) -> bool {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| raw(a) == raw(b))
        }
        self.cached == other.cached
            && self.diagnostics == other.diagnostics
            && self.notes == other.notes
            && same(&self.tools, &other.tools, |tool| tool.tool.raw.as_str())
            && same(&self.resources, &other.resources, |item| item.raw.as_str())
            && same(&self.templates, &other.templates, |item| item.raw.as_str())
            && same(&self.prompts, &other.prompts, |item| item.raw.as_str())
    }
}
