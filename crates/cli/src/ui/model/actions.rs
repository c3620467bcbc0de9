//! Performs what the user asks for.

use serde_json::{Map, Value, json};
use trunkline::config::ServerEntry;
use trunkline::context::template_variables;
use trunkline::tool::PoolTool;
use trunkline_config::Server as ConfiguredServer;

use super::calls::{Call, CallState};
use super::cursor::Cursor;
use super::dialog::{self, Choice, Dialog, Kind};
use super::find::{self, Find, Item};
use super::form::FormState;
use super::stream::clock;
use super::{DetailScreen, FormScreen, LogView, Model, Overlay, ProtocolView, Screen, Tab};
use crate::output::name;
use crate::ui::command;
use crate::ui::data::{Key, PromptItem, Server, Status};
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::help;
use crate::ui::input::{self, Action, Context};
use crate::ui::msg::{Effect, Request, Subject};
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
        Action::Review => review(model),
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
                "mouse on: the wheel scrolls; hold shift to select text"
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

fn step(model: &mut Model, by: isize) {
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

fn step_detail(model: &mut Model, by: isize) {
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

fn page(model: &mut Model, direction: isize) {
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

fn back(model: &mut Model) {
    if model.overlay.take().is_some() || model.screens.pop().is_some() {
        return;
    }
    if !model.is_empty() {
        model.notify("this is the top: q quits", Tone::Dim);
    }
}

fn open(model: &mut Model) -> Vec<Effect> {
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
fn unfold(model: &mut Model) {
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

fn push_detail(model: &mut Model, key: Key, tab: Tab) {
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
    })));
}

fn open_item(model: &mut Model, item: &Item) -> Vec<Effect> {
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
                    arguments: Map::new(),
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
                    arguments: Map::new(),
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

fn tool_form(server: &str, tool: &PoolTool) -> FormScreen {
    let mut effects = Vec::new();
    if tool.is_destructive() {
        effects.push("destructive");
    } else if !tool.is_read_only() {
        effects.push("writes");
    } else {
        effects.push("read-only");
    }
    if tool.is_open_world() {
        effects.push("open-world");
    }
    FormScreen {
        server: server.to_owned(),
        subject: Subject::Tool(tool.tool.name.to_string()),
        about: Doc::new(DocLine::foreign(&tool.description).collect()),
        effects: effects.join(", "),
        form: FormState::from_schema(&tool.tool.input_schema),
    }
}

fn template_form(server: &str, template: &str) -> FormScreen {
    let variables = template_variables(template);
    let properties: Map<String, Value> = variables
        .iter()
        .map(|name| (name.clone(), json!({"type": "string"})))
        .collect();
    FormScreen {
        server: server.to_owned(),
        subject: Subject::Template(template.to_owned()),
        about: Doc::default(),
        effects: "resource template".to_owned(),
        form: FormState::from_schema(&json!({ "properties": properties }).into()),
    }
}

fn prompt_form(server: &str, prompt: &PromptItem) -> FormScreen {
    let mut properties = Map::new();
    for parameter in &prompt.parameters {
        let mut property = json!({"type": "string"});
        if let Some(about) = &parameter.about {
            property["description"] = json!(about);
        }
        properties.insert(parameter.name.clone(), property);
    }
    let required: Vec<&str> = prompt
        .parameters
        .iter()
        .filter(|parameter| parameter.required)
        .map(|parameter| parameter.name.as_str())
        .collect();
    let schema = json!({"properties": properties, "required": required});
    FormScreen {
        server: server.to_owned(),
        subject: Subject::Prompt(prompt.name.clone()),
        about: Doc::new(DocLine::foreign(&prompt.about).collect()),
        effects: "prompt".to_owned(),
        form: FormState::from_schema(&schema.into()),
    }
}

fn reconnect(model: &mut Model) -> Vec<Effect> {
    let Some(server) = model.server().map(|server| server.name().to_owned()) else {
        return Vec::new();
    };
    let equal = command::about(&model.program, "get", &server);
    model.notify(
        format!("reconnecting {}   = {equal}", name(&server)),
        Tone::Dim,
    );
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
    dialog.command = Some(command::about(&model.program, "login", &server));
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
    dialog.command = Some(command::about(&model.program, "logout", &server));
    model.dialog = Some(dialog);
}

fn review(model: &mut Model) {
    let Some(server) = model.server().and_then(|server| configured(model, server)) else {
        return;
    };
    let mut dialog = Dialog::approval(server);
    let equal = command::about(&model.program, "approve", &server.entry.name);
    dialog.command = Some(equal);
    model.dialog = Some(dialog);
}

/// Returns the command that does what the screen shows.
pub(in crate::ui) fn equivalent(model: &Model) -> Option<String> {
    let program = &model.program;
    let of_server = |server: &Server| {
        let word = match server.status {
            Status::NeedsAuth => "login",
            Status::Disabled => "enable",
            Status::PendingApproval { .. } | Status::Rejected => "approve",
            Status::Failed | Status::Invalid => "doctor",
            _ => "get",
        };
        command::about(program, word, server.name())
    };
    match model.screens.last() {
        None if model.is_empty() => Some(format!("{program} import")),
        None => model.server().map(of_server),
        Some(Screen::Form(screen)) => Some(command::of_request(program, &screen.request())),
        Some(Screen::Call(_) | Screen::History(_)) => model.call().map(|call| call.command.clone()),
        Some(Screen::Detail(detail)) => {
            let server = model.server()?;
            let shown = text::quoted(server.name());
            let offers = &server.offers;
            match detail.tab {
                Tab::Overview => Some(of_server(server)),
                Tab::Tools => Some(match offers.tools.get(detail.tools.at) {
                    Some(tool) => {
                        format!("{program} tools {shown} {}", text::quoted(&tool.tool.name))
                    }
                    None => format!("{program} tools {shown}"),
                }),
                Tab::Resources => Some(match offers.resources.get(detail.resources.at) {
                    Some(resource) => {
                        format!("{program} read {shown} {}", text::quoted(&resource.uri))
                    }
                    None => format!("{program} resources {shown}"),
                }),
                Tab::Prompts => Some(match offers.prompts.get(detail.prompts.at) {
                    Some(prompt) => {
                        format!("{program} prompt {shown} {}", text::quoted(&prompt.name))
                    }
                    None => format!("{program} prompts {shown}"),
                }),
                Tab::Log => Some(format!("{program} logs -f {shown}")),
                Tab::Protocol => Some(format!("{program} --trace - get {shown}")),
            }
        }
    }
}

fn copy(model: &mut Model) -> Vec<Effect> {
    if let Some(Screen::Detail(detail)) = model.screens.last()
        && detail.tab == Tab::Protocol
    {
        let shown = model.messages_of(detail);
        let selected = detail.protocol.selected;
        let chosen = shown
            .iter()
            .find(|message| Some(message.number) == selected);
        let Some(message) = chosen.or(shown.last()) else {
            return Vec::new();
        };
        let text = message.text.clone();
        model.notify("copied the message", Tone::Dim);
        return vec![Effect::Copy(text)];
    }
    let Some(command) = equivalent(model) else {
        return Vec::new();
    };
    model.notify(format!("copied: {}", text::line(&command)), Tone::Dim);
    vec![Effect::Copy(command)]
}

fn open_palette(model: &mut Model) {
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

fn tab(model: &mut Model, next: impl Fn(usize) -> usize) -> Vec<Effect> {
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

fn save(model: &mut Model) -> Vec<Effect> {
    let Some(Screen::Detail(detail)) = model.screens.last() else {
        return Vec::new();
    };
    let mut lines = String::new();
    for message in model.messages_of(detail) {
        let parsed: Option<Value> = serde_json::from_str(&message.text).ok();
        let direction = if message.sent { "out" } else { "in" };
        let line = json!({"time": message.time, "server": &*message.server, "direction": direction,
            "message": parsed.unwrap_or_else(|| json!(message.text))});
        lines += &format!("{line}\n");
    }
    vec![Effect::Save(model.task(), lines)]
}

fn call_form(model: &mut Model) -> Vec<Effect> {
    let Some(Screen::Form(screen)) = model.screens.last_mut() else {
        return Vec::new();
    };
    let Some(arguments) = screen.form.submit() else {
        return Vec::new();
    };
    let request = Request {
        arguments,
        ..screen.request()
    };
    start(model, request)
}

fn start(model: &mut Model, request: Request) -> Vec<Effect> {
    let id = model.task();
    model.calls.push(Call {
        id,
        command: command::of_request(&model.program, &request),
        request: request.clone(),
        started: model.now,
        clock: clock(model.time_of_day()),
        state: CallState::Running(None),
        result: Doc::default(),
    });
    // A repeated call replaces the one on the screen.
    if matches!(model.screens.last(), Some(Screen::Call(_))) {
        model.screens.pop();
    }
    model.screens.push(Screen::Call(id));
    vec![Effect::Call(id, request)]
}

fn cancel_call(model: &mut Model) -> Vec<Effect> {
    match model.call() {
        Some(call) if call.is_running() => vec![Effect::CancelCall(call.id)],
        _ => Vec::new(),
    }
}

/// Opens the form of a call again, with its values.
fn edit_again(model: &mut Model) {
    let Some(request) = model.call().map(|call| call.request.clone()) else {
        return;
    };
    let Some(server) = model.snapshot.named(&request.server) else {
        return;
    };
    let offers = &server.offers;
    let form = match &request.subject {
        Subject::Tool(wanted) => {
            let mut tools = offers.tools.iter();
            let tool = tools.find(|tool| *tool.tool.name == **wanted);
            tool.map(|tool| tool_form(&request.server, tool))
        }
        Subject::Template(template) => Some(template_form(&request.server, template)),
        Subject::Prompt(wanted) => {
            let prompt = offers.prompts.iter().find(|prompt| prompt.name == *wanted);
            prompt.map(|prompt| prompt_form(&request.server, prompt))
        }
        Subject::Resource(_) => None,
    };
    match form {
        Some(mut form) => {
            form.form.fill(&request.arguments);
            if matches!(model.screens.last(), Some(Screen::Call(_))) {
                model.screens.pop();
            }
            if matches!(model.screens.last(), Some(Screen::Form(_))) {
                model.screens.pop();
            }
            model.screens.push(Screen::Form(Box::new(form)));
        }
        None => model.notify("it has no arguments to edit", Tone::Warn),
    }
}

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

fn answer_question(model: &mut Model, choice: Choice) -> Vec<Effect> {
    let task = model.task();
    let Some(question) = model.questions.front_mut() else {
        return Vec::new();
    };
    let Some(id) = question.question_id() else {
        return Vec::new();
    };
    let page = match &question.kind {
        Kind::Page { url, .. } => Some(url.clone()),
        _ => None,
    };
    if let (Choice::CopyUrl, Some(url)) = (choice, &page) {
        let effect = Effect::Copy(url.clone());
        model.notify("copied the URL", Tone::Dim);
        return vec![effect];
    }
    let Some(answer) = dialog::answer(question, choice) else {
        return Vec::new();
    };
    model.questions.pop_front();
    let mut effects = vec![Effect::Answer(id, answer)];
    if let (Choice::OpenPage, Some(url)) = (choice, page) {
        effects.insert(0, Effect::OpenUrl(task, url));
    }
    effects
}
