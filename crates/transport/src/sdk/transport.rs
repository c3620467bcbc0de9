//! The transport to one server in the embedding program.

use std::sync::Arc;

use tokio::sync::mpsc;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

use super::BridgeHandle;
use super::output_lines::OutputLines;
use super::router::{Delivery, ServerLink};

/// A server in the embedding program; see [`SdkBridge::connect`](super::SdkBridge::connect).
pub struct SdkTransport {
    sender: SdkSender,
    receiver: SdkReceiver,
}

impl SdkTransport {
    pub(super) fn new(server: &str, handle: Arc<BridgeHandle>) -> Self {
        let (link, inbox) = handle.router.link(server);
        Self {
            receiver: SdkReceiver {
                inbox,
                link: Arc::clone(&link),
            },
            sender: SdkSender { link, handle },
        }
    }
}

impl Transport for SdkTransport {
    type Sender = SdkSender;
    type Receiver = SdkReceiver;

    fn split(self) -> (SdkSender, SdkReceiver) {
        (self.sender, self.receiver)
    }
}

/// The sending half; closes the link on drop.
pub struct SdkSender {
    link: Arc<ServerLink>,
    handle: Arc<BridgeHandle>,
}

impl SendHalf for SdkSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        let mut lines = OutputLines::default();
        for message in batch.drain(..) {
            self.handle
                .router
                .encode_outgoing(&self.link, &message, &mut lines);
        }
        self.handle.router.write(lines).await
    }

    async fn close(self) {}
}

impl Drop for SdkSender {
    fn drop(&mut self) {
        let why = Closed::new(CloseReason::ByUs);
        self.handle.router.unlink(&self.link, &why);
    }
}

/// The receiving half.
pub struct SdkReceiver {
    inbox: mpsc::UnboundedReceiver<Delivery>,
    link: Arc<ServerLink>,
}

impl ReceiveHalf for SdkReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        let delivery = self.inbox.recv().await;
        let delivery = delivery.unwrap_or_else(|| Err(Closed::new(CloseReason::ByPeer)));
        if let Ok(Incoming::Frame(frame)) = &delivery {
            self.link.mark_read(frame.len());
        }
        delivery
    }
}
