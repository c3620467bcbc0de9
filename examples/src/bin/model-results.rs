//! Calls a tool and shows its result as a model gets it: bounded, cleaned, in the API's format.
//!
//! ```text
//! model-results results/ anthropic mcp__local__report '{}' my-server --stdio
//! ```
//! Parts of a result that are too large for a model are saved below the first argument.
#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

use serde_json::Value;
use trunkline::permission::AllowAll;
use trunkline::result::{Content, Results};
use trunkline::tool::Format;
use trunkline::{CallOptions, Host, ServerEntry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("no directory given")?;
    let format = match arguments.next().as_deref() {
        Some("anthropic") => Format::Anthropic,
        Some("openai") => Format::OpenAi,
        Some("openai-responses") => Format::OpenAiResponses,
        _ => return Err("the API is anthropic, openai or openai-responses".into()),
    };
    let tool = arguments.next().ok_or("no tool given")?;
    let input: Value = serde_json::from_str(&arguments.next().ok_or("no arguments given")?)?;
    let command = arguments.next().ok_or("no command given")?;

    let host = Host::builder()
        .server(ServerEntry::stdio("local", command, arguments))
        .results(Results::at(directory))
        .permit(AllowAll)
        .start();
    let output = host.call(&tool, input, CallOptions::new()).await?;

    // For the program: typed content, decoded on access.
    for content in output.content() {
        match content {
            Content::Text(text) => println!("text: {} characters", text.text().chars().count()),
            Content::Image(image) => {
                let size = image.data().map_or(0, |data| data.len());
                println!(
                    "image: {size} bytes, {}",
                    image.mime_type().unwrap_or_default()
                );
            }
            Content::ResourceLink(link) => println!("link: {}", link.uri().unwrap_or_default()),
            Content::Unknown(unknown) => println!("a new type: {}", unknown.kind()),
            other => println!("other: {}", other.raw()),
        }
    }
    // Large parts are in files; the content says where.
    for file in &output.files {
        println!("saved: {} ({} bytes)", file.mime_type, file.size);
    }
    for warning in &output.warnings {
        println!("warning: {warning}");
    }
    // For the model: the value of `content` (or `output`) in the API's message.
    println!("{}", output.for_model(format));
    host.shutdown().await;
    Ok(())
}
