//! Prompts as commands (CTX-2): their list, their messages, and completions of their arguments.

use std::collections::HashSet;
use std::sync::Arc;

use trunkline_wire::mcp::{
    Completion, GetPromptResult, Prompt, PromptArgument, PromptMessage, Reference,
};
use trunkline_wire::{Json, RequestError};

use super::CommandLine;
use super::ReadOptions;
use super::arguments::assign;
use super::request::{ReadRequest, connected, failed};
use crate::call::{CallError, Cause};
use crate::catalog::{may_belong_to, tool_name, unique_name};
use crate::connection::State;
use crate::host::Host;
use crate::result::{blocks_left_out, shown_block};
use crate::sanitize;
use trunkline_config::nearest;

/// A prompt as a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptCommand {
    /// The command's name, used after a slash: `mcp__<server>__<prompt>`.
    pub name: String,
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The prompt as listed, under its original name; untrusted text, sanitised.
    pub prompt: Prompt,
}

impl PromptCommand {
    /// The arguments in order; `None` if the prompt does not declare them.
    pub fn arguments(&self) -> Option<Vec<PromptArgument>> {
        self.prompt.arguments()
    }
}

/// The messages of a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptOutput {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The prompt's original name.
    pub prompt: String,
    /// The description; untrusted text, sanitised.
    pub description: Option<String>,
    /// The messages, in order; untrusted text, without hidden characters.
    pub messages: Vec<PromptMessage>,
    /// The whole result as the server sent it.
    pub raw: Json,
}

impl Host {
    /// Returns the prompts of all servers as commands, sorted by name.
    pub fn prompts(&self) -> Vec<PromptCommand> {
        self.named_prompts().0
    }

    /// Returns a diagnostic for each prompt that was renamed because of a name collision.
    pub fn prompt_diagnostics(&self) -> Vec<String> {
        self.named_prompts().1
    }

    fn named_prompts(&self) -> (Vec<PromptCommand>, Vec<String>) {
        let servers = self.servers();
        let all = servers.iter().flat_map(|status| {
            let prompts = status.catalog.prompts.iter();
            prompts.map(|prompt| PromptCommand {
                name: tool_name(&status.name, &prompt.name),
                server: Arc::clone(&status.name),
                prompt: prompt.clone(),
            })
        });
        sorted_and_unique(all.collect())
    }

    /// Returns the prompt with this command name, with or without the slash.
    pub fn find_prompt(&self, name: &str) -> Result<PromptCommand, CallError> {
        let name = name.strip_prefix('/').unwrap_or(name);
        let mut prompts = self.prompts();
        match prompts.iter().position(|command| command.name == name) {
            Some(at) => Ok(prompts.swap_remove(at)),
            None => Err(self.missing_prompt(name, &prompts)),
        }
    }

    /// Returns a server's prompt by its original name.
    pub fn prompt_of(&self, server: &str, name: &str) -> Result<PromptCommand, CallError> {
        self.connection_to(server)?;
        let mut prompts = self.prompts();
        prompts.retain(|command| &*command.server == server);
        let is_it = |command: &PromptCommand| &*command.prompt.name == name;
        if let Some(at) = prompts.iter().position(is_it) {
            return Ok(prompts.swap_remove(at));
        }
        if let Some(down) = self.down(server) {
            return Err(down);
        }
        let known = prompts.iter().map(|command| &*command.prompt.name);
        Err(unknown_prompt(name, known))
    }

    /// Gets a prompt. Words are its arguments, by position or as `key=value`; see [`CommandLine`].
    pub async fn prompt(
        &self,
        command: &PromptCommand,
        words: &[String],
        options: ReadOptions<'_>,
    ) -> Result<PromptOutput, CallError> {
        let arguments = assign(command.arguments().as_deref(), words)
            .map_err(|problem| invalid_arguments(&command.prompt.name, problem))?;
        self.prompt_with(command, &arguments, options).await
    }

