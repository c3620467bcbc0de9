//! The identity and capabilities of a server.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The skills extension.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// The name and version of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The version.
    #[serde(default)]
    pub version: String,
}

/// The capabilities of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Lists tools.
    pub tools: bool,
    /// Lists resources.
    pub resources: bool,
    /// Lists prompts.
    pub prompts: bool,
    /// Completes arguments.
    pub completions: bool,
    /// Sends log messages.
    pub logging: bool,
    /// Notifies of changes to subscribed resources.
    pub subscribe: bool,
    /// May turn tool calls into tasks.
    pub tasks: bool,
    /// Can cancel tasks.
    pub cancel_tasks: bool,
    /// Lists skills.
    pub skills: bool,
    /// Notifies of changes to the lists of tools, resources and prompts.
    pub list_changed: [bool; 3],
    /// The whole object as the server wrote it.
    pub raw: Json,
}

impl ServerCapabilities {
    pub(crate) fn from_json(raw: Json) -> Self {
        let mut read = Self {
            tools: false,
            resources: false,
            prompts: false,
            completions: false,
            logging: false,
            subscribe: false,
            tasks: false,
            cancel_tasks: false,
            skills: false,
            list_changed: [false; 3],
            raw: Json::empty_object(),
        };
        raw.members(|key, feature| {
            let has = feature.is_object();
            let changes = || feature.field("listChanged") == Some(true);
            match key {
                "tools" => (read.tools, read.list_changed[0]) = (has, changes()),
                "resources" => {
                    (read.resources, read.list_changed[1]) = (has, changes());
                    read.subscribe = feature.field("subscribe") == Some(true);
                }
                "prompts" => (read.prompts, read.list_changed[2]) = (has, changes()),
                "completions" => read.completions = has,
                "logging" => read.logging = has,
                "tasks" => {
                    let requests = feature.get("requests").and_then(|all| all.get("tools"));
                    let call = requests.and_then(|tools| tools.get("call"));
                    read.tasks |= call.is_some_and(|call| call.is_object());
                    read.cancel_tasks |= feature.get("cancel").is_some_and(|it| it.is_object());
                }
                "extensions" => {
                    let extends = |name| feature.get(name).is_some_and(|it: Json| it.is_object());
                    read.skills |= extends(SKILLS);
                    if extends(TASKS) {
                        (read.tasks, read.cancel_tasks) = (true, true);
                    }
                }
                _ => {}
            }
        });
        read.raw = raw;
        read
    }
}

/// The identity of a server, from `initialize` or `server/discover`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerIdentity {
    /// The negotiated protocol version.
    pub protocol_version: String,
    /// The capabilities.
    pub capabilities: ServerCapabilities,
    /// The name and version.
    pub info: Option<Implementation>,
    /// Instructions for a model. Untrusted text.
    pub instructions: Option<String>,
}

impl ServerIdentity {
    /// Reads the result of `initialize` or `server/discover`. They differ only in the place of
    /// `serverInfo`, which modern servers put into `_meta`.
    pub fn from_json(result: &Json, protocol_version: String) -> Self {
        let (mut capabilities, mut info, mut meta, mut instructions) = (None, None, None, None);
        result.members(|key, value| match key {
            "capabilities" => capabilities = Some(value),
            "serverInfo" => info = value.decode().ok(),
            "_meta" => meta = Some(value),
            "instructions" => instructions = value.as_string().map(String::from),
            _ => {}
        });
        let in_meta = || meta?.field("io.modelcontextprotocol/serverInfo");
        let capabilities = capabilities.filter(Json::is_object);
        Self {
            protocol_version,
            capabilities: ServerCapabilities::from_json(
                capabilities.unwrap_or_else(Json::empty_object),
            ),
            info: info.or_else(in_meta),
            instructions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_read_from_the_responses_of_both_eras() {
        let read = |text: &str| {
            ServerIdentity::from_json(&Json::parse(text.to_owned()).unwrap(), "v".to_owned())
        };
        let legacy = read(
            r#"{"capabilities":{"tools":{"listChanged":true},"prompts":{},"logging":{}},"serverInfo":{"name":"n"},"instructions":"i"}"#,
        );
        assert!(
            legacy.capabilities.tools
                && legacy.capabilities.prompts
                && !legacy.capabilities.resources
        );
        assert_eq!(legacy.capabilities.list_changed, [true, false, false]);
        assert_eq!(legacy.info.unwrap().name, "n");
        assert_eq!(legacy.instructions.as_deref(), Some("i"));
        let modern =
            read(r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"2"}}}"#);
        assert_eq!(modern.info.unwrap().version, "2");
        assert!(!modern.capabilities.tools);
        let extended = read(
            r#"{"capabilities":{"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/skills":{}}}}"#,
        )
        .capabilities;
        assert!(extended.subscribe && extended.tasks && extended.cancel_tasks && extended.skills);
        let tasks =
            read(r#"{"capabilities":{"tasks":{"requests":{"tools":{"call":{}}},"list":{}}}}"#);
        assert!(tasks.capabilities.tasks && !tasks.capabilities.cancel_tasks);
        let odd = read(r#"{"capabilities":{"tasks":{"requests":{"tools":5}},"extensions":[7]}}"#);
        assert!(!odd.capabilities.tasks && !odd.capabilities.skills);
        let odd = read(r#"{"capabilities":[],"serverInfo":"x","instructions":5}"#);
        assert!(odd.info.is_none() && odd.instructions.is_none() && !odd.capabilities.tools);
    }
}
