//! What a script's `exit` and `signal` do to a server on the network.

use std::sync::{Arc, OnceLock};

use crate::{
    Script,
    scripted::{Common, Exchange, Out, Place, Server, Sink},
};

type End = Box<dyn Fn() + Send + Sync>;

/// The way a server goes down; known only once it is up.
pub(crate) struct Crash {
    /// Whether the server is all of this process, which then really ends.
    process: bool,
    end: Arc<OnceLock<End>>,
}

impl Crash {
    pub(crate) fn new(process: bool) -> Self {
        Self {
            process,
            end: Arc::default(),
        }
    }

    /// Says what it is. It must not keep the server alive.
    pub(crate) fn is(&self, end: impl Fn() + Send + Sync + 'static) {
        self.end.set(Box::new(end)).ok();
    }

    /// Runs the script's `onStart` and gives what its sessions share.
    pub(crate) fn begin(&self, script: &Script) -> Arc<Common> {
        let common = Common::new(script.clone());
        Server::new(&common, Nowhere, self.place()).begin();
        common
    }

    /// A place for a session.
    pub(crate) fn place(&self) -> Place {
        if self.process {
            return Place::Process;
        }
        let end = Arc::clone(&self.end);
        Place::Network(Arc::new(move || {
            if let Some(end) = end.get() {
                end();
            }
        }))
    }
}

/// There is no client yet.
struct Nowhere;

impl Sink for Nowhere {
    fn put(&self, _: Exchange, _: Out) {}

    fn close(&self) {}
}
