//! What the launcher is told.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::rules::Rules;

/// The first argument of a program that is started as the launcher.
pub const LAUNCHER_ARG: &str = "__sandbox";

/// The name of the program that is only a launcher, and starts faster than all of `trunkline`.
pub const LAUNCHER_PROGRAM: &str = "trunkline-sandbox";

/// The variables that carry a [`Launch`] begin with this; a number follows.
pub const SPEC_VARIABLE: &str = "TRUNKLINE_SANDBOX_";

/// Variables that every server gets, if they are set.
pub const INHERITED_VARIABLES: [&str; 6] = ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"];

/// The kernel limits one variable to 128 KiB.
const CHUNK: usize = 96 * 1024;

/// A server to start in a sandbox.
///
/// A launcher of another version refuses what it does not know: it might be a restriction.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Launch {
    /// The rules.
    pub rules: Rules,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// Whether it may start elsewhere if it cannot see its working directory.
    pub cwd_optional: bool,
    /// A file to write [`Observations`](crate::Observations) to: the server is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<PathBuf>,
}

/// Does not show the values of variables: they may be secrets (SEC-1).
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Launch")
            .field("rules", &self.rules)
            .field("command", &self.command)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Launch {
    /// A server with these rules. `own` are the variables of its entry; `inherited` looks up those
    /// of this process.
    pub fn new(
        rules: Rules,
        command: impl Into<String>,
        args: Vec<String>,
        own: BTreeMap<String, String>,
        inherited: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                env.insert(name.to_owned(), value);
            }
        };
        for name in INHERITED_VARIABLES {
            set(name, inherited(name));
        }
        set("HOME", Some("/tmp".to_owned()));
        set("TMPDIR", Some("/tmp".to_owned()));
        if rules.cache.is_some() {
            set("npm_config_cache", Some("/tmp/.cache/npm".to_owned()));
        }
        for name in &rules.env {
            set(name, inherited(name));
        }
        env.extend(own);
        Self {
            rules,
            command: command.into(),
            args,
            env,
            cwd: None,
            cwd_optional: true,
            observe: None,
        }
    }

    /// The variables that tell the launcher.
    pub fn to_variables(&self) -> Vec<(String, String)> {
        let text = serde_json::json!(self).to_string();
        let mut variables = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let end = rest.floor_char_boundary(CHUNK.min(rest.len()));
            let (chunk, more) = rest.split_at(end);
            variables.push((
                format!("{SPEC_VARIABLE}{}", variables.len()),
                chunk.to_owned(),
            ));
            rest = more;
        }
        variables
    }

    /// Reads the variables that [`Launch::to_variables`] wrote.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let numbered = (0..).map_while(|number| variable(&format!("{SPEC_VARIABLE}{number}")));
        let text: String = numbered.collect();
        if text.is_empty() {
            return Err(
                "only trunkline itself starts this; use `trunkline sandbox try`".to_owned(),
            );
        }
        serde_json::from_str(&text).map_err(|error| format!("the rules are unreadable: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::resolve::Places;

    fn launch(own: &[(&str, &str)]) -> Launch {
        let profile = Profile {
            env: vec!["WANTED".to_owned()],
            ..Profile::default()
        };
        let rules = profile.resolve(&Places::new("/h").project("/p")).unwrap();
        let own = own
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Launch::new(rules, "c", Vec::new(), own.collect(), |name| {
            Some(format!("our {name}"))
        })
    }

    #[test]
    fn the_environment_is_cleared_but_for_a_list() {
        let launch = launch(&[("TOKEN", "t"), ("LANG", "C")]);
        let names: Vec<&str> = launch.env.keys().map(String::as_str).collect();
        let expected = [
            "HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TERM", "TMPDIR", "TOKEN", "TZ", "WANTED",
        ];
        assert_eq!(names, expected);
        assert_eq!((&*launch.env["HOME"], &*launch.env["LANG"]), ("/tmp", "C"));
        assert!(!format!("{launch:?}").contains("our WANTED"));
    }

    #[test]
    fn long_values_reach_the_launcher() {
        let launch = launch(&[("LONG", &"é\"".repeat(200_000))]);
        let variables: BTreeMap<_, _> = launch.to_variables().into_iter().collect();
        assert!(variables.len() > 1 && variables.values().all(|value| value.len() < 128 * 1024));
        assert_eq!(
            Launch::from_variables(|name| variables.get(name).cloned()),
            Ok(launch)
        );
        assert!(Launch::from_variables(|_| None).is_err());
    }
}
