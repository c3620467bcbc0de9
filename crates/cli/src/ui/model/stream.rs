//! Live data in rings: protocol messages and log lines.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;
use trunkline::log::{LogKind, LogLine};

use crate::ui::msg::RawMessage;
use crate::ui::text;

/// The most messages that are kept, and the most bytes of them.
pub(in crate::ui) const MAX_MESSAGES: usize = 5000;
const MAX_BYTES: usize = 32 << 20;

/// The most log lines that are kept.
pub(in crate::ui) const MAX_LOG_LINES: usize = 5000;

/// The most requests that wait for their response.
const MAX_OPEN: usize = 1000;

/// The most rows of one unfolded message.
const MAX_UNFOLDED: usize = 400;

/// A protocol message.
#[derive(Clone, Debug)]
pub(in crate::ui) struct Message {
    pub(in crate::ui) number: u64,
    pub(in crate::ui) time: String,
    pub(in crate::ui) server: Arc<str>,
    pub(in crate::ui) sent: bool,
    /// The method or the kind of response, the id, and the name of what it is about.
    pub(in crate::ui) summary: String,
    pub(in crate::ui) is_error: bool,
    /// The time since its request.
    pub(in crate::ui) took: Option<Duration>,
    pub(in crate::ui) bytes: usize,
    pub(in crate::ui) text: String,
}

impl Message {
    /// Returns the message as indented JSON, escaped, in a bounded number of rows.
    pub(in crate::ui) fn unfolded(&self) -> Vec<String> {
        let pretty = serde_json::from_str::<serde_json::Value>(&self.text)
            .and_then(|value| serde_json::to_string_pretty(&value));
        let shown = pretty.unwrap_or_else(|_| self.text.clone());
        let mut rows: Vec<String> = text::lines(&shown).take(MAX_UNFOLDED + 1).collect();
        if rows.len() > MAX_UNFOLDED {
            rows.truncate(MAX_UNFOLDED);
            rows.push("…".to_owned());
        }
        rows
    }

    /// Returns whether the message contains a text in lower case.
    fn matches(&self, lowercase: &str) -> bool {
        self.summary.to_lowercase().contains(lowercase)
            || self.text.to_lowercase().contains(lowercase)
    }
}

/// The messages that match a filter. Each message is searched once, not in every frame.
#[derive(Debug, Default)]
pub(in crate::ui) struct Matches {
    filter: String,
    /// The newest message that was searched.
    searched: u64,
    numbers: HashSet<u64>,
}

impl Matches {
    /// Returns the messages that match, case aside.
    pub(in crate::ui) fn select<'m>(
        &mut self,
        filter: &str,
        messages: impl Iterator<Item = &'m Message>,
    ) -> Vec<&'m Message> {
        if filter.is_empty() {
            return messages.collect();
        }
        let filter = filter.to_lowercase();
        if filter != self.filter {
            *self = Self {
                filter,
                ..Self::default()
            };
        }
        let mut found = Vec::new();
        for message in messages {
            let is_new = message.number > self.searched;
            if is_new {
                self.searched = message.number;
            }
            if (is_new && message.matches(&self.filter)) || self.numbers.contains(&message.number) {
                found.push(message);
            }
        }
        // Messages that are no longer kept are forgotten.
        self.numbers = found.iter().map(|message| message.number).collect();
        found
    }
}

/// The envelope of a message, as far as it is shown.
#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Target {
    name: Option<String>,
    uri: Option<String>,
}

/// The newest protocol messages.
#[derive(Debug, Default)]
pub(in crate::ui) struct Messages {
    pub(in crate::ui) kept: VecDeque<Message>,
    /// Messages that arrived while the view was frozen.
    held: VecDeque<Message>,
    held_bytes: usize,
    pub(in crate::ui) frozen: bool,
    pub(in crate::ui) total: u64,
    /// Messages that arrived faster than they could be read.
    pub(in crate::ui) lost: u64,
    bytes: usize,
    /// When each open request was sent, by server, id and direction.
    open: HashMap<(Arc<str>, String, bool), (Instant, String)>,
}

