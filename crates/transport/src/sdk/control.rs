//! Decoding of control messages.

use bytes::Bytes;
use memchr::memmem;
use trunkline_wire::{ByteString, Json};

/// The longest id, method or server name (SEC-4).
pub(super) const MAX_NAME: usize = 1024;

/// How much of an error is kept, in characters.
const REASON_KEPT: usize = 1000;

/// The prefix of our request ids; link and request number follow.
const REQUEST_PREFIX: &str = "req_";

/// The prefix of our notification ids; their responses are ignored.
pub(super) const NOTIFICATION_PREFIX: &str = "note_";

/// A decoded line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// A request of the embedding program.
    Request { id: Json, request: Option<Json> },
    /// A response, possibly empty.
    Response {
        id: Json,
        outcome: Result<Option<Json>, String>,
    },
    /// A cancellation of its request.
    Cancel { id: Json },
    /// A keep-alive.
    KeepAlive,
}

/// Decodes a line. Also returns the text that all parts refer to.
pub(crate) fn read(line: &Bytes) -> Result<(Bytes, Control), String> {
    let text = match ByteString::try_from(line.clone()) {
        Ok(text) => text,
        Err(_) => String::from_utf8_lossy(line).into_owned().into(),
    };
    let bytes = text.clone().into_bytes();
    let line = Json::parse(text).map_err(|error| error.to_string())?;
    let (mut kind, mut id, mut request, mut response) = (None, None, None, None);
    let is_object = line.members(|key, value| match key {
        "type" => kind = value.as_string(),
        "request_id" => id = Some(value),
        "request" => request = Some(value),
        "response" => response = Some(value),
        _ => {}
    });
    let Some(kind) = kind.filter(|_| is_object) else {
        return Err("it is not an object with a \"type\"".to_owned());
    };
    let control = match &*kind {
        "control_request" => Control::Request {
            id: checked_id(id)?,
            request: request.filter(Json::is_object),
        },
        "control_response" => read_response(response.as_ref())?,
        "control_cancel_request" => Control::Cancel {
            id: checked_id(id)?,
        },
        "keep_alive" => Control::KeepAlive,
        other => {
            let other: String = other.chars().take(64).collect();
            return Err(format!("its type {other:?} is not known"));
        }
    };
    Ok((bytes, control))
}

fn read_response(response: Option<&Json>) -> Result<Control, String> {
    let (mut subtype, mut id, mut answer, mut error) = (None, None, None, None);
    if let Some(response) = response {
        response.members(|key, value| match key {
            "subtype" => subtype = value.as_string(),
            "request_id" => id = Some(value),
            "response" => answer = Some(value),
            "error" => error = Some(value),
            _ => {}
        });
    }
    let outcome = match subtype.as_deref() {
        Some("success") => Ok(answer.filter(|answer| !answer.is_null())),
        Some("error") => Err(reason(error.as_ref())),
        _ => return Err("its response is neither a success nor an error".to_owned()),
    };
    let id = checked_id(id)?;
    Ok(Control::Response { id, outcome })
}

/// A valid id, detached from the line.
fn checked_id(id: Option<Json>) -> Result<Json, String> {
    let id = id.ok_or_else(|| "it has no \"request_id\"".to_owned())?;
    let is_scalar = !id.as_str().starts_with(['{', '[']) && !id.is_null();
    if !is_scalar || id.as_str().len() > MAX_NAME {
        return Err("its \"request_id\" is neither a short text nor a number".to_owned());
    }
    detached(&id).ok_or_else(|| "its \"request_id\" cannot be read".to_owned())
}

/// Copies the value, so that the memory of the line can be freed.
pub(super) fn detached(json: &Json) -> Option<Json> {
    Json::parse(json.as_str().to_owned()).ok()
}

/// The error text of the embedding program.
fn reason(error: Option<&Json>) -> String {
    let text = match error {
        Some(error) => error
            .as_string()
            .unwrap_or_else(|| error.as_str().to_owned().into()),
        None => ByteString::from_static("it gives no reason"),
    };
    text.chars().take(REASON_KEPT).collect()
}

/// The id of our request: the link and its request number. Link 0 is the bridge itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutboundId {
    pub(super) link: u64,
    pub(super) number: u64,
}

