//! The GET stream of a legacy server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trunkline_wire::transport::CloseReason;

use crate::inline::{
    InlineServer, ReceivedRequest, Step, Steps, bytes, chunk, event, reply, status, stream,
    streamed, whole,
};
use crate::support::{
    RecordingHandler, at, call, connect, connect_with, eventually, in_time, pass, pass_slowly,
};

/// A legacy server with this GET stream.
async fn with_stream(
    answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::session(move |seen| match seen.what() {
        "GET" => answer(seen),
        "tools/call" => reply(200, &seen.text("done")),
        _ => status(202),
    })
    .await
}

fn news(method: &str) -> String {
    event(&json!({"jsonrpc": "2.0", "method": method}))
}

/// The intervals between requests for the stream.
fn pauses(server: &InlineServer) -> Vec<Duration> {
    let times: Vec<_> = server.of("GET").iter().map(|get| get.at).collect();
    times.windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test]
async fn a_server_without_a_get_stream_is_asked_once() {
    let answers: [fn(&ReceivedRequest) -> Steps; 6] = [
        |_| status(405),
        |_| status(404),
        |_| status(400),
        |_| status(204),
        |_| reply(200, &json!({"name": "a friendly server"})),
        |_| whole(200, &[("content-type", "text/html")], "<h1>Welcome</h1>"),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let server = with_stream(answer).await;
        let client = connect(&server.url()).await;
        assert_eq!(call(&client, "t").await.unwrap(), "done", "{n}");
        pass_slowly(Duration::from_mins(1)).await;
        assert_eq!(server.of("GET").len(), 1, "{n}");
        assert_eq!(call(&client, "t").await.unwrap(), "done", "{n}");
        client.peer().close().await;
    }
}

