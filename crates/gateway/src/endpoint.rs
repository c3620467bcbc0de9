//! Clients over a pipe or a socket: a peer whose handler is a session.

use std::sync::Arc;

use tokio::sync::{SetOnce, watch};
use trunkline_wire::peer::{Handler, PeerRole, RequestOptions, ResponseFuture};
use trunkline_wire::transport::{Closed, Transport};
use trunkline_wire::{ByteString, Json, Peer};

use crate::client::{ClientInfo, ConnectError};
use crate::drain::{Activity, drained};
use crate::gateway::Gateway;
use crate::link::{ClientLink, LinkFuture, is_expendable};
use crate::session::{ClientRequest, ClientSession};

/// The maximum number of concurrent requests of one client (SEC-4).
const MAX_REQUESTS: usize = 1024;

impl Gateway {
    /// Serves one client over a transport until it leaves, and returns why it left. Dropping the
    /// future ends the session.
    pub async fn serve(
        &self,
        transport: impl Transport,
        client: ClientInfo,
    ) -> Result<Closed, ConnectError> {
        let (_keep, draining) = watch::channel(false);
        self.serve_until(transport, client, draining).await
    }

    /// As [`serve`](Self::serve); once `draining` is true, it ends when the client has no request
    /// without a response.
    pub async fn serve_until(
        &self,
        transport: impl Transport,
        client: ClientInfo,
        mut draining: watch::Receiver<bool>,
    ) -> Result<Closed, ConnectError> {
        let session = self.connect(client)?;
        let _close = CloseOnDrop(Arc::clone(&session));
        let activity = Arc::new(Activity::default());
        let handler = Arc::new(PeerHandler {
            session: Arc::clone(&session),
            link: Arc::default(),
            activity: Arc::clone(&activity),
        });
        let peer = Peer::start(transport, Arc::clone(&handler) as Arc<dyn Handler>);
        let link: Arc<dyn ClientLink> = Arc::new(PeerLink(peer.clone()));
        session.attach(Arc::clone(&link));
        let _ = handler.link.set(link);
        tokio::select! {
            _ = peer.closed() => {}
            () = drained(&peer, &activity, &mut draining) => {}
        }
        peer.close().await;
        Ok(peer.closed().await)
    }
}

struct CloseOnDrop(Arc<ClientSession>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct PeerHandler {
    session: Arc<ClientSession>,
    link: Arc<SetOnce<Arc<dyn ClientLink>>>,
    activity: Arc<Activity>,
}

impl Handler for PeerHandler {
    fn request_with_id(
        &self,
        id: &Json,
        method: ByteString,
        params: Option<Json>,
    ) -> ResponseFuture {
        let request = ClientRequest {
            id: id.clone(),
            method,
            params,
        };
        let (session, link) = (Arc::clone(&self.session), Arc::clone(&self.link));
        let active = self.activity.begin(&request.method);
        Box::pin(async move {
            let _active = active;
            // The peer exists before its link, by an instant.
            let link = Arc::clone(link.wait().await);
            session.request(request, link).await
        })
    }

    fn peer_role(&self) -> PeerRole {
        PeerRole::Client
    }

    fn max_concurrent_requests(&self) -> usize {
        MAX_REQUESTS
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        self.activity.note(method);
        self.session.notification(method, params);
    }
}

struct PeerLink(Peer);

impl ClientLink for PeerLink {
    fn notify(&self, method: &'static str, params: Option<Json>) {
        if !self.0.try_notify(method, params) && !is_expendable(method) {
            self.0.start_closing();
        }
    }

    fn request(&self, method: &'static str, params: Json) -> LinkFuture {
        let peer = self.0.clone();
        Box::pin(async move {
            peer.request(method, params, RequestOptions::default())
                .await
        })
    }
}
