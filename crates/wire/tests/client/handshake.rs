//! Era detection and version negotiation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_wire::Client;
use trunkline_wire::client::{ConnectError, ConnectOptions, PROBE_TIMEOUT, ReadCheck};
use trunkline_wire::transport::{CloseReason, Closed};
use trunkline_wire::version::{Era, LEGACY, MODERN};

use crate::harness::{
    assert_modern, discover_result, finish_legacy_handshake, initialize_result, method_not_found,
    options, start, unsupported,
};
use crate::support::{Wire, settle};

fn died() -> Closed {
    Closed::new(CloseReason::Exited {
        code: Some(1),
        signal: None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_connected_by_the_probe() {
    let (connecting, mut wire) = start(options());
    let (id, params) = wire.request("server/discover").await;
    assert_modern(&params);
    wire.answer(id, discover_result());
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(client.era(), Era::Modern);
    let identity = client.identity();
    assert_eq!(identity.protocol_version, MODERN[0]);
    assert_eq!(identity.info.as_ref().unwrap().name, "modern");
    assert_eq!(identity.instructions.as_deref(), Some("be kind"));
    assert!(identity.capabilities.tools && identity.capabilities.list_changed[0]);
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn any_other_response_to_the_probe_means_legacy() {
    let answers = [
        ("error", method_not_found()),
        (
            "error",
            json!({"code": -32600, "message": "initialize first"}),
        ),
        ("error", json!({"code": -32602, "message": "bad params"})),
        ("error", json!({"code": 0, "message": ""})),
        ("error", json!("text")),
        ("error", Value::Null),
        ("error", unsupported(&[LEGACY[1]])),
        ("error", unsupported(&[])),
        ("error", json!({"code": -32022, "message": "no data"})),
        ("result", json!({})),
        ("result", Value::Null),
        ("result", json!({"supportedVersions": "2026-07-28"})),
        (
            "result",
            json!({"supportedVersions": [LEGACY[1], LEGACY[2]]}),
        ),
    ];
    for (member, answer) in answers {
        let (connecting, mut wire) = start(options());
        let (id, _) = wire.request("server/discover").await;
        wire.feed(json!({"id": id, member: answer}).to_string());
        let client = finish_legacy_handshake(&mut wire, connecting).await;
        assert_eq!(client.identity().info.as_ref().unwrap().name, "legacy");
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn initialize_follows_an_unanswered_probe() {
    let (connecting, mut wire) = start(options());
    let started = Instant::now();
    let (probe, _) = wire.request("server/discover").await;
    settle().await;
    wire.assert_nothing_sent();
    let client = finish_legacy_handshake(&mut wire, connecting).await;
    assert!(started.elapsed() >= PROBE_TIMEOUT);
    assert!(started.elapsed() < PROBE_TIMEOUT + Duration::from_secs(1));
    wire.cancellation_of(probe).await;
    // The late response to the probe changes nothing.
    wire.answer(probe, discover_result());
    settle().await;
    assert!(!client.peer().is_closed());
    wire.assert_nothing_sent();
}

/// Sends these responses in order, after both the probe and `initialize` were sent.
async fn respond_late(answers: &[(&str, &str, Value)]) -> (Result<Client, ConnectError>, Wire) {
    let (connecting, mut wire) = start(options());
    let (probe, _) = wire.request("server/discover").await;
    let (hello, _) = wire.request("initialize").await;
    for (to, member, answer) in answers {
        let id = if *to == "probe" { probe } else { hello };
        wire.feed(json!({"id": id, *member: answer}).to_string());
        settle().await;
    }
    let connected = tokio::time::timeout(Duration::from_mins(1), connecting).await;
    (connected.expect("a verdict").unwrap(), wire)
}

#[tokio::test(start_paused = true)]
async fn the_first_late_response_wins_in_either_order() {
    let probe = |member, answer| ("probe", member, answer);
    let hello = |member, answer| ("hello", member, answer);
    let cases = [
        (
            "late discovery",
            vec![probe("result", discover_result())],
            Era::Modern,
        ),
        (
            "late greeting",
            vec![hello("result", initialize_result(LEGACY[0]))],
            Era::Legacy,
        ),
        (
            "the probe refused, then the greeting",
            vec![
                probe("error", method_not_found()),
                hello("result", initialize_result(LEGACY[0])),
            ],
            Era::Legacy,
        ),
        (
            "initialize refused, then the discovery",
            vec![
                hello("error", unsupported(MODERN)),
                probe("result", discover_result()),
            ],
            Era::Modern,
        ),
        (
            "the discovery, then a refusal nobody waits for",
            vec![
                probe("result", discover_result()),
                hello("error", method_not_found()),
            ],
            Era::Modern,
        ),
    ];
    for (what, answers, era) in cases {
        let (connected, mut wire) = respond_late(&answers).await;
        assert_eq!(connected.unwrap().era(), era, "{what}");
        settle().await;
        while let Some(message) = wire.try_sent() {
            assert_eq!(era, Era::Legacy, "{what}: {message}");
            assert_eq!(message["id"], Value::Null, "{what}: no third request");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn if_both_are_rejected_the_error_is_that_of_initialize() {
    let refusal = json!({"code": -1, "message": "go away"});
    let orders = [
        [
            ("probe", "error", method_not_found()),
            ("hello", "error", refusal.clone()),
        ],
        [
            ("hello", "error", refusal),
            ("probe", "error", method_not_found()),
        ],
    ];
    for answers in orders {
        let error = respond_late(&answers).await.0.err().unwrap();
        assert_eq!(error.to_string(), "go away (error -1)");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_after_the_probe_is_a_distinct_error() {
    let (connecting, mut wire) = start(options());
    wire.request("server/discover").await;
    wire.end(died());
    let error = connecting.await.unwrap().err().unwrap();
    assert!(
        matches!(error, ConnectError::ClosedDuringProbe(_)),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the server's process exited with status 1"
    );
}

/// LIF-5: a server that exits because of the probe can still be connected. A slow one reads the
/// probe only after `initialize` was sent.
#[tokio::test(start_paused = true)]
async fn an_exit_after_the_probe_and_a_slow_start_is_a_distinct_error() {
    let (connecting, mut wire) = start(options());
    wire.request("server/discover").await;
    wire.request("initialize").await;
    wire.end(died());
    let error = connecting.await.unwrap().err().unwrap();
    assert!(
        matches!(error, ConnectError::ClosedDuringProbe(_)),
        "{error:?}"
    );
}

/// LIF-5: a server that would read both at once could die of either.
#[tokio::test(start_paused = true)]
async fn initialize_waits_until_the_probe_is_read() {
    let read = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&read);
    let (connecting, mut wire) = start(ConnectOptions {
        read_check: Some(ReadCheck::new(move || check.load(Ordering::Relaxed))),
        ..options()
    });
    wire.request("server/discover").await;
    let started = Instant::now();
    let slow_start = 5 * PROBE_TIMEOUT;
    tokio::spawn(async move {
        tokio::time::sleep(slow_start).await;
        read.store(true, Ordering::Relaxed);
    });
    wire.request("initialize").await;
    let waited = started.elapsed();
    assert!(
        waited > slow_start && waited < slow_start + PROBE_TIMEOUT,
        "{waited:?}"
    );
    connecting.abort();
}

#[tokio::test(start_paused = true)]
async fn an_exit_after_a_rejected_probe_is_a_distinct_error() {
    let (connecting, mut wire) = start(options());
    let (id, _) = wire.request("server/discover").await;
    wire.refuse(id, method_not_found());
    wire.request("initialize").await;
    wire.end(died());
    let error = connecting.await.unwrap().err().unwrap();
    assert!(
        matches!(error, ConnectError::ClosedDuringProbe(_)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejected_version_is_retried_once_with_a_common_one() {
    let (connecting, mut wire) = start(options());
    let (first, _) = wire.request("server/discover").await;
    wire.refuse(first, unsupported(&["2027-01-01", MODERN[0]]));
    let (second, params) = wire.request("server/discover").await;
    assert_ne!(first, second);
    assert_modern(&params);
    wire.answer(second, discover_result());
    assert_eq!(connecting.await.unwrap().unwrap().era(), Era::Modern);

    let (connecting, mut wire) = start(options());
    for _ in 0..2 {
        let (id, _) = wire.request("server/discover").await;
        wire.refuse(id, unsupported(MODERN));
    }
    assert!(connecting.await.unwrap().is_err(), "not for ever");
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn no_common_version_is_an_error_with_the_offered_versions() {
    let expected = "the server speaks none of our protocol versions, only 2027-01-01, 2028-01-01";
    let theirs = ["2027-01-01", "2028-01-01"];
    for (member, answer) in [
        ("error", unsupported(&theirs)),
        (
            "result",
            json!({"supportedVersions": theirs, "capabilities": {}}),
        ),
    ] {
        let (connecting, mut wire) = start(options());
        let (id, _) = wire.request("server/discover").await;
        wire.feed(json!({"id": id, member: answer}).to_string());
        let error = connecting.await.unwrap().err().unwrap();
        assert_eq!(error.to_string(), expected);
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn the_response_to_initialize_must_have_a_supported_version() {
    let cases = [
        (
            json!({"protocolVersion": "1999-01-01", "capabilities": {}}),
            "the server speaks none of our protocol versions, only 1999-01-01",
        ),
        (
            json!({"capabilities": {}}),
            "invalid response from the server: it names no protocol version",
        ),
        (
            json!({"protocolVersion": 5}),
            "invalid response from the server: it names no protocol version",
        ),
        (
            Value::Null,
            "invalid response from the server: it names no protocol version",
        ),
    ];
    for (answer, expected) in cases {
        let (connecting, mut wire) = start(ConnectOptions {
            legacy_only: true,
            ..options()
        });
        let (id, _) = wire.request("initialize").await;
        wire.answer(id, answer);
        let error = connecting.await.unwrap().err().unwrap();
        assert_eq!(error.to_string(), expected);
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn every_legacy_version_is_accepted() {
    for version in LEGACY {
        let (connecting, mut wire) = start(ConnectOptions {
            skip_probe: true,
            ..options()
        });
        let (id, _) = wire.request("initialize").await;
        wire.answer(id, initialize_result(version));
        let client = connecting.await.unwrap().unwrap();
        assert_eq!(client.identity().protocol_version, *version);
    }
}

#[tokio::test(start_paused = true)]
async fn a_known_legacy_server_is_not_probed_unless_it_rejects_initialize() {
    let skip = || ConnectOptions {
        skip_probe: true,
        ..options()
    };
    let (connecting, mut wire) = start(skip());
    finish_legacy_handshake(&mut wire, connecting).await;
    settle().await;
    wire.assert_nothing_sent();

    let (connecting, mut wire) = start(skip());
    let (id, _) = wire.request("initialize").await;
    wire.refuse(id, unsupported(MODERN));
    let (id, _) = wire.request("server/discover").await;
    wire.answer(id, discover_result());
    assert_eq!(connecting.await.unwrap().unwrap().era(), Era::Modern);

    let (connecting, mut wire) = start(skip());
    let (id, _) = wire.request("initialize").await;
    wire.refuse(id, json!({"code": -1, "message": "go away"}));
    let (id, _) = wire.request("server/discover").await;
    wire.refuse(id, method_not_found());
    let error = connecting.await.unwrap().err().unwrap();
    assert_eq!(error.to_string(), "go away (error -1)");
}

#[tokio::test(start_paused = true)]
async fn legacy_only_never_probes() {
    let legacy_only = || ConnectOptions {
        legacy_only: true,
        ..options()
    };
    let (connecting, mut wire) = start(legacy_only());
    finish_legacy_handshake(&mut wire, connecting).await;

    let (connecting, mut wire) = start(legacy_only());
    let (id, _) = wire.request("initialize").await;
    wire.refuse(id, unsupported(MODERN));
    assert!(connecting.await.unwrap().is_err());
    settle().await;
    wire.assert_nothing_sent();
}
