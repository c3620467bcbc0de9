//! Supplies credentials for an HTTP server, and reaches another server over a Unix socket.
//!
//! ```text
//! own-transport https://mcp.example.com/mcp /run/tools.sock
//! ```
#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::UnixStream;
use trunkline::auth::{AfterRefusal, BoxFuture, Credentials, CredentialsError, Refusal, Token};
use trunkline::server::State;
use trunkline::{Host, ServerEntry};
use trunkline_examples::Result;

/// Tokens that are renewed when the server refuses one.
#[derive(Default)]
struct Renewing {
    renewals: AtomicU32,
}

impl Credentials for Renewing {
    fn token(&self) -> BoxFuture<'_, std::result::Result<Option<Token>, CredentialsError>> {
        let token = format!("token-{}", self.renewals.load(Ordering::Relaxed));
        Box::pin(async move { Ok(Token::bearer(&token)) })
    }

    fn refused(&self, _refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        let renewals = self.renewals.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if renewals == 0 {
                AfterRefusal::Retry
            } else {
                AfterRefusal::GiveUp
            }
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("no URL given")?;
    let socket: PathBuf = arguments.next().ok_or("no socket given")?.into();

    let credentials: Arc<dyn Credentials> = Arc::new(Renewing::default());
    let host = Host::builder()
        .server(ServerEntry::http("remote", url))
        .credentials(move |entry| (entry.name == "remote").then(|| Arc::clone(&credentials)))
        // Called for every attempt to connect: a lost connection is restored.
        .connect("socket", move || {
            let socket = socket.clone();
            async move { Ok(UnixStream::connect(socket).await?.into_split()) }
        })
        .start();
    host.ready().await;
    for server in host.servers() {
        match &server.state {
            State::Connected(_) => {
                let tools: Vec<_> = server
                    .catalog
                    .tools()
                    .iter()
                    .map(|tool| &*tool.name)
                    .collect();
                println!("{}: {}", server.name, tools.join(" "));
            }
            state => println!("{}: {}", server.name, state.name()),
        }
    }
    host.shutdown().await;
    Ok(())
}
