//! What the owner of a peer does about messages that nobody here asked for.

use std::future::Future;
use std::pin::Pin;

use bytestring::ByteString;

use crate::client::NotificationWaiters;
use crate::json::Json;
use crate::rpc_error::RpcError;

/// The answer to a request of the other side, in the making.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Json, RpcError>> + Send>>;

/// What the owner of a peer does about requests and notifications from the other side.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. Runs on a task of its own; dropped when the other side cancels it or the link ends.
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        drop(params);
        Box::pin(async move { Err(RpcError::method_not_found(&method)) })
    }

    /// Whether a person is asked for the answer to such a request. The time limits of calls do not run meanwhile.
    fn prompts_user(&self, method: &str) -> bool {
        let _ = method;
        false
    }

    /// How many requests are answered at once; more are refused (SEC-4).
    fn max_concurrent_requests(&self) -> usize {
        64
    }

    /// Takes note of a notification. Called in the order of arrival, on the reader's task: it must not wait.
    fn notification(&self, method: &str, params: Option<Json>) {
        let _ = (method, params);
    }

    /// Where those who wait for a notification about one thing leave word, if notifications are passed on there.
    fn notification_waiters(&self) -> Option<&NotificationWaiters> {
        None
    }

    /// Something arrived that is no use to anyone: garbage, an answer nobody waits for, a message too long. `what` says
    /// what it was, `frame` holds it as far as it was kept. Called on the reader's task: it must not wait.
    fn invalid_message(&self, what: &str, frame: &[u8]) {
        let _ = (what, frame);
    }
}

/// Answers every request with "method not found" and ignores everything else.
pub struct DefaultHandler;

impl Handler for DefaultHandler {}
