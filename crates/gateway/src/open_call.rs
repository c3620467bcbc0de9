//! A request of a client that a server is working on, and the questions that the server asks
//! meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use trunkline::call::Progress;
use trunkline_wire::version::Era;
use trunkline_wire::{Json, ObjectWriter};

use crate::caller::{Caller, Capabilities};
use crate::link::ClientLink;
use crate::logging::Level;

tokio::task_local! {
    /// The call that the current task makes. Questions of modern servers arrive in it.
    pub(crate) static CURRENT: Arc<OpenCall>;
}

/// A request that a server is working on.
pub(crate) struct OpenCall {
    server: String,
    era: Era,
    capabilities: Capabilities,
    reply: Mutex<Reply>,
    questions: Mutex<Questions>,
    asked: Notify,
}

/// The way back to the client. It changes when a parked call continues.
struct Reply {
    link: Arc<dyn ClientLink>,
    progress_token: Option<Json>,
    level: Option<Level>,
}

#[derive(Default)]
struct Questions {
    open: Vec<Question>,
    count: u64,
    /// Answers that came with the request, by key. Each is used once.
    expected: Option<Json>,
    used: Vec<String>,
    /// Whether the call has ended, so that it takes no more questions.
    ended: bool,
}

impl Questions {
    /// Returns the answer that came with the request, if the server has not asked before.
    fn take_expected(&mut self, key: &str) -> Option<Json> {
        let answer = self.expected.as_ref()?.get(key).filter(Json::is_object)?;
        if self.used.iter().any(|used| used == key) {
            return None;
        }
        self.used.push(key.to_owned());
        Some(answer)
    }

    /// Returns the key that the server chose, or another if there is none or it is taken.
    fn free_key(&mut self, wanted: Option<String>) -> String {
        let is_taken = |open: &[Question], key: &str| open.iter().any(|it| it.key == key);
        let mut key = wanted.filter(|key| !is_taken(&self.open, key));
        loop {
            if let Some(key) = key {
                return key;
            }
            self.count += 1;
            key = Some(format!("q{}", self.count)).filter(|key| !is_taken(&self.open, key));
        }
    }
}

/// A question of a server, for the client of a call.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) params: Option<Json>,
    /// The key that the server chose, if it is modern.
    pub(crate) key: Option<String>,
}

/// The reason that a question has no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The call has ended, but another of the client may take the question.
    CallEnded,
    /// The client did not answer.
    Failed(String),
}

/// A question for a modern client, which answers by repeating its request.
struct Question {
    key: String,
    method: &'static str,
    params: Option<Json>,
    answer: oneshot::Sender<Json>,
}

