//! The sessions of a server between two starts, and the routing of messages to streams.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Script,
    net::{
        channel::{Channel, ChannelKind},
        crash_handle::CrashHandle,
    },
    scripted::{Common, Environment, Exchange, Out, Server, Sink},
};

/// Never reused, not even after a restart, so that old session and event ids are unknown.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub(super) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The state that a crash loses.
pub(super) struct ServerRun {
    pub(super) common: Arc<Common>,
    /// Modern requests, which have no session.
    pub(super) modern: Arc<Session>,
    /// Legacy requests to a server without sessions.
    pub(super) open: Arc<Session>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

/// A session with one client.
pub(super) struct Session {
    pub(super) server: Arc<Server>,
    pub(super) router: Arc<Router>,
}

impl ServerRun {
    /// Creates the state and runs the start of the script.
    pub(super) fn new(script: &Script, crash: &CrashHandle) -> Self {
        let common = crash.start_script(script);
        let modern = Session::new(&common, crash.environment(), true);
        let open = Session::new(&common, crash.environment(), false);
        open.server.skip_handshake();
        Self {
            common,
            modern,
            open,
            sessions: Mutex::default(),
        }
    }

    pub(super) fn create(&self, environment: Environment) -> (String, Arc<Session>) {
        let id = format!("testkit-{}-{}", std::process::id(), number());
        let session = Session::new(&self.common, environment, false);
        let mut sessions = self.sessions.lock().unwrap();
        sessions.insert(id.clone(), Arc::clone(&session));
        (id, session)
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.lock().unwrap().get(id).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }

    /// Ends a session at the client's request; false if there is none.
    pub(super) fn delete(&self, id: &str) -> bool {
        let session = self.sessions.lock().unwrap().remove(id);
        if let Some(session) = &session {
            session.server.abandon();
            session.router.main.end();
        }
        session.is_some()
    }

    /// Forgets the sessions; their streams stay open and silent.
    pub(super) fn forget(&self) {
        self.sessions.lock().unwrap().clear();
    }

    /// Stops all work, as in a crash.
    pub(super) fn abandon(&self) {
        let sessions: Vec<_> = self.sessions.lock().unwrap().values().cloned().collect();
        for session in sessions.iter().chain([&self.modern, &self.open]) {
            session.server.abandon();
        }
    }

    /// Breaks every stream.
    pub(super) fn cut(&self) {
        self.modern.router.cut();
        self.open.router.cut();
        for session in self.sessions.lock().unwrap().values() {
            session.router.cut();
        }
    }
}

impl Session {
    fn new(common: &Arc<Common>, environment: Environment, modern: bool) -> Arc<Self> {
        let router = Arc::new(Router {
            main: Channel::new(number(), ChannelKind::Lasting),
            posts: Mutex::default(),
            modern,
        });
        Arc::new(Self {
            server: Server::new(common, RouterSink(Arc::clone(&router)), environment),
            router,
        })
    }
}

/// The streams of one session.
#[derive(Debug)]
pub(super) struct Router {
    /// The GET stream.
    pub(super) main: Arc<Channel>,
    posts: Mutex<HashMap<u64, Arc<Channel>>>,
    modern: bool,
}

impl Router {
    pub(super) fn open(&self, kind: ChannelKind) -> Arc<Channel> {
        let channel = Channel::new(number(), kind);
        self.posts
            .lock()
            .unwrap()
            .insert(channel.number, Arc::clone(&channel));
        channel
    }

    pub(super) fn close(&self, channel: &Channel) {
        self.posts.lock().unwrap().remove(&channel.number);
    }

    /// The channel and index of an event id.
    pub(super) fn find(&self, event: &str) -> Option<(Arc<Channel>, usize)> {
        let (number, index) = event.split_once('-')?;
        let (number, index) = (number.parse::<u64>().ok()?, index.parse().ok()?);
        if number == self.main.number {
            return Some((Arc::clone(&self.main), index));
        }
        let posts = self.posts.lock().unwrap();
        Some((Arc::clone(posts.get(&number)?), index))
    }

    fn cut(&self) {
        self.main.cut();
        for channel in self.posts.lock().unwrap().values() {
            channel.cut();
        }
    }
}

struct RouterSink(Arc<Router>);

impl Sink for RouterSink {
    fn put(&self, to: Exchange, out: Out) {
        let Some(number) = to else {
            return self.0.main.push(out);
        };
        let channel = self.0.posts.lock().unwrap().get(&number).cloned();
        match channel {
            // A JSON body has one message; others go to the GET stream of a legacy client.
            Some(channel)
                if channel.kind == ChannelKind::Body
                    && !self.0.modern
                    && matches!(out, Out::Message(_)) =>
            {
                self.0.main.push(out);
            }
            Some(channel) => channel.push(out),
            // The client is gone.
            None => {}
        }
    }

    fn close(&self) {}
}
