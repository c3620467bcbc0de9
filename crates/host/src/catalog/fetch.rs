//! Fetches a server's lists: all at once (LIF-8), or those that changed (LIF-9).

use std::sync::Arc;

use tokio::time::Instant;
use trunkline_config::ToolFilter;
use trunkline_wire::client::{CatalogBudget, Listing};
use trunkline_wire::mcp::{
    Item, ListKind, Prompt, Resource, ResourceTemplate, ServerIdentity, Tool,
};
use trunkline_wire::offload::offload;
use trunkline_wire::{Client, Json, RequestError, RpcError};

use super::lists::{Freshness, ListState, Lists, Origin, PerList};
use super::{Catalog, ToolOptions, server_tools};
use crate::telemetry;

/// Fetches those lists in `which` that the server declares and keeps the others. A list that cannot
/// be fetched keeps its previous items and adds a diagnostic.
pub(crate) async fn fetch(
    options: &ToolOptions<'_>,
    client: &Client,
    deadline: Instant,
    previous: &Catalog,
    which: Lists,
) -> Catalog {
    let capabilities = &client.identity().capabilities;
    let request = |kind, is_declared| ListRequest {
        server: options.server,
        kind,
        is_wanted: which.contains(kind),
        is_declared,
        deadline,
    };
    let budget = &CatalogBudget::default();
    // Boxed because the futures are large.
    let (tools, resources, templates, prompts) = tokio::join!(
        Box::pin(list(
            client,
            request(ListKind::Tools, capabilities.tools),
            budget
        )),
        Box::pin(list(
            client,
            request(ListKind::Resources, capabilities.resources),
            budget
        )),
        Box::pin(list(
            client,
            request(ListKind::ResourceTemplates, capabilities.resources),
            budget
        )),
        Box::pin(list(
            client,
            request(ListKind::Prompts, capabilities.prompts),
            budget
        )),
    );
    let fetched = FetchedLists {
        tools,
        resources,
        templates,
        prompts,
        identity: Arc::new(client.identity().clone()),
    };
    let failure = fetched.as_failure();
    let (bytes, owned) = (fetched.bytes(), OwnedToolOptions::from(options));
    let before = previous.clone();
    // Reading and sanitizing long lists takes time (CALL-7).
    let assembled = offload(bytes, move || fetched.assemble(&owned.as_ref(), &before)).await;
    assembled.unwrap_or_else(|_| failure.assemble(options, previous))
}

/// The lists of one server as fetched.
struct FetchedLists {
    tools: FetchOutcome<Vec<Tool>>,
    resources: FetchOutcome<Vec<Resource>>,
    templates: FetchOutcome<Vec<ResourceTemplate>>,
    prompts: FetchOutcome<Vec<Prompt>>,
    identity: Arc<ServerIdentity>,
}

impl FetchedLists {
    /// Returns what to assemble if assembling panics.
    fn as_failure(&self) -> Self {
        Self {
            tools: FetchOutcome::Failed("tools/list: the tools could not be read".to_owned()),
            resources: FetchOutcome::NotRequested,
            templates: FetchOutcome::NotRequested,
            prompts: FetchOutcome::NotRequested,
            identity: Arc::clone(&self.identity),
        }
    }

    /// Returns the total length of the items.
    fn bytes(&self) -> usize {
        self.tools.bytes(|tool| &tool.raw)
            + self.resources.bytes(|resource| &resource.raw)
            + self.templates.bytes(|template| &template.raw)
            + self.prompts.bytes(|prompt| &prompt.raw)
    }

    fn assemble(self, options: &ToolOptions<'_>, previous: &Catalog) -> Catalog {
        let mut merge = Merge {
            lists: previous.lists.clone(),
            now: Instant::now(),
        };
        let tools = self.tools.map(|tools| server_tools(options, tools));
        Catalog {
            tools: merge.shared(ListKind::Tools, tools, &previous.tools),
            resources: merge.slice(ListKind::Resources, self.resources, &previous.resources),
            templates: merge.slice(
                ListKind::ResourceTemplates,
                self.templates,
                &previous.templates,
            ),
            prompts: merge.slice(ListKind::Prompts, self.prompts, &previous.prompts),
            identity: Some(self.identity),
            cached_at: previous.cached_at,
            ..Catalog::default()
        }
        .with(merge.lists)
    }
}

