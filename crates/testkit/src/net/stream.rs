//! An accepted connection: plain TCP, or TLS terminated by a thread behind a socket pair.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A handle to a connection; the connection ends with its last handle.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    tcp: Arc<TcpStream>,
    /// The plain text side, when the connection is encrypted.
    plain: Option<Arc<UnixStream>>,
    reset: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

impl Stream {
    pub(super) fn new(tcp: Arc<TcpStream>) -> Self {
        Self {
            tcp,
            plain: None,
            reset: Arc::default(),
            dropped: Arc::default(),
        }
    }

    /// Switches the connection to its plain text side.
    pub(super) fn with_plain(mut self, plain: UnixStream) -> Self {
        self.plain = Some(Arc::new(plain));
        self
    }

    /// A handle that closes the connection without keeping it open.
    pub(super) fn close_handle(&self) -> CloseHandle {
        CloseHandle {
            tcp: Arc::downgrade(&self.tcp),
            dropped: Arc::clone(&self.dropped),
        }
    }

    /// Whether a [`CloseHandle`] closed the connection.
    pub(super) fn dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The flag that makes the TLS thread skip `close_notify`.
    pub(super) fn reset_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.reset)
    }

    /// The socket itself, for raw forwarding.
    pub(super) fn tcp(&self) -> Arc<TcpStream> {
        Arc::clone(&self.tcp)
    }

    /// Closes the connection after pending data, unless it was reset.
    pub(crate) fn close(&self) {
        if self.reset.load(Ordering::Acquire) {
            return;
        }
        match &self.plain {
            Some(plain) => plain.shutdown(Shutdown::Both),
            None => self.tcp.shutdown(Shutdown::Both),
        }
        // It may be closed already.
        .ok();
    }

    /// Resets the connection once the last handle is dropped.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Release);
        arm_reset(&self.tcp);
        if let Some(plain) = &self.plain {
            plain.shutdown(Shutdown::Both).ok();
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct CloseHandle {
    tcp: Weak<TcpStream>,
    dropped: Arc<AtomicBool>,
}

impl CloseHandle {
    pub(super) fn close(&self) {
        if let Some(tcp) = self.tcp.upgrade() {
            self.dropped.store(true, Ordering::Release);
            tcp.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Makes the next close of a socket a reset, and wakes its readers.
pub(super) fn arm_reset(tcp: &TcpStream) {
    socket2::SockRef::from(tcp)
        .set_linger(Some(Duration::ZERO))
        .ok();
    tcp.shutdown(Shutdown::Read).ok();
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.plain {
            Some(plain) => (&**plain).read(buffer),
            None => (&*self.tcp).read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.plain {
            Some(plain) => (&**plain).write(bytes),
            None => (&*self.tcp).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
