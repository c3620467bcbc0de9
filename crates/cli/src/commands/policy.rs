//! `trunkline policy`: the organisation's policy for calls (SEC-7), and what it does to a call.

use clap::{Args, Subcommand};
use serde_json::json;
use trunkline::permission::{CallVerdict, Decision, VerdictReason};
use trunkline_config::{CallPolicy, EffectRule, PermissionRule, PolicyDecision};

use super::tool_ref::{ResolvedTool, ToolRef};
use crate::args::ConfigArgs;
use crate::arguments::CallArguments;
use crate::background::Checker;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, inline};
use crate::session;
use crate::stored::{self, Catalogs};

const HELP: &str = "\
Examples:
  trunkline policy show
  trunkline policy test git push remote=origin
  trunkline policy test mcp__git__push '{\"remote\": \"evil\"}'

`test` makes no call. It exits with 0 if the call would be made or asked about, and with 5 if it
would be refused. The policy is \"callPolicy\" in the managed settings.";

/// Arguments of `policy`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Show the policy for calls and the permission rules, with their files
    Show {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Tell what would happen to a call, and by which rule
    Test {
        #[command(flatten)]
        config: ConfigArgs,

        /// The tool, and its arguments as for `call`: key=value, key:=json or {…}
        #[arg(required = true, value_name = "TOOL|ARGUMENT")]
        words: Vec<String>,

        /// Connect to the server instead of using its stored catalog
        #[arg(long)]
        refresh: bool,
    },
}

pub(crate) async fn run(config: ConfigArgs, policy: PolicyArgs, as_json: bool) -> Exit {
    match policy.command {
        PolicyCommand::Show { config: more } => show(&config.and(more), as_json),
        PolicyCommand::Test {
            config: more,
            words,
            refresh,
        } => {
            let catalogs = Catalogs::refreshed(refresh);
            test(&config.and(more), &words, catalogs, as_json).await
        }
    }
}

async fn test(config: &ConfigArgs, words: &[String], catalogs: Catalogs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured.with_catalogs(catalogs),
        Err(exit) => return exit,
    };
    let wanted = match ToolRef::parse(words, &configured) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    configured.warn_about(wanted.servers());
    let given = match CallArguments::parse(wanted.words(), None) {
        Ok(given) => given,
        Err(problem) => {
            output::error(
                &problem,
                Some("write key=value, key:=json or a JSON object"),
            );
            return Exit::Usage;
        }
    };
    let checker = Checker::of(&configured);
    let (wanted, given, checker) = (&wanted, &given, &checker);
    session::with_host(wanted.host(configured), |host| async move {
        session::ready(&host).await;
        let pool = host.pool();
        let (name, schema) = match wanted.find(&pool) {
            Some(ResolvedTool::Server(tool)) => (&tool.name, &tool.tool.input_schema),
            Some(ResolvedTool::BuiltIn(tool)) => (&tool.name, &tool.input_schema),
            None => return wanted.report_missing(&host),
        };
        let verdict = match host.judge_call(name, given.to_json(schema)) {
            Ok(verdict) => verdict,
            Err(error) => {
                output::error(&error.to_string(), error.hint().as_deref());
                return Exit::from(&error);
            }
        };
        if as_json {
            let CallVerdict {
                decision, reasons, ..
            } = &verdict;
            output::json(&json!({"tool": name, "decision": decision, "reasons": reasons}));
        } else {
            output::result(describe(name, &verdict));
            stored::note(&host, checker);
        }
        match verdict.decision {
            Decision::Deny => Exit::Refused,
            _ => Exit::Done,
        }
    })
    .await
}

/// Describes what would happen to a call, with one line for each rule.
fn describe(name: &str, verdict: &CallVerdict) -> Lines {
    let mut lines = Lines::new();
    let (style, what) = match verdict.decision {
        Decision::Deny => (Style::Failed, "refused"),
        Decision::Ask => (Style::Attention, "asked about"),
        _ => (Style::Done, "allowed"),
    };
    let line = Line::of(Style::Name, output::name(name));
    lines.push_line(line.and(Style::Plain, " would be ").and(style, what));
    for reason in &verdict.reasons {
        lines.push_line(rule_line(reason));
    }
    if verdict.reasons.is_empty() && verdict.decision == Decision::Ask {
        lines.push("  no rule matches it; typing `trunkline call` is consent");
    }
    lines
}

