//! Polls a task until it ends, and provides the input that it asks for.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::notification_waiters::Topic;
use super::super::{Client, MAX_INPUT_ROUNDS, MAX_INPUTS};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallToolResult, ResultKind, Task, TaskStatus};
use crate::peer::RequestError;
use crate::rpc_error::RpcError;
use crate::transport::DeliveryErrorKind;
use crate::version::Era;

/// The poll interval, unless the server sets one.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The bounds of the poll interval that a server may set.
const POLL_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(30);

/// The maximum number of transient failures in a row.
const MAX_POLL_FAILURES: u32 = 5;

/// The reason that polling ended without a result.
pub(super) enum TaskFailure {
    /// The task has ended or cannot be reached.
    Ended(RequestError),
    /// The caller abandoned the task, and the server must be notified.
    Abandoned(RequestError),
}

/// Limits and output of a polling loop.
pub(super) struct PollContext<'a> {
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) idle: Option<Duration>,
    /// Receives the status messages.
    pub(super) statuses: &'a mpsc::UnboundedSender<String>,
}

impl Client {
    /// Polls a task until it ends, and provides the input that it asks for.
    pub(super) async fn poll_task(
        &self,
        mut task: Task,
        context: &mut PollContext<'_>,
    ) -> Result<CallToolResult, TaskFailure> {
        let legacy = self.shared.era == Era::Legacy;
        let waiters = self.shared.handler.notification_waiters();
        let mut waiter = waiters.map(|waiters| waiters.subscribe(Topic::Task(task.id.to_string())));
        let mut answered = HashSet::new();
        let mut rounds = 0;
        let mut said = None;
        loop {
            if task.message.is_some() && task.message != said {
                said.clone_from(&task.message);
                let _ = context.statuses.send(said.clone().unwrap_or_default());
            }
            match task.status {
                TaskStatus::Completed | TaskStatus::Failed if legacy => {
                    return self.task_result(&task, context).await;
                }
                // A legacy server sends its input requests while `tasks/result` is pending.
                TaskStatus::InputRequired if legacy => match self.task_result(&task, context).await
                {
                    Err(TaskFailure::Ended(RequestError::Delivery(failure)))
                        if is_transient(&failure.kind) => {}
                    outcome => return outcome,
                },
                TaskStatus::Completed => return completed(&task),
                TaskStatus::Failed => return Err(TaskFailure::Ended(failed(&task))),
                TaskStatus::Cancelled => {
                    let message = match &task.message {
                        Some(message) => format!("the server cancelled the task: {message}"),
                        None => "the server cancelled the task".to_owned(),
                    };
                    let error = RpcError::new(RpcError::INTERNAL_ERROR, message);
                    return Err(TaskFailure::Ended(RequestError::Rpc(error)));
                }
                TaskStatus::InputRequired => {
                    let asked = self.provide_input(&task, context, &mut answered).await;
                    rounds += usize::from(asked.map_err(TaskFailure::Abandoned)?);
                    if rounds > MAX_INPUT_ROUNDS {
                        return Err(TaskFailure::Abandoned(RequestError::Malformed(format!(
                            "the server asked for input more than {MAX_INPUT_ROUNDS} times"
                        ))));
                    }
                }
                TaskStatus::Working => {}
            }
            let update = context.wait(&task, async {
                match &mut waiter {
                    Some(waiter) => waiter.next().await,
                    None => std::future::pending().await,
                }
            });
            let update = update.await.map_err(TaskFailure::Abandoned)?;
            task = match update.and_then(|update| Task::from_json(update).ok()) {
                Some(update) => update,
                None => self.get_task(&task, context).await?,
            };
        }
    }

    /// Answers the new input requests of a task. Returns false if there are none.
    async fn provide_input(
        &self,
        task: &Task,
        context: &mut PollContext<'_>,
        answered: &mut HashSet<String>,
    ) -> Result<bool, RequestError> {
        let mut requests = Vec::new();
        if let Some(inputs) = task.raw.get("inputRequests") {
            inputs.members(|key, request| {
                // One too many is enough to refuse them.
                if requests.len() <= MAX_INPUTS && !answered.contains(key) {
                    requests.push((key.to_owned(), request));
                }
            });
        }
        let Some(responses) = self
            .answer_before_deadline(&requests, &mut context.deadline)
            .await?
        else {
            return Ok(false);
        };
        answered.extend(requests.into_iter().map(|(key, _)| key));
        let mut params = ObjectWriter::new();
        params.raw("inputResponses", &responses);
        let sent = self.task_request("tasks/update", &task.id, params, context);
        sent.await
            .map(|_| true)
            .map_err(RequestError::after_sending)
    }

