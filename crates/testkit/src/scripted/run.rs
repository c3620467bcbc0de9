//! Running a list of actions for one request.

use std::{
    fs,
    io::Write,
    ops::ControlFlow::{self, Break, Continue},
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc::channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Out, Server,
    answers::{arguments, text},
    environment, error, grandchild,
    running_request::RunningRequest,
};
use crate::{Action, Flood, InputRequired, Message, Progress};

/// Time limit for waiting actions.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(2);

/// Runs actions in order until one replies, ends the list, or the request is cancelled.
pub(super) fn all(server: &Arc<Server>, running: &RunningRequest, actions: &[Action]) {
    let answered = answered_rounds(&running.request.params, actions);
    for (index, action) in actions.iter().enumerate() {
        if running.cancelled() {
            return;
        }
        let flow = match action {
            Action::InputRequired(_) if answered.is_some_and(|last| index <= last) => Continue(()),
            Action::InputRequired(input) => server.ask(running, input),
            other => server.step(running, other),
        };
        if flow.is_break() {
            return;
        }
    }
}

/// The index of the last `inputRequired` that a request answers: the one with its state, or else
/// the last.
fn answered_rounds(params: &Value, actions: &[Action]) -> Option<usize> {
    let state = params.get("requestState");
    if state.is_none() && params.get("inputResponses").is_none() {
        return None;
    }
    let same = |action: &Action| matches!(action, Action::InputRequired(InputRequired { request_state: Some(own), .. }) if state.is_some_and(|state| state == own));
    Some(actions.iter().position(same).unwrap_or(usize::MAX))
}

impl Server {
    fn step(self: &Arc<Self>, running: &RunningRequest, action: &Action) -> ControlFlow<()> {
        let to = running.request.exchange;
        match action {
            Action::ReplyTwice(false)
            | Action::Echo(false)
            | Action::ReplyInputs(false)
            | Action::ReplyAnswer(false)
            | Action::Default(false)
            | Action::Silence(false)
            | Action::CloseStdout(false)
            | Action::StopReading(false) => return Continue(()),
            Action::SleepMs(time) => running.sleep(Duration::from_millis(*time)),
            Action::Progress(progress) => self.progress(running, progress),
            Action::Notify(Message { method, params }) => {
                self.output.message(to, &outgoing(method, params.as_ref()));
            }
            Action::Publish(Message { method, params }) => {
                self.common
                    .publish(method, params.as_ref().unwrap_or(&json!({})));
            }
            Action::Write(line) => self.output.put(to, Out::Line(line.clone().into_bytes())),
            Action::WriteHex(digits) => self.output.put(to, Out::Bytes(hex(digits))),
            Action::SlowWrite(slow) => {
                let out = Out::Slow {
                    line: with_id(&slow.text, running).into_bytes(),
                    chunk: slow.chunk.unwrap_or(1),
                    pause: Duration::from_millis(slow.every_ms),
                };
                self.output.put(to, out);
            }
            Action::Garbage(count) => self.output.put(to, Out::Line(garbage(*count))),
            Action::Stderr(line) => to_stderr(format!("{line}\n").as_bytes()),
            Action::StderrFlood(count) => to_stderr(&flood(*count)),
            Action::Flood(flood) => endless(running, flood),
            Action::Request(message) => self.ask_client(running, message),
            Action::Task(script) => {
                self.begin_task(running, script);
                return Break(());
            }
            Action::Default(true) if running.request.method == "tasks/result" => {
                self.task_result(running);
                return Break(());
            }
            Action::CloseStdout(true) => {
                self.output.close();
                self.environment.close_output();
            }
            Action::StopReading(true) => self.stopped.store(true, Ordering::Release),
            Action::IgnoreSignals(names) => names
                .iter()
                .for_each(|name| self.environment.ignore(name.signal())),
            Action::SpawnGrandchild(settings) => grandchild::spawn(settings),
            Action::AddTool(tool) => {
                self.tools.lock().unwrap().push(tool.clone());
                self.common
                    .publish("notifications/tools/list_changed", &json!({}));
            }
            Action::RemoveTool(name) => {
                self.tools.lock().unwrap().retain(|tool| tool.name != *name);
                self.common
                    .publish("notifications/tools/list_changed", &json!({}));
            }
            Action::WritePid(path) => {
                environment::write_whole(path, &std::process::id().to_string());
            }
            Action::WaitForFile(path) => wait_for_file(running, path),
            Action::Touch(path) => environment::append(path, b""),
            Action::AppendFile(append) => {
                let arguments = &running.request.params["arguments"];
                let text = append.text.replace("$ARGUMENTS", &arguments.to_string());
                environment::append(&append.path, text.as_bytes());
            }
            Action::CountFile(path) => environment::count(path),
            Action::Exit(code) => {
                self.end(*code);
                return Break(());
            }
            Action::Signal(name) => {
                self.environment.signal(name.signal());
                if !matches!(self.environment, environment::Environment::Process) {
                    self.end(1);
                }
            }
            reply => {
                self.reply(running, reply);
                return Break(());
            }
        }
        Continue(())
    }

