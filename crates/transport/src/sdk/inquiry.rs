//! What the embedding program asks us, as opposed to its servers.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use trunkline_wire::{ByteString, Json};

use super::lines::Lines;
use super::{Handle, codes};

/// The embedding program's own requests, in the order they came.
pub struct Inquiries {
    receiver: mpsc::Receiver<Inquiry>,
    handle: Arc<Handle>,
}

impl Inquiries {
    pub(super) fn new(receiver: mpsc::Receiver<Inquiry>, handle: Arc<Handle>) -> Self {
        Self { receiver, handle }
    }

    /// The next request; `None` once the embedding program is gone.
    pub async fn next(&mut self) -> Option<Inquiry> {
        let mut inquiry = self.receiver.recv().await?;
        inquiry.handle = Some(Arc::clone(&self.handle));
        Some(inquiry)
    }
}

impl Drop for Inquiries {
    fn drop(&mut self) {
        self.receiver.close();
        // Each is answered as it goes.
        while let Ok(mut inquiry) = self.receiver.try_recv() {
            inquiry.handle = Some(Arc::clone(&self.handle));
        }
    }
}

/// A request of the embedding program. One that is dropped without an answer is answered with an error.
pub struct Inquiry {
    id: Json,
    subtype: ByteString,
    request: Json,
    withdrawn: watch::Receiver<bool>,
    /// Set when it is handed out; until then nobody could drop it.
    handle: Option<Arc<Handle>>,
}

/// Tells an inquiry that its answer is no longer wanted.
pub(super) struct Withdrawn(watch::Sender<bool>);

impl Withdrawn {
    pub(super) fn withdraw(&self) {
        self.0.send_replace(true);
    }
}

/// Why a request of the embedding program is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word for programs; see [`codes`].
    pub code: &'static str,
    /// The same for people.
    pub error: String,
    /// Members to add to the answer: an object.
    pub more: Option<Json>,
}

impl Refusal {
    /// With a code, and the same in words.
    pub fn new(code: &'static str, error: impl Into<String>) -> Self {
        Self {
            code,
            error: error.into(),
            more: None,
        }
    }
}

impl Inquiry {
    pub(super) fn new(id: Json, subtype: ByteString, request: Json) -> (Withdrawn, Self) {
        let (sender, withdrawn) = watch::channel(false);
        let inquiry = Self {
            id,
            subtype,
            request,
            withdrawn,
            handle: None,
        };
        (Withdrawn(sender), inquiry)
    }

    /// What is asked.
    pub fn subtype(&self) -> &str {
        &self.subtype
    }

    /// The whole request: an object.
    pub fn request(&self) -> &Json {
        &self.request
    }

    /// The id that the embedding program gave it, as JSON.
    pub fn id(&self) -> &Json {
        &self.id
    }

    /// Waits until the answer is no longer wanted: it was withdrawn, or the embedding program is gone.
    pub async fn withdrawn(&self) {
        let mut withdrawn = self.withdrawn.clone();
        // The sender goes away with the answer, which whoever waits here has not given.
        let _ = withdrawn.wait_for(|withdrawn| *withdrawn).await;
    }

    /// Answers, unless that is no longer wanted.
    pub async fn answer(mut self, outcome: Result<Json, Refusal>) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        if handle.router.served(&self.id) {
            let mut lines = Lines::default();
            match outcome {
                Ok(response) => lines.success(&self.id, &response),
                Err(Refusal { code, error, more }) => {
                    lines.error(&self.id, code, &error, more.as_ref());
                }
            }
            // Only the end of everything can keep it from being written.
            let _ = handle.router.write(lines).await;
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && handle.router.served(&self.id)
        {
            let mut lines = Lines::default();
            lines.error(&self.id, codes::FAILED, "it was not answered", None);
            handle.router.write_now(lines);
        }
    }
}
