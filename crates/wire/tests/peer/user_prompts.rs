//! A user prompt pauses the timeouts of calls.

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use trunkline_wire::peer::{Handler, RequestOptions, ResponseFuture};
use trunkline_wire::{ByteString, Json, Peer, RequestError};

use crate::harness::{call_with, idle, seconds, within};
use crate::support::{Wire, scripted};

/// Responds to `ask` after this many seconds; other methods prompt no user.
struct SlowUser(u64);

impl Handler for SlowUser {
    fn request(&self, _: ByteString, _: Option<Json>) -> ResponseFuture {
        let thought = seconds(self.0);
        Box::pin(async move {
            sleep(thought).await;
            Ok(Json::null())
        })
    }

    fn prompts_user(&self, method: &str) -> bool {
        method == "ask"
    }
}

fn prompting_peer(thought: u64) -> (Peer, Wire) {
    let (transport, wire) = scripted();
    (Peer::start(transport, Arc::new(SlowUser(thought))), wire)
}

/// Returns the duration of a call without a response while these requests are open.
async fn duration_with(options: RequestOptions, questions: &[&str]) -> u64 {
    let (peer, mut wire) = prompting_peer(60);
    let started = Instant::now();
    let call = call_with(&peer, options);
    wire.request("m").await;
    for (id, method) in questions.iter().enumerate() {
        wire.feed(format!(r#"{{"id":"{id}","method":"{method}"}}"#));
    }
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            RequestError::Timeout { .. } | RequestError::Idle { .. }
        ),
        "{error:?}"
    );
    started.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn timeouts_pause_while_the_user_is_prompted() {
    assert_eq!(duration_with(within(seconds(5)), &[]).await, 5);
    assert_eq!(duration_with(within(seconds(5)), &["other"]).await, 5);
    assert_eq!(duration_with(within(seconds(5)), &["ask"]).await, 65);
    // Concurrent prompts take no longer than one.
    assert_eq!(duration_with(within(seconds(5)), &["ask", "ask"]).await, 65);
    assert_eq!(duration_with(idle(seconds(5)), &["ask"]).await, 65);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_starts_during_a_prompt_keeps_its_whole_timeout() {
    let (peer, mut wire) = prompting_peer(60);
    wire.feed(r#"{"id":"q","method":"ask"}"#);
    sleep(seconds(20)).await;
    let started = Instant::now();
    let call = call_with(&peer, within(seconds(5)));
    wire.request("m").await;
    assert!(call.await.unwrap().is_err());
    assert_eq!(started.elapsed().as_secs(), 45);
}
