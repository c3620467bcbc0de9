//! Answers a shell that completes a command line.
//!
//! The scripts of [`scripts`] run the program with [`VARIABLE`] set. The answer comes from the
//! command line's own definition, the configuration files and the stored catalogs: nothing is
//! started, and nobody is asked.
//!
//! Names come from servers, repositories and files. Bash inserts a candidate as it is, so a name
//! such as `$(reboot)` would run with the next Enter. Therefore only values are offered that are
//! plain words to every shell ([`is_plain`]); all others have to be typed.

mod names;
mod request;
pub(crate) mod scripts;

use std::sync::Arc;

use clap::CommandFactory;
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;

use crate::args::Args;
use crate::output;

use names::{Kind, Source};
use request::Request;
pub(crate) use scripts::Shell;

/// The variable with which a script asks for candidates.
pub(crate) const VARIABLE: &str = "_TRUNKLINE_COMPLETE";

/// The most candidates, and the longest description.
const MAX_CANDIDATES: usize = 1000;
const MAX_HELP: usize = 60;

/// Answers a request of a shell. Returns whether there is one.
pub(crate) fn answer() -> bool {
    let Some(shell) = std::env::var(VARIABLE).ok() else {
        return false;
    };
    if let Some(shell) = Shell::named(&shell)
        && let Some(request) = Request::of_environment(shell)
    {
        output::result_bytes(respond(&request).as_bytes());
    }
    true
}

/// Returns the lines for the shell.
fn respond(request: &Request) -> String {
    let source = Arc::new(Source::new(request, &Args::command()));
    let mut command = command(&source);
    let words = request.words.iter().map(Into::into).collect();
    let cwd = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(
        &mut command,
        words,
        request.words.len() - 1,
        cwd.as_deref(),
    );
    let mut lines = String::new();
    let plain = found
        .unwrap_or_default()
        .into_iter()
        .filter_map(|candidate| {
            let value = candidate.get_value().to_str()?.to_owned();
            is_plain(&value).then(|| (value, help(&candidate)))
        });
    for (value, help) in plain.take(MAX_CANDIDATES) {
        if let Some(line) = request.line(&value, &help) {
            lines += &line;
            lines.push('\n');
        }
    }
    lines
}

/// Returns the definition of the command line, with completers for names.
fn command(source: &Arc<Source>) -> clap::Command {
    let attach = |command: &str, arg: clap::Arg| match Kind::of(command, arg.get_id().as_str()) {
        Some(kind) => {
            let source = Arc::clone(source);
            arg.add(ArgValueCompleter::new(move |current: &std::ffi::OsStr| {
                source.candidates(kind, current.to_str().unwrap_or_default())
            }))
        }
        None => arg,
    };
    Args::command()
        .mut_args(|arg| attach("", arg))
        .mut_subcommands(|sub| {
            let name = sub.get_name().to_owned();
            sub.mut_args(|arg| attach(&name, arg))
        })
}

/// Returns whether a value is one plain word in bash, zsh and fish: nothing in it is expanded, and
/// nothing ends it.
fn is_plain(value: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-.:/@%+,=".contains(c);
    // `=name` is a command's path in zsh.
    !value.is_empty() && !value.starts_with('=') && value.chars().all(is_part)
}

/// Returns whether a foreign name may be offered. One that starts with `-` would be an option.
fn is_plain_name(name: &str) -> bool {
    is_plain(name) && !name.starts_with('-')
}

/// Returns the description of a candidate, of letters and harmless punctuation alone.
fn help(candidate: &CompletionCandidate) -> String {
    let text = candidate.get_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let is_plain = |c: char| c.is_alphanumeric() || " .,-_/()".contains(c);
    let words: String = line
        .chars()
        .map(|c| if is_plain(c) { c } else { ' ' })
        .collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    words.join(" ").chars().take(MAX_HELP).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_are_offered() {
        for plain in [
            "github",
            "create_issue",
            "a-b.c",
            "file:///tmp/x",
            "key=value",
            "mcp__a__b",
            "zoë",
            "50%",
            "@s:uri",
        ] {
            assert!(is_plain(plain) && is_plain_name(plain), "{plain}");
        }
        for odd in [
            "",
            "a b",
            "a'b",
            "a\"b",
            "$(x)",
            "`x`",
            "a;b",
            "a|b",
            "a&b",
            "a\nb",
            "a\tb",
            "~root",
            "a*",
            "a?",
            "[a]",
            "{a,b}",
            "a\\b",
            "\u{1b}[2J",
            "!1",
            "#x",
            "=ls",
            "<x",
            ">x",
            "a\u{202e}b",
            "\u{200b}",
            "$x",
            "^a",
        ] {
            assert!(!is_plain(odd), "{odd:?}");
        }
        assert!(is_plain("--json") && !is_plain_name("--accept-changes"));
    }

    #[test]
    fn descriptions_are_words() {
        let candidate = CompletionCandidate::new("x")
            .help(Some("Runs `rm`; $(x)\u{1b}[2J: a, b (c)\nforged".into()));
        assert_eq!(help(&candidate), "Runs rm (x) 2J a, b (c)");
    }
}
