//! Asks the user on behalf of servers and of the permission rules: each question becomes a dialog.
//! A question that nobody waits for any more withdraws its dialog (ELI-5).

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use trunkline::elicit::{self, Elicit, ElicitAnswer, Elicitation};
use trunkline::permission::{AskReason, AskedTool, PermissionAnswer, PermissionQuestion, Permit};

use super::doc::{DocLine, Tone};
use super::msg::{Answer, Ask, Msg, Question};
use super::rendering;
use super::text;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// Turns questions into messages, and answers into results. Clones share the questions.
#[derive(Clone)]
pub(super) struct Asker {
    inbox: mpsc::UnboundedSender<Msg>,
    waiting: Waiting,
    next: Arc<AtomicU64>,
}

/// Withdraws a question when its future is dropped.
struct Withdraw {
    id: u64,
    asker: Asker,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let open = self.asker.lock().remove(&self.id);
        if open.is_some() {
            let _ = self.asker.inbox.send(Msg::Withdrawn(self.id));
        }
    }
}

impl Asker {
    pub(super) fn new(inbox: mpsc::UnboundedSender<Msg>) -> Self {
        Self {
            inbox,
            waiting: Waiting::default(),
            next: Arc::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers the user's answer.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        if let Some(waiting) = self.lock().remove(&id) {
            let _ = waiting.send(answer);
        }
    }

    async fn ask(
        self,
        server: String,
        call: Option<String>,
        client: Option<String>,
        ask: Ask,
    ) -> Option<Answer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(id, sender);
        let question = Question {
            id,
            server,
            call,
            client,
            ask,
        };
        let _withdraw = Withdraw {
            id,
            asker: self.clone(),
        };
        self.inbox.send(Msg::Question(Box::new(question))).ok()?;
        receiver.await.ok()
    }
}

impl Elicit for Asker {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let asker = self.clone();
        Box::pin(async move {
            let Elicitation {
                server,
                call,
                client,
                message,
                ask,
                repeats_call,
                ..
            } = elicitation;
            let ask = match ask {
                elicit::Ask::Form(form) => Ask::Form { message, form },
                elicit::Ask::Url(url) => Ask::Url {
                    message,
                    url,
                    repeats_call,
                },
                _ => return ElicitAnswer::Cancel,
            };
            let client = client.map(|client| client.to_string());
            match asker.ask(server.to_string(), call, client, ask).await {
                Some(Answer::Elicit(answer)) => answer,
                _ => ElicitAnswer::Cancel,
            }
        })
    }
}

impl Permit for Asker {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        // Without a rule, the call that the user has just made needs no second confirmation.
        if matches!(question.reason, AskReason::NoRule) {
            return Box::pin(std::future::ready(PermissionAnswer::Once));
        }
        let asker = self.clone();
        Box::pin(async move {
            let server = match &question.tool {
                AskedTool::Server(tool) => tool.server.to_string(),
                _ => "trunkline".to_owned(),
            };
            let always = question.always_rule();
            let ask = Ask::Permission {
                reason: reason(&question),
                always,
            };
            let call = Some(question.tool.name().to_owned());
            match asker.ask(server, call, None, ask).await {
                Some(Answer::Permission(answer)) => answer,
                _ => PermissionAnswer::No("nobody answered".to_owned()),
            }
        })
    }
}

/// Explains why the user is asked, with the arguments of the call.
fn reason(question: &PermissionQuestion) -> Vec<DocLine> {
    let mut lines = vec![
        match &question.reason {
            AskReason::Destructive(rule) => DocLine::own(format!(
                "The tool may destroy data, and the rule {} does not name it.",
                text::line(rule)
            )),
            AskReason::Rule(rule) => DocLine::own(format!(
                "The rule {} asks before each call.",
                text::line(rule)
            )),
            AskReason::Hook(reason) => DocLine::own(format!("A hook asks: {}", text::line(reason))),
            AskReason::Policy { rule, reason } => DocLine::own(format!(
                "Your organisation requires approval: {} ({}).",
                text::line(reason),
                text::line(&rule.text)
            )),
            AskReason::Changed(change) => DocLine::own(text::line(&change.to_string())),
            _ => DocLine::own("The tool needs your permission."),
        }
        .tone(Tone::Warn),
    ];
    if let AskReason::Changed(change) = &question.reason {
        lines.extend(rendering::diff(&change.diff()));
    }
    lines.push(DocLine::own(""));
    lines.push(DocLine::heading("Arguments"));
    let arguments = question.arguments.to_value().unwrap_or_default();
    let arguments = serde_json::to_string_pretty(&arguments).unwrap_or_default();
    lines.extend(DocLine::foreign(&arguments));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_is_answered_or_withdrawn() {
        let (sender, mut inbox) = mpsc::unbounded_channel();
        let asker = Asker::new(sender);
        let ask = |asker: &Asker| {
            let form = elicit::Form::default();
            let message = "?".to_owned();
            asker
                .clone()
                .ask("s".to_owned(), None, None, Ask::Form { message, form })
        };
        let answered = tokio::spawn(ask(&asker));
        let Some(Msg::Question(question)) = inbox.recv().await else {
            panic!("no question");
        };
        asker.answer(question.id, Answer::Elicit(ElicitAnswer::Decline));
        let answer = answered.await.unwrap();
        assert!(matches!(
            answer,
            Some(Answer::Elicit(ElicitAnswer::Decline))
        ));
        assert!(inbox.is_empty(), "an answered question is not withdrawn");

        let dropped = tokio::spawn(ask(&asker));
        let Some(Msg::Question(question)) = inbox.recv().await else {
            panic!("no question");
        };
        dropped.abort();
        let Some(Msg::Withdrawn(id)) = inbox.recv().await else {
            panic!("not withdrawn");
        };
        assert_eq!(id, question.id);
    }
}
