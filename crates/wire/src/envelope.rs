//! Decodes the envelope of a JSON-RPC message and keeps its payload raw.
//!
//! Every input has a defined outcome, so that a server's mistake fails at most the call it answers:
//!
//! | input | outcome |
//! |---|---|
//! | no `jsonrpc`, extra keys | accepted |
//! | a repeated key | the last one wins |
//! | `error: null` beside a `result` | a result |
//! | no `result`, `error` absent or null | [`Message::Malformed`] with the id: the call fails |
//! | both a `result` and an `error` | an error |
//! | our id as a float or a string | the same id |
//! | invalid UTF-8 | replaced by U+FFFD |
//! | a batch | its messages, up to [`MAX_BATCH`]; a longer one is malformed |
//! | anything else | [`Message::Malformed`] without an id: only reported |
//!
//! The payload is skipped without recursion, so nesting is no danger here. Decoding it has a limit.

use bytes::Bytes;
use bytestring::ByteString;

use crate::json::{self, Json};
use crate::rpc_error::RpcError;
use crate::{check, scan};

/// A message with a raw payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request from the peer.
    Request {
        /// The id as the peer wrote it, for the response to repeat.
        id: Json,
        /// The method.
        method: ByteString,
        /// The `params` member, if any.
        params: Option<Json>,
    },
    /// A notification from the peer.
    Notification {
        /// The method.
        method: ByteString,
        /// The `params` member, if any.
        params: Option<Json>,
    },
    /// A response to a request.
    Response {
        /// The id of the request. Absent if the peer could not read it.
        id: Option<Json>,
        /// The raw result, or the error.
        outcome: Result<Json, RpcError>,
    },
    /// Not a valid JSON-RPC message.
    Malformed {
        /// The id, if it could be read.
        id: Option<Json>,
        /// The cause.
        reason: String,
    },
}

/// The maximum number of messages in a batch (SEC-4).
pub const MAX_BATCH: usize = 1000;

/// The content of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One message.
    Single(Message),
    /// A batch, which protocol version 2025-03-26 allows.
    Batch(Vec<Message>),
}

/// Decodes one frame. Never fails: invalid input becomes [`Message::Malformed`].
///
/// ```
/// use trunkline_wire::envelope::{Frame, Message, decode};
///
/// let frame = decode(&r#"{"id":1,"result":{"ok":true},"error":null}"#.into());
/// let Frame::Single(Message::Response { outcome: Ok(result), .. }) = frame else { panic!() };
/// assert_eq!(result.as_str(), r#"{"ok":true}"#);
/// ```
pub fn decode(frame: &Bytes) -> Frame {
    let text = match ByteString::try_from(frame.clone()) {
        Ok(text) => text,
        Err(_) => String::from_utf8_lossy(frame).into_owned().into(),
    };
    if !text.trim_start().starts_with('[') {
        return Frame::Single(decode_one(&text, &text));
    }
    let mut messages = Vec::new();
    let mut count = 0_usize;
    let checked = check::array(&text, |member| {
        count += 1;
        if count <= MAX_BATCH {
            messages.push(decode_one(&text, member));
        }
    });
    match checked {
        Ok(()) if count > MAX_BATCH => Frame::Single(malformed(
            None,
            format!("a batch of {count} is over the limit of {MAX_BATCH}"),
        )),
        Ok(()) => Frame::Batch(messages),
        Err(error) => Frame::Single(malformed(None, format!("not valid JSON: {error}"))),
    }
}

fn decode_one(whole: &ByteString, text: &str) -> Message {
    let (mut id, mut method, mut params, mut result, mut error) = (None, None, None, None, None);
    let checked = check::object(text, |key, value| {
        let member = match &*scan::unquote(key) {
            "id" => &mut id,
            "method" => &mut method,
            "params" => &mut params,
            "result" => &mut result,
            "error" => &mut error,
            _ => return,
        };
        *member = Some(value);
    });
    if let Err(error) = checked {
        return malformed(None, format!("not a JSON object: {error}"));
    }
    let share = |value: &str| Json::from_checked(whole.slice_ref(value));
    let present = |value: &&str| *value != "null";
    let id = id.filter(present).map(share);
    if let Some(method) = method {
        let params = params.filter(present).map(share);
        return match (json::decode_string_in(whole, method), id) {
            // The id of a request belongs to the peer and matches none of ours.
            (None, _) => malformed(None, "its method is not a string".to_owned()),
            (Some(method), None) => Message::Notification { method, params },
            (Some(method), Some(id)) => Message::Request { id, method, params },
        };
    }
    match (result, error.filter(present)) {
        (_, Some(error)) => Message::Response {
            id,
            outcome: Err(RpcError::from_json(&share(error))),
        },
        (Some(result), None) => Message::Response {
            id,
            outcome: Ok(share(result)),
        },
        (None, None) => malformed(id, "it has no method, no result and no error".to_owned()),
    }
}

