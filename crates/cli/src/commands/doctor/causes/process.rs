//! Why a server's process does not answer: from its output and its end.

use super::super::diagnosis::{Diagnosis, Subject};
use super::{node, package};
use crate::standing::quoted;

/// What a process left behind.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct ProcessEvidence<'a> {
    /// The command and its arguments.
    pub(in super::super) argv: &'a [&'a str],
    pub(in super::super) stderr: &'a [String],
    /// The first output on stdout that is not a message.
    pub(in super::super) stdout: Option<&'a str>,
    /// Whether it ended by itself.
    pub(in super::super) exited: bool,
}

impl<'a> ProcessEvidence<'a> {
    /// Returns all lines that it wrote.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        let stderr = self.stderr.iter().map(String::as_str);
        self.stdout.into_iter().flat_map(str::lines).chain(stderr)
    }

    pub(super) fn says(&self, part: &str) -> bool {
        self.lines().any(|line| line.contains(part))
    }

    /// Returns the words that select the program, quoted: `npx -y PACKAGE`, or just the program.
    fn launch_words(&self) -> Vec<String> {
        let runs_packages = matches!(self.program(), "npx" | "uvx" | "bunx" | "pnpx");
        let package = self.argv.iter().skip(1);
        let package = package.take_while(|word| word.starts_with('-')).count() + 1;
        let end = if runs_packages { package + 1 } else { 1 };
        self.argv
            .iter()
            .take(end)
            .map(|word| quoted(word))
            .collect()
    }

    /// Returns the name of the program, without directories.
    pub(super) fn program(&self) -> &'a str {
        let command = self.argv.first().copied().unwrap_or_default();
        command.rsplit(['/', '\\']).next().unwrap_or_default()
    }
}

/// Returns the cause. The more specific ones come first.
pub(in super::super) fn diagnose(
    subject: &Subject,
    process: &ProcessEvidence,
) -> Option<Diagnosis> {
    package::npx_prompt(subject, process)
        .or_else(|| package::docker(process))
        .or_else(|| package::not_found(subject, process))
        .or_else(|| package::version_not_found(subject, process))
        .or_else(|| package::registry_unreachable(subject, process))
        .or_else(|| missing_variable(subject, process))
        .or_else(|| node::too_old(subject, process.stderr))
        .or_else(|| package::missing_module(subject, process))
        .or_else(|| port_in_use(process))
        .or_else(|| usage(subject, process))
        .or_else(|| stdout_text(subject, process))
}

/// An environment variable that the server asks for.
fn missing_variable(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let variable = process.lines().find_map(variable_asked_for)?;
    let message = format!("{variable} is not set in its environment");
    let options = format!("-e {variable}=VALUE");
    let fix = subject.edit(&options, &format!("set \"{variable}\" under \"env\""));
    Some(Diagnosis::new("missing-variable", message).fix(fix))
}

/// Returns the variable that a line reports as missing.
fn variable_asked_for(line: &str) -> Option<&str> {
    const PHRASES: [&str; 15] = [
        "not set",
        "is required",
        "are required",
        "must be set",
        "must set",
        "missing",
        "please set",
        "not provided",
        "is not defined",
        "is undefined",
        "is unset",
        "not found",
        "required environment",
        "need to set",
        "must provide",
    ];
    // A name in the code is not a variable of the environment.
    if line.contains("ReferenceError") || line.trim_start().starts_with("at ") {
        return None;
    }
    if let Some(rest) = after(line, "KeyError: '") {
        return rest
            .split('\'')
            .next()
            .filter(|name| is_variable(name, true));
    }
    let lower = line.to_lowercase();
    if !PHRASES.iter().any(|phrase| lower.contains(phrase)) {
        return None;
    }
    let about_environment = lower.contains("environment") || lower.contains("env var");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = line.split(|c| !is_part(c));
    words.find(|word| is_variable(word, about_environment))
}

/// Returns whether a word looks like the name of a variable. `sure` accepts it without `_`.
fn is_variable(word: &str, sure: bool) -> bool {
    let is_name = word.starts_with(|c: char| c.is_ascii_uppercase())
        && word
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_code = word.starts_with("ERR_") || matches!(word, "MODULE_NOT_FOUND" | "NOT_FOUND");
    is_name && !is_code && word.len() >= 3 && (sure || word.contains('_'))
}

