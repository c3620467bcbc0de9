//! A link on which something always arrives holds up nobody else (CALL-7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use trunkline_wire::Peer;
use trunkline_wire::peer::DefaultHandler;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

/// A link on which the same thing arrives over and over, and never has to be waited for.
struct Endless(Incoming);

struct Nowhere;

impl Transport for Endless {
    type Sender = Nowhere;
    type Receiver = Self;

    fn split(self) -> (Nowhere, Self) {
        (Nowhere, self)
    }
}

impl SendHalf for Nowhere {
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

/// What floods, and whether the link is ended for it.
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
fn whatever_floods_a_timer_on_the_same_thread_is_on_time() {
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
                let begun = Instant::now();
                tokio::time::sleep(limit).await;
                late.push(begun.elapsed().saturating_sub(limit));
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
async fn a_link_of_junk_is_ended_and_says_why() {
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
            // What is slowed down on its way to the limit takes longer than this.
            Err(_) => assert!(!is_junk || what == "a line without end", "{what}"),
        }
    }
}
