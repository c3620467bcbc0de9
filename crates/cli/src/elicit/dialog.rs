//! The dialogs for an elicitation: a form with a review, or a page to open (ELI-2, ELI-3).

use serde_json::{Map, Value};
use trunkline::auth::BrowserUrl;
use trunkline::elicit::{Ask, ElicitAnswer, Elicitation, Form};
use url::Url;

use super::form::{Asked, FormDialog};
use super::subject;
use crate::browser;
use crate::output::{self, Dialog, Lines, StopSignal, Stopped};

/// Asks the user. Blocks the thread.
pub(super) fn run(
    elicitation: &Elicitation,
    values: Map<String, Value>,
    stop: StopSignal,
) -> Result<ElicitAnswer, Stopped> {
    let subject = subject(elicitation);
    let mut dialog = Dialog::open(stop)?;
    let mut lines = Lines::new();
    let server = output::name(&elicitation.server);
    lines.push(match &elicitation.call {
        Some(call) => format!("{server} asks, during {}:", output::name(call)),
        None => format!("{server} asks:"),
    });
    lines.push_block("  ", &elicitation.message);
    dialog.say(&lines)?;
    let answer = match &elicitation.ask {
        Ask::Form(form) => ask_form(&mut dialog, &subject, form, values),
        Ask::Url(url) => ask_page(&mut dialog, &subject, url, elicitation.repeats_call),
        _ => Ok(ElicitAnswer::Pass),
    };
    if answer.as_ref().is_err_and(|why| *why == Stopped::Withdrawn) {
        let note = format!("{subject}: the question is settled or was withdrawn");
        dialog.say(&Lines::one(note))?;
    }
    answer
}

fn ask_form(
    dialog: &mut Dialog,
    subject: &str,
    form: &Form,
    values: Map<String, Value>,
) -> Result<ElicitAnswer, Stopped> {
    let mut filled = FormDialog {
        dialog,
        subject,
        form,
        values,
    };
    filled.fill(Asked::All)?;
    loop {
        let review = filled.review();
        filled.dialog.say(&review)?;
        let is_valid = form.check(&filled.values).is_ok();
        let send = if is_valid { "Send" } else { "Continue" };
        let mut choices = vec![send, "Edit", "Decline", "Cancel"];
        if form.fields.is_empty() {
            choices.remove(1);
        }
        let options: Vec<String> = choices.iter().map(|&choice| choice.to_owned()).collect();
        let label = format!("{subject} send these values");
        let chosen = filled.dialog.select(&label, &options, 0)?;
        match chosen.map(|at| choices[at]) {
            Some("Send") => return Ok(ElicitAnswer::Accept(filled.values)),
            Some("Continue") => _ = filled.fill(Asked::Required)?,
            Some("Edit") => filled.edit()?,
            Some("Decline") => return Ok(ElicitAnswer::Decline),
            _ => return Ok(ElicitAnswer::Cancel),
        }
    }
}

fn ask_page(
    dialog: &mut Dialog,
    subject: &str,
    text: &str,
    waits: bool,
) -> Result<ElicitAnswer, Stopped> {
    let Some((url, browser_url)) = page(text) else {
        let mut lines = Lines::one(format!("{subject} names a page that cannot be opened:"));
        lines.push_block("  ", text);
        dialog.say(&lines)?;
        return Ok(ElicitAnswer::Cancel);
    };
    let mut lines = Lines::new();
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    lines.push_whole(format!("  host: {host}{port}"));
    if url.scheme() == "http" {
        lines.push("  the connection to it is not encrypted");
    }
    lines.push_whole(format!("  page: {browser_url}"));
    dialog.say(&lines)?;
    let label = format!("{subject} open {host}");
    let open = [
        "Open in the browser",
        "I opened it myself",
        "Decline",
        "Cancel",
    ];
    // The default is harmless.
    let start = open.len() - 1;
    loop {
        match dialog.select(&label, &open.map(str::to_owned), start)? {
            Some(0) => {
                if let Err(error) = browser::open(&browser_url) {
                    let problem = format!("the browser could not be opened: {error}");
                    dialog.say(&Lines::one(problem))?;
                    continue;
                }
                break;
            }
            Some(1) => break,
            Some(2) => return Ok(ElicitAnswer::Decline),
            _ => return Ok(ElicitAnswer::Cancel),
        }
    }
    if !waits {
        // The server waits for the user itself.
        return Ok(ElicitAnswer::Accept(Map::new()));
    }
    let label = format!("{subject} waiting for you to finish at {host}");
    let wait = [
        "I have finished, repeat the call",
        "Open it again",
        "Dismiss",
    ];
    loop {
        // The server may report first that the user has finished, which stops the dialog.
        match dialog.select(&label, &wait.map(str::to_owned), 0)? {
            Some(0) => return Ok(ElicitAnswer::Accept(Map::new())),
            Some(1) => {
                if let Err(error) = browser::open(&browser_url) {
                    let problem = format!("the browser could not be opened: {error}");
                    dialog.say(&Lines::one(problem))?;
                }
            }
            _ => return Ok(ElicitAnswer::Cancel),
        }
    }
}

/// Returns a page that a browser may open.
fn page(text: &str) -> Option<(Url, BrowserUrl)> {
    let url = Url::parse(text).ok()?;
    let browser_url = BrowserUrl::new(&url).ok()?;
    Some((url, browser_url))
}
