//! `trunkline prompt`: gets what a prompt says.

use std::time::Duration;

use serde::Serialize;
use trunkline::{Host, Json, PromptMessage, PromptOutput, ReadOptions};

use super::call::summary;
use super::context::{self, Target};
use crate::args::{ConfigArgs, PromptArgs};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(config: &ConfigArgs, prompt: &PromptArgs, as_json: bool) -> Exit {
    let timeout = prompt.timeout.map(Duration::from_millis);
    let is_command = |word: &str| word.strip_prefix('/').unwrap_or(word).starts_with("mcp__");
    match &prompt.words[..] {
        [name, words @ ..] if is_command(name) => {
            let name = name.strip_prefix('/').unwrap_or(name);
            context::with_target(
                config,
                Target::Command(name),
                timeout,
                async |host, left| get_and_show(host, None, name, words, left, as_json).await,
            )
            .await
        }
        [server, name, words @ ..] => {
            context::with_target(
                config,
                Target::Server(server),
                timeout,
                async |host, left| {
                    get_and_show(host, Some(server), name, words, left, as_json).await
                },
            )
            .await
        }
        _ => {
            let hint = "write `prompt <server> <prompt>`; `trunkline prompts` shows them";
            output::error("which prompt?", Some(hint));
            Exit::Usage
        }
    }
}

async fn get_and_show(
    host: &Host,
    server: Option<&str>,
    name: &str,
    words: &[String],
    timeout: Option<Duration>,
    as_json: bool,
) -> Exit {
    let found = match server {
        Some(server) => host.prompt_of(server, name),
        None => host.find_prompt(name),
    };
    let limited = timeout.is_some();
    let command = match found {
        Ok(command) => command,
        Err(error) => return context::fail(&error, limited),
    };
    let options = ReadOptions {
        timeout,
        on_progress: Some(context::progress_line()),
    };
    match host.prompt(&command, words, options).await {
        Ok(said) => {
            show(&said, as_json);
            Exit::Done
        }
        Err(error) => context::fail(&error, limited),
    }
}

fn show(said: &PromptOutput, as_json: bool) {
    if as_json {
        output::json(&PromptJson {
            server: &said.server,
            prompt: &said.prompt,
            description: said.description.as_deref(),
            messages: said.messages.iter().map(MessageJson::of).collect(),
        });
        return;
    }
    let one_voice = said.messages.iter().all(|message| &*message.role == "user");
    for PromptMessage { role, content } in &said.messages {
        if !one_voice {
            output::tool_text(&format!("[{role}]"));
        }
        match content.text() {
            Some(text) => output::tool_text(&text),
            None => output::tool_text(&summary(content)),
        }
    }
}

/// What a prompt says, for `--json`; its messages are what the server wrote.
#[derive(Serialize)]
struct PromptJson<'a> {
    server: &'a str,
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    messages: Vec<MessageJson<'a>>,
}

#[derive(Serialize)]
struct MessageJson<'a> {
    role: &'a str,
    content: Json,
}

impl<'a> MessageJson<'a> {
    fn of(message: &'a PromptMessage) -> Self {
        Self {
            role: &message.role,
            content: message.content.to_json(),
        }
    }
}
