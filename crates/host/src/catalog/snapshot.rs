//! Serializes a catalog (LIF-13). Every item keeps its original bytes, so it can be compared with
//! what the server sends later.

use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;
use trunkline_wire::Json;
use trunkline_wire::mcp::{Implementation, Item, ListKind, ServerIdentity};
use trunkline_wire::version::MODERN;

use super::lists::{Freshness, ListState, Origin, PerList};
use super::{Catalog, ToolOptions, server_tools};

/// Maximum size; a larger catalog is not worth reading at every start.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Member names follow MCP where it defines any.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogDocument<'a> {
    protocol_version: &'a str,
    server_info: Option<&'a Implementation>,
    instructions: Option<&'a str>,
    capabilities: &'a Json,
    tools: ListDocument<'a>,
    resources: ListDocument<'a>,
    resource_templates: ListDocument<'a>,
    prompts: ListDocument<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListDocument<'a> {
    ttl_ms: Option<u64>,
    items: Vec<&'a Json>,
    /// Why the fetch failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

/// Serializes a catalog; `None` if it is too large or has no identity.
pub(super) fn write(catalog: &Catalog) -> Option<String> {
    let identity = catalog.identity.as_ref()?;
    let lists: [(ListKind, Vec<&Json>); 4] = [
        (
            ListKind::Tools,
            catalog.tools.iter().map(|tool| &tool.tool.raw).collect(),
        ),
        (
            ListKind::Resources,
            catalog.resources.iter().map(|item| &item.raw).collect(),
        ),
        (
            ListKind::ResourceTemplates,
            catalog.templates.iter().map(|item| &item.raw).collect(),
        ),
        (
            ListKind::Prompts,
            catalog.prompts.iter().map(|item| &item.raw).collect(),
        ),
    ];
    let items = lists.iter().flat_map(|(_, items)| items);
    if items.map(|item| item.as_str().len()).sum::<usize>() > MAX_BYTES {
        return None;
    }
    let [tools, resources, resource_templates, prompts] = lists.map(|(kind, items)| {
        let list = PerList::of(kind, &catalog.lists);
        let problem = list.problems.first().map_or("unknown", |problem| problem);
        ListDocument {
            ttl_ms: list
                .freshness
                .and_then(|freshness| u64::try_from(freshness.ttl.as_millis()).ok()),
            items,
            failed: list.failed.then_some(problem),
            note: list.note.as_deref(),
        }
    });
    let text = serde_json::to_string(&CatalogDocument {
        protocol_version: &identity.protocol_version,
        server_info: identity.info.as_ref(),
        instructions: identity.instructions.as_deref(),
        capabilities: &identity.capabilities.raw,
        tools,
        resources,
        resource_templates,
        prompts,
    });
    text.ok().filter(|text| text.len() <= MAX_BYTES)
}

/// Parses a catalog and marks it as cached; `None` if the text is not a catalog.
pub(super) fn read(options: ToolOptions, text: &Json) -> Option<Catalog> {
    let protocol_version: String = text.field("protocolVersion")?;
    let options = ToolOptions {
        header_parameters: options.header_parameters && MODERN.contains(&&*protocol_version),
        ..options
    };
    let mut lists = PerList::default();
    let (tools, _) = server_tools(&options, items(text, ListKind::Tools, &mut lists)?);
    let catalog = Catalog {
        tools: Arc::new(tools),
        resources: items(text, ListKind::Resources, &mut lists)?.into(),
        templates: items(text, ListKind::ResourceTemplates, &mut lists)?.into(),
        prompts: items(text, ListKind::Prompts, &mut lists)?.into(),
        identity: Some(Arc::new(ServerIdentity::from_json(text, protocol_version))),
        ..Catalog::default()
    };
    Some(catalog.with(lists))
}

fn items<T: Item>(text: &Json, kind: ListKind, lists: &mut PerList<ListState>) -> Option<Vec<T>> {
    let list = text.get(kind.member())?;
    // A failure in an earlier run is a note, not a warning.
    let failed: Option<String> = list.field("failed");
    let note = match &failed {
        Some(problem) => Some(format!("last attempt: {problem}")),
        None => list.field("note"),
    };
    let state = ListState {
        origin: Origin::Cache,
        note: note.map(Into::into),
        freshness: Freshness::starting(list.field("ttlMs"), Instant::now()),
        ..ListState::default()
    };
    lists.set(kind, state);
    let entries = list.get("items")?.to_elements()?;
    entries
        .into_iter()
        .map(|entry| T::from_json(entry).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str =
        r#"{ "name":"t" ,"inputSchema":{"type":"object","z":1.50,"a":1e2},"_meta":{"x":"\u00e9"}}"#;

    fn text() -> String {
        format!(
            r#"{{"protocolVersion":"2026-07-28","serverInfo":{{"name":"n","version":"1"}},"instructions":"use it","capabilities":{{"tools":{{"listChanged":true}}}},"tools":{{"ttlMs":5000,"items":[{TOOL}]}},"resources":{{"ttlMs":null,"items":[{{"uri":"u:1"}}]}},"resourceTemplates":{{"ttlMs":null,"items":[]}},"prompts":{{"ttlMs":null,"items":[{{"name":"p"}}]}}}}"#
        )
    }

    fn read_text(text: &str) -> Option<Catalog> {
        let server = "s".into();
        let options = ToolOptions {
            header_parameters: true,
            ..ToolOptions::plain(&server)
        };
        read(options, &Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn catalog_round_trips_byte_for_byte_and_is_marked_cached() {
        let catalog = read_text(&text()).unwrap();
        assert!(catalog.cached && !catalog.is_worth_keeping() && !catalog.is_empty());
        assert_eq!(catalog.tools()[0].name, "mcp__s__t");
        assert_eq!(catalog.tools()[0].tool.raw.as_str(), TOOL);
        assert_eq!(
            (&*catalog.resources[0].uri, &*catalog.prompts[0].name),
            ("u:1", "p")
        );
        let identity = catalog.identity.as_ref().unwrap();
        assert_eq!(identity.instructions.as_deref(), Some("use it"));
        assert!(identity.capabilities.list_changed[0]);
        assert_eq!(identity.info.as_ref().unwrap().name, "n");
        assert_eq!(write(&catalog).unwrap(), text());
    }

    #[test]
    fn invalid_snapshot_is_rejected() {
        assert!(read_text("{}").is_none());
        assert!(read_text("[]").is_none());
        for (one, other) in [
            ("\"prompts\"", "\"other\""),
            (
                "\"protocolVersion\":\"2026-07-28\"",
                "\"protocolVersion\":7",
            ),
            (r#"{"uri":"u:1"}"#, "{}"),
            (r#""items":[]"#, r#""items":{}"#),
        ] {
            let broken = text().replace(one, other);
            assert_ne!(broken, text());
            assert!(read_text(&broken).is_none(), "{one}");
        }
    }

    #[test]
    fn oversized_catalog_is_not_written() {
        let long = "x".repeat(MAX_BYTES);
        let large = text().replace("use it", &long);
        assert!(write(&read_text(&large).unwrap()).is_none());
        let large = text().replace("u:1", &long);
        assert!(write(&read_text(&large).unwrap()).is_none());
        assert!(write(&Catalog::default()).is_none());
    }
}
