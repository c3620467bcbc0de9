//! Applies a message to the model.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::actions::perform;
use super::calls::CallState;
use super::choices::{choose, page_opened};
use super::dialog::{Dialog, Kind, Pressed, QUIET};
use super::form::{edit, insert};
use super::{Model, Overlay, Screen, navigate};
use crate::ui::data::Snapshot;
use crate::ui::doc::{Doc, Tone};
use crate::ui::input::{self, Action, Context};
use crate::ui::msg::{CallOutcome, Effect, Msg};
use crate::ui::text;

/// The rows of one turn of the wheel.
const WHEEL: usize = 3;

/// Applies a message that arrived at `now`.
pub(in crate::ui) fn update(model: &mut Model, now: Instant, msg: Msg) -> Vec<Effect> {
    model.now = now;
    if model
        .notice
        .as_ref()
        .is_some_and(|notice| notice.until <= now)
    {
        model.notice = None;
    }
    let effects = match msg {
        Msg::Key(event) if event.kind == KeyEventKind::Release => Vec::new(),
        Msg::Key(event) => {
            // A key dismisses it.
            model.notice = None;
            key(model, &event)
        }
        Msg::Paste(text) => paste(model, &text),
        Msg::Mouse(event) => mouse(model, event),
        other => learn(model, other),
    };
    if model.questions.is_empty() {
        model.later = false;
    }
    arm(model);
    effects
}

/// Takes what the host, an effect or the terminal reports.
fn learn(model: &mut Model, msg: Msg) -> Vec<Effect> {
    match msg {
        Msg::Resize(width, height) => {
            model.size = (width, height);
            Vec::new()
        }
        Msg::Snapshot(snapshot) => {
            take_snapshot(model, *snapshot);
            Vec::new()
        }
        Msg::Detail(detail) => {
            match &mut model.detail {
                Some((key, doc)) if *key == detail.key => doc.replace(detail.lines),
                shown => *shown = Some((detail.key, Doc::new(detail.lines))),
            }
            Vec::new()
        }
        Msg::Messages(messages, lost) => {
            model.messages.lost += lost;
            for message in messages {
                model.messages.push(message);
            }
            Vec::new()
        }
        Msg::Logs(lines) => {
            for line in lines {
                model.logs.push(line);
            }
            Vec::new()
        }
        Msg::LogHistory(server, lines) => {
            if let Some(Screen::Detail(detail)) = model.screens.last_mut()
                && *detail.key.0 == *server
            {
                detail.log.history = Some(model.logs.older(&server, lines));
            }
            Vec::new()
        }
        Msg::Question(question) => {
            model.questions.push_back(Dialog::question(*question));
            Vec::new()
        }
        Msg::Withdrawn(id) => {
            let before = model.questions.len();
            let other = |dialog: &Dialog| dialog.question_id() != Some(id);
            model.questions.retain(other);
            if model.questions.len() < before {
                model.notify("the question was withdrawn", Tone::Dim);
            }
            Vec::new()
        }
        Msg::Scripts(server, changes) => {
            if let Some(dialog) = &mut model.dialog {
                dialog.set_scripts(&server, &changes);
            }
            Vec::new()
        }
        Msg::Progress(id, progress) => {
            if let Some(call) = model.calls.running(id) {
                call.state = CallState::Running(Some(progress));
            }
            Vec::new()
        }
        Msg::CallDone(id, outcome) => {
            call_done(model, id, outcome);
            Vec::new()
        }
        Msg::LoginUrl(task, url) => {
            if let Some(dialog) = login(model, task) {
                dialog.set_login_url(url);
                Vec::new()
            } else {
                vec![Effect::CancelLogin(task)]
            }
        }
        Msg::LoginCode(task, code, url) => {
            if let Some(dialog) = login(model, task) {
                dialog.set_login_code(&code, url);
                Vec::new()
            } else {
                vec![Effect::CancelLogin(task)]
            }
        }
        Msg::LoginDone(task, outcome) => {
            if login(model, task).is_some() {
                model.dialog = None;
                report(model, outcome);
            }
            Vec::new()
        }
        Msg::ActionDone(task, outcome) => {
            let effects = page_opened(model, task, outcome.is_ok());
            // The outcome of an earlier action would replace that of a later one.
            if task >= model.reported {
                model.reported = task;
                report(model, outcome);
            }
            effects
        }
        Msg::Key(_) | Msg::Paste(_) | Msg::Mouse(_) | Msg::Tick => Vec::new(),
    }
}

