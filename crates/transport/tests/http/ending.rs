//! Closing a link: immediate, and without leftovers.

use std::time::{Duration, Instant};

use serde_json::json;
use trunkline_testkit::net::{Answers, HttpServer};
use trunkline_testkit::{Era, Script};
use trunkline_wire::client::Subscription;

use crate::inline::{InlineServer, Step, stream};
use crate::support::{call, calling, connect, eventually, in_time};

/// The open sockets of this process.
fn sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[tokio::test]
async fn a_link_with_open_streams_closes_immediately() {
    for era in [Era::Legacy, Era::Modern] {
        for answers in [Answers::Json, Answers::Sse] {
            let script = Script::default()
                .era(era)
                .tool("endless", json!([{"sleepMs": 600_000}]));
            let server = HttpServer::builder(script).answers(answers).start();
            let before = tasks();
            let client = connect(&server.url()).await;
            let listening = (era == Era::Modern).then(|| {
                let client = client.clone();
                tokio::spawn(async move {
                    let tools = true;
                    let all = Subscription {
                        tools,
                        ..Subscription::default()
                    };
                    client.listen(&all).await
                })
            });
            let calls: Vec<_> = (0..10).map(|_| calling(&client, "endless")).collect();
            eventually("everything to be under way", || {
                let called =
                    |seen: &trunkline_testkit::net::Request| seen.rpc_method() == "tools/call";
                server.streams() == 1
                    && server.requests().iter().filter(|seen| called(seen)).count() == 10
            })
            .await;
            let started = Instant::now();
            in_time("closing", client.peer().close()).await;
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{:?}",
                started.elapsed()
            );
            for call in calls {
                assert!(call.await.unwrap().unwrap_err().may_have_run());
            }
            if let Some(listening) = listening {
                listening.await.unwrap().unwrap_err();
            }
            drop(client);
            eventually("every connection to end", || server.open_connections() == 0).await;
            eventually("every task to end", || tasks() <= before).await;
            assert_eq!(server.deleted(), usize::from(era == Era::Legacy));
        }
    }
}

#[tokio::test]
async fn an_unresponsive_server_delays_closing_only_briefly() {
    let server = InlineServer::session(|seen| match seen.what() {
        "tools/call" | "GET" => {
            let mut steps = stream(": wait\n\n");
            steps.push(Step::Hold);
            steps
        }
        _ => vec![Step::Hold],
    })
    .await;
    let client = connect(&server.url()).await;
    let waiting = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    let started = Instant::now();
    in_time("closing", client.peer().close()).await;
    assert!(
        started.elapsed() < Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
    waiting.await.unwrap().unwrap_err();
    eventually("every connection to end", || server.open() == 0).await;
}

#[tokio::test]
async fn closed_links_leave_no_socket_and_no_task() {
    let script = Script::default()
        .era(Era::Legacy)
        .tool("t", json!([{"replyText": "done"}]));
    let server = HttpServer::start(script);
    // Initializes what is created once.
    let client = connect(&server.url()).await;
    client.peer().close().await;
    drop(client);
    eventually("every connection to end", || server.open_connections() == 0).await;
    let (open, alive) = (sockets(), tasks());
    for n in 0..30 {
        let client = connect(&server.url()).await;
        call(&client, "t").await.unwrap();
        if n % 2 == 0 {
            client.peer().close().await;
        }
    }
    eventually("every connection to end", || server.open_connections() == 0).await;
    eventually("every task to end", || tasks() <= alive).await;
    eventually("every socket to be closed", || sockets() <= open).await;
    assert_eq!(server.sessions(), 0);
}
