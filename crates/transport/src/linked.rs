//! A pair of linked transports in one process (TRN-1, in-process).
//!
//! Each direction is a bounded queue, so neither side runs inside the other's call. Closing one end
//! closes the other.

use bytes::Bytes;
use tokio::sync::mpsc;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

/// The most queued messages per direction.
const CAPACITY: usize = 256;

/// One end of a linked pair.
pub struct LinkedEnd {
    sender: LinkedSender,
    receiver: LinkedReceiver,
}

/// Creates two linked ends.
pub fn linked_pair() -> (LinkedEnd, LinkedEnd) {
    let (to_right, from_left) = mpsc::channel(CAPACITY);
    let (to_left, from_right) = mpsc::channel(CAPACITY);
    let end = |sender, receiver| LinkedEnd {
        sender: LinkedSender(sender),
        receiver: LinkedReceiver(receiver),
    };
    (end(to_right, from_right), end(to_left, from_left))
}

impl Transport for LinkedEnd {
    type Sender = LinkedSender;
    type Receiver = LinkedReceiver;

    fn split(self) -> (LinkedSender, LinkedReceiver) {
        (self.sender, self.receiver)
    }
}

/// The sending half of a [`LinkedEnd`].
pub struct LinkedSender(mpsc::Sender<Bytes>);

impl SendHalf for LinkedSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        for message in batch.drain(..) {
            let mut text = Vec::with_capacity(message.size_hint());
            message.encode(&mut text);
            let sent = self.0.send(text.into()).await;
            sent.map_err(|_| Closed::new(CloseReason::ByPeer))?;
        }
        Ok(())
    }

    async fn close(self) {}
}

/// The receiving half of a [`LinkedEnd`].
pub struct LinkedReceiver(mpsc::Receiver<Bytes>);

impl ReceiveHalf for LinkedReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        let frame = self.0.recv().await;
        frame
            .map(Incoming::Frame)
            .ok_or_else(|| Closed::new(CloseReason::ByPeer))
    }
}
