//! Observes a host: every message, every log line, and every change.
//!
//! ```text
//! observer npx -y @modelcontextprotocol/server-everything
//! ```
#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use std::sync::{Arc, Mutex, PoisonError};

use trunkline::log::Direction;
use trunkline::server::State;
use trunkline::{Host, ServerEntry};
use trunkline_examples::Result;

/// Counts messages in both directions.
#[derive(Default)]
struct Counts {
    sent: usize,
    received: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().ok_or("no command given")?;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let counted = Arc::clone(&counts);
    let host = Host::builder()
        .server(ServerEntry::stdio("observed", command, arguments))
        .on_message(move |message| {
            let mut counts = counted.lock().unwrap_or_else(PoisonError::into_inner);
            match message.direction {
                Direction::Sent => counts.sent += 1,
                Direction::Received => counts.received += 1,
            }
        })
        .on_log(|line| println!("log {}: {}", line.kind.name(), line.text))
        .start();

    // A stream: it works with every combinator, and ends with the host.
    let mut events = host.events();
    let mut closing = None;
    while let Some(changes) = events.next().await {
        for name in &changes.servers {
            let state = host.server(name).map(|server| server.state.name());
            println!("event {name}: {}", state.unwrap_or("gone"));
        }
        let server = host.server("observed");
        let is_settled =
            server.is_some_and(|server| !matches!(server.state, State::Pending { .. }));
        if is_settled && closing.is_none() {
            println!("{host:?}");
            let host = host.clone();
            closing = Some(tokio::spawn(async move { host.shutdown().await }));
        }
    }
    println!("event: the host has shut down");
    // The last log lines arrive during the shutdown.
    if let Some(closing) = closing {
        closing.await?;
    }
    let Counts { sent, received } = &*counts.lock().unwrap_or_else(PoisonError::into_inner);
    println!("messages: {sent} sent, {received} received");
    Ok(())
}