    /// Fetches the state of a task. Retries transient failures.
    async fn get_task(&self, task: &Task, context: &PollContext<'_>) -> Result<Task, TaskFailure> {
        let mut lost = 0;
        loop {
            let params = ObjectWriter::new();
            let got = self
                .task_request("tasks/get", &task.id, params, context)
                .await;
            let problem = match got.map(Task::from_json) {
                Ok(Ok(now)) => return Ok(now),
                Ok(Err(problem)) => RequestError::Malformed(problem),
                Err(RequestError::Rpc(error)) if error.is_refusal() => {
                    return Err(TaskFailure::Ended(unknown_task(&error)));
                }
                Err(error @ (RequestError::Timeout { .. } | RequestError::Idle { .. })) => {
                    return Err(TaskFailure::Abandoned(error.after_sending()));
                }
                Err(error @ RequestError::Closed { .. }) => {
                    return Err(TaskFailure::Ended(error.after_sending()));
                }
                Err(RequestError::Delivery(failure)) if !is_transient(&failure.kind) => {
                    return Err(TaskFailure::Ended(RequestError::Delivery(failure)));
                }
                Err(error) => error,
            };
            lost += 1;
            if lost == MAX_POLL_FAILURES {
                return Err(TaskFailure::Abandoned(problem.after_sending()));
            }
            let wait = context.wait(task, std::future::pending());
            wait.await.map_err(TaskFailure::Abandoned)?;
        }
    }

    /// Waits for the result of a task of 2025-11-25.
    async fn task_result(
        &self,
        task: &Task,
        context: &PollContext<'_>,
    ) -> Result<CallToolResult, TaskFailure> {
        let params = ObjectWriter::new();
        let result = self
            .task_request("tasks/result", &task.id, params, context)
            .await;
        match result {
            Ok(result) => match CallToolResult::from_json(&result) {
                Ok((ResultKind::Complete, result)) => Ok(result),
                Ok(_) => Err(malformed("the task's result is invalid")),
                Err(problem) => Err(malformed(&problem)),
            },
            Err(error @ (RequestError::Timeout { .. } | RequestError::Idle { .. })) => {
                Err(TaskFailure::Abandoned(error.after_sending()))
            }
            Err(error) => Err(TaskFailure::Ended(error.after_sending())),
        }
    }
}

impl PollContext<'_> {
    /// Waits for the poll interval, or for `update`.
    async fn wait(
        &self,
        task: &Task,
        update: impl Future<Output = Json>,
    ) -> Result<Option<Json>, RequestError> {
        let interval = task.poll_interval.unwrap_or(DEFAULT_POLL_INTERVAL);
        let next = Instant::now() + interval.clamp(*POLL_INTERVALS.start(), *POLL_INTERVALS.end());
        let until = self.deadline.map_or(next, |deadline| deadline.min(next));
        tokio::select! {
            update = update => Ok(Some(update)),
            () = tokio::time::sleep_until(until) => {
                if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                    let after = self.since.elapsed();
                    return Err(RequestError::Timeout { after, sent: true });
                }
                Ok(None)
            }
        }
    }
}

/// Returns the result in a modern task.
fn completed(task: &Task) -> Result<CallToolResult, TaskFailure> {
    let result = task.raw.get("result");
    let Some(result) = result else {
        return Err(malformed("the task completed without a result"));
    };
    match CallToolResult::from_json(&result) {
        Ok((ResultKind::Complete, result)) => Ok(result),
        Ok(_) => Err(malformed("the task's result is invalid")),
        Err(problem) => Err(malformed(&problem)),
    }
}

/// Returns the error in a modern task.
fn failed(task: &Task) -> RequestError {
    let error = task.raw.get("error").filter(|error| !error.is_null());
    RequestError::Rpc(match (error, &task.message) {
        (Some(error), _) => RpcError::from_json(&error),
        (None, Some(message)) => RpcError::new(RpcError::INTERNAL_ERROR, message.clone()),
        (None, None) => RpcError::new(RpcError::INTERNAL_ERROR, "the task failed"),
    })
}

fn malformed(problem: &str) -> TaskFailure {
    TaskFailure::Ended(RequestError::Malformed(problem.to_owned()))
}

/// Returns the error for a task that the server no longer knows. The tool may have run.
fn unknown_task(error: &RpcError) -> RequestError {
    RequestError::Malformed(format!(
        "it became a task that the server no longer knows ({error}); the tool may have run"
    ))
}

/// Returns true if a retry may succeed.
fn is_transient(kind: &DeliveryErrorKind) -> bool {
    matches!(
        kind,
        DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken | DeliveryErrorKind::Timeout
    )
}
