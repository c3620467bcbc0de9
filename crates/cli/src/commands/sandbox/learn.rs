//! `trunkline sandbox learn`: observes a server in a sandbox, and proposes the smallest profile.
//!
//! The server never runs without a sandbox. It starts with little, and is started again with what
//! it was refused, until it asks for nothing new: other directories for reading, and only with a
//! flag other directories for writing, or the network. Credentials are never granted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use trunkline::sandbox::{FileUse, LAUNCHER_ARG, Launch, Needs, Observations, Surroundings};
use trunkline::server::State;
use trunkline::{CallOptions, Host, ServerEntry, Settings};
use trunkline_config::{Secret, Server, StdioEntry, TransportEntry};
use trunkline_sandbox::{INHERITED_VARIABLES, Network, Profile, Sandbox};

use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, inline};
use crate::permit::TypedCalls;
use crate::session::{self, Configured};
use crate::standing;

const HELP: &str = "\
The server starts in a sandbox and is observed. What it was refused is granted for the next start, until
it asks for nothing new: reading by default, writing with --write, hosts with --network. Credentials,
start-up files and trunkline's own files are never granted. Only what the server does is seen: name the
tools that you use with --call.";

/// Starts until the server asks for nothing new.
const MAX_ROUNDS: usize = 12;

/// Files in which names of variables are looked for, and the longest of them.
const MAX_SOURCES: usize = 2000;
const MAX_SOURCE: u64 = 1024 * 1024;

/// How far behind `env` the name of a variable is.
const NEAR: usize = 40;

/// Arguments of `sandbox learn`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct LearnArgs {
    /// The server
    pub(super) name: String,

    /// Call a tool while the server is observed; repeatable
    #[arg(long, value_name = "TOOL[=JSON]")]
    call: Vec<String>,

    /// Let it write where it asks for
    #[arg(long)]
    write: bool,

    /// Let it reach the hosts that it asks for
    #[arg(long)]
    network: bool,
}

/// What was learnt.
struct Learnt {
    needs: Needs,
    rounds: usize,
    /// Why the server did not connect in the last round.
    failure: Option<String>,
    /// What it asked for in the last round without getting it.
    refused: Needs,
    /// Variables of ours that its program may read.
    variables: BTreeSet<String>,
    is_incomplete: bool,
}

pub(super) async fn run(
    configured: &Configured,
    server: &Server,
    args: &LearnArgs,
    as_json: bool,
) -> Exit {
    let TransportEntry::Stdio(_) = &server.entry.transport else {
        let hint = Some("only servers that trunkline starts can have a sandbox");
        output::error(
            &format!("{} is not started by trunkline", output::name(&args.name)),
            hint,
        );
        return Exit::Usage;
    };
    if !server.status.may_run() {
        return standing::refuse(server);
    }
    let calls = match args.call.iter().map(|call| parse_call(call)).collect() {
        Ok(calls) => calls,
        Err(problem) => {
            output::error(&problem, Some("write --call 'tool={\"argument\": 1}'"));
            return Exit::Usage;
        }
    };
    let learner = match Learner::new(configured, server, args, calls) {
        Ok(learner) => learner,
        Err(problem) => {
            let what = format!("{} cannot be observed: {problem}", output::name(&args.name));
            output::error(&what, None);
            return Exit::Usage;
        }
    };
    match learner.learn().await {
        Ok(learnt) => {
            show(&args.name, &learnt, as_json);
            match learnt.failure {
                None => Exit::Done,
                Some(_) => Exit::NotConnected,
            }
        }
        Err(Failure::Told(exit)) => exit,
        Err(Failure::Problem(problem)) => {
            let what = format!("{} cannot be observed: {problem}", output::name(&args.name));
            output::error(&what, None);
            Exit::NotConnected
        }
    }
}

enum Failure {
    /// It has been reported, or was an interrupt.
    Told(Exit),
    Problem(String),
}

fn parse_call(text: &str) -> Result<(String, Value), String> {
    let Some((tool, arguments)) = text.split_once('=') else {
        return Ok((text.to_owned(), json!({})));
    };
    match serde_json::from_str(arguments) {
        Ok(arguments @ Value::Object(_)) => Ok((tool.to_owned(), arguments)),
        _ => Err(format!(
            "--call {}: its arguments are no JSON object",
            inline(tool)
        )),
    }
}

struct Learner<'a> {
    configured: &'a Configured,
    entry: &'a ServerEntry,
    args: &'a LearnArgs,
    calls: Vec<(String, Value)>,
    is_quiet: bool,
    /// The sandbox whose environment, limits and ceilings count.
    sandbox: Sandbox,
    home: PathBuf,
    project: Option<PathBuf>,
}

