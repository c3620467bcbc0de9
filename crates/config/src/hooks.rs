//! The hooks in settings files: commands that the host runs before and after calls and for
//! elicitations (ELI-4). Claude Code's `hooks`, of which four events concern MCP.
//!
//! A hook runs as the user, so it counts only from files that may approve (CFG-6), never from one
//! inside the repository.

use std::time::Duration;

#[cfg(feature = "hooks")]
use regex::Regex;
use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members, ParseError};
use crate::settings::{Origin, Settings};
use crate::suggest::nearest;

/// The time limit of a hook without `timeout`.
pub const HOOK_TIMEOUT: Duration = Duration::from_mins(1);

/// The longest time limit of a hook.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The most hooks of one file.
const MAX_HOOKS: usize = 1000;

/// The maximum size of a compiled pattern, in bytes.
#[cfg(feature = "hooks")]
const MAX_PATTERN: usize = 1 << 20;

/// An event that runs hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a tool is called.
    PreToolUse,
    /// After a tool has returned a result.
    PostToolUse,
    /// A server asks the user for input.
    Elicitation,
    /// The user has answered.
    ElicitationResult,
}

impl HookEvent {
    const ALL: [Self; 4] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::Elicitation,
        Self::ElicitationResult,
    ];

    /// Returns the event's name in settings files and in the input of hooks.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::Elicitation => "Elicitation",
            Self::ElicitationResult => "ElicitationResult",
        }
    }

    /// Returns whether only MCP servers cause the event. Its matchers are names of servers.
    fn is_of_servers(self) -> bool {
        matches!(self, Self::Elicitation | Self::ElicitationResult)
    }
}

/// A command to run at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hook {
    /// The event.
    pub event: HookEvent,
    /// The tools or servers that it runs for.
    pub matcher: HookMatcher,
    /// The shell command.
    pub command: String,
    /// The time limit.
    pub timeout: Duration,
    /// Whether a hook that fails blocks, as if it had exited with 2.
    pub blocks_on_failure: bool,
    /// The file that contains it.
    pub source: String,
}

impl Hook {
    /// Creates a hook of a program, which belongs to no file.
    pub fn new(
        event: HookEvent,
        matcher: HookMatcher,
        command: impl Into<String>,
        timeout: Duration,
    ) -> Self {
        Self {
            event,
            matcher,
            command: command.into(),
            timeout,
            blocks_on_failure: false,
            source: "the program".to_owned(),
        }
    }
}

/// A pattern for the names of tools (`mcp__server__tool`) or servers. Empty or `*` matches all;
/// letters, digits, `_`, `-` and `|` are alternatives to match exactly; anything else is a regular
/// expression that matches anywhere in the name.
#[derive(Clone, Debug)]
pub struct HookMatcher {
    text: String,
    pattern: Pattern,
}

#[derive(Clone, Debug)]
enum Pattern {
    All,
    AnyOf(Vec<String>),
    #[cfg(feature = "hooks")]
    Regex(Regex),
}

impl HookMatcher {
    /// Parses a matcher.
    ///
    /// # Errors
    ///
    /// The problem, if it is not a valid regular expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|');
        let pattern = match text.trim() {
            "" | "*" => Pattern::All,
            words if words.chars().all(is_plain) => {
                Pattern::AnyOf(words.split('|').map(str::to_owned).collect())
            }
            #[cfg(feature = "hooks")]
            expression => {
                let built = regex::RegexBuilder::new(expression)
                    .size_limit(MAX_PATTERN)
                    .build();
                let problem = |error: regex::Error| {
                    let text = error.to_string();
                    text.lines().last().unwrap_or_default().to_owned()
                };
                Pattern::Regex(built.map_err(problem)?)
            }
            #[cfg(not(feature = "hooks"))]
            _ => return Err("this build has no regular expressions".to_owned()),
        };
        Ok(Self {
            text: text.to_owned(),
            pattern,
        })
    }

    /// Returns whether the hook runs for this name.
    pub fn matches(&self, name: &str) -> bool {
        match &self.pattern {
            Pattern::All => true,
            Pattern::AnyOf(words) => words.iter().any(|word| word == name),
            #[cfg(feature = "hooks")]
            Pattern::Regex(regex) => regex.is_match(name),
        }
    }
}