fn port_in_use(process: &ProcessEvidence) -> Option<Diagnosis> {
    let line = process.lines().find(|line| {
        line.contains("EADDRINUSE") || line.to_lowercase().contains("address already in use")
    })?;
    let port = line.rsplit(':').next().map(str::trim);
    let port = port.filter(|port| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()));
    let (message, fix) = match port {
        Some(port) => (
            format!("another process uses the port {port} that the server wants"),
            format!("find it with `lsof -i :{port}`, and stop it"),
        ),
        None => (
            "another process uses the port that the server wants".to_owned(),
            "stop the other process".to_owned(),
        ),
    };
    Some(Diagnosis::new("port-in-use", message).fix(fix))
}

/// A program that explains how it is used, and exits.
fn usage(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let shows_usage = |line: &str| line.trim_start().to_lowercase().starts_with("usage:");
    if !process.exited || !process.lines().any(shows_usage) {
        return None;
    }
    let is_error = |line: &&str| {
        let lower = line.to_lowercase();
        !shows_usage(line) && (lower.contains("error") || lower.contains("required"))
    };
    let message = match process.lines().find(is_error) {
        Some(error) => format!(
            "the program does not accept its arguments: {}",
            error.trim()
        ),
        None => "the program prints its usage and exits: its arguments are wrong".to_owned(),
    };
    let command = process.launch_words().join(" ");
    let fix = subject.edit(&format!("-- {command} ARGS"), "correct the \"args\"");
    Some(Diagnosis::new("usage", message).fix(fix))
}

/// A program that prints text where only messages belong.
fn stdout_text(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let text = process.stdout?.trim();
    let shown: String = text.chars().take(80).collect();
    let message = format!("stdout has text that is not MCP: {shown:?}");
    let fix = format!(
        "a server must log to stderr; select its stdio mode, or silence it: {}",
        subject.edit("--arg OPTION", "change the \"args\"")
    );
    Some(Diagnosis::new("stdout-text", message).fix(fix))
}

