//! Carries out the choices of dialogs.

use super::Model;
use super::dialog::{self, Choice, Kind};
use crate::ui::doc::Tone;
use crate::ui::msg::Effect;

/// Carries out the choice of a dialog.
pub(in crate::ui) fn choose(model: &mut Model, choice: Choice) -> Vec<Effect> {
    if model.dialog.is_none() {
        return answer_question(model, choice);
    }
    let Some(mut dialog) = model.dialog.take() else {
        return Vec::new();
    };
    let (now, task) = (model.now, model.task());
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
            let effect = Effect::Copy(url.clone());
            model.dialog = Some(dialog);
            model.now = now;
            model.notify("copied the URL", Tone::Dim);
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
    let page = match &question.kind {
        Kind::Page {
            url, repeats_call, ..
        } => Some((url.clone(), *repeats_call)),
        _ => None,
    };
    if let (Choice::CopyUrl, Some((url, _))) = (choice, &page) {
        let effect = Effect::Copy(url.clone());
        model.notify("copied the URL", Tone::Dim);
        return vec![effect];
    }
    let mut effects = Vec::new();
    let mut choice = choice;
    if let (Choice::OpenPage, Some((url, repeats_call))) = (choice, page) {
        effects.push(Effect::OpenUrl(task, url));
        if repeats_call {
            question.wait_for_visit();
            return effects;
        }
        // The server itself waits until the user has finished.
        choice = Choice::Finished;
    }
    let Some(answer) = dialog::answer(question, choice) else {
        return effects;
    };
    model.questions.pop_front();
    effects.push(Effect::Answer(id, answer));
    effects
}
