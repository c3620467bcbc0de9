//! Hands protocol messages and log lines to the interface without slowing their connections.
//!
//! Connections call the feed on their own tasks, so it only queues, in bounded memory: of a flood
//! that the interface cannot keep up with, the oldest messages are lost and counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::Notify;
use trunkline::log::{Direction, LogLine, Message};

use super::msg::RawMessage;

/// The most messages, and log lines, that wait for the interface.
const MAX_QUEUED: usize = 4000;

/// The longest text of a message that is kept.
const MAX_TEXT: usize = 64 * 1024;

/// The most bytes that wait for the interface.
const MAX_BYTES: usize = 16 << 20;

#[derive(Default)]
struct Queue {
    messages: VecDeque<RawMessage>,
    bytes: usize,
    lost: u64,
    logs: VecDeque<LogLine>,
}

/// A bounded queue; clones share it.
#[derive(Clone, Default)]
pub(super) struct Feed {
    queue: Arc<Mutex<Queue>>,
    wake: Arc<Notify>,
}

/// The messages and log lines that have arrived since the last one.
pub(super) struct Batch {
    pub(super) messages: Vec<RawMessage>,
    pub(super) lost: u64,
    pub(super) logs: Vec<LogLine>,
}

impl Feed {
    pub(super) fn message(&self, message: &Message) {
        let text = message.text;
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let raw = RawMessage {
            at: Instant::now(),
            time: SystemTime::now(),
            server: message.server.into(),
            sent: message.direction == Direction::Sent,
            bytes: text.len(),
            text: text[..end].to_owned(),
        };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.bytes += raw.text.len();
        queue.messages.push_back(raw);
        while queue.messages.len() > MAX_QUEUED || queue.bytes > MAX_BYTES {
            let Some(old) = queue.messages.pop_front() else {
                break;
            };
            queue.bytes -= old.text.len();
            queue.lost += 1;
        }
        drop(queue);
        self.wake.notify_one();
    }

    pub(super) fn log(&self, line: LogLine) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.logs.push_back(line);
        if queue.logs.len() > MAX_QUEUED {
            queue.logs.pop_front();
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Waits until something has arrived.
    pub(super) async fn arrived(&self) {
        self.wake.notified().await;
    }

    /// Takes all that has arrived.
    pub(super) fn take(&self) -> Batch {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.bytes = 0;
        Batch {
            messages: std::mem::take(&mut queue.messages).into(),
            lost: std::mem::take(&mut queue.lost),
            logs: std::mem::take(&mut queue.logs).into(),
        }
    }
}
