//! A transport made of channels: a test sees what was sent, injects what arrives, and can stall
//! sending.
//!
//! Tests run on a paused clock, so [`settle`] returns exactly when all tasks wait.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use trunkline_wire::client::NotificationWaiters;
use trunkline_wire::peer::{CallStatus, Handler, ResponseFuture};
use trunkline_wire::transport::{Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport};
use trunkline_wire::{ByteString, Json, Peer, RequestError, RpcError};

/// Longer than every timeout in these tests; free on the paused clock.
const NEVER: Duration = Duration::from_hours(10_000);

/// The state of the sending half.
#[derive(Clone)]
enum Gate {
    Open,
    Stalled,
    Broken(Closed),
}

/// The end that the peer holds.
pub struct Scripted {
    sender: ScriptedSender,
    receiver: ScriptedReceiver,
}

pub struct ScriptedSender {
    sent: mpsc::UnboundedSender<String>,
    calls: Arc<Mutex<Vec<CallStatus>>>,
    gate: watch::Receiver<Gate>,
    closed: watch::Sender<bool>,
}

pub struct ScriptedReceiver(mpsc::UnboundedReceiver<Result<Incoming, Closed>>);

/// The end that the test holds.
pub struct Wire {
    sent: mpsc::UnboundedReceiver<String>,
    calls: Arc<Mutex<Vec<CallStatus>>>,
    feed: mpsc::UnboundedSender<Result<Incoming, Closed>>,
    gate: watch::Sender<Gate>,
    closed: watch::Receiver<bool>,
}

pub fn scripted() -> (Scripted, Wire) {
    let (sent, messages) = mpsc::unbounded_channel();
    let (feed, arrivals) = mpsc::unbounded_channel();
    let (gate, gate_seen) = watch::channel(Gate::Open);
    let (closed, closing) = watch::channel(false);
    let calls = Arc::<Mutex<Vec<CallStatus>>>::default();
    let transport = Scripted {
        sender: ScriptedSender {
            sent,
            calls: Arc::clone(&calls),
            gate: gate_seen,
            closed,
        },
        receiver: ScriptedReceiver(arrivals),
    };
    let wire = Wire {
        sent: messages,
        calls,
        feed,
        gate,
        closed: closing,
    };
    (transport, wire)
}

impl Transport for Scripted {
    type Sender = ScriptedSender;
    type Receiver = ScriptedReceiver;

    fn split(self) -> (ScriptedSender, ScriptedReceiver) {
        (self.sender, self.receiver)
    }
}

impl SendHalf for ScriptedSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        let free = self.gate.wait_for(|gate| !matches!(gate, Gate::Stalled));
        // A test that has dropped its end no longer blocks sending.
        let gate = free.await.map_or(Gate::Open, |gate| gate.clone());
        if let Gate::Broken(cause) = gate {
            return Err(cause);
        }
        for message in batch.drain(..) {
            let mut text = Vec::new();
            message.encode(&mut text);
            if let Outgoing::Request { call, .. } = message {
                self.calls.lock().unwrap().push(call);
            }
            self.sent.send(String::from_utf8(text).unwrap()).ok();
        }
        Ok(())
    }

    async fn close(self) {
        self.closed.send_replace(true);
    }
}

impl ReceiveHalf for ScriptedReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        match self.0.recv().await {
            Some(received) => received,
            None => std::future::pending().await,
        }
    }
}

impl Wire {
    /// Returns the statuses of the calls sent so far.
    pub fn calls(&self) -> Vec<CallStatus> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the next message as text.
    pub async fn sent_text(&mut self) -> String {
        let next = tokio::time::timeout(NEVER, self.sent.recv()).await;
        next.expect("something was to be sent").unwrap()
    }

    /// Returns the next message.
    pub async fn sent(&mut self) -> Value {
        serde_json::from_str(&self.sent_text().await).unwrap()
    }

    /// Expects a request with this method as the next message, and returns its id and params.
    pub async fn request(&mut self, method: &str) -> (u64, Value) {
        let mut message = self.sent().await;
        assert_eq!(message["method"], method, "{message}");
        let id = message["id"].as_u64().expect("a request has an id");
        (id, message["params"].take())
    }

