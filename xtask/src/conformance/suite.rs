//! Installs the suite into `target/conformance` and lists its scenarios.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{interop, sh};

/// The npm package.
const PACKAGE: &str = "@modelcontextprotocol/conformance";

/// The SDKs behind the suite's servers and behind those of `crates/conformance/server`.
const SDK: [(&str, &str); 3] = [
    ("@modelcontextprotocol/sdk", "1.32.2"),
    ("@modelcontextprotocol/server", "2.4.0"),
    ("@modelcontextprotocol/node", "2.1.2"),
];

/// The runs: a version of the suite and a selection of scenarios.
const RUNS: [Run; 4] = [
    Run {
        suite: "0.1.16",
        which: Which::All,
    },
    Run {
        suite: "0.2.0-alpha.12",
        which: Which::Spec("2025-11-25"),
    },
    Run {
        suite: "0.2.0-alpha.12",
        which: Which::Spec("2026-07-28"),
    },
    Run {
        suite: "0.2.0-alpha.12",
        which: Which::Rest,
    },
];

/// A version of the suite and a selection of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    suite: &'static str,
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// All scenarios, each at the version that the suite chooses.
    All,
    /// The scenarios of a version of the specification.
    Spec(&'static str),
    /// Extensions, and scenarios of no other selection.
    Rest,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.which {
            Which::All => f.write_str(self.suite),
            Which::Spec(version) => write!(f, "{} {version}", self.suite),
            Which::Rest => write!(f, "{} rest", self.suite),
        }
    }
}

/// A scenario as the baseline and the table name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The run.
    pub(super) run: String,
    pub(super) scenario: String,
}

/// One scenario of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    run: Run,
    pub(super) scenario: String,
}

impl Case {
    /// Returns the run's name in the baseline: version and selection.
    pub(super) fn run(&self) -> String {
        self.run.to_string()
    }

    /// Returns its name.
    pub(super) fn name(&self) -> Name {
        Name {
            run: self.run(),
            scenario: self.scenario.clone(),
        }
    }

    /// Returns the command that runs this scenario, without the client and the result folder.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let mut command = suite(folder, self.run.suite);
        command.args(["client", "--scenario", &self.scenario]);
        if let Which::Spec(version) = self.run.which {
            command.args(["--spec-version", version]);
        }
        command
    }
}

/// Installs exactly these versions into `target/conformance`, unless the stamp matches.
pub(super) fn install(never: bool) -> Result<PathBuf> {
    let folder = sh::root().join("target/conformance");
    let stamp = folder.join("installed");
    let packages = packages();
    let wanted = format!("{}\n{}", interop::node_package()?, packages.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        println!("target/conformance is up to date");
        return Ok(folder);
    }
    if never {
        bail!("target/conformance does not hold the suite; run without --no-install");
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("could not clear target/conformance")?;
    }
    fs::create_dir_all(&folder).context("could not create target/conformance")?;
    interop::ensure_system_packages(&[interop::NPM_PROGRAM])?;
    interop::install_npm(&folder, packages)?;
    fs::write(&stamp, wanted).context("could not write the stamp of target/conformance")?;
    Ok(folder)
}

/// Returns the npm packages, each version under an alias.
fn packages() -> Vec<String> {
    let mut versions: Vec<&str> = RUNS.iter().map(|run| run.suite).collect();
    versions.dedup();
    let suites = versions
        .into_iter()
        .map(|version| format!("{}@npm:{PACKAGE}@{version}", alias(version)));
    suites.chain(interop::specs(&SDK, "@")).collect()
}

fn alias(version: &str) -> String {
    format!("suite-{version}")
}

pub(super) fn suite(folder: &Path, version: &str) -> Command {
    let modules = folder.join("node_modules");
    let mut command = Command::new(modules.join(".bin/node"));
    command.arg(modules.join(alias(version)).join("dist/index.js"));
    command
}

/// Returns all scenarios in the order of the table.
pub(super) fn cases(folder: &Path) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for run in RUNS {
        let mut scenarios = scenarios(folder, run)?;
        if run.which == Which::Rest {
            let elsewhere = |name: &String| {
                let mut same_suite = cases.iter().filter(|case| case.run.suite == run.suite);
                same_suite.any(|case| case.scenario == *name)
            };
            scenarios.retain(|name| !elsewhere(name));
        }
        cases.extend(scenarios.into_iter().map(|scenario| Case { run, scenario }));
    }
    Ok(cases)
}

fn scenarios(folder: &Path, run: Run) -> Result<Vec<String>> {
    let mut list = suite(folder, run.suite);
    list.args(["list", "--client"]);
    if let Which::Spec(version) = run.which {
        list.args(["--spec-version", version]);
    }
    listed(&mut list).with_context(|| format!("the suite {run} cannot be used"))
}

/// Runs a command that lists scenarios.
pub(super) fn listed(command: &mut Command) -> Result<Vec<String>> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("could not start the suite")?;
    let names = names(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() || names.is_empty() {
        bail!("the suite lists no scenarios");
    }
    Ok(names)
}

/// Parses lines such as `  - tools_call [2025-06-18,2025-11-25]`.
fn names(list: &str) -> Vec<String> {
    list.lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_read_from_the_list() {
        let list = "Client scenarios (test against a client):\n  - initialize [2025-06-18]\n  - auth/dpop [extension]\n";
        assert_eq!(names(list), ["initialize", "auth/dpop"]);
    }

    #[test]
    fn every_version_of_the_suite_has_a_name_of_its_own() {
        let expected = [
            "suite-0.1.16@npm:@modelcontextprotocol/conformance@0.1.16",
            "suite-0.2.0-alpha.12@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
            "@modelcontextprotocol/sdk@1.32.2",
            "@modelcontextprotocol/server@2.4.0",
            "@modelcontextprotocol/node@2.1.2",
        ];
        assert_eq!(packages(), expected);
    }
}
