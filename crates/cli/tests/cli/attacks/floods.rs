//! Servers that send without end.

use std::time::{Duration, Instant};

use serde_json::json;
use trunkline_testkit::Script;
use trunkline_testkit::net::{RawHttp, gzip};

use crate::lab::{Lab, echo, parsed};

/// The time limit of a command beside a flooding server, on a busy machine.
const QUICK: Duration = Duration::from_secs(15);

/// A script that sends these lines without end from its start.
fn flooding(line: &str) -> Script {
    Script::default().on_start(json!([{"flood": {"text": format!("{line}\n")}}]))
}

/// Calls the healthy server, with a deadline for those that never answer.
fn call_beside(lab: &Lab) -> Duration {
    let begun = Instant::now();
    let mut command = lab.command(&["call", "healthy", "echo", "a=1"]);
    let run = lab.finish(command.env("MCP_TIMEOUT", "3000"));
    assert_eq!(run.code, Some(0), "{run:?}");
    begun.elapsed()
}

/// A process that writes junk lines and never responds.
pub(super) fn junk_lines() {
    let lab = Lab::with([("healthy", echo()), ("flooder", flooding("DEBUG: busy"))]);
    assert!(call_beside(&lab) < QUICK);
    let begun = Instant::now();
    let run = lab.finish(lab.command(&["list", "--json"]).env("MCP_TIMEOUT", "3000"));
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    assert!(run.out.contains("mostly junk"), "{}", run.out);
}

/// A small compressed body with millions of events, as every response.
pub(super) fn gzip_events() {
    let body = gzip(b"data:x\n\n".repeat(4 << 20));
    let server = RawHttp::start(move |_, reply| {
        let length = body.len().to_string();
        reply.raw(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
        ));
        reply.raw(&body);
    });
    let lab = Lab::with_entries(|lab| {
        json!({
            "healthy": lab.scratch.entry("healthy", &echo()),
            "bomb": {"type": "http", "url": server.url()},
        })
    });
    // `call` would connect only to the healthy one.
    let begun = Instant::now();
    let run = lab.finish(lab.command(&["list", "--json"]).env("MCP_TIMEOUT", "3000"));
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    let states: Vec<_> = parsed(&run.out)
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["name"].clone(), server["state"] == "connected"))
        .collect();
    assert!(states.contains(&(json!("healthy"), true)), "{states:?}");
    assert!(states.contains(&(json!("bomb"), false)), "{states:?}");
}
