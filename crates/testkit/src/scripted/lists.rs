//! Lists, their pages and what can be wrong with them.

use serde_json::{Map, Value, json};

use super::{Request, Server, error};
use crate::{CursorFault, RpcError, generated};

const HUGE_CURSOR: usize = 1 << 20;

impl Server {
    pub(super) fn tool_list(&self) -> Vec<String> {
        let tools = self.tools.lock().unwrap();
        let own = tools
            .iter()
            .map(|tool| listed("name", &tool.name, &tool.rest));
        let generated = (0..self.script.generate_tools).map(generated::tool);
        let raw = self
            .script
            .raw_tools
            .iter()
            .map(|tool| tool.get().to_owned());
        own.chain(generated).chain(raw).collect()
    }

    pub(super) fn resource_list(&self) -> Vec<String> {
        self.script
            .resources
            .iter()
            .map(|resource| listed("uri", &resource.uri, &resource.rest))
            .collect()
    }

    pub(super) fn prompt_list(&self) -> Vec<String> {
        self.script
            .prompts
            .iter()
            .map(|prompt| listed("name", &prompt.name, &prompt.rest))
            .collect()
    }

    /// One page of a list as JSON text, its items byte for byte.
    pub(super) fn page(
        &self,
        key: &str,
        items: &[String],
        request: &Request,
    ) -> Result<String, RpcError> {
        let fault = self.script.cursor_fault;
        let size = self
            .script
            .page_size
            .or(fault.map(|_| 1))
            .unwrap_or(usize::MAX)
            .max(1);
        let start = match &request.params["cursor"] {
            _ if fault == Some(CursorFault::Repeat) => 0,
            Value::Null => 0,
            cursor => offset(cursor).ok_or_else(|| error(-32602, "invalid cursor"))?,
        };
        let end = start.saturating_add(size).min(items.len());
        let next = match fault {
            Some(CursorFault::Repeat) => Some(json!("again")),
            _ if end >= items.len() => None,
            None => Some(json!(end.to_string())),
            Some(CursorFault::Number) => Some(json!(end)),
            Some(CursorFault::Huge) => Some(json!(format!("{end}:{}", "x".repeat(HUGE_CURSOR)))),
        };
        let mut rest = json!({});
        if let Some(next) = next {
            rest["nextCursor"] = next;
        }
        if request.modern {
            rest = self.cacheable(rest);
        }
        let rest = self.shape(rest, request.modern);
        let items = items.get(start..end).unwrap_or_default().join(",");
        let comma = if rest == "{}" { "" } else { "," };
        Ok(format!(r#"{{"{key}":[{items}]{comma}{}"#, &rest[1..]))
    }
}

fn offset(cursor: &Value) -> Option<usize> {
    match cursor {
        Value::Number(number) => number.as_u64()?.try_into().ok(),
        Value::String(text) => text.split(':').next()?.parse().ok(),
        _ => None,
    }
}

fn listed(key: &str, name: &str, rest: &Map<String, Value>) -> String {
    let mut item = Map::from_iter([(key.to_owned(), json!(name))]);
    item.extend(rest.clone());
    Value::Object(item).to_string()
}
