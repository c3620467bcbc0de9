//! The end of the bridge.

use std::sync::Arc;

use serde_json::json;
use trunkline_transport::sdk::RequestFailure;
use trunkline_wire::peer::DefaultHandler;
use trunkline_wire::transport::CloseReason;
use trunkline_wire::{Json, Peer, RequestError};

use crate::support::{lab, request, requesting, soon};

#[tokio::test]
async fn the_end_of_the_embedding_program_fails_all_requests() {
    let mut lab = lab();
    let (a, b) = (lab.peer("a"), lab.peer("b"));
    let calls = [requesting(&a, "m"), requesting(&b, "m")];
    let bridge = lab.bridge.clone();
    let asking = tokio::spawn(async move { bridge.request(&Json::empty_object()).await });
    for _ in 0..3 {
        lab.embedder.hear().await;
    }
    lab.embedder.ask("a", &json!({"subtype": "x"})).await;
    let inquiry = lab.inquiries.next().await.unwrap();
    drop(lab.embedder);
    for call in calls {
        let outcome = call.await.unwrap();
        let Err(RequestError::Closed { cause, sent: true }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(*cause.reason(), CloseReason::ByPeer);
    }
    assert!(matches!(
        soon(asking).await.unwrap(),
        Err(RequestFailure::Closed(_))
    ));
    soon(inquiry.withdrawn()).await;
    assert!(soon(lab.inquiries.next()).await.is_none());
    assert_eq!(
        *soon(lab.bridge.closed()).await.reason(),
        CloseReason::ByPeer
    );
    // Nothing can be started any more, and nothing hangs.
    let late = Peer::start(lab.bridge.connect("late"), Arc::new(DefaultHandler));
    assert!(matches!(
        request(&late, "m").await,
        Err(RequestError::Closed { .. })
    ));
    assert!(
        soon(lab.bridge.request(&Json::empty_object()))
            .await
            .is_err()
    );
    assert!(
        soon(lab.bridge.send_line(&Json::empty_object()))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_last_line_counts_without_a_newline() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (bridge, mut inquiries) = trunkline_transport::SdkBridge::start(
        std::io::Cursor::new(
            *br#"{"type":"control_request","request_id":1,"request":{"subtype":"x"}}"#,
        ),
        ours,
        |_, _| {},
    );
    let inquiry = soon(inquiries.next()).await.unwrap();
    assert_eq!(inquiry.subtype(), "x");
    soon(bridge.closed()).await;
    drop(theirs);
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_streams() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let bridge = lab.bridge;
    drop((bridge, lab.inquiries));
    // A transport keeps them open.
    let call = requesting(&peer, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
    soon(peer.close()).await;
    drop(peer);
    lab.embedder.hears_the_end().await;
}

#[tokio::test]
async fn a_broken_pipe_closes_the_bridge() {
    let (ours, theirs) = tokio::io::duplex(64);
    // Another handle still holds the other direction open.
    let (still_open, reader) = tokio::io::duplex(64);
    let (bridge, _inquiries) = trunkline_transport::SdkBridge::start(reader, ours, |_, _| {});
    drop(theirs);
    let _ = bridge.send_line(&Json::empty_object()).await;
    let closed = soon(bridge.closed()).await;
    assert!(
        closed
            .to_string()
            .contains("writing to the embedding program failed"),
        "{closed}"
    );
    drop(still_open);
}
