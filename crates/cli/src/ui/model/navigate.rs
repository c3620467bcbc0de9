//! Moves the selection, opens what is selected, and goes back.

use super::actions::perform;
use super::calling::{prompt_form, start, template_form, tool_form};
use super::cursor::Cursor;
use super::find::{Find, Item};
use super::{DetailScreen, Hit, LogView, Model, Overlay, ProtocolView, Screen, Tab};
use crate::ui::data::Key;
use crate::ui::doc::Tone;
use crate::ui::help;
use crate::ui::input::{self, Action};
use crate::ui::msg::{Effect, Request, Subject};

pub(super) fn step(model: &mut Model, by: isize) {
    match &mut model.overlay {
        Some(Overlay::Find(find)) => {
            let len = find.len();
            return find.cursor.step(by, len);
        }
        Some(Overlay::Palette(find)) => {
            let len = find.len();
            return find.cursor.step(by, len);
        }
        Some(Overlay::Help(doc)) => return doc.scroll(by),
        None => {}
    }
    match model.screens.last() {
        None => {
            model.list.step(by, model.snapshot.servers.len());
            let server = model.snapshot.servers.get(model.list.at);
            model.selected = server.map(|server| server.key.clone());
        }
        Some(Screen::Detail(_)) => step_detail(model, by),
        Some(Screen::Form(screen)) => screen.about.scroll(by),
        Some(Screen::Call(id)) => {
            if let Some(call) = model.calls.get(*id) {
                call.result.scroll(by);
            }
        }
        Some(Screen::History(_)) => {
            let len = model.calls.0.len();
            if let Some(Screen::History(cursor)) = model.screens.last_mut() {
                cursor.step(by, len);
            }
        }
    }
}

pub(super) fn step_detail(model: &mut Model, by: isize) {
    let Some(Screen::Detail(detail)) = model.screens.last() else {
        return;
    };
    let offers = model.server().map(|server| &server.offers);
    let offers = offers.cloned().unwrap_or_default();
    let shown: Vec<u64> = match detail.tab {
        Tab::Protocol => {
            let messages = model.messages_of(detail);
            messages.iter().map(|message| message.number).collect()
        }
        _ => Vec::new(),
    };
    let rows = match detail.tab {
        Tab::Log => model.log_of(detail).len(),
        _ => 0,
    };
    if detail.tab == Tab::Overview {
        if let Some((_, doc)) = &model.detail {
            doc.scroll(by);
        }
        return;
    }
    let Some(Screen::Detail(detail)) = model.screens.last_mut() else {
        return;
    };
    match detail.tab {
        Tab::Overview => {}
        Tab::Tools => detail.tools.step(by, offers.tools.len()),
        Tab::Resources => detail.resources.step(by, offers.resources.len()),
        Tab::Prompts => detail.prompts.step(by, offers.prompts.len()),
        Tab::Log => {
            let most = rows.saturating_sub(detail.log.page.get());
            let back = detail
                .log
                .back
                .get()
                .saturating_add_signed(by.saturating_neg());
            detail.log.back.set(back.min(most));
        }
        Tab::Protocol => {
            let last = shown.len().saturating_sub(1);
            let selected = detail.protocol.selected;
            let at = selected.and_then(|number| shown.iter().position(|shown| *shown == number));
            let at = at.unwrap_or(last).saturating_add_signed(by).min(last);
            // The newest message stays selected as others arrive.
            let is_newest = at == last && by > 0;
            detail.protocol.selected = shown.get(at).copied().filter(|_| !is_newest);
        }
    }
}

pub(super) fn page(model: &mut Model, direction: isize) {
    let page = match (&model.overlay, model.screens.last()) {
        (Some(Overlay::Find(find)), _) => find.cursor.page(),
        (Some(Overlay::Palette(find)), _) => find.cursor.page(),
        (Some(Overlay::Help(doc)), _) => doc.page(),
        (None, None) => model.list.page(),
        (None, Some(Screen::Detail(detail))) => match detail.tab {
            Tab::Overview => model.detail.as_ref().map_or(1, |(_, doc)| doc.page()),
            Tab::Tools => detail.tools.page(),
            Tab::Resources => detail.resources.page(),
            Tab::Prompts => detail.prompts.page(),
            Tab::Log => isize::try_from(detail.log.page.get()).unwrap_or(1),
            Tab::Protocol => detail.protocol.cursor.page(),
        },
        (None, Some(Screen::Form(screen))) => screen.about.page(),
        (None, Some(Screen::Call(id))) => model.calls.get(*id).map_or(1, |call| call.result.page()),
        (None, Some(Screen::History(cursor))) => cursor.page(),
    };
    step(model, page * direction);
}

