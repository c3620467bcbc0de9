//! Sessions of legacy clients.

use serde_json::{Value, json};
use trunkline_gateway::store::Stores;

use crate::lab::{INITIALIZE, Lab, call, get_events, in_session, post};

#[test]
fn a_session_begins_with_initialize_and_ends_with_delete() {
    let lab = Lab::new();
    let reply = lab.send(post("/mcp", "", INITIALIZE));
    assert_eq!(reply.json()["result"]["protocolVersion"], "2025-11-25");
    let session = reply.header("mcp-session-id").unwrap().to_owned();
    assert!(session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_graphic()));
    let headers = in_session(&session);
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let reply = lab.send(post("/mcp", &headers, body));
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    let reply = lab.call(&session, "mcp__lab__echo", &json!({"a": 1}));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json()["result"]["content"][0]["text"], r#"{"a":1}"#);
    let delete = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    assert_eq!(lab.send(&delete).status, 204);
    assert_eq!(lab.send(&delete).status, 404);
    let reply = lab.call(&session, "mcp__lab__echo", &json!({}));
    assert_eq!(
        (reply.status, reply.json()["error"]["code"].as_i64()),
        (404, Some(-32001))
    );
}

#[test]
fn requests_without_or_with_a_foreign_session_are_refused() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(lab.send(post("/mcp", "", list)).status, 400);
    let wrong = in_session("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(lab.send(post("/mcp", &wrong, list)).status, 404);
    // A session of one endpoint is unknown to another.
    let headers = in_session(&session);
    assert_eq!(lab.send(post("/mcp/lab", &headers, list)).status, 404);
    // And to another client.
    let token = lab.token("other");
    let other = format!("{headers}Authorization: Bearer {token}\r\n");
    assert_eq!(lab.send(post("/mcp", &other, list)).status, 404);
    assert_eq!(lab.send(get_events("/mcp", &other)).status, 404);
    assert_eq!(lab.send(post("/mcp", &headers, list)).status, 200);
    let unknown = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: nonsense\r\n");
    assert_eq!(lab.send(post("/mcp", &unknown, list)).status, 400);
}

#[test]
fn a_lost_stream_is_resumed_where_it_broke_off() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let mut connection = lab.connect();
    let slow = call(7, "mcp__lab__slow", &json!({"steps": 3}));
    connection.send(post("/mcp", &headers, &slow));
    let head = connection.head().unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let mut pending = Vec::new();
    let (prime, data) = connection.event(&mut pending).unwrap();
    assert_eq!(data, "", "a position to resume from, without a message");
    let (first, event) = connection.event(&mut pending).unwrap();
    assert!(event.contains("notifications/progress"), "{event}");
    connection.abandon();
    lab.gate.wait_for(1);
    lab.gate.release(1);
    for (last, expected) in [(&first, 3), (&prime, 4)] {
        let mut connection = lab.connect();
        let last = format!("Last-Event-ID: {}\r\n", last.as_ref().unwrap());
        connection.send(get_events("/mcp", &format!("{headers}{last}")));
        assert_eq!(connection.head().unwrap().status, 200);
        let mut pending = Vec::new();
        let mut events = Vec::new();
        while let Some((_, event)) = connection.event(&mut pending) {
            events.push(serde_json::from_str::<Value>(&event).unwrap());
        }
        assert_eq!(events.len(), expected, "{events:?}");
        let answer = events.last().unwrap();
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
    for id in ["x", "1", "%00", "-"] {
        let bad = format!("{headers}Last-Event-ID: {id}\r\n");
        assert_eq!(lab.send(get_events("/mcp", &bad)).status, 400, "{id}");
    }
}

#[test]
fn a_cancelled_request_gets_no_answer_and_frees_its_id() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let mut connection = lab.connect();
    let slow = call(5, "mcp__lab__slow", &json!({"steps": 1}));
    connection.send(post("/mcp", &headers, &slow));
    lab.gate.wait_for(1);
    let twice = lab.send(post("/mcp", &headers, &slow));
    assert_eq!(twice.status, 400, "the id is in use");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    assert_eq!(lab.send(post("/mcp", &headers, cancel)).status, 202);
    lab.gate.wait_for(0);
    connection.head().unwrap();
    let mut pending = Vec::new();
    while let Some((_, event)) = connection.event(&mut pending) {
        assert!(!event.contains("result"), "{event}");
    }
    let again = call(5, "mcp__lab__echo", &json!({}));
    assert_eq!(lab.send(post("/mcp", &headers, &again)).status, 200);
}

#[test]
fn a_batch_is_answered_with_one_stream() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-03-26\r\n");
    let batch = format!(
        "[{},{},{}]",
        call(1, "mcp__lab__echo", &json!({})),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        call(2, "mcp__lab__echo", &json!({})),
    );
    let mut connection = lab.connect();
    connection.send(post("/mcp", &headers, &batch));
    assert_eq!(connection.head().unwrap().status, 200);
    let mut pending = Vec::new();
    let mut ids = Vec::new();
    while let Some((_, event)) = connection.event(&mut pending) {
        if !event.is_empty() {
            let event: Value = serde_json::from_str(&event).unwrap();
            ids.push(event["id"].as_u64().unwrap());
        }
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    assert_eq!(lab.send(post("/mcp", &headers, "[]")).status, 400);
    let handshake = format!("[{INITIALIZE}]");
    assert_eq!(lab.send(post("/mcp", "", &handshake)).status, 400);
}

#[test]
fn the_stream_of_a_get_belongs_to_one_connection_at_a_time() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let mut first = lab.connect();
    first.send(get_events("/mcp", &headers));
    assert_eq!(first.head().unwrap().status, 200);
    let mut second = lab.connect();
    second.send(get_events("/mcp", &headers));
    assert_eq!(second.head().unwrap().status, 200);
    assert_eq!(first.event(&mut Vec::new()), None, "the second took over");
    let json_only = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n{headers}\r\n"
    );
    assert_eq!(lab.send(json_only).status, 406);
}

#[test]
fn a_session_continues_after_a_restart() {
    let stores = Stores::in_memory();
    let mut lab = Lab::with_stores(stores.clone(), |_| {});
    let session = lab.initialize("");
    let ended = lab.initialize("");
    let delete = in_session(&ended);
    let delete = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{delete}\r\n");
    assert_eq!(lab.send(delete).status, 204);
    lab.stopped();
    drop(lab);
    let lab = Lab::with_stores(stores, |_| {});
    let reply = lab.call(&session, "mcp__lab__echo", &json!({"b": 2}));
    assert_eq!(reply.json()["result"]["content"][0]["text"], r#"{"b":2}"#);
    let reply = lab.call(&ended, "mcp__lab__echo", &json!({}));
    assert_eq!(reply.status, 404);
}

#[test]
fn a_client_without_event_streams_gets_the_answer_alone() {
    let lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let slow = call(1, "mcp__lab__slow", &json!({"steps": 2}));
    let request = post("/mcp", &headers, &slow);
    let mut connection = lab.connect();
    connection.send(request.replace(", text/event-stream", ""));
    lab.gate.release(1);
    let reply = connection.reply();
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json()["result"]["content"][0]["text"], "done");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let request = post("/mcp", &headers, list);
    let events = lab.send(request.replace("application/json, ", ""));
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    let html = request.replace("application/json, text/event-stream", "text/html");
    assert_eq!(lab.send(html).status, 406);
}
