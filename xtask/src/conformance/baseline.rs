//! The scenarios that do not pass yet, with reasons.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use super::baseline_path;
use super::suite::Name;
use crate::sh;

/// The scenarios of each run that do not pass, with reasons.
#[derive(Debug, Default)]
pub(super) struct Baseline(BTreeMap<String, BTreeMap<String, String>>);

impl Baseline {
    /// Reads the file. It may name only existing scenarios.
    pub(super) fn load(known: &[Name]) -> Result<Self> {
        let text = fs::read_to_string(sh::root().join(baseline_path()))
            .with_context(|| format!("could not read {}", baseline_path().display()))?;
        Self::parse(&text, known)
            .with_context(|| format!("{} cannot be used", baseline_path().display()))
    }

    fn parse(text: &str, known: &[Name]) -> Result<Self> {
        let baseline = Self(toml::from_str(text)?);
        for (run, scenarios) in &baseline.0 {
            for (scenario, reason) in scenarios {
                let is_this = |name: &Name| name.run == *run && name.scenario == *scenario;
                if !known.iter().any(is_this) {
                    bail!("the suite has no scenario \"{scenario}\" in \"{run}\"; remove its line");
                }
                if reason.trim().is_empty() {
                    bail!("\"{scenario}\" in \"{run}\" has no reason");
                }
            }
        }
        Ok(baseline)
    }

    /// Returns why a scenario is expected to fail.
    pub(super) fn reason(&self, name: &Name) -> Option<&str> {
        self.0
            .get(&name.run)?
            .get(&name.scenario)
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn entries_need_an_existing_scenario_and_a_reason() {
        let name = |scenario: &str| Name {
            run: "0.1.16".to_owned(),
            scenario: scenario.to_owned(),
        };
        let known = name("sse-retry");
        let parse = |line: &str| {
            Baseline::parse(
                &format!("[\"{}\"]\n{line}", known.run),
                slice::from_ref(&known),
            )
        };
        let good = parse("sse-retry = \"later\"").unwrap();
        assert_eq!(good.reason(&known), Some("later"));
        assert_eq!(good.reason(&name("other")), None);
        assert!(
            parse("other = \"later\"")
                .unwrap_err()
                .to_string()
                .contains("remove its line")
        );
        assert!(
            parse("sse-retry = \" \"")
                .unwrap_err()
                .to_string()
                .contains("no reason")
        );
    }
}