/// Returns the part of a line after a text.
pub(super) fn after<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    line.split_once(text).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use trunkline_config::{Scope, ServerEntry};

    use super::*;

    struct Case {
        argv: &'static [&'static str],
        stderr: &'static str,
        stdout: Option<&'static str>,
        exited: bool,
    }

    const EXITED: Case = Case {
        argv: &["npx", "-y", "pkg"],
        stderr: "",
        stdout: None,
        exited: true,
    };

    fn check(case: &Case, expected: Option<(&str, &str, &str)>) {
        let mut entry = ServerEntry::stdio("s", case.argv[0], case.argv[1..].to_vec());
        entry.scope = Scope::User;
        let stderr: Vec<String> = case.stderr.lines().map(str::to_owned).collect();
        let process = ProcessEvidence {
            argv: case.argv,
            stderr: &stderr,
            stdout: case.stdout,
            exited: case.exited,
        };
        let found = diagnose(&Subject::of_entry(&entry), &process);
        let found = found.map(|found| (found.cause, found.message, found.fix.unwrap_or_default()));
        let expected =
            expected.map(|(cause, message, fix)| (cause, message.to_owned(), fix.to_owned()));
        assert_eq!(
            found.as_ref().map(|(a, b, c)| (*a, b.clone(), c.clone())),
            expected,
            "{}",
            case.stderr
        );
    }

    #[test]
    fn npx_that_waits_for_an_answer_gets_a_yes() {
        let asks = "Need to install the following packages:\n  pkg@1.0.0\nOk to proceed? (y) ";
        let case = Case {
            argv: &["npx", "pkg", "a b"],
            stderr: asks,
            exited: false,
            ..EXITED
        };
        check(
            &case,
            Some((
                "npx-prompt",
                "npx asks whether to install the package, and waits",
                "trunkline edit s -- npx -y pkg 'a b'",
            )),
        );
        check(
            &Case {
                argv: &["npx", "-y", "pkg"],
                stderr: asks,
                ..EXITED
            },
            None,
        );
        let on_stdout = Case {
            argv: &["/usr/bin/npx", "pkg"],
            stdout: Some(asks),
            ..EXITED
        };
        check(
            &on_stdout,
            Some((
                "npx-prompt",
                "npx asks whether to install the package, and waits",
                "trunkline edit s -- /usr/bin/npx -y pkg",
            )),
        );
    }

    #[test]
    fn a_missing_variable_is_named() {
        for (line, variable) in [
            ("Error: API_KEY is not set", Some("API_KEY")),
            (
                "BRAVE_API_KEY environment variable is required",
                Some("BRAVE_API_KEY"),
            ),
            (
                "Missing required environment variable: DATABASE",
                Some("DATABASE"),
            ),
            (
                "error: please set $GITHUB_TOKEN first",
                Some("GITHUB_TOKEN"),
            ),
            ("KeyError: 'OPENAI_KEY'", Some("OPENAI_KEY")),
            ("KeyError: 'name'", None),
            (
                "SLACK_BOT_TOKEN and SLACK_TEAM_ID must be set",
                Some("SLACK_BOT_TOKEN"),
            ),
            ("ReferenceError: MY_CONST is not defined", None),
            ("npm error code MODULE_NOT_FOUND", None),
            ("TOKEN is not set", None),
            ("all is well with API_KEY", None),
            ("the file is not found", None),
        ] {
            assert_eq!(variable_asked_for(line), variable, "{line}");
        }
        check(
            &Case {
                stderr: "boot\nError: API_KEY is not set\n    at main.js:3",
                ..EXITED
            },
            Some((
                "missing-variable",
                "API_KEY is not set in its environment",
                "trunkline edit s -e API_KEY=VALUE",
            )),
        );
    }

    #[test]
    fn a_missing_package_is_named() {
        let npm = "npm error code E404\nnpm error 404 Not Found - GET x\nnpm error 404\n\
                   npm error 404  '@acme/mcp@latest' is not in this registry.";
        check(
            &Case {
                stderr: npm,
                ..EXITED
            },
            Some((
                "package-not-found",
                "the registry has no package \"@acme/mcp\", or you may not read it",
                "trunkline edit s -- npx -y CORRECT-NAME",
            )),
        );
        check(
            &Case {
                argv: &["npx", "-y", "@acme/mcp@9.9.9", "--token=x"],
                stderr: "npm error code ETARGET\nnpm error notarget No matching version found for \
                         @acme/mcp@9.9.9.\nnpm error notarget In most cases",
                ..EXITED
            },
            Some((
                "version-not-found",
                "the registry has no version 9.9.9 of \"@acme/mcp\"",
                "trunkline edit s -- npx -y @acme/mcp@CORRECT-VERSION",
            )),
        );
        let argv = &["uvx", "mcp-servr"];
        for stderr in [
            "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because mcp-servr was \
             not found in the package registry and you require mcp-servr, we can conclude",
            "ERROR: No matching distribution found for mcp-servr",
        ] {
            check(
                &Case {
                    argv,
                    stderr,
                    ..EXITED
                },
                Some((
                    "package-not-found",
                    "the registry has no package \"mcp-servr\"",
                    "trunkline edit s -- uvx CORRECT-NAME",
                )),
            );
        }
    }

    #[test]
    fn other_causes_are_told_apart() {
        for (stderr, cause) in [
            ("npm error code EAI_AGAIN", Some("registry-unreachable")),
            (
                "Error: Cannot find module '/srv/index.js'",
                Some("module-not-found"),
            ),
            (
                "ModuleNotFoundError: No module named 'mcp'",
                Some("module-not-found"),
            ),
            (
                "Error: listen EADDRINUSE: address already in use :::3000",
                Some("port-in-use"),
            ),
            (
                "error: the following arguments are required: --db\nusage: s [-h] --db DB",
                Some("usage"),
            ),
            ("Usage: server [options]", Some("usage")),
            ("Segmentation fault", None),
            ("", None),
        ] {
            let stderr: Vec<String> = stderr.lines().map(str::to_owned).collect();
            let entry = ServerEntry::stdio("s", "node", ["x"]);
            let process = ProcessEvidence {
                argv: &["node", "x"],
                stderr: &stderr,
                stdout: None,
                exited: true,
            };
            let found = diagnose(&Subject::of_entry(&entry), &process);
            assert_eq!(found.map(|found| found.cause), cause, "{stderr:?}");
        }
    }

    #[test]
    fn text_on_stdout_is_quoted_on_one_line() {
        check(
            &Case {
                stdout: Some("Welcome!\nerror: forged"),
                exited: false,
                ..EXITED
            },
            Some((
                "stdout-text",
                "stdout has text that is not MCP: \"Welcome!\\nerror: forged\"",
                "a server must log to stderr; select its stdio mode, or silence it: \
                 trunkline edit s --arg OPTION",
            )),
        );
    }
}
