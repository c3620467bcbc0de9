//! Tasks, as servers of both eras describe them.

use std::time::Duration;

use bytestring::ByteString;

use crate::json::Json;

/// The maximum length of a task id, in bytes (SEC-4).
const MAX_ID: usize = 4096;

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// The state of a task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: ByteString,
    pub(crate) status: TaskStatus,
    /// The status message. Untrusted text.
    pub(crate) message: Option<String>,
    /// The poll interval that the server asks for.
    pub(crate) poll_interval: Option<Duration>,
    /// The whole object as the server wrote it.
    pub(crate) raw: Json,
}

impl Task {
    /// Reads a task from the response to a call or to `tasks/get`, or from a notification.
    pub(crate) fn from_json(raw: Json) -> Result<Self, String> {
        let (mut id, mut status, mut message, mut poll) = (None, None, None, None);
        raw.members(|key, value| match key {
            "taskId" => id = value.as_string(),
            "status" => status = value.as_string(),
            "statusMessage" => message = value.as_string(),
            "pollInterval" | "pollIntervalMs" => poll = value.decode::<f64>().ok(),
            _ => {}
        });
        let id = id.filter(|id| !id.is_empty() && id.len() <= MAX_ID);
        let poll = poll.filter(|poll| *poll >= 0.0);
        Ok(Self {
            id: id.ok_or("the task has no usable id")?,
            status: match status.as_deref() {
                Some("input_required") => TaskStatus::InputRequired,
                Some("completed") => TaskStatus::Completed,
                Some("failed") => TaskStatus::Failed,
                Some("cancelled") => TaskStatus::Cancelled,
                // A status from a later protocol version does not end the task.
                _ => TaskStatus::Working,
            },
            message: message.map(String::from),
            poll_interval: poll.and_then(|poll| Duration::try_from_secs_f64(poll / 1000.0).ok()),
            raw,
        })
    }

    /// Creates a task from its id.
    pub(crate) fn with_id(id: ByteString) -> Self {
        Self {
            id,
            status: TaskStatus::Working,
            message: None,
            poll_interval: Some(Duration::ZERO),
            raw: Json::null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_in_both_spellings() {
        let read = |text: &str| Task::from_json(Json::parse(text.to_owned()).unwrap());
        for text in [
            r#"{"taskId":"t","status":"failed","pollInterval":20,"statusMessage":"m"}"#,
            r#"{"taskId":"t","status":"failed","pollIntervalMs":20,"statusMessage":"m","ttlMs":null}"#,
        ] {
            let task = read(text).unwrap();
            assert_eq!((&*task.id, task.status), ("t", TaskStatus::Failed));
            assert_eq!(task.poll_interval, Some(Duration::from_millis(20)));
            assert_eq!(task.message.as_deref(), Some("m"));
        }
        let odd =
            read(r#"{"taskId":"t","status":7,"pollInterval":-1,"statusMessage":[]}"#).unwrap();
        assert_eq!(odd.status, TaskStatus::Working);
        assert_eq!((odd.poll_interval, odd.message), (None, None));
        for text in ["{}", "7", r#"{"taskId":""}"#, r#"{"taskId":5}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