impl OpenCall {
    pub(crate) fn new(server: &str, caller: &Caller, link: Arc<dyn ClientLink>) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            era: caller.era,
            capabilities: caller.capabilities,
            reply: Mutex::new(Reply {
                link,
                progress_token: caller.progress_token.clone(),
                level: caller.level,
            }),
            questions: Mutex::new(Questions {
                expected: caller.inputs.clone(),
                ..Questions::default()
            }),
            asked: Notify::new(),
        })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn era(&self) -> Era {
        self.era
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    pub(crate) fn level(&self) -> Option<Level> {
        self.reply().level
    }

    /// Sends a notification that belongs to the request.
    pub(crate) fn notify(&self, method: &'static str, params: Option<Json>) {
        let link = Arc::clone(&self.reply().link);
        link.notify(method, params);
    }

    /// Reports progress, if the client wants it.
    pub(crate) fn progress(&self, progress: &Progress) {
        let (link, token) = {
            let reply = self.reply();
            let Some(token) = reply.progress_token.clone() else {
                return;
            };
            (Arc::clone(&reply.link), token)
        };
        link.notify(
            "notifications/progress",
            Some(progress_params(&token, progress)),
        );
    }

    pub(crate) fn wants_progress(&self) -> bool {
        self.reply().progress_token.is_some()
    }

    /// Asks the client, by a request (legacy) or with the result of its own (modern).
    pub(crate) async fn ask(&self, question: Ask) -> Result<Json, AskError> {
        let Ask {
            method,
            params,
            key,
        } = question;
        if self.era == Era::Legacy {
            let link = Arc::clone(&self.reply().link);
            let params = params.unwrap_or_else(Json::empty_object);
            let asked = link.request(method, params).await;
            return asked.map_err(|error| AskError::Failed(error.to_string()));
        }
        let (answer, answered) = oneshot::channel();
        {
            let mut questions = self.questions();
            if questions.ended {
                return Err(AskError::CallEnded);
            }
            if let Some(answer) = key.as_ref().and_then(|key| questions.take_expected(key)) {
                return Ok(answer);
            }
            let key = questions.free_key(key);
            questions.open.push(Question {
                key,
                method,
                params,
                answer,
            });
        }
        self.asked.notify_one();
        answered.await.map_err(|_| AskError::CallEnded)
    }

    /// Ends the call: its questions go elsewhere.
    pub(crate) fn end(&self) {
        let mut questions = self.questions();
        questions.ended = true;
        questions.open.clear();
    }

    /// Waits until a server asks a modern client.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The open questions as `inputRequests`. `None` if there are none.
    pub(crate) fn input_requests(&self) -> Option<Json> {
        let mut questions = self.questions();
        // The server may have withdrawn some.
        questions
            .open
            .retain(|question| !question.answer.is_closed());
        if questions.open.is_empty() {
            return None;
        }
        let mut requests = ObjectWriter::new();
        for question in &questions.open {
            requests.object(&question.key, |request| {
                request.string("method", question.method);
                if let Some(params) = &question.params {
                    request.raw("params", params);
                }
            });
        }
        Some(requests.finish())
    }

    /// Gives the client's answers to those who asked. Unknown keys are ignored; questions without
    /// an answer stay open.
    pub(crate) fn answer(&self, responses: Option<&Json>) {
        let mut questions = self.questions();
        let open = std::mem::take(&mut questions.open);
        for question in open {
            let response = responses.and_then(|responses| responses.get(&question.key));
            match response {
                Some(response) => drop(question.answer.send(response)),
                None => questions.open.push(question),
            }
        }
        if !questions.open.is_empty() {
            self.asked.notify_one();
        }
    }

    /// Continues under another request of the client.
    pub(crate) fn continue_with(&self, caller: &Caller, link: Arc<dyn ClientLink>) {
        *self.reply() = Reply {
            link,
            progress_token: caller.progress_token.clone(),
            level: caller.level,
        };
    }

    fn reply(&self) -> MutexGuard<'_, Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The params of `notifications/progress`, with the client's token.
fn progress_params(token: &Json, progress: &Progress) -> Json {
    let mut params = ObjectWriter::new();
    params.raw("progressToken", token);
    params.value("progress", &number(progress.progress));
    if let Some(total) = progress.total {
        params.value("total", &number(total));
    }
    if let Some(message) = &progress.message {
        params.string("message", message);
    }
    params.finish()
}

/// A number as most servers write it: without a fraction where there is none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked: the value is an integer within the range"
)]
fn number(value: f64) -> serde_json::Value {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
        (value as i64).into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_keeps_its_key_unless_it_is_taken() {
        let mut questions = Questions::default();
        let mut ask = |wanted: Option<&str>| {
            let key = questions.free_key(wanted.map(str::to_owned));
            questions.open.push(Question {
                key: key.clone(),
                method: "roots/list",
                params: None,
                answer: oneshot::channel().0,
            });
            key
        };
        assert_eq!(ask(Some("name")), "name");
        assert_eq!(ask(Some("q1")), "q1");
        assert_eq!(ask(None), "q2");
        assert_eq!(ask(Some("name")), "q3");
    }

    #[test]
    fn an_answer_that_came_with_the_request_is_used_once() {
        let mut questions = Questions {
            expected: Json::parse(r#"{"name":{"action":"accept"},"bad":1}"#).ok(),
            ..Questions::default()
        };
        let answer = questions.take_expected("name").unwrap();
        assert_eq!(answer.as_str(), r#"{"action":"accept"}"#);
        for key in ["name", "bad", "other"] {
            assert!(questions.take_expected(key).is_none(), "{key}");
        }
    }

    #[test]
    fn progress_keeps_the_clients_token_and_plain_numbers() {
        let params = |progress, total: Option<f64>, message: Option<&str>| {
            let token = Json::parse(r#""t\u0041""#).unwrap();
            let message = message.map(str::to_owned);
            let progress = Progress {
                progress,
                total,
                message,
            };
            progress_params(&token, &progress).to_string()
        };
        assert_eq!(
            params(1.0, Some(10.0), Some("a")),
            r#"{"progressToken":"t\u0041","progress":1,"total":10,"message":"a"}"#
        );
        assert_eq!(
            params(0.5, None, None),
            r#"{"progressToken":"t\u0041","progress":0.5}"#
        );
    }
}
