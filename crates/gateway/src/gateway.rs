//! One host and its clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use trunkline::elicit::{Elicitation, RootsRequest, SamplingRequest};
use trunkline::{Host, HostBuilder};
use trunkline_config::GatewayProfile;

use crate::client::{ClientInfo, ConnectError, View};
use crate::clients::Clients;
use crate::logging::Level;
use crate::private::is_private;
use crate::profile::Profile;
use crate::session::ClientSession;
use crate::subscriptions::forward_changes;

/// Options of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The name that clients see.
    pub name: String,
    /// The version that clients see.
    pub version: String,
    /// Shows `ToolSearch` and `CallTool` instead of every tool (GW-3).
    pub search: bool,
    /// The profile of clients that name none.
    pub profile: Option<String>,
    /// The profiles that clients may have, by name.
    pub profiles: BTreeMap<String, GatewayProfile>,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            search: false,
            profile: None,
            profiles: BTreeMap::new(),
        }
    }
}

/// One host, seen by any number of clients as one MCP server. Clones share it.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) shared: Arc<GatewayShared>,
}

pub(crate) struct GatewayShared {
    pub(crate) host: Host,
    pub(crate) options: GatewayOptions,
    pub(crate) clients: Arc<Clients>,
    next_client: AtomicU64,
    /// The lowest level of log messages that a client wants.
    level: Mutex<Option<Level>>,
    ended: watch::Sender<bool>,
    changes: AbortHandle,
    /// Servers of clients that have left, which are closing.
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for GatewayShared {
    fn drop(&mut self) {
        self.changes.abort();
    }
}

impl GatewayShared {
    /// Asks servers for log messages of this level, if no client has asked for more.
    pub(crate) fn want_level(&self, level: Level) {
        let mut lowest = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        if lowest.is_none_or(|lowest| level < lowest) {
            *lowest = Some(level);
            self.host.set_log_level(level.name());
        }
    }

    /// Waits for the end of the gateway.
    pub(crate) async fn ended(&self) {
        // The sender is in `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Closes the servers of a client that has left, in the background.
    pub(crate) fn end_private_servers(&self, owner: &Host) {
        let owner = owner.clone();
        let task = tokio::spawn(async move { owner.shutdown().await });
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|task| !task.is_finished());
        leaving.push(task);
    }
}

impl Gateway {
    /// Starts a host that sends its servers' questions to the clients of this gateway.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn start(builder: HostBuilder, options: GatewayOptions) -> Self {
        let clients = Arc::new(Clients::default());
        let (asked, sampled, rooted, told) = (
            Arc::clone(&clients),
            Arc::clone(&clients),
            Arc::clone(&clients),
            Arc::clone(&clients),
        );
        let host = builder
            .elicit(move |elicitation: Elicitation| {
                let clients = Arc::clone(&asked);
                async move { clients.elicit(elicitation).await }
            })
            .sampling(move |request: SamplingRequest| {
                let clients = Arc::clone(&sampled);
                async move { clients.sample(request).await }
            })
            .roots(move |request: RootsRequest| {
                let clients = Arc::clone(&rooted);
                async move { clients.roots(request).await }
            })
            .on_notification(move |notification| told.notification(notification))
            .private_servers(is_private)
            .start();
        let events = host.events();
        let shared = Arc::new_cyclic(|shared| GatewayShared {
            changes: tokio::spawn(forward_changes(shared.clone(), events)).abort_handle(),
            host,
            options,
            clients,
            next_client: AtomicU64::new(0),
            level: Mutex::default(),
            ended: watch::Sender::new(false),
            leaving: Mutex::default(),
        });
        Self { shared }
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Connects a client.
    pub fn connect(&self, client: ClientInfo) -> Result<Arc<ClientSession>, ConnectError> {
        let shared = &self.shared;
        let wanted = client.profile.as_ref();
        let profile = match wanted.or(shared.options.profile.as_ref()) {
            None => GatewayProfile::default(),
            Some(name) => {
                let profile = shared.options.profiles.get(name).cloned();
                profile.ok_or_else(|| ConnectError::UnknownProfile(name.clone()))?
            }
        };
        let number = shared.next_client.fetch_add(1, Ordering::Relaxed);
        let key: Arc<str> = format!("client-{number}").into();
        let profile = Profile::new(&shared.host, &key, profile);
        if let View::Server(server) = &client.view
            && profile.host().server(server).is_none()
        {
            return Err(ConnectError::UnknownServer(server.clone()));
        }
        let session = ClientSession::new(Arc::clone(&key), Arc::clone(shared), client, profile);
        shared.clients.add(key, Arc::downgrade(&session));
        session.start_private_servers();
        Ok(session)
    }

    /// Ends all sessions, then the host.
    pub async fn shutdown(&self) {
        self.shared.ended.send_replace(true);
        for session in self.shared.clients.sessions() {
            session.close();
        }
        let leaving = {
            let leaving = self.shared.leaving.lock();
            std::mem::take(&mut *leaving.unwrap_or_else(PoisonError::into_inner))
        };
        for task in leaving {
            // A panic there leaves nothing to wait for.
            let _ = task.await;
        }
        self.shared.host.shutdown().await;
    }
}
