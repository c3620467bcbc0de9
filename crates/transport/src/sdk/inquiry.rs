//! Requests of the embedding program to the host itself.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use trunkline_wire::{ByteString, Json};

use super::output_lines::OutputLines;
use super::{BridgeHandle, codes};

/// The requests of the embedding program, in order.
pub struct Inquiries {
    receiver: mpsc::Receiver<Inquiry>,
    handle: Arc<BridgeHandle>,
}

impl Inquiries {
    pub(super) fn new(receiver: mpsc::Receiver<Inquiry>, handle: Arc<BridgeHandle>) -> Self {
        Self { receiver, handle }
    }

    /// Returns the next request; `None` once the connection is closed.
    pub async fn next(&mut self) -> Option<Inquiry> {
        let mut inquiry = self.receiver.recv().await?;
        inquiry.handle = Some(Arc::clone(&self.handle));
        Some(inquiry)
    }
}

impl Drop for Inquiries {
    fn drop(&mut self) {
        self.receiver.close();
        // Dropping each sends an error.
        while let Ok(mut inquiry) = self.receiver.try_recv() {
            inquiry.handle = Some(Arc::clone(&self.handle));
        }
    }
}

/// A request of the embedding program. Dropping it responds with an error.
#[non_exhaustive]
pub struct Inquiry {
    id: Json,
    subtype: ByteString,
    request: Json,
    withdrawn: watch::Receiver<bool>,
    /// Set when it is handed out; before that it is not dropped.
    handle: Option<Arc<BridgeHandle>>,
}

/// Signals that a request was cancelled.
pub(super) struct CancelSignal(watch::Sender<bool>);

impl CancelSignal {
    pub(super) fn cancel(&self) {
        self.0.send_replace(true);
    }
}

/// An error response to the embedding program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A code for programs; see [`codes`].
    pub code: &'static str,
    /// The message for people.
    pub error: String,
    /// Additional members: an object.
    pub more: Option<Json>,
}

impl Refusal {
    /// Creates an error from a code and a message.
    pub fn new(code: &'static str, error: impl Into<String>) -> Self {
        Self {
            code,
            error: error.into(),
            more: None,
        }
    }
}

impl Inquiry {
    pub(super) fn new(id: Json, subtype: ByteString, request: Json) -> (CancelSignal, Self) {
        let (sender, withdrawn) = watch::channel(false);
        let inquiry = Self {
            id,
            subtype,
            request,
            withdrawn,
            handle: None,
        };
        (CancelSignal(sender), inquiry)
    }

    /// The kind of request.
    pub fn subtype(&self) -> &str {
        &self.subtype
    }

    /// The request object.
    pub fn request(&self) -> &Json {
        &self.request
    }

    /// The control request id, as JSON.
    pub fn id(&self) -> &Json {
        &self.id
    }

    /// Waits until the request is cancelled or the connection is closed.
    pub async fn withdrawn(&self) {
        let mut withdrawn = self.withdrawn.clone();
        // The sender lives until the response is sent.
        let _ = withdrawn.wait_for(|withdrawn| *withdrawn).await;
    }

    /// Responds, unless the request was cancelled.
    pub async fn answer(mut self, outcome: Result<Json, Refusal>) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        if handle.router.remove_inbound(&self.id) {
            let mut lines = OutputLines::default();
            match outcome {
                Ok(response) => lines.success(&self.id, &response),
                Err(Refusal { code, error, more }) => {
                    lines.error(&self.id, code, &error, more.as_ref());
                }
            }
            // Writing fails only when the bridge is closed.
            let _ = handle.router.write(lines).await;
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && handle.router.remove_inbound(&self.id)
        {
            let mut lines = OutputLines::default();
            lines.error(&self.id, codes::FAILED, "it was not answered", None);
            handle.router.try_write(lines);
        }
    }
}
