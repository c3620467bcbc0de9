//! Health, metrics, TLS and the shutdown.

use std::time::Duration;

use serde_json::json;

use crate::lab::{Lab, call, get_events, in_session, modern, post};
use crate::raw::Connection;

#[test]
fn health_readiness_and_metrics_are_served() {
    let lab = Lab::new();
    assert_eq!(lab.get("/healthz").text(), "ok\n");
    assert_eq!(lab.get("/readyz").text(), "ready\n");
    lab.assert_works();
    let absent = json!({"name": "mcp__lab__absent"});
    lab.send(modern("/mcp", "tools/call", absent));
    let reply = lab.get("/metrics");
    let text = reply.text();
    for line in [
        "trunkline_calls_total{server=\"lab\",tool=\"echo\",outcome=\"ok\"} 1",
        "trunkline_call_duration_seconds_count{server=\"lab\",tool=\"echo\"} 1",
        "trunkline_server_state{server=\"lab\",state=\"connected\"} 1",
        "trunkline_http_sessions 1",
        "# TYPE trunkline_call_duration_seconds histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(
        text.contains("server=\"unknown\",tool=\"unknown\""),
        "{text}"
    );
    assert!(
        !text.contains("absent"),
        "clients do not choose labels: {text}"
    );
}

#[test]
fn a_shutdown_lets_calls_end_and_closes_what_is_idle() {
    let mut lab = Lab::new();
    let session = lab.initialize("");
    let headers = in_session(&session);
    let mut idle = lab.connect();
    idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(idle.reply().status, 200);
    let mut listening = lab.connect();
    listening.send(get_events("/mcp", &headers));
    listening.head().unwrap();
    let mut calling = lab.connect();
    let slow = call(1, "mcp__lab__slow", &json!({"steps": 1}));
    calling.send(post("/mcp", &headers, &slow));
    calling.head().unwrap();
    let mut pending = Vec::new();
    calling.event(&mut pending).unwrap();
    lab.stop();
    // New requests are refused while the call goes on.
    let list = modern("/mcp", "tools/list", json!({}));
    trunkline_testkit::wait_until(crate::raw::SOON, || {
        idle.send(&list);
        idle.reply().status == 503
    });
    lab.gate.release(1);
    let mut last = String::new();
    while let Some((_, event)) = calling.event(&mut pending) {
        last = event;
    }
    assert!(last.contains("done"), "{last}");
    assert_eq!(listening.event(&mut Vec::new()), None);
    assert_eq!(idle.rest(), b"");
    lab.stopped();
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut lab = Lab::with(|options| options.limits.drain = Duration::from_millis(200));
    let session = lab.initialize("");
    let mut calling = lab.connect();
    let slow = call(1, "mcp__lab__slow", &json!({}));
    calling.send(post("/mcp", &in_session(&session), &slow));
    lab.gate.wait_for(1);
    lab.stopped();
    lab.gate.wait_for(0);
}

#[test]
fn many_clients_share_the_endpoint() {
    let lab = Lab::new();
    let address = lab.address;
    std::thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for call in 0..25 {
                    let mark = format!("{client}-{call}");
                    let arguments = json!({"name": "mcp__lab__echo", "arguments": {"m": mark}});
                    connection.send(modern("/mcp", "tools/call", arguments));
                    let reply = connection.reply();
                    let text = reply.json()["result"]["content"][0]["text"].clone();
                    assert_eq!(text, json!({"m": mark}).to_string());
                }
            });
        }
    });
}
