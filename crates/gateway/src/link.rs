//! The way back to a client.

use std::future::Future;
use std::pin::Pin;

use trunkline_wire::{Json, RequestError};

/// The future response of a client to a request of ours.
pub type LinkFuture = Pin<Box<dyn Future<Output = Result<Json, RequestError>> + Send>>;

/// The way back to the client: of one request (the event stream of a POST), or of a whole session
/// (a pipe, a socket, the stream of a GET).
pub trait ClientLink: Send + Sync + 'static {
    /// Sends a notification. Never blocks. The queue behind it is bounded: a client that does not
    /// read loses progress and log messages, and its session for anything else.
    fn notify(&self, method: &'static str, params: Option<Json>);

    /// Sends a request, which only legacy clients accept: `elicitation/create`,
    /// `sampling/createMessage`, `roots/list`. Dropping the future cancels it.
    fn request(&self, method: &'static str, params: Json) -> LinkFuture;
}

/// Returns true for notifications that a slow client may miss: the next one replaces them, or
/// they only inform.
pub(crate) fn is_expendable(method: &str) -> bool {
    matches!(method, "notifications/progress" | "notifications/message")
}
