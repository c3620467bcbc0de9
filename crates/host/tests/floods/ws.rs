//! Floods over WebSocket.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline_config::{ServerUrl, TlsEntry, WsEntry};
use trunkline_testkit::Script;
use trunkline_testkit::net::WsServer;

use crate::bench::{Entry, Flooder, Lab};
use crate::text::{Flood, block};

pub(crate) fn start(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let block = match flood {
        Flood::Messages(text) => block(&frame(text.as_bytes())),
        Flood::Frames(frames) => frames.clone(),
        other => panic!("{other:?} cannot be sent over WebSocket"),
    };
    let server = Arc::new(WsServer::start(Script::default()));
    let entry = WsEntry {
        url: ServerUrl::new(server.url()),
        headers: BTreeMap::new(),
        headers_helper: None,
        tls: TlsEntry::default(),
    };
    let (flooding, signal) = (Arc::clone(&server), Arc::clone(&lab.signal));
    std::thread::spawn(move || {
        signal.wait();
        while !signal.is_over() {
            // Between two connections there is no receiver.
            if flooding.sessions() == 0 {
                signal.wait_for_the_end();
                continue;
            }
            flooding.send_raw(&block);
            signal.sent();
        }
    });
    Some(Flooder {
        entry: Entry::Server(ServerEntry::new(name, TransportEntry::Ws(entry))),
        tool: None,
        begun: None,
        keep: Box::new(server),
    })
}

/// Encodes a text message as one frame.
fn frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    if let Ok(short @ ..126) = u8::try_from(text.len()) {
        frame.push(short);
    } else if let Ok(length) = u16::try_from(text.len()) {
        frame.push(126);
        frame.extend(length.to_be_bytes());
    } else {
        frame.push(127);
        frame.extend((text.len() as u64).to_be_bytes());
    }
    frame.extend(text);
    frame
}
