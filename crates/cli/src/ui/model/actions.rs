//! Performs what the user asks for.

use trunkline::config::ServerEntry;
use trunkline_config::Server as ConfiguredServer;

use super::calling::{call_form, cancel_call, edit_again, start};
use super::cursor::Cursor;
use super::dialog::Dialog;
use super::find::{self, Find};
use super::navigate::{back, open, open_palette, page, step, tab};
use super::sharing::{copy, save};
use super::{Model, Overlay, Screen, Tab};
use crate::output::name;
use crate::ui::command;
use crate::ui::data::{Server, Status};
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::help;
use crate::ui::input::{Action, Context};
use crate::ui::msg::Effect;
use crate::ui::text;

/// Performs an action, or says why it is not possible now.
pub(in crate::ui) fn perform(model: &mut Model, action: Action) -> Vec<Effect> {
    if let Err(reason) = availability(model, action) {
        model.notify(reason, Tone::Warn);
        return Vec::new();
    }
    match action {
        Action::Up => step(model, -1),
        Action::Down => step(model, 1),
        Action::PageUp => page(model, -1),
        Action::PageDown => page(model, 1),
        Action::Start => step(model, isize::MIN / 2),
        Action::End => step(model, isize::MAX / 2),
        Action::Open => return open(model),
        Action::Back => back(model),
        Action::Quit if model.context() == Context::Running => {
            return perform(model, Action::CancelCall);
        }
        Action::Quit => return vec![Effect::Quit],
        Action::Reconnect => return reconnect(model),
        Action::ReconnectFailed => return reconnect_failed(model),
        Action::Toggle => return toggle(model),
        Action::Login => return login(model),
        Action::Logout => logout(model),
        Action::Review => return review(model),
        Action::Copy => return copy(model),
        Action::Find => {
            let found = Find::new(find::items(&model.snapshot));
            model.overlay = Some(Overlay::Find(Box::new(found)));
        }
        Action::Palette => open_palette(model),
        Action::Help => model.overlay = Some(Overlay::Help(Doc::new(help::lines(model.context())))),
        Action::History => {
            if !matches!(model.screens.last(), Some(Screen::History(_))) {
                model.screens.push(Screen::History(Cursor::default()));
            }
        }
        Action::NextTab => return tab(model, |at| (at + 1) % Tab::ALL.len()),
        Action::PreviousTab => {
            return tab(model, |at| (at + Tab::ALL.len() - 1) % Tab::ALL.len());
        }
        Action::Tab(wanted) => return tab(model, |_| wanted),
        Action::Freeze => model.messages.toggle_frozen(),
        Action::Filter => {
            if let Some(Screen::Detail(detail)) = model.screens.last_mut() {
                detail.protocol.filtering = true;
            }
        }
        Action::Save => return save(model),
        Action::Call => return call_form(model),
        Action::CancelCall => return cancel_call(model),
        Action::Repeat => {
            if let Some(request) = model.call().map(|call| call.request.clone()) {
                return start(model, request);
            }
        }
        Action::EditAgain => edit_again(model),
        Action::Raw => {
            if let Some(Screen::Form(screen)) = model.screens.last_mut() {
                screen.form.toggle_raw();
            }
        }
        Action::NextField | Action::PreviousField => {
            if let Some(Screen::Form(screen)) = model.screens.last_mut() {
                let by = if action == Action::NextField { 1 } else { -1 };
                screen.form.step(by);
            }
        }
        Action::Mouse => {
            model.mouse = !model.mouse;
            let now = if model.mouse {
                "mouse on: clicks and the wheel work; hold shift to select text"
            } else {
                "mouse off"
            };
            model.notify(now, Tone::Dim);
            return vec![Effect::Mouse(model.mouse)];
        }
        Action::Redraw => return vec![Effect::Redraw],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Questions => model.later = false,
        Action::Demo => {
            let task = model.task();
            return vec![Effect::Demo(task)];
        }
    }
    Vec::new()
}

