//! The server of a command line as the host wants it: a command to start, or a URL.

use bench_client::Args;
use trunkline::ServerEntry;

/// One of several: the first is `echo`, the next `echo1`.
pub(crate) fn entry(args: &Args, index: usize) -> ServerEntry {
    let name = if index == 0 {
        "echo".to_owned()
    } else {
        format!("echo{index}")
    };
    let (command, arguments) = &args.server;
    if command.starts_with("http://") {
        ServerEntry::http(name, command)
    } else if command.starts_with("ws://") {
        ServerEntry::ws(name, command)
    } else {
        ServerEntry::stdio(name, command, arguments)
    }
}
