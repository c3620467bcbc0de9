//! A script: everything a scripted server offers and how it behaves.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use crate::Action;

/// The modern protocol version.
pub const MODERN_VERSION: &str = "2026-07-28";
/// The handshake-based protocol versions, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The protocol revisions of a server.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Only 2026-07-28 and later: no handshake.
    Modern,
    /// Only up to 2025-11-25: `initialize` first.
    Legacy,
    /// Either, as the client opens.
    #[default]
    Dual,
}

/// The reaction of a server to the end of its stdin.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEof {
    /// Exits at once, whatever is in flight.
    #[default]
    Exit,
    /// Answers what is in flight, then exits.
    Finish,
    /// Lives on (for at most two minutes).
    Ignore,
}

/// A fault of list cursors.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CursorFault {
    /// The first page and the same cursor, for ever.
    Repeat,
    /// A JSON number where a string belongs.
    Number,
    /// A cursor of one mebibyte.
    Huge,
}

/// The behaviour of one server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// Its era.
    pub era: Era,
    /// The versions it supports; those of its era when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<String>>,
    /// Its name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Value>,
    /// Its instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Its capabilities; derived from what is present when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Value>,
    /// Run before stdin is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_start: Vec<Action>,
    /// The reaction to the end of stdin.
    pub on_eof: OnEof,
    /// Its tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Listed after the tools, byte for byte.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raw_tools: Vec<Box<RawValue>>,
    /// The number of generated tools `gen_0`… listed before the raw ones.
    pub generate_tools: usize,
    /// Items a page of any list; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// A fault of cursors; implies a page size of 1 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor_fault: Option<CursorFault>,
    /// The `ttlMs` of lists, reads and discovery (modern).
    pub ttl_ms: u64,
    /// Its resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Its resource templates, as listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<Value>,
    /// Its prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Prompt>,
    /// Replaces what it does on a method, requests and notifications alike.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Action>>,
    /// The file that the id of each cancelled request is appended to, one JSON value per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_log: Option<std::path::PathBuf>,
    /// The file that each received line is appended to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_log: Option<std::path::PathBuf>,
}

/// A tool: what is listed, and what a call does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The actions of a call; echoes by default.
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// Everything else that is listed.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A resource: what is listed, and what reading it gives.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// The actions of reading; by default `text` or `blob`.
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// Its text, not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its base64 content, not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Everything else that is listed.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A prompt: what is listed, and what getting it gives.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// The actions of getting it; by default `messages`.
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// Its messages, not listed; one that names prompt and arguments when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Value>,
    /// Everything else that is listed.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Script {
    /// Reads a script from JSON text.
    pub fn parse(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| format!("bad script: {e}"))
    }

    /// Reads a script file, TOML if its name says so.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        if path.extension().is_some_and(|ext| ext == "toml") {
            let value: Value =
                toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            return Self::parse(&value.to_string());
        }
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// This script as JSON text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a script serialises")
    }

    /// Sets the era.
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// Adds a tool that does `actions` (a JSON array), with a description and an open schema.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` at the call reads better without a borrow"
    )]
    pub fn tool(self, name: &str, actions: Value) -> Self {
        self.tool_with(
            serde_json::json!({"name": name, "description": format!("{name} (scripted)"),
                "inputSchema": {"type": "object"}, "do": actions}),
        )
    }

    /// Adds a tool from its whole JSON.
    pub fn tool_with(mut self, tool: Value) -> Self {
        self.tools.push(parse(tool, "tool"));
        self
    }

    /// Replaces what a method does.
    pub fn on(mut self, method: &str, actions: Value) -> Self {
        self.on.insert(method.into(), parse(actions, method));
        self
    }

    /// Adds actions to run before stdin is read.
    pub fn on_start(mut self, actions: Value) -> Self {
        self.on_start
            .extend(parse::<Vec<Action>>(actions, "onStart"));
        self
    }

    /// Adds a resource that is this text.
    pub fn resource(mut self, uri: &str, text: &str) -> Self {
        self.resources.push(parse(
            serde_json::json!({"uri": uri, "name": uri, "text": text}),
            "resource",
        ));
        self
    }

    /// Adds a prompt from its whole JSON.
    pub fn prompt(mut self, prompt: Value) -> Self {
        self.prompts.push(parse(prompt, "prompt"));
        self
    }

    /// The versions it supports.
    pub fn supported(&self) -> Vec<String> {
        if let Some(versions) = &self.versions {
            return versions.clone();
        }
        let modern = (self.era != Era::Legacy).then_some(MODERN_VERSION);
        let legacy = LEGACY_VERSIONS
            .iter()
            .copied()
            .filter(|_| self.era != Era::Modern);
        modern.into_iter().chain(legacy).map(String::from).collect()
    }
}

impl From<Value> for Script {
    /// Panics when the value is not a script.
    fn from(value: Value) -> Self {
        Self::parse(&value.to_string()).unwrap_or_else(|e| panic!("{e}"))
    }
}

fn parse<T: serde::de::DeserializeOwned>(value: Value, what: &str) -> T {
    serde_json::from_value(value).unwrap_or_else(|e| panic!("bad {what} in a script: {e}"))
}