impl Messages {
    pub(in crate::ui) fn push(&mut self, raw: RawMessage) {
        self.total += 1;
        let message = self.read(raw);
        if self.frozen {
            self.held_bytes += message.text.len();
            self.held.push_back(message);
            while self.held.len() > MAX_MESSAGES || self.held_bytes > MAX_BYTES {
                let Some(old) = self.held.pop_front() else {
                    break;
                };
                self.held_bytes -= old.text.len();
            }
            return;
        }
        self.keep(message);
    }

    fn keep(&mut self, message: Message) {
        self.bytes += message.text.len();
        self.kept.push_back(message);
        while self.kept.len() > MAX_MESSAGES || self.bytes > MAX_BYTES {
            let Some(old) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= old.text.len();
        }
    }

    pub(in crate::ui) fn toggle_frozen(&mut self) {
        self.frozen = !self.frozen;
        if !self.frozen {
            self.held_bytes = 0;
            for message in std::mem::take(&mut self.held) {
                self.keep(message);
            }
        }
    }

    /// Returns how many messages wait behind the frozen view.
    pub(in crate::ui) fn held(&self) -> usize {
        self.held.len()
    }

    fn read(&mut self, raw: RawMessage) -> Message {
        let RawMessage {
            at,
            time,
            server,
            sent,
            bytes,
            text,
        } = raw;
        let (mut took, mut is_error) = (None, false);
        let summary = match serde_json::from_str::<Envelope>(&text) {
            Ok(Envelope {
                id,
                method: Some(method),
                params,
                ..
            }) => {
                let target = params.and_then(|params| {
                    let target: Target = serde_json::from_str(params.get()).ok()?;
                    target.name.or(target.uri)
                });
                let id = id.map(|id| id.get().trim_matches('"').to_owned());
                if let Some(id) = &id {
                    if self.open.len() >= MAX_OPEN {
                        self.open.clear();
                    }
                    let key = (Arc::clone(&server), id.clone(), sent);
                    self.open.insert(key, (at, method.clone()));
                }
                let id = id.map(|id| format!(" #{id}")).unwrap_or_default();
                let target = target
                    .map(|target| format!(" {target}"))
                    .unwrap_or_default();
                format!("{method}{id}{target}")
            }
            Ok(Envelope {
                id: Some(id),
                error,
                ..
            }) => {
                let id = id.get().trim_matches('"').to_owned();
                let asked = self.open.remove(&(Arc::clone(&server), id.clone(), !sent));
                took = asked
                    .as_ref()
                    .map(|(since, _)| at.saturating_duration_since(*since));
                is_error = error.is_some();
                let kind = if is_error { "error" } else { "result" };
                let method = asked.map(|(_, method)| format!(" {method}"));
                format!("{kind} #{id}{}", method.unwrap_or_default())
            }
            Ok(_) => "message".to_owned(),
            // A long message is cut and does not parse.
            Err(_) => "message (cut)".to_owned(),
        };
        Message {
            number: self.total,
            time: clock(time),
            server,
            sent,
            summary: text::line(&summary),
            is_error,
            took,
            bytes,
            text,
        }
    }
}

/// Formats the time of day, in UTC as in the logs.
pub(in crate::ui) fn clock(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}

/// A line of a log, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ui) struct LogRow {
    pub(in crate::ui) server: String,
    /// The whole time; texts sort like times.
    stamp: String,
    pub(in crate::ui) time: String,
    pub(in crate::ui) kind: LogKind,
    pub(in crate::ui) text: String,
}

impl LogRow {
    pub(in crate::ui) fn new(line: LogLine) -> Self {
        // `2026-11-17T14:02:11.120Z` → `14:02:11.120`
        let time = line
            .time
            .split_once('T')
            .map_or(&*line.time, |(_, time)| time);
        Self {
            time: text::line(time.trim_end_matches('Z')),
            stamp: line.time.clone(),
            server: line.server,
            kind: line.kind,
            text: text::line(&line.text),
        }
    }
}

