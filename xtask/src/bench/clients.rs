//! The clients: how each is called, and what cannot be called and why.

use std::path::PathBuf;

use super::install::path_text;
use super::scenarios::{Kind, Scenario, Server, Wire};

/// What we measure against; [`OURS`] comes first everywhere.
pub(super) const OURS: &str = "trunkline";

/// A program whose figures were taken once, on a machine of this class, and are not taken again here.
pub(super) const EARLIER: &str = "claude-code";

/// rmcp with an HTTP client that keeps its connections, unlike the one it makes by default.
pub(super) const POOLED: &str = "rmcp-pooled";

/// Who can be reached over HTTP here.
const HTTP: [&str; 4] = [OURS, "rmcp", POOLED, "ts1"];

/// Peers in the order of the table.
pub(super) const PEERS: [&str; 9] = [
    "rmcp",
    POOLED,
    "ts1",
    "ts2",
    "python",
    "limit",
    "mcporter",
    "inspector",
    EARLIER,
];

/// Everything a run needs: the clients and the server they talk to.
pub(super) struct Bench {
    pub(super) clients: Vec<Client>,
    /// `testkit-echo`.
    pub(super) server: String,
    /// The command of server-everything, or why there is none.
    pub(super) everything: Result<Vec<String>, String>,
    /// A command that is another real server each time, or why there is none.
    pub(super) real: Result<Vec<String>, String>,
    /// The environment of every program.
    pub(super) env: Vec<(String, String)>,
}

/// One client program.
pub(super) struct Client {
    pub(super) name: &'static str,
    /// Name and version, as shown.
    pub(super) label: String,
    /// The program with the common command line.
    pub(super) common: Call,
    /// What the one-shot scenario runs, where it is not the common program.
    pub(super) oneshot: Call,
    /// What the scenario of 30 servers runs, where it is not the common program.
    pub(super) servers: Call,
    /// Takes long to start, so it is started less often.
    pub(super) slow: bool,
    /// Divides the number of calls, so that a slow client does not take most of the run.
    pub(super) fewer_calls: usize,
}

/// A command line, or why there is none.
pub(super) enum Call {
    /// The client has no part in this scenario.
    Absent,
    /// It should have, but could not be installed or built.
    Broken(String),
    /// What to run.
    Argv(Vec<String>),
    /// Nothing to run: milliseconds and megabytes that were measured earlier.
    Earlier { ms: f64, peak_mb: f64 },
}

static ABSENT: Call = Call::Absent;

impl Call {
    /// A call of a program that may not be there.
    pub(super) fn new(program: Result<PathBuf, String>, arguments: &[&str]) -> Self {
        match program {
            Ok(program) => {
                let rest = arguments.iter().map(|&argument| argument.to_owned());
                Self::Argv(std::iter::once(path_text(&program)).chain(rest).collect())
            }
            Err(reason) => Self::Broken(reason),
        }
    }
}

impl Client {
    /// Its place in the table.
    pub(super) fn place(&self) -> usize {
        PEERS
            .iter()
            .position(|&peer| peer == self.name)
            .map_or(0, |at| at + 1)
    }

    /// The call for a scenario.
    pub(super) fn call(&self, scenario: &Scenario) -> &Call {
        if !self.takes_part(scenario) {
            return &ABSENT;
        }
        let own = match scenario.kind {
            Kind::Oneshot => &self.oneshot,
            Kind::Servers => &self.servers,
            _ => &ABSENT,
        };
        match own {
            Call::Absent => &self.common,
            own => own,
        }
    }

    fn takes_part(&self, scenario: &Scenario) -> bool {
        if self.name == OURS {
            return true;
        }
        match (scenario.wire, scenario.server) {
            _ if scenario.kind.is_ours_alone() => false,
            (Wire::Ws, _) => false,
            (Wire::Http, _) => HTTP.contains(&self.name),
            (Wire::Stdio, _) if self.name == POOLED => false,
            (Wire::Stdio, Server::Everything) => self.name != "limit",
            // Three at a time or all at once, whichever is quicker: nobody else need show how it is done.
            (Wire::Stdio, Server::Real) => self.name == "limit",
            (Wire::Stdio, Server::Echo) => true,
        }
    }

    /// How many calls it makes where another makes `scenario.n`: enough to see how slow it is.
    pub(super) fn calls(&self, scenario: &Scenario) -> usize {
        let fewer = match (scenario.wire, self.name) {
            (Wire::Http, "rmcp") => 4,
            (Wire::Http, "ts1") => 8,
            _ => self.fewer_calls,
        };
        scenario.n / fewer
    }

    /// Whether it runs the common program, which prints a report, in this kind of scenario.
    pub(super) fn reports(&self, kind: Kind) -> bool {
        match kind {
            Kind::Oneshot => matches!(self.oneshot, Call::Absent),
            Kind::Servers => matches!(self.servers, Call::Absent),
            _ => true,
        }
    }
}

/// Refuses names that are no peer's, before anything is installed.
pub(super) fn check_names(names: &[String]) -> anyhow::Result<()> {
    for name in names {
        anyhow::ensure!(
            PEERS.contains(&name.as_str()),
            "{name:?} is not a peer; there are {}",
            PEERS.join(", ")
        );
    }
    Ok(())
}
