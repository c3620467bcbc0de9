//! Which sandbox a server gets: what its entry asks for, and what settings require.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::shown;
use crate::profile::{DEFAULT_PROFILE, Profile};
use crate::resolve::Places;
use crate::rules::Rules;

/// The `sandbox` of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// `false`: none.
    Off,
    /// `true` or a name: this profile.
    Named(String),
    /// An object: this profile, with the fields of the object in place of its own.
    Own {
        /// The profile.
        profile: String,
        /// The object.
        fields: Value,
    },
}

impl Request {
    /// Reads the `sandbox` of an entry.
    pub fn parse(value: &Value) -> Result<Self, String> {
        match value {
            Value::Bool(false) => Ok(Self::Off),
            Value::Bool(true) => Ok(Self::Named(DEFAULT_PROFILE.to_owned())),
            Value::String(name) => Ok(Self::Named(name.clone())),
            Value::Object(fields) => {
                let profile = match fields.get("profile") {
                    None => DEFAULT_PROFILE.to_owned(),
                    Some(Value::String(name)) => name.clone(),
                    Some(_) => return Err("\"profile\": expected a name".to_owned()),
                };
                Ok(Self::Own {
                    profile,
                    fields: value.clone(),
                })
            }
            _ => Err("expected true, a profile's name or an object".to_owned()),
        }
    }

    /// Checks everything that does not depend on the settings.
    pub fn check(value: &Value, dir: Option<&Path>) -> Result<(), String> {
        if let Self::Own { fields, .. } = Self::parse(value)? {
            Profile::parse_in(&fields, &Profile::default(), dir)?;
        }
        Ok(())
    }
}

/// Whom the profile of a requirement bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bounds {
    /// Every server: the requirement names the profile.
    All,
    /// Those of a repository or a plugin; the user's own entries choose theirs.
    Untrusted,
}

/// A rule of the settings that a server runs in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// The profile, for servers that ask for none, and the bound of others; an error refuses them.
    pub profile: Result<Profile, String>,
    /// Whom it bounds.
    pub bounds: Bounds,
    /// The file that has it.
    pub source: String,
}

impl Requirement {
    /// Creates a requirement.
    pub fn new(
        profile: Result<Profile, String>,
        bounds: Bounds,
        source: impl Into<String>,
    ) -> Self {
        Self {
            profile,
            bounds,
            source: source.into(),
        }
    }
}

/// Profiles by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles(BTreeMap<String, Result<Profile, String>>);

/// The sandbox of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sandbox {
    /// What it asks for, or gets.
    pub profile: Profile,
    /// Profiles that bound it.
    pub ceilings: Vec<Profile>,
    /// Why it is in a sandbox: one sentence per reason.
    pub reasons: Vec<String>,
}

impl Sandbox {
    /// Resolves its words.
    pub fn resolve(&self, places: &Places) -> Result<Rules, String> {
        let mut rules = self.profile.resolve(places)?;
        for ceiling in &self.ceilings {
            rules = rules.and(&ceiling.resolve(places)?);
        }
        Ok(rules)
    }
}

impl Profiles {
    /// Adds a profile, unless there is one of that name: files are added by their strength. An
    /// error refuses the servers that use it.
    pub fn add(&mut self, name: &str, profile: Result<Profile, String>) {
        let profile = profile.map(|profile| Profile {
            name: Some(name.to_owned()),
            ..profile
        });
        self.0.entry(name.to_owned()).or_insert(profile);
    }

    /// Returns a profile.
    pub fn get(&self, name: &str) -> Result<Profile, String> {
        match self.0.get(name) {
            Some(Ok(profile)) => Ok(profile.clone()),
            Some(Err(problem)) => Err(format!("the profile \"{}\": {problem}", shown(name))),
            None if name == DEFAULT_PROFILE => Ok(Profile::default()),
            None => {
                let names: Vec<_> = self.0.keys().map(|name| shown(name)).collect();
                let known = match names.as_slice() {
                    [] => "there is only \"default\"".to_owned(),
                    names => format!("there are \"default\", \"{}\"", names.join("\", \"")),
                };
                Err(format!(
                    "there is no profile \"{}\" in sandboxProfiles; {known}",
                    shown(name)
                ))
            }
        }
    }

