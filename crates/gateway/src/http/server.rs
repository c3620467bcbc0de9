//! Listens, accepts connections within limits, and shuts down without losing calls.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use trunkline_transport::net::Dialer;

use super::endpoint::Endpoint;
use super::error::HttpError;
use super::identity::Authenticator;
use super::io::WriteDeadline;
use super::metrics::Limit;
use super::oauth::Resource;
use super::options::HttpOptions;
use super::tls;
use crate::gateway::Gateway;
use crate::store::Stores;

/// The time for the handshake of TLS.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for connections to close after their last response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time between two searches for clients whose tokens were revoked.
const TOKEN_CHECK: Duration = Duration::from_secs(1);

/// The longest time between two searches for unused sessions.
const SWEEP: Duration = Duration::from_secs(30);

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// The HTTP endpoint of a gateway.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    endpoint: Arc<Endpoint>,
}

impl HttpServer {
    /// Listens on the address of the options.
    pub async fn bind(
        gateway: Gateway,
        stores: Stores,
        options: HttpOptions,
    ) -> Result<Self, HttpError> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let failed = |error: std::io::Error| HttpError::Bind {
            address: options.address,
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(options.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let oauth = options
            .oauth
            .clone()
            .map(|oauth| Resource::new(oauth, Dialer::from_env()));
        let tokens = Arc::clone(&stores.tokens);
        let auth = Authenticator::new(tokens, options.needs_token(), oauth);
        let endpoint = Arc::new(Endpoint::new(gateway, stores, options, auth));
        Ok(Self {
            listener,
            address,
            tls,
            endpoint,
        })
    }

    /// Returns the address that the endpoint listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the endpoint.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }

    /// Serves clients until `shutdown` completes. Then no request is accepted any more, those in
    /// progress have some time to end, and all connections close. Sessions in a store on disk
    /// continue with the next process.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let endpoint = Arc::clone(&self.endpoint);
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let background = tokio::spawn(background(Arc::clone(&endpoint)));
        let _background = AbortOnDrop(background.abort_handle());
        {
            let accepting = self.accept(&mut connections, &stopped);
            tokio::select! {
                () = accepting => {}
                () = shutdown => {}
            }
        }
        endpoint.draining.store(true, Ordering::Release);
        let drained =
            tokio::time::timeout(endpoint.options.limits.drain, endpoint.in_flight.wait());
        if drained.await.is_err() {
            let calls = endpoint.in_flight.count();
            tracing::warn!(target: "trunkline", calls, "calls did not end before the shutdown");
        }
        endpoint.table.end_streams();
        let _ = stop.send(true);
        let closing = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
        connections.abort_all();
        endpoint.table.close();
    }

    async fn accept(&self, connections: &mut JoinSet<()>, stopped: &watch::Receiver<bool>) {
        let per_address = Arc::new(Addresses::default());
        loop {
            while connections.try_join_next().is_some() {}
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(target: "trunkline", %error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let limits = &self.endpoint.options.limits;
            let ip = peer.ip();
            let counted = per_address.enter(ip, limits.connections_per_address);
            let Some(counted) = counted.filter(|_| connections.len() < limits.connections) else {
                self.endpoint.metrics.hit(Limit::Connections);
                continue;
            };
            let endpoint = Arc::clone(&self.endpoint);
            let (tls, stopped) = (self.tls.clone(), stopped.clone());
            connections.spawn(async move {
                let _counted = counted;
                endpoint.metrics.connections.fetch_add(1, Ordering::Relaxed);
                let _open = Open(Arc::clone(&endpoint));
                connection(endpoint, stream, peer, tls, stopped).await;
            });
        }
    }
}

/// Runs what the endpoint does besides requests.
async fn background(endpoint: Arc<Endpoint>) {
    let idle = endpoint.options.limits.session_idle;
    let mut sweep = tokio::time::interval((idle / 4).clamp(Duration::from_millis(10), SWEEP));
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tokens = tokio::time::interval(TOKEN_CHECK);
    tokens.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut events = endpoint.gateway.host().events();
    let mut shut_down = false;
    loop {
        tokio::select! {
            _ = sweep.tick() => endpoint.table.sweep().await,
            _ = tokens.tick() => endpoint.end_revoked().await,
            changes = events.next(), if !shut_down => match changes {
                Some(changes) => {
                    let count = changes.servers.len() as u64;
                    endpoint.metrics.refreshes.fetch_add(count, Ordering::Relaxed);
                }
                None => shut_down = true,
            },
        }
    }
}

/// Serves one connection.
async fn connection(
    endpoint: Arc<Endpoint>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return serve(endpoint, stream, peer, stopped).await;
    };
    match tokio::time::timeout(TLS_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(endpoint, stream, peer, stopped).await,
        Ok(Err(error)) => tracing::debug!(target: "trunkline", %peer, %error, "no TLS handshake"),
        Err(_) => endpoint.metrics.hit(Limit::Time),
    }
}

/// Serves the requests of a byte stream.
pub(super) async fn serve(
    endpoint: Arc<Endpoint>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &endpoint.options.limits;
    let io = TokioIo::new(WriteDeadline::new(stream, limits.write_timeout));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_header_size(limits.head_bytes)
        .max_headers(MAX_HEADERS)
        // hyper refuses a smaller buffer.
        .max_buf_size(limits.head_bytes.max(8192) + 1024);
    let handler = Arc::clone(&endpoint);
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(endpoint.handle(peer, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let stop = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        if error.is_timeout() {
            endpoint.metrics.hit(Limit::Time);
        }
        tracing::debug!(target: "trunkline", %peer, %error, "a connection ended");
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts an open connection.
struct Open(Arc<Endpoint>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the connections of each address.
#[derive(Default)]
struct Addresses(Mutex<HashMap<IpAddr, usize>>);

impl Addresses {
    /// Counts a connection, unless its address has too many.
    fn enter(self: &Arc<Self>, ip: IpAddr, limit: usize) -> Option<Counted> {
        if ip.is_loopback() {
            return Some(Counted(None));
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Counted(Some((Arc::clone(self), ip))))
    }
}

struct Counted(Option<(Arc<Addresses>, IpAddr)>);

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((addresses, ip)) = &self.0 else {
            return;
        };
        let mut counts = addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(ip);
            }
        }
    }
}