impl Default for HookMatcher {
    /// Matches everything.
    fn default() -> Self {
        Self {
            text: String::new(),
            pattern: Pattern::All,
        }
    }
}

impl PartialEq for HookMatcher {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for HookMatcher {}

/// The hooks of one file.
#[derive(Debug, Default)]
pub(crate) struct FileHooks {
    pub(crate) hooks: Vec<Hook>,
    /// `disableAllHooks`
    pub(crate) disable_all: bool,
    /// `allowManagedHooksOnly`
    pub(crate) managed_only: bool,
}

/// Returns the hooks that count, those of managed files first.
pub(crate) fn hooks_of(files: &[Settings]) -> Vec<Hook> {
    let managed_only = files.iter().any(|file| file.hooks.managed_only);
    let is_off = |origin: fn(Origin) -> bool| {
        let mut off = files.iter().filter(|file| file.hooks.disable_all);
        off.any(|file| origin(file.origin))
    };
    // The user cannot switch the company's hooks off.
    let managed_off = is_off(|origin| origin == Origin::Managed);
    let others_off = managed_off || managed_only || is_off(Origin::may_approve);
    let counts = |file: &&Settings| match file.origin {
        Origin::Managed => !managed_off,
        origin => origin.may_approve() && !others_off,
    };
    let mut hooks: Vec<Hook> = Vec::new();
    for hook in files
        .iter()
        .filter(counts)
        .flat_map(|file| &file.hooks.hooks)
    {
        let is_same = |known: &Hook| {
            (known.event, &known.matcher, &known.command)
                == (hook.event, &hook.matcher, &hook.command)
        };
        match hooks.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.blocks_on_failure |= hook.blocks_on_failure,
            None => hooks.push(hook.clone()),
        }
    }
    hooks
}

/// Reads `hooks` of a settings file. A mistake costs its hook.
pub(crate) fn read<'a>(
    document: &Document<'a>,
    raw: &'a RawValue,
    origin: Origin,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Hook> {
    let mut reader = HookReader {
        document,
        diagnostics,
        hooks: Vec::new(),
    };
    if let Err(problem) = reader.events(raw) {
        reader.report(&problem);
    }
    if origin.may_approve() {
        return reader.hooks;
    }
    let concerns_mcp = |hook: &Hook| match &hook.matcher.pattern {
        _ if hook.event.is_of_servers() => true,
        Pattern::All => true,
        Pattern::AnyOf(words) => words.iter().any(|word| word.starts_with("mcp__")),
        #[cfg(feature = "hooks")]
        Pattern::Regex(_) => hook.matcher.text.contains("mcp"),
    };
    if reader.hooks.iter().any(concerns_mcp) {
        let message = "\"hooks\" of a repository do not run; \
                       to run them, copy them to your own settings";
        let warning = document.warning(document.offset(raw), message);
        reader.diagnostics.push(warning);
    }
    Vec::new()
}

/// Events of Claude Code that do not concern MCP servers.
const OTHER_EVENTS: [&str; 10] = [
    "Notification",
    "PermissionRequest",
    "PostToolUseFailure",
    "PreCompact",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "UserPromptSubmit",
];

/// Returns the event that a name was meant to be: a hook that never runs protects nobody.
fn misspelt(name: &str) -> Option<&'static str> {
    let ours = HookEvent::ALL.map(HookEvent::name);
    if ours.contains(&name) || OTHER_EVENTS.contains(&name) {
        return None;
    }
    // The nearest of all events, so that a new one of Claude Code is not taken for one of ours.
    let near = nearest(name, ours.into_iter().chain(OTHER_EVENTS))?;
    ours.contains(&near).then_some(near)
}

struct HookReader<'r, 'a> {
    document: &'r Document<'a>,
    diagnostics: &'r mut Vec<Diagnostic>,
    hooks: Vec<Hook>,
}

