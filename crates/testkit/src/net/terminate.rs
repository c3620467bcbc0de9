//! TLS termination: one thread per connection, which passes plain text through a socket pair.
//!
//! Servers handle a plain socket, encrypted or not.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConfig, ServerConnection};

use super::stream::Stream;

/// Performs the handshake; returns the plain side and the thread that pumps bytes, or `None`.
pub(super) fn accept(
    stream: Stream,
    config: &Arc<ServerConfig>,
) -> Option<(Stream, JoinHandle<()>)> {
    let tcp = stream.tcp();
    let mut tls = ServerConnection::new(Arc::clone(config)).ok()?;
    while tls.is_handshaking() {
        tls.complete_io(&mut &*tcp).ok()?;
    }
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let stream = stream.with_plain(theirs);
    let reset = stream.reset_flag();
    let pump = Pump {
        tls,
        tcp,
        plain: ours,
        inbound: Vec::new(),
        reset,
    };
    Some((
        stream,
        thread::spawn(move || {
            // The connection has ended in any case.
            pump.run().ok();
        }),
    ))
}

struct Pump {
    tls: ServerConnection,
    tcp: Arc<TcpStream>,
    plain: UnixStream,
    /// Decrypted bytes that the server has not read yet.
    inbound: Vec<u8>,
    reset: Arc<AtomicBool>,
}

impl Pump {
    fn run(mut self) -> io::Result<()> {
        self.tcp.set_nonblocking(true)?;
        self.plain.set_nonblocking(true)?;
        // The first request may follow the handshake in the same record.
        self.decrypted()?;
        loop {
            let (tcp, plain) = self.wait()?;
            if tcp.intersects(PollFlags::OUT) {
                self.encrypted()?;
            }
            if tcp.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.receive()? {
                return Ok(());
            }
            if plain.intersects(PollFlags::OUT) {
                self.deliver()?;
            }
            if plain.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.send()? {
                return self.farewell();
            }
        }
    }

    /// Waits for I/O. Reads only when earlier input was passed on.
    fn wait(&self) -> io::Result<(PollFlags, PollFlags)> {
        let (mut tcp, mut plain) = (PollFlags::empty(), PollFlags::empty());
        if self.tls.wants_write() {
            tcp |= PollFlags::OUT;
        } else {
            plain |= PollFlags::IN;
        }
        if self.inbound.is_empty() {
            tcp |= PollFlags::IN;
        } else {
            plain |= PollFlags::OUT;
        }
        let mut sockets = [
            PollFd::new(&*self.tcp, tcp),
            PollFd::new(&self.plain, plain),
        ];
        rustix::io::retry_on_intr(|| poll(&mut sockets, None))?;
        Ok((sockets[0].revents(), sockets[1].revents()))
    }

    fn encrypted(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*self.tcp) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads from the client; false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        if !self.inbound.is_empty() {
            // A hang-up is always reported; earlier input is passed on first.
            return Ok(true);
        }
        match self.tls.read_tls(&mut &*self.tcp) {
            Ok(0) => return Ok(false),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let farewell = state.peer_has_closed();
        self.decrypted()?;
        if farewell {
            self.deliver()?;
        }
        Ok(!farewell)
    }

    fn decrypted(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.tls.reader().read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.inbound.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    fn deliver(&mut self) -> io::Result<()> {
        match self.plain.write(&self.inbound) {
            Ok(count) => drop(self.inbound.drain(..count)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            // The server has closed; its remaining output is still read.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => self.inbound.clear(),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Reads from the server; false at the end.
    fn send(&mut self) -> io::Result<bool> {
        if self.tls.wants_write() {
            return Ok(true);
        }
        let mut buffer = [0; 16 << 10];
        match self.plain.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.tls.writer().write_all(&buffer[..count])?;
                self.encrypted()?;
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(e) => Err(e),
        }
    }

    fn farewell(mut self) -> io::Result<()> {
        if self.reset.load(Ordering::Acquire) {
            return Ok(());
        }
        self.tls.send_close_notify();
        self.tcp.set_nonblocking(false)?;
        self.encrypted()?;
        self.tcp.shutdown(Shutdown::Both)
    }
}
