//! The sessions of all clients: legacy ones by their id, modern ones by their identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use trunkline_wire::{ByteString, Json, RpcError};

use super::identity::Identity;
use super::link::StreamLink;
use super::session::{HttpSession, Kind};
use super::stream::EventStream;
use crate::client::{ClientInfo, ConnectError, View};
use crate::gateway::Gateway;
use crate::session::{ClientRequest, ClientSession};
use crate::store::{Digest, SessionRecord, StoreError, Stores, now_millis, random_id};

/// The random bytes of a session id.
const ID_BYTES: usize = 24;

/// The maximum number of identities with a modern session (SEC-4).
const MAX_MODERN: usize = 4096;

/// The longest handshake that is stored for a restart, in bytes.
const MAX_STORED_HANDSHAKE: usize = 64 * 1024;

/// The sessions of the endpoint.
pub(super) struct SessionTable {
    gateway: Gateway,
    stores: Stores,
    per_client: usize,
    idle: Duration,
    legacy: Mutex<HashMap<Digest, Arc<HttpSession>>>,
    modern: Mutex<HashMap<(String, Option<String>), Modern>>,
    /// Held while a session is restored: two requests must not restore it twice.
    restoring: tokio::sync::Mutex<()>,
}

struct Modern {
    client: Arc<ClientSession>,
    last_used: u64,
    /// Its requests, some of which have ended.
    running: Vec<AbortHandle>,
    /// The number of requests at which those that have ended are forgotten.
    prune_at: usize,
}

/// The number of requests of a modern client below which none is forgotten.
const PRUNE_AT: usize = 64;

/// The reason that there is no session.
#[derive(Debug)]
pub(super) enum SessionError {
    /// The client has too many.
    TooMany,
    /// The client may not connect.
    Connect(ConnectError),
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ConnectError> for SessionError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the server of a view.
fn server(view: &View) -> Option<String> {
    match view {
        View::All => None,
        View::Server(server) => Some(server.clone()),
    }
}

impl SessionTable {
    pub(super) fn new(gateway: Gateway, stores: Stores, per_client: usize, idle: Duration) -> Self {
        Self {
            gateway,
            stores,
            per_client,
            idle,
            legacy: Mutex::default(),
            modern: Mutex::default(),
            restoring: tokio::sync::Mutex::default(),
        }
    }

    fn connect(
        &self,
        identity: &Identity,
        view: &View,
    ) -> Result<Arc<ClientSession>, ConnectError> {
        let client = ClientInfo::new(identity.label.clone())
            .profile(identity.profile.clone())
            .view(view.clone());
        self.gateway.connect(client)
    }

    /// Returns the session for the modern requests of a client.
    pub(super) fn modern(
        &self,
        identity: &Identity,
        view: &View,
    ) -> Result<Arc<ClientSession>, SessionError> {
        let mut modern = lock(&self.modern);
        let key = (identity.key.clone(), server(view));
        if let Some(found) = modern.get_mut(&key) {
            found.last_used = now_millis();
            return Ok(Arc::clone(&found.client));
        }
        if modern.len() >= MAX_MODERN {
            return Err(SessionError::TooMany);
        }
        let client = self.connect(identity, view)?;
        let entry = Modern {
            client: Arc::clone(&client),
            last_used: now_millis(),
            running: Vec::new(),
            prune_at: PRUNE_AT,
        };
        modern.insert(key, entry);
        Ok(client)
    }

    /// Remembers a running request of a modern client, to end it with the client.
    pub(super) fn started(&self, identity: &Identity, view: &View, request: AbortHandle) {
        let key = (identity.key.clone(), server(view));
        let mut modern = lock(&self.modern);
        let Some(entry) = modern.get_mut(&key) else {
            // Its token was revoked meanwhile.
            request.abort();
            return;
        };
        if entry.running.len() >= entry.prune_at {
            entry.running.retain(|request| !request.is_finished());
            entry.prune_at = PRUNE_AT.max(2 * entry.running.len());
        }
        entry.running.push(request);
    }