#[cfg(test)]
impl LogRow {
    pub(in crate::ui) fn shown(server: &str, time: &str, kind: LogKind, said: &str) -> Self {
        Self {
            server: server.to_owned(),
            stamp: time.to_owned(),
            time: time.to_owned(),
            kind,
            text: text::line(said),
        }
    }
}

/// The newest log lines of all servers.
#[derive(Debug, Default)]
pub(in crate::ui) struct Logs {
    pub(in crate::ui) kept: VecDeque<LogRow>,
}

impl Logs {
    /// Returns the lines of a server's file that are older than those kept here.
    pub(in crate::ui) fn older(&self, server: &str, lines: Vec<LogLine>) -> Vec<LogRow> {
        let first = self.kept.iter().find(|row| row.server == server);
        lines
            .into_iter()
            .filter(|line| first.is_none_or(|first| line.time < first.stamp))
            .map(LogRow::new)
            .collect()
    }

    pub(in crate::ui) fn push(&mut self, line: LogLine) {
        self.kept.push_back(LogRow::new(line));
        if self.kept.len() > MAX_LOG_LINES {
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(at: Instant, sent: bool, text: &str) -> RawMessage {
        RawMessage {
            at,
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(50_531_120),
            server: "s".into(),
            sent,
            bytes: text.len(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn messages_are_summarised_and_responses_timed() {
        let mut messages = Messages::default();
        let start = Instant::now();
        let later = start + Duration::from_millis(410);
        for (at, sent, text, summary, took) in [
            (
                start,
                true,
                r#"{"id":17,"method":"tools/call","params":{"name":"x\u001b[2J"}}"#,
                "tools/call #17 x\\u{1b}[2J",
                None,
            ),
            (
                later,
                false,
                r#"{"id":17,"result":{}}"#,
                "result #17 tools/call",
                Some(410),
            ),
            (
                start,
                false,
                r#"{"id":"a","error":{"code":1}}"#,
                "error #a",
                None,
            ),
            (
                start,
                false,
                r#"{"method":"notifications/x"}"#,
                "notifications/x",
                None,
            ),
            (
                start,
                false,
                r#"{"id":1,"result":"cut"#,
                "message (cut)",
                None,
            ),
        ] {
            messages.push(raw(at, sent, text));
            let last = messages.kept.back().unwrap();
            assert_eq!(last.summary, summary);
            assert_eq!(last.took.map(|took| took.as_millis()), took);
            assert_eq!(last.time, "14:02:11.120");
        }
    }

    #[test]
    fn rings_are_bounded_and_a_frozen_view_stays() {
        let mut messages = Messages::default();
        let now = Instant::now();
        for _ in 0..MAX_MESSAGES + 10 {
            messages.push(raw(now, true, "{}"));
        }
        assert_eq!(messages.kept.len(), MAX_MESSAGES);
        messages.toggle_frozen();
        messages.push(raw(now, true, "{}"));
        assert_eq!(
            (messages.held(), messages.kept.back().unwrap().number),
            (1, 5010)
        );
        messages.toggle_frozen();
        assert_eq!(
            (messages.held(), messages.kept.back().unwrap().number),
            (0, 5011)
        );
    }

    #[test]
    fn messages_behind_a_frozen_view_are_bounded_by_bytes() {
        let mut messages = Messages::default();
        messages.toggle_frozen();
        let text = "x".repeat(1 << 20);
        for _ in 0..40 {
            messages.push(raw(Instant::now(), true, &text));
        }
        assert_eq!(messages.held(), MAX_BYTES >> 20);
    }

    #[test]
    fn an_unfolded_message_is_indented_and_bounded() {
        let mut messages = Messages::default();
        messages.push(raw(Instant::now(), true, r#"{"a":{"b":"\u001b"}}"#));
        let rows = messages.kept[0].unfolded();
        assert_eq!(rows[2], "    \"b\": \"\\u001b\"");
        let long: Vec<u32> = (0..2000).collect();
        messages.push(raw(
            Instant::now(),
            true,
            &serde_json::to_string(&long).unwrap(),
        ));
        assert_eq!(messages.kept[1].unfolded().len(), MAX_UNFOLDED + 1);
    }
}