    /// Decides about a server; `None` is no sandbox. An error means that it may not start.
    ///
    /// `requirements` are those that apply to it. `is_untrusted` says that its entry is not the
    /// user's own.
    pub fn decide(
        &self,
        request: Option<&Value>,
        dir: Option<&Path>,
        is_untrusted: bool,
        requirements: &[&Requirement],
    ) -> Result<Option<Sandbox>, String> {
        let request = request.map(Request::parse).transpose()?;
        let mut reasons: Vec<String> = requirements
            .iter()
            .map(|rule| format!("{} requires it", rule.source))
            .collect();
        let profile = match &request {
            None | Some(Request::Off) if requirements.is_empty() => return Ok(None),
            None | Some(Request::Off) => {
                // There is one: the list is not empty.
                let first = requirements.iter().map(|rule| rule.profile.clone()).next();
                first.unwrap_or_else(|| Ok(Profile::default()))?
            }
            Some(Request::Named(name)) => self.get(name)?,
            Some(Request::Own { profile, fields }) => {
                Profile::parse_in(fields, &self.get(profile)?, dir)?
            }
        };
        if !matches!(request, None | Some(Request::Off)) {
            reasons.insert(0, "its entry asks for it".to_owned());
        }
        let mut ceilings = Vec::new();
        for rule in requirements {
            let bound = rule.profile.clone()?;
            if is_untrusted || rule.bounds == Bounds::All {
                ceilings.push(bound);
            }
        }
        Ok(Some(Sandbox {
            profile,
            ceilings,
            reasons,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::{GrantedPath, Network};

    fn profiles() -> Profiles {
        let mut profiles = Profiles::default();
        let profile = |value| Profile::parse(&value, &Profile::default());
        profiles.add("web", profile(json!({"network": ["a.com"]})));
        profiles.add("broken", profile(json!({"network": 5})));
        profiles
    }

    #[test]
    fn an_entry_gets_what_it_asks_for() {
        let profiles = profiles();
        let decide = |request| profiles.decide(Some(&request), None, true, &[]);
        assert_eq!(decide(json!(false)), Ok(None));
        assert_eq!(profiles.decide(None, None, true, &[]), Ok(None));
        let network = |request| decide(request).unwrap().unwrap().profile.network;
        assert_eq!(network(json!(true)), Network::None);
        assert!(matches!(network(json!("web")), Network::Hosts(_)));
        assert!(matches!(
            network(json!({"profile": "web"})),
            Network::Hosts(_)
        ));
        let own = decide(json!({"profile": "web", "write": ["project"]}));
        let own = own.unwrap().unwrap().profile;
        assert_eq!(own.write, [GrantedPath::Project]);
        for (request, told) in [
            (json!("wbe"), "no profile \"wbe\""),
            (json!("broken"), "the profile \"broken\""),
            (json!(5), "expected true"),
            (json!(null), "expected true"),
            (json!({"profile": 5}), "expected a name"),
        ] {
            let error = decide(request.clone()).unwrap_err();
            assert!(error.contains(told), "{request}: {error}");
        }
    }

    #[test]
    fn no_entry_evades_a_requirement() {
        let profiles = profiles();
        let places = Places::new("/home/me").project("/work");
        let rule =
            |name: &str, bounds| Requirement::new(profiles.get(name), bounds, "managed.json");
        let rules = |request: Option<&Value>, is_untrusted, rule: &Requirement| {
            let decided = profiles.decide(request, None, is_untrusted, &[rule]);
            decided.unwrap().unwrap().resolve(&places).unwrap()
        };
        let greedy = json!({"read": ["/home"], "write": ["/home"], "network": ["*"]});
        for request in [json!(false), json!(true), greedy.clone(), json!(null)] {
            let request = Some(&request).filter(|request| !request.is_null());
            for (name, bounds) in [
                ("default", Bounds::Untrusted),
                ("default", Bounds::All),
                ("web", Bounds::All),
            ] {
                let rules = rules(request, true, &rule(name, bounds));
                assert!(!rules.can_read("/home/me/.ssh".as_ref()), "{request:?}");
                assert!(!rules.can_write("/home/me/x".as_ref()), "{request:?}");
                assert!(name == "web" || rules.network == Network::None);
            }
        }
        // The user's own entry chooses, unless a profile is named.
        let own = rules(Some(&greedy), false, &rule("default", Bounds::Untrusted));
        assert!(own.can_read("/home/x".as_ref()));
        let bounded = rules(Some(&greedy), false, &rule("web", Bounds::All));
        assert!(!bounded.can_read("/home/x".as_ref()));
        for name in ["gone", "broken"] {
            let rule = rule(name, Bounds::Untrusted);
            assert!(profiles.decide(None, None, false, &[&rule]).is_err());
            assert!(
                profiles
                    .decide(Some(&greedy), None, false, &[&rule])
                    .is_err()
            );
        }
    }
}
