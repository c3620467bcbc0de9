//! Background calls and their timeouts.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_wire::peer::RequestOptions;
use trunkline_wire::{Json, Peer, RequestError};

use crate::support::Wire;

pub(crate) type Call = JoinHandle<Result<Json, RequestError>>;

pub(crate) fn call(peer: &Peer) -> Call {
    call_with(peer, RequestOptions::default())
}

pub(crate) fn call_with(peer: &Peer, options: RequestOptions) -> Call {
    let peer = peer.clone();
    tokio::spawn(async move { peer.request("m", Json::empty_object(), options).await })
}

/// Two sent calls, with ids 1 and 2.
pub(crate) async fn two_calls(peer: &Peer, wire: &mut Wire) -> (Call, Call) {
    let first = call(peer);
    assert_eq!(wire.request("m").await.0, 1);
    let second = call(peer);
    assert_eq!(wire.request("m").await.0, 2);
    (first, second)
}

pub(crate) fn within(limit: Duration) -> RequestOptions {
    RequestOptions {
        deadline: Some(Instant::now() + limit),
        ..RequestOptions::default()
    }
}

pub(crate) fn idle(limit: Duration) -> RequestOptions {
    RequestOptions {
        idle: Some(limit),
        ..RequestOptions::default()
    }
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