    /// As [`Host::prompt`], with named arguments. The server checks them.
    pub async fn prompt_with(
        &self,
        command: &PromptCommand,
        arguments: &[(String, String)],
        options: ReadOptions<'_>,
    ) -> Result<PromptOutput, CallError> {
        let (server, name) = (&*command.server, &*command.prompt.name);
        let connection = self.connection_to(server)?;
        let request = ReadRequest::Prompt { name, arguments };
        let subject = request.to_string();
        let result = self
            .send_read(server, &connection, request, options)
            .await?;
        let GetPromptResult {
            description,
            messages,
            omitted,
            ..
        } = GetPromptResult::from_json(&result).map_err(|problem| {
            failed(
                server,
                &connection,
                subject,
                RequestError::Malformed(problem),
            )
        })?;
        let mut messages: Vec<_> = messages.into_iter().map(shown).collect();
        if omitted > 0 {
            messages.push(PromptMessage {
                role: "user".into(),
                content: blocks_left_out(omitted),
            });
        }
        Ok(PromptOutput {
            server: Arc::clone(&command.server),
            prompt: name.to_owned(),
            description: description.map(|text| sanitize::shown(&text).0.into_owned()),
            messages,
            raw: result,
        })
    }

    /// As [`Host::prompt`], for a line such as `/mcp__server__prompt one "two words" key=value`.
    pub async fn run_prompt(
        &self,
        line: &str,
        options: ReadOptions<'_>,
    ) -> Result<PromptOutput, CallError> {
        let line = CommandLine::parse(line)
            .map_err(|problem| invalid_arguments(line, format!("cannot be read: {problem}")))?;
        let command = self.find_prompt(&line.name)?;
        self.prompt(&command, &line.words, options).await
    }

    /// Asks a server for completions of a prompt's argument or a resource template's variable.
    /// `value` is its text so far; `known` are the other values.
    pub async fn complete(
        &self,
        server: &str,
        reference: &Reference,
        (name, value): (&str, &str),
        known: &[(String, String)],
    ) -> Result<Completion, CallError> {
        let connection = self.connection_to(server)?;
        let deadline = self.request_deadline(&connection, None);
        let connected = connected(server, &connection, deadline).await?;
        if !connected.identity().capabilities.completions {
            return Err(CallError::unsupported(
                server,
                "does not complete arguments",
            ));
        }
        let asked = connected
            .client
            .complete(reference, (name, value), known, Some(deadline));
        asked.await.map_err(|error| {
            let subject = format!("completions for \"{name}\"");
            failed(server, &connection, subject, error)
        })
    }

    /// Returns the error for an unknown command: its server may be down, or it may be misspelt.
    fn missing_prompt(&self, name: &str, prompts: &[PromptCommand]) -> CallError {
        let servers = self.servers();
        let mut down = servers
            .iter()
            .filter(|status| may_belong_to(name, &status.name))
            .filter_map(|status| self.down(&status.name));
        let known = prompts.iter().map(|command| command.name.as_str());
        down.next().unwrap_or_else(|| unknown_prompt(name, known))
    }

    /// Returns an error if a server has no prompts because it is not connected.
    fn down(&self, server: &str) -> Option<CallError> {
        let status = self.server(server)?;
        let connected = matches!(status.state, State::Connected(_));
        let down = !connected && status.catalog.prompts.is_empty();
        down.then(|| CallError::not_connected(server, status.state.clone()))
    }
}

fn unknown_prompt<'k>(prompt: &str, known: impl Iterator<Item = &'k str>) -> CallError {
    CallError::from(Cause::UnknownPrompt {
        prompt: prompt.to_owned(),
        suggestion: nearest(prompt, known).map(str::to_owned),
    })
}

fn invalid_arguments(prompt: &str, problem: String) -> CallError {
    CallError::from(Cause::PromptArguments {
        prompt: prompt.to_owned(),
        problem,
    })
}

