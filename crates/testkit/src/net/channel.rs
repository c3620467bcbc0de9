//! The output of a server to one stream: a log, so that a stream can break and be resumed.

use std::sync::{Arc, Condvar, Mutex};

use super::reply::ClientWatch;
use crate::scripted::Out;

/// The messages of one stream: the response to a POST, or a GET stream.
#[derive(Debug)]
pub(super) struct Channel {
    /// Identifies the channel, also in event ids.
    pub(super) number: u64,
    pub(super) kind: ChannelKind,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<Arc<Out>>,
    replied: bool,
    ended: bool,
    cuts: usize,
}

/// The kind of a channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ChannelKind {
    /// One body, the response to one request.
    Body,
    /// Events up to the response to one request.
    Events,
    /// Events of a whole session.
    Lasting,
}

/// The result of reading from a channel.
pub(super) enum Next {
    Item(Arc<Out>),
    /// The channel is complete.
    Ended,
    /// The client is gone.
    Gone,
    /// The server breaks the stream before its end.
    Cut,
}

impl Channel {
    pub(super) fn new(number: u64, kind: ChannelKind) -> Arc<Self> {
        Arc::new(Self {
            number,
            kind,
            state: Mutex::default(),
            wake: Condvar::new(),
        })
    }

    pub(super) fn push(&self, out: Out) {
        let mut state = self.state.lock().unwrap();
        match out {
            Out::Settled | Out::Cancelled if self.kind == ChannelKind::Lasting => {}
            Out::Settled => state.ended |= state.replied,
            Out::Cancelled => state.ended = true,
            out => {
                // In a JSON body, any output counts as the response.
                state.replied |= match out {
                    Out::Reply(_) => true,
                    Out::Line(_) | Out::Bytes(_) | Out::Slow { .. } => {
                        self.kind == ChannelKind::Body
                    }
                    _ => false,
                };
                state.log.push(Arc::new(out));
            }
        }
        self.wake.notify_all();
    }

    pub(super) fn end(&self) {
        self.state.lock().unwrap().ended = true;
        self.wake.notify_all();
    }

    /// Breaks the streams that read from here.
    pub(super) fn cut(&self) {
        self.state.lock().unwrap().cuts += 1;
        self.wake.notify_all();
    }

    pub(super) fn first(&self) -> Option<Arc<Out>> {
        self.state.lock().unwrap().log.first().cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    pub(super) fn replied(&self) -> bool {
        self.state.lock().unwrap().replied
    }

    /// Returns a reader that starts at an index.
    pub(super) fn read(self: &Arc<Self>, index: usize, client: &Arc<ClientWatch>) -> Reader {
        let channel = Arc::clone(self);
        client.watch(move || {
            // Under the lock, so that a waiting reader cannot miss it.
            drop(channel.state.lock().unwrap());
            channel.wake.notify_all();
        });
        Reader {
            channel: Arc::clone(self),
            client: Arc::clone(client),
            index,
            cuts: self.state.lock().unwrap().cuts,
        }
    }
}

/// The position of a stream in a channel.
pub(super) struct Reader {
    channel: Arc<Channel>,
    client: Arc<ClientWatch>,
    index: usize,
    cuts: usize,
}

impl Reader {
    /// The id of the event before the next one.
    pub(super) fn position(&self) -> String {
        format!("{}-{}", self.channel.number, self.index)
    }

    pub(super) fn next(&mut self) -> Next {
        let mut state = self.channel.state.lock().unwrap();
        loop {
            if self.client.gone() {
                return Next::Gone;
            }
            if state.cuts != self.cuts {
                return Next::Cut;
            }
            if let Some(item) = state.log.get(self.index) {
                self.index += 1;
                return Next::Item(Arc::clone(item));
            }
            if state.ended {
                return Next::Ended;
            }
            state = self.channel.wake.wait(state).unwrap();
        }
    }
}
