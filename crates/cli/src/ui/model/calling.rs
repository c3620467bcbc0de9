//! Forms and the calls made from them.

use serde_json::{Map, Value, json};
use trunkline::context::template_variables;
use trunkline::tool::PoolTool;

use super::calls::{Call, CallState};
use super::form::FormState;
use super::stream::clock;
use super::{FormScreen, Model, Screen};
use crate::ui::command;
use crate::ui::data::PromptItem;
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::msg::{Effect, Request, Subject};

pub(super) fn tool_form(server: &str, tool: &PoolTool) -> FormScreen {
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

pub(super) fn template_form(server: &str, template: &str) -> FormScreen {
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

pub(super) fn prompt_form(server: &str, prompt: &PromptItem) -> FormScreen {
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

pub(super) fn call_form(model: &mut Model) -> Vec<Effect> {
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

pub(super) fn start(model: &mut Model, request: Request) -> Vec<Effect> {
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

pub(super) fn cancel_call(model: &mut Model) -> Vec<Effect> {
    match model.call() {
        Some(call) if call.is_running() => vec![Effect::CancelCall(call.id)],
        _ => Vec::new(),
    }
}

/// Opens the form of a call again, with its values.
pub(super) fn edit_again(model: &mut Model) {
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