#[tokio::test]
async fn notifications_on_the_get_stream_are_delivered() {
    let server = with_stream(|_| {
        let mut steps = stream(&(": hello\n\n".to_owned() + &news("notifications/one")));
        steps.push(bytes(chunk("event: ping\ndata: {}\n\nevent: message\n")));
        let two = json!({"jsonrpc": "2.0", "method": "notifications/two"});
        steps.push(bytes(chunk(&format!("data: {two}\n\n"))));
        steps.push(Step::Hold);
        steps
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    eventually("both notifications", || recorder.notifications().len() == 2).await;
    assert_eq!(
        recorder.notifications(),
        ["notifications/one", "notifications/two"]
    );
    assert!(
        recorder.invalid_messages().is_empty(),
        "{:?}",
        recorder.invalid_messages()
    );
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    in_time("closing", client.peer().close()).await;
    eventually("every connection to end", || server.open() == 0).await;
}

#[tokio::test]
async fn a_call_waits_only_briefly_for_the_get_stream() {
    let server = with_stream(|_| vec![Step::Hold]).await;
    let client = connect(&server.url()).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    let (get, called) = (&server.of("GET")[0], &server.of("tools/call")[0]);
    let waited = called.at - get.at;
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    assert!(waited <= Duration::from_secs(4), "{waited:?}");
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert_eq!(server.of("GET").len(), 1);
}

#[tokio::test]
async fn a_stream_that_ends_immediately_is_reopened_with_backoff() {
    let server = with_stream(|_| streamed("")).await;
    let client = connect(&server.url()).await;
    pass_slowly(Duration::from_mins(3)).await;
    let pauses = pauses(&server);
    assert!((5..=11).contains(&pauses.len()), "{pauses:?}");
    for (n, pause) in pauses.iter().enumerate() {
        let least = Duration::from_secs(1 << n.min(4));
        assert!(*pause >= least, "{pauses:?}");
    }
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert!(!client.peer().is_closed());
}

#[tokio::test]
async fn a_stream_that_always_fails_does_not_affect_calls() {
    let answers: [fn(&ReceivedRequest) -> Steps; 2] = [|_| status(500), |_| vec![Step::Close]];
    for answer in answers {
        let server = with_stream(answer).await;
        let client = connect(&server.url()).await;
        pass_slowly(Duration::from_mins(1)).await;
        let count = server.of("GET").len();
        assert!((3..=7).contains(&count), "{count} in a minute");
        assert_eq!(call(&client, "t").await.unwrap(), "done");
        assert!(!client.peer().is_closed());
        client.peer().close().await;
    }
}

#[tokio::test]
async fn a_retry_time_of_zero_is_bounded() {
    let answers: [fn(&ReceivedRequest) -> Steps; 2] = [
        |_| streamed("retry: 0\n\n"),
        |_| streamed(&("retry: 0\n".to_owned() + &news("notifications/x"))),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let server = with_stream(answer).await;
        let client = connect(&server.url()).await;
        eventually("a few attempts", || server.of("GET").len() >= 3).await;
        pass_slowly(Duration::from_secs(6)).await;
        let pauses = pauses(&server);
        let shortest = pauses.iter().min().unwrap();
        assert!(*shortest >= Duration::from_millis(90), "{n}: {pauses:?}");
        assert_eq!(call(&client, "t").await.unwrap(), "done");
        client.peer().close().await;
    }
}

#[tokio::test]
async fn a_stream_resumes_after_its_last_id_and_the_retry_time() {
    let server = with_stream(|seen| match seen.header("last-event-id") {
        None => streamed(&("retry: 7000\nid: first\n".to_owned() + &news("notifications/one"))),
        Some("first") => streamed(&("id: second\n".to_owned() + &news("notifications/two"))),
        Some("second") => {
            let mut steps = stream(&news("notifications/three"));
            steps.push(Step::Hold);
            steps
        }
        Some(other) => panic!("{other}"),
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    eventually("the first notification", || {
        recorder.notifications().len() == 1
    })
    .await;
    pass_slowly(Duration::from_secs(15)).await;
    eventually("the others", || recorder.notifications().len() == 3).await;
    let pauses = pauses(&server);
    assert_eq!(pauses.len(), 2);
    for pause in pauses {
        assert!(pause >= Duration::from_millis(6900), "{pause:?}");
        assert!(pause <= Duration::from_millis(7900), "{pause:?}");
    }
    for get in server.of("GET") {
        assert_eq!(get.header("mcp-session-id"), Some("s1"));
    }
    client.peer().close().await;
}

#[tokio::test]
async fn a_stream_that_breaks_mid_event_is_reopened() {
    let server = with_stream(|seen| match seen.header("last-event-id") {
        None => {
            let mut steps = stream(&("id: 1\n".to_owned() + &news("notifications/one")));
            // Half an event.
            steps.push(bytes(chunk("id: 2\ndata: {\"jsonrpc\":\"2.0\",")));
            steps.push(Step::Close);
            steps
        }
        Some("1") => {
            let mut steps = stream(&news("notifications/two"));
            steps.push(Step::Hold);
            steps
        }
        Some(other) => panic!("{other}"),
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    eventually("the first notification", || {
        recorder.notifications().len() == 1
    })
    .await;
    pass(Duration::from_secs(1)).await;
    eventually("the second", || recorder.notifications().len() == 2).await;
    assert!(
        recorder.invalid_messages().is_empty(),
        "{:?}",
        recorder.invalid_messages()
    );
    client.peer().close().await;
}

#[tokio::test]
async fn a_404_on_reopening_the_stream_expires_the_session() {
    let server = with_stream(|seen| match seen.header("last-event-id") {
        None => streamed(&("id: 1\nretry: 10\n".to_owned() + &news("notifications/one"))),
        Some(_) => status(404),
    })
    .await;
    let client = connect(&server.url()).await;
    let closed = in_time("the end", client.peer().closed()).await;
    assert_eq!(closed.reason(), &CloseReason::SessionExpired);
}

#[tokio::test]
async fn an_event_over_the_limit_is_skipped() {
    const PIECE: usize = 1 << 20;
    let server = with_stream(|_| {
        let mut steps = stream(&news("notifications/one"));
        let mut long = format!("{PIECE:x}\r\n").into_bytes();
        long.extend_from_slice(&vec![b'x'; PIECE]);
        long.extend_from_slice(b"\r\n");
        steps.push(bytes(chunk(
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/long\",\"params\":\"",
        )));
        steps.extend(std::iter::repeat_n(Step::Bytes(long), 65));
        steps.push(bytes(chunk("\"}\n\n")));
        steps.push(bytes(chunk(&news("notifications/two"))));
        steps.push(Step::Hold);
        steps
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    eventually("both notifications", || recorder.notifications().len() == 2).await;
    assert_eq!(
        recorder.notifications(),
        ["notifications/one", "notifications/two"]
    );
    assert_eq!(recorder.invalid_messages().len(), 1);
    assert!(
        recorder.invalid_messages()[0].contains("over the limit"),
        "{:?}",
        recorder.invalid_messages()
    );
    assert_eq!(server.of("GET").len(), 1);
    client.peer().close().await;
}
