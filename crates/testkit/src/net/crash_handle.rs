//! The effect of a script's `exit` and `signal` on a network server.

use std::sync::{Arc, OnceLock};

use crate::{
    Script,
    scripted::{Common, Environment, Exchange, Out, Server, Sink},
};

type End = Box<dyn Fn() + Send + Sync>;

/// Crashes a server; set once the server is running.
pub(crate) struct CrashHandle {
    /// The server is all of this process, which then exits.
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

    /// Sets the callback. It must not keep the server alive.
    pub(crate) fn on_crash(&self, end: impl Fn() + Send + Sync + 'static) {
        self.end.set(Box::new(end)).ok();
    }

    /// Runs the script's `onStart` and returns the state that sessions share.
    pub(crate) fn start_script(&self, script: &Script) -> Arc<Common> {
        let common = Common::new(script.clone());
        Server::new(&common, NullSink, self.environment()).begin();
        common
    }

    /// The environment of a session.
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

/// Discards output: there is no client yet.
struct NullSink;

impl Sink for NullSink {
    fn put(&self, _: Exchange, _: Out) {}

    fn close(&self) {}
}
