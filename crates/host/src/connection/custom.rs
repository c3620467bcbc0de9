//! Servers reached over a transport that the embedding program provides.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;
type Connecting = Pin<Box<dyn Future<Output = io::Result<(Reader, Writer)>> + Send>>;

/// A server whose reader and writer come from the embedding program.
pub(crate) struct CustomServer {
    name: String,
    /// Tells servers of the same name apart.
    id: u64,
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
}

impl CustomServer {
    pub(crate) fn new<F, C, R, W>(name: String, connect: F) -> Self
    where
        F: Fn() -> C + Send + Sync + 'static,
        C: Future<Output = io::Result<(R, W)>> + Send + 'static,
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self {
            name,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            connect: Box::new(move || {
                let connecting = connect();
                Box::pin(async move {
                    let (reader, writer) = connecting.await?;
                    Ok((Box::new(reader) as Reader, Box::new(writer) as Writer))
                })
            }),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn connect(&self) -> Connecting {
        (self.connect)()
    }
}
