//! `trunkline prompt`: gets a prompt.

use std::time::Duration;

use serde::Serialize;
use trunkline::context::{
    CommandLine, PromptArgument, PromptCommand, PromptMessage, PromptOutput, ReadOptions,
};
use trunkline::tool::tool_name;
use trunkline::{CallError, Host, Json};

use super::context::{self, Request, Target};
use super::result::summary;
use crate::args::{ConfigArgs, PromptArgs};
use crate::exit::Exit;
use crate::output::{self, Stream, TextKind, inline};

pub(crate) async fn run(config: &ConfigArgs, prompt: &PromptArgs, as_json: bool) -> Exit {
    let timeout = prompt.timeout;
    let is_command = |word: &str| word.strip_prefix('/').unwrap_or(word).starts_with("mcp__");
    let literal = &prompt.literal[..];
    match &prompt.words[..] {
        [line, words @ ..] if is_command(line) => {
            // The first word may be a whole command line.
            let CommandLine {
                name, words: first, ..
            } = match CommandLine::parse(line) {
                Ok(line) => line,
                Err(problem) => {
                    output::error(&format!("cannot parse the command line: {problem}"), None);
                    return Exit::Usage;
                }
            };
            let words = [&first, words].concat();
            let given = Given {
                words: &words,
                literal,
            };
            let target = Target::Command(&name);
            context::with_target(config, target, timeout, async |host, left| {
                get_and_show(host, None, &name, given, (left, timeout), as_json).await
            })
            .await
        }
        [server, name, words @ ..] => {
            let given = Given { words, literal };
            let target = Target::Server(server);
            context::with_target(config, target, timeout, async |host, left| {
                get_and_show(host, Some(server), name, given, (left, timeout), as_json).await
            })
            .await
        }
        _ => {
            let hint =
                "usage: `trunkline prompt <server> <prompt>`; list them with `trunkline prompts`";
            output::error("no prompt given", Some(hint));
            Exit::Usage
        }
    }
}

/// The words after the prompt's name, and literal positional arguments.
#[derive(Clone, Copy)]
struct Given<'a> {
    words: &'a [String],
    literal: &'a [String],
}

async fn get_and_show(
    host: &Host,
    server: Option<&str>,
    name: &str,
    given: Given<'_>,
    (left, timeout): (Option<Duration>, Option<Duration>),
    as_json: bool,
) -> Exit {
    let asked = Request {
        listing: "prompts",
        timeout,
    };
    let command = match find(host, server, name) {
        Ok(command) => command,
        Err(error) => return context::fail(&error, asked),
    };
    let words = match assign(command.arguments().as_deref(), given) {
        Ok(words) => words,
        Err(problem) => {
            let what = format!("the prompt \"{}\" {problem}", command.prompt.name);
            let hint = "put literal words after `--`";
            output::error(&what, Some(hint));
            return Exit::Usage;
        }
    };
    let options = ReadOptions::new()
        .timeout(left)
        .on_progress(context::progress_line());
    match host.prompt(&command, &words, options).await {
        Ok(said) => {
            show(&said, as_json);
            Exit::Done
        }
        Err(error) => context::fail(&error, asked),
    }
}

/// Finds a prompt by its original name or by its command's name.
pub(crate) fn find(
    host: &Host,
    server: Option<&str>,
    name: &str,
) -> Result<PromptCommand, CallError> {
    let Some(server) = server else {
        return host.find_prompt(name);
    };
    host.prompt_of(server, name).or_else(|error| {
        let by_command = host.find_prompt(&tool_name(server, name)).ok();
        let found = by_command.filter(|command| &*command.server == server);
        found.ok_or(error)
    })
}

/// Assigns words to arguments. An undeclared key in `key=value` is an error, because it is probably
/// misspelt; a literal word takes the next free argument.
fn assign(declared: Option<&[PromptArgument]>, given: Given) -> Result<Vec<String>, String> {
    let mut words = given.words.to_vec();
    let Some(declared) = declared else {
        words.extend_from_slice(given.literal);
        return Ok(words);
    };
    let names: Vec<&str> = declared.iter().map(|argument| &*argument.name).collect();
    let mut free = names.clone();
    let mut by_position = 0;
    for word in given.words {
        match word.split_once('=') {
            Some((name, _)) if names.contains(&name) => free.retain(|other| *other != name),
            Some((name, value)) if looks_like_name(name) => {
                return Err(unknown(name, value, &names));
            }
            _ => by_position += 1,
        }
    }
    let mut places = free.into_iter().skip(by_position);
    for word in given.literal {
        words.push(match places.next() {
            Some(name) => format!("{name}={word}"),
            None => word.clone(),
        });
    }
    Ok(words)
}

fn looks_like_name(text: &str) -> bool {
    let text = text.strip_suffix(':').unwrap_or(text);
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

fn unknown(name: &str, value: &str, names: &[&str]) -> String {
    if let Some(name) = name.strip_suffix(':').filter(|name| names.contains(name)) {
        return format!("takes strings only; write {name}={value}");
    }
    let takes = match names {
        [] => "it takes none".to_owned(),
        names => format!("it takes {}", names.join(", ")),
    };
    format!(
        "has no argument \"{}\"; {takes}",
        name.trim_end_matches(':')
    )
}

fn show(said: &PromptOutput, as_json: bool) {
    if as_json {
        output::json(&document(said));
        return;
    }
    let one_voice = said.messages.iter().all(|message| &*message.role == "user");
    for PromptMessage { role, content } in &said.messages {
        if !one_voice {
            output::tool_text(&format!("[{}]", inline(role)));
        }
        let text = content.text().map(String::from);
        let text = text.unwrap_or_else(|| summary(content, Some(&said.server)));
        match output::width(Stream::Out) {
            Some(width) => output::result(output::foreign([&text], TextKind::Unknown, width)),
            None => output::tool_text(&text),
        }
    }
}

/// Returns a prompt for `--json`.
pub(crate) fn document(said: &PromptOutput) -> impl Serialize {
    PromptJson {
        server: &said.server,
        prompt: &said.prompt,
        description: said.description.as_deref(),
        messages: said.messages.iter().map(MessageJson::of).collect(),
    }
}

/// A prompt for `--json`, with messages as the server sent them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], literal: &[&str], expected: Result<&[&str], &str>) {
        let declared = ["city", "state"].map(|name| PromptArgument {
            name: name.to_owned(),
            description: None,
            required: false,
        });
        let owned =
            |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
        let given = Given {
            words: &owned(words),
            literal: &owned(literal),
        };
        let found = assign(Some(&declared), given);
        assert_eq!(found, expected.map(owned).map_err(str::to_owned));
    }

    #[test]
    fn an_undeclared_argument_is_an_error() {
        check(&["Bonn", "state=NRW"], &[], Ok(&["Bonn", "state=NRW"]));
        check(&["a+b=c", "="], &[], Ok(&["a+b=c", "="]));
        check(
            &["town=Bonn"],
            &[],
            Err("has no argument \"town\"; it takes city, state"),
        );
        check(&["city:=1"], &[], Err("takes strings only; write city=1"));
    }

    #[test]
    fn a_literal_word_takes_the_next_free_argument() {
        check(&[], &["city=x", "y"], Ok(&["city=city=x", "state=y"]));
        check(&["city=Bonn"], &["a=b"], Ok(&["city=Bonn", "state=a=b"]));
        check(&["Bonn"], &["a=b"], Ok(&["Bonn", "state=a=b"]));
        check(&["Bonn", "NRW"], &["more"], Ok(&["Bonn", "NRW", "more"]));
    }
}
