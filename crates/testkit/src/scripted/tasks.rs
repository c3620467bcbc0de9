//! Calls that become tasks, in both eras.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{Request, Server, environment, error, running_request::RunningRequest};
use crate::{RpcError, TaskEnd, TaskScript, TaskStep, wait::poll};

const POLL: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_mins(1);

/// The state of a task.
pub(super) struct Task {
    status: &'static str,
    message: Option<String>,
    poll_ms: u64,
    /// Unanswered input requests.
    asked: Map<String, Value>,
    answers: Map<String, Value>,
    result: Option<Value>,
    error: Option<RpcError>,
}

impl Task {
    fn ended(&self) -> bool {
        !matches!(self.status, "working" | "input_required")
    }

    fn describe(&self, id: &str, modern: bool) -> Value {
        let (ttl, poll) = if modern {
            ("ttlMs", "pollIntervalMs")
        } else {
            ("ttl", "pollInterval")
        };
        let mut task = json!({"taskId": id, "status": self.status, "createdAt": "2026-11-16T00:00:00Z",
            "lastUpdatedAt": "2026-11-16T00:00:00Z", ttl: null, poll: self.poll_ms});
        if let Some(message) = &self.message {
            task["statusMessage"] = json!(message);
        }
        if modern {
            if !self.asked.is_empty() {
                task["inputRequests"] = Value::Object(self.asked.clone());
            }
            if let Some(result) = &self.result {
                task["result"] = result.clone();
            }
            if let Some(error) = &self.error {
                task["error"] = json!(error);
            }
        }
        task
    }
}

impl Server {
    /// Creates a task for a call, responds with it, and runs it.
    pub(super) fn begin_task(self: &Arc<Self>, running: &RunningRequest, script: &TaskScript) {
        let request = &running.request;
        let Some(id) = &request.id else { return };
        if !request.modern && request.params.get("task").is_none() {
            let refusal = error(-32601, "this tool runs only as a task");
            return self.reply_error(request.exchange, id, &refusal);
        }
        let name = {
            let mut tasks = self.tasks.lock().unwrap();
            let name = format!("task-{}", tasks.len() + 1);
            let task = Task {
                status: "working",
                message: None,
                poll_ms: script.poll_ms,
                asked: Map::new(),
                answers: Map::new(),
                result: None,
                error: None,
            };
            tasks.insert(name.clone(), task);
            name
        };
        let state = self.task(&name, |task| task.describe(&name, request.modern));
        let mut result = state.unwrap_or_default();
        if request.modern {
            result["resultType"] = json!("task");
        } else {
            result = json!({ "task": result });
        }
        self.reply_result(request.exchange, id, &self.shape(result, request.modern));
        for step in &script.steps {
            if self.task(&name, |task| task.ended()) != Some(false) {
                return;
            }
            self.step_task(running, &name, step);
        }
        self.end_task(&name, &script.end, request.modern);
    }

    fn step_task(self: &Arc<Self>, running: &RunningRequest, name: &str, step: &TaskStep) {
        match step {
            TaskStep::SleepMs(time) => std::thread::sleep(Duration::from_millis(*time)),
            TaskStep::WaitForFile(path) => self.until(name, |_| path.exists()),
            TaskStep::Touch(path) => environment::append(path, b""),
            TaskStep::Progress(progress) => self.progress(running, progress),
            TaskStep::Status(message) => {
                self.task(name, |task| task.message = Some(message.clone()));
            }
            TaskStep::Ask(requests) => {
                self.task(name, |task| {
                    task.status = "input_required";
                    task.asked.extend(requests.clone());
                });
                self.until(name, |task| task.asked.is_empty());
                self.task(name, |task| {
                    if task.status == "input_required" {
                        task.status = "working";
                    }
                });
            }
        }
    }

    fn end_task(&self, name: &str, end: &TaskEnd, modern: bool) {
        match end {
            TaskEnd::Never(_) => {}
            TaskEnd::Vanish(_) => drop(self.tasks.lock().unwrap().remove(name)),
            TaskEnd::Result(result) => self.finish_task(name, "completed", |task| {
                task.result = Some(result.clone());
            }),
            TaskEnd::Answers(_) => self.finish_task(name, "completed", |task| {
                let answers = Value::Object(task.answers.clone()).to_string();
                task.result = Some(super::answers::text(&answers));
            }),
            TaskEnd::Error(error) => self.finish_task(name, "failed", |task| {
                task.error = Some(error.clone());
            }),
            TaskEnd::Cancelled(message) => self.finish_task(name, "cancelled", |task| {
                task.message = Some(message.clone());
            }),
        }
        if let Some(state) = self.task(name, |task| task.describe(name, modern))
            && !modern
        {
            self.publish_task(&state);
        }
    }

