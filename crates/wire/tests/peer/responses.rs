//! Messages are matched to their calls, and unmatched ones are reported.

use bytes::Bytes;
use trunkline_wire::transport::Incoming;

use crate::harness::{call, two_calls};
use crate::support::{Recorder, outcome_text, peer, settle};

#[tokio::test(start_paused = true)]
async fn a_response_is_matched_in_any_spelling_of_its_id() {
    let (peer, mut wire) = peer(&Recorder::new());
    for spelling in ["$", "$.0", "$e0", "\"$\"", "\"$.0\"", " $ "] {
        let one = call(&peer);
        let (id, _) = wire.request("m").await;
        let spelt = spelling.replace('$', &id.to_string());
        wire.feed(format!(r#"{{"id":{spelt},"result":"ok"}}"#));
        assert_eq!(outcome_text(one.await.unwrap()), r#""ok""#, "{spelling}");
    }
}

#[tokio::test(start_paused = true)]
async fn responses_may_arrive_in_any_order() {
    let (peer, mut wire) = peer(&Recorder::new());
    let calls: Vec<_> = (0..100).map(|_| call(&peer)).collect();
    for _ in &calls {
        wire.request("m").await;
    }
    for id in (1..=100).rev() {
        wire.answer(id, id);
    }
    for (call, id) in calls.into_iter().zip(1..) {
        assert_eq!(outcome_text(call.await.unwrap()), format!("{id}"));
    }
}

/// The frames that arrive while calls 1 and 2 wait, the outcome of call 1 (`None`: still waiting),
/// and the number of frames reported as invalid.
struct Case {
    what: &'static str,
    frames: Vec<Vec<u8>>,
    first: Option<&'static str>,
    reported: usize,
}

fn case(
    what: &'static str,
    frames: &[&[u8]],
    first: Option<&'static str>,
    reported: usize,
) -> Case {
    Case {
        what,
        frames: frames.iter().map(|frame| frame.to_vec()).collect(),
        first,
        reported,
    }
}

#[tokio::test(start_paused = true)]
async fn each_unusual_message_has_a_defined_outcome_and_affects_no_other_call() {
    let no_outcome = "invalid response from the server: it has no method, no result and no error";
    let cases = [
        case("unknown id", &[br#"{"id":99,"result":1}"#], None, 1),
        case("id of a later call", &[br#"{"id":3,"result":1}"#], None, 1),
        case("foreign id", &[br#"{"id":"abc","result":1}"#], None, 1),
        case("half an id", &[br#"{"id":1.5,"result":1}"#], None, 1),
        case("object as id", &[br#"{"id":{"a":1},"result":1}"#], None, 1),
        case(
            "error without id",
            &[br#"{"id":null,"error":{"code":-32700,"message":"m"}}"#],
            None,
            1,
        ),
        case(
            "duplicate answer",
            &[br#"{"id":1,"result":"a"}"#, br#"{"id":1,"result":"b"}"#],
            Some(r#""a""#),
            1,
        ),
        case(
            "only error null",
            &[br#"{"id":1,"error":null}"#],
            Some(no_outcome),
            0,
        ),
        case(
            "error null beside a result",
            &[br#"{"jsonrpc":"2.0","id":1,"result":"a","error":null}"#],
            Some(r#""a""#),
            0,
        ),
        case("nothing but an id", &[br#"{"id":1}"#], Some(no_outcome), 0),
        case(
            "missing jsonrpc",
            &[br#"{"id":1,"result":"a"}"#],
            Some(r#""a""#),
            0,
        ),
        case(
            "wrong jsonrpc and extra keys",
            &[br#"{"jsonrpc":1.0,"x":[],"id":1,"result":"a"}"#],
            Some(r#""a""#),
            0,
        ),
        case(
            "an error",
            &[br#"{"id":1,"error":{"code":-5,"message":"no"}}"#],
            Some("no (error -5)"),
            0,
        ),
        case("text", &[b"Server listening on port 3000"], None, 1),
        case("broken JSON", &[br#"{"id":1,"result":{"#], None, 1),
        case("two values", &[br#"{"id":1,"result":1}{"id":2}"#], None, 1),
        case(
            "a batch, partly bad",
            &[br#"[7,{"id":1,"result":"a"},{"id":98,"result":1}]"#],
            Some(r#""a""#),
            2,
        ),
        case("an empty batch", &[b"[]"], None, 0),
        case("a broken batch", &[br#"[{"id":1,"result":1},"#], None, 1),
        case(
            "not UTF-8 within an answer",
            &[b"{\"id\":1,\"result\":\"a\xff\"}"],
            Some("\"a\u{fffd}\""),
            0,
        ),
        case("not UTF-8 at all", &[b"\xff\xfe\x00{\x80"], None, 1),
        case("nothing", &[b""], None, 1),
    ];
    for Case {
        what,
        frames,
        first: expected,
        reported,
    } in cases
    {
        let handler = Recorder::new();
        let (peer, mut wire) = peer(&handler);
        let (first, second) = two_calls(&peer, &mut wire).await;
        for frame in frames {
            wire.feed(frame);
        }
        settle().await;
        assert_eq!(handler.take_invalid_messages().len(), reported, "{what}");
        assert_eq!(first.is_finished(), expected.is_some(), "{what}");
        assert!(!second.is_finished(), "{what}");
        wire.answer(1, r#""late""#);
        wire.answer(2, r#""unharmed""#);
        let first = outcome_text(first.await.unwrap());
        assert_eq!(first, expected.unwrap_or(r#""late""#), "{what}");
        assert_eq!(
            outcome_text(second.await.unwrap()),
            r#""unharmed""#,
            "{what}"
        );
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn an_oversize_message_fails_only_the_call_it_answers() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"result":"#, "…", true),
        (
            r#"{"result":{"id":2,"#,
            r#"…"},"id":1,"jsonrpc":"2.0"}"#,
            true,
        ),
        (r#"{"result":{"#, "…}}", false),
        (r#"{"jsonrpc":"2.0","id":77,"result":"#, "…", false),
    ];
    for (head, tail, salvaged) in cases {
        let handler = Recorder::new();
        let (peer, mut wire) = peer(&handler);
        let (first, second) = two_calls(&peer, &mut wire).await;
        wire.receive(Incoming::Oversize {
            bytes: 70_000_000,
            limit: 67_108_864,
            head: Bytes::copy_from_slice(head.as_bytes()),
            tail: Bytes::copy_from_slice(tail.as_bytes()),
        });
        settle().await;
        let expected = "a message of 70000000 bytes is over the limit of 67108864";
        if salvaged {
            let outcome = outcome_text(first.await.unwrap());
            assert!(outcome.ends_with(expected), "{head}: {outcome}");
        } else {
            assert_eq!(handler.take_invalid_messages(), [expected], "{head}");
            wire.answer(1, "1");
            assert_eq!(outcome_text(first.await.unwrap()), "1", "{head}");
        }
        wire.answer(2, "2");
        assert_eq!(outcome_text(second.await.unwrap()), "2", "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn deep_nesting_is_delivered_unchanged() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (first, second) = two_calls(&peer, &mut wire).await;
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    wire.answer(1, &deep);
    wire.answer(2, "2");
    assert_eq!(first.await.unwrap().unwrap().as_str(), deep);
    assert_eq!(outcome_text(second.await.unwrap()), "2");
}
