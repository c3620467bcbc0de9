//! Reads a stream of server-sent events, however its bytes arrive.
//!
//! Lines end with LF, CR or CRLF; a byte order mark may come first; comments are passed over; several `data` lines make one
//! text, and data on a single line is not copied again. An event may be no longer than the limit; a longer one is skipped and
//! reported, and what follows it is intact.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;
use trunkline_wire::transport::Incoming;

use crate::skipped::Skipped;

/// What stands at the beginning of some texts.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a line of data begins with.
const DATA: &[u8] = b"data:";

/// Lines that are read before other tasks get to run (CALL-7).
const LINES_AT_ONCE: usize = 64;

/// How long an event's id or type may be.
const MAX_NAME: usize = 8 * 1024;

/// An event that carries data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type; none is `message`.
    pub kind: Option<Bytes>,
    /// Its data.
    pub data: Bytes,
}

impl Event {
    /// Whether it is an ordinary message.
    pub fn is_message(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == b"message")
    }
}

/// An event was longer than it may be, and has been skipped.
#[derive(Debug)]
pub struct TooLong {
    skipped: Skipped,
    limit: usize,
}

impl TooLong {
    /// What is told of it.
    pub fn report(self) -> Incoming {
        self.skipped.report(self.limit)
    }
}

/// What one step of the decoder comes to.
#[derive(Debug)]
pub(crate) enum Step {
    Event(Event),
    TooLong(TooLong),
    /// Many lines were read since the last event, and there may be more to read.
    Lines(Lines),
    /// All that has arrived is read.
    NeedsMore,
}

/// Lines that completed no event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lines {
    /// How many there were.
    all: usize,
    /// How many carried no data of an event: comments, blank lines, fields of no weight.
    pub(crate) idle: usize,
    /// How long the data was that the others carried, with their ends.
    pub(crate) bytes: usize,
}

impl Lines {
    fn add(&mut self, line: &[u8]) {
        self.all += 1;
        match line.strip_prefix(b"data") {
            Some(value) if matches!(value.first(), None | Some(b':')) => {
                self.bytes += line.len() + 1;
            }
            _ => self.idle += 1,
        }
    }
}

/// Collects bytes and gives back events.
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
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
    limit: usize,
    /// Nothing has been read yet.
    fresh: bool,
    /// The last line ended with CR; an LF that follows belongs to it.
    after_cr: bool,
    kind: Option<Bytes>,
    data: Data,
    /// The event is too long, and where in it we are.
    skipping: Option<(Skipped, Line)>,
    id: Option<Bytes>,
    last_id: Option<Bytes>,
    retry: Option<u64>,
    /// Lines since the last event.
    lines: Lines,
}

