//! Carries out the choices of dialogs.

use super::Model;
use super::dialog::{self, Choice, Kind};
use crate::ui::msg::Effect;

/// Carries out the choice of a dialog.
pub(in crate::ui) fn choose(model: &mut Model, choice: Choice) -> Vec<Effect> {
    if model.dialog.is_none() {
        return answer_question(model, choice);
    }
    let Some(mut dialog) = model.dialog.take() else {
        return Vec::new();
    };
    let task = model.task();
    match (&mut dialog.kind, choice) {
        (Kind::Approval { entry }, Choice::Approve) => {
            vec![Effect::Approve(task, entry.clone())]
        }
        (Kind::Approval { entry }, Choice::Reject) => vec![Effect::Reject(task, entry.clone())],
        (Kind::Confirm { effect }, Choice::Confirm) => effect.take().into_iter().collect(),
        (Kind::Login { url: Some(url), .. }, Choice::OpenLogin) => {
            let effect = Effect::OpenUrl(task, url.clone());
            model.dialog = Some(dialog);
            vec![effect]
        }
        (Kind::Login { url: Some(url), .. }, Choice::CopyUrl) => {
            let effect = copy_url(task, url);
            model.dialog = Some(dialog);
            vec![effect]
        }
        (Kind::Login { task, .. }, _) => vec![Effect::CancelLogin(*task)],
        _ => Vec::new(),
    }
}

pub(super) fn answer_question(model: &mut Model, choice: Choice) -> Vec<Effect> {
    let task = model.task();
    let Some(question) = model.questions.front_mut() else {
        return Vec::new();
    };
    let Some(id) = question.question_id() else {
        return Vec::new();
    };
    let can_open = question.buttons.contains(&Choice::OpenPage);
    match (choice, &mut question.kind) {
        (Choice::CopyUrl, Kind::Page { url, .. }) => {
            let url = url.clone();
            // The user may visit the page in a browser elsewhere.
            if can_open {
                question.wait_for_visit();
            }
            return vec![copy_url(task, &url)];
        }
        // The page is opened once; `page_opened` goes on.
        (Choice::OpenPage, Kind::Page { url, opening, .. }) => {
            if opening.is_some() {
                return Vec::new();
            }
            *opening = Some(task);
            return vec![Effect::OpenUrl(task, url.clone())];
        }
        _ => {}
    }
    let Some(answer) = dialog::answer(question, choice) else {
        return Vec::new();
    };
    model.questions.pop_front();
    vec![Effect::Answer(id, answer)]
}

/// Goes on with a question whose page was opened, or could not be: a page that nobody has seen is
/// not accepted.
pub(super) fn page_opened(model: &mut Model, task: u64, has_opened: bool) -> Vec<Effect> {
    let mut questions = model.questions.iter_mut().enumerate();
    let Some((at, question)) = questions.find(|(_, question)| question.is_opened_by(task)) else {
        return Vec::new();
    };
    let Kind::Page {
        id,
        repeats_call,
        opening,
        ..
    } = &mut question.kind
    else {
        return Vec::new();
    };
    *opening = None;
    let (id, repeats_call) = (*id, *repeats_call);
    if !has_opened {
        return Vec::new();
    }
    if repeats_call {
        question.wait_for_visit();
        return Vec::new();
    }
    // The server itself waits until the user has finished.
    let Some(answer) = dialog::answer(question, Choice::Finished) else {
        return Vec::new();
    };
    model.questions.remove(at);
    vec![Effect::Answer(id, answer)]
}

fn copy_url(task: u64, url: &str) -> Effect {
    Effect::Copy {
        task,
        text: trunkline::text::harmless(url).into_owned(),
        notice: "copied the URL".to_owned(),
    }
}
