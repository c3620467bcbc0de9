//! The idle timeout.

use tokio::time::Instant;
use trunkline_wire::RequestError;
use trunkline_wire::peer::RequestOptions;

use crate::harness::{call_with, idle, seconds, within};
use crate::support::{Recorder, peer, settle};

#[tokio::test(start_paused = true)]
async fn an_idle_call_ends_and_the_server_is_notified() {
    let (peer, mut wire) = peer(&Recorder::new());
    let call = call_with(&peer, idle(seconds(300)));
    let started = Instant::now();
    wire.request("m").await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server has sent nothing for 300 s");
    assert!(matches!(error, RequestError::Idle { sent: true, .. }));
    assert!(started.elapsed() < seconds(301));
    wire.cancellation_of(1).await;
}

#[tokio::test(start_paused = true)]
async fn any_message_resets_the_idle_timeout() {
    let messages = [
        r#"{"method":"n"}"#,
        r#"{"method":"notifications/progress","params":{"progressToken":5,"progress":1}}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"id":99,"result":1}"#,
        "garbage",
    ];
    for message in messages {
        let (peer, mut wire) = peer(&Recorder::new());
        let call = call_with(&peer, idle(seconds(10)));
        let started = Instant::now();
        wire.request("m").await;
        for _ in 0..5 {
            tokio::time::sleep(seconds(8)).await;
            wire.feed(message);
        }
        settle().await;
        assert!(!call.is_finished(), "{message}");
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, RequestError::Idle { .. }), "{error}");
        let waited = started.elapsed();
        assert!(
            (seconds(49)..seconds(51)).contains(&waited),
            "{message}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn messages_do_not_extend_the_deadline() {
    let (peer, mut wire) = peer(&Recorder::new());
    let options = RequestOptions {
        idle: Some(seconds(10)),
        ..within(seconds(25))
    };
    let call = call_with(&peer, options);
    wire.request("m").await;
    for _ in 0..4 {
        tokio::time::sleep(seconds(6)).await;
        wire.feed(r#"{"method":"n"}"#);
    }
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, RequestError::Timeout { .. }), "{error}");
}
