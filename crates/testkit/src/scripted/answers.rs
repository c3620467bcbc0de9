//! Default behaviour: the rules of the eras, and the response to each known method.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::{Exchange, Request, Server, error};
use crate::{Action, Era, RpcError, generated};

const META: &str = "io.modelcontextprotocol";
pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// The first version without a handshake; versions are dates and compare as text.
const FIRST_MODERN: &str = "2026-07-28";

impl Server {
    /// Whether the era admits a request.
    pub(super) fn admit(&self, request: &Request) -> Result<(), RpcError> {
        let modern_only = self.script.era == Era::Modern;
        if modern_only && request.method == "initialize" {
            return Err(self.unsupported(&request.params["protocolVersion"]));
        }
        let discover = request.method == "server/discover";
        if modern_only || (self.script.era == Era::Dual && (request.modern || discover)) {
            return self.admit_modern(&request.params["_meta"]);
        }
        if discover {
            return Err(error(-32601, "method not found: server/discover"));
        }
        if !self.initialized.load(Ordering::Acquire) && request.method != "ping" {
            return Err(error(-32600, "the server is not initialised"));
        }
        Ok(())
    }

    fn admit_modern(&self, meta: &Value) -> Result<(), RpcError> {
        let Some(version) = meta[VERSION_KEY].as_str() else {
            return Err(error(-32602, &format!("missing _meta {VERSION_KEY}")));
        };
        if !meta[format!("{META}/clientCapabilities")].is_object() {
            return Err(error(
                -32602,
                &format!("missing _meta {META}/clientCapabilities"),
            ));
        }
        if version < FIRST_MODERN || !self.script.supported().iter().any(|known| known == version) {
            return Err(self.unsupported(&json!(version)));
        }
        Ok(())
    }

    fn unsupported(&self, requested: &Value) -> RpcError {
        let supported = self.script.supported();
        RpcError {
            code: -32022,
            message: format!(
                "Unsupported protocol version; supported: {}",
                supported.join(", ")
            ),
            data: Some(json!({"supported": supported, "requested": requested})),
        }
    }

    /// The actions of the tool, resource or prompt that a request names.
    pub(super) fn scripted(&self, request: &Request) -> Option<Vec<Action>> {
        let (name, uri) = (&request.params["name"], &request.params["uri"]);
        match request.method.as_str() {
            "tools/call" => {
                let tools = self.tools.lock().unwrap();
                tools
                    .iter()
                    .find(|tool| *name == tool.name)
                    .and_then(|tool| tool.actions.clone())
            }
            "resources/read" => self
                .script
                .resources
                .iter()
                .find(|resource| *uri == resource.uri)
                .and_then(|r| r.actions.clone()),
            "prompts/get" => self
                .script
                .prompts
                .iter()
                .find(|prompt| *name == prompt.name)
                .and_then(|p| p.actions.clone()),
            _ => None,
        }
    }

    /// Responds as the server does without a script.
    pub(super) fn answer_default(&self, request: &Request) {
        let Some(id) = &request.id else {
            if request.method == "notifications/cancelled" {
                self.cancel(&request.params["requestId"]);
            }
            return;
        };
        if request.method == "subscriptions/listen" && request.modern {
            return self.listen(request.exchange, id, &request.params["notifications"]);
        }
        match self.default_result(request) {
            Ok(result) => self.reply_result(request.exchange, id, &result),
            Err(refusal) => self.reply_error(request.exchange, id, &refusal),
        }
    }

    /// The result of a method, as JSON text.
    fn default_result(&self, request: &Request) -> Result<String, RpcError> {
        let legacy = !request.modern;
        let result = match request.method.as_str() {
            "server/discover" if !legacy => self.cacheable(self.discovery()),
            "initialize" => self.handshake(&request.params)?,
            "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel"
                if legacy =>
            {
                json!({})
            }
            "tools/list" => return self.page("tools", &self.tool_list(), request),
            "resources/list" => return self.page("resources", &self.resource_list(), request),
            "resources/templates/list" => {
                let templates: Vec<_> = self
                    .script
                    .resource_templates
                    .iter()
                    .map(Value::to_string)
                    .collect();
                return self.page("resourceTemplates", &templates, request);
            }
            "prompts/list" => return self.page("prompts", &self.prompt_list(), request),
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.about_task(request)?,
            "tools/call" => self.echo(&request.params)?,
            "resources/read" => self.read(&request.params["uri"], request.modern)?,
            "prompts/get" => self.prompt(&request.params)?,
            other => return Err(error(-32601, &format!("method not found: {other}"))),
        };
        Ok(self.shape(result, request.modern))
    }

