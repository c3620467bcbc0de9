//! How much of its stdin a server has read, to rule out causes of its exit.

#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::process::ChildStdin;
use trunkline_wire::transport::Outgoing;

/// How much of its stdin a server has read. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct StdinProgress(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// A second descriptor of the pipe, until it is closed or nobody asks any more.
    #[cfg(target_os = "linux")]
    pipe: Option<OwnedFd>,
    written: usize,
    /// The offset of `initialize`.
    handshake_at: Option<usize>,
    /// Bytes left in the pipe when it was closed.
    unread: Option<usize>,
}

impl Counts {
    fn read(&self) -> Option<usize> {
        Some(self.written.saturating_sub(self.unread?))
    }

    fn may_have_read_handshake(&self) -> bool {
        let read = self.read().unwrap_or(self.written);
        self.handshake_at.is_some_and(|at| read > at)
    }
}

impl StdinProgress {
    /// Follows a pipe, until [`StdinProgress::release`] or the pipe's end.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "other systems do not tell")
    )]
    pub(super) fn of(stdin: &ChildStdin) -> Self {
        #[cfg(target_os = "linux")]
        let counts = Counts {
            pipe: stdin.as_fd().try_clone_to_owned().ok(),
            ..Counts::default()
        };
        #[cfg(not(target_os = "linux"))]
        let counts = Counts::default();
        Self(Arc::new(Mutex::new(counts)))
    }

    /// Whether a running server has read everything; `true` if unknown.
    pub fn has_read_all(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(pipe) = &self.lock().pipe {
            return unread(pipe).is_none_or(|unread| unread == 0);
        }
        true
    }

    /// Stops following the pipe of a running server.
    pub fn release(&self) {
        #[cfg(target_os = "linux")]
        {
            self.lock().pipe = None;
        }
    }

    /// Whether the server has exited without reading anything; `false` if unknown.
    pub fn has_read_nothing(&self) -> bool {
        self.lock().read() == Some(0)
    }

    /// Whether the server may have read the start of an `initialize` request.
    pub fn may_have_read_handshake(&self) -> bool {
        self.lock().may_have_read_handshake()
    }

    /// Records a message that starts `offset` bytes into the next write.
    pub(super) fn record_message(&self, message: &Outgoing, offset: usize) {
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

    pub(super) fn record_written(&self, bytes: usize) {
        let mut counts = self.lock();
        counts.written = counts.written.saturating_add(bytes);
    }

    /// Records the bytes left in the pipe, right before it is closed.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "other systems do not tell")
    )]
    pub(super) fn record_unread(&self, stdin: &ChildStdin) {
        #[cfg(target_os = "linux")]
        {
            let unread = unread(stdin);
            self.lock().unread = unread;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes left in a pipe. Only Linux reports this for the write end.
#[cfg(target_os = "linux")]
fn unread(stdin: impl AsFd) -> Option<usize> {
    let unread = rustix::io::ioctl_fionread(stdin).ok()?;
    usize::try_from(unread).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_are_computed_from_bytes_left() {
        let cases = [
            // written, handshake at, unread, nothing?, handshake?
            (0, None, Some(0), true, false),
            (100, None, Some(100), true, false),
            (100, None, Some(0), false, false),
            (250, Some(100), Some(250), true, false),
            (250, Some(100), Some(150), false, false),
            (250, Some(100), Some(149), false, true),
            (250, Some(100), Some(0), false, true),
            // Unknown: assume what is possible.
            (100, None, None, false, false),
            (250, Some(100), None, false, true),
        ];
        for (written, handshake_at, unread, nothing, handshake) in cases {
            let progress = StdinProgress::default();
            {
                let mut counts = progress.lock();
                counts.written = written;
                counts.handshake_at = handshake_at;
                counts.unread = unread;
            }
            assert_eq!(
                (
                    progress.has_read_nothing(),
                    progress.may_have_read_handshake()
                ),
                (nothing, handshake),
                "{progress:?}"
            );
        }
    }
}
