//! Fetches a server's lists, all at once (LIF-8).

use std::sync::Arc;

use tokio::time::Instant;
use trunkline_wire::Client;
use trunkline_wire::client::Listing;
use trunkline_wire::mcp::{Item, ListKind};

use super::{Catalog, Offer, part};

/// Fetches the lists that the server says it has. One that cannot be fetched is a diagnostic; what the server had before
/// stays in its place, and the others stand.
pub(crate) async fn fetch(
    offer: &Offer<'_>,
    client: &Client,
    deadline: Instant,
    previous: &Catalog,
) -> Catalog {
    let has = &client.identity().capabilities;
    let (tools, resources, templates, prompts) = tokio::join!(
        list(client, ListKind::Tools, has.tools, deadline),
        list(client, ListKind::Resources, has.resources, deadline),
        list(client, ListKind::ResourceTemplates, has.resources, deadline),
        list(client, ListKind::Prompts, has.prompts, deadline),
    );
    let mut diagnostics = Vec::new();
    let tools = match take(tools, &mut diagnostics) {
        Some(tools) => {
            let (tools, renamed) = part(offer, tools);
            diagnostics.extend(renamed);
            Arc::new(tools)
        }
        None => Arc::clone(&previous.tools),
    };
    Catalog {
        tools,
        resources: take(resources, &mut diagnostics)
            .map_or_else(|| Arc::clone(&previous.resources), Arc::from),
        templates: take(templates, &mut diagnostics)
            .map_or_else(|| Arc::clone(&previous.templates), Arc::from),
        prompts: take(prompts, &mut diagnostics)
            .map_or_else(|| Arc::clone(&previous.prompts), Arc::from),
        diagnostics: diagnostics.into(),
    }
}

/// How many bad entries of one list are named one by one.
const MAX_TOLD: usize = 20;

struct Fetched<T> {
    /// Absent when the list could not be fetched.
    items: Option<Vec<T>>,
    problems: Vec<String>,
}

async fn list<T: Item>(
    client: &Client,
    kind: ListKind,
    has: bool,
    deadline: Instant,
) -> Fetched<T> {
    if !has {
        return Fetched {
            items: Some(Vec::new()),
            problems: Vec::new(),
        };
    }
    match client.list(kind, Some(deadline)).await {
        Ok(Listing {
            items,
            bad,
            warnings,
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
            Fetched {
                items: Some(items),
                problems: bad.chain(more).chain(warnings).collect(),
            }
        }
        Err(error) => Fetched {
            items: None,
            problems: vec![format!("{} failed: {error}", kind.method())],
        },
    }
}

fn take<T>(fetched: Fetched<T>, diagnostics: &mut Vec<String>) -> Option<Vec<T>> {
    diagnostics.extend(fetched.problems);
    fetched.items
}
