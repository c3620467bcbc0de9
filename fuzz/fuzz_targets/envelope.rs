//! Envelope decoding never panics, and agrees with `serde_json` about every message.
#![no_main]

use std::collections::HashMap;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use trunkline_wire::Json;
use trunkline_wire::envelope::{Frame, MAX_BATCH, Message, decode, parse_request_id, recover_id};

fuzz_target!(|data: &[u8]| {
    let frame = decode(&Bytes::copy_from_slice(data));
    let _ = recover_id(data, data);

    let text = String::from_utf8_lossy(data);
    // `serde_json` treats this key specially when it builds a tree.
    if text.contains("$serde_json") {
        return;
    }
    // Invalid JSON never passes for a message.
    let accepted = serde_json::from_str::<&RawValue>(&text).is_ok();
    let understood = !matches!(frame, Frame::Single(Message::Malformed { .. }));
    assert!(accepted || !understood, "broken JSON was accepted: {text}");

    // The tree parser is stricter (nesting, lone surrogates, huge numbers), so only what it accepts
    // is compared.
    match (serde_json::from_str::<Value>(&text), frame) {
        (Ok(Value::Array(members)), Frame::Batch(messages)) => {
            assert_eq!(members.len(), messages.len());
            for (member, message) in members.iter().zip(&messages) {
                check(member, message);
            }
        }
        (Ok(Value::Array(members)), Frame::Single(_)) => assert!(members.len() > MAX_BATCH),
        (Ok(member), Frame::Single(message)) => check(&member, &message),
        (Ok(_), Frame::Batch(_)) => panic!("a single message was read as a batch"),
        (Err(_), Frame::Single(message)) => poke(&message),
        (Err(_), Frame::Batch(messages)) => messages.iter().for_each(poke),
    }
});

fn check(tree: &Value, message: &Message) {
    let member = |key| tree.get(key).filter(|value: &&Value| !value.is_null());
    let method = tree.get("method");
    match message {
        Message::Request {
            id,
            method: found,
            params,
        } => {
            assert_eq!(method, Some(&Value::from(&**found)));
            same(member("id"), Some(id));
            same(member("params"), params.as_ref());
        }
        Message::Notification {
            method: found,
            params,
        } => {
            assert_eq!(method, Some(&Value::from(&**found)));
            same(member("id"), None);
            same(member("params"), params.as_ref());
        }
        Message::Response { id, outcome } => {
            assert_eq!(method, None);
            same(member("id"), id.as_ref());
            match outcome {
                Ok(result) => {
                    assert_eq!(member("error"), None);
                    same(tree.get("result"), Some(result));
                }
                Err(error) => {
                    let sent = member("error").expect("an error that nobody sent");
                    if let Some(code) = sent.get("code").and_then(Value::as_i64) {
                        assert_eq!(error.code, code);
                    }
                    if let Some(text) = sent.get("message").and_then(Value::as_str) {
                        assert_eq!(error.message, text);
                    }
                    if sent.is_object() {
                        let data = sent.get("data").filter(|data| !data.is_null());
                        same(data, error.data.as_ref());
                    }
                }
            }
            if let Some(number) = member("id").and_then(Value::as_u64) {
                assert_eq!(id.as_ref().and_then(parse_request_id), Some(number));
            }
        }
        Message::Malformed { id, .. } => {
            assert!(
                !tree.is_object()
                    || method.is_some_and(|method| !method.is_string())
                    || (method.is_none()
                        && tree.get("result").is_none()
                        && member("error").is_none()),
                "a good message was refused: {message:?}"
            );
            // With a method it would be a request, whose id belongs to the peer.
            let ours = member("id").filter(|_| method.is_none());
            same(ours, id.as_ref());
        }
    }
}

/// Asserts that the raw text of a member has the value in the tree, down to its parts.
fn same(tree: Option<&Value>, raw: Option<&Json>) {
    match (tree, raw) {
        (None, None) => {}
        (Some(tree), Some(raw)) => {
            let value = raw.to_value().expect("kept text must be JSON");
            assert_eq!(tree, &value);
            walk(tree, raw);
        }
        _ => panic!("{tree:?} was read as {raw:?}"),
    }
}

fn walk(tree: &Value, raw: &Json) {
    assert_eq!(raw.is_object(), tree.is_object());
    assert_eq!(raw.is_null(), tree.is_null());
    assert_eq!(raw.as_string().as_deref(), tree.as_str());
    match tree {
        Value::Object(members) => {
            let mut found = HashMap::new();
            assert!(raw.members(|key, value| drop(found.insert(key.to_owned(), value))));
            assert_eq!(found.len(), members.len());
            for (key, member) in members {
                let value = found.get(key).expect("a member was not found");
                assert_eq!(raw.get(key).as_ref(), Some(value));
                walk(member, value);
            }
        }
        Value::Array(elements) => {
            let found = raw.to_elements().expect("an array was not seen as one");
            assert_eq!(found.len(), elements.len());
            for (element, value) in elements.iter().zip(&found) {
                walk(element, value);
            }
        }
        scalar => {
            assert_eq!(&raw.to_value().expect("a scalar must be JSON"), scalar);
            assert!(!raw.members(|_, _| {}) && raw.to_elements().is_none());
        }
    }
}

/// Visits the parts of a message that the tree parser rejected, to provoke panics.
fn poke(message: &Message) {
    let (Message::Request { params: part, .. }
    | Message::Notification { params: part, .. }
    | Message::Response { id: part, .. }
    | Message::Malformed { id: part, .. }) = message;
    part.iter().for_each(poke_value);
    if let Message::Response {
        outcome: Ok(result),
        ..
    } = message
    {
        poke_value(result);
    }
}

fn poke_value(raw: &Json) {
    let _ = (parse_request_id(raw), raw.as_string(), raw.get("id"));
    // One level only: the text may be nested deeper than the stack allows.
    raw.members(|_, value| drop(value.to_value()));
    raw.to_elements()
        .iter()
        .flatten()
        .for_each(|value| drop(value.to_value()));
}
