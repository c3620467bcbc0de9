//! Messages.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use trunkline_transport::MAX_MESSAGE_BYTES;
use trunkline_wire::peer::{Handler, RequestOptions};
use trunkline_wire::transport::{Incoming, ReceiveHalf, SendHalf, Transport};
use trunkline_wire::{Json, Peer};

use crate::server::{message, pair, soon, text};

const SIZES: [usize; 9] = [
    1, 125, 126, 127, 65_535, 65_536, 1_000_000, 5_000_000, 20_000_000,
];

#[tokio::test]
async fn messages_of_every_size_arrive() {
    let (transport, mut server) = pair().await;
    let (_sender, mut receiver) = transport.split();
    for (index, size) in SIZES.into_iter().enumerate() {
        let said = "y".repeat(size);
        let message = if index % 2 == 0 {
            Message::text(said.clone())
        } else {
            Message::binary(said.clone())
        };
        let (sent, heard) = tokio::join!(server.send(message), text(&mut receiver));
        sent.unwrap();
        assert!(heard == said, "{size}");
    }
}

#[tokio::test]
async fn messages_of_every_size_are_sent() {
    let (transport, mut server) = pair().await;
    let (mut sender, _receiver) = transport.split();
    for size in SIZES {
        let (message, said) = message(size);
        let mut batch = vec![message];
        let (sent, heard) = tokio::join!(sender.send(&mut batch), server.next());
        sent.unwrap();
        let heard = heard.unwrap().unwrap();
        assert!(
            heard.is_text() && heard.to_text().unwrap() == said,
            "{size}"
        );
        assert!(batch.is_empty());
    }
}

#[tokio::test]
async fn a_batch_arrives_in_order() {
    let (transport, mut server) = pair().await;
    let (mut sender, _receiver) = transport.split();
    let (mut batch, said): (Vec<_>, Vec<_>) = (0..1000).map(|n| message(n * 3)).unzip();
    let hearing = async {
        for said in said {
            let heard = server.next().await.unwrap().unwrap();
            assert_eq!(heard.to_text().unwrap(), said);
        }
    };
    let (sent, ()) = tokio::join!(sender.send(&mut batch), soon(hearing));
    sent.unwrap();
}

#[tokio::test]
async fn a_fragmented_message_is_joined_around_a_ping() {
    let (transport, mut server) = pair().await;
    let (_sender, mut receiver) = transport.split();
    let reader = tokio::spawn(async move {
        let heard = text(&mut receiver).await;
        (heard, receiver)
    });
    let part = |text: &'static str, kind, last| {
        Message::Frame(Frame::message(text, OpCode::Data(kind), last))
    };
    server.send(part("one, ", Data::Text, false)).await.unwrap();
    server.send(Message::Ping("here?".into())).await.unwrap();
    let answer = soon(server.next()).await.unwrap().unwrap();
    assert_eq!(answer, Message::Pong("here?".into()));
    server.send(part("", Data::Continue, false)).await.unwrap();
    server
        .send(part("two", Data::Continue, true))
        .await
        .unwrap();
    assert_eq!(soon(reader).await.unwrap().0, "one, two");
}

#[tokio::test]
async fn a_message_over_the_limit_is_skipped_and_the_next_one_intact() {
    let (transport, mut server) = pair().await;
    let (_sender, mut receiver) = transport.split();
    let size = MAX_MESSAGE_BYTES + 5;
    let said = format!("HEAD{}TAIL", "z".repeat(size - 8));
    let sending = async {
        server.send(Message::text(said)).await.unwrap();
        server.send(Message::text("next")).await.unwrap();
    };
    let hearing = async {
        loop {
            match soon(receiver.receive()).await.unwrap() {
                Incoming::Activity { .. } | Incoming::Partial { .. } | Incoming::Noise { .. } => {}
                other => break other,
            }
        }
    };
    let (heard, ()) = tokio::join!(hearing, sending);
    let Incoming::Oversize {
        bytes,
        limit,
        head,
        tail,
    } = heard
    else {
        panic!("{heard:?}")
    };
    assert_eq!((bytes, limit), (size as u64, MAX_MESSAGE_BYTES));
    assert!(head.starts_with(b"HEAD") && tail.ends_with(b"TAIL"));
    assert_eq!(text(&mut receiver).await, "next");
}

struct Nobody;

impl Handler for Nobody {}

#[tokio::test]
async fn concurrent_requests_are_answered_and_the_link_closes_cleanly() {
    let (transport, server) = pair().await;
    let answering = tokio::spawn(async move {
        let (mut out, mut incoming) = server.split();
        let mut last = None;
        while let Some(Ok(message)) = incoming.next().await {
            if let Message::Text(text) = &message {
                let request: serde_json::Value = serde_json::from_str(text).unwrap();
                let answer = serde_json::json!({
                    "jsonrpc": "2.0", "id": request["id"], "result": request["params"],
                });
                out.send(Message::text(answer.to_string())).await.unwrap();
            }
            last = Some(message);
        }
        last
    });
    let peer = Peer::start(transport, Arc::new(Nobody));
    let calls: Vec<_> = (0..500)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move {
                let params = Json::parse(format!(r#"{{"n":{number}}}"#)).unwrap();
                let options = RequestOptions::default();
                let result = peer.request("echo", params.clone(), options).await;
                assert_eq!(result.unwrap().as_str(), params.as_str());
            })
        })
        .collect();
    for call in calls {
        soon(call).await.unwrap();
    }
    soon(peer.close()).await;
    let last = soon(answering).await.unwrap();
    assert!(matches!(last, Some(Message::Close(Some(_)))), "{last:?}");
}
