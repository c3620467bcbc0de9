//! Fetches a server's lists, all at once (LIF-8), or those that have changed (LIF-9).

use std::sync::Arc;

use tokio::time::Instant;
use trunkline_wire::client::{CatalogBudget, Listing};
use trunkline_wire::mcp::{Item, ListKind, Tool};
use trunkline_wire::{Client, RequestError, RpcError};

use super::lists::{Freshness, ListState, Lists, Origin, PerList};
use super::{Catalog, Offer, Part, part};

/// Fetches those of `which` that the server says it has; the others stay as they were. A list that cannot be fetched is a
/// diagnostic; what the server had before stays in its place, and the others stand.
pub(crate) async fn fetch(
    offer: &Offer<'_>,
    client: &Client,
    deadline: Instant,
    previous: &Catalog,
    which: Lists,
) -> Catalog {
    let has = &client.identity().capabilities;
    let ask = |kind, has| Ask {
        kind,
        wanted: which.contains(kind),
        has,
        deadline,
    };
    let budget = &CatalogBudget::default();
    // On the heap: together they are large.
    let (mut tools, resources, templates, prompts) = tokio::join!(
        Box::pin(list(client, ask(ListKind::Tools, has.tools), budget)),
        Box::pin(list(
            client,
            ask(ListKind::Resources, has.resources),
            budget
        )),
        Box::pin(list(
            client,
            ask(ListKind::ResourceTemplates, has.resources),
            budget
        )),
        Box::pin(list(client, ask(ListKind::Prompts, has.prompts), budget)),
    );
    let mut settle = Settle {
        lists: previous.lists.clone(),
        now: Instant::now(),
    };
    let many = match &mut tools {
        Fetched::Got { items, .. } if items.len() > MANY => Some(std::mem::take(items)),
        _ => None,
    };
    let tools = match many {
        Some(many) => {
            let made = Box::pin(part_elsewhere(offer, many)).await;
            tools.map(|_| made)
        }
        None => tools.map(|tools| part(offer, tools)),
    };
    Catalog {
        tools: settle.list(ListKind::Tools, tools, &previous.tools),
        resources: settle.plain(ListKind::Resources, resources, &previous.resources),
        templates: settle.plain(ListKind::ResourceTemplates, templates, &previous.templates),
        prompts: settle.plain(ListKind::Prompts, prompts, &previous.prompts),
        identity: Some(Arc::new(client.identity().clone())),
        ..Catalog::default()
    }
    .with(settle.lists)
}

/// Names more tools than a task should at a time, on a thread of its own (CALL-7).
async fn part_elsewhere(offer: &Offer<'_>, tools: Vec<Tool>) -> (Part, Vec<String>) {
    let server = Arc::clone(offer.server);
    let filter = offer.filter.cloned();
    let Offer {
        always_load,
        headers,
        prefix,
        ide,
        ..
    } = *offer;
    let made = tokio::task::spawn_blocking(move || {
        let offer = Offer {
            server: &server,
            filter: filter.as_ref(),
            always_load,
            headers,
            prefix,
            ide,
        };
        part(&offer, tools)
    });
    let failed = |_| {
        let problem = "tools/list: the tools could not be read".to_owned();
        (Part::default(), vec![problem])
    };
    made.await.unwrap_or_else(failed)
}

/// More tools than this are named on a thread of their own.
const MANY: usize = 200;

/// How many bad entries of one list are named one by one.
const MAX_TOLD: usize = 20;

/// One list to fetch.
struct Ask {
    kind: ListKind,
    wanted: bool,
    has: bool,
    deadline: Instant,
}

enum Fetched<T> {
    /// Nobody asked for it.
    Unasked,
    /// The list, or as much of it as there is.
    Got {
        items: T,
        problems: Vec<String>,
        ttl_ms: Option<u64>,
        /// A later page of it could not be had.
        incomplete: bool,
    },
    /// The server does not know the method, although it declares the capability.
    Unknown(String),
    Failed(String),
}

impl<T> Fetched<T> {
    /// Makes something else of the entries, with more to say about them.
    fn map<U>(self, make: impl FnOnce(T) -> (U, Vec<String>)) -> Fetched<U> {
        match self {
            Self::Unasked => Fetched::Unasked,
            Self::Unknown(problem) => Fetched::Unknown(problem),
            Self::Failed(problem) => Fetched::Failed(problem),
            Self::Got {
                items,
                mut problems,
                ttl_ms,
                incomplete,
            } => {
                let (items, more) = make(items);
                problems.extend(more);
                Fetched::Got {
                    items,
                    problems,
                    ttl_ms,
                    incomplete,
                }
            }
        }
    }
}