impl<'a> Learner<'a> {
    fn new(
        configured: &'a Configured,
        server: &'a Server,
        args: &'a LearnArgs,
        calls: Vec<(String, Value)>,
    ) -> Result<Self, String> {
        let sandbox = if let Some(sandbox) = server.entry.confined()? {
            sandbox
        } else {
            let mut entry = server.entry.clone();
            entry.sandbox = Some(json!(true));
            entry.confinement = trunkline_config::Confinement::Undecided;
            entry.confined()?.ok_or("it has no sandbox")?
        };
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        Ok(Self {
            configured,
            entry: &server.entry,
            args,
            calls,
            is_quiet: output::is_json(),
            sandbox,
            home: home.ok_or("there is no home directory; set HOME")?,
            project: std::env::current_dir().ok(),
        })
    }

    async fn learn(&self) -> Result<Learnt, Failure> {
        let mut granted = Needs::default();
        granted.read.insert("project".to_owned());
        granted.write.insert("tmp".to_owned());
        let mut round = 0;
        loop {
            round += 1;
            if !self.is_quiet {
                let text = format!("start {round}, at most {MAX_ROUNDS}");
                output::note(Lines::one(text));
            }
            let launch = self.launch(&granted).map_err(Failure::Problem)?;
            let hidden = launch.rules.hidden.clone();
            let (seen, failure) = self.observe(launch).await?;
            let around = Surroundings {
                home: &self.home,
                project: self.project.as_deref(),
                hidden: &hidden,
                exists: &|path| path.symlink_metadata().is_ok(),
            };
            let needs = Needs::of(&seen, &around);
            let before = granted.clone();
            granted.read.extend(needs.read.iter().cloned());
            if self.args.write {
                granted.write.extend(needs.write.iter().cloned());
            }
            if self.args.network {
                granted.network.extend(needs.network.iter().cloned());
            }
            if before.covers(&granted) || round == MAX_ROUNDS {
                let missing = |all: &BTreeSet<String>, had: &BTreeSet<String>| {
                    all.difference(had).cloned().collect()
                };
                let mut refused = Needs::default();
                refused.read = missing(&needs.read, &before.read);
                refused.write = missing(&needs.write, &before.write);
                refused.network = missing(&needs.network, &before.network);
                return Ok(Learnt {
                    variables: self.variables(&seen),
                    is_incomplete: seen.is_incomplete,
                    needs,
                    rounds: round,
                    failure,
                    refused,
                });
            }
        }
    }

    /// The launch of a round.
    fn launch(&self, granted: &Needs) -> Result<Launch, String> {
        let mut profile = granted.profile();
        profile["network"] = json!(granted.network);
        let mut sandbox = self.sandbox.clone();
        sandbox.profile = Profile::parse(&profile, &sandbox.profile)?;
        let mut entry = self.entry.clone();
        entry.confinement = trunkline_config::Confinement::Sandboxed(Box::new(sandbox));
        let builder = session::builder(Some(self.configured.loader.layout()));
        let builder = match &self.project {
            Some(project) => builder.project_dir(project),
            None => builder,
        };
        builder
            .sandboxed(&entry)?
            .ok_or_else(|| "it has no sandbox".to_owned())
    }

    /// Starts the server once, calls the tools, and ends it.
    async fn observe(&self, mut launch: Launch) -> Result<(Observations, Option<String>), Failure> {
        let problem = |error: std::io::Error| Failure::Problem(error.to_string());
        let dir = tempfile::tempdir().map_err(problem)?;
        let file = dir.path().join("seen");
        launch.observe = Some(file.clone());
        // A proxy that lets nothing pass still sees what is asked for.
        if !matches!(launch.rules.network, Network::Hosts(_)) {
            launch.rules.network = Network::Hosts(Vec::new());
        }
        let launcher = session::sandbox_launcher();
        let launcher = launcher.as_deref().and_then(Path::to_str);
        let launcher = launcher.ok_or_else(|| Failure::Problem("no launcher".to_owned()))?;
        let variables = launch.to_variables().into_iter();
        let stdio = StdioEntry {
            command: launcher.to_owned(),
            args: vec![LAUNCHER_ARG.to_owned()],
            env: variables
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
            cwd: None,
        };
        let mut entry = ServerEntry::new(&*self.entry.name, TransportEntry::Stdio(stdio));
        entry.connect_timeout = self.entry.connect_timeout;
        entry.lazy = Some(false);
        let builder = Host::builder()
            .settings(Settings::from_env())
            .results(session::results())
            .permit(TypedCalls::default())
            .server(entry);
        let mut failure = None;
        let exit = session::with_host(builder, async |host: Host| {
            failure = self.use_server(&host).await;
            Exit::Done
        })
        .await;
        if exit != Exit::Done {
            return Err(Failure::Told(exit));
        }
        let seen = std::fs::read(&file).ok();
        let seen = seen.and_then(|text| serde_json::from_slice(&text).ok());
        match (seen, failure) {
            (Some(seen), failure) => Ok((seen, failure)),
            (None, Some(failure)) => Err(Failure::Problem(failure)),
            (None, None) => Err(Failure::Problem("its tracer was ended".to_owned())),
        }
    }

