//! HTTP+SSE for old clients.

use serde_json::{Value, json};

use crate::lab::{INITIALIZE, Lab, call, get_events, post};

#[test]
fn answers_come_over_the_stream_and_the_session_ends_with_it() {
    let lab = Lab::new();
    for (path, tool) in [("/sse", "mcp__lab__echo"), ("/sse/lab", "echo")] {
        let mut stream = lab.connect();
        stream.send(get_events(path, ""));
        assert_eq!(
            stream.head().unwrap().header("content-type"),
            Some("text/event-stream")
        );
        let mut pending = Vec::new();
        let (_, endpoint) = stream.event(&mut pending).unwrap();
        assert!(endpoint.starts_with("/messages?session_id="), "{endpoint}");
        assert_eq!(lab.send(post(&endpoint, "", INITIALIZE)).status, 202);
        let (_, answer) = stream.event(&mut pending).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        let request = call(3, tool, &json!({"c": 3}));
        assert_eq!(lab.send(post(&endpoint, "", &request)).status, 202);
        let (_, answer) = stream.event(&mut pending).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], 3);
        assert_eq!(answer["result"]["content"][0]["text"], r#"{"c":3}"#);

        // A call of a client that leaves is cancelled.
        let slow = call(4, &tool.replace("echo", "slow"), &json!({}));
        assert_eq!(lab.send(post(&endpoint, "", &slow)).status, 202);
        lab.gate.wait_for(1);
        stream.abandon();
        lab.gate.wait_for(0);
        assert_eq!(lab.send(post(&endpoint, "", &request)).status, 404);
    }
}

#[test]
fn the_two_kinds_of_sessions_do_not_mix() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let path = format!("/messages?session_id={session}");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(lab.send(post(&path, "", list)).status, 404);
    let mut stream = lab.connect();
    stream.send(get_events("/sse", ""));
    stream.head().unwrap();
    let (_, endpoint) = stream.event(&mut Vec::new()).unwrap();
    let id = endpoint.split_once('=').unwrap().1;
    let headers = format!("Mcp-Session-Id: {id}\r\n");
    assert_eq!(lab.send(post("/mcp", &headers, list)).status, 404);
}
