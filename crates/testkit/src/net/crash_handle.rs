//! What a script's `exit` and `signal` do to a server on the network.

use std::sync::{Arc, OnceLock};

use crate::{
    Script,
    scripted::{Common, Environment, Exchange, Out, Server, Sink},
};

type End = Box<dyn Fn() + Send + Sync>;

/// The way a server goes down; known only once it is up.
pub(crate) struct CrashHandle {
    /// Whether the server is all of this process, which then really ends.
    process: bool,
    end: Arc<OnceLock<End>>,
}

impl CrashHandle {
    pub(crate) fn new(process: bool) -> Self {
        Self {
            process,
            end: Arc::default(),
        }
    }

    /// Says what it is. It must not keep the server alive.
    pub(crate) fn on_crash(&self, end: impl Fn() + Send + Sync + 'static) {
        self.end.set(Box::new(end)).ok();
    }

    /// Runs the script's `onStart` and gives what its sessions share.
    pub(crate) fn start_script(&self, script: &Script) -> Arc<Common> {
        let common = Common::new(script.clone());
        Server::new(&common, NullSink, self.environment()).begin();
        common
    }

    /// A place for a session.
    pub(crate) fn environment(&self) -> Environment {
        if self.process {
            return Environment::Process;
        }
        let end = Arc::clone(&self.end);
        Environment::Network(Arc::new(move || {
            if let Some(end) = end.get() {
                end();
            }
        }))
    }
}

/// There is no client yet.
struct NullSink;

impl Sink for NullSink {
    fn put(&self, _: Exchange, _: Out) {}

    fn close(&self) {}
}
