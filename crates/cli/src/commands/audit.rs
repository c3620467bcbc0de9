//! `trunkline audit`: shows and verifies the audit log (SEC-6).

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use trunkline::Json;
use trunkline::audit::{self, AuditReport, AuditSettings};

use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Line, Lines, Style, inline};
use crate::session;

const HELP: &str = "\
Examples:
  trunkline audit verify
  trunkline audit show --event call --server git -n 20
  trunkline audit tail --json

Switch the log on with \"audit\": true in ~/.claude/settings.json; an organisation may require it in
its managed settings. `verify` exits with 1 if a record was changed or removed. Keep the hash that
it prints elsewhere to prove later that nothing before it was changed.";

/// Arguments of `audit`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct AuditArgs {
    /// Read the log in this directory instead of the configured one
    #[arg(long, value_name = "DIR", global = true)]
    directory: Option<PathBuf>,

    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Check that no record was changed or removed
    Verify,
    /// Show the last records
    Show {
        #[command(flatten)]
        filter: Filter,
    },
    /// Show the last records and those to come
    Tail {
        #[command(flatten)]
        filter: Filter,
    },
}

#[derive(Args)]
struct Filter {
    /// Only records about this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Only calls of this tool, by either name
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,

    /// Only events of this kind: call, connection, approval, sign-in, configuration, …
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,

    /// The number of records
    #[arg(short = 'n', long, value_name = "COUNT")]
    lines: Option<usize>,
}

const SHOWN: usize = 50;
const SHOWN_BEFORE_TAIL: usize = 10;

pub(crate) async fn run(args: &AuditArgs, as_json: bool) -> Exit {
    let settings = AuditSettings::load(&session::layout());
    let configured = settings.map(|settings| settings.directory);
    let default = || session::layout().state_dir().join("audit");
    let is_off = configured.is_none() && args.directory.is_none();
    let dir = args
        .directory
        .clone()
        .or(configured)
        .unwrap_or_else(default);
    if is_off && !dir.exists() {
        let hint = "switch it on with \"audit\": true in ~/.claude/settings.json";
        output::error("there is no audit log", Some(hint));
        return Exit::Usage;
    }
    let done = match &args.command {
        AuditCommand::Verify => verify(&dir, as_json),
        AuditCommand::Show { filter } => show(&dir, filter, as_json),
        AuditCommand::Tail { filter } => tokio::select! {
            done = tail(&dir, filter, as_json) => done,
            () = interrupted() => Ok(Exit::Interrupted),
        },
    };
    done.unwrap_or_else(|error| {
        let dir = dir.display();
        output::error(
            &format!("the audit log in {dir} cannot be read: {error}"),
            None,
        );
        Exit::Usage
    })
}

fn verify(dir: &Path, as_json: bool) -> io::Result<Exit> {
    let report = audit::verify(dir)?;
    let is_intact = report.problems.is_empty();
    if as_json {
        let mut document = json!(report);
        document["intact"] = json!(is_intact);
        document["directory"] = json!(dir);
        output::json(&document);
    } else {
        output::result(report_lines(dir, &report));
    }
    Ok(if is_intact { Exit::Done } else { Exit::Failed })
}

fn report_lines(dir: &Path, report: &AuditReport) -> Lines {
    let mut lines = Lines::new();
    for problem in &report.problems {
        let name = problem.file.file_name().unwrap_or_default();
        let name = inline(&name.to_string_lossy());
        let place = match problem.line {
            Some(line) => format!("{name}:{line}"),
            None => name,
        };
        let line = Line::of(Style::Literal, place);
        lines.push_line(line.and(Style::Plain, format_args!(": {}", inline(&problem.problem))));
    }
    let (style, state) = if report.problems.is_empty() {
        (Style::Done, "intact")
    } else {
        (Style::Failed, "not intact")
    };
    let range = match (report.first, report.last) {
        (Some(first), Some(last)) => format!("{} records ({first} to {last})", report.records),
        _ => "no records".to_owned(),
    };
    let line = Line::of(style, state);
    let place = inline(&dir.display().to_string());
    let files = report.files;
    let files = format_args!(": {range} in {files} files of {place}");
    lines.push_line(line.and(Style::Plain, files));
    if let Some(hash) = &report.hash {
        lines.push_line(Line::plain("  last hash ").and(Style::Literal, hash));
    }
    lines
}

