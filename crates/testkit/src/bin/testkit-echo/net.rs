//! Many connections on one thread, with one read and one write each.

use std::{
    convert::Infallible,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    process::exit,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};
use rustix::{
    buffer::spare_capacity,
    io::{Errno, read, retry_on_intr, write},
};

use crate::{Options, http::Http, ws::WebSocket};

const LISTENER: Token = Token(usize::MAX);
const EVENTS: usize = 256;
const CHUNK: usize = 16 << 10;

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

/// Prints its URL and serves until stdin ends, then prints the number of connections and messages.
pub(crate) fn serve(scheme: &str, options: &Options) -> io::Error {
    match run(scheme, options) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

fn run(scheme: &str, options: &Options) -> io::Result<Infallible> {
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{scheme}://{}/mcp", listener.local_addr()?);
    io::stdout().flush()?;
    thread::spawn(until_stdin_ends);

    let mut poll = Poll::new()?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    let mut events = Events::with_capacity(EVENTS);
    loop {
        if let Err(error) = poll.poll(&mut events, None)
            && error.kind() != ErrorKind::Interrupted
        {
            return Err(error);
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let at = free.pop().unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    stream.set_nodelay(true)?;
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(at), interest)?;
                    CONNECTIONS.fetch_add(1, Ordering::Relaxed);
                    connections[at] = Some(Connection::new(stream));
                }
                continue;
            }
            let Token(at) = event.token();
            if let Some(connection) = connections.get_mut(at).and_then(Option::as_mut)
                && connection.turn(options).is_none()
            {
                connections[at] = None;
                free.push(at);
            }
        }
    }
}

fn until_stdin_ends() {
    let mut ignored = [0; 256];
    while io::stdin().read(&mut ignored).is_ok_and(|count| count > 0) {}
    let (connections, messages) = (
        CONNECTIONS.load(Ordering::Relaxed),
        MESSAGES.load(Ordering::Relaxed),
    );
    // stdout may be closed.
    let counts = format!(r#"{{"connections":{connections},"messages":{messages}}}"#);
    let _ = writeln!(io::stdout(), "{counts}");
    exit(0)
}

/// The protocol of a connection.
pub(crate) enum Protocol {
    Http(Http),
    WebSocket(WebSocket),
}

/// The result of processing input.
pub(crate) enum Step {
    /// Bytes consumed; the response is in the output.
    Done(usize),
    /// The same, and the protocol changes to WebSocket.
    Upgraded(usize),
    /// Needs this many bytes, or 0 if unknown.
    Wants(usize),
    /// The input is invalid.
    Close,
}

struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            protocol: Protocol::Http(Http::default()),
            input: Vec::with_capacity(CHUNK),
            output: Vec::with_capacity(CHUNK),
            sent: 0,
        }
    }

    /// Reads, responds and writes without blocking; `None` when the connection is over.
    fn turn(&mut self, options: &Options) -> Option<()> {
        if !self.output.is_empty() {
            self.flush()?;
        }
        loop {
            if self.input.capacity() - self.input.len() < CHUNK / 2 {
                self.input.reserve(self.input.len().max(CHUNK));
            }
            let room = self.input.capacity() - self.input.len();
            let count = match retry_on_intr(|| read(&self.stream, spare_capacity(&mut self.input)))
            {
                Ok(0) => return None,
                Ok(count) => count,
                Err(Errno::AGAIN) => return Some(()),
                Err(_) => return None,
            };
            self.answer(options)?;
            self.flush()?;
            // The socket is empty; new bytes cause an event.
            if count < room {
                return Some(());
            }
        }
    }

    fn answer(&mut self, options: &Options) -> Option<()> {
        let mut done = 0;
        while done < self.input.len() {
            let rest = &mut self.input[done..];
            let step = match &mut self.protocol {
                Protocol::Http(http) => http.step(rest, options, &mut self.output),
                Protocol::WebSocket(socket) => socket.step(rest, options, &mut self.output),
            };
            match step {
                Step::Done(count) => done += count,
                Step::Upgraded(count) => {
                    done += count;
                    self.protocol = Protocol::WebSocket(WebSocket::default());
                    continue;
                }
                Step::Wants(count) => {
                    self.input.drain(..done);
                    self.input.reserve(count.saturating_sub(self.input.len()));
                    return Some(());
                }
                Step::Close => return None,
            }
            MESSAGES.fetch_add(1, Ordering::Relaxed);
        }
        self.input.clear();
        Some(())
    }

    fn flush(&mut self) -> Option<()> {
        while self.sent < self.output.len() {
            match retry_on_intr(|| write(&self.stream, &self.output[self.sent..])) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Some(()),
                Err(_) => return None,
            }
        }
        self.output.clear();
        self.sent = 0;
        Some(())
    }
}
