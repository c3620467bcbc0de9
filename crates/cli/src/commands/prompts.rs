//! `trunkline prompts`: lists prompts and skills.

use serde::Serialize;
use trunkline::Host;
use trunkline::context::{PromptArgument, PromptCommand, ServerSkill};

use super::resources::first_line;
use super::tools;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Lines};

pub(crate) async fn run(config: &ConfigArgs, server: Option<&str>, as_json: bool) -> Exit {
    tools::with_servers(config, server, async |host| show(host, as_json).await).await
}

async fn show(host: &Host, as_json: bool) {
    let (prompts, skills) = (host.prompts(), host.skills().await);
    for problem in host.prompt_diagnostics().iter().chain(&skills.problems) {
        output::warning(problem);
    }
    if as_json {
        output::json(&document(&prompts, &skills.skills));
        return;
    }
    let mut lines = Lines::new();
    for prompt in &prompts {
        let about = prompt.prompt.description.as_deref().unwrap_or_default();
        let arguments = prompt.arguments().unwrap_or_default();
        let arguments: String = arguments.iter().map(usage).collect();
        let about = first_line(about);
        lines.push(format!("/{}{arguments}  {about}", prompt.name));
    }
    for ServerSkill { server, skill, .. } in &skills.skills {
        let about = first_line(&skill.description);
        lines.push(format!("skill @{server}:{}  {about}", skill.uri));
    }
    if lines.is_empty() {
        tools::note_empty(host, "prompts");
    }
    output::result(lines);
}

/// Returns prompts and skills for `--json`.
pub(crate) fn document<'a>(
    prompts: &'a [PromptCommand],
    skills: &'a [ServerSkill],
) -> impl Serialize + use<'a> {
    let prompts = prompts.iter().map(Offered::of);
    let skills = skills.iter().map(Offered::of_skill);
    prompts.chain(skills).collect::<Vec<_>>()
}

/// Formats an argument for a usage line.
fn usage(argument: &PromptArgument) -> String {
    if argument.required {
        format!(" <{}>", argument.name)
    } else {
        format!(" [{}]", argument.name)
    }
}

/// A prompt or a skill for `--json`.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Offered<'a> {
    Prompt {
        name: &'a str,
        server: &'a str,
        #[serde(rename = "originalName")]
        original_name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        description: &'a str,
        arguments: Vec<ArgumentJson>,
    },
    Skill {
        name: &'a str,
        server: &'a str,
        uri: &'a str,
        description: &'a str,
        /// Whether the server lists it as a skill, so that it can be verified.
        listed: bool,
    },
}

#[derive(Serialize)]
struct ArgumentJson {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    required: bool,
}

impl<'a> Offered<'a> {
    fn of(prompt: &'a PromptCommand) -> Self {
        let arguments = prompt.arguments().unwrap_or_default().into_iter();
        Self::Prompt {
            name: &prompt.name,
            server: &prompt.server,
            original_name: &prompt.prompt.name,
            title: prompt.prompt.title(),
            description: prompt.prompt.description.as_deref().unwrap_or_default(),
            arguments: arguments
                .map(|argument| ArgumentJson {
                    name: argument.name,
                    description: argument.description,
                    required: argument.required,
                })
                .collect(),
        }
    }

    fn of_skill(found: &'a ServerSkill) -> Self {
        Self::Skill {
            name: &found.skill.name,
            server: &found.server,
            uri: &found.skill.uri,
            description: &found.skill.description,
            listed: found.listed,
        }
    }
}
