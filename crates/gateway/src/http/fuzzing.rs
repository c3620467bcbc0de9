//! The entry point of a fuzz target; not part of the API.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use trunkline::Host;

use super::endpoint::Endpoint;
use super::identity::Authenticator;
use super::options::HttpOptions;
use super::server;
use crate::gateway::{Gateway, GatewayOptions};
use crate::store::Stores;

/// How long an answer is awaited. Streams have no other end.
const PATIENCE: Duration = Duration::from_millis(20);

/// An endpoint without servers, for one connection after the other.
pub struct Target {
    endpoint: Arc<Endpoint>,
    runtime: tokio::runtime::Runtime,
}

impl Target {
    /// Starts the endpoint; `None` without a runtime.
    pub fn new() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let endpoint = runtime.block_on(async {
            let gateway = Gateway::start(Host::builder(), GatewayOptions::default());
            let mut options = HttpOptions::new(([127, 0, 0, 1], 0).into());
            options.limits.head_timeout = PATIENCE;
            options.limits.body_timeout = PATIENCE;
            options.limits.body_bytes = 64 * 1024;
            let stores = Stores::in_memory();
            let auth = Authenticator::new(Arc::clone(&stores.tokens), false, None);
            Arc::new(Endpoint::new(gateway, stores, options, auth))
        });
        Some(Self { endpoint, runtime })
    }

    /// Sends bytes to the endpoint and returns its answers.
    pub fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (_stop, stopped) = watch::channel(false);
            let peer = ([127, 0, 0, 1], 1).into();
            let endpoint = Arc::clone(&self.endpoint);
            let served = tokio::spawn(server::serve(endpoint, theirs, peer, stopped));
            let (mut read, mut write) = tokio::io::split(ours);
            let mut answers = Vec::new();
            let exchange = async {
                let _ = write.write_all(bytes).await;
                let _ = write.shutdown().await;
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = read.read(&mut chunk).await {
                    answers.extend_from_slice(&chunk[..count]);
                }
            };
            let _ = tokio::time::timeout(PATIENCE, exchange).await;
            served.abort();
            answers
        })
    }
}
