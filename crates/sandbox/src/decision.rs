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

/// The servers that a requirement is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Required {
    /// All.
    All,
    /// Those whose names match this glob.
    Matching(String),
}

/// A rule of the settings that servers run in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// The servers.
    pub servers: Required,
    /// The profile that bounds every one of them; `None` bounds those of a repository by the default
    /// profile, and leaves the choice of a profile to the user's own.
    pub profile: Option<String>,
    /// The file that has it.
    pub source: String,
}

impl Requirement {
    /// Creates a requirement.
    pub fn new(servers: Required, profile: Option<String>, source: impl Into<String>) -> Self {
        Self {
            servers,
            profile,
            source: source.into(),
        }
    }
}

/// The profiles and requirements of all settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    profiles: BTreeMap<String, Result<Profile, String>>,
    /// The requirements.
    pub requirements: Vec<Requirement>,
}

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

impl SandboxSettings {
    /// Adds a profile, unless there is one of that name: files are added by their strength. An error
    /// refuses the servers that use it.
    pub fn add_profile(&mut self, name: &str, profile: Result<Profile, String>) {
        let profile = profile.map(|profile| Profile {
            name: Some(name.to_owned()),
            ..profile
        });
        self.profiles.entry(name.to_owned()).or_insert(profile);
    }

    /// Returns a profile.
    pub fn profile(&self, name: &str) -> Result<Profile, String> {
        match self.profiles.get(name) {
            Some(Ok(profile)) => Ok(profile.clone()),
            Some(Err(problem)) => Err(format!("the profile \"{}\": {problem}", shown(name))),
            None if name == DEFAULT_PROFILE => Ok(Profile::default()),
            None => {
                let names: Vec<_> = self.profiles.keys().map(|name| shown(name)).collect();
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
    /// `requirements` are those that apply to it.
    pub fn decide(
        &self,
        request: Option<&Value>,
        dir: Option<&Path>,
        is_from_repository: bool,
        requirements: &[Requirement],
    ) -> Result<Option<Sandbox>, String> {
        let request = request.map(Request::parse).transpose()?;
        let mut reasons: Vec<String> = requirements
            .iter()
            .map(|rule| format!("{} requires it", rule.source))
            .collect();
        let profile = match &request {
            None | Some(Request::Off) if requirements.is_empty() => return Ok(None),
            None | Some(Request::Off) => {
                let named = requirements.iter().find_map(|rule| rule.profile.as_deref());
                self.profile(named.unwrap_or(DEFAULT_PROFILE))?
            }
            Some(Request::Named(name)) => self.profile(name)?,
            Some(Request::Own { profile, fields }) => {
                Profile::parse_in(fields, &self.profile(profile)?, dir)?
            }
        };
        if !matches!(request, None | Some(Request::Off)) {
            reasons.insert(0, "its entry asks for it".to_owned());
        }
        let mut ceilings = Vec::new();
        for rule in requirements {
            match &rule.profile {
                Some(name) => ceilings.push(self.profile(name)?),
                None if is_from_repository => ceilings.push(self.profile(DEFAULT_PROFILE)?),
                None => {}
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

    fn settings() -> SandboxSettings {
        let mut settings = SandboxSettings::default();
        let profile = |value| Profile::parse(&value, &Profile::default());
        settings.add_profile("web", profile(json!({"network": ["a.com"]})));
        settings.add_profile("broken", profile(json!({"network": 5})));
        settings
    }

    #[test]
    fn an_entry_gets_what_it_asks_for() {
        let settings = settings();
        let decide = |request| settings.decide(Some(&request), None, true, &[]);
        assert_eq!(decide(json!(false)), Ok(None));
        assert_eq!(settings.decide(None, None, true, &[]), Ok(None));
        let network = |request| decide(request).unwrap().unwrap().profile.network;
        assert_eq!(network(json!(true)), Network::None);
        assert!(matches!(network(json!("web")), Network::Hosts(_)));
        assert!(matches!(network(json!({"profile": "web"})), Network::Hosts(_)));
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
        let settings = settings();
        let places = Places::new("/home/me").project("/work");
        let all = |profile: Option<&str>| {
            vec![Requirement::new(Required::All, profile.map(str::to_owned), "managed.json")]
        };
        let rules = |request: Option<Value>, repository, requirements: &[Requirement]| {
            let decided = settings.decide(request.as_ref(), None, repository, requirements);
            decided.unwrap().unwrap().resolve(&places).unwrap()
        };
        let greedy = json!({"read": ["/home"], "write": ["/home"], "network": ["*"]});
        for request in [None, Some(json!(false)), Some(json!(true)), Some(greedy.clone())] {
            for requirement in [None, Some("default"), Some("web")] {
                let rules = rules(request.clone(), true, &all(requirement));
                assert!(!rules.can_read("/home/me/.ssh".as_ref()), "{request:?}");
                assert!(!rules.can_write("/home/me/x".as_ref()), "{request:?}");
                if requirement != Some("web") {
                    assert_eq!(rules.network, Network::None, "{request:?}");
                }
            }
        }
        // The user's own entry chooses, unless a profile is named.
        assert!(rules(Some(greedy.clone()), false, &all(None)).can_read("/home/x".as_ref()));
        let bounded = rules(Some(greedy), false, &all(Some("web")));
        assert!(!bounded.can_read("/home/x".as_ref()));
        let missing = all(Some("gone"));
        assert!(settings.decide(None, None, false, &missing).is_err());
    }
}
