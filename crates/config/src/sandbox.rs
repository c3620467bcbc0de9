//! Sandboxes in settings (SEC-5): profiles by name, and the servers that need one.

use serde_json::Value;
use serde_json::value::RawValue;
use trunkline_sandbox::{
    Bounds, DEFAULT_PROFILE, INHERITED_VARIABLES, Profile, Profiles, Requirement, Sandbox,
};

use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::entry::{Confinement, ServerEntry};
use crate::glob::Glob;
use crate::names::normalize_name;
use crate::scopes::Scope;
use crate::settings::{Origin, Settings};

const PROFILES: &str = "sandboxProfiles";
const REQUIRE: &str = "requireSandbox";

/// `sandboxProfiles` and `requireSandbox` of one file.
#[derive(Debug, Default)]
pub(crate) struct FileSandbox {
    profiles: Vec<(String, Value)>,
    required: Vec<Rule>,
}

/// A rule of `requireSandbox`.
#[derive(Debug)]
struct Rule {
    /// The servers; `None` for all.
    servers: Option<Glob>,
    /// The profile that bounds all of them.
    profile: Option<String>,
}

impl FileSandbox {
    /// Requires a sandbox for all servers, because the rules are unreadable.
    pub(crate) fn require_all() -> Self {
        Self {
            profiles: Vec::new(),
            required: vec![Rule {
                servers: None,
                profile: None,
            }],
        }
    }
}

/// Reads both keys. A repository's profiles do not count.
pub(crate) fn read(
    document: &Document,
    members: &Members,
    origin: Origin,
    diagnostics: &mut Vec<Diagnostic>,
) -> FileSandbox {
    let mut found = FileSandbox::default();
    if matches!(origin, Origin::Managed | Origin::User)
        && let Some(raw) = members.get(PROFILES)
    {
        match document.members(raw) {
            Ok(profiles) => {
                for (name, raw) in profiles.iter() {
                    // An unreadable one refuses the servers that use it.
                    let value = document.decode(raw).unwrap_or_default();
                    if let Err(reason) = Profile::parse(&value, &Profile::default()) {
                        let name = crate::names::quoted_name(name);
                        let message = format!("\"{PROFILES}\": \"{name}\": {reason}");
                        diagnostics.push(document.problem(document.offset(raw), message));
                    }
                    found.profiles.push((name.to_owned(), value));
                }
            }
            Err(problem) => {
                let message = format!("\"{PROFILES}\": {}", problem.message);
                diagnostics.push(document.problem(problem.offset, message));
            }
        }
    }
    for (name, raw) in members.get_all(REQUIRE) {
        if name != REQUIRE {
            let message = format!("\"{name}\": write \"{REQUIRE}\"");
            diagnostics.push(document.problem(document.offset(raw), message));
        }
        let rules = rules(raw).unwrap_or_else(|| {
            let message = format!(
                "\"{REQUIRE}\": expected true, a list of globs, or an object of globs and profiles; \
                 all servers need a sandbox until then"
            );
            diagnostics.push(document.problem(document.offset(raw), message));
            FileSandbox::require_all().required
        });
        found.required.extend(rules);
    }
    found
}

/// The rules in a value; `None` if it is none of the three forms.
fn rules(raw: &RawValue) -> Option<Vec<Rule>> {
    let text: Value = serde_json::from_str(raw.get()).ok()?;
    let rule = |servers: Option<&str>, profile: Option<&str>| Rule {
        servers: servers.map(Glob::new),
        profile: profile.map(str::to_owned),
    };
    match &text {
        Value::Bool(false) => Some(Vec::new()),
        Value::Bool(true) => Some(vec![rule(None, None)]),
        Value::Array(globs) => globs
            .iter()
            .map(|glob| Some(rule(Some(glob.as_str()?), None)))
            .collect(),
        Value::Object(profiles) => profiles
            .iter()
            .map(|(glob, profile)| Some(rule(Some(glob), Some(profile.as_str()?))))
            .collect(),
        _ => None,
    }
}

