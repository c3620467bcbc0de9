//! Compares the checks of two runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::conformance::scenario::Complaint;

/// The checks of a run, by scenario.
#[derive(Default)]
pub(super) struct Checks(BTreeMap<String, Vec<Check>>);

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    name: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
}

impl Check {
    fn failed(&self) -> bool {
        matches!(self.status.as_str(), "FAILURE" | "WARNING")
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.id, &self.name) == (&other.id, &other.name)
    }
}

impl Checks {
    /// Reads the folders `server-<scenario>-<time>` of the suite.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut checks = Self::default();
        let entries =
            fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(scenario) = scenario(&name) else {
                continue;
            };
            let file = entry.path().join("checks.json");
            let text = fs::read_to_string(&file)
                .with_context(|| format!("could not read {}", file.display()))?;
            let found: Vec<Check> = serde_json::from_str(&text)
                .with_context(|| format!("{} is not a list of checks", file.display()))?;
            checks
                .0
                .entry(scenario.to_owned())
                .or_default()
                .extend(found);
        }
        Ok(checks)
    }

    fn of(&self, scenario: &str) -> &[Check] {
        self.0.get(scenario).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Takes the time off the name of a result folder: `server-ping-2026-11-18T20-31-25-742Z`.
fn scenario(folder: &str) -> Option<&str> {
    let rest = folder.strip_prefix("server-")?;
    let is_year = |at: &usize| {
        let year = rest.get(at + 1..at + 5);
        year.is_some_and(|year| year.bytes().all(|byte| byte.is_ascii_digit()))
            && rest.get(at + 5..at + 6) == Some("-")
    };
    let mut dashes = rest.match_indices('-').map(|(at, _)| at);
    dashes.rfind(is_year).map(|at| &rest[..at])
}

/// Returns what fails through the gateway and not directly. A scenario without a check that passes
/// directly proves nothing.
pub(super) fn complaints(scenario: &str, direct: &Checks, through: &Checks) -> Vec<Complaint> {
    let (direct, through) = (direct.of(scenario), through.of(scenario));
    let passes = |checks: &[Check]| checks.iter().any(|check| check.status == "SUCCESS");
    let complaint = |name: &str| Complaint {
        name: name.to_owned(),
        message: String::new(),
    };
    if !passes(direct) {
        return vec![complaint("(no check passes directly)")];
    }
    if !passes(through) {
        return vec![complaint("(no check passes through the gateway)")];
    }
    let failures = |checks: &[Check], like: &Check| {
        let same = checks.iter().filter(|check| check.is_same(like));
        same.filter(|check| check.failed()).count()
    };
    let failed = through.iter().filter(|check| check.failed());
    failed
        .filter(|check| failures(through, check) > failures(direct, check))
        .map(|check| Complaint {
            name: check.name.clone(),
            message: check
                .error_message
                .clone()
                .unwrap_or_else(|| check.description.clone()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(statuses: &[(&str, &str)]) -> Checks {
        let check = |(name, status): &(&str, &str)| Check {
            id: (*name).to_owned(),
            name: (*name).to_owned(),
            status: (*status).to_owned(),
            description: String::new(),
            error_message: None,
        };
        Checks(BTreeMap::from([(
            "ping".to_owned(),
            statuses.iter().map(check).collect(),
        )]))
    }

    fn names(direct: &[(&str, &str)], through: &[(&str, &str)]) -> Vec<String> {
        let complaints = complaints("ping", &checks(direct), &checks(through));
        complaints.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn the_gateway_may_fail_only_what_fails_directly() {
        let good = ("A", "SUCCESS");
        assert!(names(&[good], &[good]).is_empty());
        assert!(names(&[good, ("B", "FAILURE")], &[good, ("B", "FAILURE")]).is_empty());
        assert!(names(&[good, ("B", "SUCCESS")], &[good, ("B", "INFO")]).is_empty());
        assert_eq!(
            names(&[good, ("B", "SUCCESS")], &[good, ("B", "WARNING")]),
            ["B"]
        );
        assert_eq!(names(&[good], &[good, ("B", "FAILURE")]), ["B"]);
        let twice = [good, ("B", "FAILURE"), ("B", "FAILURE")];
        assert_eq!(
            names(&[good, ("B", "FAILURE"), ("B", "SUCCESS")], &twice),
            ["B", "B"]
        );
    }

    #[test]
    fn a_scenario_must_pass_something_on_both_ways() {
        let good = [("A", "SUCCESS")];
        assert_eq!(names(&[], &good), ["(no check passes directly)"]);
        assert_eq!(names(&good, &[]), ["(no check passes through the gateway)"]);
        let silent = [("A", "SKIPPED")];
        assert_eq!(
            names(&good, &silent),
            ["(no check passes through the gateway)"]
        );
    }

    #[test]
    fn the_scenario_is_the_name_without_the_time() {
        let name = "server-json-schema-2020-12-2026-11-18T20-31-25-742Z";
        assert_eq!(scenario(name), Some("json-schema-2020-12"));
        assert_eq!(scenario("suite.log"), None);
    }
}
