//! Server-sent events: their text, and the body of a response made of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::stream::EventStream;
use crate::store::{Digest, Event, EventLog};

/// A comment is sent after this long without an event, so that neither side takes the connection
/// for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Longer messages are sent from their own memory.
const INLINE: usize = 16 * 1024;

/// The place of an event: `<stream>-<number>`, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let hex = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
        };
        Some(Self {
            stream: hex(stream)?,
            number: hex(number)?,
        })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.stream, self.number)
    }
}

/// Writes an event in up to three parts.
fn encode(id: Option<EventId>, data: Bytes) -> VecDeque<Bytes> {
    // A line break in JSON is white space, and would end the line of the event.
    let data = if data.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        let space = |byte: &u8| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                *byte
            }
        };
        data.iter().map(space).collect::<Vec<_>>().into()
    } else {
        data
    };
    let head = match id {
        Some(id) => format!("id: {id}\nevent: message\ndata: "),
        None => "event: message\ndata: ".to_owned(),
    };
    if data.len() > INLINE {
        return [head.into(), data, Bytes::from_static(b"\n\n")].into();
    }
    let mut text = Vec::with_capacity(head.len() + data.len() + 2);
    text.extend_from_slice(head.as_bytes());
    text.extend_from_slice(&data);
    text.extend_from_slice(b"\n\n");
    [Bytes::from(text)].into()
}

/// Where the events of a resumable stream are logged.
pub(super) struct Log {
    pub(super) events: Arc<dyn EventLog>,
    pub(super) session: Digest,
}

/// The body of a response: parts that are ready, then the events of a stream.
pub(super) struct EventBody {
    ready: VecDeque<Bytes>,
    stream: Option<(Arc<EventStream>, u64)>,
    log: Option<Log>,
    /// Dropped with the body, when the client has left or the stream has ended.
    guard: Option<Box<dyn Send>>,
}

impl EventBody {
    /// The events of `stream`, for which the body becomes the reader.
    pub(super) fn new(stream: Arc<EventStream>) -> Self {
        let reader = stream.take_over();
        Self {
            ready: VecDeque::new(),
            stream: Some((stream, reader)),
            log: None,
            guard: None,
        }
    }

    /// One message.
    pub(super) fn only(message: Bytes) -> Self {
        Self {
            ready: encode(None, message),
            stream: None,
            log: None,
            guard: None,
        }
    }

    /// Replayed events of a stream, and what follows if the stream still lives. The body must be
    /// its reader already.
    pub(super) fn resumed(
        id: u64,
        replayed: Vec<Event>,
        stream: Option<(Arc<EventStream>, u64)>,
    ) -> Self {
        let place = |number| Some(EventId { stream: id, number });
        let encoded = replayed
            .into_iter()
            .flat_map(|event| encode(place(event.number), event.data));
        Self {
            ready: encoded.collect(),
            stream,
            log: None,
            guard: None,
        }
    }

    /// Numbers the events, and logs them for a later replay.
    pub(super) fn logged(mut self, log: Log) -> Self {
        self.log = Some(log);
        self
    }

    /// Sends this text first.
    pub(super) fn preamble(mut self, text: String) -> Self {
        self.ready.push_front(text.into());
        self
    }

    /// Drops `guard` with the body.
    pub(super) fn guarded(mut self, guard: impl Send + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut body| async move {
            let part = body.next().await?;
            Some((part, body))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(part);
            }
            let (stream, reader) = self.stream.as_ref()?;
            let Ok(event) = tokio::time::timeout(KEEP_ALIVE, stream.next(*reader)).await else {
                return Some(Bytes::from_static(b": keep-alive\n\n"));
            };
            let Some(event) = event else {
                self.stream = None;
                return None;
            };
            if let Some(log) = &self.log {
                let logged = log.events.append(log.session, stream.id, event.clone());
                if let Err(error) = logged.await {
                    tracing::warn!(target: "trunkline", %error, "an event cannot be resumed from");
                }
            }
            stream.logged();
            let place = EventId {
                stream: stream.id,
                number: event.number,
            };
            self.ready = encode(self.log.as_ref().map(|_| place), event.data);
        }
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        if let Some((stream, reader)) = &self.stream {
            stream.left(*reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::super::stream::Weight;
    use super::*;
    use crate::store::{MemoryEventLog, Replay};

    #[test]
    fn an_event_id_is_read_back_and_nothing_else_is() {
        let id = EventId {
            stream: 0x1f,
            number: 3,
        };
        assert_eq!(id.to_string(), "1f-3");
        assert_eq!(EventId::parse("1f-3"), Some(id));
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "x-1",
            "1-1-1",
            "+1-1",
            "fffffffffffffffff-1",
        ] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn events_are_one_line_each_and_logged_when_sent() {
        let stream = Arc::new(EventStream::new(2, 0));
        let log = Arc::new(MemoryEventLog::default());
        let session = Digest::of("s");
        let body = EventBody::new(Arc::clone(&stream))
            .logged(Log {
                events: Arc::clone(&log) as Arc<dyn EventLog>,
                session,
            })
            .preamble(": hello\n\n".to_owned());
        stream
            .push("{\n\"a\":\r\n1}".into(), Weight::Needed)
            .unwrap();
        let filler = format!("\"{}\"", "x".repeat(INLINE));
        stream.finish(filler.clone().into(), http::StatusCode::OK);
        let sent: Vec<u8> = body.into_stream().collect::<Vec<_>>().await.concat();
        let expected = format!(
            ": hello\n\nid: 2-1\nevent: message\ndata: {{ \"a\":  1}}\n\n\
             id: 2-2\nevent: message\ndata: {filler}\n\n"
        );
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
        let Replay::Events(events) = log.after(session, 2, 1).await.unwrap() else {
            panic!("incomplete")
        };
        let resumed = EventBody::resumed(2, events, None);
        let text = resumed.into_stream().collect::<Vec<_>>().await.concat();
        assert!(text.starts_with(b"id: 2-2\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_is_kept_alive() {
        let stream = Arc::new(EventStream::new(2, 0));
        let mut body = std::pin::pin!(EventBody::new(stream).into_stream());
        assert_eq!(body.next().await.unwrap(), ": keep-alive\n\n");
    }
}
