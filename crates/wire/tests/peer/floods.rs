//! A connection under constant load does not delay other tasks (CALL-7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use trunkline_wire::Peer;
use trunkline_wire::peer::DefaultHandler;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

/// A transport that receives the same item forever, without waiting.
struct Endless(Incoming);

struct Discard;

impl Transport for Endless {
    type Sender = Discard;
    type Receiver = Self;

    fn split(self) -> (Discard, Self) {
        (Discard, self)
    }
}

impl SendHalf for Discard {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        batch.clear();
        Ok(())
    }

    async fn close(self) {}
}

impl ReceiveHalf for Endless {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        Ok(self.0.clone())
    }
}

fn frame(text: &str) -> Incoming {
    Incoming::Frame(Bytes::copy_from_slice(text.as_bytes()))
}

/// The floods, and whether they close the connection.
fn floods() -> [(&'static str, Incoming, bool); 12] {
    let batch = format!("[{}]", vec!["1"; 1000].join(","));
    let long = format!(r#"{{"method":"n","params":"{}"}}"#, "x".repeat(2 << 20));
    [
        ("junk", frame("junk"), true),
        ("notifications", frame(r#"{"method":"n"}"#), false),
        ("long notifications", frame(&long), false),
        ("requests", frame(r#"{"id":1,"method":"ping"}"#), false),
        ("unknown ids", frame(r#"{"id":77,"result":{}}"#), true),
        (
            "unknown progress",
            frame(r#"{"method":"notifications/progress","params":{"progressToken":5}}"#),
            false,
        ),
        ("batches", frame(&batch), true),
        ("empty batches", frame("[]"), true),
        ("signs of life", Incoming::Activity { to: None }, false),
        ("parts", Incoming::Partial { bytes: 10_000 }, false),
        (
            "noise",
            Incoming::Noise {
                frames: 1,
                bytes: 3,
            },
            true,
        ),
        (
            "a line without end",
            Incoming::Noise {
                frames: 0,
                bytes: 1 << 20,
            },
            true,
        ),
    ]
}

#[test]
fn no_flood_delays_a_timer_on_the_same_thread() {
    for (what, incoming, _) in floods() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let peers: Vec<_> = (0..20)
                .map(|_| Peer::start(Endless(incoming.clone()), Arc::new(DefaultHandler)))
                .collect();
            let limit = Duration::from_millis(10);
            let mut late = Vec::new();
            for _ in 0..9 {
                let started = Instant::now();
                tokio::time::sleep(limit).await;
                late.push(started.elapsed().saturating_sub(limit));
            }
            late.sort_unstable();
            assert!(
                late[4] < Duration::from_millis(50),
                "{what}: late by {late:?}"
            );
            drop(peers);
        });
    }
}

#[tokio::test]
async fn a_connection_of_junk_is_closed_with_a_reason() {
    for (what, incoming, is_junk) in floods() {
        let peer = Peer::start(Endless(incoming), Arc::new(DefaultHandler));
        let closed = tokio::time::timeout(Duration::from_millis(300), peer.closed());
        match closed.await {
            Ok(closed) => {
                assert!(is_junk, "{what}: {closed}");
                let CloseReason::Io(reason) = closed.reason() else {
                    panic!("{what}: {closed}");
                };
                assert!(reason.contains("mostly junk"), "{reason}");
            }
            // Throttled junk reaches its limit only after this time.
            Err(_) => assert!(!is_junk || what == "a line without end", "{what}"),
        }
    }
}
