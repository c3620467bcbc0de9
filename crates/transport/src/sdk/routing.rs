//! Where each line of the embedding program goes.

use bytes::Bytes;
use trunkline_wire::envelope::parse_request_id;
use trunkline_wire::transport::{DeliveryErrorKind, Incoming};
use trunkline_wire::{Json, ObjectWriter};

use super::control::{self, Control, Kind, Ours};
use super::inquiry::{Inquiry, Refusal};
use super::lines::Lines;
use super::router::{Link, MAX_SERVING, Router, Serving, State, Waiting};
use super::{RequestFailure, codes};

impl Router {
    /// Takes what the reader has cut off; what is to be said at once is put into `answers`.
    pub(super) fn incoming(&self, incoming: Incoming, answers: &mut Lines) {
        let line = match incoming {
            Incoming::Frame(line) => line,
            Incoming::Oversize {
                bytes,
                limit,
                head,
                tail,
            } => {
                let what = format!("a line of {bytes} bytes is over the limit of {limit}");
                return self.oversize(&what, &head, &tail, answers);
            }
            // A decoder of lines gives nothing else.
            _ => return,
        };
        match control::read(&line) {
            Err(reason) => (self.report)(&format!("a line cannot be used: {reason}"), &line),
            Ok((_, Control::KeepAlive)) => {}
            Ok((_, Control::Cancel { id })) => self.cancelled(&id),
            Ok((text, Control::Response { id, outcome })) => {
                self.answered(&id, outcome, &text);
            }
            Ok((text, Control::Request { id, request })) => {
                if let Err((id, refusal)) = self.requested(id, request, &text, answers) {
                    answers.error(&id, refusal.code, &refusal.error, refusal.more.as_ref());
                }
            }
        }
    }

    fn oversize(&self, what: &str, head: &[u8], tail: &[u8], answers: &mut Lines) {
        match control::salvage(head, tail) {
            Some((id, true)) => answers.error(&id, codes::TOO_LARGE, what, None),
            Some((id, false)) => {
                let waiting = Ours::named(&id).and_then(|ours| {
                    let waiting = self.lock().waiting.remove(&ours)?;
                    Some((ours, waiting))
                });
                match waiting {
                    Some((ours, Waiting::Call(link))) => {
                        link.lose(ours.number, DeliveryErrorKind::TooLarge, what);
                    }
                    Some((_, Waiting::Request(answer))) => {
                        let _ = answer.send(Err(RequestFailure::Refused(what.to_owned())));
                    }
                    None => (self.report)(what, head),
                }
            }
            None => (self.report)(what, head),
        }
    }

    /// An answer has come to one of our requests.
    fn answered(&self, id: &Json, outcome: Result<Option<Json>, String>, text: &Bytes) {
        let ours = Ours::named(id);
        let waiting = ours.and_then(|ours| self.lock().waiting.remove(&ours));
        match (waiting, ours) {
            (Some(Waiting::Request(answer)), _) => {
                let outcome = outcome
                    .map(|answer| answer.unwrap_or_else(Json::empty_object))
                    .map_err(RequestFailure::Refused);
                let _ = answer.send(outcome);
            }
            (Some(Waiting::Call(link)), Some(ours)) => {
                deliver_answer(&link, ours.number, outcome, text);
            }
            // One that has been withdrawn may be answered all the same.
            (None, Some(_)) => {}
            _ if control::is_told(id) => {}
            _ => (self.report)("an answer to a request that is none of ours", text),
        }
    }

    /// The embedding program no longer wants the answer to its request.
    fn cancelled(&self, id: &Json) {
        let mut state = self.lock();
        match state.serving.remove(id) {
            Some(Serving::Inquiry(withdrawn)) => withdrawn.withdraw(),
            Some(Serving::Message { link, id }) => {
                state.asked.remove(&(link.number, id.clone()));
                let mut params = ObjectWriter::new();
                params.raw("requestId", &id);
                let mut message = ObjectWriter::new();
                message
                    .string("jsonrpc", "2.0")
                    .string("method", "notifications/cancelled")
                    .raw("params", &params.finish());
                let text = message.finish().as_str().to_owned();
                link.deliver(text.into());
            }
            // It may just have been answered.
            None => {}
        }
    }

