//! Servers that send too much do not delay calls (SEC-4, CALL-7).

use std::future::Future;
use std::pin::Pin;

use serde_json::json;
use trunkline::Host;
use trunkline::elicit::{Elicit, ElicitAnswer, Elicitation};
use trunkline_testkit::{Era, Script};

use crate::lab::{Lab, call, connected, eventually};

#[tokio::test]
async fn floods_of_stderr_and_notifications_do_not_hold_up_calls() {
    let lab = Lab::new();
    let log = json!({"notify": {"method": "notifications/message", "params": {"level": "info", "data": "x".repeat(500)}}});
    let mut actions = vec![
        json!({"stderrFlood": 30_000_000}),
        json!({"stderr": "\nlast line"}),
    ];
    actions.extend(std::iter::repeat_n(log, 5000));
    actions.push(json!({"replyText": "flooded"}));
    let script = Script::default()
        .tool("flood", json!(actions))
        .tool("t", json!([{"echo": true}]));
    let host = lab.host([lab.server("s", script)]).await;
    let flooding = (0..2).map(|_| {
        let host = host.clone();
        tokio::spawn(async move { call(&host, "mcp__s__flood", json!({})).await })
    });
    let flooding: Vec<_> = flooding.collect();
    for n in 0..50 {
        assert_eq!(
            call(&host, "mcp__s__t", json!({"n": n})).await.unwrap(),
            json!({"n": n}).to_string()
        );
    }
    for task in flooding {
        assert_eq!(task.await.unwrap().unwrap(), "flooded");
    }
    let connection = connected(&host, "s");
    eventually("the last line", || connection.stderr(1) == ["last line"]).await;
    drop(connection);
    lab.end(host).await;
}

/// Never answers.
struct Absent;

impl Elicit for Absent {
    fn elicit(&self, _: Elicitation) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_flood_of_requests_is_answered_as_far_as_the_limit_and_refused_beyond() {
    let lab = Lab::new();
    let requests: Vec<_> = (0..500)
        .map(|n| {
            json!({"jsonrpc": "2.0", "id": format!("q{n}"), "method": "elicitation/create"})
                .to_string()
        })
        .collect();
    let mut script = Script::default()
        .era(Era::Legacy)
        .tool(
            "flood",
            json!([{"write": requests.join("\n")}, {"replyText": "asked"}]),
        )
        .tool("t", json!([{"echo": true}]));
    script.received_log = Some(lab.at("received"));
    let host = lab
        .ready(
            Host::builder()
                .permit(trunkline::permission::AllowAll)
                .server(lab.server("s", script))
                .elicit(Absent),
        )
        .await;
    assert_eq!(
        call(&host, "mcp__s__flood", json!({})).await.unwrap(),
        "asked"
    );
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    let refused = || {
        lab.scratch
            .read("received")
            .matches("too many requests at once")
            .count()
    };
    eventually("436 refusals", || refused() == 500 - 64).await;
    lab.end(host).await;
}
