//! What leaves the interface: the equivalent command, copies and saved messages.

use serde_json::{Value, json};

use super::{Model, Screen, Tab};
use crate::ui::command;
use crate::ui::data::{Server, Status};
use crate::ui::doc::Tone;
use crate::ui::msg::Effect;
use crate::ui::text;

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
        None => model.server().and_then(of_server),
        Some(Screen::Form(screen)) => command::of_request(program, &screen.request()),
        Some(Screen::Call(_) | Screen::History(_)) => model.call()?.command.clone(),
        Some(Screen::Detail(detail)) => {
            let server = model.server()?;
            let offers = &server.offers;
            let about = |command: &str, item: Option<&str>| {
                command::about_item(program, command, server.name(), item)
            };
            match detail.tab {
                Tab::Overview => of_server(server),
                Tab::Tools => {
                    let tool = offers.tools.get(detail.tools.at);
                    about("tools", tool.map(|tool| &*tool.tool.name))
                }
                Tab::Resources => match offers.resources.get(detail.resources.at) {
                    Some(resource) => about("read", Some(&resource.uri)),
                    None => about("resources", None),
                },
                Tab::Prompts => match offers.prompts.get(detail.prompts.at) {
                    Some(prompt) => about("prompt", Some(&prompt.name)),
                    None => about("prompts", None),
                },
                Tab::Log => about("logs -f", None),
                Tab::Protocol => about("--trace - get", None),
            }
        }
    }
}

pub(super) fn copy(model: &mut Model) -> Vec<Effect> {
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
        // A message that is no JSON may hold anything.
        let text = trunkline::text::harmless(&message.text).into_owned();
        return vec![copied(model, text, "copied the message".to_owned())];
    }
    let Some(command) = equivalent(model) else {
        model.notify("no command can name this", Tone::Warn);
        return Vec::new();
    };
    let notice = format!("copied: {}", text::line(&command));
    vec![copied(model, command, notice)]
}

/// Copies a text, which must not steer the terminal that it is pasted into.
pub(super) fn copied(model: &mut Model, text: String, notice: String) -> Effect {
    Effect::Copy {
        task: model.task(),
        text,
        notice,
    }
}

pub(super) fn save(model: &mut Model) -> Vec<Effect> {
    let Some(Screen::Detail(detail)) = model.screens.last() else {
        return Vec::new();
    };
    let mut lines = String::new();
    for message in model.messages_of(detail) {
        let parsed: Option<Value> = serde_json::from_str(&message.text).ok();
        let direction = if message.sent { "out" } else { "in" };
        let line = json!({"time": message.time, "server": &*message.server, "direction": direction,
            "message": parsed.unwrap_or_else(|| json!(message.text))});
        lines += &line.to_string();
        lines.push('\n');
    }
    vec![Effect::Save(model.task(), lines)]
}