/// Makes a question that has come to the front wait until the user has stopped typing.
fn arm(model: &mut Model) {
    let now = model.now;
    if model.dialog.is_none()
        && !model.later
        && let Some(question) = model.questions.front_mut()
    {
        question.armed_at.get_or_insert(now + QUIET);
    }
}

fn report(model: &mut Model, outcome: Result<String, String>) {
    match outcome {
        Ok(done) => model.notify(done, Tone::Good),
        Err(problem) => model.notify(problem, Tone::Bad),
    }
}

/// Returns the dialog of a sign-in, unless it was closed.
fn login(model: &mut Model, wanted: u64) -> Option<&mut Dialog> {
    let is_it =
        |dialog: &&mut Dialog| matches!(dialog.kind, Kind::Login { task, .. } if task == wanted);
    model.dialog.as_mut().filter(is_it)
}

fn call_done(model: &mut Model, id: u64, outcome: CallOutcome) {
    let now = model.now;
    let on_screen = matches!(model.screens.last(), Some(Screen::Call(shown)) if *shown == id);
    let Some(call) = model.calls.running(id) else {
        return;
    };
    let took = now.saturating_duration_since(call.started);
    let CallOutcome {
        is_error,
        cancelled,
        lines,
    } = outcome;
    call.state = if cancelled {
        CallState::Cancelled { took }
    } else {
        CallState::Done { is_error, took }
    };
    call.result = Doc::new(lines);
    if !on_screen {
        let what = text::line(call.request.subject.name());
        let how = match (cancelled, is_error) {
            (true, _) => "was cancelled",
            (false, true) => "failed",
            (false, false) => "is done",
        };
        let tone = if is_error { Tone::Bad } else { Tone::Good };
        model.notify(format!("{what} {how}: H shows it"), tone);
    }
}

/// Takes new facts about the servers and keeps the selection.
fn take_snapshot(model: &mut Model, snapshot: Snapshot) {
    model.loaded = true;
    model.snapshot = snapshot;
    let servers = &model.snapshot.servers;
    let at = model
        .selected
        .as_ref()
        .and_then(|key| model.snapshot.position(key));
    model.list.at = at.unwrap_or(model.list.at.min(servers.len().saturating_sub(1)));
    model.selected = servers.get(model.list.at).map(|server| server.key.clone());
    // A server that has vanished has no screen, except as one of another scope.
    for screen in &mut model.screens {
        if let Screen::Detail(detail) = screen
            && model.snapshot.get(&detail.key).is_none()
            && let Some(server) = model.snapshot.named(&detail.key.0)
        {
            detail.key = server.key.clone();
        }
    }
}

fn key(model: &mut Model, event: &KeyEvent) -> Vec<Effect> {
    let context = model.context();
    // Nothing is answered that cannot be seen.
    if model.is_too_small() {
        let quits = matches!(event.code, KeyCode::Esc | KeyCode::Char('q'));
        let action = input::action(Context::Dialog, event);
        return match action {
            Some(action) => perform(model, action),
            None if quits => perform(model, Action::Quit),
            None => Vec::new(),
        };
    }
    match context {
        Context::Dialog => dialog_key(model, event),
        Context::Find => find_key(model, event),
        Context::Filter => filter_key(model, event),
        Context::Form => form_key(model, event),
        context => match input::action(context, event) {
            Some(action) => perform(model, action),
            None => Vec::new(),
        },
    }
}

fn dialog_key(model: &mut Model, event: &KeyEvent) -> Vec<Effect> {
    if let Some(action) = input::action(Context::Dialog, event) {
        return perform(model, action);
    }
    let now = model.now;
    let is_question = model.dialog.is_none();
    let front = match &mut model.dialog {
        Some(dialog) => Some(dialog),
        None => model.questions.front_mut(),
    };
    let Some(front) = front else {
        return Vec::new();
    };
    if is_question && event.code == KeyCode::F(2) && front.is_armed(now) {
        model.later = true;
        model.notify("put off: ! shows the questions again", Tone::Dim);
        return Vec::new();
    }
    match front.key(event, now) {
        Pressed::Nothing => Vec::new(),
        Pressed::Chosen(choice) => choose(model, choice),
    }
}

