//! Answers the elicitations of servers: from the command line (`--elicit`, `--elicit-defaults`), or
//! with dialogs on the terminal (ELI-1, UI-3). Where neither is possible, it cancels and says how
//! to answer.

mod dialog;
mod flags;
pub(crate) mod form;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Mutex;
use trunkline::elicit::{Ask, Elicit, ElicitAnswer, Elicitation, Form};
use trunkline::tool::tool_name;

use crate::interrupt;
use crate::output::{self, StopOnDrop, Stopped};
use crate::standing::quoted;
pub(crate) use flags::ElicitFlags;
use flags::FlagAnswer;

/// The most fields that a hint lists.
const MAX_LISTED: usize = 5;

/// The longest beginning of a prompt that names the tool too, in characters.
const MAX_SUBJECT: usize = 28;

/// Answers elicitations for one command.
#[derive(Clone, Debug, Default)]
pub(crate) struct TerminalElicit {
    flags: Arc<ElicitFlags>,
    /// Held by the open dialog: others wait for their turn (ELI-5).
    turn: Arc<Mutex<()>>,
}

impl TerminalElicit {
    pub(crate) fn new(flags: Arc<ElicitFlags>) -> Self {
        Self {
            flags,
            turn: Arc::default(),
        }
    }

    async fn answer(self, elicitation: Elicitation) -> ElicitAnswer {
        let values = match &elicitation.ask {
            Ask::Form(form) => match self.flags.answer(form) {
                FlagAnswer::Complete(values) => return ElicitAnswer::Accept(values),
                FlagAnswer::Incomplete { values, problems } => {
                    if self.cannot_ask() {
                        report_unanswered(&elicitation, Some((form, &problems)));
                        return ElicitAnswer::Cancel;
                    }
                    values
                }
            },
            _ => serde_json::Map::new(),
        };
        if self.cannot_ask() {
            report_unanswered(&elicitation, None);
            return ElicitAnswer::Cancel;
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let stop = StopOnDrop::default();
        let signal = stop.signal();
        let asking = tokio::task::spawn_blocking(move || {
            // Released when the terminal is free again, even if nobody waits for the answer.
            let _turn = turn;
            dialog::run(&elicitation, values, signal)
        });
        match asking.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Stopped::Interrupted)) => {
                // The call ends with the program.
                interrupt::raise();
                std::future::pending().await
            }
            Ok(Err(Stopped::Withdrawn | Stopped::Lost)) | Err(_) => ElicitAnswer::Cancel,
        }
    }

    fn cannot_ask(&self) -> bool {
        self.flags.no_input || !output::can_prompt()
    }
}

impl Elicit for TerminalElicit {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        Box::pin(self.clone().answer(elicitation))
    }
}

/// Returns the server and the tool of an elicitation.
fn asker(elicitation: &Elicitation) -> String {
    let server = output::name(&elicitation.server);
    let Some(call) = &elicitation.call else {
        return server;
    };
    let prefix = tool_name(&elicitation.server, "");
    let tool = output::name(call.strip_prefix(&prefix).unwrap_or(call));
    format!("{server}/{tool}")
}

/// Returns who asks, for every prompt: the server and the tool, or the server alone where both are
/// long. The first line of a dialog has both.
fn subject(elicitation: &Elicitation) -> String {
    let asker = asker(elicitation);
    if asker.chars().count() <= MAX_SUBJECT {
        asker
    } else {
        output::name(&elicitation.server)
    }
}

/// Reports a question that nobody could answer, and how to answer it.
fn report_unanswered(elicitation: &Elicitation, form: Option<(&Form, &[String])>) {
    let asker = asker(elicitation);
    let message = &elicitation.message;
    let page = match &elicitation.ask {
        Ask::Url(url) => format!(" ({url})"),
        _ => String::new(),
    };
    let why = match form {
        Some((_, problems)) if !problems.is_empty() => problems.join("; "),
        _ => "there is nobody to ask".to_owned(),
    };
    output::warning(&format!(
        "{asker} asks \"{message}\"{page}; cancelled: {why}"
    ));
    let hint = match form {
        None => "run it on a terminal, without --no-input and --json, to open the page".to_owned(),
        Some((form, _)) if form.fields.is_empty() => {
            "run it on a terminal, or accept with --elicit-defaults".to_owned()
        }
        Some((form, _)) => {
            let mut flags: Vec<String> = Vec::new();
            let mut titles: Vec<String> = Vec::new();
            for field in form.fields.iter().take(MAX_LISTED) {
                flags.push(format!("--elicit {}=VALUE", quoted(&field.name)));
                if field.label() != field.name {
                    let title = output::inline(field.label());
                    titles.push(format!("{} is \"{title}\"", output::name(&field.name)));
                }
            }
            if form.fields.len() > MAX_LISTED {
                flags.push(output::ellipsis().to_owned());
            }
            let titles = if titles.is_empty() {
                String::new()
            } else {
                format!(" ({})", titles.join(", "))
            };
            format!(
                "run it on a terminal, or answer with {}{titles}, or --elicit-defaults",
                flags.join(" ")
            )
        }
    };
    output::hint(&hint);
}