    /// Returns why the server did not connect.
    async fn use_server(&self, host: &Host) -> Option<String> {
        let status = host.ready_for(&self.entry.name).await.ok()?;
        if !matches!(status.state, State::Connected(_)) {
            let failure = status.state.failure().map(ToString::to_string);
            return Some(failure.unwrap_or_else(|| "it did not connect".to_owned()));
        }
        for (tool, arguments) in &self.calls {
            let options = CallOptions::new();
            let called = host
                .call_on(&self.entry.name, tool, arguments.clone(), options)
                .await;
            if let Err(error) = called {
                output::warning(&format!("{}: {error}", inline(tool)));
            }
        }
        None
    }

    /// Variables of ours that are named near `env` in the sources that the server has read.
    fn variables(&self, seen: &Observations) -> BTreeSet<String> {
        let ours: BTreeSet<String> = std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .filter(|name| !INHERITED_VARIABLES.contains(&name.as_str()) && name != "HOME")
            .collect();
        let own = self.entry.transport.stdio().map(|stdio| &stdio.env);
        let is_source = |path: &Path| {
            let name = path.extension().unwrap_or_default();
            ["js", "mjs", "cjs", "ts", "py", "rb", "pl"]
                .iter()
                .any(|known| name == *known)
        };
        let read = seen.files.iter().filter(|(kind, path, refused)| {
            matches!(kind, FileUse::Read | FileUse::Execute) && !refused && is_source(path)
        });
        let mut found = BTreeSet::new();
        for (_, path, _) in read.take(MAX_SOURCES) {
            let is_short = path
                .metadata()
                .is_ok_and(|file| file.is_file() && file.len() < MAX_SOURCE);
            if is_short && let Ok(text) = std::fs::read_to_string(path) {
                found.extend(
                    named_near_env(&text)
                        .filter(|name| ours.contains(*name))
                        .map(str::to_owned),
                );
            }
        }
        found.retain(|name| own.is_none_or(|own| !own.contains_key(name)));
        found
    }
}

/// The names of variables close behind `env` in a source: `process.env.NAME`, `os.environ["NAME"]`,
/// `getenv("NAME")`.
fn named_near_env(text: &str) -> impl Iterator<Item = &str> {
    let all = text.match_indices("env").chain(text.match_indices("ENV"));
    all.filter_map(|(at, _)| {
        let rest = &text[at + 3..];
        let near = &rest[..rest.floor_char_boundary(NEAR.min(rest.len()))];
        let from = near.find(|c: char| c.is_ascii_uppercase())?;
        let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let name = &rest[from..];
        let end = name.find(|c: char| !is_part(c)).unwrap_or(name.len());
        Some(&name[..end])
    })
}

fn show(name: &str, learnt: &Learnt, as_json: bool) {
    let Learnt {
        needs,
        refused,
        variables,
        ..
    } = learnt;
    if as_json {
        output::json(&json!({
            "server": name, "profile": needs.profile(), "withheld": needs.withheld,
            "refused": refused.profile(), "mayRead": variables, "starts": learnt.rounds,
            "failure": learnt.failure, "complete": !learnt.is_incomplete,
        }));
        return;
    }
    let mut lines = Lines::new();
    let starts = match learnt.rounds {
        1 => "once".to_owned(),
        rounds => format!("{rounds} times"),
    };
    let head = Line::of(Style::Name, output::name(name));
    lines.push_line(head.and(Style::Plain, format!(" was started {starts} in a sandbox")));
    let mut facts = |about: &str, list: &BTreeSet<String>, note: &str| {
        for (at, text) in list.iter().enumerate() {
            let about = if at == 0 { about } else { "" };
            let text = format!("  {about:<8} {}{note}", inline(text));
            lines.push_line(Line::of(Style::Plain, text));
        }
    };
    facts("read", &needs.read, "");
    facts("write", &needs.write, "");
    facts("network", &needs.network, "");
    facts("withheld", &needs.withheld, "");
    facts(
        "env",
        variables,
        ": its program names it; add it to \"env\" if the server needs it",
    );
    lines.push(format_args!(
        "  \"sandbox\": {}",
        inline(&needs.profile().to_string())
    ));
    output::result(lines);
    if let Some(failure) = &learnt.failure {
        output::warning(&format!("it did not connect: {}", inline(failure)));
    }
    for (list, flag) in [(&refused.write, "--write"), (&refused.network, "--network")] {
        if !list.is_empty() {
            let what = flag.trim_start_matches('-');
            output::warning(&format!(
                "it was refused some of \"{what}\", so what it does with them was not seen; {flag} \
                 grants them while it is observed"
            ));
        }
    }
    if learnt.is_incomplete {
        output::warning("it used too many files to note all of them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_are_found_in_sources() {
        let text = "const a = process.env.API_KEY; os.environ[\"TOKEN_2\"]; getenv('HOST')\n\
                    os.environ.get(\"ZONE\"), $ENV{PLACE}, environment, env";
        let found: Vec<&str> = named_near_env(text).collect();
        for name in ["API_KEY", "TOKEN_2", "HOST", "ZONE", "PLACE"] {
            assert!(found.contains(&name), "{name}: {found:?}");
        }
    }
}
