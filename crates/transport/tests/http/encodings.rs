//! Compressed bodies.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use trunkline_testkit::net::gzip;
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{InlineServer, ReceivedRequest, Step, Steps, event, reply, status, whole};
use crate::support::{call, connect, delivery_error};

/// A legacy server that answers the tool `t` plainly and others with this response.
async fn answering(
    answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::legacy(move |seen| match seen.body["params"]["name"].as_str() {
        Some("t") => reply(200, &seen.text("done")),
        Some(_) => answer(seen),
        None => status(405),
    })
    .await
}

const PACKED_JSON: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("content-encoding", "gzip"),
];
const PACKED_EVENTS: [(&str, &str); 2] = [
    ("content-type", "text/event-stream"),
    ("content-encoding", "x-gzip"),
];

/// A chunk of a body.
fn chunk(bytes: &[u8]) -> Step {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    Step::Bytes(chunk)
}

fn head(headers: &[(&str, &str)]) -> Step {
    let mut text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n".to_owned();
    for (name, value) in headers {
        text.extend([*name, ": ", *value, "\r\n"]);
    }
    Step::Bytes((text + "\r\n").into_bytes())
}

#[tokio::test]
async fn gzip_responses_are_decompressed() {
    let server = answering(|seen| {
        assert_eq!(seen.header("accept-encoding"), Some("gzip"));
        let text = "x".repeat(100_000);
        match seen.body["params"]["name"].as_str() {
            Some("json") => whole(200, &PACKED_JSON, gzip(seen.text(&text).to_string())),
            Some("json in pieces") => {
                let packed = gzip(seen.text(&text).to_string());
                let mut steps = vec![head(&PACKED_JSON)];
                steps.extend(packed.chunks(7).map(chunk));
                steps.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
                steps
            }
            Some("several packs") => {
                let text = seen.text(&text).to_string();
                let (one, two) = text.as_bytes().split_at(1000);
                whole(200, &PACKED_JSON, [gzip(one), gzip(two)].concat())
            }
            _ => whole(200, &PACKED_EVENTS, gzip(event(&seen.text(&text)))),
        }
    })
    .await;
    let client = connect(&server.url()).await;
    for tool in ["json", "json in pieces", "several packs", "events"] {
        let text = call(&client, tool).await.unwrap();
        assert_eq!(text.len(), 100_000, "{tool}");
    }
    assert!(server.accepted() <= 2, "{}", server.accepted());
}

#[tokio::test]
async fn gzip_events_arrive_as_they_are_flushed() {
    // The response is flushed, and the stream stays open.
    let server = answering(|seen| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(b": hello\n\n").unwrap();
        packer.flush().unwrap();
        let hello = std::mem::take(packer.get_mut());
        packer
            .write_all(event(&seen.text("packed")).as_bytes())
            .unwrap();
        packer.flush().unwrap();
        vec![
            head(&PACKED_EVENTS),
            chunk(&hello),
            chunk(packer.get_ref()),
            Step::Hold,
        ]
    })
    .await;
    let client = connect(&server.url()).await;
    assert_eq!(call(&client, "packed").await.unwrap(), "packed");
}

#[tokio::test]
async fn a_gzip_bomb_is_stopped_at_the_limit() {
    // 256 MB of spaces in 256 KB.
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..256 {
        packer.write_all(&spaces).unwrap();
    }
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 1 << 19, "{}", bomb.len());
    let server = answering(move |seen| match seen.body["params"]["name"].as_str() {
        Some("json") => whole(200, &PACKED_JSON, &bomb),
        _ => whole(200, &PACKED_EVENTS, &bomb),
    })
    .await;
    let client = connect(&server.url()).await;
    for tool in ["json", "events"] {
        let failure = delivery_error(call(&client, tool).await);
        assert_eq!(
            failure.kind,
            DeliveryErrorKind::TooLarge,
            "{tool}: {failure}"
        );
        assert!(failure.may_have_run);
        assert_eq!(call(&client, "t").await.unwrap(), "done");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_decompressed_fails_only_its_own_call() {
    let server = answering(|seen| match seen.body["params"]["name"].as_str() {
        Some("unknown") => {
            let headers = [
                ("content-type", "application/json"),
                ("content-encoding", "br"),
            ];
            whole(200, &headers, "whatever")
        }
        Some("not packed") => whole(200, &PACKED_JSON, seen.text("x").to_string()),
        _ => {
            let packed = gzip(seen.text("x").to_string());
            whole(200, &PACKED_JSON, &packed[..packed.len() / 2])
        }
    })
    .await;
    let client = connect(&server.url()).await;
    for (tool, part) in [
        ("unknown", "unsupported content encoding: \"br\""),
        ("not packed", "cannot be decompressed"),
        ("half", ""),
    ] {
        let failure = delivery_error(call(&client, tool).await);
        assert_eq!(failure.kind, DeliveryErrorKind::Broken, "{tool}: {failure}");
        assert!(failure.to_string().contains(part), "{tool}: {failure}");
        assert!(failure.may_have_run);
        assert_eq!(call(&client, "t").await.unwrap(), "done");
    }
}

#[tokio::test]
async fn long_responses_arrive_whole_with_every_framing() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    let long = "x".repeat(300_000);
    let text = long.clone();
    let server = answering(move |seen| {
        let body = seen.text(&text).to_string();
        let (first, second) = body.as_bytes().split_at(1000);
        match seen.body["params"]["name"].as_str() {
            Some("length") => {
                let mut steps = whole(200, &[JSON], &body);
                let Some(Step::Bytes(all)) = steps.pop() else {
                    return steps;
                };
                // In many chunks.
                all.chunks(7_001)
                    .map(|part| Step::Bytes(part.to_vec()))
                    .collect()
            }
            Some("chunks") => vec![head(&[JSON]), chunk(first), chunk(second), chunk(b"")],
            // Chunks win over a length, and the connection is not reused.
            Some("both") => {
                let head = head(&[JSON, ("content-length", "200000")]);
                vec![head, chunk(first), chunk(second), chunk(b"")]
            }
            _ => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
                vec![
                    Step::Bytes(head.into()),
                    Step::Bytes(body.into_bytes()),
                    Step::Close,
                ]
            }
        }
    })
    .await;
    let client = connect(&server.url()).await;
    for tool in ["length", "chunks", "both", "close", "length"] {
        assert!(call(&client, tool).await.unwrap() == long, "{tool}");
        assert_eq!(call(&client, "t").await.unwrap(), "done", "after {tool}");
    }
    // One for everything, one after "both" and one after "close".
    assert_eq!(server.accepted(), 3);
}
