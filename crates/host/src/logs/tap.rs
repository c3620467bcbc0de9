//! A callback that sees every message of every connection.

use std::sync::Arc;

use bytes::Bytes;
use trunkline_transport::Trace;
use trunkline_wire::transport::{Closed, Incoming};
use trunkline_wire::{ByteString, Json};

use super::redact::Redactor;

/// The direction of a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the server.
    Sent,
    /// From the server to the host.
    Received,
}

/// One message on its way; see [`HostBuilder::on_message`](crate::HostBuilder::on_message).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message<'m> {
    /// The server's name.
    pub server: &'m str,
    /// The direction.
    pub direction: Direction,
    /// Its JSON text, with known secrets masked.
    pub text: &'m str,
}

/// The embedding program's callback.
pub(crate) type MessageTap = Arc<dyn Fn(&Message<'_>) + Send + Sync>;

/// Passes the messages of one server to a [`MessageTap`].
pub(super) struct ServerTap {
    pub(super) server: String,
    pub(super) redactor: Redactor,
    pub(super) tap: MessageTap,
}

impl ServerTap {
    fn pass(&self, direction: Direction, text: &Bytes) {
        let text = ByteString::try_from(text.clone()).ok();
        // Text that is no JSON is no message; logs show it.
        let Some(json) = text.and_then(|text| Json::parse(text).ok()) else {
            return;
        };
        (self.tap)(&Message {
            server: &self.server,
            direction,
            text: &self.redactor.message(&json),
        });
    }
}

impl Trace for ServerTap {
    fn sent(&self, message: Bytes) {
        self.pass(Direction::Sent, &message);
    }

    fn received(&self, incoming: &Incoming) {
        if let Incoming::Frame(frame) | Incoming::Reply { frame, .. } = incoming {
            self.pass(Direction::Received, frame);
        }
    }

    fn closed(&self, _cause: &Closed) {}
}

/// Two observers of the same messages.
pub(super) struct Both(pub(super) Arc<dyn Trace>, pub(super) Arc<dyn Trace>);

impl Trace for Both {
    fn sent(&self, message: Bytes) {
        self.0.sent(message.clone());
        self.1.sent(message);
    }

    fn received(&self, incoming: &Incoming) {
        self.0.received(incoming);
        self.1.received(incoming);
    }

    fn closed(&self, cause: &Closed) {
        self.0.closed(cause);
        self.1.closed(cause);
    }
}