impl<'a> HookReader<'_, 'a> {
    fn report(&mut self, problem: &ParseError) {
        let message = format!("\"hooks\": {}", problem.message);
        let problem = self.document.problem(problem.offset, message);
        self.diagnostics.push(problem);
    }

    fn problem(&self, raw: &RawValue, message: impl Into<String>) -> ParseError {
        ParseError {
            offset: self.document.offset(raw),
            message: message.into(),
        }
    }

    fn events(&mut self, raw: &'a RawValue) -> Result<(), ParseError> {
        let events = self.document.members(raw)?;
        for event in HookEvent::ALL {
            let Some(raw) = events.get(event.name()) else {
                continue;
            };
            let Ok(groups) = self.document.decode::<Vec<&RawValue>>(raw) else {
                let message = format!("\"{}\" is not a list", event.name());
                self.report(&self.problem(raw, message));
                continue;
            };
            for group in groups {
                if let Err(problem) = self.group(event, group) {
                    self.report(&problem);
                }
            }
        }
        for (name, raw) in events.iter() {
            if let Some(meant) = misspelt(name) {
                let message = format!("\"{name}\" is no event; did you mean \"{meant}\"?");
                self.report(&self.problem(raw, message));
            }
        }
        Ok(())
    }

    /// Reads `{"matcher": …, "hooks": […]}`.
    fn group(&mut self, event: HookEvent, raw: &'a RawValue) -> Result<(), ParseError> {
        let members = self.document.members(raw)?;
        let matcher = match members.get("matcher") {
            None => Ok(HookMatcher::default()),
            Some(raw) => HookMatcher::parse(&self.document.decode::<String>(raw)?),
        };
        let matcher = matcher.map_err(|error| {
            let at = members.get("matcher").unwrap_or(raw);
            self.problem(at, format!("the matcher is no regular expression: {error}"))
        })?;
        let hooks = members
            .get("hooks")
            .ok_or_else(|| self.problem(raw, "expected \"hooks\", a list of commands"))?;
        for hook in self.document.decode::<Vec<&RawValue>>(hooks)? {
            match self.hook(event, &matcher, hook) {
                Ok(hook) if self.hooks.len() < MAX_HOOKS => self.hooks.extend(hook),
                Ok(_) => return Err(self.problem(raw, "too many hooks")),
                Err(problem) => self.report(&problem),
            }
        }
        Ok(())
    }

    /// Reads `{"type": "command", "command": …, "timeout": …}`. `None` for a type that Trunkline
    /// does not run, with a warning.
    fn hook(
        &mut self,
        event: HookEvent,
        matcher: &HookMatcher,
        raw: &'a RawValue,
    ) -> Result<Option<Hook>, ParseError> {
        let members: Members = self.document.members(raw)?;
        let kind: String = match members.get("type") {
            Some(kind) => self.document.decode(kind)?,
            None => "command".to_owned(),
        };
        if kind != "command" {
            let message = format!(
                "\"hooks\": a {} hook of type \"{kind}\" does not run; \
                 trunkline runs those of type \"command\"",
                event.name()
            );
            let warning = self.document.warning(self.document.offset(raw), message);
            self.diagnostics.push(warning);
            return Ok(None);
        }
        let command: String = match members.get("command") {
            Some(command) => self.document.decode(command)?,
            None => return Err(self.problem(raw, "the hook has no \"command\"")),
        };
        if command.trim().is_empty() {
            return Err(self.problem(raw, "the \"command\" of the hook is empty"));
        }
        let timeout = match members.get("timeout") {
            Some(raw) => {
                let seconds: f64 = self.document.decode(raw)?;
                Duration::try_from_secs_f64(seconds)
                    .ok()
                    .filter(|timeout| !timeout.is_zero())
                    .ok_or_else(|| self.problem(raw, "\"timeout\" is not a time in seconds"))?
            }
            None => HOOK_TIMEOUT,
        };
        let blocks_on_failure = match members.get("onFailure") {
            None => false,
            Some(raw) => self.blocks_on_failure(raw),
        };
        Ok(Some(Hook {
            event,
            matcher: matcher.clone(),
            command,
            timeout: timeout.min(MAX_TIMEOUT),
            blocks_on_failure,
            source: self.document.source().to_owned(),
        }))
    }

    /// Reads `onFailure`. An unknown value blocks: its author wants something other than the
    /// default.
    fn blocks_on_failure(&mut self, raw: &'a RawValue) -> bool {
        let value: Option<String> = self.document.decode(raw).ok();
        match value.as_deref() {
            Some("continue") => return false,
            Some("block") => return true,
            _ => {}
        }
        let message = "unknown \"onFailure\"; expected \"block\" or \"continue\"; \
                       the hook blocks if it fails";
        self.report(&self.problem(raw, message));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, origin: Origin) -> (Settings, Vec<String>) {
        let document = Document::new("f", text);
        let members = document.root().ok().unwrap();
        let mut diagnostics = Vec::new();
        let settings = Settings::read(&document, &members, origin, &mut diagnostics);
        let diagnostics = diagnostics.iter().map(ToString::to_string).collect();
        (settings, diagnostics)
    }

    fn with_command(command: &str, more: &str) -> String {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"matcher": "mcp__a__.*", "hooks": [{{"type": "command", "command": "{command}"}}]}}]}}{more}}}"#
        )
    }

    fn commands(files: &[(Origin, &str, &str)]) -> Vec<String> {
        let files: Vec<Settings> = files
            .iter()
            .map(|(origin, command, more)| settings(&with_command(command, more), *origin).0)
            .collect();
        hooks_of(&files)
            .into_iter()
            .map(|hook| hook.command)
            .collect()
    }

    #[test]
    fn misspelt_events_are_reported() {
        for (name, meant) in [
            ("PreToolUse", None),
            ("PreToolUs", Some("PreToolUse")),
            ("preToolUse", Some("PreToolUse")),
            ("pretooluse", Some("PreToolUse")),
            ("PostToolUsage", Some("PostToolUse")),
            ("Elicitations", Some("Elicitation")),
            ("elicitationresult", Some("ElicitationResult")),
            ("Stop", None),
            ("SubagentStops", None),
            ("SomethingElse", None),
        ] {
            let text = format!(r#"{{"hooks": {{"{name}": []}}}}"#);
            let (_, problems) = settings(&text, Origin::User);
            let expected = meant.map(|meant| {
                format!("\"hooks\": \"{name}\" is no event; did you mean \"{meant}\"?")
            });
            let told = problems.first();
            let agrees = match (told, expected) {
                (Some(told), Some(expected)) => told.contains(&expected),
                (told, expected) => told.is_none() && expected.is_none(),
            };
            assert!(agrees, "{name}: {problems:?}");
        }
    }

    #[test]
    fn hooks_count_from_files_that_may_approve() {
        let all = [
            (Origin::Managed, "m", ""),
            (Origin::User, "u", ""),
            (Origin::Local, "l", ""),
            (Origin::Relocated, "r", ""),
            (Origin::Project, "p", ""),
        ];
        assert_eq!(commands(&all), ["m", "u", "l"]);
        let (_, problems) = settings(&with_command("p", ""), Origin::Project);
        assert!(
            problems[0].contains("of a repository do not run"),
            "{problems:?}"
        );
        // The same command twice runs once.
        assert_eq!(
            commands(&[(Origin::User, "u", ""), (Origin::Local, "u", "")]),
            ["u"]
        );
    }

    #[test]
    fn hooks_can_be_switched_off_but_not_by_a_repository() {
        let off = r#", "disableAllHooks": true"#;
        let only = r#", "allowManagedHooksOnly": true"#;
        for (files, expected) in [
            (
                [(Origin::Managed, "m", ""), (Origin::User, "u", off)],
                &["m"][..],
            ),
            ([(Origin::Managed, "m", off), (Origin::User, "u", "")], &[]),
            (
                [(Origin::Managed, "m", only), (Origin::User, "u", "")],
                &["m"],
            ),
            (
                [(Origin::Managed, "m", ""), (Origin::User, "u", only)],
                &["m", "u"],
            ),
            (
                [(Origin::User, "u", ""), (Origin::Project, "p", off)],
                &["u"],
            ),
        ] {
            assert_eq!(commands(&files), expected, "{files:?}");
        }
    }

    #[test]
    fn a_mistake_costs_its_hook() {
        for (hooks, count, problem) in [
            (
                r#"{"PreToolUse": [{"hooks": [{"command": "a", "timeout": 5}]}]}"#,
                1,
                "",
            ),
            (
                r#"{"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}"#,
                0,
                "",
            ),
            (
                r#"{"PreToolUse": [{"matcher": "(", "hooks": [{"command": "a"}]}]}"#,
                0,
                "regular expression",
            ),
            (r#"{"PreToolUse": {"hooks": []}}"#, 0, "not a list"),
            (
                r#"{"PreToolUse": [{"hooks": [{"type": "command"}, {"command": "a"}]}]}"#,
                1,
                "no \"command\"",
            ),
            (
                r#"{"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "x"}, {"command": "a"}]}]}"#,
                1,
                "of type \"prompt\"",
            ),
            (
                r#"{"PreToolUse": [{"hooks": [{"command": " "}]}]}"#,
                0,
                "is empty",
            ),
            (
                r#"{"PreToolUse": [{"hooks": [{"command": "a", "timeout": 0}]}]}"#,
                0,
                "time in seconds",
            ),
            (
                r#"{"PreToolUse": [{}, 5, {"hooks": [{"command": "a"}]}]}"#,
                1,
                "a list of commands",
            ),
            (
                r#"{"PreToolUse": [{"hooks": [{"command": "a", "onFailure": "Block"}]}]}"#,
                1,
                "unknown \"onFailure\"",
            ),
            (r"[]", 0, "\"hooks\""),
        ] {
            let (settings, problems) = settings(&format!(r#"{{"hooks": {hooks}}}"#), Origin::User);
            assert_eq!(settings.hooks.hooks.len(), count, "{hooks}: {problems:?}");
            assert_eq!(
                problems.is_empty(),
                problem.is_empty(),
                "{hooks}: {problems:?}"
            );
            assert!(problems.concat().contains(problem), "{hooks}: {problems:?}");
        }
    }

    #[test]
    fn a_hook_that_must_not_fail_blocks() {
        let with = |on_failure: &str| {
            let text = format!(
                r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"command": "a"{on_failure}}}]}}]}}}}"#
            );
            settings(&text, Origin::User).0
        };
        for (on_failure, expected) in [
            ("", false),
            (r#", "onFailure": "continue""#, false),
            (r#", "onFailure": "block""#, true),
            (r#", "onFailure": "\u0062lock""#, true),
            (r#", "onFailure": "stop""#, true),
            (r#", "onFailure": 5"#, true),
        ] {
            let hooks = hooks_of(&[with(on_failure)]);
            assert_eq!(hooks[0].blocks_on_failure, expected, "{on_failure}");
            // The stricter of two files wins.
            let hooks = hooks_of(&[with(""), with(on_failure)]);
            assert_eq!(hooks.len(), 1);
            assert_eq!(hooks[0].blocks_on_failure, expected, "{on_failure}");
        }
    }

    #[test]
    fn a_repository_is_told_that_its_hooks_do_not_run() {
        for (event, matcher, expected) in [
            ("PreToolUse", "Bash", false),
            ("PreToolUse", "mcp__a__b", true),
            ("Elicitation", "my-server", true),
            ("ElicitationResult", "^a", true),
        ] {
            let text = format!(
                r#"{{"hooks": {{"{event}": [{{"matcher": "{matcher}", "hooks": [{{"command": "a"}}]}}]}}}}"#
            );
            let (_, problems) = settings(&text, Origin::Project);
            assert_eq!(!problems.is_empty(), expected, "{event} {matcher}");
        }
    }

    #[test]
    fn the_time_limit_is_bounded() {
        for (timeout, seconds) in [("1", 1), ("0.5", 0), ("5000", 600)] {
            let text = format!(
                r#"{{"hooks": {{"Elicitation": [{{"hooks": [{{"command": "a", "timeout": {timeout}}}]}}]}}}}"#
            );
            let (settings, _) = settings(&text, Origin::User);
            assert_eq!(settings.hooks.hooks[0].timeout.as_secs(), seconds);
        }
    }

    #[test]
    fn a_matcher_is_exact_or_a_regular_expression() {
        for (matcher, name, expected) in [
            ("", "mcp__a__b", true),
            ("*", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__b", true),
            ("mcp__a", "mcp__a__b", false),
            ("Bash|mcp__a__b", "mcp__a__b", true),
            ("mcp__a__.*", "mcp__a__b", true),
            ("mcp__.*__b", "mcp__a__b", true),
            ("^a$", "mcp__a__b", false),
            ("Bash", "mcp__a__b", false),
            ("my-server", "my-server", true),
        ] {
            let parsed = HookMatcher::parse(matcher).unwrap();
            assert_eq!(parsed.matches(name), expected, "{matcher} {name}");
        }
        assert!(HookMatcher::parse("a{1000}{1000}{1000}").is_err());
    }
}
