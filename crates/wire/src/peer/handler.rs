//! The handler for requests and notifications from the peer.

use std::future::Future;
use std::pin::Pin;

use bytestring::ByteString;

use crate::client::NotificationWaiters;
use crate::json::Json;
use crate::rpc_error::RpcError;

/// The future response to a request from the peer.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Json, RpcError>> + Send>>;

/// The role of the other side, which decides what is normal from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerRole {
    /// A server. It responds; its requests are few, and many are a flood.
    #[default]
    Server,
    /// A client. Its requests are the traffic, limited by their concurrency; it is told about
    /// messages that cannot be read, and has to read its responses.
    Client,
}

/// Handles requests and notifications from the peer.
pub trait Handler: Send + Sync + 'static {
    /// Handles a request on a separate task. The future is dropped if the peer cancels the request
    /// or the connection closes.
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        drop(params);
        Box::pin(async move { Err(RpcError::method_not_found(&method)) })
    }

    /// As [`Handler::request`], for handlers that need the id of the request, as the peer wrote it.
    fn request_with_id(
        &self,
        id: &Json,
        method: ByteString,
        params: Option<Json>,
    ) -> ResponseFuture {
        let _ = id;
        self.request(method, params)
    }

    /// As [`Handler::request`], for an input that the response to one of our requests asks for, by
    /// its key there (MRTR).
    fn input(&self, key: &str, method: ByteString, params: Option<Json>) -> ResponseFuture {
        let _ = key;
        self.request(method, params)
    }

    /// Returns true if the response to this method needs the user. Call timeouts are paused
    /// meanwhile.
    fn prompts_user(&self, method: &str) -> bool {
        let _ = method;
        false
    }

    /// The role of the other side.
    fn peer_role(&self) -> PeerRole {
        PeerRole::Server
    }

    /// The maximum number of concurrent requests. Further ones are rejected (SEC-4).
    fn max_concurrent_requests(&self) -> usize {
        64
    }

    /// Handles a notification. Called in order of arrival on the reader task; must not block.
    fn notification(&self, method: &str, params: Option<Json>) {
        let _ = (method, params);
    }

    /// Returns the registry for callers that wait for a specific notification.
    fn notification_waiters(&self) -> Option<&NotificationWaiters> {
        None
    }

    /// Reports a message that cannot be used: invalid, without a waiting caller, or too long.
    /// `what` describes it and `frame` holds its bytes as far as they were kept. Called on the
    /// reader task; must not block.
    fn invalid_message(&self, what: &str, frame: &[u8]) {
        let _ = (what, frame);
    }
}

/// A handler that rejects every request with "method not found" and ignores everything else.
pub struct DefaultHandler;

impl Handler for DefaultHandler {}