    /// Expects the cancellation of request `id` as the next message.
    pub async fn cancellation_of(&mut self, id: u64) {
        let message = self.sent().await;
        assert_eq!(message["method"], "notifications/cancelled", "{message}");
        assert_eq!(message["params"]["requestId"], id, "{message}");
        assert_eq!(message["id"], Value::Null, "{message}");
    }

    /// Asserts that nothing was sent.
    #[track_caller]
    pub fn assert_nothing_sent(&mut self) {
        if let Ok(text) = self.sent.try_recv() {
            panic!("sent: {text}");
        }
    }

    /// Returns the next message if one was sent already.
    pub fn try_sent(&mut self) -> Option<Value> {
        let text = self.sent.try_recv().ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// Delivers a frame to the peer.
    pub fn feed(&self, frame: impl AsRef<[u8]>) {
        self.receive(Incoming::Frame(Bytes::copy_from_slice(frame.as_ref())));
    }

    /// Delivers any item to the peer.
    pub fn receive(&self, incoming: Incoming) {
        self.feed.send(Ok(incoming)).ok();
    }

    /// Responds to request `id`.
    pub fn answer(&self, id: u64, result: impl std::fmt::Display) {
        self.feed(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// Responds to request `id` with an error.
    pub fn refuse(&self, id: u64, error: impl std::fmt::Display) {
        self.feed(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Closes the connection from the remote end.
    pub fn end(&self, cause: Closed) {
        self.feed.send(Err(cause)).ok();
    }

    /// Stops reading.
    pub fn stall(&self) {
        self.gate.send_replace(Gate::Stalled);
    }

    /// Resumes reading.
    pub fn resume(&self) {
        self.gate.send_replace(Gate::Open);
    }

    /// Makes sending fail.
    pub fn break_sending(&self, cause: Closed) {
        self.gate.send_replace(Gate::Broken(cause));
    }

    /// Waits until the peer has closed the transport.
    pub async fn transport_closed(&mut self) {
        let closed = tokio::time::timeout(NEVER, self.closed.wait_for(|closed| *closed)).await;
        closed.expect("the transport was to be closed").ok();
    }
}

/// Waits until all tasks wait: only then does the paused clock advance.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

type Answer = Box<dyn Fn(&str, Option<Json>) -> ResponseFuture + Send + Sync>;

/// A handler that records messages and responds with a function.
pub struct Recorder {
    answer: Answer,
    waiters: NotificationWaiters,
    pub notifications: Mutex<Vec<String>>,
    pub invalid_messages: Mutex<Vec<String>>,
    pub requests: Mutex<Vec<String>>,
}

impl Recorder {
    /// Rejects all methods.
    pub fn new() -> Arc<Self> {
        Self::answering(|method, _| {
            let error = RpcError::method_not_found(method);
            Box::pin(async move { Err(error) })
        })
    }

    pub fn answering(
        answer: impl Fn(&str, Option<Json>) -> ResponseFuture + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            waiters: NotificationWaiters::default(),
            notifications: Mutex::default(),
            invalid_messages: Mutex::default(),
            requests: Mutex::default(),
        })
    }

    /// Returns the invalid messages so far and clears them.
    pub fn take_invalid_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.invalid_messages.lock().unwrap())
    }

    /// Returns the requests so far, as `method params`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the notifications so far, as `method params`.
    pub fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }
}

impl Handler for Recorder {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        let told = describe(&method, params.as_ref());
        self.requests.lock().unwrap().push(told);
        (self.answer)(&method, params)
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        self.waiters.notify(method, params.as_ref());
        let told = describe(method, params.as_ref());
        self.notifications.lock().unwrap().push(told);
    }

    fn notification_waiters(&self) -> Option<&NotificationWaiters> {
        Some(&self.waiters)
    }

    fn invalid_message(&self, what: &str, _frame: &[u8]) {
        self.invalid_messages.lock().unwrap().push(what.to_owned());
    }
}

fn describe(method: &str, params: Option<&Json>) -> String {
    params.map_or_else(|| method.to_owned(), |params| format!("{method} {params}"))
}

/// A peer over a scripted transport.
pub fn peer(handler: &Arc<Recorder>) -> (Peer, Wire) {
    let (transport, wire) = scripted();
    (Peer::start(transport, handler.clone()), wire)
}

/// Formats an outcome in one line.
pub fn outcome_text(outcome: Result<Json, RequestError>) -> String {
    match outcome {
        Ok(result) => result.to_string(),
        Err(error) => error.to_string(),
    }
}