/// [`ToolOptions`] for another thread.
struct OwnedToolOptions {
    server: Arc<str>,
    filter: Option<ToolFilter>,
    always_load: bool,
    header_parameters: bool,
    prefix: bool,
    is_ide: bool,
}

impl OwnedToolOptions {
    fn from(options: &ToolOptions<'_>) -> Self {
        Self {
            server: Arc::clone(options.server),
            filter: options.filter.cloned(),
            always_load: options.always_load,
            header_parameters: options.header_parameters,
            prefix: options.prefix,
            is_ide: options.is_ide,
        }
    }

    fn as_ref(&self) -> ToolOptions<'_> {
        ToolOptions {
            server: &self.server,
            filter: self.filter.as_ref(),
            always_load: self.always_load,
            header_parameters: self.header_parameters,
            prefix: self.prefix,
            is_ide: self.is_ide,
        }
    }
}

/// Maximum number of invalid items reported individually per list.
const MAX_REPORTED: usize = 20;

/// A list to fetch.
struct ListRequest<'a> {
    server: &'a str,
    kind: ListKind,
    is_wanted: bool,
    is_declared: bool,
    deadline: Instant,
}

enum FetchOutcome<T> {
    NotRequested,
    /// The list, possibly without its last pages.
    Listed {
        items: T,
        problems: Vec<String>,
        ttl_ms: Option<u64>,
        /// A later page failed.
        incomplete: bool,
    },
    /// The server declares the capability but rejects the method.
    Unsupported(String),
    Failed(String),
}

impl<T> FetchOutcome<Vec<T>> {
    fn bytes(&self, raw: impl Fn(&T) -> &Json) -> usize {
        match self {
            Self::Listed { items, .. } => items.iter().map(|item| raw(item).as_str().len()).sum(),
            _ => 0,
        }
    }
}

impl<T> FetchOutcome<T> {
    /// Converts the items and adds the diagnostics of the conversion.
    fn map<U>(self, make: impl FnOnce(T) -> (U, Vec<String>)) -> FetchOutcome<U> {
        match self {
            Self::NotRequested => FetchOutcome::NotRequested,
            Self::Unsupported(problem) => FetchOutcome::Unsupported(problem),
            Self::Failed(problem) => FetchOutcome::Failed(problem),
            Self::Listed {
                items,
                mut problems,
                ttl_ms,
                incomplete,
            } => {
                let (items, more) = make(items);
                problems.extend(more);
                FetchOutcome::Listed {
                    items,
                    problems,
                    ttl_ms,
                    incomplete,
                }
            }
        }
    }
}

async fn list<T: Item>(
    client: &Client,
    request: ListRequest<'_>,
    budget: &CatalogBudget,
) -> FetchOutcome<Vec<T>> {
    let kind = request.kind;
    if !request.is_wanted {
        return FetchOutcome::NotRequested;
    }
    if !request.is_declared {
        return FetchOutcome::Listed {
            items: Vec::new(),
            problems: Vec::new(),
            ttl_ms: None,
            incomplete: false,
        };
    }
    let listing = client.list_within(kind, Some(request.deadline), budget);
    match telemetry::list(request.server, client, kind.method(), listing).await {
        Ok(Listing {
            items,
            invalid: bad,
            warnings,
            ttl_ms,
            incomplete,
            ..
        }) => {
            let more = bad.len().saturating_sub(MAX_REPORTED);
            let more = (more > 0).then(|| format!("{}: skipped {more} more items", kind.method()));
            let bad = bad.into_iter().take(MAX_REPORTED).map(|bad| {
                format!(
                    "{}: skipped item {}: {}",
                    kind.method(),
                    bad.index,
                    bad.reason
                )
            });
            let warnings = warnings
                .into_iter()
                .map(|warning| format!("{}: {warning}", kind.method()));
            FetchOutcome::Listed {
                items,
                problems: bad.chain(more).chain(warnings).collect(),
                ttl_ms,
                incomplete,
            }
        }
        Err(RequestError::Rpc(error))
            if error.code == RpcError::METHOD_NOT_FOUND && kind != ListKind::Tools =>
        {
            let method = kind.method();
            FetchOutcome::Unsupported(format!("it declares {method} but does not support it"))
        }
        Err(error) => FetchOutcome::Failed(format!("{} failed: {error}", kind.method())),
    }
}

/// Chooses between the previous and the fetched items of each list.
struct Merge {
    lists: PerList<ListState>,
    now: Instant,
}

