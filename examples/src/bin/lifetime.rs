//! The life of a host: start, shutdown, and drop, with state kept in a directory.
//!
//! ```text
//! lifetime DIRECTORY COMMAND [ARGUMENT ...]
//! ```
#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use serde_json::json;
use trunkline::permission::AllowAll;
use trunkline::{CallOptions, Host, ServerEntry};
use trunkline_examples::Result;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("no directory given")?;
    let command = arguments.next().ok_or("no command given")?;
    let entry = ServerEntry::stdio("server", command, arguments);

    for run in ["first", "second"] {
        // Starts nothing that outlives it, and writes nothing outside `dir`.
        let host = Host::builder()
            .server(entry.clone())
            .permit(AllowAll)
            .state_under(&dir)
            .start();
        // The second run knows the tools before the server has started.
        println!("{run} run: {} tools at once", host.pool().tools().len());
        host.ready().await;
        println!("{run} run: {} tools", host.pool().tools().len());

        // Servers come and go while the host runs.
        host.add(ServerEntry::stdio("extra", "/nonexistent/server", [""; 0]));
        println!("extra: {}", host.ready_for("extra").await?.state.name());
        host.remove("extra").await?;
        if let Err(error) = host.reconnect("sever").await {
            println!(
                "{error}; did you mean {:?}?",
                error.suggestion().unwrap_or_default()
            );
        }

        // Waits until the server's process is gone.
        host.shutdown().await;
        let late = host.call_on("server", "t", json!({}), CallOptions::new());
        println!("after shutdown: {}", late.await.is_err());
    }

    // Dropping the last clone closes connections in the background, while the runtime lives.
    let dropped = Host::builder().server(entry).start();
    dropped.ready().await;
    let mut events = dropped.events();
    drop(dropped);
    while events.next().await.is_some() {}
    println!("dropped");
    Ok(())
}
