//! The server of a command line as the host wants it: a command to start, or a URL.

use std::collections::BTreeMap;

use bench_client::Args;
use trunkline::config::TransportEntry;
use trunkline::ServerEntry;
use trunkline_config::{HttpEntry, HttpFlavour, ServerUrl, TlsEntry, WsEntry};

/// One of several: the first is `echo`, the next `echo1`.
pub(crate) fn entry(args: &Args, index: usize) -> ServerEntry {
    let name = if index == 0 {
        "echo".to_owned()
    } else {
        format!("echo{index}")
    };
    let (command, arguments) = &args.server;
    if command.starts_with("http://") {
        http(name, command)
    } else if command.starts_with("ws://") {
        let entry = WsEntry {
            url: ServerUrl::new(command),
            headers: BTreeMap::new(),
            headers_helper: None,
            tls: TlsEntry::default(),
        };
        ServerEntry::new(name, TransportEntry::Ws(entry))
    } else {
        ServerEntry::stdio(name, command, arguments)
    }
}

pub(crate) fn http(name: impl Into<String>, url: &str) -> ServerEntry {
    let entry = HttpEntry::new(HttpFlavour::Streamable, url);
    ServerEntry::new(name, TransportEntry::Http(entry))
}
