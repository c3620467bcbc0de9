//! `trunkline prompts`: lists prompts and skills.

use serde::Serialize;
use trunkline::Host;
use trunkline::context::{PromptArgument, PromptCommand, ServerSkill};

use super::list::count;
use super::resources::first_line;
use super::tools;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Group, Line, Lines, Stream, Style, inline, name};
use crate::stored::Catalogs;

pub(crate) async fn run(
    config: &ConfigArgs,
    server: Option<&str>,
    catalogs: Catalogs,
    as_json: bool,
) -> Exit {
    tools::with_servers(config, server, catalogs, async |host| {
        show(host, as_json).await;
    })
    .await
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
    let lines = match output::width(Stream::Out) {
        Some(width) => grouped(&prompts, &skills.skills, width),
        None => plain(&prompts, &skills.skills),
    };
    if lines.is_empty() {
        tools::note_empty(host, "prompts");
    }
    output::paged(lines);
}

/// Formats prompts and skills for a terminal, grouped by server.
fn grouped(prompts: &[PromptCommand], skills: &[ServerSkill], width: usize) -> Lines {
    let mut servers: Vec<&str> = prompts.iter().map(|prompt| &*prompt.server).collect();
    servers.extend(skills.iter().map(|found| &*found.server));
    servers.sort_unstable();
    servers.dedup();
    let mut lines = Lines::new();
    for server in servers {
        let prompts = prompts.iter().filter(|prompt| &*prompt.server == server);
        let skills = skills.iter().filter(|found| &*found.server == server);
        let counts = [
            (prompts.clone().count(), "prompt"),
            (skills.clone().count(), "skill"),
        ];
        let counts: Vec<_> = counts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| count(number, what))
            .collect();
        let mut group = Group::new(&name(server), &counts.join(", "));
        for prompt in prompts {
            let arguments = prompt.arguments().unwrap_or_default();
            let arguments: String = arguments.iter().map(usage).collect();
            let shown = Line::of(Style::Literal, name(&prompt.prompt.name));
            let about = prompt.prompt.description.as_deref().unwrap_or_default();
            group.entry(shown.and(Style::Dim, arguments), about);
        }
        for ServerSkill { skill, .. } in skills {
            let shown = Line::of(Style::Dim, "skill ").and(Style::Literal, inline(&skill.uri));
            group.entry(shown, &skill.description);
        }
        if !lines.is_empty() {
            lines.push_gap();
        }
        lines.append(group.lines(width));
    }
    lines
}

/// Formats one prompt or skill per line.
fn plain(prompts: &[PromptCommand], skills: &[ServerSkill]) -> Lines {
    let mut lines = Lines::new();
    for prompt in prompts {
        let about = prompt.prompt.description.as_deref().unwrap_or_default();
        let arguments = prompt.arguments().unwrap_or_default();
        let arguments: String = arguments.iter().map(usage).collect();
        let about = first_line(about);
        lines.push(format!("/{}{arguments}  {about}", prompt.name));
    }
    for ServerSkill { server, skill, .. } in skills {
        let about = first_line(&skill.description);
        lines.push(format!("skill @{server}:{}  {about}", skill.uri));
    }
    lines
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