    fn finish_task(&self, name: &str, status: &'static str, change: impl FnOnce(&mut Task)) {
        self.task(name, |task| {
            if !task.ended() {
                change(task);
                task.status = status;
            }
        });
    }

    fn publish_task(&self, state: &Value) {
        self.common.publish("notifications/tasks/status", state);
    }

    /// Waits until the task is as wanted, has ended or is gone.
    fn until(&self, name: &str, wanted: impl Fn(&Task) -> bool) {
        let done = |task: &mut Task| wanted(task) || task.ended();
        poll(PATIENCE, || {
            (self.task(name, done) != Some(false)).then_some(())
        });
    }

    fn task<T>(&self, name: &str, look: impl FnOnce(&mut Task) -> T) -> Option<T> {
        self.tasks.lock().unwrap().get_mut(name).map(look)
    }

    /// The result of a method about a task.
    pub(super) fn about_task(&self, request: &Request) -> Result<Value, RpcError> {
        let name = request.params["taskId"].as_str().unwrap_or_default();
        let unknown = || error(-32602, &format!("Task not found: {name}"));
        let modern = request.modern;
        match request.method.as_str() {
            "tasks/get" => self
                .task(name, |task| task.describe(name, modern))
                .ok_or_else(unknown),
            "tasks/cancel" => {
                self.finish_task(name, "cancelled", |_| {});
                let state = self.task(name, |task| task.describe(name, modern));
                let state = state.ok_or_else(unknown)?;
                Ok(if modern { json!({}) } else { state })
            }
            "tasks/update" if modern => {
                let answers = request.params["inputResponses"].as_object().cloned();
                let answers = answers.ok_or_else(|| error(-32602, "no inputResponses"))?;
                self.answer_task(name, answers).ok_or_else(unknown)?;
                Ok(json!({}))
            }
            other => Err(error(-32601, &format!("method not found: {other}"))),
        }
    }

    fn answer_task(&self, name: &str, answers: Map<String, Value>) -> Option<()> {
        self.task(name, |task| {
            for (key, answer) in answers {
                if task.asked.shift_remove(&key).is_some() {
                    task.answers.insert(key, answer);
                }
            }
        })
    }

    /// Responds to `tasks/result` once the task has ended; its input requests go to the client.
    pub(super) fn task_result(self: &Arc<Self>, running: &RunningRequest) {
        let request = &running.request;
        let Some(id) = &request.id else { return };
        let name = request.params["taskId"].as_str().unwrap_or_default();
        loop {
            if running.cancelled() {
                return;
            }
            let state = self.task(name, |task| {
                (
                    task.ended(),
                    task.asked.clone(),
                    task.result.clone(),
                    task.error.clone(),
                )
            });
            match state {
                None => {
                    let refusal = error(-32602, &format!("Task not found: {name}"));
                    return self.reply_error(request.exchange, id, &refusal);
                }
                Some((true, _, Some(result), _)) => {
                    return self.reply_result(request.exchange, id, &result.to_string());
                }
                Some((true, _, _, refusal)) => {
                    let refusal = refusal.unwrap_or_else(|| error(-32603, "cancelled"));
                    return self.reply_error(request.exchange, id, &refusal);
                }
                Some((false, asked, ..)) => {
                    for (key, question) in asked {
                        self.ask_for_task(running, name, key, &question);
                    }
                }
            }
            running.sleep(POLL);
        }
    }

    fn ask_for_task(
        self: &Arc<Self>,
        running: &RunningRequest,
        name: &str,
        key: String,
        question: &Value,
    ) {
        let message = crate::Message {
            method: question["method"].as_str().unwrap_or_default().to_owned(),
            params: question.get("params").cloned(),
        };
        self.ask_client(running, &message);
        let answer = running.answer.lock().unwrap().take().unwrap_or_default();
        self.answer_task(name, Map::from_iter([(key, answer["result"].clone())]));
    }
}
