//! One client over stdin and stdout.

use std::io::IsTerminal;

use trunkline_gateway::{ClientInfo, Gateway};
use trunkline_transport::IoTransport;

use crate::exit::Exit;
use crate::output;

/// Serves the client until it closes stdin.
pub(super) async fn serve(gateway: &Gateway, client: ClientInfo) -> Exit {
    if std::io::stdin().is_terminal() {
        output::note("waiting for an MCP client on stdin; press Ctrl-D to end");
    }
    let transport = IoTransport::new(tokio::io::stdin(), tokio::io::stdout());
    match gateway.serve(transport, client).await {
        Ok(_) => Exit::Done,
        Err(error) => {
            output::error(&error.to_string(), None);
            Exit::Usage
        }
    }
}
