//! Timeouts and `Retry-After`.

use std::time::{Duration, SystemTime};

use serde_json::json;
use trunkline_transport::http::RESPONSE_TIMEOUT;
use trunkline_wire::RequestError;
use trunkline_wire::client::{Arguments, CallRequest};
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{
    InlineServer, ReceivedRequest, Step, Steps, bytes, chunk, event, reply, status, stream, whole,
};
use crate::support::{
    at, call, calling, connect, delivery_error, eventually, in_time, pass, status_of, try_connect,
};

/// A legacy server with this response to calls.
async fn answering(
    answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::legacy(move |seen| match seen.what() {
        "tools/call" => answer(seen),
        "GET" => status(405),
        _ => status(202),
    })
    .await
}

#[tokio::test]
async fn a_response_head_may_take_almost_a_minute() {
    let server = answering(|seen| {
        let mut steps = vec![Step::Wait(Duration::from_secs(50))];
        steps.extend(reply(200, &seen.text("done")));
        steps
    })
    .await;
    let client = connect(&server.url()).await;
    let answer = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(Duration::from_secs(51)).await;
    assert_eq!(
        in_time("the answer", answer).await.unwrap().unwrap(),
        "done"
    );
}

#[tokio::test]
async fn a_response_head_that_takes_too_long_is_a_timeout() {
    let server = answering(|seen| match seen.body["params"]["name"].as_str() {
        Some("silent") => vec![Step::Hold],
        _ => reply(200, &seen.text("done")),
    })
    .await;
    let client = connect(&server.url()).await;
    let failed = calling(&client, "silent");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(RESPONSE_TIMEOUT.saturating_sub(Duration::from_secs(2))).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert!(!failed.is_finished());
    pass(Duration::from_secs(3)).await;
    let failure = delivery_error(in_time("the error", failed).await.unwrap());
    assert_eq!(failure.kind, DeliveryErrorKind::Timeout);
    assert_eq!(
        failure.to_string(),
        "the server did not respond within 60 s"
    );
    assert!(failure.may_have_run);
    // The server gets a cancellation, and the next call works.
    eventually("the word", || {
        server.of("notifications/cancelled").len() == 1
    })
    .await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn a_body_may_take_as_long_as_the_caller_waits() {
    let server = answering(|seen| {
        let text = event(&seen.text("done"));
        let mut steps = stream(": ");
        steps.push(Step::Wait(Duration::from_mins(20)));
        steps.push(bytes(chunk(&format!("wait\n\n{text}"))));
        steps
    })
    .await;
    let client = connect(&server.url()).await;
    let answer = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(Duration::from_mins(10)).await;
    pass(Duration::from_mins(11)).await;
    assert_eq!(
        in_time("the answer", answer).await.unwrap().unwrap(),
        "done"
    );
}

/// Calls with an idle timeout.
async fn call_with_idle(url: &str, idle: Duration) -> Result<(), RequestError> {
    let client = connect(url).await;
    let arguments = Arguments::from(json!({}));
    let request = CallRequest {
        tool: "t",
        arguments: Some(&arguments),
        idle: Some(idle),
        ..CallRequest::default()
    };
    in_time("the call", client.call_tool(request))
        .await
        .map(drop)
}

#[tokio::test]
async fn any_bytes_count_as_activity() {
    let kinds: [fn(&ReceivedRequest) -> Steps; 2] = [
        // Comments, a common keep-alive.
        |seen| {
            let mut steps = stream(": still here\n\n");
            for _ in 0..4 {
                steps.push(Step::Wait(Duration::from_millis(400)));
                steps.push(bytes(chunk(": still here\n\n")));
            }
            steps.push(bytes(chunk(&event(&seen.text("done")))));
            steps.push(bytes("0\r\n\r\n"));
            steps
        },
        // A slow body.
        |seen| {
            let text = seen.text("done").to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                text.len()
            );
            let mut steps = vec![bytes(head)];
            for piece in text.as_bytes().chunks(text.len() / 4) {
                steps.push(bytes(piece));
                steps.push(Step::Wait(Duration::from_millis(400)));
            }
            steps
        },
    ];
    for kind in kinds {
        let server = answering(kind).await;
        call_with_idle(&server.url(), Duration::from_millis(1100))
            .await
            .unwrap();
    }
    let server = answering(|_| {
        let mut steps = stream(": nothing more\n\n");
        steps.push(Step::Hold);
        steps
    })
    .await;
    let error = call_with_idle(&server.url(), Duration::from_millis(300)).await;
    assert!(matches!(error, Err(RequestError::Idle { .. })), "{error:?}");
    eventually("the end of the stream", || server.open() <= 2).await;
}

#[tokio::test]
async fn a_buffering_proxy_changes_nothing() {
    let server = answering(|seen| {
        let token = &seen.body["params"]["_meta"]["progressToken"];
        let params = json!({"progressToken": token, "progress": 1});
        let progress =
            event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        let body = format!(": held\n\n{progress}{}", event(&seen.text("done")));
        let mut steps = vec![Step::Wait(Duration::from_secs(45))];
        steps.extend(whole(200, &[("content-type", "text/event-stream")], body));
        steps
    })
    .await;
    let client = connect(&server.url()).await;
    let answer = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(Duration::from_secs(46)).await;
    assert_eq!(
        in_time("the answer", answer).await.unwrap().unwrap(),
        "done"
    );
    assert_eq!(call_again(&client, &server).await, 2);
}

