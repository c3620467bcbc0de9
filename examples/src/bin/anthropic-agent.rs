//! An agent in one file: the tools of your MCP servers, and a model behind Anthropic's Messages
//! API.
//!
//! ```text
//! ANTHROPIC_API_KEY=… cargo run -p trunkline-examples --bin anthropic-agent -- "What changed in this repository today?"
//! ```
//! `ANTHROPIC_BASE_URL` and `ANTHROPIC_MODEL` select another endpoint and another model. The
//! servers are those of Claude Code's files.
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
    let model = Model::new(
        variable("ANTHROPIC_BASE_URL", Some("https://api.anthropic.com"))? + "/v1/messages",
        vec![
            ("x-api-key", variable("ANTHROPIC_API_KEY", None)?),
            ("anthropic-version", "2023-06-01".to_owned()),
        ],
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
    let name = variable("ANTHROPIC_MODEL", Some("claude-sonnet-4-5"))?;
    let mut messages = vec![json!({"role": "user", "content": question})];
    // The tools that the model has found with the search.
    let mut found: BTreeSet<String> = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        // The same tools are the same bytes, so the model's cache of them holds.
        let mut offered = host.tools_for_model(None);
        for name in &found {
            offered.load(name);
        }
        let tools: Value = serde_json::from_str(&offered.export(Format::Anthropic))?;
        let mut request = json!({
            "model": name, "max_tokens": 8192, "stream": true, "tools": tools, "messages": messages,
        });
        let instructions = host.instructions(MAX_INSTRUCTIONS);
        if !instructions.is_empty() {
            request["system"] = json!(instructions);
        }
        let blocks = say(model, &request).await?;
        let calls: Vec<Value> = blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .cloned()
            .collect();
        messages.push(json!({"role": "assistant", "content": blocks}));
        if calls.is_empty() {
            println!();
            return Ok(());
        }
        let mut results = Vec::new();
        for call in &calls {
            results.push(run(host, call, &mut found).await);
        }
        messages.push(json!({"role": "user", "content": results}));
    }
    Err("the model does not come to an end".into())
}

/// One turn of the model: its text is printed as it comes, its blocks are given back whole.
async fn say(model: &Model, request: &Value) -> Result<Vec<Value>> {
    let mut events = model.stream(request).await?;
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments = String::new();
    while let Some(event) = events.next().await? {
        let delta = &event["delta"];
        match event["type"].as_str() {
            Some("content_block_start") => blocks.push(event["content_block"].clone()),
            Some("content_block_delta") => match delta["type"].as_str() {
                Some("text_delta") => {
                    let text = delta["text"].as_str().unwrap_or_default();
                    print!("{text}");
                    std::io::stdout().flush()?;
                    if let Some(Value::String(whole)) = blocks.last_mut().map(|b| &mut b["text"]) {
                        whole.push_str(text);
                    }
                }
                Some("input_json_delta") => {
                    arguments += delta["partial_json"].as_str().unwrap_or_default();
                }
                _ => {}
            },
            Some("content_block_stop") if !arguments.is_empty() => {
                if let Some(block) = blocks.last_mut() {
                    block["input"] = serde_json::from_str(&arguments)?;
                }
                arguments.clear();
            }
            Some("error") => return Err(event["error"]["message"].to_string().into()),
            _ => {}
        }
    }
    Ok(blocks)
}

/// Calls a tool; whatever comes of it is for the model to read, a refusal too.
async fn run(host: &Host, call: &Value, found: &mut BTreeSet<String>) -> Value {
    let name = call["name"].as_str().unwrap_or_default();
    let called = host.call(name, call["input"].clone(), CallOptions::new());
    let (content, is_error) = match called.await {
        Ok(output) => {
            if name == TOOL_SEARCH {
                found.extend(ModelTools::found(&output));
            }
            (output.for_model(Format::Anthropic), output.is_error)
        }
        Err(error) => (json!(error.to_string()), true),
    };
    json!({"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": is_error})
}
