//! The state of a host as one JSON document (AGT-3), for debuggers, status lines and other agents.
//! It contains no secrets.

use std::collections::BTreeMap;

use serde::Serialize;
use trunkline_config::normalize_name;
use trunkline_wire::Json;
use trunkline_wire::mcp::Implementation;

use crate::catalog::PoolTool;
use crate::connection::{ServerStatus, Source, State};
use crate::context::PromptCommand;
use crate::host::Host;
use crate::host_tool::HostTool;
use crate::sanitize::{Removed, strip_hidden_json};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Export<'e> {
    clients: Vec<Client<'e>>,
    configs: BTreeMap<&'e str, serde_json::Value>,
    tools: Vec<Tool<'e>>,
    resources: BTreeMap<&'e str, Vec<&'e Json>>,
    resource_templates: BTreeMap<&'e str, Vec<&'e Json>>,
    prompts: BTreeMap<&'e str, Vec<PromptEntry<'e>>>,
    /// Server names by their normalized form in tool names.
    normalized_names: BTreeMap<String, Originals<'e>>,
    diagnostics: Vec<&'e str>,
    /// The tools that have changed (TOOL-11).
    changed_tools: Vec<Changed<'e>>,
}

/// One server's name, or several with one normalized form.
#[derive(Serialize)]
#[serde(untagged)]
enum Originals<'e> {
    One(&'e str),
    Several(Vec<&'e str>),
}

#[derive(Serialize)]
struct Changed<'e> {
    server: &'e str,
    tool: &'e str,
    /// The changed parts.
    parts: Vec<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Client<'e> {
    name: &'e str,
    #[serde(rename = "type")]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stderr: &'e [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<&'e Implementation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'e Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<std::borrow::Cow<'e, str>>,
    cached: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'e [String],
}

impl<'e> Client<'e> {
    fn of(status: &'e ServerStatus) -> Self {
        let identity = status.catalog.identity.as_deref();
        let failure = status.state.failure().or(status.state.sign_in());
        Self {
            name: &status.name,
            state: status.state.name(),
            attempt: match status.state {
                State::Pending { attempt, .. } => Some(attempt),
                _ => None,
            },
            error: failure.map(ToString::to_string),
            stderr: failure
                .map(|failure| &failure.stderr[..])
                .unwrap_or_default(),
            protocol_version: identity.map(|identity| identity.protocol_version.as_str()),
            server_info: identity.and_then(|identity| identity.info.as_ref()),
            capabilities: identity.map(|identity| &identity.capabilities.raw),
            instructions: status.catalog.instructions(),
            cached: status.catalog.cached,
            diagnostics: &status.catalog.diagnostics,
        }
    }
}

/// A prompt as its server describes it, with its command and server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PromptEntry<'e> {
    #[serde(rename = "type")]
    kind: &'static str,
    command: &'e str,
    server: &'e str,
    is_mcp: bool,
    #[serde(flatten)]
    said: BTreeMap<String, Json>,
}

impl<'e> PromptEntry<'e> {
    fn of(found: &'e PromptCommand) -> Self {
        let mut said = BTreeMap::new();
        found.prompt.raw.members(|name, value| {
            // Our members win over the server's.
            if !["type", "command", "server", "isMcp"].contains(&name) {
                said.insert(name.to_owned(), value);
            }
        });
        Self {
            kind: "prompt",
            command: &found.name,
            server: &found.server,
            is_mcp: true,
            said,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'e> {
    name: &'e str,
    description: &'e str,
    #[serde(rename = "inputJSONSchema")]
    input_schema: &'e Json,
    is_mcp: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_tool_name: Option<&'e str>,
}

impl<'e> Tool<'e> {
    fn own(tool: &'e HostTool) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            is_mcp: false,
            server: None,
            original_tool_name: None,
        }
    }

    fn of(tool: &'e PoolTool) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.shown_schema,
            is_mcp: true,
            server: Some(&tool.server),
            original_tool_name: Some(&tool.tool.name),
        }
    }
}

