//! One client: all that belongs to it alone.

use std::sync::{Arc, Mutex, PoisonError};

use trunkline_wire::peer::ResponseFuture;
use trunkline_wire::{ByteString, Json, RpcError};

use crate::client::ClientInfo;
use crate::gateway::GatewayShared;
use crate::link::ClientLink;

/// One client of a gateway.
pub struct ClientSession {
    gateway: Arc<GatewayShared>,
    info: ClientInfo,
    link: Mutex<Option<Arc<dyn ClientLink>>>,
}

impl ClientSession {
    pub(crate) fn new(gateway: Arc<GatewayShared>, info: ClientInfo) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            info,
            link: Mutex::new(None),
        })
    }

    /// Returns the client, as its endpoint described it.
    pub fn info(&self) -> &ClientInfo {
        &self.info
    }

    /// Handles a request. `reply` is where messages go that belong to it: progress, and questions
    /// of servers. Dropping the future cancels the request, upstream too.
    pub fn request(
        self: &Arc<Self>,
        method: ByteString,
        params: Option<Json>,
        reply: Arc<dyn ClientLink>,
    ) -> ResponseFuture {
        let session = Arc::clone(self);
        Box::pin(async move {
            let _ = (params, reply, &session.gateway.options.name);
            match &*method {
                "ping" => Ok(Json::empty_object()),
                _ => Err(RpcError::method_not_found(&method)),
            }
        })
    }

    /// Handles a notification.
    pub fn notification(self: &Arc<Self>, method: &str, params: Option<Json>) {
        let _ = (method, params);
    }

    /// Sets where messages go that belong to no request: changed lists, log messages. Another link
    /// replaces it.
    pub fn attach(&self, link: Arc<dyn ClientLink>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
    }

    /// Ends the calls, subscriptions, questions and private servers of the client.
    pub fn close(&self) {
        self.link
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}