    /// The embedding program asks something.
    fn requested(
        &self,
        id: Json,
        request: Option<Json>,
        text: &Bytes,
        answers: &mut Lines,
    ) -> Result<(), (Json, Refusal)> {
        let Some(request) = request else {
            let refusal = Refusal::new(codes::BAD_REQUEST, "it has no \"request\" object");
            return Err((id, refusal));
        };
        let Some(subtype) = request
            .get("subtype")
            .and_then(|subtype| subtype.as_string())
        else {
            let refusal = Refusal::new(codes::BAD_REQUEST, "its request has no \"subtype\"");
            return Err((id, refusal));
        };
        if self.lock().serving.contains_key(&id) {
            // An error under this id would pass for the answer to the first.
            (self.report)(
                "a second request with an id that is being answered",
                id.as_str().as_bytes(),
            );
            return Ok(());
        }
        if &*subtype == "mcp_message" {
            let outcome = self.message(&id, &request, text, answers);
            return outcome.map_err(|refusal| (id, refusal));
        }
        let mut state = self.lock();
        let State {
            serving, inquiries, ..
        } = &mut *state;
        let (withdrawn, inquiry) = Inquiry::new(id.clone(), subtype, request);
        let sent = match inquiries {
            Some(inquiries) if serving.len() < MAX_SERVING => inquiries.try_send(inquiry).is_ok(),
            _ => false,
        };
        if !sent {
            return Err((id, too_many()));
        }
        serving.insert(id, Serving::Inquiry(withdrawn));
        Ok(())
    }

    /// A server in the embedding program says or asks something.
    fn message(
        &self,
        control: &Json,
        request: &Json,
        text: &Bytes,
        answers: &mut Lines,
    ) -> Result<(), Refusal> {
        let name = request.get("server_name").and_then(|name| name.as_string());
        let (Some(name), Some(message)) = (name, request.get("message")) else {
            let error = "an mcp_message needs a \"server_name\" and a \"message\"";
            return Err(Refusal::new(codes::BAD_REQUEST, error));
        };
        let mut state = self.lock();
        let Some(link) = state.links.get(&*name).cloned() else {
            let name: String = name.chars().take(control::MAX_NAME).collect();
            let error = format!("the server \"{name}\" is not connected");
            return Err(Refusal::new(codes::NOT_CONNECTED, error));
        };
        let frame = text.slice_ref(message.as_str().as_bytes());
        match Kind::of(&message) {
            Kind::Request { id } => {
                let key = (link.number, id.clone());
                if state.asked.contains_key(&key) {
                    let error = "a message with this id is being answered";
                    return Err(Refusal::new(codes::BAD_REQUEST, error));
                }
                if state.serving.len() >= MAX_SERVING || !link.deliver(frame) {
                    return Err(too_many());
                }
                state.asked.insert(key, control.clone());
                let serving = Serving::Message { link, id };
                state.serving.insert(control.clone(), serving);
                Ok(())
            }
            Kind::Notification { cancels } => {
                let cancelled = cancels.and_then(|id| state.asked.remove(&(link.number, id)));
                if let Some(control) = cancelled {
                    state.serving.remove(&control);
                    answers.error(
                        &control,
                        codes::CANCELLED,
                        "the request was cancelled",
                        None,
                    );
                }
                if !link.deliver(frame) {
                    return Err(too_many());
                }
                answers.success(control, &Json::empty_object());
                Ok(())
            }
            Kind::Answer { .. } => {
                let error =
                    "an answer belongs into the control_response to the request that it answers";
                Err(Refusal::new(codes::BAD_REQUEST, error))
            }
            Kind::Broken => {
                let error = "its message is not a JSON-RPC request or notification";
                Err(Refusal::new(codes::BAD_REQUEST, error))
            }
        }
    }
}

fn too_many() -> Refusal {
    Refusal::new(codes::TOO_MANY, "too many requests at once")
}

/// Delivers the answer to a call. Whatever it is, the call ends, and no other does.
fn deliver_answer(link: &Link, to: u64, outcome: Result<Option<Json>, String>, text: &Bytes) {
    let answer = match outcome {
        Ok(answer) => answer.and_then(|answer| answer.get("mcp_response")),
        Err(reason) => {
            let why = format!("the embedding program answered with an error: {reason}");
            return link.lose(to, DeliveryErrorKind::Broken, &why);
        }
    };
    let answers_it = |answer: &Json| match Kind::of(answer) {
        Kind::Answer { id } => id.is_none_or(|id| parse_request_id(&id) == Some(to)),
        _ => false,
    };
    match answer {
        Some(answer) if answers_it(&answer) => {
            let frame = text.slice_ref(answer.as_str().as_bytes());
            let _ = link.inbox.send(Ok(Incoming::Reply { to, frame }));
        }
        _ => {
            let why = "the embedding program gave no JSON-RPC answer to it";
            link.lose(to, DeliveryErrorKind::Broken, why);
        }
    }
}