/// Calls again; returns the number of calls that the server has seen.
async fn call_again(client: &trunkline_wire::Client, server: &InlineServer) -> usize {
    let answer = calling(client, "t");
    eventually("the call", || server.of("tools/call").len() == 2).await;
    pass(Duration::from_secs(46)).await;
    in_time("the answer", answer).await.unwrap().unwrap();
    server.of("tools/call").len()
}

/// A server that refuses `times` calls with this header.
async fn busy(
    status: u16,
    times: usize,
    after: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> InlineServer {
    let count = std::sync::atomic::AtomicUsize::new(0);
    answering(move |seen| {
        if count.fetch_add(1, std::sync::atomic::Ordering::AcqRel) >= times {
            return reply(200, &seen.text("done"));
        }
        let after = after();
        let headers: Vec<_> = after
            .iter()
            .map(|after| ("retry-after", after.as_str()))
            .collect();
        whole(status, &headers, "come back later")
    })
    .await
}

#[tokio::test]
async fn retry_after_is_honoured() {
    for code in [429, 503] {
        let server = busy(code, 1, || Some("7".to_owned())).await;
        let client = connect(&server.url()).await;
        let answer = calling(&client, "t");
        eventually("the call", || server.of("tools/call").len() == 1).await;
        pass(Duration::from_secs(6)).await;
        assert_eq!(call_count_settled(&server).await, 1, "it was told to wait");
        pass(Duration::from_secs(2)).await;
        assert_eq!(
            in_time("the answer", answer).await.unwrap().unwrap(),
            "done"
        );
        let calls = server.of("tools/call");
        assert_eq!(calls.len(), 2);
        assert_eq!(
            calls[0].connection, calls[1].connection,
            "over the same connection"
        );
        assert_eq!(calls[0].body, calls[1].body);
    }
}

/// The number of calls, once all tasks have run.
async fn call_count_settled(server: &InlineServer) -> usize {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    server.of("tools/call").len()
}

#[tokio::test]
async fn retry_after_may_be_a_date() {
    let server = busy(429, 1, || {
        Some(httpdate::fmt_http_date(
            SystemTime::now() + Duration::from_secs(9),
        ))
    })
    .await;
    let client = connect(&server.url()).await;
    let answer = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(call_count_settled(&server).await, 1);
    pass(Duration::from_secs(5)).await;
    assert_eq!(
        in_time("the answer", answer).await.unwrap().unwrap(),
        "done"
    );
    // A date in the past means now.
    let server = busy(503, 1, || Some("Mon, 16 Nov 2020 10:00:00 GMT".to_owned())).await;
    let client = connect(&server.url()).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn retry_after_is_honoured_three_times() {
    let server = busy(429, 3, || Some("1".to_owned())).await;
    let client = connect(&server.url()).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    let server = busy(429, 4, || Some("0".to_owned())).await;
    let client = connect(&server.url()).await;
    let text = status_of(call(&client, "t").await, 429);
    assert!(text.contains("come back later"), "{text}");
    assert_eq!(server.of("tools/call").len(), 4);
}

#[tokio::test]
async fn a_missing_or_excessive_retry_after_is_an_error() {
    for (code, after) in [
        (429, None),
        (503, None),
        (429, Some("3600")),
        (503, Some("soon")),
    ] {
        let server = busy(code, 1, move || after.map(str::to_owned)).await;
        let client = connect(&server.url()).await;
        let outcome = call(&client, "t").await;
        let error = outcome.as_ref().unwrap_err().clone();
        status_of(outcome, code);
        // A gateway error means that nothing ran; other failures may have run.
        assert_eq!(error.may_have_run(), code == 503, "{code}");
        assert_eq!(server.of("tools/call").len(), 1);
        assert!(!client.peer().is_closed());
    }
}

#[tokio::test]
async fn a_call_waiting_for_a_retry_can_be_cancelled() {
    let server = busy(503, 100, || Some("30".to_owned())).await;
    let client = connect(&server.url()).await;
    let waiting = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    waiting.abort();
    eventually("the word", || {
        server.of("notifications/cancelled").len() == 1
    })
    .await;
    pass(Duration::from_secs(40)).await;
    assert_eq!(call_count_settled(&server).await, 1);
}

#[tokio::test]
async fn retry_after_applies_to_the_handshake() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let server = InlineServer::start(move |seen| {
        if first.swap(false, std::sync::atomic::Ordering::AcqRel) {
            return whole(503, &[("retry-after", "0")], "warming up");
        }
        reply(200, &seen.result(&crate::inline::discovered()))
    })
    .await;
    try_connect(&at(&server.url())).await.unwrap();
    assert_eq!(server.of("server/discover").len(), 2);
}
