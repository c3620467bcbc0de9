//! Looks at a task again and again until it has ended, and gives it what it asks for.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::signals::Kind;
use super::super::{Client, MAX_INPUT_ROUNDS};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallResult, ResultKind, Task, TaskStatus};
use crate::peer::RequestError;
use crate::rpc_error::RpcError;
use crate::transport::DeliveryErrorKind;
use crate::version::Era;

/// How long to wait before looking at a task again, where its server does not say.
const POLL: Duration = Duration::from_secs(1);

/// How often a task is looked at at most, and at least, whatever its server says.
const POLLS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(30);

/// How often in a row looking at a task may fail in passing.
const MAX_LOST: u32 = 5;

/// How a task was left.
pub(super) enum End {
    /// It has ended, or is out of reach.
    Over(RequestError),
    /// We gave it up, and its server does not know yet.
    GivenUp(RequestError),
}

/// What a task is driven with.
pub(super) struct Drive<'a> {
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) idle: Option<Duration>,
    /// Takes what the task says that it is doing.
    pub(super) statuses: &'a mpsc::UnboundedSender<String>,
}

impl Client {
    /// Looks at a task until it has ended, and does what it asks for.
    pub(super) async fn watch_task(
        &self,
        mut task: Task,
        drive: &mut Drive<'_>,
    ) -> Result<CallResult, End> {
        let legacy = self.shared.era == Era::Legacy;
        let signals = self.shared.handler.signals();
        let mut signal = signals.map(|signals| signals.about(Kind::Task, &task.id));
        let mut answered = HashSet::new();
        let mut rounds = 0;
        let mut said = None;
        loop {
            if task.message.is_some() && task.message != said {
                said.clone_from(&task.message);
                let _ = drive.statuses.send(said.clone().unwrap_or_default());
            }
            match task.status {
                TaskStatus::Completed | TaskStatus::Failed if legacy => {
                    return self.task_result(&task, drive).await;
                }
                // What it needs is asked for while its result is waited for.
                TaskStatus::InputRequired if legacy => match self.task_result(&task, drive).await {
                    Err(End::Over(RequestError::Delivery(failure)))
                        if is_passing(&failure.kind) => {}
                    outcome => return outcome,
                },
                TaskStatus::Completed => return completed(&task),
                TaskStatus::Failed => return Err(End::Over(failed(&task))),
                TaskStatus::Cancelled => {
                    let message = match &task.message {
                        Some(message) => format!("the server cancelled the task: {message}"),
                        None => "the server cancelled the task".to_owned(),
                    };
                    let error = RpcError::new(RpcError::INTERNAL_ERROR, message);
                    return Err(End::Over(RequestError::Rpc(error)));
                }
                TaskStatus::InputRequired => {
                    let asked = self.give_input(&task, drive, &mut answered).await;
                    rounds += usize::from(asked.map_err(End::GivenUp)?);
                    if rounds > MAX_INPUT_ROUNDS {
                        return Err(End::GivenUp(RequestError::Malformed(format!(
                            "the server asked for input more than {MAX_INPUT_ROUNDS} times"
                        ))));
                    }
                }
                TaskStatus::Working => {}
            }
            let told = drive.pause(&task, async {
                match &mut signal {
                    Some(signal) => signal.next().await,
                    None => std::future::pending().await,
                }
            });
            let told = told.await.map_err(End::GivenUp)?;
            task = match told.and_then(|told| Task::read(told).ok()) {
                Some(told) => told,
                None => self.get_task(&task, drive).await?,
            };
        }
    }

    /// Answers what a task asks for and was not given yet; false if there is nothing new.
    async fn give_input(
        &self,
        task: &Task,
        drive: &mut Drive<'_>,
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
        let Some(responses) = self.answer_in_time(&requests, &mut drive.deadline).await? else {
            return Ok(false);
        };
        answered.extend(requests.into_iter().map(|(key, _)| key));
        let mut params = ObjectWriter::new();
        params.raw("inputResponses", &responses);
        let sent = self.about_task("tasks/update", &task.id, params, drive);
        sent.await
            .map(|_| true)
            .map_err(RequestError::after_sending)
    }

    /// How a task stands now.
    async fn get_task(&self, task: &Task, drive: &Drive<'_>) -> Result<Task, End> {
        let mut lost = 0;
        loop {
            let params = ObjectWriter::new();
            let got = self.about_task("tasks/get", &task.id, params, drive).await;
            let problem = match got.map(Task::read) {
                Ok(Ok(now)) => return Ok(now),
                Ok(Err(problem)) => RequestError::Malformed(problem),
                Err(RequestError::Rpc(error)) if error.is_refusal() => {
                    return Err(End::Over(gone(&error)));
                }
                Err(error @ (RequestError::Timeout { .. } | RequestError::Idle { .. })) => {
                    return Err(End::GivenUp(error.after_sending()));
                }
                Err(error @ RequestError::Closed { .. }) => {
                    return Err(End::Over(error.after_sending()));
                }
                Err(RequestError::Delivery(failure)) if !is_passing(&failure.kind) => {
                    return Err(End::Over(RequestError::Delivery(failure)));
                }
                Err(error) => error,
            };
            lost += 1;
            if lost == MAX_LOST {
                return Err(End::GivenUp(problem.after_sending()));
            }
            let pause = drive.pause(task, std::future::pending());
            pause.await.map_err(End::GivenUp)?;
        }
    }

    /// The result of a task of 2025-11-25; the server answers once it has one.
    async fn task_result(&self, task: &Task, drive: &Drive<'_>) -> Result<CallResult, End> {
        let params = ObjectWriter::new();
        let result = self
            .about_task("tasks/result", &task.id, params, drive)
            .await;
        match result {
            Ok(result) => match CallResult::read(&result) {
                Ok((ResultKind::Complete, result)) => Ok(result),
                Ok(_) => Err(malformed("the result of the task is none")),
                Err(problem) => Err(malformed(&problem)),
            },
            Err(error @ (RequestError::Timeout { .. } | RequestError::Idle { .. })) => {
                Err(End::GivenUp(error.after_sending()))
            }
            Err(error) => Err(End::Over(error.after_sending())),
        }
    }
}

impl Drive<'_> {
    /// Waits until it is time to look again, or `told` says something.
    async fn pause(
        &self,
        task: &Task,
        told: impl Future<Output = Json>,
    ) -> Result<Option<Json>, RequestError> {
        let wished = task.poll_after.unwrap_or(POLL);
        let next = Instant::now() + wished.clamp(*POLLS.start(), *POLLS.end());
        let until = self.deadline.map_or(next, |deadline| deadline.min(next));
        tokio::select! {
            told = told => Ok(Some(told)),
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
fn completed(task: &Task) -> Result<CallResult, End> {
    let result = task.raw.get("result");
    let Some(result) = result else {
        return Err(malformed("the task has ended without a result"));
    };
    match CallResult::read(&result) {
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

fn malformed(problem: &str) -> End {
    End::Over(RequestError::Malformed(problem.to_owned()))
}

/// The error of a call whose task cannot be followed any more: it was made, so the tool may have run.
fn gone(error: &RpcError) -> RequestError {
    RequestError::Malformed(format!(
        "it became a task that the server no longer knows ({error}); the tool may have run"
    ))
}

/// Whether looking again may help.
fn is_passing(kind: &DeliveryErrorKind) -> bool {
    matches!(
        kind,
        DeliveryErrorKind::Unreachable | DeliveryErrorKind::Broken | DeliveryErrorKind::Silence
    )
}
