//! Responses over the limit (SEC-4).

use trunkline_transport::MAX_MESSAGE_BYTES;
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{InlineServer, Step, bytes, chunk, reply, status, stream};
use crate::support::{call, calling, connect, delivery_error, eventually, in_time};

const PIECE: usize = 1 << 20;

/// Just more than a message may have, in chunks.
fn too_much() -> impl Iterator<Item = Step> {
    let mut chunk = format!("{PIECE:x}\r\n").into_bytes();
    chunk.extend_from_slice(&vec![b'x'; PIECE]);
    chunk.extend_from_slice(b"\r\n");
    std::iter::repeat_n(Step::Bytes(chunk), MAX_MESSAGE_BYTES / PIECE + 1)
}

#[tokio::test]
async fn a_response_over_the_limit_fails_only_its_own_call() {
    let server = InlineServer::legacy(|seen| {
        let start = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#;
        match seen.body["params"]["name"].as_str() {
            Some("t") => reply(200, &seen.text("done")),
            Some("slow") => {
                let mut steps = stream(": wait\n\n");
                steps.push(Step::Hold);
                steps
            }
            Some("length") => {
                let length = MAX_MESSAGE_BYTES + 1;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
                );
                vec![bytes(head), bytes(start), Step::Hold]
            }
            Some("chunked") => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut steps = vec![bytes(head), bytes(chunk(start))];
                steps.extend(too_much());
                steps.push(Step::Hold);
                steps
            }
            Some("event") => {
                let mut steps = stream(&format!("data: {start}"));
                steps.extend(too_much());
                steps.push(Step::Hold);
                steps
            }
            Some("lines") => {
                let mut steps = stream(&format!("data: {start}"));
                for piece in too_much() {
                    steps.extend([piece, bytes(chunk("\ndata: "))]);
                }
                steps.push(Step::Hold);
                steps
            }
            _ => status(405),
        }
    })
    .await;
    let client = connect(&server.url()).await;
    let slow = calling(&client, "slow");
    for tool in ["length", "chunked", "event", "lines"] {
        let failure = delivery_error(call(&client, tool).await);
        assert_eq!(
            failure.kind,
            DeliveryErrorKind::TooLarge,
            "{tool}: {failure}"
        );
        assert!(failure.to_string().contains("67108864"), "{failure}");
        assert!(failure.may_have_run);
        assert_eq!(call(&client, "t").await.unwrap(), "done", "after {tool}");
    }
    assert!(!slow.is_finished());
    in_time("closing", client.peer().close()).await;
    eventually("every connection to end", || server.open() == 0).await;
}

#[tokio::test]
async fn a_response_just_below_the_limit_arrives() {
    let server = InlineServer::legacy(|seen| {
        let name = seen.body["params"]["name"].as_str();
        let overhead = seen.text("").to_string().len();
        let text = || {
            seen.text(&"x".repeat(MAX_MESSAGE_BYTES - overhead))
                .to_string()
        };
        match name {
            Some("json") => {
                crate::inline::whole(200, &[("content-type", "application/json")], text())
            }
            Some(_) => crate::inline::streamed(&format!("data: {}\n\n", text())),
            None => status(405),
        }
    })
    .await;
    let client = connect(&server.url()).await;
    for tool in ["json", "event"] {
        assert!(call(&client, tool).await.unwrap().len() > MAX_MESSAGE_BYTES - 1000);
    }
}

#[tokio::test]
async fn an_endless_head_is_an_error() {
    let server = InlineServer::legacy(|seen| match seen.body["params"]["name"].as_str() {
        Some("t") => reply(200, &seen.text("done")),
        Some("long") => {
            let line = format!("x-padding: {}\r\n", "x".repeat(8000));
            vec![
                bytes("HTTP/1.1 200 OK\r\n"),
                bytes(line.repeat(100)),
                Step::Hold,
            ]
        }
        Some("many") => {
            let lines = "x: y\r\n".repeat(20_000);
            vec![bytes("HTTP/1.1 200 OK\r\n"), bytes(lines), Step::Hold]
        }
        Some(_) => vec![bytes("SSH-2.0-OpenSSH_9.6\r\n"), Step::Hold],
        None => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    for tool in ["long", "many", "no http"] {
        let failure = delivery_error(call(&client, tool).await);
        assert_eq!(failure.kind, DeliveryErrorKind::Broken, "{tool}: {failure}");
        assert!(failure.may_have_run);
        assert_eq!(call(&client, "t").await.unwrap(), "done", "after {tool}");
    }
}
