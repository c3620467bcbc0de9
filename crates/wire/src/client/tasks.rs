//! Calls that become tasks, driven to their end (CALL-6).
//!
//! A server may answer a call with a task instead of a result: a modern one as it likes (the tasks extension), one of 2025-11-25
//! where the call asks for it. The task is then looked at again and again until it has ended. Whoever gives up a call gives up its
//! task: the server is told.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use bytestring::ByteString;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::rounds::{Answer, Ask};
use super::signals::Kind;
use super::{CallRequest, Client, MAX_INPUT_ROUNDS, Target};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallResult, ResultKind, Task, TaskStatus};
use crate::peer::{Following, Progress, RequestError, RequestOptions};
use crate::rpc_error::RpcError;
use crate::transport::Obstacle;
use crate::version::Era;

/// How long to wait before looking at a task again, where its server does not say.
const POLL: Duration = Duration::from_secs(1);

/// How often a task is looked at at most, and at least, whatever its server says.
const POLLS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(30);

/// How often in a row looking at a task may fail in passing.
const MAX_LOST: u32 = 5;

/// How long the answer to a cancellation is waited for.
const CANCELLING: Duration = Duration::from_secs(2);

/// How a task was left.
enum End {
    /// It has ended, or is out of reach.
    Over(RequestError),
    /// We gave it up, and its server does not know yet.
    GivenUp(RequestError),
}

/// What a task is driven with.
struct Drive<'a> {
    since: Instant,
    deadline: Option<Instant>,
    idle: Option<Duration>,
    /// Takes what the task says that it is doing.
    statuses: &'a mpsc::UnboundedSender<String>,
}

impl Client {
    /// Whether this call must ask to be made a task.
    pub(super) fn must_be_task(&self, call: &CallRequest<'_>) -> bool {
        call.needs_task && self.shared.era == Era::Legacy && self.shared.identity.capabilities.tasks
    }

    /// Calls a tool as a task, or goes on with the task that an earlier call became.
    pub(super) async fn call_as_task(
        &self,
        mut call: CallRequest<'_>,
    ) -> Result<CallResult, RequestError> {
        let token = self.peer.progress_token();
        // From before the call: its progress goes on after its answer.
        let following = self.peer.follow(token);
        let mut nowhere = None;
        let kept = call.task.take().unwrap_or(&mut nowhere);
        let (target, on_progress) = (call.target(), call.on_progress.take());
        report(&following, on_progress, |statuses| async move {
            let task = match kept.clone() {
                Some(id) => Task::known(id),
                None => match self.create_task(target, token).await? {
                    Answer::Complete(result) => return Ok(result),
                    Answer::Task(result) => created(result)?,
                },
            };
            *kept = Some(task.id.clone());
            self.drive(task, target, &statuses).await
        })
        .await
    }

    /// Goes on with the task that a call has become.
    pub(super) async fn finish_task(
        &self,
        result: Json,
        mut call: CallRequest<'_>,
    ) -> Result<CallResult, RequestError> {
        let task = created(result)?;
        if let Some(kept) = &mut call.task {
            **kept = Some(task.id.clone());
        }
        let following = self.peer.follow(self.peer.progress_token());
        let (target, on_progress) = (call.target(), call.on_progress.take());
        report(&following, on_progress, |statuses| async move {
            self.drive(task, target, &statuses).await
        })
        .await
    }

    async fn create_task(
        &self,
        target: Target<'_>,
        token: u64,
    ) -> Result<Answer<CallResult>, RequestError> {
        let write = |params: &mut ObjectWriter| {
            target.write(params);
            params.raw("task", &Json::empty_object());
        };
        let ask = Ask {
            method: "tools/call",
            name: target.tool,
            write: &write,
            parameters: &|| target.parameters(),
            meta: target.meta,
            token,
            deadline: target.deadline,
            idle: target.idle,
            on_progress: None,
        };
        self.ask(ask, |result| {
            let (kind, read) = CallResult::read(result)?;
            let is_task = result.get("task").is_some_and(|task| task.is_object());
            let kind = if is_task {
                ResultKind::Unknown("task".to_owned())
            } else {
                kind
            };
            Ok((kind, read))
        })
        .await
    }

    /// Drives a task to its end. If this is dropped, the server is told.
    async fn drive(
        &self,
        task: Task,
        target: Target<'_>,
        statuses: &mpsc::UnboundedSender<String>,
    ) -> Result<CallResult, RequestError> {
        let drive = Drive {
            since: Instant::now(),
            deadline: target.deadline,
            idle: target.idle,
            statuses,
        };
        let mut cancelling = Cancelling {
            client: self,
            id: Some(task.id.clone()),
        };
        match self.watch_task(task, &drive).await {
            Ok(result) => {
                cancelling.id = None;
                Ok(result)
            }
            Err(End::Over(error)) => {
                cancelling.id = None;
                Err(error)
            }
            Err(End::GivenUp(error)) => {
                if let Some(id) = cancelling.id.take() {
                    self.cancel_task(&id).await;
                }
                Err(error)
            }
        }
    }

