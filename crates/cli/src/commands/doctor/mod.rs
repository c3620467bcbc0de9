//! `trunkline doctor`: checks servers step by step, and says what mends them (UI-5).
//!
//! Each step that can fail is checked by itself before the library connects; its verdict then
//! decides. [`causes`] knows the usual reasons as pure functions, the other modules gather the
//! evidence. Servers that may not run are never started.

mod bundle;
mod causes;
mod connection;
mod diagnosis;
mod entry;
mod fix;
mod folders;
pub(crate) mod known;
mod network;
mod package;
mod probe;
mod program;
mod progress;
mod report;
mod server;
mod show;
mod tar;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use trunkline::Host;
use trunkline::transport::Dialer;
use trunkline_config::redact::redact_text;
use trunkline_config::{CONNECTOR_PREFIX, Diagnostic, EntryStatus, Server, ServerSet, Severity};

use crate::args::{ConfigArgs, DoctorArgs};
use crate::exit::Exit;
use crate::output;
use crate::session::{self, Configured};

use diagnosis::Diagnosis;
use progress::Progress;
use report::{ServerReport, Step, StepName, Verdict};
use server::{Asked, Check};

/// Which steps are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Failures,
    AllSteps,
}

impl Detail {
    pub(crate) fn new(verbose: bool) -> Self {
        if verbose {
            Self::AllSteps
        } else {
            Self::Failures
        }
    }
}

/// The outcome of all checks.
#[derive(Debug, Default)]
struct Outcome {
    reports: Vec<ServerReport>,
    /// Problems of whole files.
    problems: Vec<String>,
}

impl Outcome {
    /// Returns the exit code of the first failure: of a file, or else of a server.
    fn exit(&self) -> Exit {
        if !self.problems.is_empty() {
            return Exit::Usage;
        }
        let mut failed = self.reports.iter();
        let failed = failed.find(|report| report.verdict == Verdict::Failed);
        failed.map_or(Exit::Done, |report| report.exit)
    }

    fn as_value(&self) -> Value {
        json!({
            "ok": self.exit() == Exit::Done,
            "servers": self.reports.iter().map(ServerReport::as_value).collect::<Vec<_>>(),
            "problems": self.problems,
        })
    }
}

pub(crate) async fn run(
    config: &ConfigArgs,
    args: &DoctorArgs,
    detail: Detail,
    as_json: bool,
) -> Exit {
    let mut outcome = match examine(config, &args.names).await {
        Ok(outcome) => outcome,
        Err(exit) => return exit,
    };
    let mut fixes = Vec::new();
    if args.fix || args.dry_run {
        let configured = match session::configuration(config) {
            Ok(configured) => configured,
            Err(exit) => return exit,
        };
        fixes = fix::plan(&configured, &outcome.reports);
        if !args.dry_run {
            for fix in &mut fixes {
                fix.apply(&configured);
            }
        }
        if !as_json {
            fix::print(&fixes);
        }
        if fixes.iter().any(fix::Fix::is_applied) {
            outcome = match examine(config, &args.names).await {
                Ok(outcome) => outcome,
                Err(exit) => return exit,
            };
        }
    }
    let bundled = match &args.bundle {
        Some(file) => match bundle::write(config, &outcome, file.as_deref(), args.force) {
            Ok(bundled) => Some(bundled),
            Err(exit) => return exit,
        },
        None => None,
    };
    let exit = outcome.exit();
    if as_json {
        let mut value = outcome.as_value();
        if args.fix || args.dry_run {
            value["fixes"] = fixes.iter().map(fix::Fix::as_value).collect();
        }
        if let Some(bundled) = &bundled {
            value["bundle"] = bundled.as_value();
        }
        output::json(&value);
        if exit != Exit::Done {
            let failed = outcome.reports.iter();
            let failed = failed.filter(|report| report.verdict == Verdict::Failed);
            let names: Vec<&str> = failed.map(|report| report.name.as_str()).collect();
            let what = format!("problems were found: {}", names.join(", "));
            output::error(what.trim_end_matches([':', ' ']), None);
        }
    } else {
        show::print(&outcome, detail);
        if let Some(bundled) = &bundled {
            bundled.print();
        }
        if exit != Exit::Done && !args.fix && fix::is_worthwhile(&outcome.reports) {
            output::note(
                "some of this can be fixed by `trunkline doctor --fix`; try --dry-run first",
            );
        }
    }
    exit
}

