//! Checks the features of the crate `trunkline`: none and each alone build without warnings, and
//! the bare library stays small.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::sh;

/// The number of crates in the tree of the bare library, itself included, stays below this.
const MAX_CRATES: usize = 70;

/// A cold check of all dependencies of one feature stays under this.
const LIMIT: Duration = Duration::from_mins(15);

/// The target of the tree, so that it is the same on every machine.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the checks; returns a note for the summary.
pub(crate) fn run() -> Result<String> {
    let crates = bare_crates()?;
    if crates >= MAX_CRATES {
        bail!(
            "trunkline without features has {crates} crates in its tree; the limit is {MAX_CRATES} \
             (see `cargo tree -p trunkline --no-default-features -e normal`)"
        );
    }
    let features = features()?;
    check(None)?;
    for feature in &features {
        check(Some(feature))?;
    }
    Ok(format!(
        "{} features, {crates} crates without them",
        features.len()
    ))
}

/// The number of crates in the tree of the library without features.
fn bare_crates() -> Result<usize> {
    let tree = sh::cargo(&[
        "tree",
        "--package",
        "trunkline",
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--target",
        TARGET,
    ]);
    let tree = sh::output(tree)?;
    let name_and_version = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    let crates: BTreeSet<String> = tree.lines().filter_map(name_and_version).collect();
    Ok(crates.len())
}

/// The features in `default`, which are all of them.
fn features() -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(sh::root().join("crates/host/Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().context("crates/host/Cargo.toml")?;
    let table = manifest.get("features").and_then(toml::Value::as_table);
    let table = table.context("crates/host/Cargo.toml has no features")?;
    let names = || table.keys().filter(|name| *name != "default");
    let default = table.get("default").and_then(toml::Value::as_array);
    let default: BTreeSet<&str> = default
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    if let Some(missing) = names().find(|name| !default.contains(name.as_str())) {
        bail!("the feature {missing} is not on by default");
    }
    Ok(names().cloned().collect())
}

fn check(feature: Option<&str>) -> Result<()> {
    let mut check = sh::cargo(&["clippy", "--package", "trunkline", "--no-default-features"]);
    check.args(feature.map(|feature| format!("--features={feature}")));
    // Only the compiler's warnings: a stand-in has the signature of what it stands in for.
    check.args([
        "--",
        "-D",
        "warnings",
        "-A",
        "clippy::all",
        "-A",
        "clippy::pedantic",
    ]);
    sh::run(&mut check, LIMIT)
}