    /// Looks at a task until it has ended, and does what it asks for.
    async fn watch_task(&self, mut task: Task, drive: &Drive<'_>) -> Result<CallResult, End> {
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
                    Err(End::Over(RequestError::Undelivered(failure)))
                        if is_passing(&failure.obstacle) => {}
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
        drive: &Drive<'_>,
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
        let Some(responses) = self.answer_in_time(&requests, drive.deadline).await? else {
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
                Err(RequestError::Undelivered(failure)) if !is_passing(&failure.obstacle) => {
                    return Err(End::Over(RequestError::Undelivered(failure)));
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

    async fn cancel_task(&self, id: &ByteString) {
        if self.shared.identity.capabilities.cancel_tasks {
            let drive = Drive {
                since: Instant::now(),
                deadline: Some(Instant::now() + CANCELLING),
                idle: None,
                statuses: &mpsc::unbounded_channel().0,
            };
            // Whether it still can be cancelled is its server's affair.
            let cancelled = self.about_task("tasks/cancel", id, ObjectWriter::new(), &drive);
            let _ = cancelled.await;
        }
    }

    /// Sends a request about a task.
    async fn about_task(
        &self,
        method: &'static str,
        id: &ByteString,
        params: ObjectWriter,
        drive: &Drive<'_>,
    ) -> Result<Json, RequestError> {
        let options = RequestOptions {
            deadline: drive.deadline,
            idle: drive.idle,
            routing: self.routing(id, &|| None),
            ..RequestOptions::default()
        };
        let params = self.task_params(id, params);
        self.send(method, params, options, &mut |_| {}).await
    }

    fn task_params(&self, id: &ByteString, mut params: ObjectWriter) -> Json {
        params.string("taskId", id);
        self.shared.meta.add_to(&mut params, None, None);
        params.finish()
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

/// Tells a server that a task is no longer wanted, if whoever wanted it has gone away.
struct Cancelling<'c> {
    client: &'c Client,
    id: Option<ByteString>,
}

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        let client = self.client;
        if let Some(id) = &self.id
            && client.shared.identity.capabilities.cancel_tasks
        {
            let options = RequestOptions {
                deadline: Some(Instant::now() + CANCELLING),
                cancellable: false,
                routing: client.routing(id, &|| None),
                ..RequestOptions::default()
            };
            let params = client.task_params(id, ObjectWriter::new());
            client.peer.post("tasks/cancel", params, options);
        }
    }
}

/// Does the work and meanwhile reports how it goes, in order and before its outcome: progress, or else what the task says it is doing.
async fn report<W: Future<Output = Result<CallResult, RequestError>>>(
    following: &Following,
    mut on_progress: Option<&mut (dyn FnMut(Progress) + Send)>,
    work: impl FnOnce(mpsc::UnboundedSender<String>) -> W,
) -> Result<CallResult, RequestError> {
    let (sender, mut statuses) = mpsc::unbounded_channel();
    let mut work = pin!(work(sender));
    let mut tell = |progress: Progress| {
        if let Some(on_progress) = &mut on_progress {
            on_progress(progress);
        }
    };
    let mut numbered = false;
    let mut told = 0_u32;
    let mut tell_status = |message: String, numbered: bool, tell: &mut dyn FnMut(Progress)| {
        // Two ways of counting would contradict each other.
        if !numbered {
            told += 1;
            tell(Progress {
                progress: f64::from(told),
                total: None,
                message: Some(message),
            });
        }
    };
    let outcome = loop {
        tokio::select! {
            biased;
            progress = following.next() => {
                numbered = true;
                tell(progress);
            }
            Some(message) = statuses.recv() => tell_status(message, numbered, &mut tell),
            outcome = &mut work => break outcome,
        }
    };
    while let Some(progress) = following.next().now_or_never() {
        numbered = true;
        tell(progress);
    }
    while let Ok(message) = statuses.try_recv() {
        tell_status(message, numbered, &mut tell);
    }
    outcome
}

/// The task in the answer to a call.
fn created(result: Json) -> Result<Task, RequestError> {
    let task = result.get("task").filter(Json::is_object);
    Task::read(task.unwrap_or(result)).map_err(RequestError::Malformed)
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
fn is_passing(obstacle: &Obstacle) -> bool {
    matches!(
        obstacle,
        Obstacle::Unreachable | Obstacle::Broken | Obstacle::Silence
    )
}