/// Which line of an event that is being skipped comes next.
#[derive(Clone, Copy)]
enum Line {
    /// A new one.
    New,
    /// The rest of one with data.
    Data,
    /// The rest of one with something else.
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
    /// A decoder for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            fresh: true,
            after_cr: false,
            kind: None,
            data: Data::None,
            skipping: None,
            id: None,
            last_id: None,
            retry: None,
            lines: Lines::default(),
        }
    }

    /// A decoder for the stream that takes up where this one broke off.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            last_id: self.last_id.clone(),
            retry: self.retry,
            ..Self::new(self.limit)
        }
    }

    /// Takes what has arrived.
    pub fn push(&mut self, bytes: Bytes) {
        if self.buffer.is_empty() {
            // A piece that nobody else holds is taken over without copying.
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

    /// How long to wait before connecting again, in milliseconds, as far as the server has said.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// How many bytes of an unfinished event are held.
    pub(crate) fn held(&self) -> usize {
        let data = match &self.data {
            Data::None => 0,
            Data::One(data) => data.len(),
            Data::Many(data) => data.len(),
        };
        self.buffer.len() + data
    }

    /// Whether the event that is arriving is too long already; its end is being waited for.
    pub fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// The next whole event that carries data.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        loop {
            match self.step() {
                Step::Event(event) => return Ok(Some(event)),
                Step::TooLong(skipped) => return Err(skipped),
                Step::Lines(_) => {}
                Step::NeedsMore => return Ok(None),
            }
        }
    }

    /// As [`EventDecoder::next_event`], but reads only so many lines at a time.
    pub(crate) fn step(&mut self) -> Step {
        if self.fresh && !self.past_byte_order_mark() {
            return Step::NeedsMore;
        }
        loop {
            self.past_line_feed();
            if self.lines.all >= LINES_AT_ONCE {
                return Step::Lines(std::mem::take(&mut self.lines));
            }
            if self.skipping.is_some() {
                match self.skip() {
                    Some(Step::TooLong(skipped)) => {
                        self.lines = Lines::default();
                        return Step::TooLong(skipped);
                    }
                    Some(step) => return step,
                    None => continue,
                }
            }
            let end = memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
            let length = end.map_or(self.buffer.len(), |end| self.searched + end);
            if value(&self.buffer[..length]).len() > self.limit {
                self.begin_to_skip();
                continue;
            }
            if end.is_none() {
                self.searched = length;
                return Step::NeedsMore;
            }
            let line = self.take_line(length);
            self.lines.add(&line);
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    self.lines = Lines::default();
                    return Step::Event(event);
                }
            } else {
                self.field(&line);
            }
        }
    }

    /// The first `length` bytes, and past the end of the line behind them.
    fn take_line(&mut self, length: usize) -> Bytes {
        let line = self.buffer.split_to(length).freeze();
        self.searched = 0;
        self.after_cr = self.buffer[0] == b'\r';
        self.buffer.advance(1);
        line
    }

    fn past_line_feed(&mut self) {
        if self.after_cr && !self.buffer.is_empty() {
            self.after_cr = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
                self.searched = self.searched.saturating_sub(1);
            }
        }
    }

    /// The event turns out to be too long; what there is of it is let go.
    fn begin_to_skip(&mut self) {
        let mut skipped = Skipped::default();
        match std::mem::take(&mut self.data) {
            Data::None => {}
            Data::One(data) => skipped.add(&data),
            Data::Many(data) => skipped.add(&data),
        }
        self.searched = 0;
        self.skipping = Some((skipped, Line::New));
    }

    /// Passes over a line of an event that is too long, and tells of it at its end.
    fn skip(&mut self) -> Option<Step> {
        let (skipped, line) = self.skipping.as_mut()?;
        let end = memchr2(b'\n', b'\r', &self.buffer);
        let length = end.unwrap_or(self.buffer.len());
        if let Line::New = line {
            if end == Some(0) {
                self.take_line(0);
                // It had its id all the same.
                self.dispatch();
                let (skipped, _) = self.skipping.take()?;
                let limit = self.limit;
                return Some(Step::TooLong(TooLong { skipped, limit }));
            }
            let name = length - value(&self.buffer[..length]).len();
            if end.is_none() && length < DATA.len() + 1 {
                return Some(Step::NeedsMore);
            }
            *line = if name > 0 { Line::Data } else { Line::Other };
            self.buffer.advance(name);
            return None;
        }
        if let Line::Data = line {
            skipped.add(&self.buffer[..length]);
        }
        if end.is_none() {
            self.buffer.clear();
            return Some(Step::NeedsMore);
        }
        self.lines.all += 1;
        match line {
            Line::Data => self.lines.bytes += length + 1,
            Line::New | Line::Other => self.lines.idle += 1,
        }
        *line = Line::New;
        self.take_line(length);
        None
    }

    /// False while it cannot be told whether there is one.
    fn past_byte_order_mark(&mut self) -> bool {
        let known = self.buffer.len().min(BYTE_ORDER_MARK.len());
        if self.buffer[..known] == BYTE_ORDER_MARK[..known] {
            if known < BYTE_ORDER_MARK.len() {
                return false;
            }
            self.buffer.advance(known);
        }
        self.fresh = false;
        true
    }

    fn field(&mut self, line: &Bytes) {
        let (name, value) = match memchr::memchr(b':', line) {
            // A comment.
            Some(0) => return,
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (&line[..colon], line.slice(colon + 1 + space..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"data" => self.add(value),
            b"event" | b"id" if value.len() > MAX_NAME => self.begin_to_skip(),
            // A copy: a name must not keep what it came with alive.
            b"event" => self.kind = Some(Bytes::copy_from_slice(&value)),
            b"id" if !value.contains(&0) => self.id = Some(Bytes::copy_from_slice(&value)),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(&value).ok();
                self.retry = digits.and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            _ => {}
        }
    }

    fn add(&mut self, line: Bytes) {
        self.data = match std::mem::take(&mut self.data) {
            Data::None => Data::One(line),
            Data::One(first) => {
                let mut text = BytesMut::with_capacity(first.len() + line.len() + 1);
                text.extend_from_slice(&first);
                Data::Many(text).with(&line)
            }
            many @ Data::Many(_) => many.with(&line),
        };
        let length = match &self.data {
            Data::None => 0,
            Data::One(text) => text.len(),
            Data::Many(text) => text.len(),
        };
        if length > self.limit {
            self.begin_to_skip();
        }
    }

    /// What a blank line makes of the lines before it.
    fn dispatch(&mut self) -> Option<Event> {
        if let Some(id) = self.id.take() {
            self.last_id = Some(id);
        }
        let kind = self.kind.take().filter(|kind| !kind.is_empty());
        let data = match std::mem::take(&mut self.data) {
            Data::None => return None,
            Data::One(data) => data,
            Data::Many(data) => data.freeze(),
        };
        Some(Event { kind, data })
    }
}

/// What stands behind the name in a line of data; any other line as it is.
fn value(line: &[u8]) -> &[u8] {
    let value = line.strip_prefix(DATA);
    value.map_or(line, |value| value.strip_prefix(b" ").unwrap_or(value))
}

impl Data {
    fn with(self, line: &[u8]) -> Self {
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

    /// What comes out of `pieces`: `type|data`, then what is known at the end.
    fn decode(pieces: &[&[u8]]) -> (Vec<String>, Option<String>, Option<u64>) {
        let mut events = EventDecoder::new(1000);
        let mut out = Vec::new();
        for piece in pieces {
            events.push(Bytes::copy_from_slice(piece));
            while let Some(event) = events.next_event().unwrap() {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(match &event.kind {
                    Some(kind) => format!("{}|{}", text(kind), text(&event.data)),
                    None => text(&event.data),
                });
            }
        }
        let last_id = events
            .last_id()
            .map(|id| String::from_utf8_lossy(id).into_owned());
        (out, last_id, events.retry())
    }

    /// One text, as one piece and cut at every place.
    fn check(text: &str, expected: &[&str], last_id: Option<&str>, retry: Option<u64>) {
        let bytes = text.as_bytes();
        let every: Vec<&[u8]> = bytes.chunks(1).collect();
        let halves = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
        for pieces in halves.chain([vec![bytes], every]) {
            let found = decode(&pieces);
            assert_eq!(found.0, expected, "{text:?} as {pieces:?}");
            assert_eq!(found.1.as_deref(), last_id, "{text:?}");
            assert_eq!(found.2, retry, "{text:?}");
        }
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
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
    fn what_is_too_long_is_skipped_and_reported_however_it_is_cut() {
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
                for piece in [&whole[..at], &whole[at..]] {
                    events.push(Bytes::copy_from_slice(piece.as_bytes()));
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
        fn what_comes_out_does_not_depend_on_the_pieces(
            text in "(data: |event: e|id: |retry: 1|:|[ab]|\r|\n|\r\n|\n\n){0,30}",
            cuts in prop::collection::vec(0_usize..100, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(decode(&pieces), decode(&[bytes]));
        }
    }
}
