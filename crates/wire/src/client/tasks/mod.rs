//! Calls that become tasks (CALL-6).
//!
//! A server may respond to a call with a task instead of a result: a modern one at any time (the
//! tasks extension), one of 2025-11-25 if the call asks for it. The client then polls the task
//! until it ends. Cancelling the call cancels the task.

mod poll;
mod progress;

use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::input_required::{MultiRoundRequest, MultiRoundResult};
use super::{CallParams, CallRequest, Client};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallToolResult, ResultKind, Task};
use crate::peer::{RequestError, RequestOptions};
use crate::version::Era;
use poll::{PollContext, TaskFailure};
use progress::with_progress;

/// The time to wait for the response to `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

impl Client {
    /// Returns true if the call must ask for a task.
    pub(super) fn requires_task(&self, call: &CallRequest<'_>) -> bool {
        call.needs_task && self.shared.era == Era::Legacy && self.shared.identity.capabilities.tasks
    }

    /// Calls a tool as a task, or resumes the task of an earlier call.
    pub(super) async fn call_as_task(
        &self,
        mut call: CallRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        let token = self.peer.progress_token();
        // Subscribed before the call, because progress continues after the response.
        let updates = self.peer.subscribe_progress(token);
        let mut nowhere = None;
        let kept = call.task.take().unwrap_or(&mut nowhere);
        let (target, on_progress) = (call.target(), call.on_progress.take());
        with_progress(&updates, on_progress, |statuses| async move {
            let task = match kept.clone() {
                Some(id) => Task::with_id(id),
                None => match self.create_task(target, token).await? {
                    MultiRoundResult::Complete(result) => return Ok(result),
                    MultiRoundResult::Task(result) => created_task(result)?,
                },
            };
            *kept = Some(task.id.clone());
            self.poll_to_end(task, target, &statuses).await
        })
        .await
    }

    /// Polls the task that a call has become.
    pub(super) async fn finish_task(
        &self,
        result: Json,
        mut call: CallRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        let task = created_task(result)?;
        if let Some(kept) = &mut call.task {
            **kept = Some(task.id.clone());
        }
        let updates = self.peer.subscribe_progress(self.peer.progress_token());
        let (target, on_progress) = (call.target(), call.on_progress.take());
        with_progress(&updates, on_progress, |statuses| async move {
            self.poll_to_end(task, target, &statuses).await
        })
        .await
    }

    async fn create_task(
        &self,
        target: CallParams<'_>,
        token: u64,
    ) -> Result<MultiRoundResult<CallToolResult>, RequestError> {
        let write = |params: &mut ObjectWriter| {
            target.write(params);
            params.raw("task", &Json::empty_object());
        };
        let request = MultiRoundRequest {
            method: "tools/call",
            name: target.tool,
            write: &write,
            parameters: &|| target.parameters(),
            meta: target.meta,
            token,
            deadline: target.deadline,
            idle: target.idle,
            forward_url_elicitation: target.forward_url_elicitation,
            on_progress: None,
        };
        self.send_multi_round(request, |result| {
            let (kind, read) = CallToolResult::from_json(result)?;
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

    /// Polls a task until it ends, and cancels it if dropped.
    async fn poll_to_end(
        &self,
        task: Task,
        target: CallParams<'_>,
        statuses: &mpsc::UnboundedSender<String>,
    ) -> Result<CallToolResult, RequestError> {
        let mut context = PollContext {
            since: Instant::now(),
            deadline: target.deadline,
            idle: target.idle,
            statuses,
        };
        let mut cancelling = CancelOnDrop {
            client: self,
            id: Some(task.id.clone()),
        };
        match self.poll_task(task, &mut context).await {
            Ok(result) => {
                cancelling.id = None;
                Ok(result)
            }
            Err(TaskFailure::Ended(error)) => {
                cancelling.id = None;
                Err(error)
            }
            Err(TaskFailure::Abandoned(error)) => {
                if let Some(id) = cancelling.id.take() {
                    self.cancel_task(&id).await;
                }
                Err(error)
            }
        }
    }

    async fn cancel_task(&self, id: &ByteString) {
        if self.shared.identity.capabilities.cancel_tasks {
            let context = PollContext {
                since: Instant::now(),
                deadline: Some(Instant::now() + CANCEL_TIMEOUT),
                idle: None,
                statuses: &mpsc::unbounded_channel().0,
            };
            // Failure is ignored: the task may have ended.
            let cancelled = self.task_request("tasks/cancel", id, ObjectWriter::new(), &context);
            let _ = cancelled.await;
        }
    }

    /// Sends a request for a task.
    async fn task_request(
        &self,
        method: &'static str,
        id: &ByteString,
        params: ObjectWriter,
        context: &PollContext<'_>,
    ) -> Result<Json, RequestError> {
        let options = RequestOptions {
            deadline: context.deadline,
            idle: context.idle,
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

/// Cancels a task when the future of its call is dropped.
struct CancelOnDrop<'c> {
    client: &'c Client,
    id: Option<ByteString>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let client = self.client;
        if let Some(id) = &self.id
            && client.shared.identity.capabilities.cancel_tasks
        {
            let options = RequestOptions {
                deadline: Some(Instant::now() + CANCEL_TIMEOUT),
                cancellable: false,
                routing: client.routing(id, &|| None),
                ..RequestOptions::default()
            };
            let params = client.task_params(id, ObjectWriter::new());
            client
                .peer
                .request_detached("tasks/cancel", params, options);
        }
    }
}

/// Reads the task in the response to a call.
fn created_task(result: Json) -> Result<Task, RequestError> {
    let task = result.get("task").filter(Json::is_object);
    Task::from_json(task.unwrap_or(result)).map_err(RequestError::Malformed)
}
