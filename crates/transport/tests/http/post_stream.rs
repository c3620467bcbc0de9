//! Responses as event streams, split anywhere and resumed when they break.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trunkline_wire::client::{Arguments, CallRequest};
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{
    InlineServer, ReceivedRequest, Step, Steps, bytes, event, reply, status, stream, streamed,
};
use crate::support::{
    RecordingHandler, at, call, calling, connect, connect_with, delivery_error, eventually,
    in_time, pass,
};

/// A legacy server without a GET stream; `answer` handles calls and GETs that resume them.
async fn answering(
    answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::legacy(move |seen| match seen.what() {
        "GET" if seen.header("last-event-id").is_none() => status(405),
        "GET" | "tools/call" => answer(seen),
        _ => status(202),
    })
    .await
}

/// The response of a call, for the GET that resumes it.
fn late(seen: &ReceivedRequest, text: &str) -> String {
    let mut answer = seen.text(text);
    answer["id"] = json!(CALL);
    event(&answer)
}

/// The id of the first call, after the probe and the handshake.
const CALL: u64 = 3;

#[tokio::test]
async fn a_streamed_response_is_read_in_every_spelling() {
    let spellings: [fn(&str, &str) -> String; 9] = [
        |first, last| format!("data: {first}\ndata: {last}\n\n"),
        |first, last| format!("data: {first}\rdata: {last}\r\r"),
        |first, last| format!("data: {first}\r\ndata: {last}\r\n\r\n"),
        |first, last| format!("\u{feff}data:{first}\ndata:{last}\n\n"),
        |first, last| format!(": comment\n\n:\ndata: {first}\n: comment\ndata: {last}\n\n"),
        |first, last| format!("event: ping\ndata: {{}}\n\ndata: {first}\ndata: {last}\n\n"),
        |first, last| format!("data\n\ndata:\n\ndata: \n\ndata: {first}\ndata: {last}\n\n"),
        |first, last| format!("event: message\nfield: x\nid: 1\ndata: {first}\ndata: {last}\n\n"),
        |first, last| format!("retry: 5\n\nevent:\ndata: {first}\r\ndata\ndata: {last}\n\n"),
    ];
    let server = answering(move |seen| {
        let name = seen.body["params"]["name"].as_str().unwrap();
        let (spelling, size) = name.split_once(' ').unwrap();
        let answer = seen.text("dóne").to_string();
        // Between two members.
        let (first, last) = answer.split_at(answer.find(",\"result").unwrap() + 1);
        let text = spellings[spelling.parse::<usize>().unwrap()](first, last);
        let mut steps = stream("");
        let pieces = text.as_bytes().chunks(size.parse().unwrap());
        for piece in pieces {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            steps.push(Step::Bytes(chunk));
        }
        steps.push(bytes("0\r\n\r\n"));
        steps
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    for spelling in 0..spellings.len() {
        for size in [1, 2, 3, 7, 1000] {
            let tool = format!("{spelling} {size}");
            assert_eq!(call(&client, &tool).await.unwrap(), "dóne", "{tool}");
        }
    }
    assert!(
        recorder.invalid_messages().is_empty(),
        "{:?}",
        recorder.invalid_messages()
    );
}

#[tokio::test]
async fn a_streamed_response_may_be_split_anywhere() {
    let server = answering(|seen| {
        let name = seen.body["params"]["name"].as_str().unwrap();
        let text = "\u{feff}: c\r\nid: 1\r\n".to_owned() + &event(&seen.text("dóne"));
        let at = name.parse::<usize>().unwrap().min(text.len());
        let (first, last) = text.as_bytes().split_at(at);
        let length = text.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncontent-length: {length}\r\n\r\n");
        let mut start = head.into_bytes();
        start.extend_from_slice(first);
        // The pause separates them.
        vec![Step::Bytes(start), Step::Wait(Duration::from_millis(1)), Step::Bytes(last.to_vec())]
    })
    .await;
    let client = connect(&server.url()).await;
    let length = 120;
    for at in 0..length {
        assert_eq!(
            call(&client, &at.to_string()).await.unwrap(),
            "dóne",
            "{at}"
        );
    }
    // Each was read to its end: one connection served them all.
    assert!(server.accepted() <= 2, "{}", server.accepted());
}

#[tokio::test]
async fn progress_precedes_the_response_and_later_events_are_ignored() {
    let server = answering(|seen| {
        let token = &seen.body["params"]["_meta"]["progressToken"];
        let mut text = String::new();
        for step in 1..=3 {
            let params = json!({"progressToken": token, "progress": step, "total": 3});
            text += &event(
                &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            );
        }
        streamed(
            &(text
                + &event(&seen.text("done"))
                + &event(&seen.text("again"))
                + "data: rubbish\n\n"),
        )
    })
    .await;
    let client = connect(&server.url()).await;
    let mut steps = Vec::new();
    let arguments = Arguments::from(json!({}));
    let request = CallRequest {
        tool: "t",
        arguments: Some(&arguments),
        on_progress: Some(&mut |progress| steps.push(progress.progress)),
        ..CallRequest::default()
    };
    let result = in_time("the call", client.call_tool(request))
        .await
        .unwrap();
    assert_eq!(result.content[0].text().as_deref(), Some("done"));
    assert_eq!(steps, [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn a_broken_stream_with_ids_is_resumed() {
    let breaks: [fn(Steps) -> Steps; 3] = [
        // Cleanly, as servers do that want to be polled.
        |mut steps| {
            steps.push(bytes("0\r\n\r\n"));
            steps
        },
        // In the middle of a chunk.
        |mut steps| {
            steps.extend([bytes("40\r\nid: 2\nda"), Step::Close]);
            steps
        },
        |mut steps| {
            steps.push(Step::Close);
            steps
        },
    ];
    for breaks in breaks {
        let server = answering(move |seen| match seen.header("last-event-id") {
            None => breaks(stream("id: one\nretry: 3000\ndata:\n\n")),
            Some("one") => streamed(&("id: two\n".to_owned() + &late(seen, "late"))),
            Some(other) => panic!("{other}"),
        })
        .await;
        let client = connect(&server.url()).await;
        let answer = calling(&client, "t");
        eventually("the call", || server.of("tools/call").len() == 1).await;
        pass(Duration::from_millis(2500)).await;
        assert_eq!(server.of("GET").len(), 1, "it was told to wait");
        pass(Duration::from_millis(600)).await;
        assert_eq!(
            in_time("the answer", answer).await.unwrap().unwrap(),
            "late"
        );
        assert_eq!(server.of("tools/call").len(), 1, "never called twice");
        assert_eq!(server.of("GET").len(), 2);
        let version = server.of("GET")[1]
            .header("mcp-protocol-version")
            .map(str::to_owned);
        assert_eq!(version.as_deref(), Some("2025-06-18"));
    }
}

#[tokio::test]
async fn a_stream_that_makes_progress_may_break_many_times() {
    let server = answering(|seen| match seen.header("last-event-id") {
        None => streamed("id: 0\nretry: 1\ndata:\n\n"),
        Some("20") => streamed(&late(seen, "at last")),
        Some(id) => streamed(&format!(
            "id: {}\ndata:\n\n",
            id.parse::<u32>().unwrap() + 1
        )),
    })
    .await;
    let client = connect(&server.url()).await;
    let answer = calling(&client, "t");
    while !answer.is_finished() {
        pass(Duration::from_millis(100)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(answer.await.unwrap().unwrap(), "at last");
}

#[tokio::test]
async fn a_stream_without_progress_is_abandoned() {
    let answers: [fn(&ReceivedRequest) -> Steps; 3] =
        [|_| streamed(""), |_| status(500), |_| vec![Step::Close]];
    for (n, answer) in answers.into_iter().enumerate() {
        let server = answering(move |seen| match seen.header("last-event-id") {
            None => streamed("id: 1\nretry: 1\ndata:\n\n"),
            Some(_) => answer(seen),
        })
        .await;
        let client = connect(&server.url()).await;
        let failed = calling(&client, "t");
        while !failed.is_finished() {
            pass(Duration::from_secs(1)).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let failure = delivery_error(failed.await.unwrap());
        assert_eq!(failure.kind, DeliveryErrorKind::Broken, "{n}");
        assert!(failure.may_have_run, "{n}");
        assert_eq!(
            server.of("GET").len(),
            6,
            "{n}: one in vain at the start, five for the rest"
        );
        assert!(!client.peer().is_closed());
    }
}

#[tokio::test]
async fn a_server_that_refuses_to_resume_is_asked_once() {
    let server = answering(|seen| match seen.header("last-event-id") {
        None => streamed("id: 1\nretry: 1\ndata:\n\n"),
        Some(_) => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    let failed = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    pass(Duration::from_secs(2)).await;
    let failure = delivery_error(in_time("the error", failed).await.unwrap());
    assert!(failure.to_string().contains("405"), "{failure}");
    assert!(failure.may_have_run);
    assert_eq!(server.of("GET").len(), 2);
}

#[tokio::test]
async fn a_broken_stream_without_ids_may_have_run() {
    let answers: [fn(&ReceivedRequest) -> Steps; 4] = [
        |_| streamed(""),
        |_| streamed(": nothing\n\ndata:\n\n"),
        |_| {
            let mut steps = stream("data: {\"jsonrpc\"");
            steps.push(Step::Close);
            steps
        },
        |seen| {
            // Half of the response: an event ends with a blank line.
            let mut steps = stream(event(&seen.text("done")).trim_end());
            steps.push(bytes("0\r\n\r\n"));
            steps
        },
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let server = answering(answer).await;
        let client = connect(&server.url()).await;
        let failure = delivery_error(call(&client, "t").await);
        assert_eq!(failure.kind, DeliveryErrorKind::Broken, "{n}");
        assert!(failure.may_have_run, "{n}");
        assert_eq!(server.of("GET").len(), 1, "{n}");
        assert!(!client.peer().is_closed());
    }
}

#[tokio::test]
async fn a_modern_stream_is_never_resumed() {
    let server = InlineServer::modern(|seen| match seen.what() {
        "tools/call" => streamed("id: 1\nretry: 1\ndata:\n\n"),
        _ => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    let failure = delivery_error(call(&client, "t").await);
    assert!(failure.may_have_run);
    assert!(server.of("GET").is_empty());
}

#[tokio::test]
async fn a_response_to_another_request_does_not_count() {
    let server = answering(|seen| {
        let mut wrong = seen.text("not yours");
        wrong["id"] = json!(99);
        if seen.body["params"]["name"] == "json" {
            reply(200, &wrong)
        } else {
            streamed(&event(&wrong))
        }
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    for tool in ["json", "sse"] {
        let failure = delivery_error(call(&client, tool).await);
        assert_eq!(failure.kind, DeliveryErrorKind::Broken);
        assert!(failure.may_have_run);
    }
    assert_eq!(recorder.invalid_messages().len(), 2);
}

#[tokio::test]
async fn a_message_on_many_lines_is_not_noise() {
    let server = InlineServer::modern(|seen| {
        let answer = seen.text("done").to_string();
        let lines = "data:\n".repeat(100_000);
        let rest = answer.strip_prefix('{').unwrap();
        streamed(&format!("data: {{\n{lines}data: {rest}\n\n"))
    })
    .await;
    let client = connect(&server.url()).await;
    for _ in 0..2 {
        assert_eq!(call(&client, "t").await.unwrap(), "done");
    }
    assert_eq!(server.of("server/discover").len(), 1);
}