fn find_key(model: &mut Model, event: &KeyEvent) -> Vec<Effect> {
    if let Some(action) = input::action(Context::Find, event) {
        return perform(model, action);
    }
    match &mut model.overlay {
        Some(Overlay::Find(find)) => find.key(event),
        Some(Overlay::Palette(find)) => find.key(event),
        _ => {}
    }
    Vec::new()
}

fn filter_key(model: &mut Model, event: &KeyEvent) -> Vec<Effect> {
    if let Some(Screen::Detail(detail)) = model.screens.last_mut() {
        let view = &mut detail.protocol;
        match event.code {
            KeyCode::Esc => {
                view.filter.reset();
                view.filtering = false;
                return Vec::new();
            }
            KeyCode::Enter => {
                view.filtering = false;
                return Vec::new();
            }
            _ => {
                if edit(&mut view.filter, event) {
                    view.selected = None;
                    return Vec::new();
                }
            }
        }
    }
    match input::action(Context::Filter, event) {
        Some(action) => perform(model, action),
        None => Vec::new(),
    }
}

fn form_key(model: &mut Model, event: &KeyEvent) -> Vec<Effect> {
    let Some(Screen::Form(screen)) = model.screens.last_mut() else {
        return Vec::new();
    };
    let is_raw = screen.form.raw.is_some();
    match input::action(Context::Form, event) {
        Some(Action::NextField | Action::PreviousField) if is_raw => Vec::new(),
        Some(action) => perform(model, action),
        None if screen.form.key(event) => Vec::new(),
        None => {
            match event.code {
                KeyCode::Down | KeyCode::Enter => _ = screen.form.step(1),
                KeyCode::Up => _ = screen.form.step(-1),
                KeyCode::PageUp => screen.about.scroll(-screen.about.page()),
                KeyCode::PageDown => screen.about.scroll(screen.about.page()),
                _ => {}
            }
            Vec::new()
        }
    }
}

fn paste(model: &mut Model, text: &str) -> Vec<Effect> {
    let now = model.now;
    if model.front().is_some() {
        if let Some(Dialog {
            kind: Kind::Login { task, .. },
            ..
        }) = &model.dialog
        {
            return vec![Effect::FinishLogin(*task, text.trim().to_owned())];
        }
        if model.dialog.is_none()
            && let Some(question) = model.questions.front_mut()
        {
            if !question.is_armed(now) {
                question.armed_at = Some(now + QUIET);
            } else if let (None, Some(form)) = (question.button, &mut question.form) {
                form.paste(text);
            }
        }
        return Vec::new();
    }
    match (&mut model.overlay, model.screens.last_mut()) {
        (Some(Overlay::Find(find)), _) => {
            insert(&mut find.input, text);
            find.search();
        }
        (None, Some(Screen::Form(screen))) => screen.form.paste(text),
        (None, Some(Screen::Detail(detail))) if detail.protocol.filtering => {
            insert(&mut detail.protocol.filter, text);
        }
        _ => {}
    }
    Vec::new()
}

fn mouse(model: &mut Model, event: MouseEvent) -> Vec<Effect> {
    let action = match event.kind {
        MouseEventKind::ScrollUp => Action::Up,
        MouseEventKind::ScrollDown => Action::Down,
        MouseEventKind::Down(MouseButton::Left) => return click(model, event),
        _ => return Vec::new(),
    };
    if let Some(dialog) = model.front() {
        dialog.doc.scroll(if action == Action::Up { -1 } else { 1 });
        return Vec::new();
    }
    let mut effects = Vec::new();
    for _ in 0..WHEEL {
        effects.extend(perform(model, action));
    }
    effects
}

/// Chooses what is under the mouse; a second click opens it. Dialogs and layers take only keys.
fn click(model: &mut Model, event: MouseEvent) -> Vec<Effect> {
    if model.front().is_some() || model.overlay.is_some() {
        return Vec::new();
    }
    let at = Position::new(event.column, event.row);
    let found = model.hits.borrow().iter().find_map(|(area, hit)| {
        let is_inside = area.contains(at);
        is_inside.then_some(*hit)
    });
    match found {
        Some(hit) => navigate::choose_hit(model, hit),
        None => Vec::new(),
    }
}
