//! Pings, silence and closing, on a paused clock and in-memory streams: real I/O would not advance
//! with the clock.

use futures_util::{SinkExt, StreamExt};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::time::{Instant, advance, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Message, protocol::Role};
use trunkline_wire::transport::{Closed, Incoming, Outgoing, ReceiveHalf, SendHalf};

use super::*;

type Server = WebSocketStream<DuplexStream>;
type Sender = WsSender<WriteHalf<DuplexStream>>;
type Receiver = WsReceiver<ReadHalf<DuplexStream>>;

/// A link with buffers of `bytes` in each direction.
async fn pair(bytes: usize) -> (Sender, Receiver, Server) {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (read, write) = tokio::io::split(ours);
    let frames = FrameDecoder::new(MAX_MESSAGE_BYTES, bytes::BytesMut::new());
    let (sender, receiver) = split_stream(read, write, frames);
    let server = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
    (sender, receiver, server)
}

/// Receives until the link closes.
fn drain(mut receiver: Receiver) -> tokio::task::JoinHandle<Closed> {
    tokio::spawn(async move {
        loop {
            if let Err(closed) = receiver.receive().await {
                return closed;
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_quiet_server_that_sends_pongs_stays_connected() {
    let (_sender, receiver, mut server) = pair(1024).await;
    let reader = drain(receiver);
    let mut pings = 0;
    // Reading is enough to answer them.
    let listening = async {
        while let Some(Ok(message)) = server.next().await {
            pings += usize::from(message.is_ping());
        }
    };
    let hour = Duration::from_hours(1);
    assert!(timeout(hour, listening).await.is_err());
    assert!(!reader.is_finished());
    assert_eq!(pings, 179);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_no_pongs_times_out() {
    let (_sender, receiver, _server) = pair(1024).await;
    let began = Instant::now();
    let closed = drain(receiver).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), SILENCE_TIMEOUT.as_secs());
    assert_eq!(
        closed.to_string(),
        "the connection broke: no data for 40 s, not even a pong"
    );
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_from_the_last_bytes() {
    let (_sender, receiver, mut server) = pair(1024).await;
    let reader = drain(receiver);
    advance(Duration::from_secs(30)).await;
    server.send(Message::text("x")).await.unwrap();
    let heard = Instant::now();
    reader.await.unwrap();
    assert_eq!(heard.elapsed().as_secs(), SILENCE_TIMEOUT.as_secs());
}

/// The next incoming item except partial messages.
async fn next(receiver: &mut impl ReceiveHalf) -> Incoming {
    loop {
        match receiver.receive().await.unwrap() {
            Incoming::Partial { .. } | Incoming::Noise { .. } => {}
            other => return other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_reports_activity() {
    let (_sender, mut receiver, mut server) = pair(1024).await;
    let part = |text: &'static str, kind, last| {
        Message::Frame(Frame::message(text, OpCode::Data(kind), last))
    };
    for _ in 0..3 {
        server.send(part("a", Data::Text, false)).await.unwrap();
        let nothing = timeout(Duration::from_millis(900), next(&mut receiver)).await;
        assert!(nothing.is_err());
        advance(Duration::from_millis(200)).await;
        server.send(part("b", Data::Continue, false)).await.unwrap();
        let alive = next(&mut receiver).await;
        assert!(
            matches!(alive, Incoming::Activity { to: None }),
            "{alive:?}"
        );
        server.send(part("c", Data::Continue, true)).await.unwrap();
        let whole = next(&mut receiver).await;
        assert!(
            matches!(&whole, Incoming::Frame(text) if text == "abc"),
            "{whole:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn small_fragments_are_not_noise_and_empty_ones_are() {
    const PARTS: usize = 1000;
    for (text, noise) in [("a", 0), ("", 1000)] {
        let (_sender, mut receiver, mut server) = pair(64 * 1024).await;
        let part = |text: &'static str, kind, last| {
            Message::Frame(Frame::message(text, OpCode::Data(kind), last))
        };
        server.feed(part("x", Data::Text, false)).await.unwrap();
        for _ in 0..PARTS {
            server
                .feed(part(text, Data::Continue, false))
                .await
                .unwrap();
        }
        server.feed(part("x", Data::Continue, true)).await.unwrap();
        server.flush().await.unwrap();
        let mut found = 0;
        let whole = loop {
            match receiver.receive().await.unwrap() {
                Incoming::Noise { frames, .. } => found += frames,
                Incoming::Frame(whole) => break whole,
                _ => {}
            }
        };
        assert_eq!(whole.len(), 2 + PARTS * text.len());
        assert_eq!(found, noise);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_of_many_pings_gets_a_pong() {
    let (_sender, receiver, mut server) = pair(64 * 1024).await;
    for number in 0..1000 {
        let ping = Message::Ping(format!("{number}").into());
        server.feed(ping).await.unwrap();
    }
    server.flush().await.unwrap();
    let _reader = drain(receiver);
    let answer = server.next().await.unwrap().unwrap();
    assert_eq!(answer, Message::Pong("999".into()));
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_long_for_a_close_frame() {
    let (sender, receiver, mut server) = pair(1024).await;
    let _reader = drain(receiver);
    let began = Instant::now();
    sender.close().await;
    assert_eq!(began.elapsed(), CLOSE_GRACE);
    // The Close frame was sent all the same.
    let told = server.next().await.unwrap().unwrap();
    let Message::Close(Some(frame)) = told else {
        panic!("{told:?}")
    };
    assert_eq!(u16::from(frame.code), NORMAL);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_with_the_close_frame_of_the_server() {
    let (sender, receiver, mut server) = pair(1024).await;
    let reader = drain(receiver);
    let answering = tokio::spawn(async move { while server.next().await.is_some() {} });
    let began = Instant::now();
    sender.close().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    reader.await.unwrap();
    answering.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_server_that_stopped_reading() {
    let (mut sender, receiver, _server) = pair(64).await;
    let _reader = drain(receiver);
    let mut batch = vec![long_message()];
    let sent = timeout(Duration::from_secs(1), sender.send(&mut batch)).await;
    assert!(sent.is_err());
    let began = Instant::now();
    sender.close().await;
    assert_eq!(began.elapsed(), CLOSE_GRACE);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_message_is_completed_before_the_next() {
    let (mut sender, receiver, mut server) = pair(64).await;
    let _reader = drain(receiver);
    let mut batch = vec![long_message()];
    let sent = timeout(Duration::from_secs(1), sender.send(&mut batch)).await;
    assert!(sent.is_err());
    let heard = tokio::spawn(async move {
        let mut heard = Vec::new();
        while let Some(Ok(message)) = server.next().await {
            heard.push(message);
        }
        heard
    });
    sender.close().await;
    let heard = heard.await.unwrap();
    let mut expected = Vec::new();
    long_message().encode(&mut expected);
    let [message, Message::Close(_)] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!(message.to_text().unwrap().as_bytes(), expected);
}

fn long_message() -> Outgoing {
    let params = format!(r#"{{"long":"{}"}}"#, "x".repeat(10_000));
    Outgoing::Notification {
        method: "n",
        params: Some(trunkline_wire::Json::parse(params).unwrap()),
        version: None,
    }
}
