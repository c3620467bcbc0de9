//! A server implemented in the program, and a sub-agent that sees part of its tools.
#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use serde::Deserialize;
use serde_json::{Value, json};
use trunkline::permission::Rules;
use trunkline::tool::{Format, ToolOutput};
use trunkline::{AgentScope, Builtin, CallOptions, Host};
use trunkline_examples::Result;

#[derive(Deserialize)]
struct Note {
    title: String,
}

/// A notebook in a directory.
fn notebook(dir: std::path::PathBuf) -> Builtin {
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    });
    let file = dir.clone();
    Builtin::new("notes")
        .instructions("Notes are Markdown files.")
        .tool("read", "Reads a note", &schema, move |call| {
            let dir = file.clone();
            async move {
                let Note { title } = call.parse()?;
                // Any error becomes the tool's result.
                let text = std::fs::read_to_string(dir.join(title))?;
                Ok(text.into())
            }
        })
        .tool("sketch", "Draws a note", &schema, |call| async move {
            let Note { title } = call.parse()?;
            call.progress(0.5, Some(1.0), "drawing").await;
            Ok(ToolOutput::text(title).with_image("image/png", PIXEL))
        })
        .tool("erase", "Erases a note", &schema, move |call| {
            let dir = dir.clone();
            async move {
                let Note { title } = call.parse()?;
                std::fs::remove_file(dir.join(title))?;
                Ok("erased".into())
            }
        })
}

/// A transparent pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\
\x89\0\0\0\rIDATx\xdacd\xf8\xcf\x50\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::args().nth(1).ok_or("no directory given")?;
    let host = Host::builder()
        .builtin(notebook(dir.into()))
        .rules(Rules::default().allow("mcp__notes"))
        .start();
    host.ready().await;

    // The reader shares the host's connections, and cannot erase.
    let scope = AgentScope::only(["notes"]).without(["erase"]);
    let reader = host.agent(scope.rules(Rules::default().allow("mcp__notes")));
    let tools = reader.tools_for_model(None).export_value(Format::Mcp);
    for tool in tools.as_array().into_iter().flatten() {
        println!(
            "the reader sees {}",
            tool["name"].as_str().unwrap_or_default()
        );
    }
    for (agent, who) in [(&reader, "reader"), (&host, "host")] {
        for tool in ["read", "sketch", "erase"] {
            let arguments = json!({"title": "today.md"});
            let called = agent.call_on("notes", tool, arguments, CallOptions::new());
            let text = match called.await {
                Ok(output) => format!("{} {}", output.content.len(), output.text()),
                Err(error) => format!("refused: {error}"),
            };
            println!("{who} {tool}: {}", Value::from(text));
        }
    }
    reader.shutdown().await;
    host.shutdown().await;
    Ok(())
}
