//! Closing a link.

use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use trunkline_wire::transport::{CloseReason, Closed, Incoming, ReceiveHalf, SendHalf, Transport};

use crate::server::{message, pair, soon};

/// The reason for the end of the link.
async fn end(receiver: &mut impl ReceiveHalf) -> Closed {
    loop {
        match soon(receiver.receive()).await {
            Ok(Incoming::Partial { .. } | Incoming::Noise { .. }) => {}
            ended => return ended.unwrap_err(),
        }
    }
}

#[tokio::test]
async fn closing_sends_a_close_frame() {
    let (transport, mut server) = pair().await;
    let (sender, mut receiver) = transport.split();
    let reader = tokio::spawn(async move { end(&mut receiver).await });
    let hearing = async {
        let told = server.next().await.unwrap().unwrap();
        assert!(server.next().await.is_none());
        told
    };
    let (told, ()) = tokio::join!(soon(hearing), soon(sender.close()));
    let Message::Close(Some(frame)) = told else {
        panic!("{told:?}")
    };
    assert_eq!(frame.code, CloseCode::Normal);
    let closed = soon(reader).await.unwrap();
    assert_eq!(*closed.reason(), CloseReason::ByPeer);
}

#[tokio::test]
async fn the_close_frame_of_the_server_is_reported() {
    let cases = [
        (None, "the server closed the connection"),
        (Some((1000, "")), "the server closed the connection"),
        (
            Some((1000, "enough")),
            "the connection broke: the server closed it with status 1000: enough",
        ),
        (
            Some((1011, "out of \u{7}soup")),
            "the connection broke: the server closed it with status 1011: out of soup",
        ),
        (
            Some((4401, "")),
            "the connection broke: the server closed it with status 4401",
        ),
    ];
    for (farewell, expected) in cases {
        let (transport, mut server) = pair().await;
        let (sender, mut receiver) = transport.split();
        let frame = farewell.map(|(code, reason)| CloseFrame {
            code: CloseCode::from(code),
            reason: reason.into(),
        });
        server.send(Message::Close(frame)).await.unwrap();
        assert_eq!(end(&mut receiver).await.to_string(), expected);
        // It gets a Close frame, and the link ends immediately.
        let answered = tokio::spawn(async move { server.next().await });
        soon(sender.close()).await;
        let answer = soon(answered).await.unwrap();
        assert!(matches!(answer, Some(Ok(Message::Close(_)))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_noticed_immediately() {
    let (transport, server) = pair().await;
    let (sender, mut receiver) = transport.split();
    drop(server);
    let closed = end(&mut receiver).await;
    let expected = "the connection broke: the server closed it without a Close frame";
    assert_eq!(closed.to_string(), expected);
    soon(sender.close()).await;

    let (transport, server) = pair().await;
    let (_sender, mut receiver) = transport.split();
    server.get_ref().set_zero_linger().unwrap();
    drop(server);
    let closed = end(&mut receiver).await.to_string();
    let start = "the connection broke: reading from the server failed: ";
    assert!(closed.starts_with(start), "{closed}");
}

#[tokio::test]
async fn writing_to_a_server_that_is_gone_fails() {
    let (transport, server) = pair().await;
    let (mut sender, _receiver) = transport.split();
    server.get_ref().set_zero_linger().unwrap();
    drop(server);
    let failing = async {
        loop {
            if let Err(closed) = sender.send(&mut vec![message(100).0]).await {
                break closed;
            }
            tokio::task::yield_now().await;
        }
    };
    let closed = soon(failing).await.to_string();
    assert!(closed.contains("writing to the server failed"), "{closed}");
}

#[tokio::test]
async fn a_protocol_violation_is_answered_with_status_1002() {
    let (transport, mut server) = pair().await;
    let (sender, mut receiver) = transport.split();
    server.get_mut().write_all(b"\xff\x00").await.unwrap();
    let closed = end(&mut receiver).await.to_string();
    assert!(closed.contains("broke the WebSocket protocol"), "{closed}");
    let told = tokio::spawn(async move { server.next().await });
    soon(sender.close()).await;
    let Some(Ok(Message::Close(Some(frame)))) = soon(told).await.unwrap() else {
        panic!("no Close frame")
    };
    assert_eq!(frame.code, CloseCode::Protocol);
}

#[tokio::test]
async fn dropping_the_sending_half_closes_the_connection() {
    let (transport, mut server) = pair().await;
    let (sender, receiver) = transport.split();
    drop(sender);
    assert!(soon(server.next()).await.unwrap().is_err());
    drop(receiver);
}