fn show(dir: &Path, filter: &Filter, as_json: bool) -> io::Result<Exit> {
    let count = filter.lines.unwrap_or(SHOWN);
    let found = audit::records(dir, count, |record| filter.accepts(record))?;
    if as_json {
        output::json(&found);
    } else {
        let mut lines = Lines::new();
        for record in &found {
            lines.push_line(describe(record));
        }
        output::paged(lines);
        if found.is_empty() {
            output::note("no records");
        }
    }
    Ok(Exit::Done)
}

async fn tail(dir: &Path, filter: &Filter, as_json: bool) -> io::Result<Exit> {
    let mut follow = audit::follow(dir)?;
    let count = filter.lines.unwrap_or(SHOWN_BEFORE_TAIL);
    let mut found = audit::records(dir, count, |record| filter.accepts(record))?;
    let mut last = None;
    while !output::gone() {
        for record in found {
            // A record may be found twice between the two reads.
            let seq = record.field::<u64>("seq");
            if seq.is_some() && seq <= last {
                continue;
            }
            last = seq.or(last);
            if as_json {
                output::json_line(&record);
            } else {
                let mut lines = Lines::new();
                lines.push_line(describe(&record));
                output::result(lines);
            }
        }
        found = follow.next().await?;
        found.retain(|record| filter.accepts(record));
    }
    Ok(Exit::Done)
}

impl Filter {
    fn accepts(&self, record: &Json) -> bool {
        let is = |key: &str, wanted: &str| {
            record
                .field::<String>(key)
                .is_some_and(|found| found == wanted)
        };
        let event = self.event.as_deref().is_none_or(|event| is("event", event));
        let tool = self.tool.as_deref();
        let tool = tool.is_none_or(|tool| is("tool", tool) || is("name", tool));
        let server = self.server.as_deref().is_none_or(|server| {
            let servers = record.field::<Vec<String>>("servers").unwrap_or_default();
            is("server", server) || servers.iter().any(|found| found == server)
        });
        event && tool && server
    }
}

/// Describes a record on one line.
fn describe(record: &Json) -> Line {
    let record = record.to_value().unwrap_or_default();
    let text = |key: &str| record[key].as_str().map(inline).unwrap_or_default();
    let mut line = Line::of(Style::Dim, text("time")).hang(4);
    line.push(Style::Name, format_args!(" {}", text("event")));
    let mut put = |style: Style, text: &str| {
        if !text.is_empty() {
            line.push(Style::Plain, " ");
            line.push(style, text);
        }
    };
    let subject = [text("tool"), text("server"), list(&record["servers"])];
    let subject = subject.iter().find(|text| !text.is_empty());
    put(
        Style::Literal,
        subject.map(String::as_str).unwrap_or_default(),
    );
    for key in ["state", "action", "outcome"] {
        let value = text(key);
        let style = match value.as_str() {
            "ok" | "connected" | "done" => Style::Done,
            "refused" | "failed" | "tool-error" => Style::Failed,
            _ => Style::Plain,
        };
        put(style, &value);
    }
    if let Some(micros) = record["micros"].as_u64() {
        let millis = format!("{}.{} ms", micros / 1000, micros / 100 % 10);
        put(Style::Dim, &millis);
    }
    if let Some(changes) = record["changes"].as_object() {
        for (kind, names) in changes {
            put(Style::Plain, &format!("{}: {}", inline(kind), list(names)));
        }
    }
    put(Style::Plain, &text("decision"));
    let rule = text("rule");
    if !rule.is_empty() {
        put(Style::Plain, &format!("by {rule}"));
    }
    let reason = text("reason");
    if !reason.is_empty() {
        put(Style::Plain, &format!("({reason})"));
    }
    line
}

fn list(names: &Value) -> String {
    let names = names.as_array().into_iter().flatten();
    let names: Vec<_> = names.filter_map(Value::as_str).map(inline).collect();
    names.join(", ")
}
