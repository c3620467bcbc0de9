//! Tools as JSON, for scripts.

use serde::Serialize;
use trunkline::{CallError, Found, Host, HostTool, Json, PoolTool};

/// Tools for `--json`.
pub(crate) fn document<'a>(tools: impl Iterator<Item = &'a PoolTool>) -> impl Serialize {
    tools.map(ToolJson::of).collect::<Vec<_>>()
}

/// The same, where those that a rule denies are marked.
pub(crate) fn marked_document<'a>(
    host: &Host,
    tools: impl Iterator<Item = &'a PoolTool>,
) -> Vec<ToolJson<'a>> {
    let marked = |tool: &'a PoolTool| ToolJson {
        denied: Denial::of(host, &tool.name),
        ..ToolJson::of(tool)
    };
    tools.map(marked).collect()
}

/// Tools that were found, for `--json`.
pub(crate) fn found_document<'f>(host: &Host, found: &'f [Found]) -> Vec<ToolJson<'f>> {
    let scored = |found: &'f Found| ToolJson {
        score: Some((f64::from(found.score) * 1000.0).round() / 1000.0),
        denied: Denial::of(host, &found.tool.name),
        ..ToolJson::of(&found.tool)
    };
    found.iter().map(scored).collect()
}

/// One tool, as UI-2 says; its schema is what the server wrote, byte for byte.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Json>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Json>,
}

/// The rule by which a tool may not be called.
#[derive(Serialize)]
pub(crate) struct Denial {
    pub(crate) rule: String,
    pub(crate) source: String,
}

impl Denial {
    pub(crate) fn of(host: &Host, name: &str) -> Option<Self> {
        match host.denial(name)? {
            CallError::Denied {
                rule,
                source_of_rule,
                ..
            } => Some(Self {
                rule,
                source: source_of_rule,
            }),
            _ => None,
        }
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
            ..Self::default()
        }
    }

    /// One of the host's own.
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

    /// The same with the rule that denies it, if one does.
    pub(crate) fn with_denial(mut self, denied: Option<Denial>) -> Self {
        self.denied = denied;
        self
    }

    /// The same with the rest of what its server says about it.
    pub(crate) fn whole(mut self, tool: &'a PoolTool) -> Self {
        self.annotations = tool.tool.raw.get("annotations");
        self.meta = tool.tool.meta.as_ref();
        self
    }
}
