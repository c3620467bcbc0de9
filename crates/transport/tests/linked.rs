//! Two peers in one process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use trunkline_transport::linked_pair;
use trunkline_wire::peer::{Handler, RequestOptions, ResponseFuture};
use trunkline_wire::transport::CloseReason;
use trunkline_wire::{ByteString, Json, Peer, RequestError, RpcError};

/// Answers `echo` with its params, and `down n` by asking the other side for `down n - 1`; records
/// notifications.
#[derive(Default)]
struct Side {
    peer: OnceLock<Peer>,
    notifications: Mutex<Vec<String>>,
}

impl Handler for Side {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        let params = params.unwrap_or_else(Json::null);
        match (&*method, params.decode::<u64>()) {
            ("down", Ok(0)) => Box::pin(async { Ok(Json::parse(r#""bottom""#).unwrap()) }),
            ("down", Ok(depth)) => {
                let peer = self.peer.get().unwrap().clone();
                Box::pin(async move {
                    down(&peer, depth - 1).await.map_err(|error| match error {
                        RequestError::Rpc(error) => error,
                        other => RpcError::new(RpcError::INTERNAL_ERROR, other.to_string()),
                    })
                })
            }
            ("echo", _) => Box::pin(async { Ok(params) }),
            ("never", _) => Box::pin(std::future::pending()),
            (other, _) => {
                let error = RpcError::method_not_found(other);
                Box::pin(async { Err(error) })
            }
        }
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        let params = params.unwrap_or_else(Json::null);
        let told = format!("{method} {params}");
        self.notifications.lock().unwrap().push(told);
    }
}

struct Link {
    left: Peer,
    right: Peer,
    handlers: [Arc<Side>; 2],
}

fn link() -> Link {
    let (left, right) = linked_pair();
    let handlers = [Arc::<Side>::default(), Arc::<Side>::default()];
    let left = Peer::start(left, handlers[0].clone());
    let right = Peer::start(right, handlers[1].clone());
    Link {
        left,
        right,
        handlers,
    }
}

impl Link {
    /// Lets the handlers call back.
    fn entangle(&self) {
        for (handler, peer) in self.handlers.iter().zip([&self.left, &self.right]) {
            handler.peer.set(peer.clone()).ok().unwrap();
        }
    }
}

async fn down(peer: &Peer, depth: u64) -> Result<Json, RequestError> {
    let params = Json::encode(&depth).unwrap();
    peer.request("down", params, RequestOptions::default())
        .await
}

async fn echo(peer: &Peer, number: u64) -> Result<Json, RequestError> {
    let params = Json::encode(&number).unwrap();
    peer.request("echo", params, RequestOptions::default())
        .await
}

/// Waits until all tasks are idle: only then does paused time advance.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn both_ends_send_requests_and_notifications() {
    let link = link();
    let ends = [
        (&link.left, &link.handlers[1]),
        (&link.right, &link.handlers[0]),
    ];
    for (peer, other) in ends {
        assert_eq!(echo(peer, 7).await.unwrap().as_str(), "7");
        for number in 0_u64..1000 {
            let params = Json::encode(&number).unwrap();
            peer.notify("n", Some(params)).await.unwrap();
        }
        settle().await;
        let told = other.notifications.lock().unwrap().clone();
        let expected: Vec<_> = (0..1000).map(|number| format!("n {number}")).collect();
        assert_eq!(told, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn large_messages_arrive() {
    let link = link();
    let big = Json::encode(&"x".repeat(10_000_000)).unwrap();
    let options = RequestOptions::default();
    let back = link.left.request("echo", big.clone(), options).await;
    assert!(back.unwrap() == big);
}

#[tokio::test(start_paused = true)]
async fn closing_one_end_closes_the_other() {
    for close_left in [true, false] {
        let Link { left, right, .. } = link();
        let (closing, other) = if close_left {
            (left, right)
        } else {
            (right, left)
        };
        let waiting = tokio::spawn({
            let other = other.clone();
            async move {
                let options = RequestOptions::default();
                other.request("never", Json::null(), options).await
            }
        });
        settle().await;
        closing.close().await;
        assert_eq!(*other.closed().await.reason(), CloseReason::ByPeer);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the server closed the connection");
        assert!(echo(&other, 1).await.is_err());
        assert_eq!(*closing.closed().await.reason(), CloseReason::ByUs);
        other.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_one_end_closes_the_other() {
    let Link { left, right, .. } = link();
    drop(left);
    assert_eq!(*right.closed().await.reason(), CloseReason::ByPeer);

    let (left, right) = linked_pair();
    drop(left);
    let right = Peer::start(right, Arc::new(Side::default()));
    assert_eq!(*right.closed().await.reason(), CloseReason::ByPeer);
}

#[tokio::test(start_paused = true)]
async fn nested_calls_return() {
    let link = link();
    link.entangle();
    let result = down(&link.left, 100).await.unwrap();
    assert_eq!(result.as_str(), r#""bottom""#);
    link.left.close().await;
}

#[tokio::test(start_paused = true)]
async fn excessively_nested_calls_are_refused_and_the_link_survives() {
    let link = link();
    link.entangle();
    let error = down(&link.left, 10_000).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "too many requests at once (error -32603)"
    );
    for peer in [&link.left, &link.right] {
        assert_eq!(echo(peer, 3).await.unwrap().as_str(), "3");
    }
    link.left.close().await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_floods_in_both_directions_end() {
    let link = link();
    let calls: Vec<_> = (0..10_000)
        .map(|number| {
            let peer = if number % 2 == 0 {
                &link.left
            } else {
                &link.right
            };
            let peer = peer.clone();
            tokio::spawn(async move { echo(&peer, number).await })
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(result) => assert_eq!(result.as_str(), number.to_string()),
            Err(error) => assert_eq!(
                error.to_string(),
                "too many requests at once (error -32603)"
            ),
        }
    }
}
