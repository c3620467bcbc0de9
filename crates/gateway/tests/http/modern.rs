//! Modern requests, which stand alone.

use serde_json::json;

use crate::lab::{Lab, modern, post};

#[test]
fn a_request_needs_no_session_and_is_answered_with_json() {
    let lab = Lab::new();
    let reply = lab.send(modern("/mcp", "server/discover", json!({})));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("mcp-session-id"), None);
    let reply = lab.send(modern("/mcp", "tools/list", json!({})));
    let tools = reply.json()["result"]["tools"].clone();
    let tools = tools.as_array().unwrap().iter();
    let names: Vec<_> = tools.map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["mcp__lab__big", "mcp__lab__echo", "mcp__lab__slow"]);
    let call = json!({"name": "mcp__lab__echo", "arguments": {"x": 1}});
    let reply = lab.send(modern("/mcp", "tools/call", call));
    assert_eq!(reply.json()["result"]["content"][0]["text"], r#"{"x":1}"#);
}

#[test]
fn an_endpoint_of_one_server_has_its_own_names() {
    let lab = Lab::new();
    let call = json!({"name": "echo", "arguments": {"x": 2}});
    let reply = lab.send(modern("/mcp/lab", "tools/call", call));
    assert_eq!(reply.json()["result"]["content"][0]["text"], r#"{"x":2}"#);
    let reply = lab.send(modern("/mcp/absent", "tools/list", json!({})));
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("no server \\\"absent\\\""));
}

#[test]
fn progress_makes_a_stream_that_ends_with_the_answer() {
    let lab = Lab::new();
    let mut call = json!({"name": "mcp__lab__slow", "arguments": {"steps": 2}});
    call["_meta"]["progressToken"] = "p".into();
    let mut connection = lab.connect();
    connection.send(modern("/mcp", "tools/call", call));
    let head = connection.head().unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    let mut pending = Vec::new();
    for step in 1..=2 {
        let (id, event) = connection.event(&mut pending).unwrap();
        assert_eq!(id, None, "modern streams are not resumable");
        let event: serde_json::Value = serde_json::from_str(&event).unwrap();
        assert_eq!(event["method"], "notifications/progress");
        assert_eq!(event["params"]["progressToken"], "p");
        assert_eq!(event["params"]["progress"], f64::from(step));
    }
    lab.gate.release(1);
    let (_, answer) = connection.event(&mut pending).unwrap();
    assert!(answer.contains("done"), "{answer}");
    assert_eq!(connection.event(&mut pending), None);
    // The connection stays usable.
    connection.send(modern("/mcp", "tools/list", json!({})));
    assert_eq!(connection.reply().status, 200);
}

#[test]
fn closing_the_connection_cancels_the_call() {
    let lab = Lab::new();
    let slow = json!({"name": "mcp__lab__slow", "arguments": {"steps": 1}});
    for with_progress in [true, false] {
        let mut connection = lab.connect();
        let mut call = slow.clone();
        if with_progress {
            call["_meta"]["progressToken"] = 1.into();
        }
        connection.send(modern("/mcp", "tools/call", call));
        lab.gate.wait_for(1);
        connection.abandon();
        lab.gate.wait_for(0);
    }
    lab.assert_works();
}

#[test]
fn headers_that_disagree_with_the_body_are_refused() {
    let lab = Lab::new();
    let request = modern("/mcp", "tools/list", json!({}));
    for (from, to, status, code) in [
        (
            "Mcp-Method: tools/list",
            "Mcp-Method: tools/call",
            400,
            -32020,
        ),
        ("Mcp-Method: tools/list\r\n", "", 400, -32020),
        ("Version: 2026-07-28", "Version: 2026-07-29", 400, -32020),
    ] {
        let reply = lab.send(request.replacen(from, to, 1));
        assert_eq!(reply.status, status, "{to}");
        assert_eq!(reply.json()["error"]["code"], code, "{to}");
        assert_eq!(reply.json()["id"], 1, "{to}");
    }
    let unknown = modern("/mcp", "no/such", json!({}));
    let reply = lab.send(unknown);
    assert_eq!(
        (reply.status, reply.json()["error"]["code"].as_i64()),
        (404, Some(-32601))
    );
    let future = request.replace("2026-07-28", "2099-01-01");
    let reply = lab.send(future);
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], -32022);
    assert_eq!(reply.json()["error"]["data"]["supported"][0], "2026-07-28");
    let get = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: 2026-07-28\r\n\r\n";
    let reply = lab.send(get);
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
}

#[test]
fn a_notification_is_accepted_and_a_response_is_not() {
    let lab = Lab::new();
    let headers = "MCP-Protocol-Version: 2026-07-28\r\n";
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
    let reply = lab.send(post("/mcp", headers, body));
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(lab.send(post("/mcp", headers, body)).status, 400);
}

#[test]
fn changes_arrive_on_the_stream_of_a_listen_request() {
    let lab = Lab::new();
    let mut connection = lab.connect();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    connection.send(modern("/mcp", "subscriptions/listen", filter));
    let head = connection.head().unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let mut pending = Vec::new();
    let (_, first) = connection.event(&mut pending).unwrap();
    assert!(first.contains("acknowledged"), "{first}");
}