/// Variables that an entry of a repository may contain in every sandbox: they name the user and the
/// directory, and hold no secret.
const HARMLESS: [&str; 5] = ["HOME", "LOGNAME", "PWD", "SHELL", "USER"];

/// Refuses an entry that takes variables of the user's into a sandbox that the settings require and
/// that does not pass them on: they would be in its command line instead of its environment.
fn refuse_variables(entry: &ServerEntry, sandbox: &Sandbox) -> Result<(), String> {
    let is_passed_on = |name: &String| {
        let mut ceilings = sandbox.ceilings.iter();
        HARMLESS.contains(&name.as_str())
            || INHERITED_VARIABLES.contains(&name.as_str())
            || ceilings.all(|ceiling| ceiling.env.contains(name))
    };
    match entry.variables.iter().find(|name| !is_passed_on(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "it contains your variable {}, which the sandbox that the settings require does not \
             pass on; add it to \"env\" of a profile there, or write the value itself",
            crate::names::quoted_name(name)
        )),
    }
}

/// The sandbox profiles of all settings, and the servers that need one.
#[derive(Clone, Debug, Default)]
pub struct SandboxPolicy {
    profiles: Profiles,
    requirements: Vec<(Option<Glob>, Requirement)>,
}

impl SandboxPolicy {
    /// Collects the settings, managed ones first.
    pub(crate) fn of(settings: &[Settings]) -> Self {
        let mut policy = Self::default();
        let (managed, others): (Vec<_>, Vec<_>) = settings
            .iter()
            .partition(|file| file.origin == Origin::Managed);
        // A managed rule means a managed profile: the user's of that name could be weaker.
        for files in [managed, others] {
            for file in &files {
                for (name, value) in &file.sandbox.profiles {
                    let profile = Profile::parse(value, &Profile::default());
                    policy.profiles.add(name, profile);
                }
            }
            for file in &files {
                for rule in &file.sandbox.required {
                    let name = rule.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
                    let bounds = match rule.profile {
                        Some(_) => Bounds::All,
                        None => Bounds::Untrusted,
                    };
                    let profile = policy.profiles.get(name);
                    let requirement = Requirement::new(profile, bounds, &*file.source);
                    policy
                        .requirements
                        .push((rule.servers.clone(), requirement));
                }
            }
        }
        policy
    }

    /// Decides the sandbox of a server. Only a child process can have one.
    pub fn confine(&self, entry: &mut ServerEntry) {
        if entry.transport.stdio().is_none() && entry.transport.headers_helper().is_none() {
            return;
        }
        let normalized = normalize_name(&entry.name);
        let applies = |glob: &Glob| glob.matches(&entry.name) || glob.matches(&normalized);
        let requirements: Vec<&Requirement> = self
            .requirements
            .iter()
            .filter(|(glob, _)| glob.as_ref().is_none_or(applies))
            .map(|(_, requirement)| requirement)
            .collect();
        if entry.transport.stdio().is_none() {
            if !requirements.is_empty() {
                let reason = "its \"headersHelper\" would run outside of the sandbox that the \
                              settings require";
                entry.confinement = Confinement::Refused(reason.to_owned());
            }
            return;
        }
        let is_untrusted = matches!(entry.scope, Scope::Project | Scope::Plugin);
        let (request, base) = (entry.sandbox.as_ref(), entry.base.as_deref());
        let decided = self
            .profiles
            .decide(request, base, is_untrusted, &requirements);
        let decided = decided.and_then(|sandbox| match &sandbox {
            Some(bounded) if is_untrusted => refuse_variables(entry, bounded).map(|()| sandbox),
            _ => Ok(sandbox),
        });
        entry.confinement = match decided {
            Ok(None) => Confinement::Free,
            Ok(Some(sandbox)) => Confinement::Sandboxed(Box::new(sandbox)),
            Err(reason) => Confinement::Refused(reason),
        };
    }
}
