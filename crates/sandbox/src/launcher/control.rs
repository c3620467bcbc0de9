//! Messages between the supervisor and `init`, with descriptors.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::launch::Launch;

/// The longest message.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The first message, to `init`; the server's stdin goes with it.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) launch: Launch,
    pub(super) plan: Plan,
}

/// The message to `init`, and to `enter`, that it is in its control group: from now on it may start
/// processes.
#[derive(Serialize, Deserialize)]
pub(super) struct Go;

/// A message of `init`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Event {
    /// The server is about to start; the proxy's listener goes with it.
    Confined,
    /// It could not be started.
    Failed(String),
    /// It has exited.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
}

/// Sends a message, and a descriptor with it.
pub(super) fn send<M: Serialize>(
    mut stream: &UnixStream,
    message: &M,
    fd: Option<BorrowedFd>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd> = fd.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let header = length.to_le_bytes();
    let header = [IoSlice::new(&header)];
    let sent = sendmsg(stream.as_fd(), &header, &mut control, SendFlags::NOSIGNAL)?;
    if sent != 4 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    stream.write_all(&text)
}

/// Receives a message, and the descriptor that came with it; `None` at the end.
pub(super) fn receive<M: DeserializeOwned>(
    mut stream: &UnixStream,
) -> io::Result<Option<(M, Option<OwnedFd>)>> {
    let mut header = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(&mut header)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fd = fds.last().or(fd);
        }
    }
    match received.bytes {
        0 => return Ok(None),
        4 => {}
        part => stream.read_exact(&mut header[part..])?,
    }
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok(Some((serde_json::from_slice(&text)?, fd)))
}
