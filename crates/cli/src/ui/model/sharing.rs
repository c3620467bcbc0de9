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