fn malformed(id: Option<Json>, reason: String) -> Message {
    Message::Malformed { id, reason }
}

/// Returns the number that we gave to a request, in any spelling: `7`, `7.0`, `7e0` or `"7"`.
pub fn parse_request_id(id: &Json) -> Option<u64> {
    let text = id.as_str();
    let text = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let float: f64 = text.parse().ok()?;
    // Above 2^53, a float does not identify one integer.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in range"
    )]
    ((0.0..9_007_199_254_740_992.0).contains(&float) && float.fract() == 0.0)
        .then_some(float as u64)
}

/// Recovers the id of a message that is too long to keep from its first and last bytes: a number
/// among other scalars at the start, or directly before the closing brace.
///
/// A message that starts with a method is a request from the peer, so its id is not one of ours.
pub fn recover_id(head: &[u8], tail: &[u8]) -> Option<Json> {
    match id_at_start(head) {
        Head::Id(id) => Some(id),
        Head::Request => None,
        Head::Unknown => id_at_end(tail),
    }
}

/// The information at the start of a message.
enum Head {
    Id(Json),
    Request,
    Unknown,
}

fn id_at_start(head: &[u8]) -> Head {
    let head = String::from_utf8_lossy(head);
    let mut id = None;
    let mut rest = head.trim_start().strip_prefix('{');
    while let Some((key, value, behind)) = rest.and_then(scalar_member) {
        match key {
            "method" => return Head::Request,
            "id" => id = Json::parse(value.to_owned()).ok(),
            _ => {}
        }
        rest = behind;
    }
    id.map_or(Head::Unknown, Head::Id)
}

/// Splits a member with a scalar value off `text`. Also returns the text after its comma.
fn scalar_member(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let (key, rest) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    if rest.starts_with(['{', '[']) {
        return None;
    }
    let end = rest.find([',', '}'])?;
    let behind = rest[end..].strip_prefix(',');
    Some((key, rest[..end].trim_end(), behind))
}