pub(super) fn back(model: &mut Model) {
    if model.overlay.take().is_some() || model.screens.pop().is_some() {
        return;
    }
    if !model.is_empty() {
        model.notify("this is the top: q quits", Tone::Dim);
    }
}

pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    match model.overlay.take() {
        Some(Overlay::Find(find)) => {
            let Some(item) = find.selected().cloned() else {
                model.overlay = Some(Overlay::Find(find));
                return Vec::new();
            };
            return open_item(model, &item);
        }
        Some(Overlay::Palette(find)) => {
            return match find.selected().copied() {
                Some(action) => perform(model, action),
                None => Vec::new(),
            };
        }
        Some(help @ Overlay::Help(_)) => {
            model.overlay = Some(help);
            return Vec::new();
        }
        None => {}
    }
    match model.screens.last_mut() {
        None => {
            if let Some(key) = model.selected.clone() {
                push_detail(model, key, Tab::Overview);
            }
            Vec::new()
        }
        Some(Screen::Detail(detail)) => {
            let key = detail.key.clone();
            let item = match detail.tab {
                Tab::Tools => Item::Tool(key, detail.tools.at),
                Tab::Resources => Item::Resource(key, detail.resources.at),
                Tab::Prompts => Item::Prompt(key, detail.prompts.at),
                Tab::Protocol => {
                    unfold(model);
                    return Vec::new();
                }
                Tab::Overview | Tab::Log => return Vec::new(),
            };
            open_item(model, &item)
        }
        Some(Screen::History(cursor)) => {
            let at = cursor.at;
            if let Some(id) = model.calls.newest(at).map(|call| call.id) {
                model.screens.push(Screen::Call(id));
            }
            Vec::new()
        }
        Some(Screen::Form(_) | Screen::Call(_)) => Vec::new(),
    }
}

/// Folds or unfolds the selected message.
pub(super) fn unfold(model: &mut Model) {
    let Some(Screen::Detail(detail)) = model.screens.last() else {
        return;
    };
    let shown = model.messages_of(detail);
    let newest = shown.last().map(|message| message.number);
    let selected = detail.protocol.selected.or(newest);
    if let (Some(Screen::Detail(detail)), Some(number)) = (model.screens.last_mut(), selected) {
        // What the user reads must not move away.
        detail.protocol.selected = Some(number);
        if !detail.protocol.open.remove(&number) {
            detail.protocol.open.insert(number);
        }
    }
}

pub(super) fn push_detail(model: &mut Model, key: Key, tab: Tab) {
    model.selected = Some(key.clone());
    if let Some(at) = model.snapshot.position(&key) {
        model.list.at = at;
    }
    // Screens of other servers are left behind, so that Esc goes back to the list.
    model.screens.clear();
    model.screens.push(Screen::Detail(Box::new(DetailScreen {
        key,
        tab,
        tools: Cursor::default(),
        resources: Cursor::default(),
        prompts: Cursor::default(),
        log: LogView::default(),
        protocol: ProtocolView::default(),
        preview: std::cell::RefCell::default(),
    })));
}

