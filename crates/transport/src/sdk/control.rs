//! How a line of the control protocol is read.

use bytes::Bytes;
use memchr::memmem;
use trunkline_wire::{ByteString, Json};

/// How long an id, a method or the name of a server may be (SEC-4).
pub(super) const MAX_NAME: usize = 1024;

/// How much of what the embedding program gives as a reason is kept, in characters.
const REASON_KEPT: usize = 1000;

/// What the ids of our own requests begin with; the link's number and the request's follow.
const OURS: &str = "req_";

/// What the ids of what we tell begin with; nothing waits for the answer.
pub(super) const TOLD: &str = "note_";

/// A line, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The embedding program asks. `request` is what is asked, and may be anything.
    Request { id: Json, request: Option<Json> },
    /// It answers; the answer may be missing.
    Response {
        id: Json,
        outcome: Result<Option<Json>, String>,
    },
    /// It no longer wants the answer to its request.
    Cancel { id: Json },
    /// A sign of life.
    KeepAlive,
}

/// Reads a line; the error says what is wrong with it. Also gives the text in which all parts of it lie.
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
            id: usable(id)?,
            request: request.filter(Json::is_object),
        },
        "control_response" => read_response(response.as_ref())?,
        "control_cancel_request" => Control::Cancel { id: usable(id)? },
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
    let id = usable(id)?;
    Ok(Control::Response { id, outcome })
}

/// An id in memory of its own, if it can be used as one.
fn usable(id: Option<Json>) -> Result<Json, String> {
    let id = id.ok_or_else(|| "it has no \"request_id\"".to_owned())?;
    let is_scalar = !id.as_str().starts_with(['{', '[']) && !id.is_null();
    if !is_scalar || id.as_str().len() > MAX_NAME {
        return Err("its \"request_id\" is neither a short text nor a number".to_owned());
    }
    owned(&id).ok_or_else(|| "its \"request_id\" cannot be read".to_owned())
}

/// The same in memory of its own, so that what it was a part of can go.
pub(super) fn owned(json: &Json) -> Option<Json> {
    Json::parse(json.as_str().to_owned()).ok()
}

/// What the embedding program gives as a reason.
fn reason(error: Option<&Json>) -> String {
    let text = match error {
        Some(error) => error
            .as_string()
            .unwrap_or_else(|| error.as_str().to_owned().into()),
        None => ByteString::from_static("it gives no reason"),
    };
    text.chars().take(REASON_KEPT).collect()
}

/// A request of ours: which link made it, and that link's number for it. Link 0 is the bridge itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ours {
    pub(super) link: u64,
    pub(super) number: u64,
}

impl Ours {
    /// Its id on the line.
    pub(super) fn id(self) -> String {
        format!("\"{OURS}{}_{}\"", self.link, self.number)
    }

    /// The request that an id names, if it is one of ours.
    pub(super) fn named(id: &Json) -> Option<Self> {
        let id = id.as_string()?;
        let (link, number) = id.strip_prefix(OURS)?.split_once('_')?;
        Some(Self {
            link: link.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// Whether an id is that of something we told.
pub(super) fn is_told(id: &Json) -> bool {
    id.as_string().is_some_and(|id| id.starts_with(TOLD))
}

/// What one MCP message of the embedding program is, as far as pairing goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request {
        id: Json,
    },
    Notification {
        /// The request that it cancels.
        cancels: Option<Json>,
    },
    /// An answer: the id it names, if any.
    Answer {
        id: Option<Json>,
    },
    /// Not a message that anybody could act on.
    Broken,
}

impl Kind {
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
                Self::Answer { id }
            } else {
                Self::Broken
            };
        };
        let Some(method) = method.as_string().filter(|name| name.len() <= MAX_NAME) else {
            return Self::Broken;
        };
        match id {
            Some(id) if id.as_str().len() > MAX_NAME => Self::Broken,
            Some(id) => owned(&id).map_or(Self::Broken, |id| Self::Request { id }),
            None if &*method == "notifications/cancelled" => Self::Notification {
                cancels: params.and_then(|params| params.get("requestId")),
            },
            None => Self::Notification { cancels: None },
        }
    }
}

/// The id in a line too long to keep, and whether it is of a request of the embedding program.
pub(super) fn salvage(head: &[u8], tail: &[u8]) -> Option<(Json, bool)> {
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

    /// One line that says what a line was read as.
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
    fn each_kind_of_line_has_its_outcome() {
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
    fn each_kind_of_message_is_told_apart() {
        let id = |text: &str| Json::parse(text.to_owned()).unwrap();
        let cases = [
            (r#"{"id":1,"method":"m"}"#, Kind::Request { id: id("1") }),
            (
                r#"{"id":null,"method":"m"}"#,
                Kind::Notification { cancels: None },
            ),
            (
                r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#,
                Kind::Notification {
                    cancels: Some(id("\"x\"")),
                },
            ),
            (
                r#"{"id":1,"result":null}"#,
                Kind::Answer { id: Some(id("1")) },
            ),
            (r#"{"error":{}}"#, Kind::Answer { id: None }),
            (r#"{"id":1,"error":null}"#, Kind::Broken),
            (r#"{"id":1,"method":2}"#, Kind::Broken),
            ("[]", Kind::Broken),
            ("7", Kind::Broken),
        ];
        for (message, expected) in cases {
            assert_eq!(Kind::of(&id(message)), expected, "{message}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(MAX_NAME));
        assert_eq!(Kind::of(&id(&long)), Kind::Broken);
    }

    #[test]
    fn our_ids_are_known_again_and_others_are_not() {
        let ours = Ours { link: 3, number: 9 };
        let id = Json::parse(ours.id()).unwrap();
        assert_eq!(Ours::named(&id), Some(ours));
        for other in [
            "\"req_3\"",
            "\"req_3_x\"",
            "\"req_-1_2\"",
            "\"note_1\"",
            "7",
            "\"\"",
        ] {
            assert_eq!(Ours::named(&Json::parse(other).unwrap()), None, "{other}");
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
            let found = salvage(head.as_bytes(), tail.as_bytes());
            let found = found.as_ref().map(|(id, asks)| (id.as_str(), *asks));
            assert_eq!(found, expected, "{head} {tail}");
        }
    }
}