fn id_at_end(tail: &[u8]) -> Option<Json> {
    let text = String::from_utf8_lossy(tail);
    let text = text.trim_end().strip_suffix('}')?.trim_end();
    let text = text
        .strip_suffix(r#""jsonrpc":"2.0""#)
        .map_or(text, |text| {
            text.trim_end().trim_end_matches(',').trim_end()
        });
    let (before, value) = text.rsplit_once(':')?;
    before.trim_end().strip_suffix("\"id\"")?;
    // Only a number: after a brace or a quote, the id would belong to a nested value.
    let value = value.trim();
    value
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| Json::parse(value.to_owned()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes the decoded frame in one line.
    fn outcome(text: &str) -> String {
        match decode(&Bytes::copy_from_slice(text.as_bytes())) {
            Frame::Single(message) => describe(&message),
            Frame::Batch(messages) => {
                let parts: Vec<_> = messages.iter().map(describe).collect();
                format!("batch [{}]", parts.join("; "))
            }
        }
    }

    fn describe(message: &Message) -> String {
        let id = |id: &Option<Json>| id.as_ref().map_or("-".to_owned(), Json::to_string);
        let params =
            |params: &Option<Json>| params.as_ref().map_or("-".to_owned(), Json::to_string);
        match message {
            Message::Request {
                id,
                method,
                params: p,
            } => format!("request {id} {method} {}", params(p)),
            Message::Notification { method, params: p } => {
                format!("notification {method} {}", params(p))
            }
            Message::Response {
                id: i,
                outcome: Ok(result),
            } => format!("result {} {result}", id(i)),
            Message::Response {
                id: i,
                outcome: Err(error),
            } => format!("error {} {error}", id(i)),
            Message::Malformed { id: i, .. } => format!("malformed {}", id(i)),
        }
    }

    #[test]
    fn each_kind_of_frame_has_a_defined_outcome() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}"#,
                r#"result 1 {"a":[1]}"#,
            ),
            (r#"{"id":1,"result":{},"error":null}"#, "result 1 {}"),
            (r#"{"id":1,"result":null}"#, "result 1 null"),
            (r#"{"id":1,"error":null}"#, "malformed 1"),
            (r#"{"id":1}"#, "malformed 1"),
            (
                r#"{"id":1,"result":{},"error":{"code":-1,"message":"m"}}"#,
                "error 1 m (error -1)",
            ),
            (
                r#"{"id":null,"error":{"code":-32700,"message":"m"}}"#,
                "error - m (error -32700)",
            ),
            (r#"{"id":1,"error":"text"}"#, "error 1 text (error -32603)"),
            (r#"{"id":1.0,"result":2}"#, "result 1.0 2"),
            (r#"{"id":1,"id":2,"result":3}"#, "result 2 3"),
            (r#"{"id":"x","method":"ping"}"#, r#"request "x" ping -"#),
            (
                r#"{"id":1,"method":"a/b","params":{"x":1}}"#,
                r#"request 1 a/b {"x":1}"#,
            ),
            (r#"{"method":"n","params":null}"#, "notification n -"),
            (r#"{"id":null,"method":"n"}"#, "notification n -"),
            (r#"{"method":"a\u002fb"}"#, "notification a/b -"),
            (r#"{"id":4,"method":5}"#, "malformed -"),
            (r#"  {"id":1,"result":1}  "#, "result 1 1"),
            (
                r#"[{"id":1,"result":1},7,{"method":"n"}]"#,
                "batch [result 1 1; malformed -; notification n -]",
            ),
            ("[]", "batch []"),
            ("[[]]", "batch [malformed -]"),
            ("[1,", "malformed -"),
            ("", "malformed -"),
            ("null", "malformed -"),
            ("\"text\"", "malformed -"),
            ("Server listening on port 3000", "malformed -"),
            (r#"{"id":1,"result":{}"#, "malformed -"),
            (r#"{"id":1,"result":{}} trailing"#, "malformed -"),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_utf8_is_replaced_and_the_response_is_decoded() {
        let mut frame = br#"{"id":1,"result":{"text":"a"#.to_vec();
        frame.push(0xff);
        frame.extend_from_slice(br#"b"}}"#);
        let Frame::Single(message) = decode(&frame.into()) else {
            panic!()
        };
        assert_eq!(describe(&message), "result 1 {\"text\":\"a\u{fffd}b\"}");
    }

    #[test]
    fn a_batch_over_the_limit_is_one_malformed_message() {
        let batch = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert!(matches!(decode(&batch(MAX_BATCH).into()), Frame::Batch(_)));
        let over = decode(&batch(MAX_BATCH + 1).into());
        assert!(matches!(
            over,
            Frame::Single(Message::Malformed { id: None, .. })
        ));
    }

    #[test]
    fn deep_nesting_is_skipped_without_recursion() {
        let depth = 1_000_000;
        let text = format!(
            r#"{{"id":1,"result":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let Frame::Single(Message::Response {
            outcome: Ok(result),
            ..
        }) = decode(&text.into())
        else {
            panic!()
        };
        assert!(
            result.to_value().is_err(),
            "decoding has a limit of its own"
        );
    }

    #[test]
    fn a_payload_shares_the_memory_of_its_frame() {
        let frame = Bytes::from(r#"{"id":1,"result":{"big":"payload"}}"#);
        let range = frame.as_ptr_range();
        let Frame::Single(Message::Response {
            outcome: Ok(result),
            ..
        }) = decode(&frame)
        else {
            panic!()
        };
        assert!(range.contains(&result.as_str().as_ptr()));
    }

    #[test]
    fn a_request_id_is_parsed_in_every_spelling() {
        let cases = [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("70e-1", Some(7)),
            ("\"7\"", Some(7)),
            ("7.5", None),
            ("-7", None),
            ("1e300", None),
            ("\"abc\"", None),
            ("\"NaN\"", None),
            ("{}", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                parse_request_id(&Json::parse(text).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn the_id_of_an_oversize_message_is_recovered_from_either_end() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x"#, "…", Some("7")),
            (r#"{ "id" : "a" , "result":"#, "…", Some("\"a\"")),
            (
                r#"{"result":{"id":9,"#,
                r#"…"}},"jsonrpc":"2.0","id":12}"#,
                Some("12"),
            ),
            (
                r#"{"result":{"#,
                r#"…"},"id": 12 ,"jsonrpc":"2.0"}"#,
                Some("12"),
            ),
            (r#"{"result":{"#, r#"…,"id":12}}"#, None),
            (r#"{"result":"#, r#"…"}"#, None),
            (
                r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"#,
                "…}}",
                None,
            ),
            (
                r#"{"method":"sampling/createMessage","params":{"#,
                r#"…},"jsonrpc":"2.0","id":5}"#,
                None,
            ),
            ("garbage", "garbage", None),
        ];
        for (head, tail, expected) in cases {
            let id = recover_id(head.as_bytes(), tail.as_bytes());
            assert_eq!(id.as_ref().map(Json::as_str), expected, "{head} {tail}");
        }
    }
}
