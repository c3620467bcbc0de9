//! Decodes server-sent events, independently of how the bytes arrive.
//!
//! Lines end with LF, CR or CRLF; a byte order mark may come first; comments are ignored. Several
//! `data` lines are joined; data on a single line is not copied. An event over the limit is skipped
//! and reported, and those after it are intact.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;
use trunkline_wire::transport::Incoming;

use crate::skipped::Skipped;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const DATA: &[u8] = b"data:";

/// Lines that are read before the task yields (CALL-7).
const LINES_PER_TURN: usize = 64;

/// The longest id or type of an event.
const MAX_FIELD: usize = 8 * 1024;

/// An event that carries data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type; `None` means `message`.
    pub event_type: Option<Bytes>,
    /// Its data.
    pub data: Bytes,
}

impl Event {
    /// Whether its type is `message`.
    pub fn is_message(&self) -> bool {
        let name = self.event_type.as_deref();
        name.is_none_or(|name| name == b"message")
    }
}

/// An event over the limit, which was skipped.
#[derive(Debug)]
pub struct TooLong {
    skipped: Skipped,
    limit: usize,
}

impl TooLong {
    /// The report for the peer.
    pub fn report(self) -> Incoming {
        self.skipped.report(self.limit)
    }
}

/// The result of one decoder step.
#[derive(Debug)]
pub(crate) enum Step {
    Event(Event),
    TooLong(TooLong),
    /// Many lines were read without completing an event; there may be more.
    Lines(LineCounts),
    /// The buffer holds no complete line.
    NeedMore,
}

/// Lines since the last event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineCounts {
    all: usize,
    /// Lines without data: comments, blank lines and other fields.
    pub(crate) idle: usize,
    /// Bytes of the lines with data, including line endings.
    pub(crate) bytes: usize,
}

impl LineCounts {
    fn count(&mut self, line: &[u8]) {
        self.all += 1;
        match line.strip_prefix(b"data") {
            Some(data_value) if matches!(data_value.first(), None | Some(b':')) => {
                self.bytes += line.len() + 1;
            }
            _ => self.idle += 1,
        }
    }
}

/// Decodes events from the bytes pushed into it.
///
/// ```
/// use trunkline_transport::http::EventDecoder;
///
/// let mut events = EventDecoder::new(1024);
/// events.push(": hello\r\nid: 7\r\ndata: {\"a\"".into());
/// assert!(events.next_event().unwrap().is_none());
/// events.push(":1}\r\n\r\n".into());
/// assert_eq!(&events.next_event().unwrap().unwrap().data[..], b"{\"a\":1}");
/// assert_eq!(events.last_id(), Some(&b"7"[..]));
/// ```
pub struct EventDecoder {
    buffer: BytesMut,
    /// Bytes of the buffer known to hold no line ending.
    searched: usize,
    limit: usize,
    /// No byte has been read yet.
    at_start: bool,
    /// The last line ended with CR; a following LF belongs to it.
    after_cr: bool,
    event_type: Option<Bytes>,
    data: Data,
    /// Set while an event over the limit is skipped.
    skipping: Option<(Skipped, SkipState)>,
    id: Option<Bytes>,
    last_id: Option<Bytes>,
    retry: Option<u64>,
    lines: LineCounts,
}

/// The position inside an event that is skipped.
#[derive(Clone, Copy)]
enum SkipState {
    /// The start of a line.
    New,
    /// The rest of a line with data.
    Data,
    /// The rest of another line.
    Other,
}

#[derive(Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Many(BytesMut),
}

