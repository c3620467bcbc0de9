//! Which tools are called, with what, and whether skills are used.

use serde::Deserialize;
use serde_json::Value;
use trunkline::tool::{PoolTool, tool_name};

use crate::{SERVER, example};

/// What the suite says beside the scenario's name, as JSON.
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

/// Which scenario is played.
const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";

/// What the suite wants to see. It says more than this, for scenarios that are about authorisation.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Plan {
    tool_calls: Option<Vec<Wanted>>,
    /// Whether the user wants to use the skills that there are. The suite says so only by the scenario's name: what is to be verified
    /// must be used, and everything else about skills is about leaving them alone.
    #[serde(skip)]
    pub(crate) uses_skills: bool,
}

#[derive(Debug, Deserialize)]
struct Wanted {
    name: String,
    arguments: Value,
}

/// A call to be made.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    /// The tool, by its name in the pool.
    pub(crate) tool: String,
    /// Its arguments.
    pub(crate) arguments: Value,
}

impl Plan {
    /// What the environment says.
    pub(crate) fn from_env() -> Result<Self, String> {
        let mut plan = match std::env::var(CONTEXT) {
            Ok(context) => Self::parse(&context)?,
            Err(_) => Self::default(),
        };
        plan.uses_skills = std::env::var(SCENARIO).is_ok_and(|name| name.contains("verify"));
        Ok(plan)
    }

    fn parse(context: &str) -> Result<Self, String> {
        serde_json::from_str(context).map_err(|error| format!("{CONTEXT} cannot be used: {error}"))
    }

    /// The calls that the suite asks for; without any, one of each tool.
    pub(crate) fn calls(&self, tools: &[&PoolTool]) -> Vec<Call> {
        match &self.tool_calls {
            Some(wanted) => wanted.iter().map(Wanted::call).collect(),
            None => tools.iter().map(|tool| example_call(tool, tools)).collect(),
        }
    }
}

impl Wanted {
    fn call(&self) -> Call {
        Call {
            tool: tool_name(SERVER, &self.name),
            arguments: self.arguments.clone(),
        }
    }
}

/// Where a tool takes any object, it gets another tool's schema: an object at hand in which little is left out.
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
    fn other_contexts_name_none() {
        let plan = Plan::parse(r#"{"name": "auth/x", "client_id": "c"}"#).unwrap();
        assert!(plan.tool_calls.is_none());
        assert!(Plan::parse("{").unwrap_err().contains(CONTEXT));
    }
}