/// Sorts commands by name. Of several with the same name, the first keeps it and the others get a
/// suffix, as for tools (TOOL-1). Also returns the diagnostics.
fn sorted_and_unique(mut commands: Vec<PromptCommand>) -> (Vec<PromptCommand>, Vec<String>) {
    let order = |a: &PromptCommand, b: &PromptCommand| {
        let originals = || (&a.server, &*a.prompt.name).cmp(&(&b.server, &*b.prompt.name));
        a.name.cmp(&b.name).then_with(originals)
    };
    let mut diagnostics = Vec::new();
    commands.sort_by(order);
    // The sort is stable, so the first of two duplicates wins.
    commands.dedup_by(|later, first| {
        let same = later.server == first.server && later.prompt.name == first.prompt.name;
        if same {
            diagnostics.push(format!(
                "the prompt \"{}\" of \"{}\" is listed twice; the first counts",
                later.prompt.name, later.server
            ));
        }
        same
    });
    let to_rename: Vec<usize> = (1..commands.len())
        .filter(|at| commands[*at].name == commands[*at - 1].name)
        .collect();
    let mut taken: HashSet<String> = commands
        .iter()
        .map(|command| command.name.clone())
        .collect();
    for at in to_rename {
        let later = &mut commands[at];
        later.name = unique_name(&later.name, &later.server, &later.prompt.name, &taken);
        taken.insert(later.name.clone());
        diagnostics.push(format!(
            "the prompt \"{}\" of \"{}\" is called {}, because another has its name",
            later.prompt.name, later.server, later.name
        ));
    }
    commands.sort_by(order);
    (commands, diagnostics)
}

/// Returns a message as a model sees it (TOOL-3). A server speaks only for the user or the
/// assistant.
fn shown(message: PromptMessage) -> PromptMessage {
    let role = match &*message.role {
        "assistant" => "assistant",
        _ => "user",
    };
    PromptMessage {
        role: role.into(),
        content: shown_block(message.content),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_wire::mcp::Item;

    use super::*;

    fn command(server: &str, prompt: &str) -> PromptCommand {
        let raw = serde_json::json!({ "name": prompt });
        PromptCommand {
            name: tool_name(server, prompt),
            server: server.into(),
            prompt: Prompt::from_json(raw.into()).unwrap(),
        }
    }

    #[test]
    fn prompts_that_come_to_one_name_keep_two() {
        let same = [
            ("s", "a.b"),
            ("s", "a b"),
            ("s", "a.b"),
            ("x.y", "p"),
            ("x_y", "p"),
        ];
        let commands = |pairs: &[(&str, &str)]| {
            sorted_and_unique(
                pairs
                    .iter()
                    .map(|(server, name)| command(server, name))
                    .collect(),
            )
        };
        let (kept, told) = commands(&same);
        assert_eq!(kept.len(), 4);
        // One is listed twice, and two share a name with another.
        assert_eq!(told.len(), 3, "{told:?}");
        let mut names: Vec<_> = kept.iter().map(|command| command.name.clone()).collect();
        assert!(names.contains(&"mcp__s__a_b".to_owned()));
        let mut backwards = same;
        backwards.reverse();
        let again: Vec<_> = commands(&backwards)
            .0
            .into_iter()
            .map(|command| command.name)
            .collect();
        assert_eq!(names, again, "whatever the order");
        names.dedup();
        assert_eq!(names.len(), 4);
        // A prompt that already has the name that another would be given is kept, too.
        let given = kept
            .iter()
            .find(|command| &*command.server == "x_y")
            .unwrap();
        let taken = given.name.strip_prefix("mcp__x_y__").unwrap();
        let (kept, _) = commands(&[("x.y", "p"), ("x_y", "p"), ("x.y", taken)]);
        let mut names: Vec<_> = kept.iter().map(|command| &command.name).collect();
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");
        let long = command("s", &"p".repeat(100));
        assert_eq!(long.name.len(), 64);
    }
}
