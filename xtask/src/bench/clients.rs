//! The clients: how each is called, and what cannot be called and why.

use std::path::PathBuf;

use super::install::path_text;
use super::scenarios::Kind;

/// What we measure against; [`OURS`] comes first everywhere.
pub(super) const OURS: &str = "trunkline";

/// Peers in the order of the table.
pub(super) const PEERS: [&str; 7] = [
    "rmcp",
    "ts1",
    "ts2",
    "python",
    "limit",
    "mcporter",
    "inspector",
];

/// Everything a run needs: the clients and the server they talk to.
pub(super) struct Bench {
    pub(super) clients: Vec<Client>,
    /// `testkit-echo`.
    pub(super) server: String,
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
}

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

    /// The call for a kind of scenario.
    pub(super) fn call(&self, kind: Kind) -> &Call {
        match (kind, &self.oneshot) {
            (Kind::Oneshot, Call::Argv(_) | Call::Broken(_)) => &self.oneshot,
            _ => &self.common,
        }
    }

    /// Whether it runs the common program, which prints a report, in this kind of scenario.
    pub(super) fn reports(&self, kind: Kind) -> bool {
        kind != Kind::Oneshot || matches!(self.oneshot, Call::Absent)
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