impl Host {
    /// Returns the whole state as one JSON document (AGT-3): `clients`, `configs` (without
    /// secrets), `tools` with their original names (without denied ones), `resources`,
    /// `resourceTemplates`, `prompts`, `normalizedNames`, `diagnostics` and `changedTools`. Hidden
    /// characters are removed (TOOL-3).
    pub async fn export(&self) -> Json {
        let (changed, problems) = self.changed_tools().await;
        let (statuses, pool) = (self.servers(), self.pool());
        let (commands, prompts) = (self.prompts(), self.prompt_diagnostics());
        let sources: Vec<_> = statuses
            .iter()
            .filter_map(|status| Some((status, self.connection(&status.name)?)))
            .collect();
        let config = |source: &Source| match source {
            Source::Entry(entry) => {
                let mut shown = entry.redacted();
                if let Some(shown) = shown.as_object_mut() {
                    shown.insert("scope".to_owned(), entry.scope.to_string().into());
                    shown.insert("source".to_owned(), entry.source.clone().into());
                }
                shown
            }
            Source::Builtin(_) => serde_json::json!({"type": "in-process"}),
            Source::Custom(_) => serde_json::json!({"type": "custom"}),
        };
        let lists = |list: for<'s> fn(&'s ServerStatus) -> Vec<&'s Json>| {
            let lists = statuses.iter().map(|status| (&*status.name, list(status)));
            lists.filter(|(_, list)| !list.is_empty()).collect()
        };
        let export = Export {
            clients: statuses.iter().map(|status| Client::of(status)).collect(),
            configs: sources
                .iter()
                .map(|(status, connection)| (&*status.name, config(connection.source())))
                .collect(),
            tools: pool
                .own()
                .iter()
                .map(Tool::own)
                .chain(pool.tools().iter().map(|tool| Tool::of(tool)))
                .filter(|tool| self.denial(tool.name).is_none())
                .collect(),
            resources: lists(|status| {
                status
                    .catalog
                    .resources
                    .iter()
                    .map(|item| &item.raw)
                    .collect()
            }),
            resource_templates: lists(|status| {
                status
                    .catalog
                    .templates
                    .iter()
                    .map(|item| &item.raw)
                    .collect()
            }),
            prompts: commands.iter().fold(BTreeMap::new(), |mut all, found| {
                let of_server: &mut Vec<_> = all.entry(&*found.server).or_default();
                of_server.push(PromptEntry::of(found));
                all
            }),
            normalized_names: normalized(statuses.iter().map(|status| &*status.name)),
            diagnostics: problems
                .iter()
                .chain(pool.diagnostics())
                .chain(&prompts)
                .map(String::as_str)
                .collect(),
            changed_tools: changed
                .iter()
                .map(|change| Changed {
                    server: &change.server,
                    tool: &change.tool,
                    parts: change.parts.iter().map(|part| part.part).collect(),
                })
                .collect(),
        };
        let export = Json::encode(&export).unwrap_or_else(|_| Json::from(serde_json::json!({})));
        // Most of it is text from servers, and a model may read it (TOOL-3).
        strip_hidden_json(&export, &mut Removed::default())
    }
}

/// Groups servers by their normalized names.
fn normalized<'e>(names: impl Iterator<Item = &'e str>) -> BTreeMap<String, Originals<'e>> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        all.entry(normalize_name(name)).or_default().push(name);
    }
    let originals = |names: Vec<&'e str>| match names[..] {
        [name] => Originals::One(name),
        _ => Originals::Several(names),
    };
    let all = all.into_iter();
    all.map(|(name, of)| (name, originals(of))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_come_to_one_name_are_all_told() {
        let names = normalized(["a b", "x.y", "x_y"].into_iter());
        let expected = serde_json::json!({"a_b": "a b", "x_y": ["x.y", "x_y"]});
        assert_eq!(serde_json::to_value(names).unwrap(), expected);
    }
}