    /// Runs an action that ends a list, with or without a reply.
    fn reply(&self, running: &RunningRequest, action: &Action) {
        let Some(id) = running.request.id.as_ref().filter(|_| !running.cancelled()) else {
            return;
        };
        let (to, modern) = (running.request.exchange, running.request.modern);
        let say =
            |id: &Value, said: &str| self.reply_result(to, id, &self.shape(text(said), modern));
        match action {
            Action::Reply(result) => self.reply_result(to, id, &self.shape(result.clone(), modern)),
            Action::ReplyText(said) => say(id, said),
            Action::ReplyError(refusal) => self.reply_error(to, id, refusal),
            Action::ReplyTwice(_) => {
                say(id, "first");
                say(id, "second");
            }
            Action::ReplyWithId(spelling) => say(&respell(id, spelling), "ok"),
            Action::ReplyRaw(line) => {
                self.output
                    .put(to, Out::Reply(with_id(line, running).into_bytes()));
            }
            Action::Echo(_) => say(id, &arguments(&running.request.params)),
            Action::HugeText(count) => say(id, &"x".repeat(*count)),
            Action::Deep(depth) => {
                let content = format!("{}{}", "[".repeat(*depth), "]".repeat(*depth));
                let rest = self.shape(json!({"content": []}), modern);
                self.reply_result(
                    to,
                    id,
                    &format!(r#"{{"structuredContent":{content},{}"#, &rest[1..]),
                );
            }
            Action::ReplyInputs(_) => {
                let params = &running.request.params;
                let got = json!({"inputResponses": params["inputResponses"], "requestState": params["requestState"]});
                say(id, &got.to_string());
            }
            Action::ReplyAnswer(_) => {
                let answer = running.answer.lock().unwrap().take().unwrap_or_default();
                let part = answer
                    .get("result")
                    .or_else(|| answer.get("error"))
                    .cloned()
                    .unwrap_or_default();
                say(id, &part.to_string());
            }
            Action::Default(_) => self.answer_default(&running.request),
            _ => {}
        }
    }

    fn ask(&self, running: &RunningRequest, input: &InputRequired) -> ControlFlow<()> {
        let mut result = json!({"resultType": "input_required"});
        if let Some(requests) = &input.input_requests {
            result["inputRequests"] = requests.clone();
        }
        if let Some(state) = &input.request_state {
            result["requestState"] = json!(state);
        }
        if let Some(id) = &running.request.id {
            self.reply_result(
                running.request.exchange,
                id,
                &self.shape(result, running.request.modern),
            );
        }
        Break(())
    }

    pub(super) fn progress(&self, running: &RunningRequest, progress: &Progress) {
        let Some(token) = running.request.params["_meta"].get("progressToken") else {
            return;
        };
        for step in 1..=progress.steps {
            running.sleep(Duration::from_millis(progress.every_ms));
            if running.cancelled() {
                return;
            }
            let mut params = json!({"progressToken": token, "progress": step});
            if progress.total {
                params["total"] = json!(progress.steps);
            }
            if let Some(message) = &progress.message {
                params["message"] = json!(message);
            }
            let message = outgoing("notifications/progress", Some(&params));
            self.output.message(running.request.exchange, &message);
        }
    }

    pub(super) fn ask_client(&self, running: &RunningRequest, message: &Message) {
        let id = json!(format!(
            "testkit-{}",
            self.next_id.fetch_add(1, Ordering::Relaxed)
        ));
        let (sender, receiver) = channel();
        self.waiting.lock().unwrap().insert(id.to_string(), sender);
        let mut request = outgoing(&message.method, message.params.as_ref());
        request["id"] = id;
        self.output.message(running.request.exchange, &request);
        let start = Instant::now();
        while !running.inline && !running.cancelled() && start.elapsed() < PATIENCE {
            if let Ok(answer) = receiver.recv_timeout(POLL) {
                *running.answer.lock().unwrap() = Some(answer);
                return;
            }
        }
        *running.answer.lock().unwrap() = Some(json!({"error": error(0, "no answer")}));
    }
}

fn outgoing(method: &str, params: Option<&Value>) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(params) = params {
        message["params"] = params.clone();
    }
    message
}

fn respell(id: &Value, spelling: &Value) -> Value {
    match spelling.as_str() {
        Some("float") => json!(id.as_f64().expect("a number to respell as a float")),
        Some("string") => json!(id.to_string()),
        _ => spelling.clone(),
    }
}

fn with_id(line: &str, running: &RunningRequest) -> String {
    line.replace(
        "$ID",
        &running
            .request
            .id
            .as_ref()
            .map_or_else(|| "null".into(), Value::to_string),
    )
}

fn wait_for_file(running: &RunningRequest, path: &Path) {
    let start = Instant::now();
    while !fs::exists(path).unwrap_or(false) && !running.cancelled() && start.elapsed() < PATIENCE {
        running.sleep(POLL);
    }
}

fn to_stderr(bytes: &[u8]) {
    // stderr may be closed.
    std::io::stderr().write_all(bytes).ok();
}

/// Writes endlessly, bypassing other output.
fn endless(running: &RunningRequest, flood: &Flood) {
    // Batches of lines, for speed.
    let times = (64 * 1024 / flood.text.len().max(1)).max(1);
    let block = flood.text.repeat(times).into_bytes();
    let mut written = 0_usize;
    while !running.cancelled() {
        let outcome = if flood.stderr {
            std::io::stderr().lock().write_all(&block)
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(&block).and_then(|()| out.flush())
        };
        if outcome.is_err() {
            return;
        }
        written += 1;
        if let (1, Some(begun)) = (written, &flood.begun) {
            environment::append(begun, b"");
        }
    }
}

fn flood(count: usize) -> Vec<u8> {
    let line = b"the quick brown fox jumps over the lazy dog; the server floods its stderr now.\n";
    line.iter().copied().cycle().take(count).collect()
}

/// Deterministic bytes that are neither JSON nor UTF-8 nor newlines.
fn garbage(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    std::iter::once(0xff)
        .chain(std::iter::repeat_with(next).filter(|byte| *byte != b'\n'))
        .take(count)
        .collect()
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("pairs of hex digits")
    };
    digits.chunks(2).map(byte).collect()
}
