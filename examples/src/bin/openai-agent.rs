//! An agent in one file: the tools of your MCP servers, and a model behind an API like OpenAI's
//! chat completions.
//!
//! ```text
//! OPENAI_API_KEY=… cargo run -p trunkline-examples --bin openai-agent -- "What changed in this repository today?"
//! ```
//! `OPENAI_BASE_URL` and `OPENAI_MODEL` select another endpoint (a local one, for example) and
//! another model. The servers are those of Claude Code's files.
#![allow(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::collections::BTreeSet;
use std::io::Write as _;

use serde_json::{Value, json};
use trunkline::config::Layout;
use trunkline::tool::{Format, ModelTools, TOOL_SEARCH};
use trunkline::{CallOptions, Host, Settings};
use trunkline_examples::{Model, Result, Terminal, variable};

/// How often the model may call tools before it has to be done.
const MAX_ROUNDS: usize = 50;

/// How many characters of servers' instructions go into the system prompt.
const MAX_INSTRUCTIONS: usize = 16_384;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let question: Vec<String> = std::env::args().skip(1).collect();
    let key = variable("OPENAI_API_KEY", None)?;
    let model = Model::new(
        variable("OPENAI_BASE_URL", Some("https://api.openai.com/v1"))? + "/chat/completions",
        vec![("authorization", format!("Bearer {key}"))],
    )?;
    let layout = Layout::from_env().ok_or("no home directory")?;
    let host = Host::builder()
        .settings(Settings::from_env())
        .discover(layout, &std::env::current_dir()?)
        .permit(Terminal)
        .elicit(Terminal)
        .start();
    host.ready().await;
    let done = converse(&host, &model, &question.join(" ")).await;
    host.shutdown().await;
    done
}

async fn converse(host: &Host, model: &Model, question: &str) -> Result<()> {
    let name = variable("OPENAI_MODEL", Some("gpt-5"))?;
    let instructions = host.instructions(MAX_INSTRUCTIONS);
    let system =
        (!instructions.is_empty()).then(|| json!({"role": "system", "content": instructions}));
    let question = json!({"role": "user", "content": question});
    let mut messages: Vec<Value> = system.into_iter().chain([question]).collect();
    // The tools that the model has found with the search.
    let mut found: BTreeSet<String> = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        // The same tools are the same bytes, so the model's cache of them holds.
        let mut offered = host.tools_for_model(None);
        for name in &found {
            offered.load(name);
        }
        let tools: Value = serde_json::from_str(&offered.export(Format::OpenAi))?;
        let mut request = json!({"model": name, "stream": true, "messages": messages});
        // An empty list is an error there.
        if tools.as_array().is_some_and(|tools| !tools.is_empty()) {
            request["tools"] = tools;
        }
        let answer = say(model, &request).await?;
        let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
        messages.push(answer);
        if calls.is_empty() {
            println!();
            return Ok(());
        }
        for call in &calls {
            let result = run(host, call, &mut found).await;
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
        }
    }
    Err("the model does not come to an end".into())
}

/// One turn of the model: its text is printed as it comes, its message is given back whole.
async fn say(model: &Model, request: &Value) -> Result<Value> {
    let mut events = model.stream(request).await?;
    let mut text = String::new();
    let mut calls: Vec<Value> = Vec::new();
    while let Some(event) = events.next().await? {
        let delta = &event["choices"][0]["delta"];
        if let Some(piece) = delta["content"].as_str() {
            print!("{piece}");
            std::io::stdout().flush()?;
            text += piece;
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            collect(&mut calls, piece);
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    Ok(message)
}

/// Puts a call together: the first piece has its id and name, all of them have some of its
/// arguments.
fn collect(calls: &mut Vec<Value>, piece: &Value) {
    let at = piece["index"].as_u64().unwrap_or(0);
    let at = usize::try_from(at).unwrap_or(0).min(calls.len());
    if at == calls.len() {
        calls.push(json!({"type": "function", "function": {"name": "", "arguments": ""}}));
    }
    let call = &mut calls[at];
    if let Some(id) = piece["id"].as_str() {
        call["id"] = json!(id);
    }
    for member in ["name", "arguments"] {
        if let (Some(more), Value::String(whole)) = (
            piece["function"][member].as_str(),
            &mut call["function"][member],
        ) {
            whole.push_str(more);
        }
    }
}

/// Calls a tool; whatever comes of it is for the model to read, a refusal too.
async fn run(host: &Host, call: &Value, found: &mut BTreeSet<String>) -> Value {
    let function = &call["function"];
    let name = function["name"].as_str().unwrap_or_default();
    let arguments = function["arguments"].as_str().unwrap_or_default();
    let arguments: Value = match serde_json::from_str(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return json!(format!("the arguments are not JSON: {error}")),
    };
    match host.call(name, arguments, CallOptions::new()).await {
        Ok(output) => {
            if name == TOOL_SEARCH {
                found.extend(ModelTools::found(&output));
            }
            output.for_model(Format::OpenAi)
        }
        Err(error) => json!(error.to_string()),
    }
}