fn rule_line(reason: &VerdictReason) -> Line {
    let verb = match reason.decision {
        Decision::Deny => "denied",
        Decision::Ask => "asked about",
        _ => "allowed",
    };
    let mut line = Line::plain(format_args!("  {verb} by ")).hang(4);
    line.push(Style::Literal, inline(&reason.rule));
    line.push(Style::Plain, format_args!(" in {}", inline(&reason.source)));
    if let Some(why) = &reason.reason {
        line.push(Style::Plain, format_args!(": {}", inline(why)));
    }
    line
}

fn show(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    configured.warn_about(|_| false);
    let set = &configured.set;
    let permissions = &set.permissions;
    if as_json {
        let rules = |rules: &[PermissionRule]| {
            let rules = rules.iter();
            rules
                .map(|rule| json!({"rule": rule.text, "source": rule.source}))
                .collect::<Vec<_>>()
        };
        output::json(&json!({
            "callPolicy": set.call_policy.as_deref(),
            "permissions": {
                "deny": rules(&permissions.deny),
                "ask": rules(&permissions.ask),
                "allow": rules(&permissions.allow),
            },
        }));
        return Exit::Done;
    }
    let mut lines = Lines::new();
    match &set.call_policy {
        Some(policy) => lines.append(policy_lines(policy)),
        None => lines.push("there is no policy for calls"),
    }
    for (verb, rules) in [
        ("denied", &permissions.deny),
        ("asked about", &permissions.ask),
        ("allowed", &permissions.allow),
    ] {
        for rule in rules {
            let mut line = Line::of(Style::Literal, inline(&rule.text)).hang(2);
            line.push(
                Style::Plain,
                format_args!(" is {verb} in {}", inline(&rule.source)),
            );
            lines.push_line(line);
        }
    }
    output::paged(lines);
    Exit::Done
}

fn policy_lines(policy: &CallPolicy) -> Lines {
    let mut lines = Lines::new();
    lines.push(format_args!(
        "policy for calls in {}:",
        inline(&policy.source)
    ));
    if let Some(problem) = &policy.problem {
        let line = Line::plain("  ").and(Style::Failed, "every call is refused");
        lines.push_line(line.and(Style::Plain, format_args!(": {}", inline(problem))));
        return lines;
    }
    let mut put = |text: String| lines.push_line(Line::plain(format_args!("  {text}")).hang(4));
    if let Some(rule) = &policy.destructive {
        put(format!(
            "destructive tools are {}{}",
            verb(rule),
            exceptions(rule)
        ));
    }
    if let Some(rule) = &policy.open_world {
        put(format!(
            "open-world tools are {} beside {}{}",
            verb(rule),
            list(&rule.beside),
            exceptions(rule)
        ));
    }
    for limit in &policy.limits {
        let (tool, calls) = (inline(&limit.tool), limit.per_minute);
        put(format!(
            "{tool}: at most {calls} calls per minute for each tool"
        ));
    }
    for rule in &policy.arguments {
        let (tool, argument) = (inline(&rule.tool), inline(&rule.argument));
        put(format!(
            "{tool}: \"{argument}\" must fit {}",
            inline(&rule.schema.to_string())
        ));
    }
    lines
}

fn verb(rule: &EffectRule) -> &'static str {
    match rule.decision {
        PolicyDecision::Ask => "asked about",
        PolicyDecision::Deny => "denied",
    }
}

fn exceptions(rule: &EffectRule) -> String {
    let mut text = String::new();
    if !rule.also.is_empty() {
        text += &format!("; also {}", list(&rule.also));
    }
    if !rule.unless.is_empty() {
        text += &format!("; except {}", list(&rule.unless));
    }
    text
}

fn list(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| inline(name)).collect();
    names.join(", ")
}