/// Returns why an action is not possible now. The footer shows it dimmed.
pub(in crate::ui) fn availability(model: &Model, action: Action) -> Result<(), &'static str> {
    let server = model.server();
    let check = |ok: bool, reason: &'static str| if ok { Ok(()) } else { Err(reason) };
    match action {
        Action::Reconnect => check(
            server.is_some_and(Server::runs),
            "this server does not run, so it cannot be reconnected",
        ),
        Action::ReconnectFailed => check(
            model.snapshot.servers.iter().any(has_failed),
            "no server has failed",
        ),
        Action::Toggle => check(
            server.is_some_and(|server| {
                server.entry.is_some() && (server.runs() || server.status == Status::Disabled)
            }),
            "only configured servers that may run can be switched on and off",
        ),
        Action::Login => check(
            server.is_some_and(|server| server.takes_sign_in && server.runs()),
            "this server takes no sign-in",
        ),
        Action::Logout => check(
            server.is_some_and(|server| server.takes_sign_in && server.runs()),
            "this server takes no sign-in",
        ),
        Action::Review => check(
            server
                .and_then(|server| configured(model, server))
                .is_some_and(|server| server.entry.needs_approval()),
            "only servers of a project's .mcp.json need approval",
        ),
        Action::Questions => check(!model.questions.is_empty(), "no question waits"),
        Action::Repeat | Action::EditAgain => check(model.call().is_some(), "no call to repeat"),
        _ => Ok(()),
    }
}

fn has_failed(server: &Server) -> bool {
    server.status == Status::Failed
}

fn configured<'m>(model: &'m Model, server: &Server) -> Option<&'m ConfiguredServer> {
    model.snapshot.set.servers.get(server.entry?)
}

fn entry(model: &Model) -> Option<Box<ServerEntry>> {
    let server = configured(model, model.server()?)?;
    Some(Box::new(server.entry.clone()))
}

fn reconnect(model: &mut Model) -> Vec<Effect> {
    let Some(server) = model.server().map(|server| server.name().to_owned()) else {
        return Vec::new();
    };
    let equal = command::equal(command::about(&model.program, "get", &server));
    model.notify(format!("reconnecting {}{equal}", name(&server)), Tone::Dim);
    vec![Effect::Reconnect(model.task(), vec![server])]
}

fn reconnect_failed(model: &mut Model) -> Vec<Effect> {
    let failed = model
        .snapshot
        .servers
        .iter()
        .filter(|server| has_failed(server));
    let names: Vec<String> = failed.map(|server| server.name().to_owned()).collect();
    let many = text::count(names.len(), "server");
    let equal = format!("{} list", model.program);
    model.notify(format!("reconnecting {many}   = {equal}"), Tone::Dim);
    vec![Effect::Reconnect(model.task(), names)]
}

fn toggle(model: &mut Model) -> Vec<Effect> {
    let (Some(entry), Some(server)) = (entry(model), model.server()) else {
        return Vec::new();
    };
    let on = server.status == Status::Disabled;
    vec![Effect::SetEnabled(model.task(), entry, on)]
}

fn login(model: &mut Model) -> Vec<Effect> {
    let Some(server) = model.server().map(|server| server.name().to_owned()) else {
        return Vec::new();
    };
    let task = model.task();
    let mut dialog = Dialog::login(task, &server);
    dialog.command = command::about(&model.program, "login", &server);
    model.dialog = Some(dialog);
    vec![Effect::Login(task, server)]
}

fn logout(model: &mut Model) {
    let Some(server) = model.server().map(|server| server.name().to_owned()) else {
        return;
    };
    let effect = Effect::Logout(model.task(), server.clone());
    let lines = vec![DocLine::own(
        "Its tokens are revoked where the provider can, and deleted here.",
    )];
    let title = format!("Sign out of {}?", name(&server));
    let mut dialog = Dialog::confirm(title, lines, effect);
    dialog.command = command::about(&model.program, "logout", &server);
    model.dialog = Some(dialog);
}

fn review(model: &mut Model) -> Vec<Effect> {
    let Some(server) = model.server().and_then(|server| configured(model, server)) else {
        return Vec::new();
    };
    let scripts = Effect::ReadScripts(Box::new(server.clone()));
    let mut dialog = Dialog::approval(server);
    dialog.command = command::about(&model.program, "approve", &server.entry.name);
    model.dialog = Some(dialog);
    vec![scripts]
}
