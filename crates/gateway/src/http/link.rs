//! The way back to an HTTP client: the stream of a request, or the standing stream of a session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use trunkline_wire::peer::CallStatus;
use trunkline_wire::transport::{CloseReason, Closed, Outgoing, Routing};
use trunkline_wire::{Json, RequestError, RpcError, envelope};

use super::stream::{EventStream, Overflow, Weight};
use crate::link::{ClientLink, LinkFuture, is_expendable};

/// The maximum number of questions that wait for one client (SEC-4).
const MAX_QUESTIONS: usize = 256;

/// Encodes a message.
pub(super) fn encode(message: &Outgoing) -> Bytes {
    let mut text = Vec::with_capacity(message.size_hint());
    message.encode(&mut text);
    text.into()
}

/// Our requests that wait for the client's answer.
#[derive(Default)]
pub(super) struct Questions {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Json, RpcError>>>>,
}

impl Questions {
    fn open(&self) -> Option<(u64, oneshot::Receiver<Result<Json, RpcError>>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_QUESTIONS {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        waiting.insert(id, sender);
        Some((id, receiver))
    }

    fn remove(&self, id: u64) -> Option<oneshot::Sender<Result<Json, RpcError>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&id)
    }

    /// Delivers an answer. Returns false if nobody waits for it.
    pub(super) fn answer(&self, id: &Json, outcome: Result<Json, RpcError>) -> bool {
        let waiting = envelope::parse_request_id(id).and_then(|id| self.remove(id));
        waiting.is_some_and(|waiting| waiting.send(outcome).is_ok())
    }

    /// Fails all questions.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clear();
    }
}

/// Sends to a stream.
pub(super) struct StreamLink {
    stream: Arc<EventStream>,
    /// `None` for a modern client, which accepts no requests.
    questions: Option<Arc<Questions>>,
    /// Called when the client needs a message and does not read.
    overflow: Box<dyn Fn() + Send + Sync>,
}

impl StreamLink {
    pub(super) fn new(
        stream: Arc<EventStream>,
        questions: Option<Arc<Questions>>,
        overflow: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            stream,
            questions,
            overflow: Box::new(overflow),
        }
    }
}

impl ClientLink for StreamLink {
    fn notify(&self, method: &'static str, params: Option<Json>) {
        let weight = if is_expendable(method) {
            Weight::Expendable
        } else {
            Weight::Needed
        };
        let message = Outgoing::Notification {
            method,
            params,
            version: None,
        };
        if self.stream.push(encode(&message), weight) == Err(Overflow) {
            (self.overflow)();
        }
    }

    fn request(&self, method: &'static str, params: Json) -> LinkFuture {
        let Some(questions) = &self.questions else {
            let error = RpcError::new(
                RpcError::INVALID_REQUEST,
                "a modern client accepts no requests",
            );
            return Box::pin(async { Err(RequestError::Rpc(error)) });
        };
        let closed = |sent| RequestError::Closed {
            cause: Closed::new(CloseReason::ByPeer),
            sent,
        };
        let Some((id, answer)) = questions.open() else {
            return Box::pin(async move { Err(closed(false)) });
        };
        let question = Question {
            id,
            questions: Arc::clone(questions),
            stream: Arc::clone(&self.stream),
        };
        let message = Outgoing::Request {
            id,
            method,
            params,
            routing: Routing::default(),
            call: CallStatus::default(),
        };
        if self.stream.push(encode(&message), Weight::Needed) == Err(Overflow) {
            (self.overflow)();
            return Box::pin(async move { Err(closed(false)) });
        }
        Box::pin(async move {
            let question = question;
            let outcome = answer.await;
            drop(question);
            match outcome {
                Ok(outcome) => outcome.map_err(RequestError::Rpc),
                Err(_) => Err(closed(true)),
            }
        })
    }
}

/// Cancels a question that nobody waits for any more.
struct Question {
    id: u64,
    questions: Arc<Questions>,
    stream: Arc<EventStream>,
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.questions.remove(self.id).is_some() {
            let cancel = Outgoing::Cancel {
                id: self.id,
                reason: "no longer wanted",
            };
            let _ = self.stream.push(encode(&cancel), Weight::Expendable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(stream: &EventStream, reader: u64) -> String {
        let event = stream.next(reader).await.unwrap();
        String::from_utf8(event.data.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_question_gets_its_answer_and_an_abandoned_one_is_cancelled() {
        let stream = Arc::new(EventStream::new(1, 0));
        let reader = stream.take_over();
        let questions = Arc::new(Questions::default());
        let link = StreamLink::new(Arc::clone(&stream), Some(Arc::clone(&questions)), || {});
        let asked = link.request("roots/list", Json::empty_object());
        assert_eq!(
            sent(&stream, reader).await,
            r#"{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}"#
        );
        let id = |text: &str| Json::parse(text.to_owned()).unwrap();
        assert!(!questions.answer(&id("2"), Ok(Json::null())));
        assert!(questions.answer(&id("\"1\""), Ok(Json::null())));
        assert!(!questions.answer(&id("1"), Ok(Json::null())), "only once");
        assert_eq!(asked.await.unwrap(), Json::null());

        drop(link.request("roots/list", Json::empty_object()));
        let _ = sent(&stream, reader).await;
        let cancelled = sent(&stream, reader).await;
        assert!(cancelled.contains(r#""requestId":2"#), "{cancelled}");

        let left = link.request("roots/list", Json::empty_object());
        questions.close();
        assert!(left.await.is_err());
    }

    #[tokio::test]
    async fn a_modern_client_gets_no_requests_and_a_full_stream_is_reported() {
        let stream = Arc::new(EventStream::new(1, 0));
        let full = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&full);
        let link = StreamLink::new(stream, None, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert!(link.request("roots/list", Json::null()).await.is_err());
        for _ in 0..5000 {
            link.notify("notifications/progress", None);
        }
        assert_eq!(full.load(Ordering::Relaxed), 0);
        link.notify("notifications/tools/list_changed", None);
        assert_eq!(full.load(Ordering::Relaxed), 1);
    }
}
