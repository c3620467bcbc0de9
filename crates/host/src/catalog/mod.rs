//! The catalog of each server and the pool of all tools.

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
use std::time::SystemTime;

pub(crate) use cache::FetchCache;
pub(crate) use expiry::Expiry;
pub use export::Format;
pub(crate) use export::{Definition, export, parsed};
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

/// The lists that one server offers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Catalog {
    pub(crate) tools: Arc<ServerTools>,
    /// The resources, with sanitized texts.
    pub resources: Arc<[Resource]>,
    /// The resource templates, with sanitized texts.
    pub templates: Arc<[ResourceTemplate]>,
    /// The prompts, with sanitized texts.
    pub prompts: Arc<[Prompt]>,
    /// Problems with the lists: invalid items, lists that could not be fetched.
    pub diagnostics: Arc<[String]>,
    /// Harmless remarks: a list that the server declares but does not have, or one that could not
    /// be fetched in an earlier run.
    pub notes: Arc<[String]>,
    /// The identity that the server reported with these lists.
    pub identity: Option<Arc<ServerIdentity>>,
    /// Whether some of it comes from an earlier run (LIF-13) and may be out of date.
    pub cached: bool,
    /// When the server last confirmed the part that comes from an earlier run.
    pub cached_at: Option<SystemTime>,
    lists: PerList<ListState>,
}

impl Catalog {
    /// The tools, sorted by name.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }

    /// Returns the server's instructions as a model sees them: sanitized and truncated to 2,048
    /// characters (TOOL-3, LIF-7).
    pub fn instructions(&self) -> Option<Cow<'_, str>> {
        let (text, _) = shown(self.raw_instructions()?);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the server's instructions verbatim.
    pub(crate) fn raw_instructions(&self) -> Option<&str> {
        self.identity.as_ref()?.instructions.as_deref()
    }

    /// Returns whether the server offers nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
            && self.resources.is_empty()
            && self.templates.is_empty()
            && self.prompts.is_empty()
    }

    /// Returns whether to store the catalog for the next run: the tools were fetched in this one,
    /// and every other list was fetched or failed.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let fetched = |list: &ListState| list.origin == Origin::Server && !list.failed;
        let mut lists = self.lists.iter();
        lists.all(|(kind, list)| fetched(list) || (list.failed && kind != ListKind::Tools))
    }

    /// Returns the lists that are no longer fresh.
    pub(crate) fn stale(&self, now: Instant) -> Lists {
        let stale = self.lists.iter().filter(|(_, list)| {
            let freshness = list.freshness;
            freshness.is_some_and(|freshness| freshness.until <= now)
        });
        stale.fold(Lists::NONE, |lists, (kind, _)| lists | Lists::of(kind))
    }

    /// Returns when the next fresh list becomes stale.
    pub(crate) fn stale_after(&self, now: Instant) -> Option<Instant> {
        let ends = self.lists.iter().filter_map(|(_, list)| list.freshness);
        ends.map(|freshness| freshness.until)
            .filter(|until| *until > now)
            .min()
    }

    /// Sets the list states. Every catalog, fetched or cached, passes through here, so the texts of
    /// resources, templates and prompts are always sanitized (TOOL-3). A tool carries its sanitized
    /// texts beside the originals.
    fn with(mut self, mut lists: PerList<ListState>) -> Self {
        self.resources = sanitize_list(ListKind::Resources, &self.resources, &mut lists);
        self.templates = sanitize_list(ListKind::ResourceTemplates, &self.templates, &mut lists);
        self.prompts = sanitize_list(ListKind::Prompts, &self.prompts, &mut lists);
        let problems = lists.iter().flat_map(|(_, list)| list.problems.iter());
        self.diagnostics = problems.cloned().chain(self.hidden()).collect();
        let notes = lists.iter().filter_map(|(_, list)| list.note.as_deref());
        self.notes = notes.map(str::to_owned).collect();
        self.cached = lists.iter().any(|(_, list)| list.origin == Origin::Cache);
        self.cached_at = self.cached_at.filter(|_| self.cached);
        self.lists = lists;
        self
    }

    /// Reports hidden characters in the server's instructions.
    fn hidden(&self) -> Option<String> {
        let (_, removed) = shown(self.raw_instructions()?);
        (!removed.is_empty()).then(|| format!("removed {removed} from its instructions"))
    }

    /// Returns whether all visible content equals that of `other`.
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
