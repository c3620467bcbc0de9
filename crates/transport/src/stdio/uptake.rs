//! How much of what a server was sent it has read, which tells what it cannot have died of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::process::ChildStdin;
use trunkline_wire::transport::Outgoing;

/// How much of its stdin a server has read. Clones look at the same server.
#[derive(Clone, Debug, Default)]
pub struct Uptake(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    written: usize,
    /// Where `initialize` begins.
    handshake_at: Option<usize>,
    /// What was left in the pipe when it was closed.
    unread: Option<usize>,
}

impl Counts {
    fn read(self) -> Option<usize> {
        Some(self.written.saturating_sub(self.unread?))
    }

    fn may_have_read_handshake(self) -> bool {
        let read = self.read().unwrap_or(self.written);
        self.handshake_at.is_some_and(|at| read > at)
    }
}

impl Uptake {
    /// Whether the server has ended and read nothing at all. `false` where that cannot be known.
    pub fn is_nothing(&self) -> bool {
        self.lock().read() == Some(0)
    }

    /// Whether the server may have read the beginning of an `initialize` request.
    pub fn may_include_handshake(&self) -> bool {
        self.lock().may_have_read_handshake()
    }

    /// Takes note of a message that begins `offset` bytes into the next write.
    pub(super) fn sending(&self, message: &Outgoing, offset: usize) {
        if let Outgoing::Request {
            method: "initialize",
            ..
        } = message
        {
            let mut counts = self.lock();
            let at = counts.written + offset;
            counts.handshake_at.get_or_insert(at);
        }
    }

    pub(super) fn sent(&self, bytes: usize) {
        let mut counts = self.lock();
        counts.written = counts.written.saturating_add(bytes);
    }

    /// Takes note of what is left in the pipe; the last time to ask is before it is closed.
    pub(super) fn measure(&self, stdin: &ChildStdin) {
        let unread = unread(stdin);
        self.lock().unread = unread;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
fn unread(stdin: &ChildStdin) -> Option<usize> {
    let unread = rustix::io::ioctl_fionread(stdin).ok()?;
    usize::try_from(unread).ok()
}

/// Elsewhere the writing end of a pipe does not tell.
#[cfg(not(target_os = "linux"))]
fn unread(_: &ChildStdin) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_follows_from_what_is_left() {
        let cases = [
            // written, handshake at, unread, nothing?, handshake?
            (0, None, Some(0), true, false),
            (100, None, Some(100), true, false),
            (100, None, Some(0), false, false),
            (250, Some(100), Some(250), true, false),
            (250, Some(100), Some(150), false, false),
            (250, Some(100), Some(149), false, true),
            (250, Some(100), Some(0), false, true),
            // Not a Linux pipe: whatever is possible may be.
            (100, None, None, false, false),
            (250, Some(100), None, false, true),
        ];
        for (written, handshake_at, unread, nothing, handshake) in cases {
            let counts = Counts {
                written,
                handshake_at,
                unread,
            };
            let uptake = Uptake(Arc::new(Mutex::new(counts)));
            assert_eq!(
                (uptake.is_nothing(), uptake.may_include_handshake()),
                (nothing, handshake),
                "{counts:?}"
            );
        }
    }
}
