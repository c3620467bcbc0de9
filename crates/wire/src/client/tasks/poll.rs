//! Looks at a task again and again until it has ended, and gives it what it asks for.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::notification_waiters::Kind;
use super::super::{Client, MAX_INPUT_ROUNDS};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallToolResult, ResultKind, Task, TaskStatus};
use crate::peer::RequestError;
use crate::rpc_error::RpcError;
use crate::transport::DeliveryErrorKind;
use crate::version::Era;

/// How long to wait before looking at a task again, where its server does not say.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a task is looked at at most, and at least, whatever its server says.
const POLL_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(30);

/// How often in a row looking at a task may fail in passing.
const MAX_POLL_FAILURES: u32 = 5;

/// How a task was left.
pub(super) enum TaskFailure {
    /// It has ended, or is out of reach.
    Ended(RequestError),
    /// We gave it up, and its server does not know yet.
    Abandoned(RequestError),
}

/// What a task is driven with.
pub(super) struct PollContext<'a> {
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) idle: Option<Duration>,
    /// Takes what the task says that it is doing.
    pub(super) statuses: &'a mpsc::UnboundedSender<String>,
}

impl Client {
    /// Looks at a task until it has ended, and does what it asks for.
    pub(super) async fn poll_task(
        &self,
        mut task: Task,
        context: &mut PollContext<'_>,
    ) -> Result<CallToolResult, TaskFailure> {
        let legacy = self.shared.era == Era::Legacy;
        let waiters = self.shared.handler.notification_waiters();
        let mut waiter = waiters.map(|waiters| waiters.subscribe(Kind::Task, &task.id));
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
                // What it needs is asked for while its result is waited for.
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
            let update = context.pause(&task, async {
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

    /// Answers what a task asks for and was not given yet; false if there is nothing new.
    async fn provide_input(
        &self,
        task: &Task,
        context: &mut PollContext<'_>,
        answered: &mut HashSet<String>,
    ) -> Result<bool, RequestError> {
        let mut requests = Vec::new();
        if let Some(inputs) = task.raw.get("inputRequests") {
            inputs.members(|key, request| {
                if !answered.contains(key) {
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

    /// How a task stands now.
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
            let pause = context.pause(task, std::future::pending());
            pause.await.map_err(TaskFailure::Abandoned)?;
        }
    }

    /// The result of a task of 2025-11-25; the server answers once it has one.
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
                Ok(_) => Err(malformed("the result of the task is none")),
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
    /// Waits until it is time to look again, or `update` says something.
    async fn pause(
        &self,
        task: &Task,
        update: impl Future<Output = Json>,
    ) -> Result<Option<Json>, RequestError> {
        let wished = task.poll_interval.unwrap_or(DEFAULT_POLL_INTERVAL);
        let next = Instant::now() + wished.clamp(*POLL_INTERVALS.start(), *POLL_INTERVALS.end());
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

/// The result that a modern server gives with its task.
fn completed(task: &Task) -> Result<CallToolResult, TaskFailure> {
    let result = task.raw.get("result");
    let Some(result) = result else {
        return Err(malformed("the task has ended without a result"));
    };
    match CallToolResult::from_json(&result) {
        Ok((ResultKind::Complete, result)) => Ok(result),
        Ok(_) => Err(malformed("the result of the task is none")),
        Err(problem) => Err(malformed(&problem)),
    }
}

/// The error that a modern server gives with its task.
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

/// The error of a call whose task cannot be followed any more: it was made, so the tool may have run.
fn unknown_task(error: &RpcError) -> RequestError {
    RequestError::Malformed(format!(
        "it became a task that the server no longer knows ({error}); the tool may have run"
    ))
}

/// Whether looking again may help.
fn is_transient(kind: &DeliveryErrorKind) -> bool {
    matches!(
        kind,
        DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken | DeliveryErrorKind::Timeout
    )
}
