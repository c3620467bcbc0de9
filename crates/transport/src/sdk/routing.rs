//! Routing of the lines of the embedding program.

use bytes::Bytes;
use trunkline_wire::envelope::parse_request_id;
use trunkline_wire::transport::{DeliveryErrorKind, Incoming};
use trunkline_wire::{Json, ObjectWriter};

use super::control::{self, Control, MessageKind, OutboundId};
use super::inquiry::{Inquiry, Refusal};
use super::output_lines::OutputLines;
use super::router::{InboundRequest, MAX_INBOUND, PendingRequest, Router, ServerLink, State};
use super::{RequestFailure, codes};

impl Router {
    /// Routes a line; immediate responses are appended to `answers`.
    pub(super) fn handle_line(&self, incoming: Incoming, answers: &mut OutputLines) {
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
            // A line decoder returns nothing else.
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

    fn oversize(&self, what: &str, head: &[u8], tail: &[u8], answers: &mut OutputLines) {
        match control::recover_id(head, tail) {
            Some((id, true)) => answers.error(&id, codes::TOO_LARGE, what, None),
            Some((id, false)) => {
                let pending = OutboundId::parse(&id).and_then(|request_id| {
                    let pending = self.lock().pending.remove(&request_id)?;
                    Some((request_id, pending))
                });
                match pending {
                    Some((request_id, PendingRequest::Call(link))) => {
                        link.fail(request_id.number, DeliveryErrorKind::TooLarge, what);
                    }
                    Some((_, PendingRequest::Bridge(answer))) => {
                        let _ = answer.send(Err(RequestFailure::Refused(what.to_owned())));
                    }
                    None => (self.report)(what, head),
                }
            }
            None => (self.report)(what, head),
        }
    }

    /// Handles the response to one of our requests.
    fn answered(&self, id: &Json, outcome: Result<Option<Json>, String>, text: &Bytes) {
        let request_id = OutboundId::parse(id);
        let pending = request_id.and_then(|request_id| self.lock().pending.remove(&request_id));
        match (pending, request_id) {
            (Some(PendingRequest::Bridge(answer)), _) => {
                let outcome = outcome
                    .map(|answer| answer.unwrap_or_else(Json::empty_object))
                    .map_err(RequestFailure::Refused);
                let _ = answer.send(outcome);
            }
            (Some(PendingRequest::Call(link)), Some(request_id)) => {
                deliver_answer(&link, request_id.number, outcome, text);
            }
            // A cancelled request may still get a response.
            (None, Some(_)) => {}
            _ if control::is_notification_id(id) => {}
            _ => (self.report)("an answer to a request that is none of ours", text),
        }
    }

    /// Handles a cancellation by the embedding program.
    fn cancelled(&self, id: &Json) {
        let mut state = self.lock();
        match state.inbound.remove(id) {
            Some(InboundRequest::Inquiry(withdrawn)) => withdrawn.cancel(),
            Some(InboundRequest::Message { link, id }) => {
                state.message_ids.remove(&(link.number, id.clone()));
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
            // It may have been answered already.
            None => {}
        }
    }

    /// Handles a request of the embedding program.
    fn requested(
        &self,
        id: Json,
        request: Option<Json>,
        text: &Bytes,
        answers: &mut OutputLines,
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
        if self.lock().inbound.contains_key(&id) {
            // An error with this id would pass for the response to the first.
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
            inbound, inquiries, ..
        } = &mut *state;
        let (withdrawn, inquiry) = Inquiry::new(id.clone(), subtype, request);
        let sent = match inquiries {
            Some(inquiries) if inbound.len() < MAX_INBOUND => inquiries.try_send(inquiry).is_ok(),
            _ => false,
        };
        if !sent {
            return Err((id, too_many()));
        }
        inbound.insert(id, InboundRequest::Inquiry(withdrawn));
        Ok(())
    }

    /// Handles an MCP message of a server.
    fn message(
        &self,
        control: &Json,
        request: &Json,
        text: &Bytes,
        answers: &mut OutputLines,
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
        match MessageKind::of(&message) {
            MessageKind::Request { id } => {
                let key = (link.number, id.clone());
                if state.message_ids.contains_key(&key) {
                    let error = "a message with this id is being answered";
                    return Err(Refusal::new(codes::BAD_REQUEST, error));
                }
                if state.inbound.len() >= MAX_INBOUND || !link.deliver(frame) {
                    return Err(too_many());
                }
                state.message_ids.insert(key, control.clone());
                let inbound = InboundRequest::Message { link, id };
                state.inbound.insert(control.clone(), inbound);
                Ok(())
            }
            MessageKind::Notification { cancels } => {
                let cancelled = cancels.and_then(|id| state.message_ids.remove(&(link.number, id)));
                if let Some(control) = cancelled {
                    state.inbound.remove(&control);
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
            MessageKind::Response { .. } => {
                let error =
                    "an answer belongs into the control_response to the request that it answers";
                Err(Refusal::new(codes::BAD_REQUEST, error))
            }
            MessageKind::Invalid => {
                let error = "its message is not a JSON-RPC request or notification";
                Err(Refusal::new(codes::BAD_REQUEST, error))
            }
        }
    }
}

fn too_many() -> Refusal {
    Refusal::new(codes::TOO_MANY, "too many requests at once")
}

/// Delivers the response to a call. Any response ends this call, and no other.
fn deliver_answer(link: &ServerLink, to: u64, outcome: Result<Option<Json>, String>, text: &Bytes) {
    let answer = match outcome {
        Ok(answer) => answer.and_then(|answer| answer.get("mcp_response")),
        Err(reason) => {
            let why = format!("the embedding program answered with an error: {reason}");
            return link.fail(to, DeliveryErrorKind::Broken, &why);
        }
    };
    let answers_it = |answer: &Json| match MessageKind::of(answer) {
        MessageKind::Response { id } => id.is_none_or(|id| parse_request_id(&id) == Some(to)),
        _ => false,
    };
    match answer {
        Some(answer) if answers_it(&answer) => {
            let frame = text.slice_ref(answer.as_str().as_bytes());
            let _ = link.inbox.send(Ok(Incoming::Reply { to, frame }));
        }
        _ => {
            let why = "the embedding program gave no JSON-RPC answer to it";
            link.fail(to, DeliveryErrorKind::Broken, why);
        }
    }
}