pub(super) fn open_item(model: &mut Model, item: &Item) -> Vec<Effect> {
    let (Item::Server(key) | Item::Tool(key, _) | Item::Resource(key, _) | Item::Prompt(key, _)) =
        item;
    let Some(server) = model.snapshot.get(key) else {
        return Vec::new();
    };
    let (offers, server) = (server.offers.clone(), server.name().to_owned());
    // From the search: the list that the item belongs to is one level back.
    let tab = match item {
        Item::Server(_) => Tab::Overview,
        Item::Tool(..) => Tab::Tools,
        Item::Resource(..) => Tab::Resources,
        Item::Prompt(..) => Tab::Prompts,
    };
    let is_there =
        matches!(model.screens.last(), Some(Screen::Detail(detail)) if detail.key == *key);
    if !is_there {
        push_detail(model, key.clone(), tab);
    }
    if let Some(Screen::Detail(detail)) = model.screens.last_mut() {
        detail.tab = tab;
        match item {
            Item::Server(_) => {}
            Item::Tool(_, at) => detail.tools.at = *at,
            Item::Resource(_, at) => detail.resources.at = *at,
            Item::Prompt(_, at) => detail.prompts.at = *at,
        }
    }
    let form = match item {
        Item::Server(_) => return Vec::new(),
        Item::Tool(_, at) => offers.tools.get(*at).map(|tool| tool_form(&server, tool)),
        Item::Resource(_, at) => match offers.resources.get(*at) {
            Some(resource) if resource.is_template => Some(template_form(&server, &resource.uri)),
            Some(resource) => {
                let request = Request {
                    server,
                    subject: Subject::Resource(resource.uri.clone()),
                    arguments: serde_json::Map::new(),
                    secrets: Vec::new(),
                };
                return start(model, request);
            }
            None => None,
        },
        Item::Prompt(_, at) => match offers.prompts.get(*at) {
            Some(prompt) if prompt.parameters.is_empty() => {
                let request = Request {
                    server,
                    subject: Subject::Prompt(prompt.name.clone()),
                    arguments: serde_json::Map::new(),
                    secrets: Vec::new(),
                };
                return start(model, request);
            }
            prompt => prompt.map(|prompt| prompt_form(&server, prompt)),
        },
    };
    if let Some(form) = form {
        model.screens.push(Screen::Form(Box::new(form)));
    }
    Vec::new()
}

pub(super) fn open_palette(model: &mut Model) {
    let context = model.context();
    let commands = input::shown(context).into_iter().filter(|binding| {
        let moves = [Action::Up, Action::PageUp, Action::Start, Action::Palette];
        !moves.contains(&binding.action)
    });
    let items = commands
        .map(|binding| {
            let label = help::describe(binding.action);
            (format!("{:<8} {label}", binding.shown), binding.action)
        })
        .collect();
    model.overlay = Some(Overlay::Palette(Box::new(Find::new(items))));
}

pub(super) fn tab(model: &mut Model, next: impl Fn(usize) -> usize) -> Vec<Effect> {
    let Some(Screen::Detail(detail)) = model.screens.last_mut() else {
        return Vec::new();
    };
    let at = Tab::ALL.iter().position(|tab| *tab == detail.tab);
    detail.tab = Tab::ALL
        .get(next(at.unwrap_or(0)))
        .copied()
        .unwrap_or_default();
    if detail.tab == Tab::Log && detail.log.history.is_none() {
        return vec![Effect::ReadLog(detail.key.0.to_string())];
    }
    Vec::new()
}

/// Selects what the mouse chose, or opens it if it was selected already.
pub(super) fn choose_hit(model: &mut Model, hit: Hit) -> Vec<Effect> {
    match hit {
        Hit::Server(at) => {
            let Some(key) = model
                .snapshot
                .servers
                .get(at)
                .map(|server| server.key.clone())
            else {
                return Vec::new();
            };
            if model.list.at == at || !model.screens.is_empty() {
                push_detail(model, key, Tab::Overview);
            } else {
                model.list.at = at;
                model.selected = Some(key);
            }
            Vec::new()
        }
        Hit::Tab(wanted) => {
            if let (true, Some(key)) = (model.screens.is_empty(), model.selected.clone()) {
                push_detail(model, key, Tab::Overview);
            }
            let wanted = Tab::ALL.iter().position(|tab| *tab == wanted);
            tab(model, |_| wanted.unwrap_or(0))
        }
        Hit::Item(at) => {
            let Some(Screen::Detail(detail)) = model.screens.last_mut() else {
                return Vec::new();
            };
            let cursor = match detail.tab {
                Tab::Tools => &mut detail.tools,
                Tab::Resources => &mut detail.resources,
                Tab::Prompts => &mut detail.prompts,
                _ => return Vec::new(),
            };
            if cursor.at == at {
                return open(model);
            }
            cursor.at = at;
            Vec::new()
        }
    }
}