/// Checks the servers of these names, or all. An `Err` has been reported.
async fn examine(config: &ConfigArgs, names: &[String]) -> Result<Outcome, Exit> {
    let configured = session::configuration(config)?;
    let connectors = session::connectors(configured.loader.layout());
    for name in names {
        let is_connector = connectors.is_some() && name.starts_with(CONNECTOR_PREFIX);
        let is_broken = configured.set.diagnostics_for(name).any(is_error);
        if configured.foremost(name).is_none() && !is_connector && !is_broken {
            return Err(configured.unknown(name));
        }
    }
    let set = configured.set.clone();
    let wanted: Vec<String> = names.to_vec();
    let mut builder = configured.host().lazy(false);
    if !wanted.is_empty() {
        let wanted = wanted.clone();
        builder = builder.only(move |name| wanted.iter().any(|wanted| wanted == name));
    }
    let has_connector = names.iter().any(|name| name.starts_with(CONNECTOR_PREFIX));
    if let (true, Some(connectors)) = (names.is_empty() || has_connector, connectors) {
        builder = builder.connectors(connectors);
    }
    let progress = Progress::new();
    let mut outcome = None;
    let slot = &mut outcome;
    let shown = progress.clone();
    let exit = session::with_host(builder, |host| async move {
        let checked = check_all(&host, &set, &wanted, &shown).await;
        *slot = Some(checked);
        Exit::Done
    })
    .await;
    progress.clear();
    outcome.ok_or(exit)
}

fn is_error(problem: &Diagnostic) -> bool {
    problem.severity == Severity::Error
}

/// Checks the wanted servers in parallel.
async fn check_all(
    host: &Host,
    set: &ServerSet,
    wanted: &[String],
    progress: &Progress,
) -> Outcome {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let asked = if wanted.is_empty() {
        Asked::WithAll
    } else {
        Asked::ByName
    };
    let dialer = Dialer::from_env();
    let mut checks = JoinSet::new();
    let mut start = |server: &Server, set: &ServerSet| {
        let check = Check {
            host: host.clone(),
            server: server.clone(),
            problems: set.diagnostics_for(&server.entry.name).cloned().collect(),
            dialer: dialer.clone(),
            asked,
            progress: progress.clone(),
        };
        checks.spawn(check.run());
    };
    let is_shown = |server: &&Server| {
        is_wanted(&server.entry.name) && !matches!(server.status, EntryStatus::Shadowed { .. })
    };
    for server in set.servers.iter().filter(is_shown) {
        start(server, set);
    }
    // Connectors are in no file; the account lists them.
    host.ready().await;
    let found = host.config();
    let is_new = |server: &&Server| set.named(&server.entry.name).next().is_none();
    for server in found.servers.iter().filter(is_shown).filter(is_new) {
        start(server, &found);
    }
    let mut reports = Vec::new();
    while let Some(report) = checks.join_next().await {
        reports.extend(report);
    }
    reports.extend(invalid(set, &is_wanted));
    reports.sort_by(|one, other| one.name.cmp(&other.name));
    let about_files = set.diagnostics.iter();
    let about_files = about_files.filter(|problem| problem.server.is_none() && is_error(problem));
    Outcome {
        reports,
        problems: about_files
            .map(|problem| redact_text(&problem.to_string()).into_owned())
            .collect(),
    }
}

/// Returns a report for each entry that cannot be read.
fn invalid(set: &ServerSet, is_wanted: &dyn Fn(&str) -> bool) -> Vec<ServerReport> {
    let mut reports: Vec<ServerReport> = Vec::new();
    for problem in set.diagnostics.iter().filter(|problem| is_error(problem)) {
        let Some(name) = problem.server.as_deref().filter(|name| is_wanted(name)) else {
            continue;
        };
        let is_known =
            set.named(name).next().is_some() || reports.iter().any(|report| report.name == name);
        if is_known {
            continue;
        }
        let message = redact_text(&problem.message).into_owned();
        let diagnosis = Diagnosis::new("invalid-entry", format!("invalid entry: {message}"))
            .fix(format!("correct {}", problem.location()));
        let lines = set
            .diagnostics_for(name)
            .map(|problem| redact_text(&problem.to_string()).into_owned());
        reports.push(ServerReport {
            name: name.to_owned(),
            scope: None,
            transport: None,
            source: Some(problem.source.clone()),
            verdict: Verdict::Failed,
            summary: message,
            steps: vec![Step::failed(StepName::Config, diagnosis).evidence(lines)],
            exit: Exit::Usage,
        });
    }
    reports
}

/// Returns the entry in effect for a report.
fn entry_of<'c>(configured: &'c Configured, report: &ServerReport) -> Option<&'c Server> {
    configured.foremost(&report.name)
}