impl Merge {
    fn slice<T>(
        &mut self,
        kind: ListKind,
        fetched: FetchOutcome<Vec<T>>,
        previous: &Arc<[T]>,
    ) -> Arc<[T]> {
        match self.decide(kind, fetched) {
            Some(items) => items.into(),
            None => Arc::clone(previous),
        }
    }

    fn shared<T: Default>(
        &mut self,
        kind: ListKind,
        fetched: FetchOutcome<T>,
        previous: &Arc<T>,
    ) -> Arc<T> {
        match self.decide(kind, fetched) {
            Some(items) => Arc::new(items),
            None => Arc::clone(previous),
        }
    }

    /// Returns the new items, or `None` to keep the previous ones.
    fn decide<T: Default>(&mut self, kind: ListKind, fetched: FetchOutcome<T>) -> Option<T> {
        let before = PerList::of(kind, &self.lists).clone();
        let problems = match fetched {
            FetchOutcome::NotRequested => return None,
            FetchOutcome::Listed {
                items,
                problems,
                ttl_ms,
                incomplete,
            } if !incomplete || before.origin == Origin::NotFetched => {
                let state = ListState {
                    origin: if incomplete {
                        Origin::NotFetched
                    } else {
                        Origin::Server
                    },
                    problems: problems.into(),
                    note: None,
                    failed: incomplete,
                    freshness: Freshness::starting(ttl_ms, self.now),
                };
                self.lists.set(kind, state);
                return Some(items);
            }
            // The list is empty, unless the server had items a moment ago: then the fetch failed.
            FetchOutcome::Unsupported(note)
                if before.origin != Origin::Server || before.note.is_some() =>
            {
                let state = ListState {
                    origin: Origin::Server,
                    note: Some(note.into()),
                    ..ListState::default()
                };
                self.lists.set(kind, state);
                return Some(T::default());
            }
            // A complete older list is better than a partial new one.
            FetchOutcome::Listed { problems, .. } => problems,
            FetchOutcome::Unsupported(problem) | FetchOutcome::Failed(problem) => vec![problem],
        };
        let state = ListState {
            problems: problems.into(),
            failed: true,
            freshness: before.freshness.map(|old| old.extended(self.now)),
            ..before
        };
        self.lists.set(kind, state);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(incomplete: bool) -> FetchOutcome<&'static str> {
        FetchOutcome::Listed {
            items: "new",
            problems: vec!["odd".to_owned()],
            ttl_ms: None,
            incomplete,
        }
    }

    fn unknown() -> FetchOutcome<&'static str> {
        FetchOutcome::Unsupported("what?".to_owned())
    }

    #[test]
    fn previous_list_is_kept_unless_the_new_one_is_complete() {
        for (before, fetched, items, after, problems) in [
            (
                Origin::NotFetched,
                listed(false),
                Some("new"),
                Origin::Server,
                1,
            ),
            (Origin::Cache, listed(false), Some("new"), Origin::Server, 1),
            // A partial list is better than none, but is not stored for the next run.
            (
                Origin::NotFetched,
                listed(true),
                Some("new"),
                Origin::NotFetched,
                1,
            ),
            (Origin::Server, listed(true), None, Origin::Server, 1),
            (Origin::Cache, listed(true), None, Origin::Cache, 1),
            (
                Origin::Cache,
                FetchOutcome::Failed("no".to_owned()),
                None,
                Origin::Cache,
                1,
            ),
            (
                Origin::Server,
                FetchOutcome::NotRequested,
                None,
                Origin::Server,
                0,
            ),
            // An unsupported list is empty, not a problem.
            (Origin::NotFetched, unknown(), Some(""), Origin::Server, 0),
            (Origin::Cache, unknown(), Some(""), Origin::Server, 0),
            // The server supported it before.
            (Origin::Server, unknown(), None, Origin::Server, 1),
        ] {
            let mut lists = PerList::default();
            let state = ListState {
                origin: before,
                ..ListState::default()
            };
            lists.set(ListKind::Tools, state);
            let mut merge = Merge {
                lists,
                now: Instant::now(),
            };
            assert_eq!(merge.decide(ListKind::Tools, fetched), items);
            let state = PerList::of(ListKind::Tools, &merge.lists);
            assert_eq!((state.origin, state.problems.len()), (after, problems));
        }
    }
}