impl OutboundId {
    /// The id as JSON.
    pub(super) fn id(self) -> String {
        format!("\"{REQUEST_PREFIX}{}_{}\"", self.link, self.number)
    }

    /// Parses an id, if it is one of ours.
    pub(super) fn parse(id: &Json) -> Option<Self> {
        let id = id.as_string()?;
        let (link, number) = id.strip_prefix(REQUEST_PREFIX)?.split_once('_')?;
        Some(Self {
            link: link.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// Whether this is the id of a notification.
pub(super) fn is_notification_id(id: &Json) -> bool {
    id.as_string()
        .is_some_and(|id| id.starts_with(NOTIFICATION_PREFIX))
}

/// The kind of an MCP message, as far as pairing needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request {
        id: Json,
    },
    Notification {
        /// The id of the request it cancels.
        cancels: Option<Json>,
    },
    /// A response, with its id if there is one.
    Response {
        id: Option<Json>,
    },
    /// Not a valid message.
    Invalid,
}

impl MessageKind {
    pub(super) fn of(message: &Json) -> Self {
        let (mut id, mut method, mut params) = (None, None, None);
        let (mut result, mut error) = (false, false);
        message.members(|key, value| match key {
            "id" => id = Some(value),
            "method" => method = Some(value),
            "params" => params = Some(value),
            "result" => result = true,
            "error" => error = !value.is_null(),
            _ => {}
        });
        let id = id.filter(|id| !id.is_null());
        let Some(method) = method else {
            return if result || error {
                Self::Response { id }
            } else {
                Self::Invalid
            };
        };
        let Some(method) = method.as_string().filter(|name| name.len() <= MAX_NAME) else {
            return Self::Invalid;
        };
        match id {
            Some(id) if id.as_str().len() > MAX_NAME => Self::Invalid,
            Some(id) => detached(&id).map_or(Self::Invalid, |id| Self::Request { id }),
            None if &*method == "notifications/cancelled" => Self::Notification {
                cancels: params.and_then(|params| params.get("requestId")),
            },
            None => Self::Notification { cancels: None },
        }
    }
}

/// Finds the id in an oversize line, and whether it is a request.
pub(super) fn recover_id(head: &[u8], tail: &[u8]) -> Option<(Json, bool)> {
    let key = b"\"request_id\"";
    let value = |text: &[u8], at: usize| -> Option<Json> {
        let text = String::from_utf8_lossy(&text[at + key.len()..]).into_owned();
        let text = text.trim_start().strip_prefix(':')?.trim_start();
        let inner = text.strip_prefix('"')?.split_once('"')?.0;
        Json::parse(format!("\"{inner}\"")).ok()
    };
    let id = memmem::find(head, key)
        .and_then(|at| value(head, at))
        .or_else(|| memmem::rfind(tail, key).and_then(|at| value(tail, at)))?;
    Some((id, memmem::find(head, b"control_request").is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes the decoded line.
    fn outcome(line: &str) -> String {
        match read(&Bytes::copy_from_slice(line.as_bytes())) {
            Err(reason) => format!("error: {reason}"),
            Ok((_, Control::Request { id, request })) => {
                let request = request.map_or("-".to_owned(), |request| request.to_string());
                format!("request {id} {request}")
            }
            Ok((_, Control::Response { id, outcome })) => match outcome {
                Ok(Some(answer)) => format!("success {id} {answer}"),
                Ok(None) => format!("success {id} -"),
                Err(reason) => format!("failure {id} {reason}"),
            },
            Ok((_, Control::Cancel { id })) => format!("cancel {id}"),
            Ok((_, Control::KeepAlive)) => "alive".to_owned(),
        }
    }

    #[test]
    fn each_kind_of_line_decodes_or_fails() {
        let cases = [
            (
                r#"{"type":"control_request","request_id":"a","request":{"subtype":"tools"}}"#,
                r#"request "a" {"subtype":"tools"}"#,
            ),
            (
                r#"{"request":[],"request_id":7,"type":"control_request"}"#,
                "request 7 -",
            ),
            (
                r#"{"type":"control_request"}"#,
                r#"error: it has no "request_id""#,
            ),
            (
                r#"{"type":"control_request","request_id":{}}"#,
                r#"error: its "request_id" is neither a short text nor a number"#,
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"mcp_response":{}}}}"#,
                r#"success "r" {"mcp_response":{}}"#,
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":null}}"#,
                r#"success "r" -"#,
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no\u0021"}}"#,
                r#"failure "r" no!"#,
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"error","request_id":"r"}}"#,
                r#"failure "r" it gives no reason"#,
            ),
            (
                r#"{"type":"control_response","response":{"request_id":"r"}}"#,
                "error: its response is neither a success nor an error",
            ),
            (
                r#"{"type":"control_response","response":7}"#,
                "error: its response is neither a success nor an error",
            ),
            (
                r#"{"type":"control_cancel_request","request_id":"a"}"#,
                r#"cancel "a""#,
            ),
            (r#"{"type":"keep_alive"}"#, "alive"),
            (
                r#"{"type":"user"}"#,
                r#"error: its type "user" is not known"#,
            ),
            ("[1]", r#"error: it is not an object with a "type""#),
            ("{}", r#"error: it is not an object with a "type""#),
        ];
        for (line, expected) in cases {
            assert_eq!(outcome(line), expected, "{line}");
        }
        assert!(outcome("Traceback (most recent call last):").starts_with("error: not valid JSON"));
    }

    #[test]
    fn a_payload_shares_the_memory_of_its_line() {
        let line = Bytes::from(
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"big":1}}}"#,
        );
        let Ok((
            _,
            Control::Response {
                outcome: Ok(Some(answer)),
                ..
            },
        )) = read(&line)
        else {
            panic!()
        };
        assert!(line.as_ptr_range().contains(&answer.as_str().as_ptr()));
    }

    #[test]
    fn message_kinds_are_distinguished() {
        let id = |text: &str| Json::parse(text.to_owned()).unwrap();
        let cases = [
            (
                r#"{"id":1,"method":"m"}"#,
                MessageKind::Request { id: id("1") },
            ),
            (
                r#"{"id":null,"method":"m"}"#,
                MessageKind::Notification { cancels: None },
            ),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#,
                MessageKind::Notification {
                    cancels: Some(id("\"x\"")),
                },
            ),
            (
                r#"{"id":1,"result":null}"#,
                MessageKind::Response { id: Some(id("1")) },
            ),
            (r#"{"error":{}}"#, MessageKind::Response { id: None }),
            (r#"{"id":1,"error":null}"#, MessageKind::Invalid),
            (r#"{"id":1,"method":2}"#, MessageKind::Invalid),
            ("[]", MessageKind::Invalid),
            ("7", MessageKind::Invalid),
        ];
        for (message, expected) in cases {
            assert_eq!(MessageKind::of(&id(message)), expected, "{message}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(MAX_NAME));
        assert_eq!(MessageKind::of(&id(&long)), MessageKind::Invalid);
    }

    #[test]
    fn only_our_ids_are_parsed() {
        let request_id = OutboundId { link: 3, number: 9 };
        let id = Json::parse(request_id.id()).unwrap();
        assert_eq!(OutboundId::parse(&id), Some(request_id));
        for other in [
            "\"req_3\"",
            "\"req_3_x\"",
            "\"req_-1_2\"",
            "\"note_1\"",
            "7",
            "\"\"",
        ] {
            assert_eq!(
                OutboundId::parse(&Json::parse(other).unwrap()),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn the_id_of_an_oversize_line_is_salvaged_from_either_end() {
        let cases = [
            (
                r#"{"type":"control_response","response":{"subtype":"success","request_id": "req_1_2","response":{"#,
                "…",
                Some(("\"req_1_2\"", false)),
            ),
            (
                r#"{"type":"control_response","response":{"response":{"mcp_response":{"#,
                r#"…\"request_id\":\"no\"},"request_id":"req_1_2"}}"#,
                Some(("\"req_1_2\"", false)),
            ),
            (
                r#"{"type":"control_request","request_id":"a","request":{"#,
                "…",
                Some(("\"a\"", true)),
            ),
            (r#"{"type":"control_request","request_id":7"#, "…", None),
            ("garbage", "garbage", None),
        ];
        for (head, tail, expected) in cases {
            let found = recover_id(head.as_bytes(), tail.as_bytes());
            let found = found.as_ref().map(|(id, asks)| (id.as_str(), *asks));
            assert_eq!(found, expected, "{head} {tail}");
        }
    }
}
