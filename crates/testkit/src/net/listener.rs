//! The listener of all network servers: it counts connections, can crash, and restarts on the same
//! port.

use std::{
    collections::HashMap,
    fmt,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use socket2::{Domain, Socket, Type};

use super::{
    stream::{CloseHandle, Stream},
    terminate,
};

type Serve = Box<dyn Fn(Stream, usize) + Send + Sync>;

/// A listener on loopback with a thread per connection, stopped on drop.
pub(crate) struct Listener {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    /// Bound but never listening: reserves the port while the server is down.
    _reserved: Socket,
    listening: Mutex<Option<Listening>>,
    accepted: AtomicUsize,
    open: Mutex<HashMap<usize, CloseHandle>>,
    tls: Option<Arc<rustls::ServerConfig>>,
    serve: Serve,
}

struct Listening {
    listener: Arc<TcpListener>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Listener {
    /// Listens on a port, or on a free one for 0. `serve` gets each connection with its number and
    /// returns at its end.
    pub(crate) fn start(
        tls: Option<Arc<rustls::ServerConfig>>,
        port: u16,
        serve: impl Fn(Stream, usize) + Send + Sync + 'static,
    ) -> Self {
        let reserved = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let address = reserved
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket())
            .expect("the address of a bound socket");
        let server = Self {
            inner: Arc::new(Inner {
                address,
                _reserved: reserved,
                listening: Mutex::default(),
                accepted: AtomicUsize::new(0),
                open: Mutex::default(),
                tls,
                serve: Box::new(serve),
            }),
        };
        server.listen();
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.inner.accepted.load(Ordering::Acquire)
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.inner.open.lock().unwrap().len()
    }

    /// Closes every connection; new ones are accepted as before.
    pub(crate) fn drop_connections(&self) {
        self.inner.drop_connections();
    }

    /// Listens (again) on the same port.
    pub(crate) fn listen(&self) {
        let mut listening = self.inner.listening.lock().unwrap();
        if listening.is_some() {
            return;
        }
        let socket = bound(self.inner.address);
        socket.listen(1024).expect("a listening socket");
        let listener = Arc::new(TcpListener::from(socket));
        let stop = Arc::new(AtomicBool::new(false));
        let (inner, flag) = (Arc::clone(&self.inner), Arc::clone(&stop));
        let accepting = Arc::clone(&listener);
        *listening = Some(Listening {
            listener,
            stop,
            thread: thread::spawn(move || accept(&inner, &accepting, &flag)),
        });
    }

    /// Stops listening; connections stay open. Returns when connecting is refused.
    pub(crate) fn refuse(&self) {
        self.inner.refuse();
    }

    /// Stops listening and closes every connection.
    pub(crate) fn stop(&self) {
        self.inner.refuse();
        self.inner.drop_connections();
    }

    /// A callback that stops the server, for its own script, without keeping it alive.
    pub(crate) fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move || {
            if let Some(inner) = inner.upgrade() {
                inner.refuse();
                inner.drop_connections();
            }
        }
    }
}

impl Inner {
    fn refuse(&self) {
        let Some(listening) = self.listening.lock().unwrap().take() else {
            return;
        };
        listening.stop.store(true, Ordering::Release);
        // A process being spawned may hold the socket for a moment: closing it is not enough.
        socket2::SockRef::from(&*listening.listener)
            .shutdown(Shutdown::Both)
            .ok();
        // Wakes the thread where the shutdown does not.
        TcpStream::connect(self.address).ok();
        listening.thread.join().ok();
    }

    fn drop_connections(&self) {
        let open: Vec<_> = self.open.lock().unwrap().values().cloned().collect();
        open.iter().for_each(CloseHandle::close);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Front({})", self.inner.address)
    }
}

/// A bound socket whose address may be shared with others that do not listen.
fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .unwrap_or_else(|e| panic!("binding {address}: {e}"));
    socket
}

fn accept(inner: &Arc<Inner>, listener: &TcpListener, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        stream.set_nodelay(true).ok();
        let stream = Stream::new(Arc::new(stream));
        let number = inner.accepted.fetch_add(1, Ordering::AcqRel);
        inner
            .open
            .lock()
            .unwrap()
            .insert(number, stream.close_handle());
        let inner = Arc::clone(inner);
        thread::spawn(move || {
            match &inner.tls {
                None => (inner.serve)(stream, number),
                Some(config) => {
                    if let Some((stream, pump)) = terminate::accept(stream, config) {
                        (inner.serve)(stream, number);
                        pump.join().ok();
                    }
                }
            }
            inner.open.lock().unwrap().remove(&number);
        });
    }
}
