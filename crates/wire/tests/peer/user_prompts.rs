//! A person who thinks about a question stops the clocks of calls.

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use trunkline_wire::peer::{Handler, RequestOptions, ResponseFuture};
use trunkline_wire::{ByteString, Json, Peer, RequestError};

use crate::harness::{call_with, idle, seconds, within};
use crate::support::{Wire, scripted};

/// Answers `ask` after so many seconds of thought; anything else is no question to a person.
struct Thinking(u64);

impl Handler for Thinking {
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

fn thinking(thought: u64) -> (Peer, Wire) {
    let (transport, wire) = scripted();
    (Peer::start(transport, Arc::new(Thinking(thought))), wire)
}

/// How long a call lasts that is never answered, while these are asked at once.
async fn lasts(options: RequestOptions, questions: &[&str]) -> u64 {
    let (peer, mut wire) = thinking(60);
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
async fn a_limit_does_not_run_while_a_person_is_asked() {
    assert_eq!(lasts(within(seconds(5)), &[]).await, 5);
    assert_eq!(lasts(within(seconds(5)), &["other"]).await, 5);
    assert_eq!(lasts(within(seconds(5)), &["ask"]).await, 65);
    // Two questions at once take no more time than one.
    assert_eq!(lasts(within(seconds(5)), &["ask", "ask"]).await, 65);
    assert_eq!(lasts(idle(seconds(5)), &["ask"]).await, 65);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_while_a_person_is_asked_has_its_whole_time() {
    let (peer, mut wire) = thinking(60);
    wire.feed(r#"{"id":"q","method":"ask"}"#);
    sleep(seconds(20)).await;
    let started = Instant::now();
    let call = call_with(&peer, within(seconds(5)));
    wire.request("m").await;
    assert!(call.await.unwrap().is_err());
    assert_eq!(started.elapsed().as_secs(), 45);
}