    /// Returns the keys of all clients.
    pub(super) fn owners(&self) -> Vec<String> {
        let mut owners: Vec<String> = lock(&self.modern)
            .keys()
            .map(|(owner, _)| owner.clone())
            .collect();
        owners.extend(lock(&self.legacy).values().map(|it| it.owner.clone()));
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Ends the sessions, requests and streams of a client.
    pub(super) async fn end_client(&self, owner: &str) {
        let ended: Vec<Modern> = lock(&self.modern)
            .extract_if(|(key, _), _| key == owner)
            .map(|(_, entry)| entry)
            .collect();
        for entry in ended {
            for request in &entry.running {
                request.abort();
            }
            entry.client.close();
        }
        let sessions: Vec<_> = lock(&self.legacy).values().cloned().collect();
        for session in sessions.iter().filter(|session| session.owner == owner) {
            self.remove(session).await;
        }
    }

    /// Opens a session and returns its id. It is in the table, but not stored yet.
    pub(super) fn open(
        &self,
        identity: &Identity,
        view: &View,
        kind: Kind,
    ) -> Result<(String, Arc<HttpSession>), SessionError> {
        let id = random_id(ID_BYTES)?;
        let client = self.connect(identity, view)?;
        let key = Digest::of(&id);
        let session = HttpSession::new(key, identity.key.clone(), view.clone(), kind, client);
        let mut legacy = lock(&self.legacy);
        let owned = legacy.values().filter(|other| other.owner == session.owner);
        if owned.count() >= self.per_client {
            drop(legacy);
            session.close();
            return Err(SessionError::TooMany);
        }
        legacy.insert(key, Arc::clone(&session));
        Ok((id, session))
    }

    /// Stores a session whose handshake has succeeded, so that it survives a restart.
    pub(super) async fn store(
        &self,
        session: &HttpSession,
        initialize: Option<&Json>,
    ) -> Result<(), StoreError> {
        let initialize = initialize.map_or("{}", Json::as_str);
        // Such a session ends with the gateway: clients must not fill the disk.
        if initialize.len() > MAX_STORED_HANDSHAKE {
            return Ok(());
        }
        let record = SessionRecord {
            key: session.key,
            owner: session.owner.clone(),
            server: server(&session.view),
            initialize: initialize.to_owned(),
            last_used: now_millis(),
        };
        self.stores.sessions.put(record).await
    }

    /// Finds the session with this id, if it belongs to the client and the endpoint. One of an
    /// earlier process is restored.
    pub(super) async fn find(
        &self,
        id: &str,
        identity: &Identity,
        view: &View,
    ) -> Result<Option<Arc<HttpSession>>, SessionError> {
        let key = Digest::of(id);
        let find = || lock(&self.legacy).get(&key).cloned();
        let is_ours = |session: &Arc<HttpSession>| {
            session.owner == identity.key && session.view == *view && !session.is_closed()
        };
        if let Some(session) = find() {
            return Ok(Some(session).filter(is_ours));
        }
        let _restoring = self.restoring.lock().await;
        if let Some(session) = find() {
            return Ok(Some(session).filter(is_ours));
        }
        let Some(record) = self.stores.sessions.get(key).await? else {
            return Ok(None);
        };
        let expires = record.last_used.saturating_add(millis(self.idle));
        if record.owner != identity.key || record.server != server(view) || expires < now_millis() {
            return Ok(None);
        }
        let client = self.connect(identity, view)?;
        let owner = identity.key.clone();
        let session = HttpSession::new(key, owner, view.clone(), Kind::Streamable, client);
        if let Err(error) = handshake(&session, record.initialize).await {
            tracing::warn!(target: "trunkline", %error, "a session cannot be restored");
            session.close();
            return Ok(None);
        }
        lock(&self.legacy).insert(key, Arc::clone(&session));
        Ok(Some(session))
    }

    /// Finds a session of HTTP+SSE.
    pub(super) fn find_sse(&self, id: &str, identity: &Identity) -> Option<Arc<HttpSession>> {
        let found = lock(&self.legacy).get(&Digest::of(id)).cloned();
        found.filter(|session| {
            session.kind == Kind::Sse && session.owner == identity.key && !session.is_closed()
        })
    }

    /// Ends a session for good.
    pub(super) async fn remove(&self, session: &HttpSession) {
        lock(&self.legacy).remove(&session.key);
        session.close();
        let removed = self.stores.sessions.remove(session.key).await;
        let forgotten = self.stores.events.forget(session.key).await;
        if let Err(error) = removed.and(forgotten) {
            tracing::warn!(target: "trunkline", %error, "a session stays in the store");
        }
    }

    /// Removes a session from memory alone.
    pub(super) fn forget(&self, session: &HttpSession) {
        lock(&self.legacy).remove(&session.key);
        session.close();
    }

    /// Ends the sessions that nobody has used for a while.
    pub(super) async fn sweep(&self) {
        let now = now_millis();
        let limit = now.saturating_sub(millis(self.idle));
        let sessions: Vec<_> = lock(&self.legacy).values().cloned().collect();
        for session in sessions {
            if session.is_closed() || session.idle_since().is_some_and(|since| since < limit) {
                self.remove(&session).await;
                continue;
            }
            session.forget_abandoned();
            if let Err(error) = self
                .stores
                .sessions
                .touch(session.key, session.last_used())
                .await
            {
                tracing::warn!(target: "trunkline", %error, "the use of a session is not stored");
            }
        }
        if let Err(error) = self.stores.sessions.expire(limit).await {
            tracing::warn!(target: "trunkline", %error, "old sessions stay in the store");
        }
        lock(&self.modern).retain(|_, modern| {
            // A request in progress holds the session.
            let used = modern.last_used >= limit || Arc::strong_count(&modern.client) > 1;
            if !used {
                modern.client.close();
            }
            used
        });
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.legacy).len()
    }

    /// Ends all streams, so that connections become idle.
    pub(super) fn end_streams(&self) {
        for session in lock(&self.legacy).values() {
            session.end_streams();
        }
    }

    /// Ends all sessions in memory. Stored ones can be restored by the next process.
    pub(super) fn close(&self) {
        let legacy: Vec<_> = lock(&self.legacy).drain().collect();
        for (_, session) in legacy {
            session.close();
        }
        for (_, modern) in lock(&self.modern).drain() {
            modern.client.close();
        }
    }
}

/// Repeats the handshake of a stored session.
async fn handshake(session: &HttpSession, params: String) -> Result<(), RpcError> {
    let invalid = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the stored handshake is not JSON");
    let params = Json::parse(params).map_err(invalid)?;
    let nowhere = Arc::new(EventStream::new(1, 0));
    let link = Arc::new(StreamLink::new(nowhere, None, || {}));
    let request = ClientRequest {
        id: Json::null(),
        method: ByteString::from_static("initialize"),
        params: Some(params),
    };
    let result = session.client.request(request, link).await?;
    session.initialized(&result);
    session
        .client
        .notification("notifications/initialized", None);
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
