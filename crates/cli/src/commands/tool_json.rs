//! Tools for `--json`.

use std::sync::Arc;

use serde::Serialize;
use trunkline::tool::{HostTool, ModelTools, PoolTool, SearchHit};
use trunkline::{Host, Json};

/// Returns the tools of servers, with denied and deferred ones marked.
pub(crate) fn marked_document<'a>(
    host: &Host,
    tools: impl Iterator<Item = &'a PoolTool>,
) -> Vec<ToolJson<'a>> {
    let offered = host.tools_for_model(None);
    let is_deferred = |tool: &PoolTool| {
        let by_name = |other: &Arc<PoolTool>| other.name.cmp(&tool.name);
        offered.deferred.binary_search_by(by_name).is_ok()
    };
    let marked = |tool: &'a PoolTool| ToolJson {
        denied: Denial::of(host, &tool.name),
        deferred: is_deferred(tool),
        ..ToolJson::of(tool)
    };
    tools.map(marked).collect()
}

/// Returns the host's built-in tools, with denied ones marked.
pub(crate) fn own_document<'a>(
    host: &Host,
    tools: impl Iterator<Item = &'a HostTool>,
) -> Vec<ToolJson<'a>> {
    let marked = |tool: &'a HostTool| ToolJson::own(tool).with_denial(Denial::of(host, &tool.name));
    tools.map(marked).collect()
}

/// Returns the tools offered to a model.
pub(crate) fn offered_document(tools: &ModelTools) -> Vec<ToolJson<'_>> {
    let own = tools.own.iter().map(ToolJson::own);
    own.chain(tools.loaded.iter().map(|tool| ToolJson::shown(tool)))
        .collect()
}

/// Returns search results.
pub(crate) fn found_document<'f>(host: &Host, found: &'f [SearchHit]) -> Vec<ToolJson<'f>> {
    let scored = |found: &'f SearchHit| ToolJson {
        score: Some((f64::from(found.score) * 1000.0).round() / 1000.0),
        denied: Denial::of(host, &found.tool.name),
        ..ToolJson::of(&found.tool)
    };
    found.iter().map(scored).collect()
}

/// A tool (UI-2), with its schema byte for byte as the server sent it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolJson<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: &'a str,
    input_schema: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Json>,
    read_only: bool,
    destructive: bool,
    open_world: bool,
    always_load: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied: Option<Denial>,
    /// Whether a model has to search for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deferred: bool,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Json>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Json>,
}

/// The rule that denies a tool.
#[derive(Serialize)]
pub(crate) struct Denial {
    pub(crate) rule: String,
    pub(crate) source: String,
    /// What denies it, in words.
    #[serde(skip)]
    pub(crate) reason: String,
}

impl Denial {
    pub(crate) fn of(host: &Host, name: &str) -> Option<Self> {
        let error = host.denial(name)?;
        let rule = error.rule().or(error.policy_rule())?;
        Some(Self {
            rule: rule.text.clone(),
            source: rule.source.clone(),
            reason: rule.denial(),
        })
    }
}

impl<'a> ToolJson<'a> {
    pub(crate) fn of(tool: &'a PoolTool) -> Self {
        Self {
            name: &tool.name,
            server: Some(&tool.server),
            original_name: Some(&tool.tool.name),
            title: tool.title.as_deref(),
            description: &tool.description,
            input_schema: Some(&tool.tool.input_schema),
            output_schema: tool.tool.output_schema.as_ref(),
            read_only: tool.is_read_only(),
            destructive: tool.is_destructive(),
            open_world: tool.is_open_world(),
            always_load: tool.always_load,
            search_hint: tool.search_hint.as_deref(),
            display_name: Some(tool.display_name()),
            ..Self::default()
        }
    }

    /// A server's tool as a model sees it, with a sanitised schema.
    fn shown(tool: &'a PoolTool) -> Self {
        Self {
            input_schema: Some(&tool.shown_schema),
            // Models do not see the output schema.
            output_schema: None,
            ..Self::of(tool)
        }
    }

    /// A built-in tool.
    pub(crate) fn own(tool: &'a HostTool) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            input_schema: Some(&tool.input_schema),
            read_only: tool.hints.read_only,
            destructive: tool.hints.destructive,
            open_world: tool.hints.open_world,
            ..Self::default()
        }
    }

    /// Adds the rule that denies it.
    pub(crate) fn with_denial(mut self, denied: Option<Denial>) -> Self {
        self.denied = denied;
        self
    }

    /// Adds the remaining fields of the server.
    pub(crate) fn whole(mut self, tool: &'a PoolTool) -> Self {
        self.annotations = tool.tool.raw.get("annotations");
        self.meta = tool.tool.meta.as_ref();
        self
    }
}
