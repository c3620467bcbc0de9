//! Connects to an HTTP server that is configured in code, and calls one of its tools.
//!
//! ```text
//! http-in-code https://mcp.example.com/mcp search '{"query": "rust"}'
//! ```
//! `MCP_TOKEN` is sent as a bearer token.
#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

use std::time::Duration;

use serde_json::Value;
use trunkline::permission::Rules;
use trunkline::server::State;
use trunkline::{CallOptions, Host, ServerEntry};
use trunkline_examples::Result;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("no URL given")?;
    let tool = arguments.next().ok_or("no tool given")?;
    let input: Value = serde_json::from_str(&arguments.next().ok_or("no arguments given")?)?;

    let mut entry = ServerEntry::http("remote", url)
        .timeout(Duration::from_secs(30))
        .connect_timeout(Duration::from_secs(10))
        .deny_tools(["delete_*"]);
    if let Ok(token) = std::env::var("MCP_TOKEN") {
        entry = entry.header("Authorization", format!("Bearer {token}"));
    }
    let host = Host::builder()
        .server(entry)
        .rules(Rules::default().allow("mcp__remote"))
        .start();

    let status = host.ready_for("remote").await?;
    match &status.state {
        State::Connected(_) => println!("{} tools", status.catalog.tools().len()),
        state => println!("{}", state.name()),
    }
    let called = host.call_on("remote", &tool, input, CallOptions::new());
    let text = match called.await {
        Ok(output) if output.is_error => format!("the tool failed: {}", output.text()),
        Ok(output) => output.text(),
        Err(error) => format!("not called: {error}"),
    };
    println!("{text}");
    host.shutdown().await;
    Ok(())
}