impl EventDecoder {
    /// Creates a decoder for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            at_start: true,
            after_cr: false,
            event_type: None,
            data: Data::None,
            skipping: None,
            id: None,
            last_id: None,
            retry: None,
            lines: LineCounts::default(),
        }
    }

    /// Creates a decoder for the stream that resumes this one.
    #[must_use]
    pub fn resumed(&self) -> Self {
        Self {
            last_id: self.last_id.clone(),
            retry: self.retry,
            ..Self::new(self.limit)
        }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: Bytes) {
        if self.buffer.is_empty() {
            // An unshared buffer is taken over without copying.
            match bytes.try_into_mut() {
                Ok(bytes) => self.buffer = bytes,
                Err(bytes) => self.buffer.extend_from_slice(&bytes),
            }
        } else {
            self.buffer.extend_from_slice(&bytes);
        }
    }

    /// The id of the last event that had one.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The reconnection time that the server set, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Bytes of an unfinished event.
    pub(crate) fn buffered(&self) -> usize {
        let data = match &self.data {
            Data::None => 0,
            Data::One(data) => data.len(),
            Data::Many(data) => data.len(),
        };
        self.buffer.len() + data
    }

    /// Whether the event that is arriving is over the limit.
    pub fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// Returns the next complete event with data.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        loop {
            match self.step() {
                Step::Event(event) => return Ok(Some(event)),
                Step::TooLong(skipped) => return Err(skipped),
                Step::Lines(_) => {}
                Step::NeedMore => return Ok(None),
            }
        }
    }

    /// As [`EventDecoder::next_event`], but reads a bounded number of lines.
    pub(crate) fn step(&mut self) -> Step {
        if self.at_start && !self.skip_byte_order_mark() {
            return Step::NeedMore;
        }
        loop {
            self.skip_line_feed();
            if self.lines.all >= LINES_PER_TURN {
                return Step::Lines(std::mem::take(&mut self.lines));
            }
            if self.skipping.is_some() {
                match self.skip() {
                    Some(Step::TooLong(skipped)) => {
                        self.lines = LineCounts::default();
                        return Step::TooLong(skipped);
                    }
                    Some(step) => return step,
                    None => continue,
                }
            }
            let end = memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
            let length = end.map_or(self.buffer.len(), |end| self.searched + end);
            // An incomplete name may still become `data:`, which does not count.
            let is_undecided = end.is_none() && length < DATA.len();
            if !is_undecided && data_value(&self.buffer[..length]).len() > self.limit {
                self.start_skipping();
                continue;
            }
            if end.is_none() {
                self.searched = length;
                return Step::NeedMore;
            }
            let line = self.take_line(length);
            self.lines.count(&line);
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    self.lines = LineCounts::default();
                    return Step::Event(event);
                }
            } else {
                self.field(&line);
            }
        }
    }

    /// Removes a line of `length` bytes and its line ending.
    fn take_line(&mut self, length: usize) -> Bytes {
        let line = self.buffer.split_to(length).freeze();
        self.searched = 0;
        self.after_cr = self.buffer[0] == b'\r';
        self.buffer.advance(1);
        line
    }

    fn skip_line_feed(&mut self) {
        if self.after_cr && !self.buffer.is_empty() {
            self.after_cr = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
                self.searched = self.searched.saturating_sub(1);
            }
        }
    }

    /// Starts to skip the current event and drops its data.
    fn start_skipping(&mut self) {
        let mut skipped = Skipped::default();
        match std::mem::take(&mut self.data) {
            Data::None => {}
            Data::One(data) => skipped.add(&data),
            Data::Many(data) => skipped.add(&data),
        }
        self.searched = 0;
        self.skipping = Some((skipped, SkipState::New));
    }

    /// Skips a line of an event over the limit; returns the report at its end.
    fn skip(&mut self) -> Option<Step> {
        let (skipped, line) = self.skipping.as_mut()?;
        let end = memchr2(b'\n', b'\r', &self.buffer);
        let length = end.unwrap_or(self.buffer.len());
        if let SkipState::New = line {
            if end == Some(0) {
                self.take_line(0);
                // Its id counts all the same.
                self.dispatch();
                let (skipped, _) = self.skipping.take()?;
                let limit = self.limit;
                return Some(Step::TooLong(TooLong { skipped, limit }));
            }
            let name = length - data_value(&self.buffer[..length]).len();
            if end.is_none() && length < DATA.len() + 1 {
                return Some(Step::NeedMore);
            }
            *line = if name > 0 {
                SkipState::Data
            } else {
                SkipState::Other
            };
            self.buffer.advance(name);
            return None;
        }
        if let SkipState::Data = line {
            skipped.add(&self.buffer[..length]);
        }
        if end.is_none() {
            self.buffer.clear();
            return Some(Step::NeedMore);
        }
        self.lines.all += 1;
        match line {
            SkipState::Data => self.lines.bytes += length + 1,
            SkipState::New | SkipState::Other => self.lines.idle += 1,
        }
        *line = SkipState::New;
        self.take_line(length);
        None
    }

    /// False while there are too few bytes to decide.
    fn skip_byte_order_mark(&mut self) -> bool {
        let known = self.buffer.len().min(BYTE_ORDER_MARK.len());
        if self.buffer[..known] == BYTE_ORDER_MARK[..known] {
            if known < BYTE_ORDER_MARK.len() {
                return false;
            }
            self.buffer.advance(known);
        }
        self.at_start = false;
        true
    }

    fn field(&mut self, line: &Bytes) {
        let (name, data_value) = match memchr::memchr(b':', line) {
            // A comment.
            Some(0) => return,
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (&line[..colon], line.slice(colon + 1 + space..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"data" => self.push_data(data_value),
            b"event" | b"id" if data_value.len() > MAX_FIELD => self.start_skipping(),
            // Copied, so that a short field does not keep the read buffer alive.
            b"event" => self.event_type = Some(Bytes::copy_from_slice(&data_value)),
            b"id" if !data_value.contains(&0) => {
                self.id = Some(Bytes::copy_from_slice(&data_value));
            }
            b"retry" if !data_value.is_empty() && data_value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(&data_value).ok();
                self.retry = digits.and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            _ => {}
        }
    }

    fn push_data(&mut self, line: Bytes) {
        self.data = match std::mem::take(&mut self.data) {
            Data::None => Data::One(line),
            Data::One(first) => {
                let mut text = BytesMut::with_capacity(first.len() + line.len() + 1);
                text.extend_from_slice(&first);
                Data::Many(text).append(&line)
            }
            many @ Data::Many(_) => many.append(&line),
        };
        let length = match &self.data {
            Data::None => 0,
            Data::One(text) => text.len(),
            Data::Many(text) => text.len(),
        };
        if length > self.limit {
            self.start_skipping();
        }
    }

    /// Completes an event at a blank line.
    fn dispatch(&mut self) -> Option<Event> {
        if let Some(id) = self.id.take() {
            self.last_id = Some(id);
        }
        let event_type = self.event_type.take().filter(|name| !name.is_empty());
        let data = match std::mem::take(&mut self.data) {
            Data::None => return None,
            Data::One(data) => data,
            Data::Many(data) => data.freeze(),
        };
        Some(Event { event_type, data })
    }
}

/// The value of a `data` line; any other line as it is.
fn data_value(line: &[u8]) -> &[u8] {
    let data_value = line.strip_prefix(DATA);
    data_value.map_or(line, |data_value| {
        data_value.strip_prefix(b" ").unwrap_or(data_value)
    })
}

impl Data {
    fn append(self, line: &[u8]) -> Self {
        let Self::Many(mut text) = self else {
            return self;
        };
        text.extend_from_slice(b"\n");
        text.extend_from_slice(line);
        Self::Many(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `chunks` to `type|data` texts, the last id and the retry time.
    fn decode(chunks: &[&[u8]]) -> (Vec<String>, Option<String>, Option<u64>) {
        let mut events = EventDecoder::new(1000);
        let mut out = Vec::new();
        for chunk in chunks {
            events.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = events.next_event().unwrap() {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(match &event.event_type {
                    Some(name) => format!("{}|{}", text(name), text(&event.data)),
                    None => text(&event.data),
                });
            }
        }
        let last_id = events
            .last_id()
            .map(|id| String::from_utf8_lossy(id).into_owned());
        (out, last_id, events.retry())
    }

    /// Checks a text in one chunk, in single bytes, and split at every position.
    fn check(text: &str, expected: &[&str], last_id: Option<&str>, retry: Option<u64>) {
        let bytes = text.as_bytes();
        let every: Vec<&[u8]> = bytes.chunks(1).collect();
        let halves = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
        for chunks in halves.chain([vec![bytes], every]) {
            let found = decode(&chunks);
            assert_eq!(found.0, expected, "{text:?} as {chunks:?}");
            assert_eq!(found.1.as_deref(), last_id, "{text:?}");
            assert_eq!(found.2, retry, "{text:?}");
        }
    }

    /// Found by fuzzing: the start of `data:` alone was over the limit.
    #[test]
    fn the_limit_holds_the_same_however_events_are_split() {
        let bytes: &[u8] = b"data: \n\ndata: abc\r\n\r\ndat\n\ndata:abcdef\n\n";
        let decoded = |limit: usize, chunks: &[&[u8]]| {
            let mut events = EventDecoder::new(limit);
            let mut out = Vec::new();
            for chunk in chunks {
                events.push(Bytes::copy_from_slice(chunk));
                loop {
                    match events.next_event() {
                        Ok(None) => break,
                        Ok(Some(event)) => out.push(Some(event.data)),
                        Err(_) => out.push(None),
                    }
                }
            }
            out
        };
        for limit in 0..8 {
            let whole = decoded(limit, &[bytes]);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decoded(limit, &single), whole, "limit {limit}");
            for at in 0..=bytes.len() {
                let (one, other) = bytes.split_at(at);
                assert_eq!(
                    decoded(limit, &[one, other]),
                    whole,
                    "limit {limit} at {at}"
                );
            }
        }
    }

    #[test]
    fn events_decode_the_same_however_they_are_split() {
        check("data: a\n\ndata:b\n\n", &["a", "b"], None, None);
        check(
            "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
            &["a", "b", "c"],
            None,
            None,
        );
        check("\u{feff}data: a\n\n", &["a"], None, None);
        check(": hi\n:\ndata: a\n: there\n\n", &["a"], None, None);
        check("data: a\ndata\ndata:  b\n\n", &["a\n\n b"], None, None);
        check(
            "event: endpoint\ndata: /x\n\ndata: y\n\n",
            &["endpoint|/x", "y"],
            None,
            None,
        );
        check("id: 1\nretry: 500\ndata: \n\n", &[""], Some("1"), Some(500));
        check("id: 1\n\nid\n\n", &[], None, None);
        check("id: 1\n\nid: 2\ndata: unfinished\n", &[], Some("1"), None);
        check(
            "id: a\0b\nretry: soon\nretry:\nretry: 1\nretry: 99999999999999999999999\n\n",
            &[],
            None,
            Some(1),
        );
        check("unknown: x\ndata\n\n\n\n", &[""], None, None);
        check("event: x\n\ndata: a\n\n", &["a"], None, None);
    }

    #[test]
    fn an_event_over_the_limit_is_skipped_and_reported_however_it_is_split() {
        for (text, head) in [
            ("data: 123456789\n\n", "123456789"),
            ("data:123456789\r\r", "123456789"),
            ("data: 1234\r\ndata: 5678\r\n\r\n", "1234\n5678"),
            (
                "id: 7\ndata: 12345678\ndata: 9\nevent: x\ndata: 0\n\n",
                "12345678\n90",
            ),
            ("data: 1\n: a long comment\n\n", "1"),
            ("data: 1\ndata: 2345678\ndata\n\n", "1\n2345678"),
        ] {
            let whole = format!("data: 12345678\n\n{text}data: 1234\ndata: 567\n\n");
            for at in 0..=whole.len() {
                let mut events = EventDecoder::new(8);
                let mut found = Vec::new();
                for chunk in [&whole[..at], &whole[at..]] {
                    events.push(Bytes::copy_from_slice(chunk.as_bytes()));
                    loop {
                        match events.next_event() {
                            Ok(Some(event)) => found.push(event.data),
                            Ok(None) => break,
                            Err(skipped) => match skipped.report() {
                                Incoming::Oversize { head, limit: 8, .. } => found.push(head),
                                other => panic!("{other:?}"),
                            },
                        }
                    }
                }
                assert!(!events.is_skipping());
                let expected = ["12345678", head, "1234\n567"];
                assert_eq!(found, expected, "{whole:?} cut at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_the_chunks(
            text in "(data: |event: e|id: |retry: 1|:|[ab]|\r|\n|\r\n|\n\n){0,30}",
            cuts in prop::collection::vec(0_usize..100, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(decode(&chunks), decode(&[bytes]));
        }
    }
}
