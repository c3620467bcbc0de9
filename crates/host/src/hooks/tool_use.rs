//! The hooks before and after a call.

use serde_json::Value;
use trunkline_config::HookEvent;
use trunkline_wire::client::Arguments;
use trunkline_wire::scan::count_values;
use trunkline_wire::{Json, MAX_VALUES};

use super::Hooks;
use super::input::HookInput;
use crate::call::{CallError, Cause};
use crate::result::{CallOutput, ContentBlock};

/// A call, as hooks see it.
pub(crate) struct ToolUse<'a> {
    /// The tool's name in the pool.
    pub(crate) tool: &'a str,
    /// The server, and the tool by the name that the server gives it. `None` for the host's own
    /// tools.
    pub(crate) origin: Option<(&'a str, &'a str)>,
    /// The client on whose behalf the call is made.
    pub(crate) client: Option<&'a str>,
}

/// What the hooks before a call decided, if they did not block it.
#[derive(Debug, Default)]
pub(crate) struct BeforeCall {
    /// Other arguments, to be validated.
    pub(crate) arguments: Option<Arguments>,
    /// The reason to ask for permission, whatever the rules say.
    pub(crate) ask: Option<String>,
    pub(crate) warnings: Vec<String>,
}

impl ToolUse<'_> {
    /// Returns the names that matchers are compared with: the name in the pool, and the one that it
    /// was shortened or changed from.
    fn names(&self) -> Vec<String> {
        let mut names = vec![self.tool.to_owned()];
        if let Some((server, tool)) = self.origin {
            let original = format!("mcp__{server}__{tool}");
            if original != self.tool {
                names.push(original);
            }
        }
        names
    }

    fn add_to(&self, input: &mut HookInput) {
        input.insert("tool_name", Value::from(self.tool));
        if let Some((server, _)) = self.origin {
            input.insert("mcp_server_name", Value::from(server));
        }
        if let Some(client) = self.client {
            input.insert("client", Value::from(client));
        }
    }
}

impl Hooks {
    /// Runs the hooks before a call. Each sees the arguments that the one before has left.
    ///
    /// # Errors
    ///
    /// A hook blocks the call.
    pub(crate) async fn before_call(
        &self,
        call: &ToolUse<'_>,
        arguments: &Arguments,
    ) -> Result<BeforeCall, CallError> {
        let event = HookEvent::PreToolUse;
        let names = call.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hooks = self.matching(event, &names);
        if hooks.is_empty() {
            return Ok(BeforeCall::default());
        }
        let original = arguments.to_json();
        let outcome = self
            .run_all(&hooks, |outputs| {
                let changed = outputs.iter().rev();
                let changed = { changed }.find_map(|output| output.arguments.clone());
                let mut input = self.common_input(event);
                call.add_to(&mut input);
                let arguments = changed.map(|changed| Json::from(Value::Object(changed)));
                input.insert("tool_input", arguments.unwrap_or_else(|| original.clone()));
                input
            })
            .await;
        if let Some(reason) = outcome.blocked {
            let tool = call.tool.to_owned();
            return Err(CallError::from(Cause::BlockedByHook { tool, reason }));
        }
        let mut before = BeforeCall {
            warnings: outcome.warnings,
            ..BeforeCall::default()
        };
        for output in outcome.outputs {
            before.ask = before.ask.or(output.ask);
            let changed = output.arguments.map(Value::Object);
            before.arguments = changed.map(Arguments::from).or(before.arguments);
        }
        Ok(before)
    }

    /// Runs the hooks after a call, and adds their notes to the result. The tool has run, so there
    /// is nothing to block: a reason to block is a note too.
    pub(crate) async fn after_call(
        &self,
        call: &ToolUse<'_>,
        arguments: &Arguments,
        output: &mut CallOutput,
    ) {
        let event = HookEvent::PostToolUse;
        let names = call.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hooks = self.matching(event, &names);
        if hooks.is_empty() {
            return;
        }
        let (arguments, response) = (arguments.to_json(), response(output));
        let outcome = self
            .run_all(&hooks, |_| {
                let mut input = self.common_input(event);
                call.add_to(&mut input);
                input.insert("tool_input", arguments.clone());
                input.insert_text("tool_response", response.clone());
                input
            })
            .await;
        let notes = outcome
            .outputs
            .into_iter()
            .filter_map(|output| output.context);
        for note in notes.chain(outcome.blocked) {
            let text = format!("[hook] {note}");
            output.content.push(ContentBlock::Text(text.into()));
        }
        output.warnings.extend(outcome.warnings);
    }
}

/// Returns a result as MCP writes it, without the blocks for which a reader's tree has no room
/// (SEC-4).
fn response(output: &CallOutput) -> String {
    let mut left = MAX_VALUES;
    let mut content = String::new();
    for block in &output.content {
        let block = block.to_json();
        let values = count_values(block.as_str(), left + 1);
        let Some(fewer) = left.checked_sub(values) else {
            break;
        };
        left = fewer;
        if !content.is_empty() {
            content.push(',');
        }
        content.push_str(block.as_str());
    }
    let mut response = HookInput::default();
    response.insert_text("content", format!("[{content}]"));
    if let Some(structured) = &output.structured_content {
        response.insert("structuredContent", structured.clone());
    }
    response.insert("isError", Value::from(output.is_error));
    response.to_text()
}
