//! `trunkline serve --socket`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use trunkline_testkit::wait_for;

use crate::lab::{Lab, SOON, echo, parsed};

/// A client that speaks lines.
struct Agent {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Agent {
    fn say(&mut self, line: &Value) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        parsed(&line)
    }
}

#[test]
fn a_client_may_speak_mcp_from_the_start() {
    let lab = Lab::with([("s", echo())]);
    let path = lab.at("home/private/g.sock");
    let socket = path.to_str().unwrap().to_owned();
    let gateway = lab.start(&mut lab.command(&["serve", "--socket", &socket]));
    let stream = wait_for(SOON, "the socket", || UnixStream::connect(&path).ok());
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut agent = Agent {
        reader: BufReader::new(stream.try_clone().unwrap()),
        writer: stream,
    };
    agent.say(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "mcp__s__echo", "arguments": {"a": 1}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}}),
    );
    let answer = agent.hear();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(parsed(text), json!({"a": 1}), "{answer}");
    kill_process(Pid::from_child(&gateway.child), Signal::TERM).unwrap();
    gateway.end();
}

#[test]
fn several_clients_share_one_gateway_on_a_socket() {
    let lab = Lab::with([("s", echo())]);
    let path = lab.at("home/private/g.sock");
    let socket = path.to_str().unwrap().to_owned();
    let mut gateway = lab.start(&mut lab.command(&["serve", "--socket", &socket]));
    let connect = || {
        let stream = wait_for(SOON, "the socket", || UnixStream::connect(&path).ok());
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut agent = Agent {
            reader: BufReader::new(stream.try_clone().unwrap()),
            writer: stream,
        };
        agent.say(&json!({"trunkline": 1, "version": "x", "purpose": "gateway"}));
        assert_eq!(agent.hear()["answer"], "welcome");
        agent
    };
    let mut agents = [connect(), connect()];
    for (number, agent) in agents.iter_mut().enumerate() {
        agent.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}));
        assert_eq!(agent.hear()["result"]["serverInfo"]["name"], "trunkline");
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent.say(
            &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
            {"name": "mcp__s__echo", "arguments": {"n": number}}}),
        );
        let answer = loop {
            let message = agent.hear();
            if message["id"] == 2 {
                break message;
            }
        };
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(parsed(text), json!({"n": number}));
    }
    let refused = lab.plain(&{
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"trunkline\":1,\"version\":\"x\",\"purpose\":\"control\",\"command\":\"stop\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    });
    assert!(refused.contains("unsupported"), "{refused}");
    drop(agents);
    let pid = Pid::from_child(&gateway.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(gateway.status().success());
    assert!(!path.exists());
    gateway.end();
}