    /// A result as JSON text, with the members of the modern era.
    pub(super) fn shape(&self, mut result: Value, modern: bool) -> String {
        if modern && let Some(fields) = result.as_object_mut() {
            fields
                .entry("resultType")
                .or_insert_with(|| json!("complete"));
            let meta = fields.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.entry(format!("{META}/serverInfo"))
                    .or_insert_with(|| self.server_info());
            }
        }
        result.to_string()
    }

    fn server_info(&self) -> Value {
        self.script
            .server_info
            .clone()
            .unwrap_or_else(|| json!({"name": "testkit", "version": "1.0.0"}))
    }

    pub(super) fn cacheable(&self, mut result: Value) -> Value {
        result["ttlMs"] = json!(self.script.ttl_ms);
        result["cacheScope"] = json!("private");
        result
    }

    fn discovery(&self) -> Value {
        let mut result = json!({"supportedVersions": self.script.supported(), "capabilities": self.capabilities()});
        if let Some(text) = &self.script.instructions {
            result["instructions"] = json!(text);
        }
        result
    }

    fn handshake(&self, params: &Value) -> Result<Value, RpcError> {
        let mut legacy: Vec<_> = self
            .script
            .supported()
            .into_iter()
            .filter(|v| v.as_str() < FIRST_MODERN)
            .collect();
        legacy.sort();
        let Some(newest) = legacy.last() else {
            return Err(self.unsupported(&params["protocolVersion"]));
        };
        let requested = legacy
            .iter()
            .find(|known| params["protocolVersion"] == **known);
        let mut result = json!({"protocolVersion": requested.unwrap_or(newest), "capabilities": self.capabilities(),
            "serverInfo": self.server_info()});
        if let Some(text) = &self.script.instructions {
            result["instructions"] = json!(text);
        }
        Ok(result)
    }

    fn capabilities(&self) -> Value {
        if let Some(given) = &self.script.capabilities {
            return given.clone();
        }
        let script = &self.script;
        let mut capabilities = Map::new();
        if !script.tools.is_empty() || !script.raw_tools.is_empty() || script.generate_tools > 0 {
            capabilities.insert("tools".into(), json!({"listChanged": true}));
        }
        if !script.resources.is_empty() || !script.resource_templates.is_empty() {
            capabilities.insert(
                "resources".into(),
                json!({"subscribe": true, "listChanged": true}),
            );
        }
        if !script.prompts.is_empty() {
            capabilities.insert("prompts".into(), json!({"listChanged": true}));
        }
        let becomes_task = |tool: &crate::Tool| {
            let mut actions = tool.actions.iter().flatten();
            actions.any(|action| matches!(action, Action::Task(_)))
        };
        if script.tools.iter().any(becomes_task) {
            let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            capabilities.insert("tasks".into(), tasks);
            let extension = json!({"io.modelcontextprotocol/tasks": {}});
            capabilities.insert("extensions".into(), extension);
        }
        Value::Object(capabilities)
    }

    fn listen(&self, exchange: Exchange, id: &Value, filter: &Value) {
        // Locked over the acknowledgement, so that it comes first.
        let mut listeners = self.listeners.lock().unwrap();
        self.output.message(
            exchange,
            &json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {SUBSCRIPTION_KEY: id}, "notifications": filter}}),
        );
        listeners.push(super::Listener {
            exchange,
            id: id.clone(),
            filter: filter.clone(),
        });
    }

    fn echo(&self, params: &Value) -> Result<Value, RpcError> {
        let name = params["name"].as_str().unwrap_or_default();
        let raw = |tool: &serde_json::value::RawValue| {
            serde_json::from_str::<Value>(tool.get()).is_ok_and(|tool| tool["name"] == name)
        };
        let known = self
            .tools
            .lock()
            .unwrap()
            .iter()
            .any(|tool| tool.name == name)
            || (0..self.script.generate_tools).any(|index| generated::name(index) == name)
            || self.script.raw_tools.iter().any(|tool| raw(tool));
        if !known {
            return Err(error(-32602, &format!("unknown tool: {name}")));
        }
        Ok(text(&arguments(params)))
    }

    fn read(&self, uri: &Value, modern: bool) -> Result<Value, RpcError> {
        let Some(resource) = self
            .script
            .resources
            .iter()
            .find(|resource| *uri == resource.uri)
        else {
            return Err(error(
                if modern { -32602 } else { -32002 },
                &format!("resource not found: {uri}"),
            ));
        };
        let mut contents = json!({"uri": uri});
        if let Some(kind) = resource.rest.get("mimeType") {
            contents["mimeType"] = kind.clone();
        }
        match &resource.blob {
            Some(blob) => contents["blob"] = json!(blob),
            None => contents["text"] = json!(resource.text.as_deref().unwrap_or_default()),
        }
        let result = json!({"contents": [contents]});
        Ok(if modern {
            self.cacheable(result)
        } else {
            result
        })
    }

    fn prompt(&self, params: &Value) -> Result<Value, RpcError> {
        let Some(prompt) = self
            .script
            .prompts
            .iter()
            .find(|prompt| params["name"] == prompt.name)
        else {
            return Err(error(
                -32602,
                &format!("unknown prompt: {}", params["name"]),
            ));
        };
        let said = json!({"name": params["name"], "arguments": params["arguments"]}).to_string();
        let plain = json!([{"role": "user", "content": {"type": "text", "text": said}}]);
        Ok(json!({"messages": prompt.messages.clone().unwrap_or(plain)}))
    }
}

/// The arguments of a call, as JSON text.
pub(super) fn arguments(params: &Value) -> String {
    params
        .get("arguments")
        .map_or_else(|| "{}".into(), Value::to_string)
}

/// A tool result with this text.
pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
