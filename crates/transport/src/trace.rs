//! Tracing of messages, over any transport. An untraced transport is not wrapped and costs nothing.

use std::sync::Arc;

use bytes::Bytes;
use trunkline_wire::transport::{Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport};

/// Observes every message. Called in order on the link's tasks: it must not block.
pub trait Trace: Send + Sync + 'static {
    /// Called with the text of a message before it is sent.
    fn sent(&self, message: Bytes);

    /// Called after something was received.
    fn received(&self, incoming: &Incoming);

    /// Called when the link has closed.
    fn closed(&self, cause: &Closed);
}

/// A transport observed by a [`Trace`].
pub struct Traced<T> {
    transport: T,
    trace: Arc<dyn Trace>,
}

impl<T: Transport> Traced<T> {
    /// Wraps a transport.
    pub fn new(transport: T, trace: Arc<dyn Trace>) -> Self {
        Self { transport, trace }
    }
}

impl<T: Transport> Transport for Traced<T> {
    type Sender = TracedSender<T::Sender>;
    type Receiver = TracedReceiver<T::Receiver>;

    const USES_ROUTING: bool = T::USES_ROUTING;

    fn split(self) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = self.transport.split();
        let trace = Arc::clone(&self.trace);
        (
            TracedSender { sender, trace },
            TracedReceiver {
                receiver,
                trace: self.trace,
            },
        )
    }
}

/// The sending half of a [`Traced`] transport.
pub struct TracedSender<S> {
    sender: S,
    trace: Arc<dyn Trace>,
}

impl<S: SendHalf> SendHalf for TracedSender<S> {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        // Before sending, so that no response is seen before its request.
        for message in batch.iter() {
            let mut text = Vec::with_capacity(message.size_hint());
            message.encode(&mut text);
            self.trace.sent(text.into());
        }
        self.sender.send(batch).await
    }

    async fn close(self) {
        self.sender.close().await;
    }
}

/// The receiving half of a [`Traced`] transport.
pub struct TracedReceiver<R> {
    receiver: R,
    trace: Arc<dyn Trace>,
}

impl<R: ReceiveHalf> ReceiveHalf for TracedReceiver<R> {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        let received = self.receiver.receive().await;
        match &received {
            Ok(incoming) => self.trace.received(incoming),
            Err(cause) => self.trace.closed(cause),
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use trunkline_wire::Json;
    use trunkline_wire::transport::CloseReason;

    use super::*;
    use crate::linked_pair;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Recorder {
        fn record(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl Trace for Recorder {
        fn sent(&self, message: Bytes) {
            self.record(format!("out {}", String::from_utf8_lossy(&message)));
        }

        fn received(&self, incoming: &Incoming) {
            if let Incoming::Frame(frame) = incoming {
                self.record(format!("in {}", String::from_utf8_lossy(frame)));
            }
        }

        fn closed(&self, cause: &Closed) {
            self.record(format!("end {cause}"));
        }
    }

    fn notification(method: &'static str) -> Outgoing {
        Outgoing::Notification {
            method,
            params: Json::parse("{}").ok(),
            version: None,
        }
    }

    #[tokio::test]
    async fn every_message_is_traced_in_order_and_arrives() {
        let (ours, theirs) = linked_pair();
        let recorder = Arc::new(Recorder::default());
        let (mut sender, mut receiver) = Traced::new(ours, recorder.clone()).split();
        let (mut their_sender, mut their_receiver) = theirs.split();

        sender
            .send(&mut vec![notification("a"), notification("b")])
            .await
            .unwrap();
        their_sender
            .send(&mut vec![notification("c")])
            .await
            .unwrap();
        for method in ["a", "b"] {
            let Ok(Incoming::Frame(frame)) = their_receiver.receive().await else {
                panic!("no frame");
            };
            assert!(String::from_utf8_lossy(&frame).contains(method));
        }
        assert!(matches!(receiver.receive().await, Ok(Incoming::Frame(_))));
        drop(their_sender);
        let end = receiver.receive().await.unwrap_err();
        assert_eq!(end.reason(), &CloseReason::ByPeer);

        let message = |method| format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#);
        assert_eq!(
            *recorder.0.lock().unwrap(),
            [
                format!("out {}", message("a")),
                format!("out {}", message("b")),
                format!("in {}", message("c")),
                format!("end {end}"),
            ]
        );
    }

    #[test]
    fn tracing_preserves_uses_routing() {
        struct Routed(crate::LinkedEnd);

        impl Transport for Routed {
            type Sender = crate::linked::LinkedSender;
            type Receiver = crate::linked::LinkedReceiver;

            const USES_ROUTING: bool = true;

            fn split(self) -> (Self::Sender, Self::Receiver) {
                self.0.split()
            }
        }

        const { assert!(Traced::<Routed>::USES_ROUTING && !Traced::<crate::LinkedEnd>::USES_ROUTING) };
    }
}