async fn list<T: Item>(client: &Client, ask: Ask, budget: &CatalogBudget) -> Fetched<Vec<T>> {
    let kind = ask.kind;
    if !ask.wanted {
        return Fetched::Unasked;
    }
    if !ask.has {
        return Fetched::Got {
            items: Vec::new(),
            problems: Vec::new(),
            ttl_ms: None,
            incomplete: false,
        };
    }
    match client.list_within(kind, Some(ask.deadline), budget).await {
        Ok(Listing {
            items,
            bad,
            warnings,
            ttl_ms,
            incomplete,
            ..
        }) => {
            let more = bad.len().saturating_sub(MAX_TOLD);
            let more =
                (more > 0).then(|| format!("{}: {more} more entries were left out", kind.method()));
            let bad = bad.into_iter().take(MAX_TOLD).map(|bad| {
                format!(
                    "{}: entry {} was left out: {}",
                    kind.method(),
                    bad.index,
                    bad.reason
                )
            });
            let warnings = warnings
                .into_iter()
                .map(|warning| format!("{}: {warning}", kind.method()));
            Fetched::Got {
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
            Fetched::Unknown(format!("it declares {method} but does not know it"))
        }
        Err(error) => Fetched::Failed(format!("{} failed: {error}", kind.method())),
    }
}

/// Decides, list by list, between what was there and what was fetched.
struct Settle {
    lists: PerList<ListState>,
    now: Instant,
}

impl Settle {
    fn plain<T>(
        &mut self,
        kind: ListKind,
        fetched: Fetched<Vec<T>>,
        previous: &Arc<[T]>,
    ) -> Arc<[T]> {
        match self.decide(kind, fetched) {
            Some(items) => items.into(),
            None => Arc::clone(previous),
        }
    }

    fn list<T: Default>(
        &mut self,
        kind: ListKind,
        fetched: Fetched<T>,
        previous: &Arc<T>,
    ) -> Arc<T> {
        match self.decide(kind, fetched) {
            Some(items) => Arc::new(items),
            None => Arc::clone(previous),
        }
    }

    /// The new entries, unless the old ones are to stay.
    fn decide<T: Default>(&mut self, kind: ListKind, fetched: Fetched<T>) -> Option<T> {
        let before = PerList::of(kind, &self.lists).clone();
        let problems = match fetched {
            Fetched::Unasked => return None,
            Fetched::Got {
                items,
                problems,
                ttl_ms,
                incomplete,
            } if !incomplete || before.origin == Origin::Nowhere => {
                let state = ListState {
                    origin: if incomplete {
                        Origin::Nowhere
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
            // Nothing is what it has; but one that had entries a moment ago has failed.
            Fetched::Unknown(note) if before.origin != Origin::Server || before.note.is_some() => {
                let state = ListState {
                    origin: Origin::Server,
                    note: Some(note.into()),
                    ..ListState::default()
                };
                self.lists.set(kind, state);
                return Some(T::default());
            }
            // Half a list is worse than a whole one that is a little older.
            Fetched::Got { problems, .. } => problems,
            Fetched::Unknown(problem) | Fetched::Failed(problem) => vec![problem],
        };
        let state = ListState {
            problems: problems.into(),
            failed: true,
            freshness: before.freshness.map(|old| old.prolonged(self.now)),
            ..before
        };
        self.lists.set(kind, state);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(incomplete: bool) -> Fetched<&'static str> {
        Fetched::Got {
            items: "new",
            problems: vec!["odd".to_owned()],
            ttl_ms: None,
            incomplete,
        }
    }

    fn unknown() -> Fetched<&'static str> {
        Fetched::Unknown("what?".to_owned())
    }

    #[test]
    fn the_old_list_stays_where_the_new_one_is_not_better() {
        for (before, fetched, items, after, problems) in [
            (Origin::Nowhere, got(false), Some("new"), Origin::Server, 1),
            (Origin::Cache, got(false), Some("new"), Origin::Server, 1),
            // Half a list is better than none, but not to be kept for the next run.
            (Origin::Nowhere, got(true), Some("new"), Origin::Nowhere, 1),
            (Origin::Server, got(true), None, Origin::Server, 1),
            (Origin::Cache, got(true), None, Origin::Cache, 1),
            (
                Origin::Cache,
                Fetched::Failed("no".to_owned()),
                None,
                Origin::Cache,
                1,
            ),
            (Origin::Server, Fetched::Unasked, None, Origin::Server, 0),
            // A list that the server does not know is empty, and no problem.
            (Origin::Nowhere, unknown(), Some(""), Origin::Server, 0),
            (Origin::Cache, unknown(), Some(""), Origin::Server, 0),
            // It knew it before.
            (Origin::Server, unknown(), None, Origin::Server, 1),
        ] {
            let mut lists = PerList::default();
            let state = ListState {
                origin: before,
                ..ListState::default()
            };
            lists.set(ListKind::Tools, state);
            let mut settle = Settle {
                lists,
                now: Instant::now(),
            };
            assert_eq!(settle.decide(ListKind::Tools, fetched), items);
            let state = PerList::of(ListKind::Tools, &settle.lists);
            assert_eq!((state.origin, state.problems.len()), (after, problems));
        }
    }
}
