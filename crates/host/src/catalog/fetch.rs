//! Fetches a server's lists, all at once (LIF-8).

use std::sync::Arc;

use tokio::time::Instant;
use trunkline_wire::Client;
use trunkline_wire::client::Listing;
use trunkline_wire::mcp::{Item, ListKind};

use super::{Catalog, part};

/// Fetches the lists that the server says it has. One that cannot be fetched is a diagnostic, and the others stand.
pub(crate) async fn fetch(server: &Arc<str>, client: &Client, deadline: Instant) -> Catalog {
    let has = &client.identity().capabilities;
    let (tools, resources, templates, prompts) = tokio::join!(
        list(client, ListKind::Tools, has.tools, deadline),
        list(client, ListKind::Resources, has.resources, deadline),
        list(client, ListKind::ResourceTemplates, has.resources, deadline),
        list(client, ListKind::Prompts, has.prompts, deadline),
    );
    let mut diagnostics = Vec::new();
    let (tools, renamed) = part(server, take(tools, &mut diagnostics));
    diagnostics.extend(renamed);
    Catalog {
        tools: Arc::new(tools),
        resources: take(resources, &mut diagnostics).into(),
        templates: take(templates, &mut diagnostics).into(),
        prompts: take(prompts, &mut diagnostics).into(),
        diagnostics: diagnostics.into(),
    }
}

struct Fetched<T> {
    items: Vec<T>,
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
            items: Vec::new(),
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
            let bad = bad.into_iter().map(|bad| {
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
                items,
                problems: bad.chain(warnings).collect(),
            }
        }
        Err(error) => Fetched {
            items: Vec::new(),
            problems: vec![format!("{} failed: {error}", kind.method())],
        },
    }
}

fn take<T>(fetched: Fetched<T>, diagnostics: &mut Vec<String>) -> Vec<T> {
    diagnostics.extend(fetched.problems);
    fetched.items
}
