//! Any number of clients over a Unix socket.

use std::path::PathBuf;

use trunkline_gateway::Gateway;
use trunkline_gateway::socket::{InstanceLock, Listener, SocketPlace, serve_socket};

use crate::daemon_use;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Lines};

/// Serves clients on a socket until the program is interrupted.
pub(super) async fn serve(gateway: &Gateway, path: Option<PathBuf>) -> Exit {
    let Some(place) = place(path) else {
        output::error(
            "there is no home directory",
            Some("name a path: --socket PATH"),
        );
        return Exit::Usage;
    };
    let bound = place
        .prepare()
        .map_err(|error| error.to_string())
        .and_then(|()| InstanceLock::take(&place.lock).map_err(|error| error.to_string()))
        .and_then(|lock| {
            Ok((
                lock,
                Listener::bind(&place).map_err(|error| error.to_string())?,
            ))
        });
    let (_lock, listener) = match bound {
        Ok(bound) => bound,
        Err(error) => {
            output::error(&error, Some("name another socket: --socket PATH"));
            return Exit::Usage;
        }
    };
    output::note(Lines::one(format!(
        "listening on {}; press Ctrl-C to end",
        place.socket.display()
    )));
    serve_socket(gateway, listener, interrupted()).await;
    let _ = std::fs::remove_file(&place.socket);
    Exit::Done
}

/// Returns the named socket, or the one beside that of the daemon.
fn place(path: Option<PathBuf>) -> Option<SocketPlace> {
    let path = match path {
        Some(path) => std::path::absolute(path).ok()?,
        None => daemon_use::place()?.socket.with_file_name("gateway.sock"),
    };
    Some(SocketPlace::at(path))
}
