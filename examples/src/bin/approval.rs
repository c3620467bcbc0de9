//! Finds the servers of a project as Claude Code does, and approves or rejects those that wait.
//!
//! ```text
//! approval npx uvx     approves servers that run these programs, rejects all others
//! ```
#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use trunkline::Host;
use trunkline::config::{EntryStatus, Layout};
use trunkline_examples::Result;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let trusted: Vec<String> = std::env::args().skip(1).collect();
    let layout = Layout::from_env().ok_or("no home directory")?;
    let host = Host::builder()
        .discover(layout, &std::env::current_dir()?)
        .start();
    host.ready().await;

    let config = host.config();
    for problem in &config.diagnostics {
        println!("problem: {problem}");
    }
    for server in &config.servers {
        let EntryStatus::PendingApproval { .. } = server.status else {
            continue;
        };
        // The decision is bound to the content of this entry, not to its name.
        let entry = &server.entry;
        println!("{} wants to run: {}", entry.name, entry.redacted());
        let program = entry.program().unwrap_or_default();
        let status = if trusted.contains(&program) {
            host.approve(entry).await?
        } else {
            host.reject(entry).await?
        };
        let decision = match status {
            EntryStatus::Active => "approved",
            EntryStatus::Rejected { .. } => "rejected",
            _ => "still waiting",
        };
        println!("{}: {decision}", entry.name);
    }

    host.ready().await;
    for server in host.servers() {
        println!("{}: {}", server.name, server.state.name());
    }
    host.shutdown().await;
    Ok(())
}
