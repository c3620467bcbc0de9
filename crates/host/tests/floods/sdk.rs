//! Floods from a server in the embedding program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline::transport::sdk::SdkBridge;

use crate::bench::{Entry, Flooder, Lab};
use crate::http::answer;
use crate::text::{Flood, block};

pub(crate) fn start(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    // A host has one bridge.
    if name != "flooder0" {
        return None;
    }
    let Flood::Messages(text) = flood else {
        panic!("{flood:?} cannot be sent over the bridge");
    };
    let line = match serde_json::from_str::<Value>(text) {
        Ok(message) => {
            let request =
                json!({"subtype": "mcp_message", "server_name": name, "message": message});
            json!({"type": "control_request", "request_id": "f", "request": request}).to_string()
        }
        Err(_) => text.clone(),
    };
    let block = block(format!("{line}\n").as_bytes());
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::io::split(UnixStream::from_std(ours).unwrap());
    let (bridge, _) = SdkBridge::start(reader, writer, |_, _| {});
    let signal = Arc::clone(&lab.signal);
    let mut from_bridge = BufReader::new(theirs.try_clone().unwrap());
    let mut to_bridge = theirs;
    std::thread::spawn(move || {
        let mut line = String::new();
        while !signal.is_on() {
            line.clear();
            if from_bridge.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let asked: Value = serde_json::from_str(&line).unwrap_or_default();
            let Some(answer) = answer(&asked["request"]["message"]) else {
                continue;
            };
            // A call of the tool starts the flood.
            if asked["request"]["message"]["method"] == "tools/call" {
                break;
            }
            let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": {"mcp_response": answer}});
            let line = json!({"type": "control_response", "response": response});
            writeln!(to_bridge, "{line}").ok();
        }
        // Drain the bridge's output, so it never blocks.
        std::thread::spawn(move || {
            while let Ok(1..) = from_bridge.read_line(&mut line) {
                line.clear();
            }
        });
        while !signal.is_over() && to_bridge.write_all(&block).is_ok() {
            signal.sent();
        }
    });
    Some(Flooder {
        entry: Entry::Sdk(bridge, ServerEntry::new(name, TransportEntry::Sdk)),
        tool: Some("flood"),
        begun: None,
        keep: Box::new(()),
    })
}
