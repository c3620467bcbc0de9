//! Limits per client.

use serde_json::json;
use trunkline_gateway::store::Rate;

use crate::lab::{INITIALIZE, Lab, call, in_session, modern, post};

#[test]
fn a_client_over_its_rate_waits_and_another_does_not() {
    let lab = Lab::with(|options| {
        options.limits.rate = Some(Rate {
            per_second: 0.5,
            burst: 3.0,
        });
    });
    let list = modern("/mcp", "tools/list", json!({}));
    for _ in 0..3 {
        assert_eq!(lab.send(&list).status, 200);
    }
    let limited = lab.send(&list);
    assert_eq!(limited.status, 429);
    assert_eq!(limited.header("retry-after"), Some("2"));
    let token = lab.token("other");
    let other = list.replace("Host:", &format!("Authorization: Bearer {token}\r\nHost:"));
    assert_eq!(lab.send(other).status, 200);
    assert_eq!(lab.get("/healthz").status, 200, "not a request of a client");
    let metrics = lab.get("/metrics").text();
    assert!(
        metrics.contains("trunkline_http_refused_total{reason=\"rate\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_client_has_so_many_requests_and_sessions_at_once() {
    let lab = Lab::with(|options| {
        options.limits.requests_per_client = 2;
        options.limits.sessions_per_client = 2;
    });
    let session = lab.initialize("");
    let headers = in_session(&session);
    let mut held: Vec<_> = (0..2)
        .map(|id| {
            let mut connection = lab.connect();
            let slow = call(id, "mcp__lab__slow", &json!({}));
            connection.send(post("/mcp", &headers, &slow));
            connection
        })
        .collect();
    lab.gate.wait_for(2);
    let reply = lab.call(&session, "mcp__lab__echo", &json!({}));
    assert_eq!(reply.status, 429);
    lab.gate.release(2);
    for connection in &mut held {
        assert!(connection.reply().text().contains("done"));
    }
    let reply = lab.call(&session, "mcp__lab__echo", &json!({}));
    assert_eq!(reply.status, 200);
    let _second = lab.initialize("");
    assert_eq!(lab.send(post("/mcp", "", INITIALIZE)).status, 429);
    let token = lab.token("other");
    lab.initialize(&format!("Authorization: Bearer {token}\r\n"));
}

#[test]
fn an_unused_session_ends() {
    let lab = Lab::with(|options| {
        options.limits.session_idle = std::time::Duration::from_millis(200);
    });
    let (idle, used) = (lab.initialize(""), lab.initialize(""));
    let mut connection = lab.connect();
    connection.send(post(
        "/mcp",
        &in_session(&used),
        &call(1, "mcp__lab__slow", &json!({})),
    ));
    lab.gate.wait_for(1);
    trunkline_testkit::wait_until(crate::raw::SOON, || {
        let text = lab.get("/metrics").text();
        text.contains("trunkline_http_sessions 1\n")
    });
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    assert_eq!(lab.send(post("/mcp", &in_session(&idle), list)).status, 404);
    lab.gate.release(1);
    connection.head().unwrap();
}
