//! Decides which tools to call with which arguments, whether to use skills, and with which
//! credentials.

use serde::Deserialize;
use serde_json::Value;
use trunkline::tool::{PoolTool, tool_name};

use crate::{SERVER, example, sign_in};

/// The variable with the scenario's context, as JSON.
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

/// The variable with the scenario's name.
const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";

/// The scenario's context.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Plan {
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(flatten)]
    pub(crate) auth: sign_in::Context,
    /// Whether to use skills. Only the scenario's name says so: skills to verify must be used, all
    /// others left alone.
    #[serde(skip)]
    pub(crate) uses_skills: bool,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    arguments: Value,
}

/// A call to make.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    /// The tool, by its name in the pool.
    pub(crate) tool: String,
    /// Its arguments.
    pub(crate) arguments: Value,
}

impl Plan {
    /// Reads the environment.
    pub(crate) fn from_env() -> Result<Self, String> {
        let mut plan = match std::env::var(CONTEXT) {
            Ok(context) => Self::parse(&context)?,
            Err(_) => Self::default(),
        };
        plan.uses_skills = std::env::var(SCENARIO).is_ok_and(|name| name.contains("verify"));
        Ok(plan)
    }

    fn parse(context: &str) -> Result<Self, String> {
        serde_json::from_str(context).map_err(|error| format!("{CONTEXT} is invalid: {error}"))
    }

    /// Returns the calls of the suite, otherwise one call of each tool.
    pub(crate) fn calls(&self, tools: &[&PoolTool]) -> Vec<Call> {
        match &self.tool_calls {
            Some(wanted) => wanted.iter().map(ToolCall::call).collect(),
            None => tools.iter().map(|tool| example_call(tool, tools)).collect(),
        }
    }
}

impl ToolCall {
    fn call(&self) -> Call {
        Call {
            tool: tool_name(SERVER, &self.name),
            arguments: self.arguments.clone(),
        }
    }
}

/// Makes an example call. An unconstrained object becomes another tool's schema, a rich object at
/// hand.
fn example_call(tool: &PoolTool, all: &[&PoolTool]) -> Call {
    let schema = |tool: &PoolTool| tool.tool.input_schema.to_value().unwrap_or_default();
    let other = all.iter().find(|other| other.name != tool.name);
    let other = other.map_or_else(
        || Value::Object(serde_json::Map::new()),
        |other| schema(other),
    );
    Call {
        tool: tool.name.clone(),
        arguments: example::arguments(&schema(tool), &other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_suite_may_name_the_calls() {
        let context = r#"{"name": "x", "toolCalls": [{"name": "a-b", "arguments": {"v": null}}]}"#;
        let calls = Plan::parse(context).unwrap().calls(&[]);
        let expected = Call {
            tool: "mcp__suite__a-b".to_owned(),
            arguments: json!({"v": null}),
        };
        assert_eq!(calls, [expected]);
    }

    #[test]
    fn other_contexts_name_no_calls() {
        let plan = Plan::parse(r#"{"name": "auth/x", "client_id": "c"}"#).unwrap();
        assert!(plan.tool_calls.is_none());
        assert!(Plan::parse("{").unwrap_err().contains(CONTEXT));
    }
}
