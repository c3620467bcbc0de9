//! What a server says about itself.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// A program's name and version, as it calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

/// What a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// It has tools.
    pub tools: bool,
    /// It has resources.
    pub resources: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It says when a list changes: tools, resources, prompts.
    pub list_changed: [bool; 3],
    /// The whole object as the server wrote it.
    pub raw: Json,
}

impl ServerCapabilities {
    pub(crate) fn read(raw: Json) -> Self {
        let has = |name: &str| raw.get(name).is_some_and(|value| value.is_object());
        let changes = |name: &str| {
            let feature = raw.get(name);
            feature.is_some_and(|feature| feature.field("listChanged") == Some(true))
        };
        Self {
            tools: has("tools"),
            resources: has("resources"),
            prompts: has("prompts"),
            completions: has("completions"),
            list_changed: ["tools", "resources", "prompts"].map(changes),
            raw,
        }
    }
}

/// Who a server says it is, from `initialize` or `server/discover`.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    /// The protocol version agreed on.
    pub protocol_version: String,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// Its name and version, if it gave any.
    pub info: Option<Implementation>,
    /// How a model should use it; untrusted text.
    pub instructions: Option<String>,
}

impl ServerIdentity {
    /// Reads the parts that the answers of both eras share; only `serverInfo` moved into `_meta`.
    pub(crate) fn read(result: &Json, protocol_version: String) -> Self {
        let capabilities = result.get("capabilities").filter(Json::is_object);
        let info = result.field("serverInfo").or_else(|| {
            let meta = result.get("_meta")?;
            meta.field("io.modelcontextprotocol/serverInfo")
        });
        Self {
            protocol_version,
            capabilities: ServerCapabilities::read(capabilities.unwrap_or_else(Json::empty_object)),
            info,
            instructions: result.field("instructions"),
        }
    }
}
