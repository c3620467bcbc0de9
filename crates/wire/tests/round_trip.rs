//! Messages survive a round trip, and no input breaks the decoder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value};
use trunkline_wire::envelope::{Frame, Message, decode, parse_request_id, recover_id};
use trunkline_wire::peer::CallStatus;
use trunkline_wire::transport::{Outgoing, Routing};
use trunkline_wire::{Json, ObjectWriter, RpcError};

const METHODS: [&str; 4] = ["tools/call", "initialize", "notifications/progress", "ping"];

/// Any JSON value, with keys and strings of all characters.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Quarters survive the round trip exactly, however the parser rounds.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn json() -> impl Strategy<Value = Json> {
    value().prop_map(Json::from)
}

/// An id in any spelling.
fn id() -> impl Strategy<Value = Json> {
    prop_oneof![
        any::<i64>().prop_map(|id| Json::encode(&id).unwrap()),
        any::<String>().prop_map(|id| Json::encode(&id).unwrap()),
        Just(Json::parse("1.0").unwrap()),
    ]
}

fn error() -> impl Strategy<Value = RpcError> {
    let data = prop::option::of(json().prop_filter("null is no data", |data| !data.is_null()));
    (any::<i64>(), any::<String>(), data).prop_map(|(code, message, data)| RpcError {
        code,
        message,
        data,
    })
}

/// A message, and the decoded message that the peer should see.
fn message() -> impl Strategy<Value = (Outgoing, Message)> {
    let method = || prop::sample::select(&METHODS[..]);
    let present = || json().prop_filter("null is no params", |params| !params.is_null());
    let outcome = prop_oneof![json().prop_map(Ok), error().prop_map(Err)];
    prop_oneof![
        (any::<u64>(), method(), present()).prop_map(|(id, method, params)| {
            let read = Message::Request {
                id: Json::encode(&id).unwrap(),
                method: method.into(),
                params: Some(params.clone()),
            };
            let request = Outgoing::Request {
                id,
                method,
                params,
                routing: Routing::default(),
                call: CallStatus::default(),
            };
            (request, read)
        }),
        (method(), prop::option::of(present())).prop_map(|(method, params)| {
            let read = Message::Notification {
                method: method.into(),
                params: params.clone(),
            };
            let notification = Outgoing::Notification {
                method,
                params,
                version: None,
            };
            (notification, read)
        }),
        (id(), outcome).prop_map(|(id, outcome)| {
            let read = Message::Response {
                id: Some(id.clone()),
                outcome: outcome.clone(),
            };
            (Outgoing::Response { id, outcome }, read)
        }),
        any::<u64>().prop_map(|id| {
            let params = format!(r#"{{"requestId":{id},"reason":"why"}}"#);
            let read = Message::Notification {
                method: "notifications/cancelled".into(),
                params: Some(Json::parse(params).unwrap()),
            };
            (Outgoing::Cancel { id, reason: "why" }, read)
        }),
    ]
}

fn encode(message: &Outgoing) -> Vec<u8> {
    let mut text = Vec::new();
    message.encode(&mut text);
    text
}

proptest! {
    // Failures become tests by hand; an integration test has no place to persist them.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_survives_a_round_trip((message, expected) in message()) {
        let text = encode(&message);
        prop_assert!(!text.contains(&b'\n'), "one message, one line");
        prop_assert_eq!(decode(&text.into()), Frame::Single(expected));
    }

    #[test]
    fn a_batch_is_decoded_message_by_message(messages in prop::collection::vec(message(), 0..5)) {
        let (sent, expected): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let texts: Vec<_> = sent.iter().map(encode).collect();
        let batch = [&b"["[..], &texts.join(&b", "[..]), b"]"].concat();
        prop_assert_eq!(decode(&batch.into()), Frame::Batch(expected));
    }

    #[test]
    fn a_damaged_message_never_panics(
        (message, _) in message(),
        cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut text = encode(&message);
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let (head, tail) = text.split_at(cut.index(text.len()));
        recover_id(head, tail);
        for part in [&text, head, tail] {
            if let Frame::Single(Message::Response { id: Some(id), .. }) = decode(&Bytes::copy_from_slice(part)) {
                parse_request_id(&id);
            }
        }
    }

    #[test]
    fn members_and_elements_agree_with_the_parser(value in value(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let json = Json::parse(text).unwrap();
        let mut members = Map::new();
        let is_object = json.members(|key, value| {
            members.insert(key.to_owned(), value.to_value().unwrap());
        });
        prop_assert_eq!(is_object.then_some(&members), value.as_object());
        for (key, member) in &members {
            prop_assert_eq!(&json.get(key).unwrap().to_value().unwrap(), member);
        }
        let elements = json.to_elements().map(|elements| {
            elements.iter().map(|element| element.to_value().unwrap()).collect::<Vec<_>>()
        });
        prop_assert_eq!(elements.as_ref(), value.as_array());
        let string = json.as_string();
        prop_assert_eq!(string.as_deref(), value.as_str());
    }

    #[test]
    fn a_written_object_agrees_with_the_parser(
        members in prop::collection::btree_map(any::<String>(), value(), 0..6),
        text in any::<String>(),
        number in any::<u64>(),
    ) {
        let mut object = ObjectWriter::new();
        let mut expected = Map::new();
        for (key, value) in members {
            object.raw(&key, &Json::from(&value));
            expected.insert(key, value);
        }
        object.string("the text", &text).integer("the number", number);
        expected.insert("the text".to_owned(), text.into());
        expected.insert("the number".to_owned(), number.into());
        prop_assert_eq!(object.finish().to_value().unwrap(), Value::Object(expected));
    }

    #[test]
    fn every_id_is_parsed_as_an_integer_and_as_a_string(number in any::<u64>()) {
        for spelling in [number.to_string(), format!("\"{number}\"")] {
            prop_assert_eq!(parse_request_id(&Json::parse(spelling).unwrap()), Some(number));
        }
    }
}
