//! The sink that sends records to the system log: `/dev/log`, which syslog daemons and journald
//! read. Records beyond what a datagram holds, or that the daemon does not take in time, are
//! dropped: the file is the log, this is a copy elsewhere.

use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, PoisonError};

use super::{AuditRecord, AuditSink};

const SOCKET: &str = "/dev/log";

/// Facility `authpriv` (10), severity `notice` (5).
const PRIORITY: u32 = 10 * 8 + 5;

/// Sends records to the system log.
#[derive(Default)]
pub(super) struct Syslog(Mutex<Option<UnixDatagram>>);

impl AuditSink for Syslog {
    fn record(&self, record: AuditRecord) {
        let Ok(text) = serde_json::to_string(&record) else {
            return;
        };
        let pid = std::process::id();
        let message = format!("<{PRIORITY}>trunkline[{pid}]: {text}");
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The daemon may have been restarted since.
        for _ in 0..2 {
            if socket.is_none() {
                *socket = connect();
            }
            match socket
                .as_ref()
                .map(|socket| socket.send(message.as_bytes()))
            {
                Some(Err(error)) if error.kind() != std::io::ErrorKind::WouldBlock => {
                    *socket = None;
                }
                _ => return,
            }
        }
    }
}

fn connect() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect(SOCKET).ok()?;
    Some(socket)
}
